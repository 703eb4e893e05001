"""Linear kernels: mixing features, and what makes tokens cheap."""

from scare.calibrator.kernels.linear.floats import FLOATS
from scare.calibrator.kernels.linear.integers import INTEGERS
from scare.calibrator.kernels.linear.rules import RULES

__all__ = ["FLOATS", "INTEGERS", "RULES"]
