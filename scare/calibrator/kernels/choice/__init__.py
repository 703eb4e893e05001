"""Choice kernels: a plan that decides for each window which of its two branches to run."""

from scare.calibrator.kernels.choice.floats import FLOATS

__all__ = ["FLOATS"]
