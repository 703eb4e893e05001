"""How the formula kernels are printed."""

from scare.export.kernels.formulas.float32 import FLOAT32
from scare.export.kernels.formulas.int8 import INT8
from scare.export.kernels.formulas.tensors import TENSORS

__all__ = ["FLOAT32", "INT8", "TENSORS"]
