"""Kernels are what a plan may call: for each operation its NumPy body, its output's shape and its cost.

Bodies work on a batch in front of the shapes given here (x [T, C] is an array [batch, T, C]) in the number type
of their weights. A kernel is named in three places by one word: here, in C as `scare_<operation>_<type>`, and
in its test `test_<operation>`. Counted are multiply-adds, additions, bit operations (XOR or popcount of one
word), exponentials, and divisions (square roots among them); moving data, comparing and starting an
accumulator at a bias are free.
"""

from scare.calibrator.kernels.attention import ATTENTION, bitwise_attention, hash_activations
from scare.calibrator.kernels.choice import CHOICE, PERIODS, Choice, choose
from scare.calibrator.kernels.formulas import FORMULAS
from scare.calibrator.kernels.fused import FUSED
from scare.calibrator.kernels.integer import INTEGER
from scare.calibrator.kernels.kernel import Kernel, Operations, Shape, expect
from scare.calibrator.kernels.linear import LINEAR, hat_fractions, hat_matrix
from scare.calibrator.kernels.patches import PATCHES, count_patches, patch_rows
from scare.calibrator.kernels.pointwise import POINTWISE
from scare.calibrator.kernels.recurrent import RECURRENT
from scare.calibrator.kernels.state_space import STATE_SPACE

KERNELS: dict[str, Kernel] = {
    **LINEAR,
    **POINTWISE,
    **ATTENTION,
    **STATE_SPACE,
    **PATCHES,
    **FORMULAS,
    **CHOICE,
    **RECURRENT,
    **FUSED,
    **INTEGER,
}

__all__ = [
    "KERNELS",
    "PERIODS",
    "Choice",
    "Kernel",
    "Operations",
    "Shape",
    "bitwise_attention",
    "choose",
    "count_patches",
    "expect",
    "hash_activations",
    "hat_fractions",
    "hat_matrix",
    "patch_rows",
]
