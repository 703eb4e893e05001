"""How the linear kernels are printed."""

from scare.export.kernels.linear.float32 import FLOAT32
from scare.export.kernels.linear.int8 import INT8
from scare.export.kernels.linear.tensors import TENSORS

__all__ = ["FLOAT32", "INT8", "TENSORS"]
