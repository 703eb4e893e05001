"""Attention kernels: hash codes, attention on bits pair by pair or through a memory, attention with softmax."""

from scare.calibrator.kernels.attention.floats import FLOATS
from scare.calibrator.kernels.attention.integers import INTEGERS
from scare.calibrator.kernels.attention.rules import RULES

__all__ = ["FLOATS", "INTEGERS", "RULES"]
