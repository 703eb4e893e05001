"""Where the error is: by condition, and around sudden changes.

All in the target's unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from scare.scorecard.accuracy import fastest, rmse
from scare.scorecard.series import DeviceSeries

BINS = 10
FEW_ROWS = 20  # a bin with fewer has no error worth showing
AROUND = 30  # rows before and after a sudden change
CENTRAL = (0.5, 99.5)  # percentiles that the bins span; what lies beyond is in the outer ones


@dataclass(frozen=True)
class Bin:
    """Rows whose condition lies in [low, high): how many, and the RMSE of each estimate, None for too few rows."""

    low: float
    high: float
    rows: int
    rmse: dict[str, float | None]


def error_by(condition: np.ndarray, errors: Mapping[str, np.ndarray]) -> list[Bin]:
    """RMSE of each estimate in bins of a condition [rows]; bins are round numbers, the outer ones hold the rest.

    >>> [(one.low, one.rows) for one in error_by(np.arange(100.0), {"ours": np.ones(100)})][:2]
    [(0.0, 10), (10.0, 10)]
    """
    known = np.isfinite(condition)
    if not known.any():
        return []
    edges = round_edges(*np.percentile(condition[known], CENTRAL).tolist())
    place = np.clip(np.searchsorted(edges, condition[known], side="right") - 1, 0, len(edges) - 2)
    bins = []
    for index, (low, high) in enumerate(pairwise(edges)):
        inside = place == index
        scores = {name: _rmse(error[known][inside]) for name, error in errors.items()}
        bins.append(Bin(float(low), float(high), int(inside.sum()), scores))
    return bins


def round_edges(low: float, high: float) -> np.ndarray:
    """Borders at multiples of 1, 2 or 5 times a power of ten that cover low to high in at most `BINS` + 1 bins.

    >>> round_edges(3.0, 41.0)
    array([ 0.,  5., 10., 15., 20., 25., 30., 35., 40., 45.])
    """
    least = max((high - low) / BINS, 1e-9 * max(abs(low), abs(high), 1e-300), 1e-300)
    power = 10.0 ** np.floor(np.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    first, last = np.floor(low / step), np.floor(high / step) + 1
    return np.arange(first, last + 1) * step


def _rmse(error: np.ndarray) -> float | None:
    return rmse(error) if len(error) >= FEW_ROWS else None


def greatest_changes(series: DeviceSeries) -> np.ndarray:
    """Row numbers of the greatest changes of the raw reading, each the greatest within 30 rows.

    They are taken, greatest first, from the 5 % of rows that top-5 % RMSE is about.
    """
    free = np.ones(len(series), bool)
    chosen = []
    for row in fastest(series.changes):
        if free[row]:
            chosen.append(row)
            free[max(0, row - AROUND) : row + AROUND + 1] = False
    return np.sort(np.array(chosen, int))


def error_around(series: DeviceSeries, changes: np.ndarray, errors: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """RMSE of each estimate at −30 … +30 rows from the rows in `changes`; where time is missing, rows do not count."""
    offsets = np.arange(-AROUND, AROUND + 1)
    rows = changes[:, None] + offsets
    within = (rows >= 0) & (rows < len(series))
    rows = np.clip(rows, 0, len(series) - 1)
    late = series.times[rows] - series.times[changes][:, None] - offsets * series.step_seconds
    within &= np.abs(late) < series.step_seconds / 2
    return {name: _column_rmse(np.where(within, error[rows], np.nan)) for name, error in errors.items()}


def _column_rmse(error: np.ndarray) -> list[float]:
    return [rmse(column[np.isfinite(column)]) for column in error.T]
