"""State-space kernels: what a selective state space needs for the output at the newest row."""

from scare.calibrator.kernels.state_space.floats import FLOATS

__all__ = ["FLOATS"]
