"""How the conversion kernels are printed."""

from scare.export.kernels.conversion.int8 import INT8

__all__ = ["INT8"]
