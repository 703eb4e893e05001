"""Programs made by hand with the kernels they call, and exported models compiled and run here."""

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from scare.board.build import STANDARD, STRICT, compile_c, library_name
from scare.board.host import ANSWER_TYPE
from scare.calibrator.calibrator import Calibrator
from scare.export.c_source import CModel, SelfTest, print_header, print_source
from scare.export.descriptor import make_descriptor
from scare.export.memory_layout import plan_memory
from scare.kernels.c_arguments import WINDOW_NAME, Branch, CCall, CTable, CValue, Program
from tests.calibrator.building import make_calibrator, newest_plan

RUNTIME = Path(__file__).parents[2] / "runtime" / "src"
ROWS, CHANNELS = 5, 2
COUNT = ROWS * CHANNELS
NUMBERS = np.random.default_rng(3).normal(size=COUNT).astype(np.float32)
WINDOW_VALUE = CValue(WINDOW_NAME, "float", (ROWS, CHANNELS))
Y = CValue("y", "float", (1,))
PAST, SETTLE, PAST_BYTES = "-DSCARE_PAST=1", "-DSCARE_SETTLE=1", 16  # of each channel

KERNELS = """#ifndef SCARE_KERNELS_H
#define SCARE_KERNELS_H
#include <stdint.h>
static inline void test_dot(const float *x, const float *weight, float bias, float *y, int count) {
    float sum = bias;
    for (int i = 0; i < count; i++) {
        sum += x[i] * weight[i];
    }
    y[0] = sum;
}
static inline void test_sum(const int16_t *x, const int8_t *weight, float unit, float *y, int count) {
    int32_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += x[i] * weight[i];
    }
    y[0] = (float)sum * unit;
}
static inline void test_signs(const float *x, uint32_t *codes, int count) {
    for (int i = 0; i < count; i++) {
        codes[i] = x[i] >= 0.0f;
    }
}
static inline void test_count(const uint32_t *codes, float *y, int count) {
    float sum = 0.0f;
    for (int i = 0; i < count; i++) {
        sum += (float)codes[i];
    }
    y[0] = sum;
}
#endif
"""

ACCESS = """#include "scare.h"
extern const scare_model {names};
extern const scare_golden {golden};
const scare_model *get_model(int index);
const scare_golden *get_golden(int index);
unsigned size_of_calibration(void);
void run_model(const scare_model *one, const void *window, void *scratch, scare_choice *choice, float *scaled);
const scare_model *get_model(int index) {{
    static const scare_model *const models[] = {{{pointers}}};
    return models[index];
}}
const scare_golden *get_golden(int index) {{
    static const scare_golden *const vectors[] = {{{vectors}}};
    return vectors[index];
}}
unsigned size_of_calibration(void) {{ return sizeof(scare); }}
void run_model(const scare_model *one, const void *window, void *scratch, scare_choice *choice, float *scaled) {{
    one->run(window, scratch, choice, scaled, one);
}}
"""


def dot(source: CValue, output: CValue, weight: np.ndarray, bias: float, about: str = "weight") -> CCall:
    return CCall("test_dot", (source, CTable(weight, about), bias, output, len(weight)), output)


def dot_program() -> Program:
    """A weighted sum of all numbers of the window."""
    return Program("float", ROWS, CHANNELS, (dot(WINDOW_VALUE, Y, NUMBERS, 0.1),), Y)


def sum_program() -> Program:
    """The same in whole numbers, of a window that lies channel after channel."""
    whole = CValue(WINDOW_NAME, "int16_t", (CHANNELS, ROWS))
    weight = np.arange(-5, 5).astype(np.int8)
    call = CCall("test_sum", (whole, CTable(weight, "weight"), 0.25, Y, COUNT), Y)
    return Program("int16_t", ROWS, CHANNELS, (call,), Y, (100.0, 30.0))


def codes_program() -> Program:
    """How many numbers of the window are not negative; the codes stay readable."""
    codes = CValue("hash codes", "uint32_t", (COUNT,), kept=True)
    spare = CValue("spare", "float", (1,))
    calls = (
        dot(WINDOW_VALUE, spare, NUMBERS, 0.0),
        CCall("test_signs", (WINDOW_VALUE, codes, COUNT), codes),
        CCall("test_count", (codes, Y, COUNT), Y),
    )
    return Program("float", ROWS, CHANNELS, calls, Y)


def branch_program() -> Program:
    """The oldest number decides; then the newest channel 0, or all numbers."""
    decision = CValue("decision", "float", (1,))
    newest = CValue("newest", "float", (CHANNELS,), view_of=WINDOW_NAME, start=COUNT - CHANNELS)
    branch = Branch(
        (dot(WINDOW_VALUE, decision, np.eye(1, COUNT, dtype=np.float32)[0], 0.5, "decision"),),
        (dot(newest, Y, np.array([2.0, 0.0], np.float32), 1.0, "simple"),),
        (dot(WINDOW_VALUE, Y, NUMBERS, 0.1, "deep"),),
        3,
        2,
        Y,
    )
    return Program("float", ROWS, CHANNELS, (branch,), Y)


def make_model(program: Program, calibrator: Calibrator | None = None, name: str = "model") -> CModel:
    calibrator = calibrator or make_calibrator(newest_plan(ROWS))
    labels = tuple(channel.name for channel in calibrator.inputs.channels)
    descriptor = make_descriptor(calibrator, "box-1", program.quanta)
    return CModel(name, "made by hand", labels, program, plan_memory(program), descriptor, SelfTest((1,), (0.0,), 1e9))


def write_model(model: CModel, folder: Path) -> Path:
    """A folder as `scare export c` writes it, with the kernels above."""
    (folder / "src").mkdir(parents=True)
    (folder / f"{model.name}.h").write_text(print_header(model), encoding="utf-8")
    (folder / f"{model.name}.c").write_text(print_source(model), encoding="utf-8")
    (folder / "src" / "scare_kernels.h").write_text(KERNELS)
    for name in ("scare.h", "scare_port.h", "scare_window.h", "scare.c"):
        shutil.copy(RUNTIME / name, folder / "src")
    return folder


def sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.c"))


def compile_with_gcc(files: Sequence[Path], out: Path, *flags: str, compiler: str = "gcc") -> Path:
    """By the system's compiler; without it, or without the C library that a flag names, the test is skipped."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} (Debian) would run it")
    for specs in (flag.removeprefix("--specs=") for flag in flags if flag.startswith("--specs=")):
        found = subprocess.run([compiler, f"-print-file-name={specs}"], capture_output=True, text=True, check=True)
        if not Path(found.stdout.strip()).is_absolute():
            pytest.skip(f"newlib for {compiler} (Debian) would run it")
    done = subprocess.run([compiler, *flags, *map(str, files), "-o", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def strict_gcc(files: Sequence[Path], out: Path, *flags: str) -> Path:
    return compile_with_gcc(files, out, *STANDARD, *STRICT, *flags)


class LoadedModel:
    """An exported model in a shared library: readings in, statuses and values out."""

    def __init__(self, library: ctypes.CDLL, index: int, source: Path, past: bool = False) -> None:
        self.source, self.constants = source, _constants(source)
        more = PAST_BYTES * self.constants["CHANNELS"] * past
        self.store_bytes, self.rounded_bytes = (
            self.constants[f"STORE{word}_BYTES"] + more for word in ("", "_ROUNDED")
        )
        self._library, self._model = library, ctypes.c_void_p(library.get_model(index))
        self._golden = ctypes.c_void_p(library.get_golden(index))
        self._memory = np.zeros((self.constants["BYTES"] + more) // 4, np.uint32)
        self._scratch = self._memory[-(self.constants["SCRATCH_BYTES"] // 4) :]
        self._calibration = np.zeros(library.size_of_calibration(), np.uint8)
        self.power_on()

    def power_on(self) -> None:
        """Begin with memory that holds anything."""
        self._memory[:] = 0xA5A5A5A5
        self._calibration[:] = 0x5A
        arguments = (_pointer(self._calibration), self._model, _pointer(self._memory))
        assert self._library.scare_init(*arguments, ctypes.c_size_t(self._memory.nbytes)) == 0

    def store(self, clock_ms: int, size: int) -> tuple[int, bytes]:
        """Status, and all of the memory given."""
        blob = ctypes.create_string_buffer(b"\xee" * size, size)
        clock, length = ctypes.c_uint64(clock_ms), ctypes.c_size_t(size)
        return self._library.scare_store(_pointer(self._calibration), clock, blob, length), blob.raw

    def restore(self, clock_ms: int, blob: bytes) -> int:
        clock, length = ctypes.c_uint64(clock_ms), ctypes.c_size_t(len(blob))
        return self._library.scare_restore(_pointer(self._calibration), clock, blob, length)

    def self_test(self) -> int:
        return self._library.scare_self_test(_pointer(self._calibration), self._golden)

    def reset(self) -> None:
        assert self._library.scare_reset(_pointer(self._calibration)) == 0

    def push(self, now_ms: int, reading: Sequence[float] | np.ndarray) -> tuple[int, float]:
        row, calibrated = np.asarray(reading, np.float32), ctypes.c_float(-1.0)
        now = ctypes.c_uint32(now_ms % 2**32)
        status = self._library.scare_push(_pointer(self._calibration), now, _pointer(row), ctypes.byref(calibrated))
        return status, calibrated.value

    def calibrate(self, now_ms: int, reading: Sequence[float] | np.ndarray) -> tuple[int, np.void]:
        """Status, and an answer with `value`, `low`, `high` and `flags`."""
        row, answer = np.asarray(reading, np.float32), np.zeros(1, ANSWER_TYPE)
        now, pointers = ctypes.c_uint32(now_ms % 2**32), map(_pointer, (row, answer))
        return self._library.scare_calibrate(_pointer(self._calibration), now, *pointers), answer[0]

    def outside(self, reading: Sequence[float] | np.ndarray) -> tuple[float, int]:
        """How far a reading lies beyond training, and in which channel; -1 if in none."""
        channel = ctypes.c_int32(-1)
        row = np.asarray(reading, np.float32)
        arguments = _pointer(self._calibration), _pointer(row), ctypes.byref(channel)
        return self._library.scare_outside(*arguments), channel.value

    def run(self, window: np.ndarray, choice: np.ndarray | None = None) -> float:
        """The scaled result of one window as the model reads it."""
        window = np.ascontiguousarray(window)
        choice = np.zeros(2, np.uint32) if choice is None else choice
        scaled = ctypes.c_float(-1.0)
        pointers = map(_pointer, (window, self._scratch, choice))
        self._library.run_model(self._model, *pointers, ctypes.byref(scaled))
        return scaled.value

    def scratch(self, offset: int, count: int) -> np.ndarray:
        """Words of scratch memory after a run."""
        return self._scratch[offset // 4 : offset // 4 + count].copy()


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def compile_models(folders: Mapping[str, Path], scratch: Path, *flags: str) -> dict[str, LoadedModel]:
    """Exported models, each called as in C, in one library with one runtime."""
    access, golden = scratch / "access.c", [f"{name}_golden" for name in folders]
    pointers, vectors = (", ".join(f"&{name}" for name in names) for names in (folders, golden))
    named = ACCESS.format(names=", ".join(folders), golden=", ".join(golden), pointers=pointers, vectors=vectors)
    access.write_text(named)
    models = {name: folder / f"{name}.c" for name, folder in folders.items()}
    shared = ("-shared", *([] if sys.platform == "win32" else ["-fPIC"]), *STRICT, *flags)
    files = [*models.values(), access, *sources(RUNTIME)]
    library = ctypes.CDLL(str(compile_c(files, scratch / library_name("models"), shared, [RUNTIME])))
    library.scare_outside.restype = ctypes.c_float
    library.get_model.restype = library.get_golden.restype = ctypes.c_void_p
    past = PAST in flags
    return {name: LoadedModel(library, index, source, past) for index, (name, source) in enumerate(models.items())}


def _constants(source: Path) -> dict[str, int]:
    """What a model's header defines."""
    text = source.with_suffix(".h").read_text(encoding="utf-8")
    return {key: int(number) for key, number in re.findall(rf"#define {source.stem.upper()}_(\w+) \(?(\d+)", text)}
