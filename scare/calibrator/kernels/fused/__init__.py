"""Fused kernels: several steps as one, so that what lies between them never needs memory."""

from scare.calibrator.kernels.fused.floats import FLOATS
from scare.calibrator.kernels.fused.integers import INTEGERS
from scare.calibrator.kernels.fused.rules import RULES

__all__ = ["FLOATS", "INTEGERS", "RULES"]
