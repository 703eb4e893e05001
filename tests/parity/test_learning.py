"""The same stream of pairs teaches Python, C on this computer and C on a virtual board the same, in every bit."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from zlib import crc32

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.build import FREESTANDING, STRICT, build, compile_each, compile_once, library_name, link, read_export
from scare.board.host import HOST_FLAGS
from scare.board.virtual import OUTSIDE, Machine
from scare.calibrator.intervals import Intervals
from scare.export.lowering import Compiled, compile_calibrator
from scare.export.package import write_package
from scare.export.targets import find_target
from scare.upkeep.learner import ARITHMETICS, BLOB_WORDS, WITHOUT_WIDTH, Learner, PairOutcome, learner_settings
from scare.upkeep.update import identity
from tests.calibrator.building import make_calibrator, newest_plan
from tests.export.compilers import GNU, c, call
from tests.parity.native import RUNTIME

HOUR_MS = 3_600_000
SMALL = make_calibrator(newest_plan())
BANDS = Intervals(0.9, (20.0,), (1.0, 2.0), (1.5, 2.5))
HOURLY = replace(SMALL, inputs=replace(SMALL.inputs, step_seconds=3600.0), intervals=BANDS)
FUNCTIONS = ["begin", "push", "learn", "hold", "correct", "store", "restore", "revert", "bytes"]
READING, RESULT, BLOB = (OUTSIDE + offset for offset in (0x1000, 0x2000, 0x3000))
OK, ARGUMENT = 0, 7
NANO = board("nano33ble")


class Board(Protocol):
    """C that learns, wherever it runs."""

    def begin(self) -> int: ...
    def push(self, now_ms: int, reading: np.ndarray) -> tuple[int, np.ndarray]: ...
    def learn(self, reference: float) -> int: ...
    def store(self) -> bytes: ...
    def restore(self, blob: bytes) -> int: ...
    def revert(self) -> None: ...


def learning_sources(folder: Path, flags: tuple[str, ...]) -> list[Path]:
    """All that a calibration that learns is made of; the kernels compiled already, as they are for every model."""
    exported = read_export(folder)
    kernels = [path for path in exported.runtime if not path.name.startswith("scare_learn")]
    compiled = compile_each(kernels, flags, [exported.runtime_headers])
    learner = sorted(exported.runtime_headers.glob("scare_learn*.c"))
    return [*sorted(folder.glob("*.c")), *learner, Path(__file__).with_name("learning.c"), *compiled]


class OnHost:
    def __init__(self, folder: Path) -> None:
        exported = read_export(folder)
        flags = ("-shared", *STRICT, *HOST_FLAGS, *exported.defines)
        sources = learning_sources(folder, HOST_FLAGS)
        self.library = ctypes.CDLL(str(compile_once(sources, library_name("learning"), flags, exported.includes)))
        self.result = np.zeros(4, np.float32)

    def begin(self) -> int:
        return int(self.library.learning_begin())

    def push(self, now_ms: int, reading: np.ndarray) -> tuple[int, np.ndarray]:
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (reading, self.result))
        return int(self.library.learning_push(ctypes.c_uint32(now_ms), *pointers)), self.result.copy()

    def learn(self, reference: float) -> int:
        return int(self.library.learning_learn(ctypes.c_float(reference), ctypes.c_void_p(self.result.ctypes.data)))

    def hold(self, reference: float) -> None:
        self.library.learning_hold(ctypes.c_float(reference))

    def store(self) -> bytes:
        blob = ctypes.create_string_buffer(4 * BLOB_WORDS)
        assert self.library.learning_store(blob) == OK
        return blob.raw

    def restore(self, blob: bytes) -> int:
        return int(self.library.learning_restore(blob, ctypes.c_uint32(len(blob))))

    def revert(self) -> None:
        self.library.learning_revert()


class OnBoard:
    def __init__(self, folder: Path) -> None:
        exported = read_export(folder)
        keep = [f"learning_{name}" for name in FUNCTIONS]
        sources = learning_sources(folder, (*NANO.flags, *FREESTANDING))
        self.machine = Machine(link(sources, NANO, exported.includes, exported.defines, keep))

    def _call(self, name: str, *arguments: int | float) -> int:
        self.machine.call(f"learning_{name}", *arguments)
        return self.machine.result

    def begin(self) -> int:
        return self._call("begin")

    def push(self, now_ms: int, reading: np.ndarray) -> tuple[int, np.ndarray]:
        self.machine.write(READING, reading)
        status = self._call("push", now_ms, READING, RESULT)
        return status, np.frombuffer(self.machine.read(RESULT, 16), "<f4")

    def learn(self, reference: float) -> int:
        return self._call("learn", float(reference), RESULT)

    def store(self) -> bytes:
        assert self._call("store", BLOB) == OK
        return self.machine.read(BLOB, 4 * BLOB_WORDS)

    def restore(self, blob: bytes) -> int:
        self.machine.write(BLOB, blob)
        return self._call("restore", BLOB, len(blob))

    def revert(self) -> None:
        self._call("revert")


@pytest.fixture(scope="module", params=ARITHMETICS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Compiled, Path]:
    folder = tmp_path_factory.mktemp("learning") / request.param
    compiled = compile_calibrator(HOURLY, request.param, "box-1")
    write_package(find_target("c"), compiled, folder, learn=True)
    return compiled, folder


@pytest.fixture(params=[OnHost, OnBoard])
def in_c(request: pytest.FixtureRequest, exported: tuple[Compiled, Path]) -> Board:
    made: Board = request.param(exported[1])
    assert made.begin() == OK
    return made


def python_learner(compiled: Compiled) -> Learner:
    calibrator, device = compiled.calibrator, compiled.device
    settings = learner_settings(calibrator.inputs, calibrator.intervals)
    return Learner(settings, identity(calibrator, device), str(compiled.arithmetic))


def features(compiled: Compiled, calibrated: np.float32, reading: np.ndarray) -> np.ndarray:
    """What C makes of the newest reading."""
    described = compiled.descriptor
    value = (calibrated - np.float32(described.target_center)) / np.float32(described.target_scale)
    return np.array([value, *_newest(compiled, reading), 1.0], np.float32)


def corrected_ends(
    compiled: Compiled, width: float, calibrated: np.float32, correction: np.float32
) -> tuple[np.float32, np.float32]:
    """What C makes of the ends of an interval."""
    described = compiled.descriptor
    assert described.interval is not None
    low, high = described.interval.around(np.array([calibrated]), np.zeros(1, np.uint32), described.floor)
    corrected, factor = calibrated + correction, np.float32(width)
    below, above = factor * (calibrated - low[0]), factor * (high[0] - calibrated)
    return max(corrected - below, np.float32(described.floor)), corrected + above


def _newest(compiled: Compiled, reading: np.ndarray) -> list[np.float32]:
    numbers = []
    for number, channel in zip(reading, compiled.descriptor.channels, strict=True):
        scaled = (number - np.float32(channel.center) - np.float32(channel.rest)) * np.float32(channel.inverse)
        steps = np.floor(scaled * np.float32(channel.quantum) + np.float32(0.5))
        numbers.append(steps / np.float32(channel.quantum) if channel.quantum else scaled)
    return numbers


def session(count: int, drift: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Readings [count, 2] and what the reference misses of the calibrated value, in its deviations [count]."""
    rng = np.random.default_rng(11)
    readings = np.column_stack([rng.uniform(5, 60, count), rng.normal(0, 40, count)]).astype(np.float32)
    missing = drift * (1 + 0.02 * readings[:, 0]) + rng.normal(0, 0.05, count)
    missing[::17] = np.nan, *[50.0] * (len(missing[::17]) - 1)
    return readings, missing.astype(np.float32)


def test_a_stream_teaches_python_and_c_the_same(exported: tuple[Compiled, Path], in_c: Board) -> None:
    compiled, python = exported[0], python_learner(exported[0])
    scale = np.float32(compiled.descriptor.target_scale)
    readings, missing = session(100)
    missing[60:] -= np.float32(0.6)  # another drift: what was learned is given up, or learned anew
    correct = ARITHMETICS[str(compiled.arithmetic)].correction
    outcomes = []
    for index, (reading, less) in enumerate(zip(readings, missing, strict=True)):
        status, (calibrated, correction, low, high) = in_c.push(index * HOUR_MS, reading)
        if status != OK:
            continue
        assert (low, high) == corrected_ends(compiled, python.state.width, calibrated, correction)
        seen = features(compiled, calibrated, reading)
        assert np.float32(correct(python.state.active, seen) * scale) == correction
        reference = np.float32(calibrated + less * scale)
        if np.isfinite(reference):
            python.hold_level(bool(low <= reference <= high))
        outcome = python.learn(seen, np.float32((reference - calibrated) / scale))
        assert in_c.learn(float(reference)) == outcome
        outcomes.append(outcome)
    assert in_c.store() == python.store()
    assert set(outcomes) == set(PairOutcome)
    assert python.state.width != 1


def test_a_blob_survives_and_a_damaged_or_foreign_one_is_refused(exported: tuple[Compiled, Path], in_c: Board) -> None:
    compiled, python = exported[0], python_learner(exported[0])
    readings, missing = session(60)
    for reading, less in zip(readings, missing, strict=True):
        python.learn(features(compiled, np.float32(reading[0]), reading), less)
    blob, empty = python.store(), in_c.store()
    for position in (0, 4, 100, 4 * BLOB_WORDS - 1):
        damaged = bytearray(blob)
        damaged[position] ^= 1
        assert in_c.restore(bytes(damaged)) == ARGUMENT
    foreign = Learner(python.settings, python.identity + 1, str(compiled.arithmetic)).store()
    assert in_c.restore(foreign) == in_c.restore(blob[:-4]) == ARGUMENT
    assert in_c.store() == empty
    assert in_c.restore(blob) == OK
    assert in_c.store() == blob
    in_c.revert()
    python.revert()
    assert in_c.store() == python.store()


def test_a_blob_from_before_there_was_a_width_is_continued(exported: tuple[Compiled, Path], in_c: Board) -> None:
    python = python_learner(exported[0])
    readings, missing = session(60)
    for reading, less in zip(readings, missing, strict=True):
        python.learn(features(exported[0], np.float32(reading[0]), reading), less)
    now = np.frombuffer(python.store(), "<u4")
    content = np.append(now[:1] - np.uint32(WITHOUT_WIDTH), now[1:-2]).tobytes()
    before = content + np.array([crc32(content)], "<u4").tobytes()
    assert in_c.restore(before) == OK
    assert in_c.store() == python.store()
    python.restore(before)
    assert python.store() == now.tobytes()


def width_of(blob: bytes) -> float:
    return float(np.frombuffer(blob, "<f4")[-2])


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_no_value_falls_below_the_floor(arithmetic: str, tmp_path: Path) -> None:
    compiled = compile_calibrator(replace(HOURLY, floor=5.0), arithmetic, "box-1")
    write_package(find_target("c"), compiled, tmp_path, learn=True)
    in_c, python = OnHost(tmp_path), python_learner(compiled)
    assert in_c.begin() == OK
    python.state.active[-1] = -2 if arithmetic == "float32" else -2 << 24
    assert in_c.restore(python.store()) == OK
    lowered = 0
    for index, reading in enumerate(session(40)[0]):
        status, (calibrated, correction, low, _) = in_c.push(index * HOUR_MS, reading)
        if status == OK:
            assert low >= 5.0
            assert calibrated + correction == pytest.approx(max(calibrated - 12.0, 5.0), abs=1e-4)
            width = width_of(in_c.store())
            in_c.hold(-1.0)  # such a reference counts as the floor
            assert (width_of(in_c.store()) < width) == (low == 5.0)
            lowered += low == 5.0
    assert 0 < lowered < 40


@pytest.mark.skipif(not GNU, reason="GCC (Debian: gcc) would run it")
@pytest.mark.parametrize("level", ["-Os", "-O2"])
def test_gcc_has_no_warning_for_a_learner(level: str, tmp_path: Path) -> None:
    flags = [flag for flag in c("c99") if flag != "-O0"]
    call([*flags, level, "-c", *sorted(RUNTIME.glob("scare_learn*.c"))], tmp_path)


def test_a_learner_is_small_and_takes_part_only_if_asked(exported: tuple[Compiled, Path], tmp_path: Path) -> None:
    compiled, folder = exported
    assert OnBoard(folder)._call("bytes") <= 256
    write_package(find_target("c"), compiled, tmp_path / "plain")
    assert not any("learn" in path.name for path in (tmp_path / "plain").rglob("*"))
    assert "scare_learn" not in build(read_export(folder), NANO).image.symbols
