"""What the charts of one device (or of all together) show, as plain values with a sentence each."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from scare.data.alignment import CrossCorrelation
from scare.files import replacing
from scare.report.blocks import render
from scare.report.errors import AROUND, Bin, error_around, error_by, greatest_changes
from scare.report.numbers import number, percent, quantity
from scare.scorecard.accuracy import Accuracy, AgreementLimits, limits_of_agreement, measure, squared_correlation
from scare.scorecard.run import Run
from scare.scorecard.series import DeviceSeries, pool

# Long series made short enough for a page: rows chosen so that every spike stays, numbers packed as text.


BREAK_STEPS = 2  # a longer wait between two rows is drawn as a gap


def decimate(columns: np.ndarray, limit: int) -> np.ndarray:
    """Row numbers, in order, of at most about `limit` of the rows of `columns` [rows, k].

    Rows are put in equal buckets; each keeps its first row and, for every column, the rows of its least and greatest
    value.

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
        for order in (1, -1):
            kept.append(_least(np.where(np.isfinite(column), order * column, np.inf), starts))
    return np.unique(np.concatenate(kept))


def _least(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The first row of the least value in each bucket; the buckets begin at `starts`."""
    least = np.repeat(np.minimum.reduceat(values, starts), np.diff(starts, append=len(values)))
    rows = np.flatnonzero(values == least)
    return rows[np.searchsorted(rows, starts)]


def with_breaks(times: np.ndarray, columns: np.ndarray, kept: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and columns [rows, k] of the kept rows, with a row of NaN wherever time is missing between two of them."""
    gaps = np.cumsum(np.diff(times, prepend=times[:1]) > BREAK_STEPS * step)[kept]
    after = np.flatnonzero(np.diff(gaps)) + 1
    shown = np.insert(columns[kept], after, np.nan, axis=0)
    return np.insert(times[kept], after, times[kept][after - 1] + step), shown


def pack(values: np.ndarray, bits: int = 16) -> dict[str, Any]:
    r"""Numbers as unsigned integers between their least and greatest, little-endian, in base64; the last is NaN.

    >>> packed = pack(np.array([0.0, 10.0, np.nan]))
    >>> packed["low"], packed["high"], base64.b64decode(packed["data"])
    (0.0, 10.0, b'\x00\x00\xfe\xff\xff\xff')
    """
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    top = 2**bits - 2
    scaled = (values - low) / ((high - low) or 1.0) * top
    numbers = np.where(np.isfinite(scaled), np.rint(scaled), top + 1).astype(f"<u{bits // 8}")
    return {"bits": bits, "low": low, "high": high, "data": base64.b64encode(numbers.tobytes()).decode()}


# Numbers as people read them, with their units.


ROWS = 250_000  # in all time series of a page
POINTS = 40_000  # in all scatter charts of a page
FEWEST = 200  # rows or points of a device however many there are
LINES, INTERVAL = ("raw", "reference", "calibrated"), ("low", "high")  # columns of a series, drawn over time
CENTRAL = (0.2, 99.8)  # percentiles of the readings that a scatter chart spans; it always spans the reference
ALL = "all devices together"
OF_SCORED = ("scatter", "agreement", "concentration", "humidity", "changes")  # charts of the rows scored


@dataclass(frozen=True)
class View:
    """One device's accuracy and the values of its charts."""

    name: str
    accuracy: Accuracy | None
    raw_accuracy: Accuracy | None
    charts: dict[str, Any]
    captions: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """The view as the page's script reads it."""
        return {"name": self.name, **self.charts, "captions": self.captions}


def make_views(run: Run) -> Iterator[View]:
    """A view of every device, and of all together if there are several."""
    series = run.series
    for one in series:
        yield _view(run, one, max(FEWEST, ROWS // len(series)), max(FEWEST, POINTS // (len(series) + 1)))
    if len(series) > 1:
        yield _view(run, pool(series, ALL), 0, max(FEWEST, POINTS // (len(series) + 1)))


def opening(views: Sequence[View]) -> int:
    """Which view a page opens on: the first with rows scored."""
    return next((index for index, view in enumerate(views) if view.accuracy is not None), 0)


def _view(run: Run, series: DeviceSeries, rows: int, points: int) -> View:
    scored = series.scored
    accuracy, raw_accuracy = _accuracy(scored, "calibrated"), None
    if run.comparable:
        raw_accuracy = _accuracy(scored.rows(np.isfinite(scored.raw)), "raw")
    charts: dict[str, Any] = {"time": _time(series, rows) if rows else None, "training": _training(series)}
    captions = {"time": _time_caption(run, series, accuracy, raw_accuracy)}
    if not rows:
        captions["time"] += " Choose one device to see it over time."
    if accuracy is not None:
        errors = _errors(scored, run.comparable)
        named = {"calibrated": accuracy} | ({"raw": raw_accuracy} if raw_accuracy else {})
        charts["scatter"] = _scatter(scored, points, named)
        captions["scatter"] = _scatter_caption(run, scored, accuracy, charts["scatter"]["points"])
        limits = limits_of_agreement(errors["calibrated"])
        charts["agreement"] = {**asdict(limits), "range": _error_range(errors["calibrated"], limits)}
        captions["agreement"] = (
            f"Calibrated readings are {quantity(abs(limits.bias), run.target.unit)}"
            f" {'above' if limits.bias >= 0 else 'below'} the reference on average. The 95 % limits of agreement are"
            f" {number(limits.low)} to {quantity(limits.high, run.target.unit)};"
            f" {percent(limits.inside, 1)} of the rows lie between them."
        )
        _add_conditions(run, scored, errors, charts, captions)
        _add_changes(run, series, charts, captions)
    else:
        captions |= dict.fromkeys(OF_SCORED, f"Nothing to show: {series.why_not_scored}.")
    return View(series.device, accuracy, raw_accuracy, charts, captions)


def _error_range(error: np.ndarray, limits: AgreementLimits) -> list[float]:
    """What the chart of differences spans: the limits and nearly all rows."""
    low, high = np.percentile(error, CENTRAL).tolist()
    low, high = float(np.fmin(low, limits.low)), float(np.fmax(high, limits.high))
    margin = 0.1 * ((high - low) or 1.0)
    return [low - margin, high + margin]


def _accuracy(scored: DeviceSeries, estimate: str) -> Accuracy | None:
    return measure(getattr(scored, estimate), scored.reference, scored.changes) if len(scored) else None


def _errors(series: DeviceSeries, comparable: bool) -> dict[str, np.ndarray]:
    errors = {"calibrated": series.calibrated - series.reference}
    return errors | ({"raw": series.raw - series.reference} if comparable else {})


def _time(series: DeviceSeries, rows: int) -> dict[str, Any]:
    """The lines of the time chart, and the interval around the calibrated one where there is any."""
    names = (*LINES, *(INTERVAL if _has_intervals(series) else ()))
    columns = np.stack([getattr(series, name) for name in names], axis=1)
    kept = decimate(columns[:, : len(LINES)], rows)
    times, shown = with_breaks(series.times, columns, kept, series.step_seconds)
    return {"times": pack(times, bits=32), **{name: pack(shown[:, index]) for index, name in enumerate(names)}}


def _has_intervals(series: DeviceSeries) -> bool:
    return bool(np.isfinite(series.low).any())


def _training(series: DeviceSeries) -> list[float] | None:
    """The first and the last time of training, in seconds."""
    times = series.times[series.trained]
    return [float(times.min()), float(times.max())] if len(times) else None


def _time_caption(run: Run, series: DeviceSeries, accuracy: Accuracy | None, raw: Accuracy | None) -> str:
    first, last = (
        datetime.fromtimestamp(series.times[row], UTC) for row in (series.times.argmin(), series.times.argmax())
    )
    text = f"{series.device}, {first:%d %b %Y} to {last:%d %b %Y} (UTC), {len(series):,} rows"
    if accuracy is None:
        return f"{text}; {series.why_not_scored}."
    beside = f", the raw reading by {number(raw.rmse)}" if raw else ""
    shaded = " The shaded part was used in training or validation and is not scored." if series.trained.any() else ""
    around = " The band around it is its interval." if _has_intervals(series) else ""
    return (
        f"{text}. On the {accuracy.rows:,} rows scored the calibrated reading differs from the reference by"
        f" {quantity(accuracy.rmse, run.target.unit)} (RMSE){beside}.{around}{shaded}"
    )


def _scatter(scored: DeviceSeries, points: int, named: Mapping[str, Accuracy]) -> dict[str, Any]:
    """Evenly chosen rows in the order of their reference, and the regression on all rows."""
    chosen = np.unique(np.linspace(0, len(scored) - 1, min(points, len(scored))).astype(int))
    sample = scored.rows(chosen)
    sample = sample.rows(np.argsort(sample.reference, kind="stable"))
    estimates = {name: pack(getattr(sample, name)) for name in ("reference", *named)}
    low, high = float(sample.reference.min()), float(sample.reference.max())
    for name in named:
        values = getattr(sample, name)
        inner = np.percentile(values[np.isfinite(values)], CENTRAL) if np.isfinite(values).any() else (low, high)
        low, high = min(low, float(inner[0])), max(high, float(inner[1]))
    margin = 0.04 * ((high - low) or 1.0)
    slope, intercept = named["calibrated"].slope, named["calibrated"].intercept
    fit = {"slope": slope, "intercept": intercept} if np.isfinite(slope) else None
    return {**estimates, "fit": fit, "points": len(sample), "range": [low - margin, high + margin]}


def _scatter_caption(run: Run, scored: DeviceSeries, accuracy: Accuracy, points: int) -> str:
    return (
        f"Regression on {accuracy.rows:,} rows, with the reference on the x axis: slope {number(accuracy.slope)},"
        f" intercept {quantity(accuracy.intercept, run.target.unit)},"
        f" r² {number(squared_correlation(scored.calibrated, scored.reference))} (squared correlation)."
        f" About the 1:1 line R² is {number(accuracy.r2)}."
        f" {points:,} rows are drawn; the most extreme readings may lie outside the chart."
    )


def _add_conditions(
    run: Run, scored: DeviceSeries, errors: Mapping[str, np.ndarray], charts: dict[str, Any], captions: dict[str, str]
) -> None:
    conditions = {"concentration": (scored.reference, run.target.unit), "humidity": (scored.humidity, "%")}
    for name, (values, of) in conditions.items():
        bins = error_by(values, errors)
        shown = [{estimate: to_draw(error) for estimate, error in one.rmse.items()} for one in bins]
        charts[name] = [{**asdict(one), "rmse": errors} for one, errors in zip(bins, shown, strict=True)]
        captions[name] = _bins_caption(bins, of, run.target.unit)
    if run.humidity is None:
        captions["humidity"] = "No channel is known to be relative humidity, by the unit % or by its name."


def _bins_caption(bins: Sequence[Bin], of: str, error_unit: str) -> str:
    known = [(one.rmse["calibrated"], one) for one in bins if one.rmse["calibrated"] is not None]
    if not known:
        return "There are too few rows with both values for this chart."
    (least, low), (most, high) = min(known, key=lambda pair: pair[0]), max(known, key=lambda pair: pair[0])
    return (
        f"The RMSE is least, {quantity(least, error_unit)}, at {_span(low, of)} ({low.rows:,} rows)"
        f" and greatest, {quantity(most, error_unit)}, at {_span(high, of)} ({high.rows:,} rows)."
    )


def _span(one: Bin, of: str) -> str:
    return f"{number(one.low)} to {quantity(one.high, of)}"


def _add_changes(run: Run, series: DeviceSeries, charts: dict[str, Any], captions: dict[str, str]) -> None:
    series = series.rows(~series.trained)
    changes = greatest_changes(series)
    around = error_around(series, changes, _errors(series, run.comparable))
    minutes = (np.arange(-AROUND, AROUND + 1) * series.step_seconds / 60).tolist()
    shown = {estimate: [to_draw(value) for value in values] for estimate, values in around.items()}
    charts["changes"] = {"minutes": minutes, "rmse": shown, "count": len(changes)}
    ours = np.array(around["calibrated"])
    if not np.isfinite(ours).any():
        captions["changes"] = "There is no sudden change with a reference around it."
        return
    at, before = ours[AROUND], _mean(ours[: AROUND // 2])
    captions["changes"] = (
        f"{len(changes):,} sudden changes, the largest of the raw reading within {AROUND} rows each: the calibrated"
        f" reading's RMSE is {number(at)} at the change and {quantity(before, run.target.unit)} in the rows 30 to 16"
        f" before it."
    )


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def to_draw(value: float | None) -> float | None:
    """A number with the five digits that a chart can show.

    >>> to_draw(3.14159265), to_draw(None)
    (3.1416, None)
    """
    return None if value is None else float(f"{value:.5g}")


WIDTH, HEIGHT, MARGIN = 640, 320, 48


COLOURS = ("#d1495b", "#1b1b1b", "#2e6f95", "#6a994e", "#bc6c25", "#7f5539", "#8d99ae", "#5a189a")


def draw_correlogram(found: Mapping[str, CrossCorrelation], path: Path) -> Path:
    """Write an SVG with a curve for each device; its best shift is a dot."""
    reach = max(float(np.abs(one.seconds).max()) for one in found.values()) or 1.0
    curves = [
        {
            "name": name,
            "colour": COLOURS[number % len(COLOURS)],
            "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in _points(one, reach)),
            "best": _place(one.offset.seconds, one.offset.correlation, reach),
        }
        for number, (name, one) in enumerate(found.items())
    ]
    with replacing(path) as temporary:
        page = render("correlogram.svg", curves=curves, reach=reach, width=WIDTH, height=HEIGHT, margin=MARGIN)
        temporary.write_text(page, encoding="utf-8")
    return path


def _points(one: CrossCorrelation, reach: float) -> list[tuple[float, float]]:
    judged = np.isfinite(one.values)
    return [_place(x, y, reach) for x, y in zip(one.seconds[judged].tolist(), one.values[judged].tolist(), strict=True)]


def _place(seconds: float, correlation: float, reach: float) -> tuple[float, float]:
    """Where a shift and its correlation lie in the picture."""
    across, down = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    return MARGIN + across * (seconds / reach + 1) / 2, MARGIN + down * (1 - correlation) / 2
