"""Averages over hours, 8 hours or days, as limit values ask for them, from readings at any shorter step.

A period counts if enough of its readings are there. European rules go through the hours: an hour needs enough readings,
and a longer period enough hours; EPA's own software counts the readings of a day.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scare.scorecard.series import DeviceSeries

HOUR = 3600.0  # s
TOO_COARSE = 1.5  # a step this many times as long as a period has no average of it


@dataclass(frozen=True)
class Averages:
    """Averages over complete periods, [n] each; `numbers` count the periods of so many `hours` since 1970."""

    hours: int
    numbers: np.ndarray
    reference: np.ndarray
    calibrated: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def days(self) -> np.ndarray:
        """The days since 1970 that the periods are in [n]."""
        return self.numbers * self.hours // 24

    def select(self, numbers: np.ndarray) -> "Averages":
        """Keep the averages of these periods, given by their `numbers`."""
        keep = np.isin(self.numbers, numbers)
        return Averages(self.hours, self.numbers[keep], self.reference[keep], self.calibrated[keep])


@dataclass(frozen=True)
class Averaging:
    """How averages are made: their length, the share of readings they need, and whether hours come first."""

    hours: int
    completeness: float
    through_hours: bool

    def of_scored(self, series: DeviceSeries) -> Averages:
        """Average reference and calibrated values over the rows of a device that are scored."""
        scored = series.scored
        columns = np.stack([scored.reference, scored.calibrated])
        numbers, means = self.average(scored.times, columns, series.step_seconds)
        return Averages(self.hours, numbers, *means)

    def average(self, times: np.ndarray, columns: np.ndarray, step_seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """Average `columns` [k, rows] at `times` [s]: the numbers of complete periods [n] and their means [k, n].

        >>> hourly = Averaging(24, 0.75, through_hours=True)
        >>> hourly.average(3600.0 * np.arange(24), np.arange(24.0)[None], 3600.0)
        (array([0.]), array([[11.5]]))
        """
        if self.through_hours and self.hours > 1 and step_seconds < HOUR:
            hours, columns = _means(times, columns, HOUR, step_seconds, self.completeness)
            times, step_seconds = HOUR * hours, HOUR
        return _means(times, columns, HOUR * self.hours, step_seconds, self.completeness)

    def capture(self, series: DeviceSeries) -> float | None:
        """Return the share of whole periods between first and last row that have an average; None if unknown.

        A row that was used in training counts, too: this is about the device, not about its accuracy.
        """
        if not len(series) or not series.step_seconds:
            return None
        period, known = HOUR * self.hours, np.isfinite(series.calibrated)
        numbers, _ = self.average(series.times[known], series.calibrated[None, known], series.step_seconds)
        begin, end = series.times[0], series.times[-1] + series.step_seconds
        first_whole, after_last = -(-begin // period), end // period  # begin is rounded up, end down
        is_whole = (numbers >= first_whole) & (numbers < after_last)
        periods = after_last - first_whole
        return float(is_whole.sum() / periods) if periods > 0 else None


def uptime(series: DeviceSeries) -> float | None:
    """Return the share of the readings expected from first to last row that arrived; None for a single row."""
    if not series.step_seconds:
        return None
    expected = (series.times[-1] - series.times[0]) / series.step_seconds + 1
    return float(min(1.0, np.isfinite(series.raw).sum() / expected))


def common_periods(averages: Sequence[Averages]) -> np.ndarray:
    """Return the numbers of the periods that all of them have [n]."""
    common = averages[0].numbers
    for others in averages[1:]:
        common = np.intersect1d(common, others.numbers)
    return common


def _means(
    times: np.ndarray, columns: np.ndarray, period: float, step_seconds: float, completeness: float
) -> tuple[np.ndarray, np.ndarray]:
    """Average `columns` [k, rows] over periods [s] that have enough rows: numbers of periods [n] and means [k, n].

    There is none if the rows are further apart than a period.
    """
    if step_seconds > TOO_COARSE * period:
        return np.empty(0), np.empty((len(columns), 0))
    # The number of each period with rows, the index into them of each row, and how many rows each has.
    numbers, index, counts = np.unique(times // period, return_inverse=True, return_counts=True)
    expected = max(1.0, period / step_seconds) if step_seconds else 1.0
    complete = counts >= completeness * expected
    sums = np.stack([np.bincount(index, column, len(numbers)) for column in columns])
    return numbers[complete], sums[:, complete] / counts[complete]
