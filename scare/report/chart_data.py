"""The charts of one device, or of all devices together, as plain values with a caption each.

Long series are decimated so that every spike stays, and packed as text. The series come from a scored run
(`scorecard.run_folder`); the script of the report page draws them.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from scare.report.blocks import number, percent, quantity
from scare.report.error_analysis import AROUND, error_around, error_by, largest_changes
from scare.scorecard.accuracy import Accuracy, limits_of_agreement, measure, squared_correlation
from scare.scorecard.run_folder import Run
from scare.scorecard.series import DeviceSeries, pool

ROWS = 132_000  # most rows in all time series of a page together
POINTS = 40_000  # most points in all scatter charts of a page together
FEWEST = 100  # rows or points that each device has at least, however many devices there are
BREAK_STEPS = 2  # a longer wait between two rows is drawn as a gap
LINES, INTERVAL = ("raw", "reference", "calibrated"), ("low", "high")  # columns of a series, drawn over time
CENTRAL = (0.2, 99.8)  # percentiles of the readings that a scatter chart spans; it always spans the reference
ALL = "all devices together"
MANY = 30  # devices, beyond which time series have half as many rows and some charts are of all together only
OF_ERRORS = ("concentration", "humidity", "changes")  # those charts
OF_SCORED = ("scatter", "agreement", *OF_ERRORS)  # charts that need scored rows


@dataclass(frozen=True)
class View:
    """The accuracy of a device (or of all together), the values of its charts and their captions, by chart."""

    name: str
    accuracy: Accuracy | None
    raw_accuracy: Accuracy | None
    charts: dict[str, Any]
    captions: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return the view as `report.js` reads it."""
        return {"name": self.name, **self.charts, "captions": self.captions}


def make_views(run: Run) -> Iterator[View]:
    """Make a view of every device, and of all together if there are several."""
    devices = run.series
    rows = max(FEWEST, ROWS // (2 if len(devices) > MANY else 1) // len(devices))
    points = max(FEWEST, POINTS // (len(devices) + 1))
    for series in devices:
        yield _view(run, series, rows, points)
    if len(devices) > 1:
        yield _view(run, pool(devices, ALL), 0, points)


def opening(views: Sequence[View]) -> int:
    """Return the index of the view that the page shows first: the first with scored rows."""
    return next((index for index, view in enumerate(views) if view.accuracy is not None), 0)


def _view(run: Run, series: DeviceSeries, rows: int, points: int) -> View:
    """Make a view with at most `rows` rows over time (0: no such chart) and `points` points in the scatter chart."""
    scored = series.scored
    accuracy = _accuracy(scored, scored.calibrated)
    raw_accuracy = _accuracy(scored, scored.raw) if run.comparable else None
    trained = series.times[series.trained]  # [s since 1970]
    charts: dict[str, Any] = {
        "time": _time(series, rows) if rows else None,
        "training": [float(trained.min()), float(trained.max())] if len(trained) else None,
    }
    captions = {"time": _time_caption(run, series, accuracy, raw_accuracy)}
    if not rows:
        captions["time"] += " Choose one device to see it over time."
    if accuracy is not None:
        errors = _errors(scored, run.comparable)
        accuracies = {"calibrated": accuracy} | ({"raw": raw_accuracy} if raw_accuracy else {})
        charts["scatter"] = _scatter(scored, points, accuracies)
        captions["scatter"] = (
            f"Regression on {accuracy.rows:,} rows, with the reference on the x axis: slope {number(accuracy.slope)},"
            f" intercept {quantity(accuracy.intercept, run.target.unit)},"
            f" r² {number(squared_correlation(scored.calibrated, scored.reference))} (squared correlation)."
            f" About the 1:1 line R² is {number(accuracy.r2)}."
            f" {charts['scatter']['points']:,} rows are drawn; the most extreme readings may lie outside the chart."
        )
        charts["agreement"], captions["agreement"] = _agreement(run, errors["calibrated"])
        if rows and len(run.series) > MANY:
            captions |= dict.fromkeys(OF_ERRORS, f"Of more than {MANY} devices, only all together have this chart.")
        else:
            of_concentration, of_humidity = (scored.reference, run.target.unit), (scored.humidity, "%")
            charts["concentration"], captions["concentration"] = _by_condition(run, errors, *of_concentration)
            charts["humidity"], captions["humidity"] = _by_condition(run, errors, *of_humidity)
            if run.humidity is None:
                captions["humidity"] = "No channel is known to be relative humidity, by its unit (%) or by its name."
            charts["changes"], captions["changes"] = _around_changes(run, series)
    else:
        captions |= dict.fromkeys(OF_SCORED, f"Nothing to show: {series.why_not_scored}.")
    return View(series.device, accuracy, raw_accuracy, charts, captions)


def _agreement(run: Run, error: np.ndarray) -> tuple[dict[str, Any], str]:
    """Make the Bland-Altman chart, whose range holds the limits of agreement and nearly all rows, and its caption."""
    limits = limits_of_agreement(error)
    low, high = np.percentile(error, CENTRAL).tolist()
    low, high = float(np.fmin(low, limits.low)), float(np.fmax(high, limits.high))
    margin = 0.1 * ((high - low) or 1.0)
    caption = (
        f"Calibrated readings are {quantity(abs(limits.bias), run.target.unit)}"
        f" {'above' if limits.bias >= 0 else 'below'} the reference on average. The 95 % limits of agreement are"
        f" {number(limits.low)} to {quantity(limits.high, run.target.unit)};"
        f" {percent(limits.inside, 1)} of the rows lie between them."
    )
    return {**asdict(limits), "range": [low - margin, high + margin]}, caption


def _accuracy(scored: DeviceSeries, estimates: np.ndarray) -> Accuracy | None:
    """Measure the accuracy of estimates [rows] where they are known; None if they are nowhere."""
    known = np.isfinite(estimates)
    return measure(estimates[known], scored.reference[known], scored.changes[known]) if known.any() else None


def _errors(series: DeviceSeries, comparable: bool) -> dict[str, np.ndarray]:
    """Compute the errors [rows] of the calibrated reading and, if it is comparable, of the raw one."""
    errors = {"calibrated": series.calibrated - series.reference}
    return errors | ({"raw": series.raw - series.reference} if comparable else {})


def _time(series: DeviceSeries, rows: int) -> dict[str, Any]:
    """Make the lines of the time chart, decimated to about `rows` rows, and the interval if there is one."""
    names = (*LINES, *(INTERVAL if np.isfinite(series.low).any() else ()))
    columns = np.stack([getattr(series, name) for name in names], axis=1)
    kept = decimate(columns[:, : len(LINES)], rows)  # row numbers
    times, shown = with_breaks(series.times, columns, kept, series.step_seconds)
    packed = {name: pack(column) for name, column in zip(names, shown.T, strict=True)}
    return {"times": pack(times, bits=32), **packed}


def _time_caption(run: Run, series: DeviceSeries, accuracy: Accuracy | None, raw: Accuracy | None) -> str:
    """Describe the time chart: period, rows and errors, or why nothing is scored."""
    first, last = (
        datetime.fromtimestamp(series.times[row], UTC) for row in (series.times.argmin(), series.times.argmax())
    )
    text = f"{series.device}, {first:%d %b %Y} to {last:%d %b %Y} (UTC), {len(series):,} rows"
    if accuracy is None:
        return f"{text}; {series.why_not_scored}."
    raw_error = f", the raw reading by {number(raw.rmse)}" if raw else ""
    shaded = " The shaded part was used in training or validation and is not scored." if series.trained.any() else ""
    band = " The band is the prediction interval." if np.isfinite(series.low).any() else ""
    return (
        f"{text}. On the {accuracy.rows:,} rows scored the calibrated reading differs from the reference by"
        f" {quantity(accuracy.rmse, run.target.unit)} (RMSE){raw_error}.{band}{shaded}"
    )


def _scatter(scored: DeviceSeries, points: int, accuracies: Mapping[str, Accuracy]) -> dict[str, Any]:
    """Make the scatter chart: evenly spaced rows, sorted by their reference, and the regression on all rows.

    The estimates to draw are those with `accuracies`, by name: calibrated and, where it is comparable, raw.
    """
    sample = scored.rows(np.unique(np.linspace(0, len(scored) - 1, min(points, len(scored))).astype(int)))
    sample = sample.rows(np.argsort(sample.reference, kind="stable"))
    estimates = {name: pack(getattr(sample, name)) for name in ("reference", *accuracies)}
    low, high = float(sample.reference.min()), float(sample.reference.max())
    for name in accuracies:
        values = getattr(sample, name)
        known = values[np.isfinite(values)]
        if len(known):
            lowest, highest = np.percentile(known, CENTRAL).tolist()
            low, high = min(low, lowest), max(high, highest)
    margin = 0.04 * ((high - low) or 1.0)
    calibrated = accuracies["calibrated"]
    is_defined = np.isfinite(calibrated.slope)  # not if the reference is constant
    fit = {"slope": calibrated.slope, "intercept": calibrated.intercept} if is_defined else None
    return {**estimates, "fit": fit, "points": len(sample), "range": [low - margin, high + margin]}


def _by_condition(
    run: Run, errors: Mapping[str, np.ndarray], values: np.ndarray, unit: str
) -> tuple[list[dict[str, Any]], str]:
    """Make the chart of the errors [rows] by the values [rows] of a condition, such as humidity, and its caption."""
    bins = error_by(values, errors)
    chart = [
        {**asdict(part), "rmse": {name: _five_digits(error) for name, error in part.rmse.items()}} for part in bins
    ]
    known = {index: rmse for index, part in enumerate(bins) if (rmse := part.rmse["calibrated"]) is not None}
    if not known:
        return chart, "There are too few rows with both values for this chart."
    lowest, highest = min(known, key=lambda index: known[index]), max(known, key=lambda index: known[index])
    best, worst = bins[lowest], bins[highest]
    return chart, (
        f"The RMSE is lowest, {quantity(known[lowest], run.target.unit)}, at {number(best.low)} to"
        f" {quantity(best.high, unit)} ({best.rows:,} rows) and highest,"
        f" {quantity(known[highest], run.target.unit)}, at {number(worst.low)} to {quantity(worst.high, unit)}"
        f" ({worst.rows:,} rows)."
    )


def _around_changes(run: Run, series: DeviceSeries) -> tuple[dict[str, Any], str]:
    """Make the chart of the error before and after sudden changes of the raw reading, and its caption."""
    series = series.rows(~series.trained)
    changes = largest_changes(series)
    around = error_around(series, changes, _errors(series, run.comparable))
    minutes = (np.arange(-AROUND, AROUND + 1) * series.step_seconds / 60).tolist()
    shown = {estimate: [_five_digits(value) for value in values] for estimate, values in around.items()}
    chart = {"minutes": minutes, "rmse": shown, "count": len(changes)}
    calibrated = np.array(around["calibrated"])  # RMSE by offset, −30 … +30 rows; the middle one is at the change
    if not np.isfinite(calibrated).any():
        return chart, "There is no sudden change with a reference around it."
    early = calibrated[: AROUND // 2]  # 30 to 16 rows before the change
    early = early[np.isfinite(early)]
    before = float(early.mean()) if len(early) else float("nan")
    return chart, (
        f"{len(changes):,} sudden changes, each the largest of the raw reading within {AROUND} rows: the calibrated"
        f" reading's RMSE is {number(calibrated[AROUND])} at the change and {quantity(before, run.target.unit)} 16 to"
        f" 30 rows before it."
    )


def _five_digits(value: float | None) -> float | None:
    """Round to five significant digits: more than a chart can show, and the page is smaller."""
    return None if value is None else float(f"{value:.5g}")


def decimate(columns: np.ndarray, limit: int) -> np.ndarray:
    """Choose at most about `limit` rows of `columns` [rows, k] so that every spike stays; returns row numbers, sorted.

    This is min-max decimation: rows are put in equal buckets; each keeps its first row and, for every column, the rows
    of its smallest and largest value.

    >>> decimate(np.array([[0.0], [0.1], [9.0], [0.0], [0.2], [-5.0], [0.0], [0.1]]), limit=6)
    array([0, 2, 4, 5])
    """
    rows, width = columns.shape
    if rows <= limit:
        return np.arange(rows)
    buckets = max(1, limit // (2 * width + 1))
    starts = np.unique(np.linspace(0, rows, buckets, endpoint=False).astype(int))
    kept = [starts]
    for column in columns.T:
        for sign in (1, -1):  # the smallest value, then the largest
            values = np.where(np.isfinite(column), sign * column, np.inf)
            bucket_minima = np.minimum.reduceat(values, starts)
            minimum_of_row = np.repeat(bucket_minima, np.diff(starts, append=rows))  # that of its bucket [rows]
            extremes = np.flatnonzero(values == minimum_of_row)
            kept.append(extremes[np.searchsorted(extremes, starts)])  # the first extreme row of each bucket
    return np.unique(np.concatenate(kept))


def with_breaks(times: np.ndarray, columns: np.ndarray, kept: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Select the rows `kept` [n] of times and columns [rows, k], and insert a row of NaN at each gap in time.

    Times and `step` are in seconds; a NaN breaks the line of a chart.
    """
    gaps_before = np.cumsum(np.diff(times, prepend=times[:1]) > BREAK_STEPS * step)[kept]  # how many, of each row
    after_gap = np.flatnonzero(np.diff(gaps_before)) + 1  # kept rows that follow a gap
    shown_times = np.insert(times[kept], after_gap, times[kept][after_gap - 1] + step)
    return shown_times, np.insert(columns[kept], after_gap, np.nan, axis=0)


def pack(values: np.ndarray, bits: int = 16) -> dict[str, Any]:
    r"""Encode numbers as unsigned integers from minimum to maximum, little-endian, in base64; the largest code is NaN.

    >>> packed = pack(np.array([0.0, 10.0, np.nan]))
    >>> packed["low"], packed["high"], base64.b64decode(packed["data"])
    (0.0, 10.0, b'\x00\x00\xfe\xff\xff\xff')
    """
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    top = 2**bits - 2  # the code of the maximum
    scaled = (values - low) / ((high - low) or 1.0) * top
    codes = np.where(np.isfinite(scaled), np.rint(scaled), top + 1).astype(f"<u{bits // 8}")
    return {"bits": bits, "low": low, "high": high, "data": base64.b64encode(codes.tobytes()).decode()}
