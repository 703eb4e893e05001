"""Error analysis: RMSE by condition (concentration, humidity) and around sudden changes, in the target's unit.

Input: the scored rows of `scorecard.series`; used by `chart_data` and `sections`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from scare.scorecard.accuracy import fastest, rmse
from scare.scorecard.series import DeviceSeries

BINS = 10  # about as many bins as a condition gets
FEW_ROWS = 20  # a bin with fewer rows shows no error
AROUND = 30  # rows before and after a sudden change
CENTRAL = (0.5, 99.5)  # percentiles that the bins span; rows beyond are in the outer bins


@dataclass(frozen=True)
class Bin:
    """Rows whose condition lies in [low, high): how many, and the RMSE of each estimate, None for too few rows."""

    low: float
    high: float
    rows: int
    rmse: dict[str, float | None]


def error_by(condition: np.ndarray, errors: Mapping[str, np.ndarray]) -> list[Bin]:
    """Compute the RMSE of each estimate in bins of a condition [rows], as `round_bins` makes them.

    >>> [(part.low, part.rows) for part in error_by(np.arange(100.0), {"ours": np.ones(100)})][:2]
    [(0.0, 10), (10.0, 10)]
    """
    known = np.isfinite(condition)
    if not known.any():
        return []
    edges, bin_of_row = round_bins(condition[known])
    bins = []
    for index, (low, high) in enumerate(pairwise(edges)):
        inside = bin_of_row == index
        rows = int(inside.sum())
        scores = {name: rmse(error[known][inside]) if rows >= FEW_ROWS else None for name, error in errors.items()}
        bins.append(Bin(float(low), float(high), rows, scores))
    return bins


def round_bins(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return round edges of bins, and the bin of each of these known values [rows]; the outer bins are open."""
    edges = round_edges(*np.percentile(values, CENTRAL).tolist())
    return edges, np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)


def round_edges(low: float, high: float) -> np.ndarray:
    """Find bin edges that cover low to high in at most `BINS` + 1 bins: multiples of 1, 2 or 5 times a power of ten.

    >>> round_edges(3.0, 41.0)
    array([ 0.,  5., 10., 15., 20., 25., 30., 35., 40., 45.])
    """
    # The narrowest bin, never so small beside the numbers that edges would be equal; 1e-300 instead of zero.
    narrowest = max((high - low) / BINS, 1e-9 * max(abs(low), abs(high), 1e-300), 1e-300)
    power = 10.0 ** np.floor(np.log10(narrowest))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= narrowest * (1 - 1e-9))
    first, last = np.floor(low / step), np.floor(high / step) + 1
    return np.arange(first, last + 1) * step


def largest_changes(series: DeviceSeries) -> np.ndarray:
    """Find the rows of the largest changes of the raw reading, at least 31 rows apart, in order of time.

    They are taken from the 5 % of rows with the largest changes, the largest first.
    """
    is_near_larger = np.zeros(len(series), bool)
    rows = []
    for row in fastest(series.changes):
        if not is_near_larger[row]:
            rows.append(row)
            is_near_larger[max(0, row - AROUND) : row + AROUND + 1] = True
    return np.sort(np.array(rows, int))


def error_around(series: DeviceSeries, changes: np.ndarray, errors: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Compute the RMSE of each estimate at −30 … +30 rows from the rows in `changes`, but not beyond a gap in time."""
    offsets = np.arange(-AROUND, AROUND + 1)
    rows = changes[:, None] + offsets  # [changes, 61]
    within = (rows >= 0) & (rows < len(series))
    rows = np.clip(rows, 0, len(series) - 1)
    # After a gap, rows are later than their offset says.
    late = series.times[rows] - series.times[changes][:, None] - offsets * series.step_seconds
    within &= np.abs(late) < series.step_seconds / 2
    scores: dict[str, list[float]] = {}
    for name, error in errors.items():
        by_offset = np.where(within, error[rows], np.nan).T  # [61, changes]
        scores[name] = [rmse(at_offset[np.isfinite(at_offset)]) for at_offset in by_offset]
    return scores
