"""Adaptability: the error of an estimate around moments at which the raw sensor's own error changes.

The error of the raw reading is e = x − y, so every estimate of the same readings is scored at the same moments. A
change counts from θ of the reading before it, or of 5 units where that is less. Scored are the rows within 30 of a
change, each once, up to the next gap; `coverage` is their share of all rows that could be.

Paper gap: it names thresholds of 5, 10 and 20 % and ±30 points, not what changes or relative to what.
"""

from dataclasses import dataclass

import numpy as np

from scare.scorecard.accuracy import rmse

RADIUS = 30  # rows before and after a change
LEAST = 5.0  # the smallest reading that a change is relative to
SIDE = 5  # rows averaged on either side of a lasting change


@dataclass(frozen=True)
class Changes:
    """The relative change of a device's raw error at each row [rows], NaN where unknown, and the row's unbroken run."""

    sizes: np.ndarray
    run: np.ndarray

    def near(self, threshold: float) -> np.ndarray:
        """Whether a change of at least `threshold` is within 30 rows, in the same unbroken run: bool [rows]."""
        points = np.flatnonzero(self.sizes >= threshold)
        first = np.searchsorted(self.run, self.run[points], side="left")
        after = np.searchsorted(self.run, self.run[points], side="right")
        edges = np.zeros(len(self.run) + 1, int)
        np.add.at(edges, np.maximum(points - RADIUS, first), 1)
        np.add.at(edges, np.minimum(points + RADIUS + 1, after), -1)
        return np.cumsum(edges)[:-1] > 0


def sudden_changes(times: np.ndarray, raw: np.ndarray, reference: np.ndarray, step_seconds: float) -> Changes:
    """Changes from one row to the next, at most two steps apart; arrays [rows], times in seconds.

    >>> raw, reference = np.array([10.0, 10.0, 13.0, 13.0]), np.full(4, 10.0)
    >>> sudden_changes(60.0 * np.arange(4), raw, reference, 60.0).sizes
    array([nan, 0. , 0.3, 0. ])
    """
    error, run = raw - reference, _runs(times, raw - reference, step_seconds)
    sizes = np.abs(np.diff(error, prepend=np.nan)) / np.maximum(np.abs(_before(raw)), LEAST)
    return Changes(np.where(run == np.concatenate([[-1], run[:-1]]), sizes, np.nan), run)


def lasting_changes(times: np.ndarray, raw: np.ndarray, reference: np.ndarray, step_seconds: float) -> Changes:
    """Changes of the mean over 5 rows to that over the next 5, the largest alone within 30 rows.

    At one reading a minute sudden changes are nearly everywhere; these are events.
    """
    error, run = raw - reference, _runs(times, raw - reference, step_seconds)
    sizes = np.full(len(raw), np.nan)
    if len(raw) >= 2 * SIDE:
        ahead = _means(error)[SIDE:] - _means(error)[:-SIDE]
        relative = np.abs(ahead) / np.maximum(np.abs(_means(raw)[:-SIDE]), LEAST)
        whole = run[: 1 - 2 * SIDE] == run[2 * SIDE - 1 :]
        sizes[SIDE : len(raw) - SIDE + 1] = np.where(whole, relative, np.nan)
    return Changes(_peaks(sizes), run)


def error_near(estimate: np.ndarray, reference: np.ndarray, near: np.ndarray) -> tuple[float, float]:
    """RMSE over the rows near a change, and their share of all rows; NaN and 0 if there are none."""
    return rmse((estimate - reference)[near]), float(near.mean()) if len(near) else 0.0


def _runs(times: np.ndarray, error: np.ndarray, step_seconds: float) -> np.ndarray:
    """The number of the unbroken run that each row is in: a new one after a wait or a missing value."""
    waits = np.diff(times, prepend=times[:1])
    missing = ~np.isfinite(error)
    broken = (waits > 2 * step_seconds) | missing | np.concatenate([[False], missing[:-1]])
    return np.cumsum(broken)


def _before(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[np.nan], values[:-1]])


def _means(values: np.ndarray) -> np.ndarray:
    """Means of 5 rows, by their first row [rows − 4]."""
    return np.lib.stride_tricks.sliding_window_view(values, SIDE).mean(axis=1)


def _peaks(sizes: np.ndarray) -> np.ndarray:
    """The sizes with NaN wherever a larger one, or an equal one that is earlier, is kept within 30 rows."""
    kept = np.full(len(sizes), np.nan)
    for row in np.argsort(-sizes, kind="stable")[: int(np.isfinite(sizes).sum())]:
        around = slice(max(0, row - RADIUS), row + RADIUS + 1)
        if np.isnan(kept[around]).all():
            kept[row] = sizes[row]
    return kept
