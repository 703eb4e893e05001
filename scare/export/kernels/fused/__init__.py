"""How the fused kernels are printed."""

from scare.export.kernels.fused.float32 import FLOAT32
from scare.export.kernels.fused.int8 import INT8
from scare.export.kernels.fused.tensors import TENSORS

__all__ = ["FLOAT32", "INT8", "TENSORS"]
