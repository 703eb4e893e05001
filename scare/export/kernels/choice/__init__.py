"""How the choice kernels are printed."""

from scare.export.kernels.choice.float32 import FLOAT32
from scare.export.kernels.choice.tensors import TENSORS

__all__ = ["FLOAT32", "TENSORS"]
