"""Pointwise kernels: sums, cut-offs, norms, and other views of the same numbers."""

from scare.calibrator.kernels.pointwise.floats import FLOATS
from scare.calibrator.kernels.pointwise.integers import INTEGERS
from scare.calibrator.kernels.pointwise.rules import RULES

__all__ = ["FLOATS", "INTEGERS", "RULES"]
