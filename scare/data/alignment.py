"""Align readings: those of a sensor and a reference instrument to one clock, those of a file to a model's time step.

A time is the end of what it describes: a mean over (t - step, t] carries t, so no row holds its own future. Whether two
clocks agree is checked by `clock`. `iterate_at_step` aligns a file block by block, for tables larger than memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.column_mapping import ColumnMapping, LabelColumns, device_series, iterate_tables
from scare.data.flags import drop_unusable_references, usable_values
from scare.data.readings import DEVICE, FLAGS, REFERENCE, TIME, Channel, Readings
from scare.data.tables import Tally, open_table, stem
from scare.data.times import find_time_format, parse_times
from scare.errors import DataError
from scare.words import duration, plural

COARSER = 1.5  # a step at least this many times the other is the coarser one
FINER = 0.75  # share of a model's time step: readings closer together are averaged to it
COMPLETENESS = 0.75  # share of its expected values that a mean needs
MANY_REPEATED = 0.2  # share of rows with a repeated time, above which there are probably several devices
STEP_BLOCK = 8  # rows: a shorter run of another step is a few gaps in a row, not a change of step
SORTED_ROWS = 20_000_000  # most rows that are sorted in memory: a few gigabytes


def align(sensor: Readings, reference: Readings) -> Readings:
    """Give each of the sensor's rows the nearest value of the reference's only channel as its reference.

    The finer of the two is first averaged to the step of the coarser; then a value may be at most half a step away.
    Unusable reference values count as missing.
    """
    if sensor.reference:
        raise DataError(f"{sensor.device}: the readings already have a reference, {sensor.reference.name}")
    channel = only_channel(reference)
    is_coarser = reference.step_seconds >= COARSER * sensor.step_seconds
    step_seconds = (reference if is_coarser else sensor).step_seconds
    tolerance = step_seconds / 2
    rows = _to_step(sensor, step_seconds, reference.times[0])
    truth = _without_unusable(_to_step(reference, step_seconds, sensor.times[0])).frame
    known = truth.select(TIME, pl.col(channel.name).alias(REFERENCE)).drop_nulls()
    frame = rows.frame.join_asof(known, on=TIME, strategy="nearest", tolerance=_polars_duration(tolerance))
    if frame[REFERENCE].null_count() == frame.height:
        raise DataError(
            f"{sensor.device}: no reading has a reference value within {duration(tolerance)}; the readings cover"
            f" {period(sensor)} and the reference {period(reference)}"
        )
    return replace(rows, frame=frame, reference=channel)


def average(
    readings: Readings,
    step_seconds: float,
    completeness: float = COMPLETENESS,
    phase_seconds: float = 0.0,
    sampling_seconds: float | None = None,
) -> Readings:
    """Average over (t - step, t], with t = phase + whole steps since 1970; the rows' flags are OR-ed.

    Values out of range and sentinels do not enter a mean. A mean of less than `completeness` of the expected
    values is null; an interval without rows has no row. `sampling_seconds` is the time between two readings, by
    default their median step.

    >>> from datetime import datetime
    >>> from scare.data.readings import Channel
    >>> times = [datetime(2026, 1, 1, 0, minute) for minute in (1, 2, 3, 4, 5)]
    >>> frame = pl.DataFrame({"time": times, "no2": [1, 2, 3, 4, 5]})
    >>> average(Readings("box-1", frame, (Channel("no2", "ppb"),)), 120.0).frame["no2"].to_list()
    [1.5, 3.5, None]
    """
    needed = completeness * expected_values(step_seconds, sampling_seconds or readings.step_seconds)
    names = [channel.name for channel in readings.channels] + ([REFERENCE] if readings.reference else [])
    means = [pl.when(pl.col(name).count() >= needed).then(pl.col(name).mean()).alias(name) for name in names]
    intervals = _without_unusable(readings).frame.group_by_dynamic(
        TIME,
        every=_polars_duration(step_seconds),
        offset=_polars_duration(phase_seconds % step_seconds),
        closed="right",
        label="right",
    )
    return replace(readings, frame=intervals.agg(*means, pl.col(FLAGS).bitwise_or()))


def expected_values(step_seconds: float, sampling_seconds: float) -> int:
    """Return how many values, one every `sampling_seconds`, an interval of one step has; 0.1 allows for inexact steps.

    >>> expected_values(60.0, 10.0), expected_values(60.0, 10.1), expected_values(60.0, 40.0)
    (6, 6, 1)
    """
    return floor(step_seconds / sampling_seconds + 0.1)


def shift(readings: Readings, seconds: float) -> Readings:
    """Move all rows `seconds` later."""
    later = pl.col(TIME) + pl.duration(microseconds=round(seconds * 1e6))
    return replace(readings, frame=readings.frame.with_columns(later))


def check_step(readings: Readings) -> None:
    """Raise a DataError if over a tenth of the rows, in one block, have another step than the rest.

    Steps within a fifth of each other count as equal. The block is the run of rows in which the other step outnumbers
    everything else by most (a maximum-sum subarray), so scattered gaps and jitter never add up to one.
    """
    if len(readings) <= STEP_BLOCK:
        return
    usual, steps = readings.step_seconds, np.diff(readings.times)  # s; steps [rows - 1]
    exponents = np.rint(np.log(steps / usual) / np.log(1.5)).astype(int)  # step ≈ usual step · 1.5^exponent
    unusual, counts = np.unique(exponents[exponents != 0], return_counts=True)
    if not len(unusual):
        return
    is_other = exponents == unusual[counts.argmax()]  # the most frequent of the unusual steps
    # Kadane's algorithm: the block that ends where the running sum is furthest above its lowest value so far.
    sums = np.concatenate([[0], np.cumsum(np.where(is_other, 1, -1))])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start = int(np.argmin(sums[: end + 1]))
    surplus = int(sums[end] - sums[start])  # by how many the block's other steps outnumber the rest in it
    if surplus < max(STEP_BLOCK, len(steps) / 10):
        return
    other = float(np.median(steps[start:end][is_other[start:end]]))
    is_later = start >= len(steps) - end  # more usual rows before the block than after it
    before, after, change = (usual, other, start) if is_later else (other, usual, end)
    raise DataError(
        f"{readings.device}: the time step changes from {duration(before)} to {duration(after)} at"
        f" {readings.frame[TIME][change]:%Y-%m-%d %H:%M:%S}; split the file there or average it to the"
        " coarser step with data.step in a --config file"
    )


def only_channel(reference: Readings) -> Channel:
    """Return the only channel of a reference; raises a DataError if it has none or several."""
    if len(reference.channels) != 1:
        names = ", ".join(channel.name for channel in reference.channels)
        raise DataError(f"{reference.device}: a reference has exactly one channel, not {names or 'none'}")
    return reference.channels[0]


def _to_step(readings: Readings, step_seconds: float, phase_seconds: float) -> Readings:
    """Average to `step_seconds` if that is coarser than the readings' own step.

    `phase_seconds` is a time of the other side, so that the means end at the times at which it has values.
    """
    if step_seconds < COARSER * readings.step_seconds:
        return readings
    return average(readings, step_seconds, phase_seconds=phase_seconds)


def _without_unusable(readings: Readings) -> Readings:
    """Replace values out of range and sentinels with null, and flag the rows in which a channel had one."""
    values, flags = usable_values(readings.values, readings.channels)
    columns = [pl.Series(channel.name, values[:, i]) for i, channel in enumerate(readings.channels)]
    known = drop_unusable_references(readings)
    return replace(known, frame=known.frame.with_columns(columns)).with_flags(flags)


def _polars_duration(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def period(readings: Readings) -> str:
    """Return the first and the last time, for messages."""
    first, last = readings.frame[TIME][0], readings.frame[TIME][-1]
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class DeviceSpan:
    """When the rows of one device in a file were measured; all times and steps are in seconds."""

    device: str
    rows: int  # number of rows
    first: float
    last: float
    step: float  # median; 0 for a single time
    backward: int = 0  # rows that are earlier than the row before
    furthest: float = 0.0  # by how much at most they are earlier; without meaning if none is
    repeated: int = 0  # rows that have the time of an earlier row

    @property
    def in_order(self) -> bool:
        """Whether no row is earlier than the row before."""
        return not self.backward

    def is_finer(self, step_seconds: float) -> bool:
        """Whether the rows are averaged for a model of this time step."""
        return 0 < self.step < FINER * step_seconds

    def refusal(self, step_seconds: float) -> str:
        """Return why a model of this time step cannot read the rows: a sentence without its subject, empty if it can.

        Few rows are not judged, because all steps between them may be gaps.
        """
        if self.rows <= STEP_BLOCK or self.step <= COARSER * step_seconds:
            return ""
        step = duration(self.step)
        return (
            f"has a reading every {step}, and the model was trained on one every {duration(step_seconds)}: give finer"
            f" readings, or train on means of {step} (scare train --set data.step={self.step:g})"
        )

    def changes(self, step_seconds: float) -> list[str]:
        """Return what `iterate_at_step` does to the rows for a model of this time step, in sentences."""
        step, model_step = duration(self.step), duration(step_seconds)
        steps_back = "step back" if self.backward == 1 else "steps back"
        back = f"{self.backward:,} {steps_back}, of up to {duration(self.furthest)}"
        several = "; are several devices in it? name their column" if self.repeated > MANY_REPEATED * self.rows else ""
        changes = {
            f"the rows are not in order of time ({back}); they are sorted": self.backward,
            f"{plural(self.repeated, 'row')} with a repeated time left out{several}": self.repeated,
            f"a reading every {step} is averaged to {model_step}, as in training": self.is_finer(step_seconds),
        }
        return [sentence for sentence, applies in changes.items() if applies]


def find_device_spans(path: Path, labels: LabelColumns, device: str = "") -> list[DeviceSpan]:
    """Find when the rows of each device in a file were measured; sorted by device.

    A file whose rows are in order takes constant memory. If `device` is given, all rows belong to it. If rows are out
    of order, steps are exact only in a file of at most `SORTED_ROWS` rows.
    """
    spans = _summarise_times(_iterate_times(path, labels, device))
    if not spans:
        raise DataError(f"{path}: there are no rows")
    if all(span.in_order for span in spans) or sum(span.rows for span in spans) > SORTED_ROWS:
        return spans
    # Steps and repeated times are those of the sorted rows; how far rows are out of order only the file shows.
    sorted_rows = pl.concat(list(_iterate_times(path, labels, device))).sort(TIME)
    return [
        replace(of_sorted, backward=as_found.backward, furthest=as_found.furthest)
        for of_sorted, as_found in zip(_summarise_times([sorted_rows]), spans, strict=True)
    ]


def _iterate_times(path: Path, labels: LabelColumns, device: str) -> Iterator[pl.DataFrame]:
    """Yield the device and the time (microseconds) of a file's rows, batch by batch."""
    table = open_table(path, labels)
    column = "" if device else labels.device_column
    columns = [*labels.time, *([column] if column else [])]
    table.require(columns)
    form, tally = find_time_format(table, labels.time), Tally(table)
    for batch in table.batches(columns):
        batch, times = parse_times(batch, form, table, tally)
        yield pl.DataFrame([device_series(batch, column, device or stem(path), table), times.dt.epoch("us")])


def _summarise_times(batches: Iterable[pl.DataFrame]) -> list[DeviceSpan]:
    """Summarise the times (microseconds) of each device; the step is the median of the batches' medians."""
    time, step = pl.col(TIME), pl.col(TIME).diff()  # the step before a row; null in the first row
    per_batch = [
        batch.group_by(DEVICE).agg(
            rows=pl.len(),
            first=time.min(),
            last=time.max(),
            step=step.filter(step > 0).median(),
            backward=(step < 0).sum(),  # steps back in time, and the longest of them
            furthest=-step.min().fill_null(0),
            repeated=(step == 0).sum(),
        )
        for batch in batches
    ]
    if not per_batch:
        return []
    first, last = pl.col("first"), pl.col("last")
    last_before = last.shift()  # of the device's previous batch: the steps between batches count, too
    per_device = (
        pl.concat(per_batch)
        .group_by(DEVICE)
        .agg(
            rows=pl.col("rows").sum(),
            first=first.min() / 1e6,
            last=last.max() / 1e6,
            step=pl.col("step").median().fill_null(0.0) / 1e6,
            backward=pl.col("backward").sum() + (first < last_before).sum(),
            furthest=pl.max_horizontal(pl.col("furthest").max(), (last_before - first).max()) / 1e6,
            repeated=pl.col("repeated").sum() + (first == last_before).sum(),
        )
    )
    return [DeviceSpan(**row) for row in per_device.sort(DEVICE).iter_rows(named=True)]


def iterate_at_step(
    path: Path,
    mapping: ColumnMapping,
    spans: Sequence[DeviceSpan],
    steps: Mapping[str, float],
    device: str = "",
    until: Mapping[str, float] | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield a file's rows as calibrators take them: in order of time, each time once, finer readings averaged.

    `spans` are those of the file. `steps` has the time step (seconds) of the calibrator of each device to read.
    `until` has, for a device that was read before, the time (seconds) up to which its readings are averaged already.
    `device` is as for `iterate_tables`. A file whose rows are not in order is read whole, others block by block.
    """
    used = [span for span in spans if span.device in steps]
    chunks = iterate_tables(path, mapping, device=device, probed=True)
    if len(used) < len(spans):
        chunks = (chunk.filter(pl.col(DEVICE).is_in(list(steps))) for chunk in chunks)
    if not all(span.in_order for span in used):
        row_count = sum(span.rows for span in spans)
        if row_count > SORTED_ROWS:
            raise DataError(
                f"{path}: the rows are not in order of time, and {row_count:,} are too many to sort in memory (at most"
                f" {SORTED_ROWS:,}); split the file, or sort its rows by time first"
            )
        chunks = iter([pl.concat(list(chunks)).sort(TIME, maintain_order=True)])
    if any(span.repeated for span in used):
        chunks = _without_repeats(chunks)
    averagers = {
        span.device: Averager(mapping, span, steps[span.device], (until or {}).get(span.device, -inf))
        for span in used
        if span.is_finer(steps[span.device])
    }
    if averagers:
        chunks = _averaged(chunks, averagers)
    yield from (chunk for chunk in chunks if chunk.height)


def _without_repeats(chunks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Leave out rows whose time their device has had before; the rows are in order of time."""
    latest: dict[str, object] = {}
    for chunk in chunks:
        chunk = chunk.unique([DEVICE, TIME], keep="first", maintain_order=True)
        latest_before = pl.col(DEVICE).replace_strict(latest, default=None, return_dtype=chunk.schema[TIME])
        yield chunk.filter((pl.col(TIME) > latest_before).fill_null(True))
        latest |= dict(chunk.group_by(DEVICE).agg(pl.col(TIME).max()).iter_rows())


def _averaged(chunks: Iterable[pl.DataFrame], averagers: Mapping[str, "Averager"]) -> Iterator[pl.DataFrame]:
    for chunk in chunks:
        for rows in chunk.partition_by(DEVICE, maintain_order=True):
            averager = averagers.get(rows[DEVICE][0])
            yield averager.push(rows) if averager else rows
    yield from (averager.finish() for averager in averagers.values())


class Averager:
    """Averages the rows of one device, in order of time, block by block; the means are those of `average`.

    `averaged_until` is the time (seconds) of the last row of earlier files: the interval that contains it was averaged
    then, so later rows in it are left out, as are all rows before.
    """

    def __init__(
        self, mapping: ColumnMapping, span: DeviceSpan, step_seconds: float, averaged_until: float = -inf
    ) -> None:
        self._mapping, self._span, self._step_seconds = mapping, span, step_seconds
        step = round(step_seconds * 1e6)  # in microseconds, as the times
        # The end of each row's interval: the time rounded up to a whole step, as -(-a // b) rounds a / b up.
        self._interval_end = -(-pl.col(TIME).dt.epoch("us") // step) * step
        # The end of the last interval that was averaged before.
        self._last_end = -inf if averaged_until == -inf else -(-round(averaged_until * 1e6) // step) * step
        self._open: pl.DataFrame | None = None  # rows of the interval that has not ended

    def push(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Take rows; returns the means of the intervals that have ended."""
        rows = rows if self._open is None else pl.concat([self._open, rows])
        rows = rows.filter(self._interval_end > self._last_end)
        is_in_last = self._interval_end == self._interval_end.last()
        self._open = rows.filter(is_in_last)
        return self._means(rows.filter(~is_in_last))

    def finish(self) -> pl.DataFrame:
        """Return the mean of the last interval, once all rows were pushed."""
        assert self._open is not None, "no rows were pushed"
        return self._means(self._open)

    def _means(self, rows: pl.DataFrame) -> pl.DataFrame:
        if rows.is_empty():
            return rows
        reference = self._mapping.reference if REFERENCE in rows.columns else None
        readings = Readings(self._span.device, rows.drop(DEVICE), self._mapping.channels, reference)
        means = average(readings, self._step_seconds, sampling_seconds=self._span.step).frame
        return means.select(pl.lit(self._span.device).alias(DEVICE), pl.exclude(FLAGS))
