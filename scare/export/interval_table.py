"""Intervals as a board looks them up: a table of eight bands in float32, and what it gives, rounded as there.

Comes from `calibrator/intervals`; goes to `descriptor` and, as what C must give in every bit, to `board/certificate`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scare.calibrator.intervals import BANDS, LESS_SURE, Intervals
from scare.errors import DataError

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class IntervalTable:
    """The numbers of `scare_interval`: edges between eight bands, distances below and above a value of each."""

    edge: tuple[float, ...]
    below: tuple[float, ...]
    above: tuple[float, ...]
    widening: float

    def around(self, values: np.ndarray, flags: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
        """Low and high [n] of float32 values [n] in rows with these flags [n]; NaN where there is no value."""
        edge, below, above = (np.array(numbers, np.float32) for numbers in (self.edge, self.below, self.above))
        band = np.searchsorted(edge, values, side="right").clip(max=BANDS - 1)  # NaN sorts last
        factor = np.where(flags & LESS_SURE, np.float32(self.widening), np.float32(1))
        ends = values - factor * below[band], values + factor * above[band]
        low, high = (np.maximum(end, np.float32(floor)) for end in ends)
        return low, high


def interval_table(intervals: Intervals) -> IntervalTable:
    """The table of intervals with fewer bands is filled up with the last one, which nothing reaches.

    >>> interval_table(Intervals(0.9, (10.0,), (1.0, 4.0), (2.0, 5.0), 1.5)).above
    (2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)
    """
    more = BANDS - len(intervals.below)
    edge = _float32([*intervals.edges, *[LARGEST] * more])
    below, above = (_float32([*sides, *[sides[-1]] * more]) for sides in (intervals.below, intervals.above))
    return IntervalTable(edge, below, above, *_float32([intervals.widening]))


def _float32(numbers: Iterable[float]) -> tuple[float, ...]:
    with np.errstate(over="ignore"):
        near = np.array(list(numbers)).astype(np.float32)
    if not np.isfinite(near).all():
        raise DataError("a number of its intervals does not fit into 32 bits")
    return tuple(near.tolist())
