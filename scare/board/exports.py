"""Exported C as the board package reads it: sources and flags, the structures of scare.h, and streams of readings.

a folder of `scare export` -> read_export -> CExport -> HostModel, VirtualModel -> push_all -> StreamAnswers
"""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scare.board.vectors import StreamRow
from scare.errors import DataError
from scare.export.descriptor import InputChannel, Range, encode_windows
from scare.export.scare_json import ExportFolder, KeptValue, find_exports

OK, HISTORY, MISSING, RANGE, EARLY, NOT_FINITE = range(6)  # `scare_status` of scare.h
ANSWER = {"value": "<f4", "low": "<f4", "high": "<f4", "flags": "<u4"}  # `scare_answer`
ANSWER_TYPE = np.dtype(list(ANSWER.items()))
CALIBRATION_WORDS = 4  # first words of `scare`: model, window, real, scratch


@dataclass(frozen=True)
class CExport:
    """A model in C: its source, the folder of the runtime, and the values that can be read after a run, by name."""

    source: Path
    runtime_headers: Path
    kept: Mapping[str, KeptValue]

    @property
    def name(self) -> str:
        """Name of the model in C."""
        return self.source.stem

    @property
    def runtime(self) -> list[Path]:
        """Sources of the runtime, the same for every model."""
        every = [path for part in ("*.c", "kernels/*.c") for path in sorted(self.runtime_headers.glob(part))]
        return [path for path in every if path != self.source]

    @property
    def includes(self) -> list[Path]:
        """Folders of all headers."""
        return [self.source.parent, self.runtime_headers]

    @property
    def defines(self) -> tuple[str, ...]:
        """Compiler flags of main.c and host.c, which work with any model."""
        header, prefix = f'-DMODEL_HEADER="{self.name}.h"', self.name.upper()
        return (
            *(header, f"-DMODEL={self.name}"),
            *(f"-DMODEL_MEMORY={prefix}_BYTES", f"-DMODEL_READING={prefix}_CHANNELS"),
        )


class CRange(ctypes.LittleEndianStructure):
    """`scare_range` of scare.h."""

    _fields_ = tuple((name, ctypes.c_float) for name in Range._fields)


class CChannel(ctypes.LittleEndianStructure):
    """`scare_channel` of scare.h."""

    _fields_ = tuple(
        (name, CRange if kind is Range else ctypes.c_float) for name, kind in InputChannel.__annotations__.items()
    )


def model_structure(pointer: type) -> Any:
    """Make `scare_model` of scare.h, with pointers of this type."""
    kinds = {
        **dict.fromkeys(("window", "channels", "step_ms", "checked", "needed", "hold"), ctypes.c_uint32),
        **dict.fromkeys(("channel", "absent"), pointer),
        "absent_count": ctypes.c_uint32,
        **dict.fromkeys(("target_scale", "target_center", "floor"), ctypes.c_float),
        **dict.fromkeys(("interval", "whitening"), pointer),
        **dict.fromkeys(("limit", "slow_limit", "rising", "lowest", "slope"), ctypes.c_float),
        **dict.fromkeys(("integer", "scratch_bytes"), ctypes.c_uint32),
        "run": pointer,
    }
    return type("Model", (ctypes.Structure,), {"_fields_": tuple(kinds.items())})


def read_export(folder: Path) -> CExport:
    """Read the exported C in a folder; a folder without C is refused."""
    return read_c_export(find_exports(folder)[0])


def read_c_export(export: ExportFolder) -> CExport:
    """Like `read_export`, for an export that was found already."""
    if not export.description.runtime:
        raise DataError(f"{export.folder} holds no C: it is an export to {export.description.target}")
    return CExport(export.model, export.runtime, export.description.kept)


def stored_windows(windows: np.ndarray, channels: Sequence[CChannel]) -> np.ndarray:
    """Convert scaled windows [n, window, channels] to the model's memory format: float, or steps of `quantum`.

    Integers are steps already.
    """
    quanta = [channel.quantum for channel in channels if channel.quantum]
    if quanta and np.issubdtype(windows.dtype, np.integer):
        stored = windows.astype(np.int16).swapaxes(1, 2)
    else:
        stored = encode_windows(windows, quanta)
    return np.ascontiguousarray(stored)


class StreamModel(Protocol):
    """A model that readings can be pushed into: `HostModel` or `VirtualModel`."""

    exported: CExport
    facts: Any

    def restart(self) -> None:
        """Forget all readings."""

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading: status, and bytes of the answer."""

    def read_memory(self) -> tuple[bytes, bytes]:
        """Read the window and scratch memory."""


@dataclass(frozen=True)
class StreamAnswers:
    """Answers of `scare_calibrate` to n readings; window and kept values of the m readings for which the model ran.

    Windows are [m, window, channels], in steps if they are integers.
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
    """Restart a model and push readings one after the other."""
    statuses, answers, windows = [], bytearray(), bytearray()
    kept = {name: bytearray() for name in model.exported.kept}
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
                kept[name] += scratch[place.offset : place.offset + place.size]
    contents = {name: place.decode(kept[name]) for name, place in model.exported.kept.items()}
    value, low, high, flags = (np.frombuffer(answers, ANSWER_TYPE)[name].copy() for name in ANSWER)
    return StreamAnswers(np.array(statuses), value, low, high, flags, _decoded(windows, model.facts), contents)


def _decoded(windows: bytearray, facts: Any) -> np.ndarray:
    if facts.integer:
        return np.frombuffer(windows, "<i2").reshape(-1, facts.channels, facts.window).swapaxes(1, 2)
    return np.frombuffer(windows, "<f4").reshape(-1, facts.window, facts.channels)


def window_bytes(facts: Any) -> int:
    """Size of a model's window in bytes."""
    return int(facts.window * facts.channels * (2 if facts.integer else 4))
