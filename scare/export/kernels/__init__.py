"""How kernels are printed, a folder for each family of `calibrator.kernels`, each form a file with a table.

`float32.py` and `int8.py` say what a kernel's C function is called with, `tensors.py` writes it as tensor operations. A
family has the files of those forms that its kernels have.
"""

from scare.calibrator.kernels import FLOATS, INTEGERS, Forms
from scare.export.kernels import (
    attention,
    choice,
    conversion,
    formulas,
    fused,
    linear,
    patches,
    pointwise,
    recurrent,
    state_space,
    window,
)
from scare.export.kernels.c_form import MakeForm
from scare.export.tensors.tensor import MakeTensor

FLOAT32: Forms[MakeForm] = Forms(
    "float32 C form",
    "scare/export/kernels/{}/float32.py",
    FLOATS,
    window=window.FLOAT32,
    linear=linear.FLOAT32,
    pointwise=pointwise.FLOAT32,
    attention=attention.FLOAT32,
    state_space=state_space.FLOAT32,
    patches=patches.FLOAT32,
    formulas=formulas.FLOAT32,
    choice=choice.FLOAT32,
    recurrent=recurrent.FLOAT32,
    fused=fused.FLOAT32,
)
INT8: Forms[MakeForm] = Forms(
    "int8 C form",
    "scare/export/kernels/{}/int8.py",
    INTEGERS,
    window=window.INT8,
    linear=linear.INT8,
    pointwise=pointwise.INT8,
    attention=attention.INT8,
    formulas=formulas.INT8,
    fused=fused.INT8,
    conversion=conversion.INT8,
)
TENSORS: Forms[MakeTensor] = Forms(
    "tensor form",
    "scare/export/kernels/{}/tensors.py",
    FLOATS,
    window=window.TENSORS,
    linear=linear.TENSORS,
    pointwise=pointwise.TENSORS,
    attention=attention.TENSORS,
    state_space=state_space.TENSORS,
    patches=patches.TENSORS,
    formulas=formulas.TENSORS,
    choice=choice.TENSORS,
    recurrent=recurrent.TENSORS,
    fused=fused.TENSORS,
)

__all__ = ["FLOAT32", "INT8", "TENSORS"]
