"""Conversion kernels: the window into integers, and the last word out of them."""

from scare.calibrator.kernels.conversion.integers import INTEGERS

__all__ = ["INTEGERS"]
