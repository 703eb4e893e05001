"""How often an air quality index of the calibrated values shows the category that the reference's shows."""

from collections.abc import Mapping
from itertools import count
from math import gcd

import numpy as np
import polars as pl

from scare.calibrator.air_index import HOUR, UNUSED_LEVEL, HourlyIndex, IndexOf, air_indices, find_index
from scare.data.readings import CALIBRATED, DEVICE, HIGH, LOW, TIME, TIME_TYPE
from scare.errors import UsageError
from scare.report.blocks import NOTHING, Block, Note, ReportTable, percent
from scare.scorecard.run_folder import Run
from scare.scorecard.series import DeviceSeries

# About as many hours are compared, by the averaging of the index: they take a second.
MOST_HOURS = {"nowcast": 3000, "ozone nowcast": 200, "1h": 3000}
DAY = 24  # hours


def index_blocks(run: Run) -> list[Block]:
    """Make a table for each index of the pollutant, on the rows scored; or a note that says why there is none."""
    blocks: list[Block] = []
    reasons = []
    for name in air_indices():
        try:
            blocks += _compare(run, find_index(name, run.target))
        except UsageError as error:
            reasons.append(f"{error}.")
    return blocks or [Note(reason[0].upper() + reason[1:]) for reason in reasons]


def _compare(run: Run, of: IndexOf) -> list[Block]:
    """Tabulate how often estimates and reference show the same category of an index in the same hour."""
    entry = next((entry for entry in run.card.entries if entry.measure == "interval_coverage"), None)
    level = float(entry.detail.get("level", 0.0)) if entry else 0.0
    estimates = {"calibrated": CALIBRATED} | ({"raw": "raw"} if run.comparable else {})
    hours = sum(float(np.ptp(series.scored.times)) / HOUR for series in run.series if len(series.scored))
    # Every so many hours are compared; a number without a divisor of 24 reaches all times of day.
    least = max(1, round(hours / MOST_HOURS[of.points.averaging]))
    every = next(number for number in count(least) if gcd(number, DAY) == 1)
    pairs: dict[str, list[pl.DataFrame]] = {name: [] for name in estimates}
    for series in run.series:
        if not len(scored := series.scored):
            continue
        reference = _hourly_index(of, scored, "reference", level, every).select(TIME, true="category")
        for name, column in estimates.items():
            pairs[name].append(_hourly_index(of, scored, column, level, every).join(reference, on=TIME))
    hourly = {name: pl.concat(parts) for name, parts in pairs.items() if parts}
    if not hourly or hourly["calibrated"].is_empty():
        return [Note(f"{of.index.title}: no hour has enough readings before it.")]
    rows = []
    for category in of.index.categories:
        of_category = {name: table.filter(true=category) for name, table in hourly.items()}
        if of_category["calibrated"].height:
            rows.append(_category_row(category, of_category))
    rows.append(_category_row("all", hourly))
    shows = (f"{name} shows it" for name in hourly)
    head = ("category by the reference", "hours", *shows, "probability given to it")
    mark = f" (second-hand, {of.index.second_hand})" if of.index.second_hand else ""
    return [
        ReportTable(f"{of.index.title}, hour by hour", head, rows),
        Note(
            f"{of.index.title}{mark}: the index of each hour by the rows scored until then, and that of the reference"
            " in the same hour. The probability comes from the interval."
        ),
    ]


def _hourly_index(of: IndexOf, scored: DeviceSeries, column: str, level: float, every: int) -> pl.DataFrame:
    """Compute the index of every so many hours of a device, of the values in `column`.

    Only calibrated values have an interval, of this `level`.
    """
    nothing = np.full(len(scored), np.nan)
    low, high = (scored.low, scored.high) if column == CALIBRATED else (nothing, nothing)
    hourly = HourlyIndex(of, level or UNUSED_LEVEL, scored.step_seconds or HOUR)
    rows = {CALIBRATED: getattr(scored, column), LOW: low, HIGH: high}
    times = pl.Series(TIME, (1e6 * scored.times).astype(np.int64)).cast(TIME_TYPE)
    frame = pl.DataFrame(rows).with_columns(times, pl.lit(scored.device).alias(DEVICE))
    hourly.add(frame.with_columns(pl.col(CALIBRATED).fill_nan(None)))
    return hourly.table(every)


def _category_row(category: str, hourly: Mapping[str, pl.DataFrame]) -> list[str]:
    """Make the row of a category: its hours, the share of them with the reference's category, and its probability.

    `hourly` has the hours of each estimate; the probability is the mean that the intervals give to the reference's.
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
