"""A co-location while it runs: what it has seen, the error to expect if it stopped today, and whether to go on.

    hours of sensor and reference → families in closed form, fitted forward → expected error, class, advice

Forward validation repeats what stopping means: fit to the first i days, score on the next i. The families are lines,
linear regressions and interactions with the sensor itself, each device by itself, other channels clamped at the range
of training; they are what can be fitted hundreds of times in a second. The error is that of hourly means, over as many
days more as the co-location has lasted; what comes later is a question of the conditions that it has covered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np

from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.scorecard.assessment import Assessment, assess
from scare.scorecard.averages import HOUR, Averaging
from scare.scorecard.series import DeviceSeries
from scare.scorecard.targets import TargetSet

DAY = 86400.0  # s
FIRST_ORIGIN, GROWTH = 2, 1.25  # days of the first fit, and how much longer each next one is
RECENT_SHARE = 3  # only fits to at least the days so far divided by this count
SPREAD = 0.45  # standard deviation of log error between successive periods of one co-location (benchmarks/progress.py)
NORMAL_80 = 1.2816  # standard deviations on either side that hold 80 % of normal numbers
PENALTY, OWN_PENALTY = 0.01, 1e-4  # of ridge, on standardised channels: of all, and of the one to calibrate
WEEK, FEWEST_DAYS = 7, 7  # days; with fewer days a co-location always goes on
UNKNOWN_DAYS = 28  # to stay if nothing is known about the deployment
GAIN = 0.05  # a smaller relative gain by another week is not worth it
COVERED, ENOUGH_HOURS = 0.9, 1.0  # share of the deployment's hours to be seen; hours that make a bin seen
CAPTURED = 0.75  # share of hours with sensor and reference
BINS, JOINT_BINS = 10, 4  # of each channel's range in deployment; with several channels jointly
LEAST_SHARE = 0.01  # of the deployment's hours: a smaller range that was not seen is not named
FEW_HOURS = 48  # of a device, below which nothing is fitted
Predict = Callable[[np.ndarray], np.ndarray]  # from values [n, channels] to estimates [n]
# For each fit: the days it was made from, the sum of squared errors in the days that follow, and the hours in these.
LearningCurve = Sequence[tuple[int, float, int]]


@dataclass(frozen=True)
class Hours:
    """A device's hours with all channels and a reference: times [s], values [n, channels], reference [n], days [n]."""

    device: str
    times: np.ndarray
    values: np.ndarray
    reference: np.ndarray
    days: np.ndarray  # since the first hour

    @staticmethod
    def of(readings: Readings) -> "Hours":
        """Average a device's readings over hours that have three quarters of them; coarser steps stay as they are."""
        columns = np.column_stack([readings.values, readings.targets]).T
        known = np.isfinite(columns).all(axis=0)
        times, step = readings.times[known], readings.step_seconds
        if step < HOUR and known.any():
            numbers, means = Averaging(1, CAPTURED, through_hours=False).average(times, columns[:, known], step)
            times, columns = HOUR * numbers, means
        else:
            columns = columns[:, known]
        days = np.floor((times - times[0]) / DAY).astype(int) if len(times) else np.empty(0, int)
        return Hours(readings.device, times, columns[:-1].T, columns[-1], days)


@dataclass(frozen=True)
class Condition:
    """The share of a deployment's hours in ranges that the co-location has seen; `missing` are ranges it has not.

    `name` is the channel, or says that all channels are compared jointly.
    """

    name: str
    share: float
    missing: tuple[tuple[float, float, float], ...] = ()  # from, to, share of the deployment's hours


@dataclass(frozen=True)
class CoLocationProgress:
    """The state of a co-location; errors are root mean squares of hourly means, in the reference's unit."""

    days: float
    capture: float
    devices: int
    hours: int
    family: str
    error: float | None
    low: float | None
    high: float | None
    raw_error: float | None
    curve: tuple[tuple[int, float], ...]  # days of training, error on the days that followed
    in_a_week: float | None
    conditions: tuple[Condition, ...]
    assessments: tuple[Assessment, ...]
    missing: tuple[str, ...]
    stop: bool
    go_on_days: int | None
    reason: str


def assess_progress(
    readings: Sequence[Readings],
    sets: Sequence[TargetSet] = (),
    deployment: Mapping[str, np.ndarray] | None = None,
    reference_uncertainty: str = "",
) -> CoLocationProgress:
    """Assess a co-location so far, against `sets` of targets.

    `deployment` are hourly values of the conditions to come, by channel. `reference_uncertainty` is that of the
    reference analyser, or its name, as `assess` takes it.
    """
    channels, reference = readings[0].channels, readings[0].reference
    if reference is None:
        raise DataError(
            "no reference is among the columns; name it with --reference, or its file with --reference-file"
        )
    hours = [device for device in map(Hours.of, readings) if len(device.times) >= FEW_HOURS]
    if not hours:
        raise DataError(f"no device has {FEW_HOURS} hours with all channels and a reference yet")
    references = np.concatenate([device.reference for device in hours])
    if np.ptp(references) == 0:
        raise DataError(
            f"the reference {reference.name} has been constant ({references[0]:g}) so far: nothing can be learned from"
            " it; check the instrument, and that it is the right column"
        )
    first, last = min(device.times[0] for device in hours), max(device.times[-1] for device in hours)
    days, total = (last - first + HOUR) / DAY, sum(len(device.times) for device in hours)
    capture = total / sum((device.times[-1] - device.times[0]) / HOUR + 1 for device in hours)
    families = FAMILIES if len(channels) > 1 else {"line": FAMILIES["line"]}  # with one channel all are lines
    runs = {name: [run_forward(device, family) for device in hours] for name, family in families.items()}
    curves = {name: pool_devices(of_family) for name, of_family in runs.items()}
    errors = {name: error for name in curves if (error := recent_error(curves[name], int(days))) is not None}
    family = min(errors, key=lambda name: errors[name]) if errors else ""  # the one with the lowest error
    curve = curves[family] if family else []
    error = errors.get(family)
    # Of the 80 % interval of the log error.
    half_width = NORMAL_80 * sqrt(SPREAD**2 + forward_scatter(curve, int(days)) ** 2)
    in_a_week = error_in_a_week(curve, error, days)
    conditions = _conditions(hours, channels, deployment or {})
    assessments = _grade(runs.get(family, []), reference, sets, reference_uncertainty)
    missing = (*_describe_missing(conditions), *_describe_limits(assessments))
    stop, more_days, reason = _advise(days, min(1.0, capture), error, in_a_week, conditions)
    raw_errors = np.concatenate([device.values[:, 0] - device.reference for device in hours])
    is_same_unit = bool(channels[0].unit) and channels[0].unit == reference.unit
    return CoLocationProgress(
        days=days,
        capture=min(1.0, capture),
        devices=len(hours),
        hours=total,
        family=family,
        error=error,
        low=None if error is None else error * exp(-half_width),
        high=None if error is None else error * exp(half_width),
        raw_error=float(np.sqrt(np.mean(raw_errors**2))) if is_same_unit else None,
        curve=tuple((origin, sqrt(squares / count)) for origin, squares, count in curve),
        in_a_week=in_a_week,
        conditions=conditions,
        assessments=assessments,
        missing=missing,
        stop=stop,
        go_on_days=more_days,
        reason=reason,
    )


# --- Families in closed form, fitted forward ---


# By name: the function from scaled channels [n, channels] to the predictors of the regression [n, k].
FAMILIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "line": lambda scaled: scaled[:, :1],
    "linear regression": lambda scaled: scaled,
    "interactions": lambda scaled: np.hstack([scaled, scaled[:, :1] * scaled[:, 1:]]),
}


def fit_family(values: np.ndarray, reference: np.ndarray, family: Callable[[np.ndarray], np.ndarray]) -> Predict:
    """Fit the reference by ridge regression on what `family` makes of scaled channels; returns the fitted function.

    Other channels than the first are clamped at their range in these rows.

    >>> x = np.arange(20.0)[:, None]
    >>> np.round(fit_family(x, 3 * x[:, 0] + 2, FAMILIES["line"])(np.array([[30.0]])), 1)
    array([92.])
    """
    low, high = values.min(axis=0), values.max(axis=0)
    low[0], high[0] = -np.inf, np.inf  # the channel to calibrate is not clamped
    center, scale = values.mean(axis=0), values.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def design(rows: np.ndarray) -> np.ndarray:
        scaled = family((np.clip(rows, low, high) - center) / scale)
        return np.hstack([np.ones((len(rows), 1)), scaled])

    matrix = design(values)
    penalty = np.full(matrix.shape[1], PENALTY)
    penalty[0], penalty[1] = 0.0, OWN_PENALTY  # of the intercept, and of the channel to calibrate
    normal = matrix.T @ matrix + len(values) * np.diag(penalty)
    solution = np.linalg.solve(normal, matrix.T @ reference)
    return lambda rows: design(rows) @ solution


@dataclass(frozen=True)
class _Run:
    """Forward validation of one device and family: its learning curve, and estimates of all hours [n]."""

    hours: Hours
    errors: LearningCurve
    estimates: np.ndarray  # of each hour by the newest fit before its day, NaN before the first


def _origins(days: int) -> list[int]:
    """Return the days after which forward validation fits, rising, for a co-location of so many days."""
    steps = int(log(max(days, 2) / FIRST_ORIGIN) / log(GROWTH)) + 1 if days >= FIRST_ORIGIN else 0
    origins = {round(FIRST_ORIGIN * GROWTH**step) for step in range(steps)}
    return sorted(origin for origin in origins if origin < days)


def run_forward(hours: Hours, family: Callable[[np.ndarray], np.ndarray]) -> _Run:
    """Fit to the first i days, for growing i, and score on the next i; a fit needs at least 24 hours of readings."""
    errors, estimates = [], np.full(len(hours.times), np.nan)
    for origin in _origins(int(hours.days[-1]) + 1):
        before = hours.days < origin
        after = (hours.days >= origin) & (hours.days < 2 * origin)
        if before.sum() < FEW_HOURS // 2 or not after.any():
            continue
        predict = fit_family(hours.values[before], hours.reference[before], family)
        later = hours.days >= origin
        estimates[later] = predict(hours.values[later])
        squares = np.square(estimates[after] - hours.reference[after])
        errors.append((origin, float(squares.sum()), int(after.sum())))
    return _Run(hours, tuple(errors), estimates)


def pool_devices(runs: Sequence[_Run]) -> list[tuple[int, float, int]]:
    """Return the learning curve of all devices together."""
    pooled: dict[int, tuple[float, int]] = {}  # by origin
    for run in runs:
        for origin, squares, count in run.errors:
            total_squares, total_count = pooled.get(origin, (0.0, 0))
            pooled[origin] = total_squares + squares, total_count + count
    return [(origin, *pooled[origin]) for origin in sorted(pooled)]


def _recent(curve: LearningCurve, days: int) -> LearningCurve:
    """Return the recent fits, those made from at least a third of the days so far; the newest if there is none."""
    recent = [(origin, squares, count) for origin, squares, count in curve if origin >= days / RECENT_SHARE]
    return recent or curve[-1:]


def recent_error(curve: LearningCurve, days: int) -> float | None:
    """Return the RMSE over all hours that the recent fits (`_recent`) were scored on; None if there is no fit."""
    recent = _recent(curve, days)
    total = sum(count for _, _, count in recent)
    return sqrt(sum(squares for _, squares, _ in recent) / total) if total else None


def forward_scatter(curve: LearningCurve, days: int) -> float:
    """Return the standard deviation of the logarithm of the recent fits' RMSE (`_recent`); 0 for a single fit."""
    # The log of an RMSE is half that of the mean square; 1e-300 keeps the log of a zero finite.
    logs = [0.5 * log(max(squares / count, 1e-300)) for _, squares, count in _recent(curve, days)]
    return float(np.std(logs)) if len(logs) > 1 else 0.0


def error_in_a_week(curve: LearningCurve, error: float | None, days: float) -> float | None:
    """Return the error to expect after another week: the error now times the decrease of a fitted learning curve.

    The curve is MSE = a + b / days with a, b ≥ 0, fitted by weighted least squares. None with fewer than three fits.
    """
    if error is None or len(curve) < 3:
        return None
    inverse_days = 1 / np.array([origin for origin, _, _ in curve], float)
    mean_squares = np.array([squares / count for _, squares, count in curve])
    weights = np.sqrt(np.array([count for _, _, count in curve], float))  # a fit scored on more hours counts more
    mean_x, mean_y = np.average(inverse_days, weights=weights), np.average(mean_squares, weights=weights)
    variance = np.average((inverse_days - mean_x) ** 2, weights=weights)
    covariance = np.average((inverse_days - mean_x) * (mean_squares - mean_y), weights=weights)
    slope = max(0.0, float(covariance / variance))  # b
    slope = min(slope, mean_y / mean_x)  # so that a is not negative
    now, later = (mean_y + slope * (1 / day - mean_x) for day in (days, days + WEEK))
    return error * sqrt(later / now) if now > 0 else error


def _grade(
    runs: Sequence[_Run], reference: Channel, sets: Sequence[TargetSet], reference_uncertainty: str
) -> tuple[Assessment, ...]:
    """Grade the forward estimates of each device against sets of targets."""
    series = []
    for run in runs:
        known = np.isfinite(run.estimates)  # not the days before the first fit, which are not missing data
        hours = run.hours
        raw, times = hours.values[known, 0], hours.times[known]
        values = DeviceSeries.of_values(hours.device, HOUR, times, raw, hours.reference[known], run.estimates[known])
        series.append(values)
    assessments = (assess(series, reference, target_set, reference_uncertainty) for target_set in sets)
    return tuple(assessment for assessment in assessments if assessment)


# --- Conditions, and what to do ---


def _conditions(
    hours: Sequence[Hours], channels: Sequence[Channel], deployment: Mapping[str, np.ndarray]
) -> tuple[Condition, ...]:
    """Compare the co-location's hours with those of the deployment, by channel and jointly.

    By channel, the range of the deployment has bins of equal width; jointly, bins of equal shares of its hours.
    """
    values = np.concatenate([device.values for device in hours])  # [hours of all devices, channels]
    names = [channel.name for channel in channels if len(deployment.get(channel.name, ())) > 0]
    column = {channel.name: index for index, channel in enumerate(channels)}
    conditions: list[Condition] = []
    # By channel: joint bin of each hour of the deployment and of the co-location, and which of the former are known.
    to_come, seen, known = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for name in names:
        deployed, colocated = deployment[name], values[:, column[name]]
        finite = deployed[np.isfinite(deployed)]
        edges = np.linspace(finite.min(), finite.max(), BINS + 1)
        share_of_bin = np.histogram(finite, edges)[0] / len(finite)
        is_seen = np.histogram(colocated, edges)[0] / len(hours) >= ENOUGH_HOURS  # mean hours of a device in each bin
        bins = zip(pairwise(edges.tolist()), share_of_bin.tolist(), is_seen.tolist(), strict=True)
        missing = tuple((low, high, share) for (low, high), share, was_seen in bins if share > 0 and not was_seen)
        conditions.append(Condition(name, float(share_of_bin[is_seen].sum()), _merge(missing)))
        inner_edges = np.quantile(finite, np.linspace(0, 1, JOINT_BINS + 1)[1:-1])
        to_come.append(np.searchsorted(inner_edges, deployed))
        seen.append(np.searchsorted(inner_edges, colocated))
        known.append(np.isfinite(deployed))
    if len(names) > 1 and len(set(map(len, to_come))) == 1:
        # A cell is a combination of one bin of each channel, numbered like the digits of a number.
        powers = JOINT_BINS ** np.arange(len(names))
        cells_to_come = (powers @ np.array(to_come))[np.all(known, axis=0)]
        cells, counts = np.unique(powers @ np.array(seen), return_counts=True)
        seen_enough = cells[counts / len(hours) >= ENOUGH_HOURS]
        share_seen = float(np.isin(cells_to_come, seen_enough).mean())
        conditions.append(Condition(f"{', '.join(names)} jointly", share_seen))
    return tuple(conditions)


def _merge(ranges: Sequence[tuple[float, float, float]]) -> tuple[tuple[float, float, float], ...]:
    """Join ranges (from, to, share of the deployment's hours) that touch, and add their shares."""
    merged: list[tuple[float, float, float]] = []
    for low, high, share in ranges:
        if merged and merged[-1][1] == low:
            merged[-1] = merged[-1][0], high, merged[-1][2] + share
        else:
            merged.append((low, high, share))
    return tuple(merged)


def _describe_missing(conditions: Sequence[Condition]) -> list[str]:
    """Name the ranges that the co-location has not seen, if they are at least a hundredth of the deployment."""
    lines = []
    for condition in conditions:
        for low, high, share in condition.missing:
            if share >= LEAST_SHARE:
                between = f"{condition.name} between {low:.3g} and {high:.3g}"
                lines.append(f"{between} was not seen for an hour ({100 * share:.0f} % of the deployment)")
    return lines


def _describe_limits(assessments: Sequence[Assessment]) -> list[str]:
    """Return a message for each set of targets whose limit value the reference never reached."""
    lines = []
    for target in assessments:
        highest = max((device.highest_reference or 0.0 for device in target.devices), default=0.0)
        if target.limit is not None and target.devices and highest < target.limit:
            lines.append(
                f"the reference never came near the limit of {target.title} ({target.limit:.3g} {target.unit}): its"
                f" highest {target.average_hours}-hour average is {highest:.3g}"
            )
    return lines


def _advise(
    days: float, capture: float, error: float | None, in_a_week: float | None, conditions: Sequence[Condition]
) -> tuple[bool, int | None, str]:
    """Return whether to stop, for how many days to go on at least (None if to stop), and the reason."""
    if capture < CAPTURED:
        return False, WEEK, f"only {100 * capture:.0f} % of the hours have sensor and reference: find out why"
    if days < FEWEST_DAYS or error is None or in_a_week is None:
        missing_days = max(1, int(np.ceil(FEWEST_DAYS - days)))
        return False, missing_days, "there are too few days to tell what other days bring"
    least_seen = min(conditions, key=lambda condition: condition.share, default=None)
    if least_seen and least_seen.share < COVERED:
        reason = f"{least_seen.name} has seen {100 * least_seen.share:.0f} % of the deployment's conditions"
        return False, WEEK, reason
    gain = 1 - in_a_week / error
    if gain >= GAIN:
        return False, WEEK, f"another week is expected to lower the error by {100 * gain:.0f} %"
    if not conditions and days < UNKNOWN_DAYS:
        missing_days = int(np.ceil(UNKNOWN_DAYS - days))
        return False, missing_days, "what the deployment will bring is not known (--deployment), and weeks differ"
    return True, None, f"another week is expected to lower the error by only {100 * max(0.0, gain):.0f} %"
