"""An exported model on this computer: the C of a board as a shared library, with the same bits in its results.

    outputs, kept = HostModel(read_export(folder)).run(windows)  # a folder of `scare export c`, scaled [n, N, C]
    answers = push_all(HostModel(...) or VirtualModel(...), readings)  # status, value, interval and flags of each

`VirtualModel` in virtual.py is the counterpart on a board. What both need is here: the structures of scare.h, windows
as a model stores them, and streams of readings.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scare.board.build import CExport, compile_each, compile_once, library_name
from scare.board.vectors import StreamRow
from scare.errors import DataError
from scare.export.descriptor import InputChannel, Range, encode_windows
from scare.kernels.c_arguments import pad_axis

OK, HISTORY, MISSING, RANGE, EARLY, NOT_FINITE = range(6)  # `scare_status` of scare.h
ANSWER = {"value": "<f4", "low": "<f4", "high": "<f4", "flags": "<u4"}  # `scare_answer`
ANSWER_TYPE = np.dtype(list(ANSWER.items()))
CALIBRATION_WORDS = 4  # the first words of the struct `scare`: model, window, real, scratch
CHUNK = 1024  # windows in one call
HOST_FLAGS = ("-mcpu=baseline", "-fno-sanitize=undefined", "-fPIC")


class CRange(ctypes.LittleEndianStructure):
    """The struct `scare_range` of scare.h."""

    _fields_ = tuple((name, ctypes.c_float) for name in Range._fields)


class CChannel(ctypes.LittleEndianStructure):
    """The struct `scare_channel` of scare.h."""

    _fields_ = tuple(
        (name, CRange if kind is Range else ctypes.c_float) for name, kind in InputChannel.__annotations__.items()
    )


def model_structure(pointer: type) -> Any:
    """Make the structure `scare_model` of scare.h, with this type of pointers: a board's have 32 bits."""
    kinds = {
        **dict.fromkeys(("window", "channels", "step_ms", "checked", "needed", "hold"), ctypes.c_uint32),
        **dict.fromkeys(("channel", "absent"), pointer),
        "absent_count": ctypes.c_uint32,
        **dict.fromkeys(("target_scale", "target_center", "floor"), ctypes.c_float),
        **dict.fromkeys(("interval", "whitening"), pointer),
        **dict.fromkeys(("limit", "slow_limit", "rising", "lowest", "slope"), ctypes.c_float),
        **dict.fromkeys(("stride", "scratch_bytes"), ctypes.c_uint32),
        "run": pointer,
    }
    return type("Model", (ctypes.Structure,), {"_fields_": tuple(kinds.items())})


def stored_windows(windows: np.ndarray, facts: Any, channels: Sequence[CChannel]) -> np.ndarray:
    """Convert scaled windows [n, window, channels] to the memory format of a model.

    That is float32, or for a fixed-point model int16 steps, [n, channels, stride]. Integer windows of a fixed-point
    model are in steps already. `facts` is the model's structure `scare_model`.
    """
    quanta = [channel.quantum for channel in channels if channel.quantum]
    if quanta and np.issubdtype(windows.dtype, np.integer):
        stored = pad_axis(windows.astype(np.int16).swapaxes(1, 2), -1, 2)
    else:
        stored = encode_windows(windows, quanta)
    # In an older export the stride of an odd window is odd: it has no room for the number that pads a channel.
    return np.ascontiguousarray(stored[..., : stride(facts)] if quanta else stored)


class StreamModel(Protocol):
    """A model that readings can be pushed into: `HostModel` or `VirtualModel`."""

    exported: CExport
    facts: Any  # the structure `scare_model`

    def restart(self) -> None:
        """Forget all readings."""

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading [channels] with `scare_calibrate`; return the status and the bytes of `scare_answer`."""

    def read_memory(self) -> tuple[bytes, bytes]:
        """Read the window, then the scratch memory."""


@dataclass(frozen=True)
class StreamAnswers:
    """Answers of `scare_calibrate` to n readings, [n] each, and more about the m readings for which `run` ran.

    Of those m readings it has the windows [m, window, channels], as scaled floats or as int16 steps in fixed point, and
    the kept values by name, [m, …] each.
    """

    statuses: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    flags: np.ndarray
    windows: np.ndarray
    kept: dict[str, np.ndarray]

    @property
    def ran(self) -> np.ndarray:
        """Whether the model ran, for each reading [n]."""
        return np.isin(self.statuses, (OK, NOT_FINITE))


def push_all(model: StreamModel, readings: Iterable[StreamRow]) -> StreamAnswers:
    """Restart a model, push readings one after the other, and collect the answers."""
    statuses, answers, windows = [], bytearray(), bytearray()
    kept_bytes = {name: bytearray() for name in model.exported.kept}
    model.restart()
    for reading in readings:
        if reading.restart:
            model.restart()
        status, answer = model.take(reading.now_ms, reading.numbers)
        statuses.append(status)
        answers += answer
        if status in (OK, NOT_FINITE):
            window, scratch = model.read_memory()
            windows += window
            for name, place in model.exported.kept.items():
                kept_bytes[name] += scratch[place.offset : place.offset + place.size]
    kept = {name: place.decode(kept_bytes[name]) for name, place in model.exported.kept.items()}
    value, low, high, flags = (np.frombuffer(answers, ANSWER_TYPE)[name].copy() for name in ANSWER)
    facts = model.facts
    if facts.stride:  # stored channel by channel
        decoded = np.frombuffer(windows, "<i2").reshape(-1, facts.channels, stride(facts)).swapaxes(1, 2)
        decoded = decoded[:, : facts.window]
    else:
        decoded = np.frombuffer(windows, "<f4").reshape(-1, facts.window, facts.channels)
    return StreamAnswers(np.array(statuses), value, low, high, flags, decoded, kept)


def window_bytes(facts: Any) -> int:
    """Return the size of a model's window in bytes."""
    channel_bytes = stride(facts) * 2 if facts.stride else facts.window * 4  # int16 steps, or floats
    return int(facts.channels * channel_bytes)


def stride(facts: Any) -> int:
    """Return how many half-words a channel takes in a fixed-point window.

    Older exports have a flag, 1, in the place of that number; their channels take as many as the window has rows.
    """
    return int(facts.window if facts.stride == 1 else facts.stride)


ModelStructure = model_structure(ctypes.c_void_p)


class HostModel:
    """An exported model, compiled for this computer."""

    def __init__(self, exported: CExport) -> None:
        self.exported = exported
        runtime = compile_each(self.exported.runtime, HOST_FLAGS, [self.exported.runtime_headers])
        sources = [self.exported.source, Path(__file__).with_name("host.c"), *runtime]
        flags = (*HOST_FLAGS, *self.exported.defines, "-shared", "-lm")
        library = compile_once(sources, library_name("model"), flags, self.exported.includes)
        self._library = ctypes.CDLL(str(library))
        self._library.host_model.restype = ctypes.POINTER(ModelStructure)
        pointer = self._library.host_model()
        if not pointer:
            raise DataError(f"{exported.source} holds a blob that the runtime beside it does not take; export again")
        self.facts = pointer.contents
        self._channels = (CChannel * self.facts.channels).from_address(self.facts.channel)
        self._library.host_sensor_bytes.restype = ctypes.c_size_t
        size = self._library.host_sensor_bytes()
        words = -(-size // np.dtype(np.uintp).itemsize)  # rounded up
        self._sensor = np.zeros(words, np.uintp)  # the struct `scare` and its memory, aligned for pointers

    def run(self, windows: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Run scaled windows [n, window, channels] independently: scaled outputs [n], and kept values by name."""
        stored = stored_windows(windows, self.facts, self._channels)
        outputs = np.empty(len(stored), np.float32)
        contents = {name: bytearray() for name in self.exported.kept}
        for start in range(0, len(stored), CHUNK):
            part = slice(start, start + CHUNK)
            scratch = self._run_part(stored[part], outputs[part])
            for name, value in self.exported.kept.items():
                contents[name] += scratch[:, value.offset : value.offset + value.size].tobytes()
        return outputs, {name: value.decode(contents[name]) for name, value in self.exported.kept.items()}

    def time(self, windows: np.ndarray) -> np.ndarray:
        """Time the windows [n, window, channels] of a stream, scaled, with a clock in C: nanoseconds [n]."""
        return self.prepare(windows)(0, len(windows))

    def prepare(self, windows: np.ndarray) -> Callable[[int, int], np.ndarray]:
        """Convert scaled windows once, for several timings.

        The function returned times `count` windows from index `first` on: nanoseconds [count], in memory that the next
        call overwrites.
        """
        stored, size = stored_windows(windows, self.facts, self._channels), window_bytes(self.facts)
        nanoseconds = np.zeros(len(stored), np.uint64)
        scratch = np.zeros(self.facts.scratch_bytes // 4 + 1, np.uint32)  # words, for their alignment
        memory, times = (array.ctypes.data_as(ctypes.c_void_p) for array in (scratch, nanoseconds))

        def time_windows(first: int, count: int) -> np.ndarray:
            start = ctypes.c_void_p(stored.ctypes.data + first * size)
            self._library.host_time(start, memory, times, ctypes.c_size_t(size), ctypes.c_size_t(count))
            return nanoseconds[:count]

        return time_windows

    def restart(self) -> None:
        """Forget all readings."""
        self._library.host_restart(self._sensor.ctypes.data_as(ctypes.c_void_p))

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading [channels]; return the status and the bytes of the answer."""
        reading = np.ascontiguousarray(numbers, np.float32)
        answer = np.empty(1, ANSWER_TYPE)
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (self._sensor, reading, answer))
        status = self._library.host_push(*pointers, ctypes.c_uint32(now_ms & 0xFFFFFFFF))  # the clock wraps
        return int(status), answer.tobytes()

    def read_memory(self) -> tuple[bytes, bytes]:
        """Read the window, then the scratch memory."""
        _, window_address, _, scratch_address = self._sensor[:CALIBRATION_WORDS].tolist()
        window = ctypes.string_at(window_address, window_bytes(self.facts))
        return window, ctypes.string_at(scratch_address, self.facts.scratch_bytes)

    def _run_part(self, windows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Run windows into `outputs`, and return the scratch memory of each [n, bytes]."""
        scratch = np.zeros((len(windows), -(-self.facts.scratch_bytes // 4)), np.uint32)
        self._library.host_run(
            *(ctypes.c_void_p(array.ctypes.data) for array in (windows, scratch, outputs)),
            *(ctypes.c_size_t(size) for size in (windows[0].nbytes, scratch[0].nbytes, len(windows))),
        )
        return scratch.view(np.uint8)
