"""How often an air quality index of the calibrated values shows the category that the reference's shows."""

from collections.abc import Mapping, Sequence
from itertools import count
from math import gcd

import numpy as np
import polars as pl

from scare.calibrator.air_index import (
    HOUR,
    UNUSED_LEVEL,
    HourlyIndex,
    HourSums,
    IndexOf,
    add_hours,
    air_indices,
    find_index,
)
from scare.data.readings import CALIBRATED, DEVICE, HIGH, LOW, TIME, TIME_TYPE
from scare.errors import UsageError
from scare.report.blocks import NOTHING, Block, Note, ReportTable, percent
from scare.scorecard.run_folder import Run
from scare.scorecard.series import DeviceSeries

# About as many hours are compared, by the averaging of the index: they take a second.
MOST_HOURS = {"nowcast": 3000, "ozone nowcast": 200, "1h": 3000}
DAY = 24  # hours
SumsByStep = dict[float, HourSums]  # of devices with the same time step [s]


def index_blocks(run: Run) -> list[Block]:
    """Make a table for each index of the pollutant, on the rows scored; or a note that says why there is none."""
    indices: list[IndexOf] = []
    reasons = []
    for name in air_indices():
        try:
            indices.append(find_index(name, run.target))
        except UsageError as error:
            reasons.append(f"{error}.")
    if not indices:
        return [Note(reason[0].upper() + reason[1:]) for reason in reasons]
    scored = [series.scored for series in run.series if len(series.scored)]
    columns = ("reference", CALIBRATED, *(["raw"] if run.comparable else []))
    sums = {column: _sums(scored, column) for column in columns}
    return [block for index_of in indices for block in _compare(run, index_of, sums)]


def _compare(run: Run, index_of: IndexOf, sums: Mapping[str, SumsByStep]) -> list[Block]:
    """Tabulate how often estimates and reference show the same category of an index in the same hour."""
    level = run.card.interval_level
    estimates = {"calibrated": CALIBRATED} | ({"raw": "raw"} if run.comparable else {})
    hours = sum(float(np.ptp(series.scored.times)) / HOUR for series in run.series if len(series.scored))
    # Every so many hours are compared; a number that has no divisor in common with 24 reaches all times of day.
    least = max(1, round(hours / MOST_HOURS[index_of.points.averaging]))
    every = next(number for number in count(least) if gcd(number, DAY) == 1)
    reference = _hourly_index(index_of, sums["reference"], level, every).select(DEVICE, TIME, true="category")
    hourly = {
        name: _hourly_index(index_of, sums[column], level, every).join(reference, on=(DEVICE, TIME))
        for name, column in estimates.items()
    }
    if hourly["calibrated"].is_empty():
        return [Note(f"{index_of.index.title}: no hour has enough readings before it.")]
    rows = []
    for category in index_of.index.categories:
        of_category = {name: table.filter(true=category) for name, table in hourly.items()}
        if of_category["calibrated"].height:
            rows.append(_category_row(category, of_category))
    rows.append(_category_row("all", hourly))
    shows = (f"{name} shows it" for name in hourly)
    head = ("category by the reference", "hours", *shows, "probability given to it")
    mark = f" (second-hand, {index_of.index.second_hand})" if index_of.index.second_hand else ""
    return [
        ReportTable(f"{index_of.index.title}, hour by hour", head, rows),
        Note(
            f"{index_of.index.title}{mark}: the index of each hour by the rows scored until then, and that of the"
            " reference in the same hour. The probability comes from the interval."
        ),
    ]


def _sums(scored: Sequence[DeviceSeries], column: str) -> SumsByStep:
    """Sum the values in `column` of each device by hours, apart for each time step."""
    by_step: dict[float, list[DeviceSeries]] = {}
    for series in scored:
        by_step.setdefault(series.step_seconds or HOUR, []).append(series)  # a single row has no step
    sums: SumsByStep = {step: {} for step in by_step}
    for step, devices in by_step.items():
        add_hours(sums[step], _rows(devices, column))
    return sums


def _rows(scored: Sequence[DeviceSeries], column: str) -> pl.DataFrame:
    """Make a table of devices with this column as calibrated values; only calibrated ones have an interval."""
    devices = pl.Series([series.device for series in scored])
    device_of_row = np.repeat(np.arange(len(scored)), [len(series) for series in scored])
    values = np.concatenate([getattr(series, column) for series in scored])
    nothing = np.full(len(values), np.nan)
    has_interval = column == CALIBRATED
    return pl.DataFrame(
        {
            DEVICE: devices.gather(device_of_row),
            TIME: (1e6 * np.concatenate([series.times for series in scored])).astype(np.int64),
            CALIBRATED: values,
            LOW: np.concatenate([series.low for series in scored]) if has_interval else nothing,
            HIGH: np.concatenate([series.high for series in scored]) if has_interval else nothing,
        }
    ).with_columns(pl.col(TIME).cast(TIME_TYPE), pl.col(CALIBRATED).fill_nan(None))


def _hourly_index(index_of: IndexOf, sums: SumsByStep, level: float, every: int) -> pl.DataFrame:
    """Compute the index of each device from its hourly sums, at one hour in `every`, with intervals of this `level`."""
    tables = [HourlyIndex(index_of, level or UNUSED_LEVEL, HOUR).table()]  # empty
    tables += [HourlyIndex(index_of, level or UNUSED_LEVEL, step, hours).table(every) for step, hours in sums.items()]
    return pl.concat(tables)


def _category_row(category: str, hourly: Mapping[str, pl.DataFrame]) -> list[str]:
    """Make the row of a category: its hours, the share in which each estimate shows it, and its mean probability.

    `hourly` has, for each estimate, the hours in which the reference shows this category (or any, for "all"). The
    probability is the one that the intervals of the calibrated values give to the reference's category.
    """
    shares = []
    for table in hourly.values():
        right = table.filter(pl.col("category") == pl.col("true")).height
        shares.append(percent(right / table.height) if table.height else NOTHING)
    calibrated = hourly["calibrated"]
    probabilities = [row.get(f"p_{row['true'].replace(' ', '_')}") for row in calibrated.iter_rows(named=True)]
    known = [probability for probability in probabilities if probability is not None]
    probability = percent(float(np.mean(known))) if known else NOTHING
    return [category, f"{calibrated.height:,}", *shares, probability]
