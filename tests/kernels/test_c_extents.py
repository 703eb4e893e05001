"""Formulas of what C functions reach: one for each pointer, computed alike by text and by code, within 64 bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.export.blob_kernels import HEADER, make_kernel, print_kernels
from scare.export.c_source import IN_TREE, Parameter, declared_functions
from scare.kernels import C_EXTENTS
from scare.kernels.c_extents import compile_formula, encode, evaluate, extents, largest_magnitude

NAMES = ["table", "rows", "width"]
TABLE = np.array([3, 9, 5, 1, 7], np.uint16)
FORMULAS = {
    "rows * (width + 3) - 2": lambda rows, width: rows * (width + 3) - 2,
    "up(rows, 4) // 2 % 7": lambda rows, width: (rows + 3) // 4 * 4 // 2 % 7,
    "max(rows, width) + (rows == width) * 300": lambda rows, width: max(rows, width) + (rows == width) * 300,
    "1 <= rows <= 9": lambda rows, width: 1 <= rows <= 9,
    "rows >= 5 or width < 70000": lambda rows, width: (rows >= 5) + (width < 70000),
    "-5 <= rows - width": lambda rows, width: rows - width >= -5,
    "total(table[1::2]) * rows": lambda rows, width: 10 * rows,
    "largest(table[::2]) + last(table)": lambda rows, width: 7 + 12,
}


@given(st.sampled_from(sorted(FORMULAS)), st.integers(0, 65535), st.integers(0, 65535))
def test_a_formula_is_what_it_says(formula: str, rows: int, width: int) -> None:
    code = compile_formula(formula, NAMES)
    assert evaluate(code, [0, rows, width], {0: TABLE}) == FORMULAS[formula](rows, width)
    found = abs(FORMULAS[formula](rows, width))
    assert found <= largest_magnitude(code, [range(1), range(65536), range(65536)])


@pytest.mark.parametrize("exponent", [0, 31, 32, 70000])
def test_powers_of_two_have_an_end(exponent: int) -> None:
    found = evaluate(compile_formula("2 ** rows", NAMES), [0, exponent, 0], {})
    assert found == (2**exponent if exponent < 32 else None)


def test_a_table_that_is_elsewhere_gives_nothing() -> None:
    assert evaluate(compile_formula("total(table)", NAMES), [0, 0, 0], {}) is None


NO_FORMULAS = ["rows ** 2", "sqrt(rows)", "rows / 2", "rows and width", "2.5", "table[0]"]
NO_SLICES = ["total(table[rows::2])", "total(table[-1::2])", "total(table[1.5::2])", "total(table[1:9:2])"]


@pytest.mark.parametrize("formula", NO_FORMULAS + NO_SLICES)
def test_what_is_no_formula(formula: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        compile_formula(formula, NAMES)


def test_every_c_function_says_how_far_its_pointers_reach() -> None:
    declared = {function.removeprefix("scare_"): parameters for function, parameters in declared_functions().items()}
    assert declared.keys() == C_EXTENTS.keys()
    for function, parameters in declared.items():
        assert {one.name for one in parameters if one.is_pointer} == C_EXTENTS[function].pointers.keys(), function


def test_the_interpreter_has_these_formulas() -> None:
    """If this fails, run python -m scare.export.blob_kernels."""
    assert (IN_TREE / "src" / HEADER).read_text(encoding="utf-8") == print_kernels()


OUT = Parameter("out", "float", True, True)
RUN = Parameter("run", "uint16_t", True, False)
SIZES = tuple(Parameter(name, "uint32_t", False, False) for name in "abcde")


@pytest.mark.parametrize(
    ("what", "parameters", "formulas"),
    [
        ("other pointers", (OUT, *SIZES), {"x": "a"}),
        ("64 bits", (OUT, *SIZES), {"out": "a * b * c * d"}),
        ("no formula before it", (OUT, RUN, *SIZES), {"out": "total(run)", "run": "a"}),
        ("may be negative", (OUT, *SIZES), {"out": "(a - b) // 2"}),
    ],
)
def test_formulas_that_a_board_could_not_compute(
    what: str, parameters: tuple[Parameter, ...], formulas: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=what):
        make_kernel("scare_new_f32", parameters, extents(**formulas))


def test_the_identity_follows_the_arguments() -> None:
    made = [
        make_kernel("scare_new_f32", (OUT, RUN, *SIZES), extents(run=run, out="a", where=where))
        for run, where in (("a", ""), ("a", ""), ("b", ""), ("a", "a < 9"))
    ]
    renamed = tuple(one._replace(name=one.name * 2) for one in (OUT, RUN, *SIZES))
    other = make_kernel("scare_new_f32", renamed, extents(runrun="aa", outout="aa"))
    identities = [kernel.identity for kernel in made]
    assert identities[0] == identities[1] == other.identity
    assert len(set(identities)) == 3


def test_constants_of_every_length() -> None:
    for number in (0, 255, 256, 65535, 65536, 2**32 - 1):
        code = compile_formula(f"{number}", [])
        assert evaluate(code, [], {}) == number
        assert len(encode(code)) in (2, 3, 5)
