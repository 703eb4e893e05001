"""Accuracy against a reference: RMSE and its paired bootstrap, Bland-Altman limits, interval coverage.

Scored are rows with a reference and a calibrated value, unless the calibrator was made from them: rows of a device
within the period of its training, validation or co-location session are shown, but never scored. When several methods
are compared, all are scored on the rows for which all have a value. There is one exception: a method that is not fitted
(a formula that ends at 95 % humidity, persistence after a gap) and has values for far fewer rows does not reduce the
rows of the others. It is scored on its own rows, and its coverage is reported.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from scare.calibrator.intervals import UNCERTAIN
from scare.calibrator.plan_passes import LEARNED
from scare.data.flags import usable_values
from scare.data.readings import Readings
from scare.errors import DataError

TOP_SHARE = 0.05  # share of the rows, those with the largest changes of the raw reading, in the top-5 % RMSE
FULL = 0.95  # an unfitted method with a smaller share of the others' rows takes no rows from them
BLOCK_SECONDS = 3 * 3600.0  # block length of the bootstrap, longer than errors are correlated
MIN_BLOCKS = 8  # no interval from fewer blocks: less than a day says nothing about other days
DRAWS = 2000  # resamples of the bootstrap
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Accuracy:
    """How close an estimate is to the reference, in the reference's unit; `top5_rmse` is over the fastest changes."""

    rows: int
    rmse: float
    mae: float
    bias: float
    r2: float
    slope: float
    intercept: float
    top5_rmse: float


def measure(estimate: np.ndarray, reference: np.ndarray, changes: np.ndarray) -> Accuracy:
    """Compute the accuracy over rows [n]; `changes` [n] are the raw reading's since the row before, NaN if unknown.

    >>> result = measure(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 5.0]), np.array([np.nan, 9.0, 2.0]))
    >>> round(result.rmse, 4), result.top5_rmse, result.mae
    (0.5774, 1.0, 0.3333)
    """
    error = estimate - reference
    varies = np.ptp(reference) > 0  # the squares of a constant may sum to a rounding error, not zero
    total_squares = np.square(reference - reference.mean()).sum() if varies else np.nan
    slope = float(((reference - reference.mean()) * estimate).sum() / total_squares)
    return Accuracy(
        rows=len(reference),
        rmse=rmse(error),
        mae=float(np.abs(error).mean()),
        bias=float(error.mean()),
        r2=float(1 - np.square(error).sum() / total_squares),
        slope=slope,
        intercept=float(estimate.mean() - slope * reference.mean()),
        top5_rmse=rmse(error[fastest(changes)]),
    )


def rmse(error: np.ndarray) -> float:
    """Return the root mean square of errors [n]; NaN for an empty array."""
    return float(np.sqrt(np.square(error).mean())) if len(error) else float("nan")


@dataclass(frozen=True)
class RmseDifference:
    """A difference of two RMSE (first − second) and its 95 % interval; NaN if there are too few blocks of time."""

    difference: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there were enough blocks of time for an interval."""
        return not np.isnan(self.low)

    @property
    def decided(self) -> bool:
        """Whether one estimate is better than the other, not only by chance: the interval excludes zero."""
        return self.low > 0 or self.high < 0


def compare_errors(first: np.ndarray, second: np.ndarray, times: np.ndarray) -> RmseDifference:
    """Compare two estimates by a paired block bootstrap: is one better, or did the weather favour it?

    Takes the squared errors [rows] of each (mean over seeds) at `times` in seconds [rows]. Whole blocks of time are
    resampled, for all devices and both estimates together.

    >>> times = 3600.0 * np.arange(60)
    >>> compare_errors(np.full(60, 4.0), np.full(60, 1.0), times)
    RmseDifference(difference=1.0, low=1.0, high=1.0)
    """
    _, block = np.unique(np.floor(times / BLOCK_SECONDS), return_inverse=True)  # the number of each row's block
    counts = np.bincount(block).astype(float)
    sums = np.stack([np.bincount(block, weights=errors) for errors in (first, second)])  # [2, blocks]
    overall = np.sqrt(sums.sum(axis=1) / counts.sum())
    difference = float(overall[0] - overall[1])
    if len(counts) < MIN_BLOCKS:
        return RmseDifference(difference, np.nan, np.nan)
    drawn_blocks = np.random.default_rng(0).integers(0, len(counts), (DRAWS, len(counts)))
    drawn_rmse = np.sqrt(sums[:, drawn_blocks].sum(axis=2) / counts[drawn_blocks].sum(axis=1))  # [2, DRAWS]
    low, high = np.percentile(drawn_rmse[0] - drawn_rmse[1], [2.5, 97.5])
    return RmseDifference(difference, float(low), float(high))


@dataclass(frozen=True)
class AgreementLimits:
    """Bland-Altman: the mean difference, and the limits that contain 95 % of normally distributed differences."""

    bias: float
    low: float
    high: float
    inside: float  # observed share between the limits


def limits_of_agreement(error: np.ndarray) -> AgreementLimits:
    """Compute the mean ± 1.96 standard deviations of the errors, calibrated − reference [n].

    >>> limits_of_agreement(np.array([-1.0, 1.0]))
    AgreementLimits(bias=0.0, low=-2.77, high=2.77, inside=1.0)
    """
    bias = float(error.mean())
    half_width = 1.96 * float(error.std(ddof=1)) if len(error) > 1 else float("nan")
    inside = float((np.abs(error - bias) <= half_width).mean())
    return AgreementLimits(bias, bias - half_width, bias + half_width, inside)


def squared_correlation(estimate: np.ndarray, reference: np.ndarray) -> float:
    """Compute r² of a regression, which does not change with slope and offset; `Accuracy.r2` refers to the 1:1 line.

    >>> squared_correlation(np.array([3.0, 5.0, 7.0]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    if len(reference) < 2 or np.ptp(reference) == 0 or np.ptp(estimate) == 0:
        return float("nan")
    return float(np.corrcoef(estimate, reference)[0, 1] ** 2)


def fastest(changes: np.ndarray) -> np.ndarray:
    """Return the indices of the rows with the largest 5 % of absolute changes (rounded up), largest first.

    Unknown changes (NaN) are left out. Among equal changes the earlier row goes first.

    >>> fastest(np.array([np.nan, 1.0, -3.0, 3.0]))
    array([2])
    """
    count = int(np.ceil(TOP_SHARE * len(changes)))
    order = np.argsort(-np.abs(changes), kind="stable")
    return order[: min(count, int(np.isfinite(changes).sum()))]


def row_changes(times: np.ndarray, values: np.ndarray, step_seconds: float) -> np.ndarray:
    """Compute the change of a series since the row before [rows]; NaN when that is more than two steps ago."""
    changes = np.diff(values, prepend=np.nan)
    waits = np.diff(times, prepend=-np.inf)
    return np.where(waits <= 2 * step_seconds, changes, np.nan)


def reading_changes(readings: Readings) -> np.ndarray:
    """Compute `row_changes` of the first channel [rows]; NaN where this or the row before has no usable reading."""
    usable, _ = usable_values(readings.values, readings.channels)
    return row_changes(readings.times, usable[:, 0], readings.step_seconds)


@dataclass(frozen=True)
class Coverage:
    """How good intervals of a `level` such as 0.9 are: the `share` that contains the reference, and the mean `width`.

    `winkler` is their mean Winkler (interval) score: the width plus 2 / (1 - level) times the distance of a reference
    outside the interval. Lower is better, and the score is proper: no other interval than the true one has a lower
    mean. Width and score are in the reference's unit.
    """

    level: float
    rows: int
    share: float
    width: float
    winkler: float


def cover(low: np.ndarray, high: np.ndarray, reference: np.ndarray, level: float) -> Coverage | None:
    """Measure the coverage over the rows [n] with an interval and a reference; None if there is no such row.

    >>> cover(np.array([0.0, 0.0]), np.array([4.0, 2.0]), np.array([1.0, 3.0]), 0.9)
    Coverage(level=0.9, rows=2, share=0.5, width=3.0, winkler=13.0)
    """
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(reference)
    if not known.any():
        return None
    low, high, reference = low[known], high[known], reference[known]
    outside = np.maximum(low - reference, 0.0) + np.maximum(reference - high, 0.0)
    width = float((high - low).mean())
    winkler = width + 2 / (1 - level) * float(outside.mean())
    return Coverage(level, int(known.sum()), float((outside == 0).mean()), width, winkler)


def cover_by_flag(
    low: np.ndarray, high: np.ndarray, reference: np.ndarray, flags: np.ndarray, level: float
) -> dict[str, Any] | None:
    """Measure the coverage of all rows [n] and, under "not_flagged" and "flagged", of those without and with a flag.

    Only flags that widen an interval count. The result has plain values, for facts and cards; it is None if no row has
    an interval and a reference.

    >>> flags = np.array([0, 8192])  # OUTSIDE
    >>> coverage = cover_by_flag(np.array([0.0, 0.0]), np.array([4.0, 2.0]), np.array([1.0, 3.0]), flags, 0.9)
    >>> coverage["share"], coverage["not_flagged"]["share"], coverage["flagged"]["share"]
    (0.5, 1.0, 0.0)
    """
    overall = cover(low, high, reference, level)
    if overall is None:
        return None
    is_flagged = (flags & UNCERTAIN) > 0
    coverage = asdict(overall)
    for name, rows in (("not_flagged", ~is_flagged), ("flagged", is_flagged)):
        part = cover(low[rows], high[rows], reference[rows], level)
        if part:
            coverage[name] = asdict(part)
    return coverage


def known_rows(reference: np.ndarray, *estimates: np.ndarray) -> np.ndarray:
    """Find the rows with a reference and a value of every estimate, bool [rows]; NaN means no value."""
    return np.asarray(np.isfinite([reference, *estimates]).all(axis=0))


def rows_made_from(device: str, times: np.ndarray, origin: Mapping[str, Any]) -> np.ndarray:
    """Find the rows of a device that a calibrator was made from, bool [rows]; `times` are in seconds.

    `origin` is the dataset of a card, or comes from `origin_of`.
    """
    rows = np.zeros(len(times), bool)
    sources = [(origin[f"{part}_devices"], origin[f"{part}_period"]) for part in ("training", "validation")]
    # A file calls the co-location sessions that updates learned from by an earlier name.
    sources += [(origin["visit_devices"], period) for period in origin.get("visit_periods", ())]
    for devices, period in sources:
        if device in devices and len(period) == 2:
            first, last = (datetime.fromisoformat(text).timestamp() for text in period)
            rows |= (times >= first) & (times < last + 1)  # the file records whole seconds
    return rows


def origin_of(facts: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the devices and periods of the readings that a calibrator was made from, as far as its file records them.

    After a split by time, validation lasts until the first test row: rows between the two only filled its window.
    """
    validation = facts.get("validation", {})
    learned = facts.get(LEARNED, {})
    period = list(validation.get("period", ()))
    test = facts.get("test_period")
    if test and len(period) == 2 and period[1] < test[0]:
        before = datetime.fromisoformat(test[0]) - timedelta(seconds=1)
        period[1] = before.strftime("%Y-%m-%dT%H:%M:%SZ")
    sessions = {"visit_devices": list(learned["devices"]), "visit_periods": list(learned["periods"])} if learned else {}
    return sessions | {
        "training_devices": list(facts.get("devices", ())),
        "training_period": list(facts.get("period", ())),
        "validation_devices": list(validation.get("devices", ())),
        "validation_period": period,
    }


def share_rows(
    reference: np.ndarray, estimates: Mapping[Key, np.ndarray], spared: Collection[Key] = ()
) -> tuple[np.ndarray, dict[Key, float]]:
    """Find the rows that all estimates are scored on, bool [rows], and the coverage of each estimate.

    A row is scored if every estimate has a value, except those in `spared`: such an estimate takes no row from the
    others, unless it has nearly all of them. Coverage is the share of the others' rows for which it has a value.

    >>> reference, full, half = np.arange(4.0), np.ones(4), np.array([1.0, 1.0, np.nan, np.nan])
    >>> share_rows(reference, {"full": full, "half": half}, spared=["half"])
    (array([ True, True, True, True]), {'full': 1.0, 'half': 0.5})
    """
    needed = [values for key, values in estimates.items() if key not in spared]
    candidates = known_rows(reference, *needed)
    if not candidates.any():
        raise DataError("no test row has a reference and a value from every method compared")
    coverage = {key: float(np.isfinite(values[candidates]).mean()) for key, values in estimates.items()}
    full = [values for key, values in estimates.items() if coverage[key] >= FULL]
    return known_rows(reference, *needed, *full), coverage
