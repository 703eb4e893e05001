"""Formula kernels: what published corrections and curves are made of."""

from scare.calibrator.kernels.formulas.floats import FLOATS
from scare.calibrator.kernels.formulas.integers import INTEGERS
from scare.calibrator.kernels.formulas.rules import RULES

__all__ = ["FLOATS", "INTEGERS", "RULES"]
