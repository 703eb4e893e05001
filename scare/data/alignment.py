"""Align a sensor's readings and those of a reference instrument: one clock, one time step.

A time is the end of what it describes: a mean over (t - step, t] carries t, so no row holds its own future. Whether two
clocks agree is checked by `clock`. Comes from `tables`; goes to `flags` and `split`.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from scare.data.flags import usable_values
from scare.data.readings import FLAGS, REFERENCE, TIME, Channel, Readings
from scare.errors import DataError
from scare.words import duration

COARSER = 1.5  # a step at least this many times the other is the coarser one
STEP_BLOCK = 8  # a shorter run of another step is a few gaps in a row, not a change of step


def align(sensor: Readings, reference: Readings, tolerance_seconds: float | None = None) -> Readings:
    """Give each of the sensor's rows the nearest value of the reference's only channel as its reference.

    The finer of the two is first averaged to the step of the coarser; then a value may be at most
    `tolerance_seconds` away (default: half a step). Unusable reference values count as missing.
    """
    if sensor.reference:
        raise DataError(f"{sensor.device}: the readings already have a reference, {sensor.reference.name}")
    channel = only_channel(reference)
    step_seconds = _common_step(sensor, reference)
    tolerance = step_seconds / 2 if tolerance_seconds is None else tolerance_seconds
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
    readings: Readings, step_seconds: float, completeness: float = 0.75, phase_seconds: float = 0.0
) -> Readings:
    """Average over (t - step, t], with t = phase + whole steps since 1970; the rows' flags are OR-ed.

    Values out of range and sentinels do not enter a mean. A mean of less than `completeness` of the expected
    values is null; an interval without rows has no row.

    >>> from datetime import datetime
    >>> from scare.data.readings import Channel
    >>> times = [datetime(2026, 1, 1, 0, minute) for minute in (1, 2, 3, 4, 5)]
    >>> frame = pl.DataFrame({"time": times, "no2": [1, 2, 3, 4, 5]})
    >>> average(Readings("box-1", frame, (Channel("no2", "ppb"),)), 120.0).frame["no2"].to_list()
    [1.5, 3.5, None]
    """
    needed = completeness * round(step_seconds / readings.step_seconds)
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
    usual, steps = readings.step_seconds, np.diff(readings.times)
    sizes = np.rint(np.log(steps / usual) / np.log(1.5)).astype(int)  # in powers of 1.5; 0 is the usual step
    others, counts = np.unique(sizes[sizes != 0], return_counts=True)
    if not len(others):
        return
    is_other = sizes == others[counts.argmax()]  # the most frequent of the unusual steps
    # Kadane's algorithm: the block that ends where the running sum is furthest above its lowest value so far.
    sums = np.concatenate([[0], np.cumsum(np.where(is_other, 1, -1))])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    start, surplus = int(np.argmin(sums[: end + 1])), int(sums[end] - lowest[end])
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


def _common_step(sensor: Readings, reference: Readings) -> float:
    """The reference's step if it is the coarser one, otherwise the sensor's."""
    coarser = reference.step_seconds >= COARSER * sensor.step_seconds
    return reference.step_seconds if coarser else sensor.step_seconds


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
    if readings.reference:
        targets, _ = usable_values(readings.targets[:, None], (readings.reference,))
        columns.append(pl.Series(REFERENCE, targets[:, 0]))
    return replace(readings, frame=readings.frame.with_columns(columns)).with_flags(flags)


def _polars_duration(seconds: float) -> str:
    return f"{round(seconds * 1e6)}us"


def period(readings: Readings) -> str:
    """The first and the last time, for messages."""
    first, last = readings.frame[TIME][0], readings.frame[TIME][-1]
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
