"""How the attention kernels are printed."""

from scare.export.kernels.attention.float32 import FLOAT32
from scare.export.kernels.attention.int8 import INT8
from scare.export.kernels.attention.tensors import TENSORS

__all__ = ["FLOAT32", "INT8", "TENSORS"]
