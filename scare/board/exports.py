"""A model in C that `scare export` wrote, as those see it who build and run it."""

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
CALIBRATION_WORDS = 4  # of `scare` as far as its scratch memory: model, window, real, scratch


@dataclass(frozen=True)
class CExport:
    """A model in C: its source, the folder of the runtime, and the values it keeps in scratch memory, by name."""

    source: Path
    runtime_headers: Path
    kept: Mapping[str, KeptValue]

    @property
    def name(self) -> str:
        """What it is called in C."""
        return self.source.stem

    @property
    def runtime(self) -> list[Path]:
        """The runtime's sources, the same for every model, to compile with its own headers."""
        every = [path for part in ("*.c", "kernels/*.c") for path in sorted(self.runtime_headers.glob(part))]
        return [path for path in every if path != self.source]

    @property
    def includes(self) -> list[Path]:
        """Where all headers are."""
        return [self.source.parent, self.runtime_headers]

    @property
    def defines(self) -> tuple[str, ...]:
        """What a program made for any model must be given."""
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
    """`scare_model` of scare.h where pointers are so large."""
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
    """The model in C in a folder; a folder without one is refused."""
    return read_c_export(find_exports(folder)[0])


def read_c_export(export: ExportFolder) -> CExport:
    """The model in C that an export's description speaks of."""
    if not export.description.runtime:
        raise DataError(f"{export.folder} holds no C: it was exported to {export.description.target}")
    return CExport(export.model, export.runtime, export.description.kept)


def stored_windows(windows: np.ndarray, channels: Sequence[CChannel]) -> np.ndarray:
    """Scaled windows [n, window, channels] as the model's memory holds them: as float, or as steps of `quantum`.

    Whole numbers are steps already.
    """
    quanta = [channel.quantum for channel in channels if channel.quantum]
    if quanta and np.issubdtype(windows.dtype, np.integer):
        stored = windows.astype(np.int16).swapaxes(1, 2)
    else:
        stored = encode_windows(windows, quanta)
    return np.ascontiguousarray(stored)


class StreamModel(Protocol):
    """A model that takes readings, wherever it runs."""

    exported: CExport
    facts: Any

    def restart(self) -> None:
        """Forget all readings."""

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading: status, and the answer's bytes."""

    def held(self) -> tuple[bytes, bytes]:
        """What is in the window and in scratch memory."""


@dataclass(frozen=True)
class StreamAnswers:
    """What `scare_calibrate` said to each of n readings; of the m for which the model ran, the window and values kept.

    Windows are [m, window, channels], in steps where they are whole numbers.
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
        """For which readings the model ran, [n]."""
        return np.isin(self.statuses, (OK, NOT_FINITE))


def push_all(model: StreamModel, readings: Iterable[StreamRow]) -> StreamAnswers:
    """Push readings one after the other into a model that has seen none."""
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
            window, scratch = model.held()
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
    """What a model's window takes in memory."""
    return int(facts.window * facts.channels * (2 if facts.integer else 4))
