"""A family of kernels has one name in NumPy, in print and in C, and its kernels have every form they should."""

import re
from pathlib import Path

from scare import kernels
from scare.calibrator.plan import SELECT
from scare.export.c_source import KERNEL_HEADERS, declared_functions
from scare.kernels import C_FIXED, C_FLOAT32, FIXED_KERNELS, FLOAT_KERNELS, KERNELS, QUANTISATION, TENSOR_FORMS

STUDIED = "raw_hash_codes"  # the paper's literal hash, for study: it runs in NumPy only
RUNTIME = Path(__file__).parents[2] / "runtime" / "src"


def test_a_family_is_called_the_same_everywhere() -> None:
    families = FLOAT_KERNELS.families.keys() | FIXED_KERNELS.families.keys()
    shared = {"__init__", "contract", "fixed_point", "c_arguments", "c_extents", "tensor"}
    assert {path.stem for path in Path(kernels.__file__).parent.glob("*.py")} - shared == families
    assert {
        path.stem.removesuffix("_f32") for path in (RUNTIME / "kernels").glob("*_f32.c")
    } == C_FLOAT32.families.keys()
    assert {path.stem.removesuffix("_q") for path in (RUNTIME / "kernels").glob("*_q.c")} == C_FIXED.families.keys()


def test_the_runtime_lists_its_kernel_files() -> None:
    page = (RUNTIME.parent / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(\w+)` \| (yes)? ?\| (yes)? ?\|", page, re.MULTILINE)
    assert {family for family, in_floats, _ in lines if in_floats} == C_FLOAT32.families.keys()
    assert {family for family, _, in_fixed in lines if in_fixed} == C_FIXED.families.keys()


def test_a_form_stands_in_the_family_of_its_kernel() -> None:
    for forms in (FLOAT_KERNELS, FIXED_KERNELS, QUANTISATION, C_FLOAT32, C_FIXED, TENSOR_FORMS):
        for family, table in forms.families.items():
            for kernel in table:
                assert family in (FLOAT_KERNELS.family_of(kernel), FIXED_KERNELS.family_of(kernel)), kernel


def test_every_kernel_has_its_forms() -> None:
    """In C a choice is a branch, and a board makes the window's steps as readings come."""
    views = {name for name, kernel in FLOAT_KERNELS.items() if not kernel.copies}
    assert C_FLOAT32.keys() == FLOAT_KERNELS.keys() - {SELECT, STUDIED}
    assert TENSOR_FORMS.keys() == FLOAT_KERNELS.keys() - {STUDIED}
    assert C_FIXED.keys() == FIXED_KERNELS.keys() - {"window_q"} | views
    assert KERNELS.keys() == FLOAT_KERNELS.keys() | FIXED_KERNELS.keys()


def test_c_takes_the_output_then_what_is_read_then_sizes_and_numbers() -> None:
    headers = "".join((RUNTIME / name).read_text(encoding="utf-8") for name in KERNEL_HEADERS)
    found = re.findall(r"^void (scare_\w+)\(([^)]*)\);", headers, re.MULTILINE)
    assert {name for name, _ in found} == declared_functions().keys()
    for name, parameters in found:
        ranks = [2 - ("*" in one) - ("*" in one and "const" not in one) for one in parameters.split(",")]
        assert ranks == sorted(ranks), name
        assert ranks.count(0) == 1, name
