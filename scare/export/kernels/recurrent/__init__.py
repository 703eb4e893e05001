"""How the recurrent kernels are printed."""

from scare.export.kernels.recurrent.float32 import FLOAT32
from scare.export.kernels.recurrent.tensors import TENSORS

__all__ = ["FLOAT32", "TENSORS"]
