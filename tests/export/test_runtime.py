"""`scare.c` by itself: windows of `RingBuffer`, flags of `usable_values` and `TrainingRange`; what misuse gives."""

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.board.build import STRICT, compile_c, library_name
from scare.data.flags import Flag, usable_values
from scare.data.readings import Channel
from scare.export.c_package import statuses
from scare.export.descriptor import encode_windows
from scare.windowing.live_windows import ONLY, RingBuffer
from scare.windowing.windows import GapPolicy
from tests.export.building import RUNTIME
from tests.windowing.rows import POLICY, ROWS, WINDOW, Rows

OK, HISTORY, MISSING, RANGE, EARLY, NOT_FINITE, MEMORY, ARGUMENT = range(8)
FROM_FLAG = {Flag(0): OK, Flag.HISTORY: HISTORY, Flag.MISSING: MISSING, Flag.EARLY: EARLY}
SENTINELS = (-200.0, -999.0, -9999.0, 65535.0)
LARGEST = float(np.nextafter(np.float32(1e30), np.float32(0)))  # a float32 that is not above 1e30
GUARD = 0xA5A5A5A5
CENTER, REST, INVERSE, QUANTUM = (3.25, -700.1), (1e-9, 2e-6), (0.37, 0.0013), (900.0, 31.5)
RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p)


class RangeFields(ctypes.Structure):
    _fields_ = [(name, ctypes.c_float) for name in ("low", "high")]


class ChannelFields(ctypes.Structure):
    _fields_ = [
        ("valid", RangeFields),
        *((name, ctypes.c_float) for name in ("center", "rest", "inverse", "quantum")),
        *((name, RangeFields) for name in ("clamp", "trained")),
    ]


class IntervalFields(ctypes.Structure):
    _fields_ = [
        ("edge", ctypes.c_float * 7),
        ("below", ctypes.c_float * 8),
        ("above", ctypes.c_float * 8),
        ("widening", ctypes.c_float),
    ]


class AnswerFields(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_float) for name in ("value", "low", "high")), ("flags", ctypes.c_uint32)]


class ModelFields(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("window", "channels", "step_ms", "checked", "needed", "hold")),
        ("channel", ctypes.POINTER(ChannelFields)),
        ("absent", ctypes.POINTER(ctypes.c_float)),
        ("absent_count", ctypes.c_uint32),
        ("target_scale", ctypes.c_float),
        ("target_center", ctypes.c_float),
        ("floor", ctypes.c_float),
        ("interval", ctypes.POINTER(IntervalFields)),
        ("whitening", ctypes.POINTER(ctypes.c_float)),
        *((name, ctypes.c_float) for name in ("limit", "slow_limit", "rising", "lowest", "slope")),
        ("stride", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32),
        ("run", RUN),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("runtime")
    size = folder / "size.c"
    size.write_text('#include "scare.h"\nunsigned size(void);\nunsigned size(void) { return sizeof(scare); }\n')
    flags = ("-shared", "-fPIC", *STRICT)
    made = ctypes.CDLL(str(compile_c([RUNTIME / "scare.c", size], folder / library_name("scare"), flags, [RUNTIME])))
    made.scare_explain.restype = ctypes.c_char_p
    return made


class Calibration:
    """A calibration of two channels whose result is always 1, between guards."""

    def __init__(self, library: ctypes.CDLL, window: int, policy: GapPolicy, step_ms: int = 60000, **other: int):
        self.library, self.result, self.runs = library, 1.0, 0
        valid, all_of_them = ((-LARGEST, LARGEST), (0, 2000)), ((-3e38, 3e38),) * 2
        fields = zip(valid, CENTER, REST, INVERSE, QUANTUM, all_of_them, all_of_them, strict=True)
        self.channels = (ChannelFields * 2)(*(ChannelFields(*numbers) for numbers in fields))
        self.absent = (ctypes.c_float * len(SENTINELS))(*SENTINELS)
        self.keep = RUN(self._run)
        rules = (policy.rows_checked(window), policy.rows_needed(window), policy.hold)
        self.model = ModelFields(window, 2, step_ms, *rules, self.channels, self.absent, 4, 2.0, 10.0, -3e38)
        self.model.stride, self.model.scratch_bytes = (window + window % 2) * other.get("integer", 0), 12
        self.model.run = self.keep
        numbers = self.model.stride or window * 2
        self.words = numbers + (rules[0] + 31) // 32 + 3
        self.memory = np.full(self.words + 2, GUARD, np.uint32)
        self.private = (ctypes.c_uint32 * (library.size() // 4 + 1))()
        assert self.init(self.words * 4) == OK

    def _run(self, window: int, scratch: int, choice: int, scaled: "ctypes._Pointer[ctypes.c_float]", own: int) -> None:
        self.runs += 1
        assert own == ctypes.addressof(self.model)
        ctypes.memset(scratch, 7, 12)
        scaled[0] = self.result

    def init(self, size: int, shift: int = 0) -> int:
        begin = ctypes.c_void_p(self.memory.ctypes.data + 4 + shift)
        return self.library.scare_init(self.private, ctypes.byref(self.model), begin, ctypes.c_size_t(size))

    def push(self, now_ms: float, row: np.ndarray) -> tuple[int, float]:
        reading, calibrated = np.asarray(row, np.float32), ctypes.c_float(-7.0)
        pointer = reading.ctypes.data_as(ctypes.c_void_p)
        now = ctypes.c_uint32(int(now_ms) % 2**32)
        status = self.library.scare_push(self.private, now, pointer, ctypes.byref(calibrated))
        assert (self.memory[[0, -1]] == GUARD).all()
        return status, calibrated.value

    def calibrate(self, now_ms: float, row: np.ndarray) -> tuple[int, AnswerFields]:
        reading, answer = np.asarray(row, np.float32), AnswerFields(-7.0, -7.0, -7.0, 7)
        pointer = reading.ctypes.data_as(ctypes.c_void_p)
        now = ctypes.c_uint32(int(now_ms) % 2**32)
        return self.library.scare_calibrate(self.private, now, pointer, ctypes.byref(answer)), answer

    def window(self) -> np.ndarray:
        rows, inside = self.model.window, self.memory[1:-1]
        if stride := self.model.stride:
            return inside.view(np.int16)[: stride * 2].reshape(2, stride)[:, :rows]
        return inside.view(np.float32)[: rows * 2].reshape(rows, 2)


def scaled(rows: np.ndarray) -> np.ndarray:
    center, rest, inverse = (np.array(one, np.float32) for one in (CENTER, REST, INVERSE))
    return ((rows.astype(np.float32) - center) - rest) * inverse


def in_milliseconds(rows: Rows, start: int) -> Iterator[tuple[int, np.ndarray]]:
    """The rows at whole milliseconds, with waits that a clock of 32 bits can count."""
    last, now = rows.times[0], start
    for time, values in zip(rows.times, rows.values, strict=True):
        now, last = now + int(np.clip(round((time - last) * 1000), -(2**30), 2**30)), time
        yield now, values


@settings(deadline=None, max_examples=300)
@given(
    rows=ROWS,
    window=WINDOW,
    policy=POLICY,
    start=st.sampled_from([0, 2**31 - 500, 2**32 - 1500]),
    integer=st.sampled_from([0, 1]),
)
def test_windows_are_those_of_the_ring(
    library: ctypes.CDLL, rows: Rows, window: int, policy: GapPolicy, start: int, integer: int
) -> None:
    step_ms = round(rows.step * 1000)
    board = Calibration(library, window, policy, step_ms, integer=integer)
    ring = RingBuffer(window, 2, step_ms, policy)  # the ring counts in milliseconds too
    ring.add(1)
    for now, row in in_milliseconds(rows, start):
        reason = Flag(int(ring.push(ONLY, np.full(1, float(now)), row[None])[0]))
        status, calibrated = board.push(now, row)
        assert status == FROM_FLAG[reason & ~Flag.RESTART]
        assert calibrated == 12.0 if status == OK else np.isnan(calibrated)
        if ring["filled"][0]:
            expected = scaled(ring.windows(ONLY)[0])
            steps = encode_windows(expected[None], QUANTUM)[0, :, :window]
            assert_array_equal(board.window(), steps if integer else expected)


# channel 0 has no limits but those of every number, channel 1 is valid from 0 to 2000
NUMBERS = (5.0, -5.0, np.nan, np.inf, -np.inf, -200.0, -999.0, 65535.0, 1e29, 1.1e30, 2000.0, 2000.0002, 0.0, -0.0)


@settings(deadline=None, max_examples=200)
@given(row=st.tuples(*[st.one_of(st.sampled_from(NUMBERS), st.floats(width=32))] * 2))
def test_a_reading_is_judged_as_in_python(library: ctypes.CDLL, row: tuple[float, float]) -> None:
    values = np.array([row]).astype(np.float32).astype(float)
    usable, flags = usable_values(values, (Channel("any"), Channel("dust", "", 0, 2000)))
    status, calibrated = Calibration(library, 1, GapPolicy("any")).push(0, values[0])
    assert (status == OK) == np.isfinite(usable).all()
    assert np.isnan(calibrated) == (status != OK)
    first = next((number for number, good in zip(values[0], usable[0], strict=True) if not np.isfinite(good)), 0.0)
    if status != OK:
        absent = not np.isfinite(first) or first in SENTINELS
        assert status == (MISSING if absent else RANGE)
        assert absent or flags[0] & Flag.RANGE


def test_a_result_that_is_not_finite_is_not_given(library: ctypes.CDLL) -> None:
    board = Calibration(library, 1, GapPolicy("any"))
    for result in (np.nan, np.inf, -np.inf, 3e38):
        board.result = result
        status, calibrated = board.push(60000 * (board.runs + 1), np.ones(2))
        assert status == NOT_FINITE
        assert np.isnan(calibrated)


def test_time_that_goes_back_by_a_window_is_early_and_a_wrap_is_not(library: ctypes.CDLL) -> None:
    board = Calibration(library, 1, GapPolicy("any"))
    times = [2**32 - 1, 2**32 - 100, 29998, 29999, 29999 - 60000, 29999 + 2**31 - 1, 29998 + 2**31 - 60000]
    assert [board.push(time, np.ones(2))[0] for time in times] == [OK, EARLY, EARLY, OK, EARLY, OK, EARLY]


def test_time_that_goes_back_further_begins_anew(library: ctypes.CDLL) -> None:
    board, minute = Calibration(library, 3, GapPolicy("all", percent=100)), 60000
    times = [minute * row for row in (0, 1, 2, 2**15, -1, 0, 1, 2)]
    printed = [board.push(time, np.ones(2))[0] for time in times]
    assert printed == [HISTORY, HISTORY, OK, HISTORY, HISTORY, HISTORY, OK, OK]
    for back, status in ((3 * minute, EARLY), (3 * minute + 1, HISTORY), (2**31, HISTORY)):
        library.scare_reset(board.private)
        assert [board.push(now, np.ones(2))[0] for now in (minute, 2 * minute, 3 * minute)][-1] == OK
        assert board.push(3 * minute - back, np.ones(2))[0] == status


def test_a_reset_forgets_everything(library: ctypes.CDLL) -> None:
    policy = GapPolicy("all", percent=100)
    board = Calibration(library, 3, policy)
    first = [board.push(60000 * i, np.full(2, i))[0] for i in range(4)]
    assert library.scare_reset(board.private) == OK
    assert [board.push(60000 * i, np.full(2, i))[0] for i in range(4)] == first == [HISTORY, HISTORY, OK, OK]
    library.scare_reset(board.private)
    board.push(60000, np.array([8.0, 9.0]))
    assert_array_equal(board.window(), scaled(np.tile([8.0, 9.0], (3, 1))))


def test_nothing_is_computed_without_a_window(library: ctypes.CDLL) -> None:
    board = Calibration(library, 3, GapPolicy("all", percent=100))
    for time, row in ((0, [1, 1]), (60000, [1, 1]), (70000, [1, 1]), (120000, [np.nan, 1]), (180000, [1, 1])):
        board.push(time, np.array(row))
    assert board.runs == 0


@pytest.mark.parametrize("integer", [0, 1])
def test_memory_too_small_or_not_aligned_is_refused(library: ctypes.CDLL, integer: int) -> None:
    board = Calibration(library, 5, GapPolicy("any"), integer=integer)
    assert board.init(board.words * 4 - 1) == MEMORY
    assert board.init(board.words * 4 + 4, shift=2) == MEMORY
    status, calibrated = board.push(0, np.ones(2))  # what was refused is not initialised
    assert status == ARGUMENT
    assert np.isnan(calibrated)


def test_null_pointers_are_refused(library: ctypes.CDLL) -> None:
    board = Calibration(library, 5, GapPolicy("any"))
    model, memory, size = ctypes.byref(board.model), board.memory.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(999)
    calibrated = ctypes.c_float(1.0)
    reading = (ctypes.c_float * 2)(1, 1)
    assert library.scare_init(None, model, memory, size) == ARGUMENT
    assert library.scare_init(board.private, None, memory, size) == ARGUMENT
    assert library.scare_init(board.private, model, None, size) == ARGUMENT
    assert library.scare_reset(None) == ARGUMENT
    assert library.scare_push(board.private, 0, reading, None) == ARGUMENT
    for private, given_reading in ((None, reading), (board.private, None), ((ctypes.c_uint32 * 40)(), reading)):
        calibrated.value = 1.0
        assert library.scare_push(private, 0, given_reading, ctypes.byref(calibrated)) == ARGUMENT
        assert np.isnan(calibrated.value)


def test_reading_and_result_may_be_the_same_memory(library: ctypes.CDLL) -> None:
    board = Calibration(library, 2, GapPolicy("any", checked=1))
    both = np.array([4.0, 5.0], np.float32)
    pointer = both.ctypes.data_as(ctypes.c_void_p)
    assert library.scare_push(board.private, 0, pointer, pointer) == OK
    assert_array_equal(board.window()[-1], scaled(np.array([4.0, 5.0])))
    assert both[0] == 12.0


def test_every_status_has_words_of_its_own(library: ctypes.CDLL) -> None:
    words = [library.scare_explain(status).decode() for status in range(len(NAMES) + 1)]
    assert len(set(words)) == len(NAMES) + 1
    assert words[-1] == "no such status"
    assert list(statuses()) == [f"SCARE_{name}" for name in NAMES]


NAMES = (
    "OK",
    "HISTORY",
    "MISSING",
    "RANGE",
    "EARLY",
    "NOT_FINITE",
    "MEMORY",
    "ARGUMENT",
    "DAMAGED",
    "FOREIGN",
    "WRONG",
    "UNSIGNED",
    "OLDER",
)


def test_the_runtime_has_no_library_under_it() -> None:
    for path in Path(RUNTIME).rglob("*.[ch]*"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"malloc|<(?:stdio|string|math)\.h>|\bdouble\b", text) == [], path.name
