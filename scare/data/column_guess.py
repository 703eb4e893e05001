"""Inspect a table without a description and propose which column is what.

`Inspection.mapping` can be written as TOML, corrected by a person and given to `column_mapping.read_readings`.
Repeated and unordered rows are not errors here; they are counted.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from scare.data.alignment import MANY_REPEATED
from scare.data.cells import plain_numbers
from scare.data.column_kind import (
    COLUMN_WORDS,
    MARGIN,
    PARAMETER_WORDS,
    TIME_WORDS,
    ColumnSummary,
    highest_masses,
    is_reference_name,
    stated_quantity,
    summarise,
    why_no_channel,
    words,
)
from scare.data.column_mapping import ColumnMapping
from scare.data.known_formats import FormatColumn
from scare.data.laser_pairs import describe_pair, find_laser_pairs, mean_of_lasers
from scare.data.quantities import find_quantity, find_unit, guess_unit, quantities
from scare.data.readings import DEVICE, TIME, Readings
from scare.data.reshape import MONITOR
from scare.data.tables import AS_FOUND, TableFile, TableOptions, Tally, open_table, with_numbers
from scare.data.times import TimeFormat, find_time_columns, find_time_format, parse_times
from scare.errors import DataError

SITE_WORDS, NUMBERED_WORDS = COLUMN_WORDS["site"], COLUMN_WORDS["numbered_device"]
DEVICE_WORDS = NUMBERED_WORDS | {"sensor", "name"}
LABEL_WORDS = DEVICE_WORDS | SITE_WORDS | {"code"}  # columns in which numbers may tell rows of equal times apart
SIZES = ("PM2.5", "PM10", "PM", "particle count")  # of particles, first what is calibrated most
TENTHS = re.compile(r"pm[ _]?(100?)(?!\d)", re.IGNORECASE)  # a name with pm10 or pm100
SHOWN, SHOWN_UNUSED = 5, 12  # most columns named in a message
SNAPSHOT = 10  # so many rows, all of one time, are a snapshot of many devices and no series
FEW_LABELS = 50  # most distinct labels in a column that may tell rows of equal times apart
SAME_SIGNAL = 0.98  # correlation above which one of two channels is enough
CORRELATED_ROWS = 20_000  # about as many rows are enough for a correlation
EQUALLY_GOOD = 0.02  # columns whose correlations differ by less are equally good: the first is taken
SAME_DEVICE = pl.col(DEVICE) == pl.col(DEVICE).shift()  # as the row before, in rows that are sorted by device
WEAK_SENSOR, CLEAR_SENSOR = 0.5, 0.9  # correlations below which a channel is not the sensor, and above which it is


@dataclass(frozen=True)
class Inspection:
    """What a table seems to hold; order, step and gaps are those of each device's own rows.

    `left_out` says of each other column why it is no channel; `notes` are sentences about what was guessed.
    """

    table: TableFile
    time: tuple[str, ...]
    columns: tuple[ColumnSummary, ...]
    device_column: str
    site_column: str
    stamps: pl.DataFrame = field(repr=False, compare=False)  # `device`, `time` in the file's order
    numbers: pl.DataFrame = field(repr=False, compare=False)  # the columns' values in the same order
    options: TableOptions = AS_FOUND
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

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
    def is_reference(self) -> bool:
        """Whether the table is a reference's alone, by its known format or because no column looks like a sensor's."""
        known = self.table.format.kind if self.table.format else ""
        return bool(self.columns) and (known == "reference" or not self.channels)

    def column(self, name: str) -> ColumnSummary:
        """Return the summary of a column; of one that was left out, only what its name tells."""
        quantity = find_quantity(name)
        unknown = ColumnSummary(name, nan, nan, nan, nan, (), quantity.name if quantity else "", guess_unit(name))
        return next((column for column in self.columns if column.name == name), unknown)

    @property
    def why_left_out(self) -> str:
        """Why columns of numbers are no channels, in brackets; empty if there are none."""
        reasons = ", ".join(f"{name} is {reason}" for name, reason in self.left_out[:SHOWN])
        return f" ({reasons})" if reasons else ""

    @property
    def span(self) -> tuple[datetime, datetime]:
        """The first and the last time."""
        return self.stamps.select(first=pl.min(TIME), last=pl.max(TIME)).row(0)

    @cached_property
    def duplicates(self) -> int:
        """Number of rows that repeat a time of their device."""
        return _count_repeats(self.stamps[TIME], self.stamps[DEVICE])

    @cached_property
    def out_of_order(self) -> int:
        """Number of rows that are earlier than their device's previous row."""
        if self.stamps[TIME].is_sorted():
            return 0
        ordered = self.stamps.sort(DEVICE, maintain_order=True)
        return int(ordered.select((SAME_DEVICE & (pl.col(TIME) < pl.col(TIME).shift())).sum()).item())

    @cached_property
    def _steps(self) -> np.ndarray:
        """Seconds between consecutive times of a device, repeats removed [steps]."""
        seconds = pl.col(TIME).diff().dt.total_microseconds() / 1e6
        steps = self.stamps.sort(DEVICE, TIME).select(seconds.filter(SAME_DEVICE & (seconds > 0)))
        return steps.to_series().to_numpy()

    @property
    def step_seconds(self) -> float:
        """Median time between two rows, NaN for a single row."""
        return float(np.median(self._steps)) if len(self._steps) else nan

    @property
    def gaps_seconds(self) -> np.ndarray:
        """Lengths of the gaps, longest first: steps of more than one and a half times the median."""
        return -np.sort(-self._steps[self._steps > 1.5 * self.step_seconds])

    @cached_property
    def mapping(self) -> ColumnMapping:
        """What `propose` proposes, ready for `read_readings`."""
        return self.propose()[0]

    def propose(self, quantity: str = "", reference: str = "", sensor: str = "") -> tuple[ColumnMapping, list[str]]:
        """Choose a reference, the sensor to calibrate and the channels that help; also returns the reasons.

        The arguments are what is known already: the pollutant, the column of the reference, the column of the sensor;
        an empty one is chosen.
        """
        truth, notes = self._choose_reference(quantity, reference)
        channels = tuple(column for column in self.columns if truth is None or column.name != truth.name)
        # If all columns are called like a reference's, any of them may be the sensor's.
        channels = tuple(column for column in channels if not column.is_reference) or channels
        if self.table.format:  # the columns that a known format names come first, in its order
            order = [*self.table.format.columns, *(column.name for column in channels)]
            channels = tuple(sorted(channels, key=lambda column: order.index(column.name)))
        if not channels:
            raise DataError(
                f"{self.table.path}: no column looks like a sensor's{self.why_left_out}; name them with --channels or"
                " in a --config file"
            )
        if sensor:
            first = self.column(sensor)
        else:
            correlate = partial(self._correlate, other=truth.name) if truth else None
            first, reasons = choose_sensor(channels, truth.quantity if truth else quantity, correlate)
            notes += reasons
        used = self._with_companions(first, channels)
        if unused := [column.name for column in channels if column not in used]:
            others = f" and {len(unused) - SHOWN_UNUSED} more" if len(unused) > SHOWN_UNUSED else ""
            notes.append(f"not used: {', '.join(unused[:SHOWN_UNUSED])}{others} (add a column with --channels)")
        mapping = ColumnMapping(
            self.time,
            tuple(column.channel for column in used),
            truth.channel if truth else None,
            self.device_column,
            self.site_column,
            sort=self.duplicates > 0 or self.out_of_order > 0,
            **self.options.table_options,
        )
        return mapping, notes

    def _choose_reference(self, quantity: str, name: str) -> tuple[ColumnSummary | None, list[str]]:
        """Choose the reference: the one named, or else one of the quantity asked for; also returns notes on the others.

        Among several, one whose quantity a channel measures too comes first, and weather last.
        """
        if name:
            return next((column for column in self.columns if column.name == name), None), []
        references = [column for column in self.references if not quantity or column.measures(quantity)]
        if not references:
            return None, []

        def rank(column: ColumnSummary) -> tuple[bool, bool]:
            is_measured = any(column.quantity and channel.measures(column.quantity) for channel in self.channels)
            return column.family == "weather", not is_measured

        first = min(references, key=rank)
        others = [column.name for column in references if column is not first and column.family != "weather"]
        note = (
            f"the reference is {first.name}; there are also {', '.join(others)} (choose with --reference or --quantity)"
        )
        return first, [note] if others else []

    def _with_companions(self, sensor: ColumnSummary, channels: Sequence[ColumnSummary]) -> tuple[ColumnSummary, ...]:
        """Choose the sensor and the channels that help to calibrate it, the sensor first.

        Candidates are channels of its family, such as gases (but no particle counts), temperature and humidity, and
        channels of unknown quantity unless the sensor measures particles. If the sensor's quantity is unknown, every
        channel but weather is a candidate. A candidate is left out if a chosen channel of its family (of weather: of
        its quantity) has almost the same signal.
        """

        def may_help(column: ColumnSummary) -> bool:
            if column.quantity in ("T", "RH"):
                return True
            if not sensor.quantity and column.family != "weather":
                return True
            if not column.quantity and sensor.family != "particles":
                return True
            return column.family == sensor.family and column.quantity != "particle count"

        used = [sensor]
        for column in channels:
            if column is sensor or not may_help(column):
                continue
            kind = "quantity" if column.family == "weather" else "family"
            same_kind = [other for other in used if getattr(other, kind) == getattr(column, kind)]
            if all(self._correlate(other.name, column.name) < SAME_SIGNAL for other in same_kind):
                used.append(column)
        return tuple(used)

    def _correlate(self, name: str, other: str) -> float:
        """Return the absolute rank correlation of two columns; 0 if either never changes.

        Ranks make it robust against spikes; numbers that mean "no reading" are left out.
        """

        def usable(column: str) -> pl.Expr:
            return pl.when(~pl.col(column).is_in(self.column(column).sentinels)).then(pl.col(column))

        rows = self.numbers.gather_every(1 + self.rows // CORRELATED_ROWS)
        complete = rows.select(x=usable(name), y=usable(other)).drop_nulls()
        if complete.height <= 2:
            return 0.0
        correlation = complete.select(pl.corr("x", "y", method="spearman")).item()
        return abs(correlation) if correlation is not None and np.isfinite(correlation) else 0.0

    def readings(self, names: Sequence[str]) -> list[Readings]:
        """Return the readings of each device in some of the columns, ordered by time; of equal times the first."""
        channels = tuple(self.column(name).channel for name in names)
        frame = pl.concat([self.stamps, self.numbers.select(names)], how="horizontal")
        frame = frame.unique([DEVICE, TIME], keep="first", maintain_order=True)
        devices = frame.partition_by(DEVICE, maintain_order=True)
        return [Readings(rows[DEVICE][0], rows.drop(DEVICE).sort(TIME), channels) for rows in devices]

    def as_dict(self) -> dict[str, Any]:
        """Return the inspection as JSON values, as `scare inspect --json` prints it."""
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
            "left_out": dict(self.left_out),
            "format": self.table.format.title if self.table.format else "",
            "notes": list(self.notes),
        }


def inspect_table(path: Path | str, options: TableOptions = AS_FOUND, time: tuple[str, ...] = ()) -> Inspection:
    """Propose the time, channels, references, device and site of a table, and measure its rows."""
    table = open_table(path, options)
    time = time or find_time_columns(table)
    form = find_time_format(table, time)
    raw, times, tally = _read_rows(table, form)
    frame = with_numbers(raw, table, tally)
    del raw  # most of the memory, for a large file with much text
    known = {**_tenths(table.columns), **(table.format.columns if table.format else {})}
    device = _find_device(frame, times, [name for name, stated in known.items() if stated.role == "device"])
    if len(times) >= SNAPSHOT and times.n_unique() == 1:
        raise DataError(
            f"{table.path}: all {len(times):,} rows have the time {times[0]:%Y-%m-%d %H:%M:%S}; name all columns of the"
            " time with --time, or take a file with a series in time"
        )
    repeats = _note_repeats(frame, times, device)
    averaged, counters_left_out, pair_notes = _average_laser_pairs(frame.drop(filter(None, [device])))
    columns, left_out, notes = _summarise_columns(averaged, table, known)
    devices = pl.col(device) if device else pl.lit("")
    if device and _are_whole(frame[device]):
        devices = devices.cast(pl.Int64)  # so that 7.0 becomes "7"
    stamps = frame.select(devices.cast(pl.String).alias(DEVICE), times)
    numbers = averaged.select(column.name for column in columns)
    texts = [name for name, dtype in averaged.schema.items() if dtype == pl.String]
    site = next((name for name in texts if words(name) & SITE_WORDS), "")
    return Inspection(
        table=table,
        time=time,
        columns=tuple(columns),
        device_column=device,
        site_column=site,
        stamps=stamps,
        numbers=numbers,
        options=options,
        left_out=(*counters_left_out.items(), *left_out.items()),
        notes=(*table.notes, *form.notes, *tally.notes(), *repeats, *pair_notes, *notes),
    )


def _summarise_columns(
    frame: pl.DataFrame, table: TableFile, known: Mapping[str, FormatColumn]
) -> tuple[list[ColumnSummary], dict[str, str], list[str]]:
    """Summarise the columns that may be channels or references; also returns why others are left out, and notes.

    `known` are the columns that the table's format describes.
    """
    highest = highest_masses(frame)
    parameter = stated_quantity(frame, table.format.codes if table.format else {}, table.remarks)
    columns: list[ColumnSummary] = []
    left_out, notes = dict[str, str](), list[str]()
    for column in frame:
        if not column.dtype.is_numeric() or not column.count():
            if find_quantity(column.name) and (column.dtype.is_numeric() or column.dtype == pl.String):
                example = next(iter(column.drop_nulls()), "")
                left_out[column.name] = f"text, such as '{example}'" if example else "without a value"
            continue
        stated = known.get(column.name, FormatColumn())
        if why := why_no_channel(column, stated):
            left_out[column.name] = why
            continue
        unit, top = table.units.get(column.name, ""), highest[is_reference_name(column.name)]
        summary, remarks = summarise(column, stated, unit, parameter, top)
        columns.append(summary)
        notes += remarks
    if table.format and table.format.kind == "reference":
        # Of a station's file, pollutants are references, or, if it names none, the columns of unknown quantity.
        names = {column.name for column in columns if column.is_reference or column.family in ("particles", "gas")}
        names = names or {column.name for column in columns if not column.family}
        columns = [replace(column, is_reference=column.name in names) for column in columns]
    return columns, left_out, [*notes, *_impossible_medians(columns)]


def _read_rows(
    table: TableFile, form: TimeFormat, texts: Collection[str] = ()
) -> tuple[pl.DataFrame, pl.Series, Tally]:
    """Read the rows that have a time: all columns but the time's (with the line numbers), the times, what was not read.

    Columns of plain numbers become numbers batch by batch, which takes half the memory of their text. Columns in
    `texts` stay text. If another column turns out to hold text in a later batch, the file is read again with it in
    `texts`.
    """
    tally = Tally(table)
    parts = list[pl.DataFrame]()
    moments = list[pl.Series]()
    texts = set(texts)
    for batch in table.batches(table.columns):
        rows, times = parse_times(batch, form, table, tally)
        rows = rows.drop(form.columns)
        numbers = [plain_numbers(column, table.decimal) for column in rows.select(cs.string() - cs.by_name(texts))]
        rows = rows.with_columns(column for column in numbers if column is not None)
        if not parts:
            texts |= set(rows.select(cs.string()).columns)
        parts.append(rows)
        moments.append(times)
    if not parts:
        raise DataError(f"{table.path}: the file has a header but no rows")
    if mixed := {name for rows in parts for name in rows.select(cs.string()).columns} - texts:
        return _read_rows(table, form, texts | mixed)
    return pl.concat(parts), pl.concat(moments), tally


def _tenths(names: Sequence[str]) -> dict[str, FormatColumn]:
    """Return what `pm10` and `pm100` are in a table that has both: PM1 and PM10, in tenths of a micrometre.

    PM1 is no quantity of its own in `quantities.toml`, so it is called PM.

    >>> {name: column.quantity for name, column in _tenths(["pm10 env", "pm25 env", "pm100 env"]).items()}
    {'pm10 env': 'PM', 'pm100 env': 'PM10'}
    """
    sizes = {name: match[1] for name in names if (match := TENTHS.search(name))}
    if "100" not in sizes.values():
        return {}
    return {name: FormatColumn("PM10" if size == "100" else "PM") for name, size in sizes.items()}


def _impossible_medians(columns: Sequence[ColumnSummary]) -> list[str]:
    """Return a note on columns whose median their quantity cannot have, as when a table's columns are shifted.

    Only temperature and humidity are checked: other quantities have no range that holds everywhere.
    """
    beyond = []
    for column in columns:
        if column.quantity in ("T", "RH"):
            low, high = quantities()[column.quantity].limits(column.unit)
            if not low <= column.median <= (1 + MARGIN) * high:  # saturated air may read 101 %
                beyond.append(column)
    if not beyond:
        return []
    values = ", ".join(f"{column.name} (median {column.median:g})" for column in beyond)
    return [f"These values cannot be what the columns are called: {values}. Check whether columns are shifted."]


def choose_sensor(
    channels: Sequence[ColumnSummary], quantity: str, correlate: Callable[[str], float] | None = None
) -> tuple[ColumnSummary, list[str]]:
    """Choose the channel to calibrate: one of the quantity, or else the one that correlates best with the reference.

    `correlate` returns the correlation of a column with the reference; it is None if there is no reference. Also
    returns the reasons as sentences.
    """
    of_quantity = [column for column in channels if quantity and column.measures(quantity)]
    pollutants = sorted(  # particles by size; a gas ranks with PM2.5
        (column for column in channels if column.family in ("particles", "gas")),
        key=lambda column: SIZES.index(column.quantity) if column.quantity in SIZES else 0,
    )
    others = [column for column in channels if column.family != "weather"]
    # Without a reference, pollutants come first; with one, every column but weather may correlate best.
    candidates = of_quantity or ([] if correlate else pollutants) or others or list(channels)
    if not correlate or len(of_quantity) == 1 or len(channels) == 1:
        return candidates[0], []
    strengths = {column.name: correlate(column.name) for column in (of_quantity or channels)}
    least_strength = max(strengths[column.name] for column in candidates) - EQUALLY_GOOD
    # Weather is a candidate only if the reference seems to measure it.
    if not of_quantity and least_strength < WEAK_SENSOR and max(strengths.values()) > CLEAR_SENSOR:
        candidates = list(channels)
        least_strength = max(strengths.values())
    chosen = next(column for column in candidates if strengths[column.name] >= least_strength)
    if of_quantity:
        start = f"of {', '.join(strengths)},"
    else:
        start = f"no column is {quantity};" if quantity else "the reference's quantity is not known (--quantity);"
    return chosen, [f"{start} {chosen.name} correlates best with it ({strengths[chosen.name]:.2f})"]


def find_time_and_device(
    path: Path | str, time: tuple[str, ...] = (), options: TableOptions = AS_FOUND
) -> tuple[tuple[str, ...], str]:
    """Find the time columns of a table (unless given) and its device column (or ""), from its first rows only."""
    table = open_table(path, options)
    raw = next(table.batches(table.columns), None)
    if raw is None:
        raise DataError(f"{table.path}: the file has a header but no rows")
    table.require(time)
    time = time or find_time_columns(table)
    raw, times = parse_times(raw, find_time_format(table, time), table, Tally(table))
    frame = with_numbers(raw, table)
    return time, _find_device(frame.drop(time), times)


def _average_laser_pairs(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str], list[str]]:
    """Replace the two laser counters of a box by their mean; also returns why each is left out, and notes."""
    left_out, notes = dict[str, str](), []
    for name, pair in find_laser_pairs(frame.columns).items():
        if not all(frame.schema[counter].is_numeric() for counter in pair):
            continue
        first, second = (frame[counter] for counter in pair)
        mean = mean_of_lasers(first, second, find_unit(name)).alias(name)
        notes.append(describe_pair(name, pair, first, second, mean))
        counters = [counter for counter in pair if counter != name]
        left_out |= dict.fromkeys(counters, f"a laser counter of {name}")
        frame = frame.drop(counters).with_columns(mean)
    return frame, left_out, notes


def _find_device(frame: pl.DataFrame, times: pl.Series, stated: Sequence[str] = ()) -> str:
    """Return the column that tells rows of equal times apart, or else one with few values and a name like `device`.

    A column tells them apart if fewer than a tenth of the repeated times are still repeated within one of its values.
    A known format may state columns whose numbers are names of devices.
    """
    if MONITOR in frame.columns:
        return MONITOR
    # A column with the id of a quantity, such as parameter.id, or with a part of the time names no device.
    candidates = [
        name
        for name in frame.columns
        if not words(name.rpartition(".")[0]) & PARAMETER_WORDS and not words(name) & TIME_WORDS
    ]
    name_words = {name: words(name.rpartition(".")[2]) for name in candidates}  # such as end_device_ids.device_id
    numbered = [  # columns in which devices may be numbers
        name
        for name in candidates
        if name in stated or (name_words[name] <= NUMBERED_WORDS and not name[-1].isdigit())  # Box1, Box2: readings
    ]

    def may_be_label(column: pl.Series) -> bool:
        """Whether a column may name devices: few texts, or few whole numbers under the name of a label."""
        is_whole_label = name_words[column.name] <= LABEL_WORDS and _are_whole(column)
        has_labels = column.dtype == pl.String or column.name in numbered or is_whole_label
        return has_labels and not column.null_count() and column.n_unique() <= len(column) / 2

    labels = [column for column in frame.select(candidates) if may_be_label(column)]
    repeats = {label.name: _count_repeats(times, label) for label in labels}
    named = [  # called like a device
        label.name
        for label in labels
        if name_words[label.name] <= DEVICE_WORDS and name_words[label.name] and label.name not in stated
        if label.dtype == pl.String or label.name in numbered
    ]
    best = min(repeats, key=lambda name: (repeats[name], name not in named), default="")
    if best and repeats[best] < _count_repeats(times) / 10:
        return best
    return named[0] if named else ""


def _are_whole(column: pl.Series) -> bool:
    return column.dtype.is_numeric() and bool(((column == column.round()) & (column.abs() < 2**53)).all())


def _note_repeats(frame: pl.DataFrame, times: pl.Series, device: str) -> list[str]:
    """Return a note on rows that repeat a time of their device, and on the column in which they differ, if any does."""
    devices = [frame[device]] if device else []
    repeats = _count_repeats(times, *devices)
    if not repeats:
        return []
    labels = [
        label
        for label in frame
        if not label.null_count() and 1 < label.n_unique() <= FEW_LABELS and label.name != device
    ]
    remaining = {label.name: _count_repeats(times, *devices, label) for label in labels}
    best = min(remaining, key=lambda name: remaining[name], default="")
    rows = "1 row repeats" if repeats == 1 else f"{repeats:,} rows repeat"
    if not best or remaining[best] > repeats / 10:
        several = " Are several devices in the file? Name their column." if repeats > MANY_REPEATED * len(times) else ""
        return [f"{rows} a time; the first of equal times counts.{several}"]
    cells = ", ".join(str(cell) for cell in frame[best].unique(maintain_order=True)[:3])
    return [f"{rows} a time and differ in '{best}' ({cells}); the first of equal times counts."]


def _count_repeats(times: pl.Series, *labels: pl.Series) -> int:
    """Return the number of rows whose time and labels equal those of an earlier row."""
    codes = (label.cast(pl.String).cast(pl.Categorical).to_physical() for label in labels)  # whole numbers
    # Sorted, as the hash table of `n_unique` takes several times the memory of a large file.
    rows = pl.DataFrame({str(number): column for number, column in enumerate((times, *codes))})
    rows = rows.sort(rows.columns)
    return int(rows.select(pl.all_horizontal(pl.all() == pl.all().shift()).sum()).item())
