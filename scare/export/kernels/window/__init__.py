"""How the window kernels are printed."""

from scare.export.kernels.window.float32 import FLOAT32
from scare.export.kernels.window.int8 import INT8
from scare.export.kernels.window.tensors import TENSORS

__all__ = ["FLOAT32", "INT8", "TENSORS"]
