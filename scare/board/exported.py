"""A folder with a model in C that `scare export` wrote, as those see it who build and run what is in it."""

import ctypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scare.board.trials import Reading
from scare.errors import DataError
from scare.export.descriptor import as_read

OK, HISTORY, MISSING, RANGE, EARLY, NOT_FINITE = range(6)  # `scare_status` of scare.h
DECLARED = re.compile(r"^extern const scare_model (\w+);", re.MULTILINE)
CALIBRATION_WORDS = 4  # of `scare` as far as its scratch memory: model, window, real, scratch


@dataclass(frozen=True)
class Kept:
    """A value that can be read in scratch memory after a run."""

    offset: int
    kind: np.dtype
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """What it takes in memory."""
        return int(np.prod(self.shape)) * self.kind.itemsize

    def decode(self, contents: bytearray) -> np.ndarray:
        """The numbers of many runs, one after the other, [n, …]."""
        return np.frombuffer(contents, self.kind).reshape(-1, *self.shape)


@dataclass(frozen=True)
class Exported:
    """The model in a folder: its name in C, and the values it keeps, by name."""

    folder: Path
    name: str
    kept: Mapping[str, Kept]

    @property
    def sources(self) -> list[Path]:
        """The model's own, to compile with `includes`."""
        return [self.folder / f"{self.name}.c"]

    @property
    def runtime(self) -> list[Path]:
        """The runtime's, the same for every model, to compile with its own headers."""
        every = [path for part in ("*.c", "kernels/*.c") for path in sorted(self.runtime_headers.glob(part))]
        return [path for path in every if path not in self.sources]

    @property
    def runtime_headers(self) -> Path:
        """Where the runtime's headers are: in a folder of their own, or beside the model."""
        apart = self.folder / "src"
        return apart if apart.is_dir() else self.folder

    @property
    def includes(self) -> list[Path]:
        """Where all headers are."""
        return [self.folder, self.runtime_headers]

    @property
    def defines(self) -> tuple[str, ...]:
        """What a program made for any model must be told."""
        header, prefix = f'-DMODEL_HEADER="{self.name}.h"', self.name.upper()
        return (
            *(header, f"-DMODEL={self.name}"),
            *(f"-DMODEL_MEMORY={prefix}_BYTES", f"-DMODEL_READING={prefix}_CHANNELS"),
        )


class Channel(ctypes.LittleEndianStructure):
    """`scare_channel` of scare.h."""

    _fields_ = tuple((name, ctypes.c_float) for name in ("low", "high", "center", "rest", "inverse", "quantum"))


def model_structure(pointer: type) -> Any:
    """`scare_model` of scare.h where pointers are so large."""
    kinds = {
        **dict.fromkeys(("window", "channels", "step_ms", "checked", "needed", "hold"), ctypes.c_uint32),
        **dict.fromkeys(("channel", "absent"), pointer),
        "absent_count": ctypes.c_uint32,
        **dict.fromkeys(("target_scale", "target_center"), ctypes.c_float),
        **dict.fromkeys(("integer", "scratch_bytes"), ctypes.c_uint32),
        "run": pointer,
    }
    return type("Model", (ctypes.Structure,), {"_fields_": tuple(kinds.items())})


def read_export(folder: Path) -> Exported:
    """The model in a folder; a folder without one is refused."""
    for header in sorted(folder.glob("*.h")):
        if found := _read_header(header):
            return found
    raise DataError(f"{folder} holds no model; make one with: scare export c MODEL.scare --out {folder}")


def _read_header(header: Path) -> Exported | None:
    """The model that a header declares, if it does."""
    text = header.read_text(encoding="utf-8", errors="replace")
    found = DECLARED.search(text)
    return Exported(header.parent, found[1], dict(_kept(found[1].upper(), text))) if found else None


def find_export(folder: Path, name: str) -> Exported:
    """The model of this name in C, wherever in a folder it is."""
    for header in sorted(folder.rglob(f"{name}.h")):
        if found := _read_header(header):
            return found
    raise DataError(f"{folder} holds no model '{name}' in C; make one with: scare export c MODEL.scare --out {folder}")


def as_stored(windows: np.ndarray, channels: Sequence[Channel]) -> np.ndarray:
    """Scaled windows [n, window, channels] as the model's memory holds them: as float, or as steps of `quantum`.

    Whole numbers are steps already.
    """
    quanta = [channel.quantum for channel in channels if channel.quantum]
    if quanta and np.issubdtype(windows.dtype, np.integer):
        stored = windows.astype(np.int16).swapaxes(1, 2)
    else:
        stored = as_read(windows, quanta)
    return np.ascontiguousarray(stored)


class Pushed(Protocol):
    """A model that takes readings, wherever it runs."""

    exported: Exported
    facts: Any

    def restart(self) -> None:
        """Forget all readings."""

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading: status, and the calibrated value's bytes."""

    def held(self) -> tuple[bytes, bytes]:
        """What is in the window and in scratch memory."""


@dataclass(frozen=True)
class Answers:
    """What `scare_push` said to each of n readings; of the m for which the model ran, the window and values kept.

    Windows are [m, window, channels], in steps where they are whole numbers.
    """

    statuses: np.ndarray
    values: np.ndarray
    windows: np.ndarray
    kept: dict[str, np.ndarray]

    @property
    def ran(self) -> np.ndarray:
        """For which readings the model ran, [n]."""
        return np.isin(self.statuses, (OK, NOT_FINITE))


def push_all(model: Pushed, readings: Iterable[Reading]) -> Answers:
    """Push readings one after the other into a model that has seen none."""
    statuses, values, windows = [], bytearray(), bytearray()
    kept = {name: bytearray() for name in model.exported.kept}
    model.restart()
    for reading in readings:
        if reading.restart:
            model.restart()
        status, value = model.take(reading.now_ms, reading.numbers)
        statuses.append(status)
        values += value
        if status in (OK, NOT_FINITE):
            window, scratch = model.held()
            windows += window
            for name, place in model.exported.kept.items():
                kept[name] += scratch[place.offset : place.offset + place.size]
    contents = {name: place.decode(kept[name]) for name, place in model.exported.kept.items()}
    return Answers(np.array(statuses), np.frombuffer(values, "<f4"), _decoded(windows, model.facts), contents)


def _decoded(windows: bytearray, facts: Any) -> np.ndarray:
    if facts.integer:
        return np.frombuffer(windows, "<i2").reshape(-1, facts.channels, facts.window).swapaxes(1, 2)
    return np.frombuffer(windows, "<f4").reshape(-1, facts.window, facts.channels)


def window_bytes(facts: Any) -> int:
    """What a model's window takes in memory."""
    return int(facts.window * facts.channels * (2 if facts.integer else 4))


def _kept(prefix: str, header: str) -> list[tuple[str, Kept]]:
    pattern = rf"#define {prefix}_KEPT_(\w+)_OFFSET (\d+) /\* .*: (\w+?)(?:_t)? ((?:\[\d+\])+) \*/"
    return [
        (name.lower(), Kept(int(offset), np.dtype("f4" if kind == "float" else kind), _shape(shape)))
        for name, offset, kind, shape in re.findall(pattern, header)
    ]


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))
