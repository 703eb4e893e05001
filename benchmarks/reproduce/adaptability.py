"""Adaptability: the error of an estimate near times at which the raw sensor's own error e = x − y changes.

All estimates of the same readings are scored at the same times. A change is relative to the reading before it, or to 5
units if the reading is smaller.

Paper gap: the paper names thresholds of 5, 10 and 20 % and ±30 points, but not what changes, or relative to what.
"""

from dataclasses import dataclass

import numpy as np

from scare.scorecard.accuracy import rmse

RADIUS = 30  # rows before and after a change
MIN_LEVEL = 5.0  # a change is relative to the reading before it, or to this if that is less
SIDE = 5  # rows averaged on either side of a lasting change


@dataclass(frozen=True)
class ErrorChanges:
    """Changes of a device's raw error: their relative `sizes` [rows], NaN where unknown, and the `run` of each row.

    Rows without a gap between them have the same number in `run` [rows].
    """

    sizes: np.ndarray
    run: np.ndarray

    def near(self, threshold: float) -> np.ndarray:
        """Whether a change of at least `threshold` is within 30 rows, in the same unbroken run: bool [rows]."""
        changed = np.flatnonzero(self.sizes >= threshold)  # rows
        run_start = np.searchsorted(self.run, self.run[changed], side="left")
        run_end = np.searchsorted(self.run, self.run[changed], side="right")  # the first row of the next run
        # The sum of steps, +1 where a neighbourhood begins and −1 after its end, counts the neighbourhoods of a row.
        steps = np.zeros(len(self.run) + 1, int)
        np.add.at(steps, np.maximum(changed - RADIUS, run_start), 1)
        np.add.at(steps, np.minimum(changed + RADIUS + 1, run_end), -1)
        return np.cumsum(steps)[:-1] > 0


def sudden_changes(times: np.ndarray, raw: np.ndarray, reference: np.ndarray, step_seconds: float) -> ErrorChanges:
    """Find changes of the raw error from one row to the next, at most two steps apart; times in seconds, all [rows].

    >>> raw, reference = np.array([10.0, 10.0, 13.0, 13.0]), np.full(4, 10.0)
    >>> sudden_changes(60.0 * np.arange(4), raw, reference, 60.0).sizes
    array([nan, 0. , 0.3, 0. ])
    """
    error = raw - reference
    run = _runs(times, error, step_seconds)
    before = np.concatenate([[np.nan], raw[:-1]])
    sizes = np.abs(np.diff(error, prepend=np.nan)) / np.maximum(np.abs(before), MIN_LEVEL)
    same_run = run == np.concatenate([[-1], run[:-1]])  # as the row before
    return ErrorChanges(np.where(same_run, sizes, np.nan), run)


def lasting_changes(times: np.ndarray, raw: np.ndarray, reference: np.ndarray, step_seconds: float) -> ErrorChanges:
    """Find changes of the raw error from its mean over 5 rows to its mean over the next 5 rows.

    Only the largest change within 30 rows is kept. At one reading a minute, sudden changes are nearly everywhere;
    lasting changes are events.
    """
    error = raw - reference
    run = _runs(times, error, step_seconds)
    sizes = np.full(len(raw), np.nan)
    if len(raw) >= 2 * SIDE:
        change = _means(error)[SIDE:] - _means(error)[:-SIDE]
        relative = np.abs(change) / np.maximum(np.abs(_means(raw)[:-SIDE]), MIN_LEVEL)
        unbroken = run[: 1 - 2 * SIDE] == run[2 * SIDE - 1 :]  # first and last of the ten rows
        sizes[SIDE : len(raw) - SIDE + 1] = np.where(unbroken, relative, np.nan)  # at the sixth of the ten
    return ErrorChanges(_peaks(sizes), run)


def error_near(estimate: np.ndarray, reference: np.ndarray, near: np.ndarray) -> tuple[float, float]:
    """Compute the RMSE over the rows near a change, and their share of all rows; NaN and 0 if there are none."""
    return rmse((estimate - reference)[near]), float(near.mean()) if len(near) else 0.0


def _runs(times: np.ndarray, error: np.ndarray, step_seconds: float) -> np.ndarray:
    """Number the unbroken runs of rows; a new one begins after a gap or a missing value."""
    waits = np.diff(times, prepend=times[:1])
    missing = ~np.isfinite(error)
    broken = (waits > 2 * step_seconds) | missing | np.concatenate([[False], missing[:-1]])
    return np.cumsum(broken)


def _means(values: np.ndarray) -> np.ndarray:
    """Compute the mean of each row and the four after it [rows − 4]."""
    return np.lib.stride_tricks.sliding_window_view(values, SIDE).mean(axis=1)


def _peaks(sizes: np.ndarray) -> np.ndarray:
    """Return the peaks of sizes [rows], NaN elsewhere: non-maximum suppression within 30 rows of a larger peak."""
    peaks = np.full(len(sizes), np.nan)
    largest_first = np.argsort(-sizes, kind="stable")[: int(np.isfinite(sizes).sum())]  # NaN are sorted last
    for row in largest_first:
        around = slice(max(0, row - RADIUS), row + RADIUS + 1)
        if np.isnan(peaks[around]).all():
            peaks[row] = sizes[row]
    return peaks
