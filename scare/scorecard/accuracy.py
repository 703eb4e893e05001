"""Accuracy of calibrated values against a reference: the mean, and at the moments of fastest change.

Regressions have the reference on the x axis. NaN in either series is an error here: select rows first.
"""

from dataclasses import dataclass

import numpy as np

from scare.data.flags import usable_values
from scare.data.readings import Readings

TOP_SHARE = 0.05  # of the rows, by the size of the raw reading's change


@dataclass(frozen=True)
class Accuracy:
    """How close an estimate is to the reference, in the reference's unit."""

    rows: int
    rmse: float
    mae: float
    bias: float
    r2: float
    slope: float
    intercept: float
    top5_rmse: float


def measure(estimate: np.ndarray, reference: np.ndarray, changes: np.ndarray) -> Accuracy:
    """Accuracy over rows [n]; `changes` [n] is the raw reading's change since the row before, NaN if unknown.

    >>> result = measure(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 5.0]), np.array([np.nan, 9.0, 2.0]))
    >>> round(result.rmse, 4), result.top5_rmse, result.mae
    (0.5774, 1.0, 0.3333)
    """
    error = estimate - reference
    varies = np.ptp(reference) > 0  # the spread of a constant may be a rounding error, not zero
    spread = np.square(reference - reference.mean()).sum() if varies else np.nan
    slope = float(((reference - reference.mean()) * estimate).sum() / spread)
    return Accuracy(
        rows=len(reference),
        rmse=rmse(error),
        mae=float(np.abs(error).mean()),
        bias=float(error.mean()),
        r2=float(1 - np.square(error).sum() / spread),
        slope=slope,
        intercept=float(estimate.mean() - slope * reference.mean()),
        top5_rmse=rmse(error[fastest(changes)]),
    )


def rmse(error: np.ndarray) -> float:
    """Root mean square; NaN of nothing."""
    return float(np.sqrt(np.square(error).mean())) if len(error) else float("nan")


@dataclass(frozen=True)
class Limits:
    """Bland and Altman's mean difference and the limits that hold 95 % of differences if they are normal."""

    bias: float
    low: float
    high: float
    inside: float  # the share that really lies between


def limits_of_agreement(error: np.ndarray) -> Limits:
    """Mean ± 1.96 standard deviations of calibrated − reference.

    >>> limits_of_agreement(np.array([-1.0, 1.0]))
    Limits(bias=0.0, low=-2.77, high=2.77, inside=1.0)
    """
    bias = float(error.mean())
    half = 1.96 * float(error.std(ddof=1)) if len(error) > 1 else float("nan")
    return Limits(bias, bias - half, bias + half, float((np.abs(error - bias) <= half).mean()))


def squared_correlation(estimate: np.ndarray, reference: np.ndarray) -> float:
    """r² of a regression, which no shift or stretch of the estimate changes; `Accuracy.r2` is about the 1:1 line.

    >>> squared_correlation(np.array([3.0, 5.0, 7.0]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    if len(reference) < 2 or np.ptp(reference) == 0 or np.ptp(estimate) == 0:
        return float("nan")
    return float(np.corrcoef(estimate, reference)[0, 1] ** 2)


def fastest(changes: np.ndarray) -> np.ndarray:
    """Row numbers of the ⌈5 %⌉ largest changes in size, earlier rows first among equals; unknown ones never.

    >>> fastest(np.array([np.nan, 1.0, -3.0, 3.0]))
    array([2])
    """
    count = int(np.ceil(TOP_SHARE * len(changes)))
    order = np.argsort(-np.abs(changes), kind="stable")
    return order[: min(count, int(np.isfinite(changes).sum()))]


def row_changes(times: np.ndarray, values: np.ndarray, step_seconds: float) -> np.ndarray:
    """Change of a series since the row before [rows]; NaN when that is more than two steps ago."""
    changes = np.diff(values, prepend=np.nan)
    waits = np.diff(times, prepend=-np.inf)
    return np.where(waits <= 2 * step_seconds, changes, np.nan)


def reading_changes(readings: Readings) -> np.ndarray:
    """`row_changes` of the first channel [rows]; unknown to and from a number that means no reading."""
    usable, _ = usable_values(readings.values, readings.channels)
    return row_changes(readings.times, usable[:, 0], readings.step_seconds)
