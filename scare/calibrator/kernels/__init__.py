"""Kernels are what a plan may call. A family of kernels is a folder, each form of its kernels a file with a table.

`floats.py` has for each operation its NumPy body, its output's shape and its cost; `integers.py` the same for its twin
in integers, called `<operation>_s8`; `rules.py` how the one becomes the other (`integer_rule`, `rounding`). How both
are printed stands in the folder of the same name in `export/kernels`, their C, `scare_<operation>_<type>`,
in `runtime/src/kernels/`.

Bodies work on a batch in front of the shapes given here (x [T, C] is an array [batch, T, C]) in the number type
of their weights. Counted are multiply-adds, additions, bit operations (XOR or popcount of one word), exponentials, and
divisions (square roots among them); moving data, comparing and starting an accumulator at a bias are free.
"""

from collections import ChainMap
from collections.abc import Mapping

from scare.calibrator.kernels import (
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
from scare.calibrator.kernels.attention.floats import ACTIVATIONS, bitwise_attention, hash_activations
from scare.calibrator.kernels.choice.floats import PERIODS, THRESHOLD, Choice, Choices, choose
from scare.calibrator.kernels.conversion.integers import window_s8
from scare.calibrator.kernels.fixed import FULL
from scare.calibrator.kernels.forms import Forms
from scare.calibrator.kernels.integer_rule import Rule
from scare.calibrator.kernels.kernel import INPUT, Kernel, Operations, Shape, Step, expect
from scare.calibrator.kernels.patches.floats import count_patches, patch_rows
from scare.calibrator.kernels.window.floats import hat_fractions, hat_matrix

FLOATS: Forms[Kernel] = Forms(
    "NumPy form",
    "scare/calibrator/kernels/{}/floats.py",
    window=window.FLOATS,
    linear=linear.FLOATS,
    pointwise=pointwise.FLOATS,
    attention=attention.FLOATS,
    state_space=state_space.FLOATS,
    patches=patches.FLOATS,
    formulas=formulas.FLOATS,
    choice=choice.FLOATS,
    recurrent=recurrent.FLOATS,
    fused=fused.FLOATS,
)
INTEGERS: Forms[Kernel] = Forms(
    "integer form",
    "scare/calibrator/kernels/{}/integers.py",
    FLOATS,
    window=window.INTEGERS,
    linear=linear.INTEGERS,
    pointwise=pointwise.INTEGERS,
    attention=attention.INTEGERS,
    formulas=formulas.INTEGERS,
    fused=fused.INTEGERS,
    conversion=conversion.INTEGERS,
)
RULES: Forms[Rule] = Forms(
    "rule for integers",
    "scare/calibrator/kernels/{}/rules.py",
    FLOATS,
    window=window.RULES,
    linear=linear.RULES,
    pointwise=pointwise.RULES,
    attention=attention.RULES,
    formulas=formulas.RULES,
    fused=fused.RULES,
)
KERNELS: Mapping[str, Kernel] = ChainMap(*FLOATS.maps, *INTEGERS.maps)

__all__ = [
    "ACTIVATIONS",
    "FLOATS",
    "FULL",
    "INPUT",
    "INTEGERS",
    "KERNELS",
    "PERIODS",
    "RULES",
    "THRESHOLD",
    "Choice",
    "Choices",
    "Forms",
    "Kernel",
    "Operations",
    "Rule",
    "Shape",
    "Step",
    "bitwise_attention",
    "choose",
    "count_patches",
    "expect",
    "hash_activations",
    "hat_fractions",
    "hat_matrix",
    "patch_rows",
    "window_s8",
]
