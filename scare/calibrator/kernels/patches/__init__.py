"""Patch kernels: a window as overlapping patches, a window's own scale, and a scale per feature."""

from scare.calibrator.kernels.patches.floats import FLOATS

__all__ = ["FLOATS"]
