"""Kernels: the operations that a plan is made of. One file per family, with all forms of its kernels.

    attention.py                 runtime/src/kernels/attention_f32.c, attention_q.c
      hash_codes                 NumPy body, output shape, cost           FLOAT_KERNELS
      hash_codes_q               fixed-point body, bit for bit as in C    FIXED_KERNELS
      _quantise_hash             from the float to the fixed-point step   QUANTISATION
      _c_hash_codes_f32, …_q     arguments of the C functions             C_FLOAT32, C_FIXED
      hash_codes_f32, …_q        how far their pointers reach             C_EXTENTS
      _tensor_hash_codes         TensorFlow Lite, ONNX, MicroPython       TENSOR_FORMS

Each file goes kernel by kernel in this order and ends in the dicts. Bodies work on a batch in front of the shapes given
here (x [T, C] is an array [batch, T, C]) in the number type of their weights. Costs count multiply-adds, additions, bit
operations (XOR or popcount of one word), exponentials, and divisions (square roots among them); moving data, comparing
(but in trees, which do little else) and starting an accumulator at a bias are free.
"""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from scare.kernels import (
    attention,
    choice,
    formulas,
    fused,
    linear,
    patches,
    pointwise,
    recurrent,
    state_space,
    trees,
    window,
)
from scare.kernels.attention import ACTIVATIONS, bitwise_attention, hash_activations
from scare.kernels.c_arguments import MakeForm
from scare.kernels.c_extents import Extents
from scare.kernels.choice import PERIODS, THRESHOLD, BatchChoice, Choice, choose
from scare.kernels.contract import INPUT, Codes, Kernel, KernelTable, Operations, Shape, Step, expect
from scare.kernels.fixed_point import FULL, QuantisationRule
from scare.kernels.linear import dense_step
from scare.kernels.patches import count_patches, patch_rows
from scare.kernels.pointwise import add_step, window_q
from scare.kernels.tensor import MakeTensor
from scare.kernels.window import hat_fractions, hat_matrix

_FAMILIES = {
    "window": window,
    "linear": linear,
    "pointwise": pointwise,
    "attention": attention,
    "state_space": state_space,
    "patches": patches,
    "formulas": formulas,
    "choice": choice,
    "recurrent": recurrent,
    "fused": fused,
    "trees": trees,
}


def _family_tables(form: str) -> dict[str, Any]:
    return {name: getattr(family, form) for name, family in _FAMILIES.items() if hasattr(family, form)}


FLOAT_KERNELS: KernelTable[Kernel] = KernelTable("NumPy form", _family_tables("FLOAT_KERNELS"))
FIXED_KERNELS: KernelTable[Kernel] = KernelTable("fixed-point form", _family_tables("FIXED_KERNELS"), FLOAT_KERNELS)
QUANTISATION: KernelTable[QuantisationRule] = KernelTable(
    "quantisation rule", _family_tables("QUANTISATION"), FLOAT_KERNELS
)
C_FLOAT32: KernelTable[MakeForm] = KernelTable("float32 C form", _family_tables("C_FLOAT32"), FLOAT_KERNELS)
C_FIXED: KernelTable[MakeForm] = KernelTable("fixed-point C form", _family_tables("C_FIXED"), FIXED_KERNELS)
C_EXTENTS: Mapping[str, Extents] = ChainMap(*_family_tables("C_EXTENTS").values())
TENSOR_FORMS: KernelTable[MakeTensor] = KernelTable("tensor form", _family_tables("TENSOR_FORMS"), FLOAT_KERNELS)
CODES: KernelTable[Codes] = KernelTable("codes", _family_tables("CODES"), FLOAT_KERNELS)
KERNELS: Mapping[str, Kernel] = ChainMap(*FLOAT_KERNELS.maps, *FIXED_KERNELS.maps)

__all__ = [
    "ACTIVATIONS",
    "CODES",
    "C_EXTENTS",
    "C_FIXED",
    "C_FLOAT32",
    "FIXED_KERNELS",
    "FLOAT_KERNELS",
    "FULL",
    "INPUT",
    "KERNELS",
    "PERIODS",
    "QUANTISATION",
    "TENSOR_FORMS",
    "THRESHOLD",
    "BatchChoice",
    "Choice",
    "Codes",
    "Kernel",
    "KernelTable",
    "Operations",
    "QuantisationRule",
    "Shape",
    "Step",
    "add_step",
    "bitwise_attention",
    "choose",
    "count_patches",
    "dense_step",
    "expect",
    "hash_activations",
    "hat_fractions",
    "hat_matrix",
    "patch_rows",
    "window_q",
]
