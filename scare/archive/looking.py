"""A look at a file before it is calibrated: which devices it holds, from when to when, at which step."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from scare.archive.listing import Source
from scare.archive.places import GONE, Stamp, on_disk, stamp
from scare.data.readings import DEVICE, TIME
from scare.data.table_files import open_table
from scare.data.tables import devices_of, stem
from scare.data.times import Dates, find_time_format, parse_times
from scare.errors import DataError, ScareError

CHANGED = "it was changed while it was read; run again"


@dataclass(frozen=True)
class Labels:
    """The columns that hold the time and, in files that do not name it otherwise, the device; how dates are written."""

    time: tuple[str, ...]
    device_column: str = ""
    dates: Dates = ""


@dataclass(frozen=True)
class Piece:
    """The rows of one device in a file: how many, from when to when in seconds, and their usual distance."""

    device: str
    rows: int
    first: float
    last: float
    step: float


@dataclass(frozen=True)
class Look:
    """What is known of a file: a stamp that changes when it is written to, its content's hash, a piece for each device.

    `why` tells why it cannot be read, where it cannot.
    """

    name: str
    stamp: Stamp = (0, 0)
    sha256: str = ""
    pieces: tuple[Piece, ...] = ()
    why: str = ""

    @property
    def first(self) -> float:
        """The earliest time, in seconds."""
        return min(piece.first for piece in self.pieces)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of its devices."""
        return tuple(piece.device for piece in self.pieces)


def content_hash(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(GONE) from error


def look_at_all(sources: Sequence[Sequence[Any]], labels: Sequence[Any]) -> list[dict[str, Any]]:
    """Looks at files, as plain values; what a worker does first."""
    return [asdict(look_at(Source(*one), Labels(*labels))) for one in sources]


def look_at(source: Source, labels: Labels) -> Look:
    """A look at one file; what is wrong with it is part of the look."""
    try:
        before = stamp(source.path)
        with on_disk(source.path) as file:
            sha256, pieces = content_hash(file), look_into(file, source.device, labels)
        if stamp(source.path) != before:
            raise DataError(CHANGED)
    except ScareError as error:
        return Look(source.name, why=str(error))
    return Look(source.name, before, sha256, tuple(pieces))


def look_into(file: Path, device: str, labels: Labels) -> list[Piece]:
    """The pieces of a file by name of the device, in memory that does not grow with its rows."""
    table = open_table(file)
    column = "" if device else labels.device_column
    columns = [*labels.time, *([column] if column else [])]
    table.require(columns)
    form, device = find_time_format(table, labels.time, labels.dates), device or stem(file)
    parts = []
    for batch in table.batches(columns):
        times = pl.DataFrame([devices_of(batch, column, device, table), parse_times(batch, form, table).dt.epoch("us")])
        parts.append(times.group_by(DEVICE).agg(*_facts(pl.col(TIME))))
    rows = (
        pl.concat(parts)
        .group_by(DEVICE)
        .agg(pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max(), pl.col("step").max())
    )
    return [Piece(*row) for row in rows.sort(DEVICE).select(DEVICE, "rows", "first", "last", "step").rows()]


def _facts(time: pl.Expr) -> list[pl.Expr]:
    step = time.diff().median().fill_null(0.0) / 1e6
    return [
        pl.len().alias("rows"),
        (time.min() / 1e6).alias("first"),
        (time.max() / 1e6).alias("last"),
        step.alias("step"),
    ]
