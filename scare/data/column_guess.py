"""Inspect a table without a description and propose which column is what.

Comes from `tables.open_table`; its `mapping` goes, as TOML that a person may correct, to
`column_mapping.read_readings`. Repeated and unordered rows are not errors here: they are counted.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.data.column_mapping import ColumnMapping
from scare.data.quantities import guess_unit, is_weather
from scare.data.readings import DEVICE, TIME, Channel
from scare.data.tables import AS_FOUND, LINE, TableFile, TableOptions, open_table, with_numbers
from scare.data.times import find_time_format, parse_times
from scare.errors import DataError

TIME_WORDS = {"date", "time", "datetime", "timestamp", "epoch", "year", "month", "day", "hour", "minute"}
PLACE_WORDS = {"lat", "latitude", "lon", "long", "lng", "longitude", "alt", "altitude", "elevation"}
LABEL_WORDS = {"flag", "flags", "qc", "status", "error", "id", "serial", "version"}
ROW_WORDS = {"row", "index", "record", "unnamed", "column"}
NO_QUANTITY = TIME_WORDS | PLACE_WORDS | LABEL_WORDS | ROW_WORDS
SITE_WORDS = {"site", "station", "location"}
NUMBERED_WORDS = {"device", "id", "node", "box", "serial", "number"}  # columns in which a device may be a number
DEVICE_WORDS = NUMBERED_WORDS | {"sensor", "name"}
# Such as "Ref.NO2", "CO(GT)" (ground truth) and "PM2.5 FEM" (federal equivalent method).
REFERENCE_NAME = re.compile(r"^ref(erence)?(?![a-z])|[._ ]ref(erence)?$|\(gt\)|\b(fem|frm|monitor)\b")
SENTINELS = (-32768.0, -9999.0, -999.0, -200.0, -99.0, -1.0, 999.0, 9999.0, 32767.0, 65535.0, 99999.0)


@dataclass(frozen=True)
class ColumnSummary:
    """One column: share of missing values, range, and numbers that look like sentinels."""

    name: str
    missing: float
    low: float
    median: float
    high: float
    sentinels: tuple[float, ...]

    @property
    def channel(self) -> Channel:
        """The column as a channel, with the unit its name suggests."""
        return Channel(self.name, guess_unit(self.name))

    @property
    def is_reference(self) -> bool:
        """Whether the name looks like that of a reference instrument's column."""
        return bool(REFERENCE_NAME.search(self.name.lower()))

    def as_dict(self) -> dict[str, Any]:
        """The column as JSON values, as `scare inspect --json` prints it."""
        return {
            "name": self.name,
            "role": "reference" if self.is_reference else "channel",
            "unit": self.channel.unit,
            "missing_share": self.missing,
            "minimum": self.low,
            "median": self.median,
            "maximum": self.high,
            "sentinels": list(self.sentinels),
        }


@dataclass(frozen=True)
class Inspection:
    """What a table seems to hold; order, step and gaps are those of each device's own rows."""

    table: TableFile
    time: tuple[str, ...]
    columns: tuple[ColumnSummary, ...]
    device_column: str
    site_column: str
    stamps: pl.DataFrame = field(repr=False, compare=False)  # `device`, `time` in the file's order
    numbers: pl.DataFrame = field(repr=False, compare=False)  # the columns' values in the same order
    options: TableOptions = AS_FOUND

    @property
    def rows(self) -> int:
        """Number of rows that are not blank."""
        return self.stamps.height

    @property
    def channels(self) -> tuple[ColumnSummary, ...]:
        """The columns that look like a sensor's."""
        return tuple(column for column in self.columns if not column.is_reference)

    @property
    def references(self) -> tuple[ColumnSummary, ...]:
        """The columns that look like a reference instrument's."""
        return tuple(column for column in self.columns if column.is_reference)

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The first and the last time."""
        return self.stamps.select(first=pl.min(TIME), last=pl.max(TIME)).row(0)

    @property
    def duplicates(self) -> int:
        """Number of rows that repeat a time of their device."""
        return _count_repeats(self.stamps)

    @property
    def out_of_order(self) -> int:
        """Number of rows that are earlier than their device's previous row."""
        earlier = pl.col(TIME) < pl.col(TIME).shift().over(DEVICE)
        return int(self.stamps.select(earlier.sum()).item())

    @cached_property
    def _steps(self) -> np.ndarray:
        """Seconds between consecutive times of a device, repeats removed [steps]."""
        ordered = self.stamps.unique().sort(DEVICE, TIME)
        steps = ordered.select(pl.col(TIME).diff().over(DEVICE).dt.total_microseconds() / 1e6)
        return steps.to_series().drop_nulls().to_numpy()

    @property
    def step_seconds(self) -> float:
        """Median time between two rows, NaN for a single row."""
        return float(np.median(self._steps)) if len(self._steps) else float("nan")

    @property
    def gaps_seconds(self) -> np.ndarray:
        """Lengths of the gaps, longest first: steps of more than one and a half times the median."""
        return -np.sort(-self._steps[self._steps > 1.5 * self.step_seconds])

    @property
    def mapping(self) -> ColumnMapping:
        """All channels and the first reference that is not weather, ready for `read_readings`."""
        if not self.channels:
            raise DataError(
                f"{self.table.path}: no column looks like a sensor's; name them with --channels or in a --config file"
            )
        references = sorted(self.references, key=lambda column: is_weather(column.name))  # weather last
        return ColumnMapping(
            self.time,
            tuple(column.channel for column in self.channels),
            references[0].channel if references else None,
            self.device_column,
            self.site_column,
            sort=self.duplicates > 0 or self.out_of_order > 0,
            **self.options.table_options,
        )

    def as_dict(self) -> dict[str, Any]:
        """The inspection as JSON values, as `scare inspect --json` prints it."""
        first, last = self.span
        gaps = self.gaps_seconds
        return {
            "file": str(self.table.path),
            "rows": self.rows,
            "time": " + ".join(self.time),
            "first": first.isoformat(),
            "last": last.isoformat(),
            "step_seconds": self.step_seconds,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "gaps": len(gaps),
            "longest_gap": str(timedelta(seconds=float(gaps[0]))) if len(gaps) else "none",
            "device_column": self.device_column,
            "site_column": self.site_column,
            "columns": [column.as_dict() for column in self.columns],
        }


def inspect_table(path: Path | str, options: TableOptions = AS_FOUND) -> Inspection:
    """Propose the time, channels, references, device and site of a table, and measure its rows."""
    table = open_table(path, options)
    raw = table.read(table.columns)
    frame = with_numbers(raw.drop(LINE), table.decimal)
    time = _find_time(table, frame)
    times = parse_times(raw, find_time_format(table, time, options.dates), table)
    del raw  # most of the memory, for a large file
    device = _find_device(frame.drop(time), times)
    rest = frame.drop(time, *filter(None, [device]))
    columns = []
    for column in rest:
        if not column.dtype.is_numeric() or not column.count() or words(column.name) & NO_QUANTITY:
            continue
        steps = column.diff().drop_nulls()
        if len(steps) >= 10 and (steps == 1).all():  # a row number
            continue
        values = column.drop_nulls().to_numpy()
        low, median, high = np.quantile(values, [0, 0.5, 1]).tolist()
        missing = column.null_count() / len(column)
        columns.append(ColumnSummary(column.name, missing, low, median, high, find_sentinels(values)))
    labels = pl.col(device).cast(pl.String) if device else pl.lit("")
    stamps = frame.select(labels.alias(DEVICE), times)
    numbers = rest.select(column.name for column in columns)
    texts = [name for name, kind in rest.schema.items() if kind == pl.String]
    site = next((name for name in texts if words(name) & SITE_WORDS), "")
    return Inspection(table, time, tuple(columns), device, site, stamps, numbers, options)


def find_time_and_device(
    path: Path | str, time: tuple[str, ...] = (), options: TableOptions = AS_FOUND
) -> tuple[tuple[str, ...], str]:
    """Find the time columns of a table (unless given) and its device column (or ""), from its first rows only."""
    table = open_table(path, options)
    raw = next(table.batches(table.columns), None)
    if raw is None:
        raise DataError(f"{table.path}: the file has a header but no rows")
    frame = with_numbers(raw.drop(LINE), table.decimal)
    table.require(time)
    time = time or _find_time(table, frame)
    times = parse_times(raw, find_time_format(table, time, options.dates), table)
    return time, _find_device(frame.drop(time), times)


def words(name: str) -> set[str]:
    """The lower-case words of a column name.

    >>> sorted(words("NO2_B43F_flag"))
    ['b', 'f', 'flag', 'no']
    """
    return set(re.findall(r"[^\W\d_]+", name.lower()))


def find_sentinels(values: np.ndarray) -> tuple[float, ...]:
    """Find the usual no-reading numbers that are frequent and beyond which no other value lies.

    >>> find_sentinels(np.array([3.0, -200, 4, -200, 5, -200, -1]))
    (-200.0,)
    """
    others = values[~np.isin(values, SENTINELS)]
    often = max(3, len(values) / 1000)
    # A quotient of 1 or more: the value has the sentinel's sign and lies at or beyond it.
    outside = [number for number in SENTINELS if not np.any(others / number >= 1)]
    return tuple(number for number in outside if np.sum(values == number) >= often)


def _find_time(table: TableFile, frame: pl.DataFrame) -> tuple[str, ...]:
    """The first of these that holds times: a date and a time column, a column with such a name, any text column."""
    named = [name for name in frame.columns if words(name) & TIME_WORDS]
    texts = [name for name, kind in frame.schema.items() if not kind.is_numeric() and name not in named]
    pairs = [pair for pair in permutations(named, 2) if "date" in words(pair[0]) and "time" in words(pair[1])]
    for columns in (*pairs, *((name,) for name in (*named, *texts))):
        try:
            return find_time_format(table, columns).columns
        except DataError:
            continue
    raise DataError(f"{table.path}: no column holds times; there are {', '.join(table.columns)}")


def _find_device(frame: pl.DataFrame, times: pl.Series) -> str:
    """The column that tells rows of equal times apart, or else one with few values and a name like `device`.

    A column tells them apart if fewer than a tenth of the repeated times are still repeated within one of its values.
    """
    few_values = [column for column in frame if not column.null_count() and column.n_unique() <= len(column) / 2]
    labels = [column for column in few_values if column.dtype == pl.String or words(column.name) <= NUMBERED_WORDS]
    repeats = {label.name: _count_repeats(pl.DataFrame({"label": label, "time": times})) for label in labels}
    named = [name for name in repeats if words(name) and words(name) <= DEVICE_WORDS]
    best = min(repeats, key=lambda name: (repeats[name], name not in named), default="")
    if best and repeats[best] < _count_repeats(times.to_frame()) / 10:
        return best
    return named[0] if named else ""


def _count_repeats(frame: pl.DataFrame) -> int:
    """Number of rows that equal an earlier row."""
    return frame.height - frame.n_unique()
