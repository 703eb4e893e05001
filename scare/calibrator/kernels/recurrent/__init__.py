"""Recurrent kernels: a state carried along the rows of one window, of which the last is wanted."""

from scare.calibrator.kernels.recurrent.floats import FLOATS

__all__ = ["FLOATS"]
