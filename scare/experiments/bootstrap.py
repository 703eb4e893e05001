"""Paired block bootstrap: is one estimate better than another, or did the weather favour it?

Errors of neighbouring minutes are one event, so whole blocks of time are resampled, for all devices and both estimates
together. Less than a day of blocks says nothing about other days: then there is no interval.
"""

from dataclasses import dataclass

import numpy as np

BLOCK_SECONDS = 3 * 3600.0
MIN_BLOCKS = 8
DRAWS = 2000


@dataclass(frozen=True)
class Interval:
    """A difference of two RMSE (first − second) and its 95 % interval; NaN if there are too few blocks."""

    difference: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an interval around the difference."""
        return not np.isnan(self.low)

    @property
    def decided(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def compare_errors(first: np.ndarray, second: np.ndarray, times: np.ndarray, seed: int = 0) -> Interval:
    """The difference of two RMSE from squared errors [rows] (mean over seeds) at `times` in seconds [rows].

    >>> times = 3600.0 * np.arange(60)
    >>> compare_errors(np.full(60, 4.0), np.full(60, 1.0), times)
    Interval(difference=1.0, low=1.0, high=1.0)
    """
    _, block = np.unique(np.floor(times / BLOCK_SECONDS), return_inverse=True)
    counts = np.bincount(block).astype(float)
    sums = np.stack([np.bincount(block, weights=errors) for errors in (first, second)])
    overall = np.sqrt(sums.sum(axis=1) / counts.sum())
    difference = float(overall[0] - overall[1])
    if len(counts) < MIN_BLOCKS:
        return Interval(difference, np.nan, np.nan)
    drawn = np.random.default_rng(seed).integers(0, len(counts), (DRAWS, len(counts)))
    rmse = np.sqrt(sums[:, drawn].sum(axis=2) / counts[drawn].sum(axis=1))
    low, high = np.percentile(rmse[0] - rmse[1], [2.5, 97.5])
    return Interval(difference, float(low), float(high))
