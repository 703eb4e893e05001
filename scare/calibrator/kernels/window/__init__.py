"""Window kernels: mixing time, by hats, lenses and bins over the rows of a window."""

from scare.calibrator.kernels.window.floats import FLOATS
from scare.calibrator.kernels.window.integers import INTEGERS
from scare.calibrator.kernels.window.rules import RULES

__all__ = ["FLOATS", "INTEGERS", "RULES"]
