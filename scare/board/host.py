"""An exported model on this computer: the same C as on a board, as a shared library.

    outputs, kept = HostModel(read_export(folder)).run(windows)  # of `scare export c`, scaled windows [n, N, C]

It is fast and gives bit for bit the numbers of a board. `VirtualModel` is its counterpart.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np

from scare.board.build import compile_each, compile_once, library_name
from scare.board.exports import (
    ANSWER_TYPE,
    CALIBRATION_WORDS,
    CChannel,
    CExport,
    model_structure,
    stored_windows,
    window_bytes,
)

CHUNK = 1024  # windows in one call
HOST_FLAGS = ("-mcpu=baseline", "-fno-sanitize=undefined", "-fPIC")
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
        self.facts = self._library.host_model().contents
        self._channels = (CChannel * self.facts.channels).from_address(self.facts.channel)
        self._library.host_sensor_bytes.restype = ctypes.c_size_t
        size = self._library.host_sensor_bytes()
        self._sensor = np.zeros(-(-size // np.dtype(np.uintp).itemsize), np.uintp)

    def run(self, windows: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Run scaled windows [n, window, channels], each by itself: scaled outputs [n], and kept values by name."""
        stored = stored_windows(windows, self._channels)
        outputs = np.empty(len(stored), np.float32)
        contents = {name: bytearray() for name in self.exported.kept}
        for start in range(0, len(stored), CHUNK):
            part = slice(start, start + CHUNK)
            scratch = self._run_part(stored[part], outputs[part])
            for name, value in self.exported.kept.items():
                contents[name] += scratch[:, value.offset : value.offset + value.size].tobytes()
        return outputs, {name: value.decode(contents[name]) for name, value in self.exported.kept.items()}

    def time(self, windows: np.ndarray) -> np.ndarray:
        """Time a stream of scaled windows [n, window, channels] with a clock in C: nanoseconds [n]."""
        return self.prepare(windows)(0, len(windows))

    def prepare(self, windows: np.ndarray) -> Callable[[int, int], np.ndarray]:
        """Convert scaled windows once; the result runs `count` of them from number `first` on.

        It returns nanoseconds [count], in memory that the next call overwrites.
        """
        stored, size = stored_windows(windows, self._channels), window_bytes(self.facts)
        taken, scratch = np.zeros(len(stored), np.uint64), np.zeros(self.facts.scratch_bytes // 4 + 1, np.uint32)
        memory, times = (array.ctypes.data_as(ctypes.c_void_p) for array in (scratch, taken))

        def call(first: int, count: int) -> np.ndarray:
            start = ctypes.c_void_p(stored.ctypes.data + first * size)
            self._library.host_time(start, memory, times, ctypes.c_size_t(size), ctypes.c_size_t(count))
            return taken[:count]

        return call

    def restart(self) -> None:
        """Forget all readings."""
        self._library.host_restart(self._sensor.ctypes.data_as(ctypes.c_void_p))

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading: status, and bytes of the answer."""
        reading, answer = np.ascontiguousarray(numbers, np.float32), np.empty(1, ANSWER_TYPE)
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (self._sensor, reading, answer))
        status = self._library.host_push(*pointers, ctypes.c_uint32(now_ms & 0xFFFFFFFF))
        return int(status), answer.tobytes()

    def read_memory(self) -> tuple[bytes, bytes]:
        """Read the window and scratch memory."""
        _, window, _, scratch = self._sensor[:CALIBRATION_WORDS].tolist()
        return ctypes.string_at(window, window_bytes(self.facts)), ctypes.string_at(scratch, self.facts.scratch_bytes)

    def _run_part(self, windows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Fill `outputs`, and return the scratch memory of each window [n, bytes]."""
        scratch = np.zeros((len(windows), -(-self.facts.scratch_bytes // 4)), np.uint32)
        self._library.host_run(
            *(ctypes.c_void_p(array.ctypes.data) for array in (windows, scratch, outputs)),
            *(ctypes.c_size_t(size) for size in (windows[0].nbytes, scratch[0].nbytes, len(windows))),
        )
        return scratch.view(np.uint8)
