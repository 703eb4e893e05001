"""What is printed compiles without a warning, computes what the program says, and is the same again."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.board.build import STRICT, compile_c
from scare.errors import DataError
from scare.export.c_source import print_golden, print_header, print_number, print_source
from scare.export.descriptor import encode_windows
from scare.kernels import Choice, choose
from scare.kernels.c_arguments import CCall, CTable, CValue, Program
from tests.export.building import (
    CHANNELS,
    COUNT,
    NUMBERS,
    ROWS,
    WINDOW_VALUE,
    LoadedModel,
    Y,
    branch_program,
    codes_program,
    compile_models,
    compile_with_gcc,
    dot,
    dot_program,
    make_model,
    sources,
    strict_gcc,
    sum_program,
    write_model,
)

PROGRAMS = {"of_dots": dot_program, "of_sums": sum_program, "of_codes": codes_program, "of_branches": branch_program}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedModel]:
    folder = tmp_path_factory.mktemp("printed")
    models = {name: make_model(make(), name=name) for name, make in PROGRAMS.items()}
    return compile_models({name: write_model(model, folder / name) for name, model in models.items()}, folder)


def windows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, ROWS, CHANNELS)).astype(np.float32)


# numbers


@given(number=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_printed_exactly(number: float) -> None:
    text = print_number(number)
    assert text.endswith("f")
    assert float.fromhex(text[:-1]) == number
    assert np.signbit(float.fromhex(text[:-1])) == np.signbit(number)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e300])
def test_a_number_that_is_not_finite_is_refused(number: float) -> None:
    with pytest.raises(DataError, match="only finite ones"):
        print_number(number)


def test_a_table_with_such_a_number_is_refused() -> None:
    weight = np.array([np.nan, *NUMBERS[1:]], np.float32)
    with pytest.raises(DataError, match="only finite ones"):
        print_source(make_model(Program("float", ROWS, CHANNELS, (dot(WINDOW_VALUE, Y, weight, 0.0),), Y)))


# text


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_gcc_has_nothing_to_say(make: type, tmp_path: Path) -> None:
    folder = write_model(make_model(make()), tmp_path / "model")
    for source in sources(folder):
        strict_gcc([source], tmp_path / f"{source.stem}.o", "-c")


def test_the_header_is_cpp_too(tmp_path: Path) -> None:
    folder = write_model(make_model(codes_program()), tmp_path / "model")
    use = tmp_path / "use.cpp"
    use.write_text('#include "model.h"\nconst scare_model *used() { return &model; }\n')
    flags = ("-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{folder}", "-c")
    compile_with_gcc([use], tmp_path / "use.o", *flags, compiler="g++")


def test_the_same_model_gives_the_same_text() -> None:
    first, again = make_model(branch_program()), make_model(branch_program())
    assert print_header(first) == print_header(again)
    assert print_source(first) == print_source(again)


def test_no_line_is_too_long_and_none_ends_in_space() -> None:
    for make in PROGRAMS.values():
        model = replace(make_model(make()), title="as long as a title may be " * 9)
        for line in f"{print_source(model)}{print_header(model)}".splitlines():
            assert len(line) <= 120
            assert line == line.rstrip()


def test_equal_tables_are_printed_once() -> None:
    first, second = CValue("first", "float", (1,)), CValue("second", "float", (1,))
    calls = (
        dot(WINDOW_VALUE, first, NUMBERS, 0.0, "weight of a"),
        dot(WINDOW_VALUE, second, NUMBERS.copy(), 1.0, "weight of b"),
        dot(WINDOW_VALUE, Y, NUMBERS + 1, 1.0, "weight of c"),
    )
    model = make_model(Program("float", ROWS, CHANNELS, calls, Y))
    assert re.findall(r"static const float (table_\w+)\[10\]", print_source(model)) == [
        "table_weight_of_a",
        "table_weight_of_c",
    ]
    assert model.table_bytes == 2 * 4 * COUNT


def test_any_name_is_made_a_name_of_c(tmp_path: Path) -> None:
    names = ["float", "Q", "q", "block 0/x*/", "1st", "run", "model", "müll", "q_2", "memory", "table_weight"]
    values = [CValue(name, "float", (1,)) for name in names]
    calls = tuple(dot(WINDOW_VALUE, one, NUMBERS, 0.0, "weight") for one in values)
    model = make_model(Program("float", ROWS, CHANNELS, calls, values[-1]))
    model = replace(model, title="a */ b /* c", labels=("*/ int x;", "two\nlines"))
    folder = write_model(model, tmp_path / "model")
    compiled = compile_models({"model": folder}, tmp_path)["model"]
    assert_allclose(compiled.run(windows(1)), windows(1).ravel() @ NUMBERS, rtol=1e-5)


def test_the_sizes_are_in_the_header() -> None:
    model = make_model(codes_program())
    constants = dict(re.findall(r"#define MODEL_(\w+) \(?(\d+)", print_header(model)))
    assert constants == {
        "WINDOW": "5",
        "CHANNELS": "2",
        "SCRATCH_BYTES": "44",
        "BYTES": str(40 + 4 + 44),
        "STACK_BYTES": "640",
        "STORE_BYTES": str(48 + 4 + 40 + 4),  # head, real bits, window, checksum
        "STORE_ROUNDED_BYTES": str(48 + 4 + 40 + 4),  # a window of five rows cannot be rounded
        "KEPT_HASH_CODES_OFFSET": str(model.layout.places["hash codes"].offset),
        "KEPT_HASH_CODES_BYTES": "40",
    }


def test_small_numbers_are_aligned_to_a_word() -> None:
    assert "static const int8_t table_weight[10] __attribute__((aligned(4))) = {" in print_source(
        make_model(sum_program())
    )


@pytest.mark.parametrize(
    ("values", "kind", "first"),
    [
        (np.array([-(2**31), 5], np.int32), "int32_t", "INT32_MIN, 5,"),
        (np.array([2**32 - 1, 5], np.uint32), "uint32_t", "4294967295u, 5u,"),
        (np.array([-128, 5], np.int8), "int8_t", "-128, 5,"),
        (np.array([65535, 5], np.uint16), "uint16_t", "65535, 5,"),
    ],
)
def test_whole_numbers_of_every_kind_compile(values: np.ndarray, kind: str, first: str, tmp_path: Path) -> None:
    call = CCall("test_any", (WINDOW_VALUE, CTable(values, "table"), Y), Y)
    model = make_model(Program("float", ROWS, CHANNELS, (call,), Y))
    folder = write_model(model, tmp_path / "model")
    kernels = folder / "src" / "scare_kernels.h"
    any_kernel = f"void test_any(const float *x, const {kind} *table, float *y);\n"
    kernels.write_text(f"#include <stdint.h>\n{any_kernel}")
    assert f"static const {kind} table_table[2]" in print_source(model)
    assert first in print_source(model)
    compile_c([folder / "model.c"], tmp_path / "model.o", ["-c", *STRICT])


# what it computes


def test_a_run_computes_the_program(compiled: dict[str, LoadedModel]) -> None:
    for window in windows(5):
        assert_allclose(compiled["of_dots"].run(window), window.ravel() @ NUMBERS + 0.1, rtol=1e-5)


def test_an_integer_window_lies_channel_after_channel(compiled: dict[str, LoadedModel]) -> None:
    whole = encode_windows(windows(5), sum_program().quanta)
    for window, scaled in zip(whole, windows(5), strict=True):
        rows = len(scaled)  # an odd window is padded to an even stride
        assert_array_equal(window[1, :rows], np.floor(scaled[:, 1] * np.float32(30) + np.float32(0.5)))
        assert_array_equal(window[:, rows:], 0)
        assert compiled["of_sums"].run(window) == 0.25 * float(window.ravel()[:COUNT] @ np.arange(-5, 5))


def test_what_is_kept_is_where_the_header_says(compiled: dict[str, LoadedModel]) -> None:
    offset = make_model(codes_program()).layout.places["hash codes"].offset
    for window in windows(5):
        assert compiled["of_codes"].run(window) == np.count_nonzero(window >= 0)
        assert_array_equal(compiled["of_codes"].scratch(offset, COUNT), window.ravel() >= 0)


def test_a_branch_is_chosen_and_stays_chosen_as_in_a_stream(compiled: dict[str, LoadedModel]) -> None:
    choice, carried = np.zeros(2, np.uint32), Choice()
    for window in windows(60):
        decision = np.array([window[0, 0] + np.float32(0.5)])
        deep = choose(decision, {"deep_period": 2, "simple_period": 3}, carried)[0]
        expected = window.ravel() @ NUMBERS + 0.1 if deep else 2 * window[-1, 0] + 1
        assert_allclose(compiled["of_branches"].run(window, choice), expected, rtol=1e-5, atol=1e-6)
        assert (choice == [carried.left, carried.deep]).all()


# golden windows


@pytest.mark.parametrize("make", [dot_program, sum_program])
def test_golden_windows_give_the_results_beside_them(make: type, tmp_path: Path) -> None:
    program = make()
    model = make_model(program)
    read = encode_windows(windows(3), program.quanta)
    results, tolerances = np.array([0.5, -1.25, 3.0]), np.array([0.0, 0.25, 2.0])
    folder = write_model(model, tmp_path / "model")
    (folder / "golden.h").write_text(print_golden(model, read, results, tolerances))
    check = tmp_path / "check.c"
    check.write_text(
        '#include "model.h"\n#include "golden.h"\n'
        "const void *window(int at);\nfloat farthest(int at);\n"
        "const void *window(int at) { return model_golden_windows[at % MODEL_GOLDEN]; }\n"
        "float farthest(int at) { return model_golden_results[at] + model_golden_tolerances[at]; }\n"
    )
    compile_c([check], tmp_path / "check.o", ["-c", *STRICT], [folder])
    text = (folder / "golden.h").read_text()
    numbers = re.findall(r"[-x0-9a-fp.+]+(?=,)", text.split("_windows[")[1])
    printed = [float.fromhex(one.rstrip("f")) if "x" in one else float(one) for one in numbers]
    assert_array_equal(printed, [*read.ravel(), *results, *tolerances])


def test_no_golden_window_is_no_array() -> None:
    text = print_golden(make_model(dot_program()), np.empty((0, ROWS, CHANNELS), np.float32), np.empty(0), np.empty(0))
    assert "#define MODEL_GOLDEN 0" in text
    assert "static" not in text
