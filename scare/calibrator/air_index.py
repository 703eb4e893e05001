"""Air quality indices of calibrated values: the US AQI with NowCast, the European index, and how sure a category is.

    rows with their interval → hourly means → NowCast → category, index, probability of each category

The interval of an average is taken to be the average of the intervals, because errors of neighbouring rows are alike
(docs/intervals.md). A probability is that of a normal distribution with another spread on either side of the value, so
that the interval has its stated share. Ozone has a NowCast of its own (`ozone_nowcast`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import pairwise
from math import erf, floor, isfinite, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
import polars as pl

from scare.calibrator import ozone_nowcast
from scare.data.quantities import conversion, find_quantity, spell_unit
from scare.data.readings import CALIBRATED, DEVICE, HIGH, LOW, TIME, TIME_TYPE, Channel
from scare.errors import UsageError
from scare.schema import Amount, Finite, Positive, convert, load_toml
from scare.words import suggestion

TABLE = Path(__file__).with_name("air_index.toml")
HOUR = 3600.0  # s
COMPLETE = 0.75  # share of its readings that an hour needs
NOWCAST_HOURS, LEAST_WEIGHT = 12, 0.5  # of NowCast: its hours, and the least weight of an hour, times that of the next
HOURS = {"nowcast": NOWCAST_HOURS, "ozone nowcast": ozone_nowcast.HOURS, "1h": 1}  # hours of an average, by its kind
UNUSED_LEVEL = 0.9  # level where rows have no intervals, so that it does not matter
COLUMNS = (CALIBRATED, LOW, HIGH)
HourSums = dict[str, dict[int, np.ndarray]]  # by device and hour since 1970: sums of `COLUMNS` and number of rows [4]


@dataclass(frozen=True)
class Breakpoints:
    """Where the categories of one pollutant begin; the header of `air_index.toml` explains the fields."""

    unit: str
    averaging: Literal["nowcast", "ozone nowcast", "1h"]
    step: Amount
    begins: tuple[Finite, ...]
    end: Positive | None = None


@dataclass(frozen=True)
class AirIndex:
    """An index with its categories and the breakpoints of its pollutants; see the header of `air_index.toml`."""

    title: str
    as_of: date
    source: str
    second_hand: str
    categories: tuple[str, ...]
    values: tuple[int, ...]
    temperature: Finite
    pollutants: Mapping[str, Breakpoints]


@dataclass(frozen=True)
class IndexReading:
    """The index of an average: its concentration and interval in the breakpoints' unit, category, probability of each.

    `value` is None for an index of categories only; there are no probabilities without an interval.
    """

    concentration: float
    low: float
    high: float
    value: int | None
    category: str
    probabilities: Mapping[str, float]


@cache
def air_indices() -> Mapping[str, AirIndex]:
    """All indices, by name."""
    return convert(load_toml(TABLE), dict[str, AirIndex], TABLE)


def find_index(name: str, target: Channel) -> "IndexOf":
    """Return the index of this name for a calibrator's target; raises a UsageError if it is not for that quantity."""
    if name not in air_indices():
        raise UsageError(f"no index is called '{name}'{suggestion(name, air_indices())}")
    index, pollutant = air_indices()[name], find_quantity(target.name)
    if pollutant is None or pollutant.name not in index.pollutants:
        raise UsageError(f"the index {name} is for {', '.join(index.pollutants)}; {target.name} is none of them")
    points = index.pollutants[pollutant.name]
    to_unit = conversion(spell_unit(target.unit), points.unit, pollutant.molar_mass, index.temperature)
    if to_unit is None:
        in_unit = f"in {target.unit}" if target.unit else "without a unit"
        raise UsageError(
            f"the index {name} takes {pollutant.name} in {points.unit} or what converts to it, not {in_unit}"
        )
    return IndexOf(index, points, to_unit.gain)


@dataclass(frozen=True)
class IndexOf:
    """An index for one pollutant; multiplying a calibrated value by `gain` gives it in the breakpoints' unit."""

    index: AirIndex
    points: Breakpoints
    gain: float

    def value(self, concentration: float) -> int | None:
        """Return the index of a concentration in the breakpoints' unit; None for NaN, or if it has categories only.

        >>> pm25 = find_index("us-aqi", Channel("PM2.5", "ug/m3"))
        >>> [pm25.value(concentration) for concentration in (0.0, 9.0, 35.4, 55.5, 125.4, 900.0)]
        [0, 50, 100, 151, 200, 500]
        """
        if not self.index.values or not isfinite(concentration):
            return None
        number = self.category(concentration)
        # The index and the concentration at both ends of the category. It ends one step below the next category; only
        # the last one includes its end.
        low_index, high_index = self.index.values[number], self.index.values[number + 1]
        if number < len(self.index.categories) - 1:
            high_index -= 1
        low = self.points.begins[number]
        if number < len(self.points.begins) - 1:
            high = self.points.begins[number + 1] - self.points.step
        else:
            high = self.points.end or np.inf
        share = min(1.0, max(0.0, (self._truncate(concentration) - low) / (high - low)))
        return floor(low_index + share * (high_index - low_index) + 0.5)

    def category(self, concentration: float) -> int:
        """Return the number of the category of a concentration, from 0."""
        truncated = self._truncate(concentration)
        return max(0, int(np.searchsorted(self.points.begins, truncated, side="right")) - 1)

    def probabilities(self, value: float, low: float, high: float, level: float) -> list[float]:
        """Return each category's probability, from an interval that contains the truth in a share `level` of cases.

        >>> pm25 = find_index("us-aqi", Channel("PM2.5", "ug/m3"))
        >>> [round(probability, 2) for probability in pm25.probabilities(9.1, 5.0, 13.2, 0.9)[:3]]
        [0.5, 0.5, 0.0]
        """
        z = _half_width(level)
        # Standard deviations on either side of the value; above zero, since they are divisors.
        below, above = max(1e-9, (value - low) / z), max(1e-9, (high - value) / z)

        def cumulative(limit: float) -> float:
            """Probability of a concentration below this limit."""
            return 0.5 * (1 + erf((limit - value) / (below if limit < value else above) / sqrt(2)))

        limits = [-np.inf, *self.points.begins[1:], np.inf]  # of the categories
        return [cumulative(end) - cumulative(begin) for begin, end in pairwise(limits)]

    def average(self, hours: np.ndarray, level: float = UNUSED_LEVEL) -> np.ndarray:
        """Average hourly means of value, low and high [hours, 3], the newest last, NaN for an hour without data: [3].

        It is NaN if too few hours have data. The weights of hours depend on the values alone. `level` is the share of
        cases in which an hour's interval contains the truth. Only the NowCast of ozone needs it, to widen the interval.

        >>> pm25 = find_index("us-aqi", Channel("PM2.5", "ug/m3"))
        >>> pm25.average(np.array([[10.0, 8.0, 14.0]] * 11 + [[20.0, 16.0, 28.0]])).round(3)
        array([15.001, 12.001, 21.002])
        """
        if self.points.averaging == "ozone nowcast":
            return ozone_nowcast.ozone_nowcast(hours, _half_width(level))
        recent = hours[-self.hours :]
        if self.points.averaging == "1h":
            return recent[-1]
        known = np.isfinite(recent[:, 0])
        if known[-3:].sum() < 2:  # NowCast needs two of the last three hours
            return np.full(hours.shape[1], np.nan)
        highest, lowest = recent[known, 0].max(), recent[known, 0].min()
        # An hour weighs this much of the next one: less if the air changes a lot, so that old hours hardly count.
        decay = max(LEAST_WEIGHT, lowest / highest) if highest > 0 else 1.0
        hours_ago = np.arange(len(recent) - 1, -1, -1.0)
        weights = decay ** hours_ago[known]
        return (weights[:, None] * recent[known]).sum(axis=0) / weights.sum()

    def read(self, hours: np.ndarray, level: float) -> IndexReading | None:
        """Read the index off hourly means of value, low and high [hours, 3], the newest last.

        None if too few hours have data. An hour's interval (low, high) contains the truth in a share `level` of cases.
        """
        value, low, high = self.average(self.gain * hours, level).tolist()
        if not isfinite(value):
            return None
        categories, likely = self.index.categories, list[float]()
        if isfinite(low) and isfinite(high):
            likely = self.probabilities(value, low, high, level)
        # A pollutant may not reach the last categories of its index, and there may be no probabilities at all.
        probabilities = dict(zip(categories, likely, strict=False))
        return IndexReading(value, low, high, self.value(value), categories[self.category(value)], probabilities)

    @property
    def hours(self) -> int:
        """The number of hours that an average is made of."""
        return HOURS[self.points.averaging]

    def _truncate(self, concentration: float) -> float:
        """Truncate a concentration to the breakpoints' step, as indices prescribe; 1e-9 allows for rounding."""
        step = self.points.step
        return floor(concentration / step + 1e-9) * step if step else concentration


def _half_width(level: float) -> float:
    """Return how many standard deviations on either side of the mean contain a share `level` of normal numbers."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def add_hours(sums: HourSums, rows: pl.DataFrame) -> None:
    """Add rows with device, time, calibrated, low and high to hourly sums; rows without a value count as missing."""
    hour = (pl.col(TIME).dt.epoch("s") // int(HOUR)).alias("hour")
    known = rows.filter(pl.col(CALIBRATED).is_not_null())
    totals = known.group_by(DEVICE, hour).agg(*(pl.col(name).fill_null(np.nan).sum() for name in COLUMNS), pl.len())
    for device, number, *new in totals.iter_rows():
        hours = sums.setdefault(device, {})
        hours[number] = hours.get(number, np.zeros(4)) + np.array(new, float)


@dataclass
class HourlyIndex:
    """Hourly means of calibrated rows and their intervals, added up as rows come, and the index of each hour."""

    of: IndexOf
    level: float  # of the intervals
    step_seconds: float
    sums: HourSums = field(default_factory=dict)

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows with device, time, calibrated, low and high; rows without a value count as missing."""
        add_hours(self.sums, rows)

    def table(self, every: int = 1) -> pl.DataFrame:
        """Return a row for each device and hour with an average: concentration, interval, index and probabilities.

        Hours are counted from 1970, and only those whose number is a multiple of `every` are in the table.
        """
        reached = self.of.index.categories[: len(self.of.points.begins)]  # the pollutant may not reach the last ones
        names = [f"p_{name.replace(' ', '_')}" for name in reached]
        numbers = ("concentration", LOW, HIGH)
        schema = {
            **{DEVICE: pl.String, TIME: pl.Int64},
            **dict.fromkeys(numbers, pl.Float64),
            **{"index": pl.Int64, "category": pl.String},
            **dict.fromkeys(names, pl.Float64),
        }
        table = pl.DataFrame(list(self._rows(every)), schema, orient="row")
        microseconds = pl.col(TIME) * 1_000_000
        return table.with_columns(microseconds.cast(TIME_TYPE)).with_columns(pl.col(*numbers, *names).fill_nan(None))

    def _rows(self, every: int) -> Iterator[tuple[object, ...]]:
        """Yield the cells of the table's rows."""
        expected = max(1.0, HOUR / self.step_seconds)  # rows in an hour
        names = self.of.index.categories[: len(self.of.points.begins)]  # those that the pollutant reaches
        for device, hours in sorted(self.sums.items()):
            first, last = min(hours), max(hours)
            means = np.full((last - first + 1, 3), np.nan)  # of value, low and high
            for hour, (*sums, count) in hours.items():
                if count >= COMPLETE * expected:
                    means[hour - first] = np.array(sums) / count
            first_multiple = -first % every  # index of the first hour that is a multiple of `every`
            for index in range(first_multiple, len(means), every):
                reading = self.of.read(means[max(0, index - self.of.hours + 1) : index + 1], self.level)
                if reading is not None:
                    time = int(HOUR) * (first + index)
                    average = reading.concentration, reading.low, reading.high
                    probabilities = [reading.probabilities.get(name, np.nan) for name in names]
                    yield device, time, *average, reading.value, reading.category, *probabilities
