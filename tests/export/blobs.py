"""Blobs opened and run here, by the whole runtime as a shared library."""

import ctypes
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scare.board.build import STRICT, compile_once, library_name
from scare.board.host import ANSWER_TYPE, HOST_FLAGS, ModelStructure
from tests.export.building import RUNTIME, sources

OK, MEMORY, ARGUMENT, DAMAGED, FOREIGN, WRONG, UNSIGNED = 0, 6, 7, 8, 9, 10, 11
ACCESS = """#include "scare_blob.h"
unsigned size_of_blob(void);
unsigned size_of_calibration(void);
const scare_golden *golden_of(const scare_blob *blob);
const char *title_of(const scare_blob *blob);
unsigned inputs_of(const scare_blob *blob);
unsigned bytes_of(const scare_blob *blob);
void run_blob(const scare_blob *blob, const void *window, void *scratch, scare_choice *choice, float *scaled);
unsigned size_of_blob(void) { return sizeof(scare_blob); }
unsigned size_of_calibration(void) { return sizeof(scare); }
const scare_golden *golden_of(const scare_blob *blob) { return &blob->golden; }
const char *title_of(const scare_blob *blob) { return blob->title; }
unsigned inputs_of(const scare_blob *blob) { return blob->inputs; }
unsigned bytes_of(const scare_blob *blob) { return blob->bytes; }
void run_blob(const scare_blob *blob, const void *window, void *scratch, scare_choice *choice, float *scaled) {
    blob->model.run(window, scratch, choice, scaled, &blob->model);
}
"""


@cache
def runtime(*flags: str) -> ctypes.CDLL:
    """The runtime with everything in it."""
    with TemporaryDirectory() as scratch:
        access = Path(scratch) / "access.c"
        access.write_text(ACCESS)
        all_flags = ("-shared", *STRICT, *HOST_FLAGS, "-DSCARE_SETTLE=1", *flags)
        library = ctypes.CDLL(
            str(compile_once([access, *sources(RUNTIME)], library_name("blobs"), all_flags, [RUNTIME]))
        )
    library.golden_of.restype = ctypes.c_void_p
    library.title_of.restype = ctypes.c_char_p
    return library


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Blob:
    """A file in memory, which is opened at once; `status` says whether that worked."""

    def __init__(self, content: bytes, key: bytes | None = None, *flags: str) -> None:
        self._library = runtime(*flags)
        self._content = np.frombuffer(content + bytes(-len(content) % 4), np.uint32).copy()
        self._blob = np.zeros(self._library.size_of_blob() // 8 + 1, np.uint64)
        self._key = key
        size = ctypes.c_size_t(len(content))
        if key is None:
            self.status = self._library.scare_blob_open_unsigned(_pointer(self._blob), _pointer(self._content), size)
        else:
            self.status = self._library.scare_blob_open(_pointer(self._blob), _pointer(self._content), size, key)
        self.facts = ModelStructure.from_address(self._blob.ctypes.data)
        self.title = self._library.title_of(_pointer(self._blob)).decode(errors="replace") if self.status == OK else ""
        self.inputs = self._library.inputs_of(_pointer(self._blob)) & 0xFFFFFFFF
        self.bytes = self._library.bytes_of(_pointer(self._blob))

    @property
    def version(self) -> str:
        """As `scare live` gives it."""
        text = ctypes.create_string_buffer(25)
        self._library.scare_blob_version(_pointer(self._blob), text)
        return text.value.decode()

    def begin(self, size: int) -> int:
        """Prepare a calibration in so many bytes."""
        self._memory = np.full(-(-size // 8) + 1, 0xA5A5A5A5A5A5A5A5, np.uint64)
        self._calibration = np.zeros(self._library.size_of_calibration() // 8 + 1, np.uint64)
        pointers = map(_pointer, (self._calibration, self._blob, self._memory))
        return self._library.scare_init(*pointers, ctypes.c_size_t(size))

    def self_test(self) -> int:
        golden = ctypes.c_void_p(self._library.golden_of(_pointer(self._blob)))
        return self._library.scare_self_test(_pointer(self._calibration), golden)

    def calibrate(self, now_ms: int, reading: np.ndarray) -> tuple[int, np.void]:
        row, answer = np.asarray(reading, np.float32), np.zeros(1, ANSWER_TYPE)
        now, pointers = ctypes.c_uint32(now_ms % 2**32), map(_pointer, (row, answer))
        return self._library.scare_calibrate(_pointer(self._calibration), now, *pointers), answer[0]

    def run(self, window: np.ndarray, choice: np.ndarray | None = None) -> float:
        """The scaled result of one window as the model reads it."""
        window = np.ascontiguousarray(window)
        scratch = np.full(self.facts.scratch_bytes // 4, 0x7FC0ABCD, np.uint32)
        choice = np.zeros(2, np.uint32) if choice is None else choice
        scaled = ctypes.c_float(-1.0)
        pointers = map(_pointer, (self._blob, window, scratch, choice))
        self._library.run_blob(*pointers, ctypes.byref(scaled))
        return scaled.value
