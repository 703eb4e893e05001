"""How the state-space kernels are printed."""

from scare.export.kernels.state_space.float32 import FLOAT32
from scare.export.kernels.state_space.tensors import TENSORS

__all__ = ["FLOAT32", "TENSORS"]
