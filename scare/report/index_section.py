"""How often an air quality index of the calibrated values shows the category that the reference's shows."""

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

MOST_HOURS = {"nowcast": 3000, "ozone nowcast": 200, "1h": 3000}  # that are compared, about, which takes a second
DAY = 24  # hours


def index_blocks(run: Run) -> list[Block]:
    """A table for each index of the pollutant, on the rows scored; or why there is none."""
    blocks: list[Block] = []
    reasons = []
    for name in air_indices():
        try:
            blocks += _compare(run, find_index(name, run.target))
        except UsageError as error:
            reasons.append(f"{error}.")
    return blocks or [Note(reason[0].upper() + reason[1:]) for reason in reasons]


def _compare(run: Run, of: IndexOf) -> list[Block]:
    entry = next((entry for entry in run.card.entries if entry.measure == "interval_coverage"), None)
    level = float(entry.detail.get("level", 0.0)) if entry else 0.0
    estimates = {"calibrated": CALIBRATED} | ({"raw": "raw"} if run.comparable else {})
    hours = sum(float(np.ptp(series.scored.times)) / HOUR for series in run.series if len(series.scored))
    least = max(1, round(hours / MOST_HOURS[of.points.averaging]))
    every = next(number for number in count(least) if gcd(number, DAY) == 1)  # all times of day
    pairs: dict[str, list[pl.DataFrame]] = {name: [] for name in estimates}
    for series in run.series:
        if not len(scored := series.scored):
            continue
        truth = _hours(of, scored, "reference", level, every)
        for name, column in estimates.items():
            found = _hours(of, scored, column, level, every)
            pairs[name].append(found.join(truth.select(TIME, true="category"), on=TIME))
    joined = {name: pl.concat(parts) for name, parts in pairs.items() if parts}
    if not joined or joined["calibrated"].is_empty():
        return [Note(f"{of.index.title}: no hour has enough readings before it.")]
    rows = []
    shown = [name for name in of.index.categories if (joined["calibrated"]["true"] == name).any()]
    for category in (*shown, "all"):
        own = {name: table if category == "all" else table.filter(true=category) for name, table in joined.items()}
        rows.append([category, f"{own['calibrated'].height:,}", *map(_right, own.values()), _given(own["calibrated"])])
    says = (f"{name} shows it" for name in joined)
    head = ("category by the reference", "hours", *says, "probability given to it")
    mark = f" (second-hand, {of.index.second_hand})" if of.index.second_hand else ""
    return [
        ReportTable(f"{of.index.title}, hour by hour", head, rows),
        Note(
            f"{of.index.title}{mark}: the index of each hour by the rows scored until then, and that of the reference"
            " in the same hour. The probability comes from the interval."
        ),
    ]


def _hours(of: IndexOf, scored: DeviceSeries, column: str, level: float, every: int) -> pl.DataFrame:
    """The index of the hours of a device; only calibrated values have an interval."""
    nothing = np.full(len(scored), np.nan)
    low, high = (scored.low, scored.high) if column == CALIBRATED else (nothing, nothing)
    hourly = HourlyIndex(of, level or UNUSED_LEVEL, scored.step_seconds or HOUR)
    rows = {CALIBRATED: getattr(scored, column), LOW: low, HIGH: high}
    times = pl.Series(TIME, (1e6 * scored.times).astype(np.int64)).cast(TIME_TYPE)
    frame = pl.DataFrame(rows).with_columns(times, pl.lit(scored.device).alias(DEVICE))
    hourly.add(frame.with_columns(pl.col(CALIBRATED).fill_nan(None)))
    return hourly.table(every)


def _right(table: pl.DataFrame) -> str:
    return (
        percent(table.filter(pl.col("category") == pl.col("true")).height / table.height) if table.height else NOTHING
    )


def _given(table: pl.DataFrame) -> str:
    """The mean probability given to the category of the reference."""
    shares = [row.get(f"p_{row['true'].replace(' ', '_')}") for row in table.iter_rows(named=True)]
    known = [share for share in shares if share is not None]
    return percent(float(np.mean(known))) if known else NOTHING
