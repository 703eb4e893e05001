"""How the patch kernels are printed."""

from scare.export.kernels.patches.float32 import FLOAT32
from scare.export.kernels.patches.tensors import TENSORS

__all__ = ["FLOAT32", "TENSORS"]
