"""How the pointwise kernels are printed."""

from scare.export.kernels.pointwise.float32 import FLOAT32
from scare.export.kernels.pointwise.int8 import INT8
from scare.export.kernels.pointwise.tensors import TENSORS

__all__ = ["FLOAT32", "INT8", "TENSORS"]
