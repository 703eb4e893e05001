"""A family of kernels has one name in NumPy, in print and in C, and its kernels have every form they should."""

import re
from pathlib import Path

from scare import calibrator, export
from scare.calibrator.kernels import FLOATS, INTEGERS, KERNELS, RULES
from scare.calibrator.plan import SELECT
from scare.export.kernels import FLOAT32, INT8, TENSORS
from scare.export.runtime import KERNEL_HEADERS, declared_functions

STUDIED = "raw_hash_codes"  # the paper's literal hash, for study: it runs in NumPy only
RUNTIME = Path(__file__).parents[2] / "runtime" / "src"


def folders(room: str) -> set[str]:
    return {path.parent.name for path in (Path(room).parent / "kernels").glob("*/__init__.py")}


def test_a_family_is_called_the_same_everywhere() -> None:
    families = FLOATS.families.keys() | INTEGERS.families.keys()
    assert folders(calibrator.__file__) == folders(export.__file__) == families
    assert {path.stem.removesuffix("_f32") for path in (RUNTIME / "kernels").glob("*_f32.c")} == FLOAT32.families.keys()
    assert {path.stem.removesuffix("_s8") for path in (RUNTIME / "kernels").glob("*_s8.c")} == INT8.families.keys()


def test_the_runtime_lists_its_kernel_files() -> None:
    page = (RUNTIME.parent / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(\w+)` \| (yes)? ?\| (yes)? ?\|", page, re.MULTILINE)
    assert {family for family, in_floats, _ in lines if in_floats} == FLOAT32.families.keys()
    assert {family for family, _, in_integers in lines if in_integers} == INT8.families.keys()


def test_a_form_stands_in_the_family_of_its_kernel() -> None:
    for forms in (FLOATS, INTEGERS, RULES, FLOAT32, INT8, TENSORS):
        for family, table in forms.families.items():
            for kernel in table:
                assert family in (FLOATS.family_of(kernel), INTEGERS.family_of(kernel)), kernel


def test_every_kernel_has_its_forms() -> None:
    """In C a choice is a branch, and a board makes the window's steps as readings come."""
    views = {name for name, kernel in FLOATS.items() if not kernel.copies}
    assert FLOAT32.keys() == FLOATS.keys() - {SELECT, STUDIED}
    assert TENSORS.keys() == FLOATS.keys() - {STUDIED}
    assert INT8.keys() == INTEGERS.keys() - {"window_s8"} | views
    assert KERNELS.keys() == FLOATS.keys() | INTEGERS.keys()


def test_c_takes_the_output_then_what_is_read_then_sizes_and_numbers() -> None:
    headers = "".join((RUNTIME / name).read_text(encoding="utf-8") for name in KERNEL_HEADERS)
    found = re.findall(r"^void (scare_\w+)\(([^)]*)\);", headers, re.MULTILINE)
    assert {name for name, _ in found} == declared_functions()
    for name, parameters in found:
        ranks = [2 - ("*" in one) - ("*" in one and "const" not in one) for one in parameters.split(",")]
        assert ranks == sorted(ranks), name
        assert ranks.count(0) == 1, name
