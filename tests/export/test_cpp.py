"""The header for C++ does what the functions of C do, without exceptions, allocation or anything to run at the end."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from scare.export.lowering import Arithmetic
from scare.export.package import export_calibrator
from tests.calibrator.building import curve_plan, make_calibrator, with_edges
from tests.export.building import RUNTIME, sources
from tests.export.compilers import GNU, c, call

LONGEST = 200  # lines of a wrapper
MAIN = r"""
#include <stdio.h>
#include "model.h"
#include "scare.hpp"

static scare_cpp::Calibration<MODEL_CHANNELS, MODEL_BYTES> first, second;
static scare_cpp::Calibration<MODEL_CHANNELS + 1, MODEL_BYTES> other;
static uint32_t memory[SCARE_WORDS(MODEL_BYTES)];
static scare plain;

int main() {
    uint8_t blob[MODEL_STORE_BYTES];
    if (other.begin(model) != SCARE_ARGUMENT) return 1;
    if (first.begin(model, model_golden) != SCARE_OK || second.begin(model) != SCARE_OK) return 2;
    if (scare_init(&plain, &model, memory, sizeof memory) != SCARE_OK) return 3;
    for (uint32_t i = 0; i < 80; i++) {
        const uint64_t now = (uint64_t)i * model.step_ms;
        float reading[MODEL_CHANNELS];
        for (float &number : reading) number = 20.0f + (float)(i * 7 % 11);
        if (i == 30) reading[0] = -5.0f;
        if (i == 50) reading[0] = 900.0f;
        if (i == 40 && (first.store(now, blob) != SCARE_OK || second.restore(now, blob) != SCARE_OK)) return 4;
        scare_answer expected;
        const scare_status status = scare_calibrate(&plain, (uint32_t)now, reading, &expected);
        const scare_cpp::Answer answer = (i < 40 ? first : second).calibrate((uint32_t)now, reading);
        if (answer.status != status || answer.flags != expected.flags) return 5;
        if ((status == SCARE_OK) != (bool)answer || answer.explain() != scare_explain(status)) return 6;
        if (answer && (answer.value != expected.value || answer.low != expected.low)) return 7;
        if (answer.has(SCARE_FLAG_OUTSIDE)) puts("outside");
        if (answer.has(SCARE_FLAG_RANGE)) puts("range");
    }
    blob[20] ^= 1;
    if (second.restore(0, blob) != SCARE_DAMAGED || second.c()->filled != 1) return 8;
    return second.reset() == SCARE_OK && !second.c()->filled ? 0 : 9;
}
"""


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_it_calibrates_as_c_does(arithmetic: str, standard: str, tmp_path: Path) -> None:
    calibrator = with_edges(make_calibrator(curve_plan(12)))
    folder = export_calibrator(calibrator, "c", arithmetic, tmp_path / "model", "box-1").folder
    (tmp_path / "main.cpp").write_text(MAIN)
    call([*c("c99"), f"-I{folder / 'src'}", "-c", *sources(folder)], tmp_path)
    compiler = ["g++"] if GNU else [sys.executable, "-m", "ziglang", "c++"]
    strict = ["-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-fno-exceptions", "-fno-rtti"]
    includes = [f"-I{folder}", f"-I{folder / 'src'}"]
    objects = sorted(tmp_path.glob("*.o"))
    call([*compiler, f"-std={standard}", *strict, *includes, "main.cpp", *objects, "-lm", "-o", "main"], tmp_path)
    assert {*call([tmp_path / "main"], tmp_path).split()} == {"range", "outside"}


def test_it_needs_no_library_of_cpp(tmp_path: Path) -> None:
    """Nothing is constructed or destroyed at run time, nothing is allocated or thrown."""
    if shutil.which("nm") is None or not GNU:
        pytest.skip("gcc and binutils (Debian) would run it")
    folder = export_calibrator(make_calibrator(curve_plan(12)), "c", "fixed", tmp_path / "model").folder
    (tmp_path / "main.cpp").write_text(MAIN.replace("static uint32_t memory", "uint32_t memory"))
    flags = ["-std=c++11", "-O1", "-fno-threadsafe-statics", f"-I{folder}", f"-I{folder / 'src'}", "-c"]
    call(["g++", *flags, "main.cpp", "-o", "main.o"], tmp_path)
    names = call(["nm", "-u", "main.o"], tmp_path).replace(" U ", "").split()
    others = {name for name in names if not name.startswith(("scare_", "model"))}
    assert others <= {"puts", "memset", "memcpy", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    assert not re.search(r"\b(new|delete |throw|virtual|std::)\b", (RUNTIME / "scare.hpp").read_text("utf-8"))


def test_it_is_short() -> None:
    assert len((RUNTIME / "scare.hpp").read_text("utf-8").splitlines()) < LONGEST
