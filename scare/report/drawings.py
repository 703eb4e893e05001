"""The drawings of the report that agencies ask for.

- European: expanded uncertainty over concentration, and the modified target diagram.
- As in EPA's report: precision, that is how far each unit is from the mean of the units beside it, and meteorological
  effects, that is calibrated over reference by temperature, humidity and dew point.

They are SVG, so that they print, need no script, and are readable in black and white: classes and devices are told
apart by dashes, marks and labels. The other charts of the report are drawn by its script (`chart_data`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, cos, floor, hypot, log10, pi, sin
from typing import ClassVar

import numpy as np

from scare.data.quantities import display_unit
from scare.report.blocks import number, percent, quantity
from scare.report.error_analysis import FEW_ROWS, round_bins
from scare.scorecard.assessment import FEWEST, Assessment, Curve, TargetResult
from scare.scorecard.averages import Averaging, common_periods
from scare.scorecard.run_folder import Run
from scare.scorecard.series import pool

Point = tuple[float, float]
WIDTH, HEIGHT, MARGIN = 460.0, 300.0, 46.0  # px
RIGHT = 138.0  # px beside the curves, for the letters of devices and the names of classes
CENTRE = 155.0  # px from the left edge to the centre of the target diagram
LETTER = 11.0  # px between two letters, at least
TICKS = 4  # intervals of an axis, about
TOP_OF_CLASSES = 1.15  # the end of an axis, times the widest class in sight
SHOWN = 8  # devices drawn
FAR_BELOW = 0.8  # share of the limit below which the highest reference has a line of its own
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4", "4 2 1 2", "3 6")
OF_CLASS, OF_LIMIT, OF_INTERVAL = "4 4", "1 3", "1 2"  # dashes
MARKS = "ABCDEFGH"
GROUPS = 8  # of the averages of units side by side, by level
HEADROOM = 1.25  # end of their axis, times the largest difference or the bound
LEAST_SHARE = 0.1  # of the mean reference: a ratio to less than that is noise
MAGNUS = 17.62, 243.12  # of water, in degC (WMO Guide to Meteorological Instruments, annex 4.B)
LEAST_RATIO, ABOVE_RATIOS = 2.0, 1.1  # the end of the axis of ratios: at least, and times the largest median


@dataclass(frozen=True)
class Axes:
    """Linear axes: the ends of x, from `MARGIN` to `right` [px], and the ends of y, from bottom to top."""

    x: tuple[float, float]
    y: tuple[float, float]
    right: float = WIDTH - RIGHT

    def at(self, x: float, y: float) -> Point:
        """Return the position of a point [px]; y is clamped at the ends of its axis."""
        (left, end), (low, high) = self.x, self.y
        across = (x - left) / ((end - left) or 1.0)  # a share of the axis
        up = (min(max(y, low), high) - low) / (high - low)
        return MARGIN + (self.right - MARGIN) * across, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * up


@dataclass
class Drawing:
    """An SVG drawing: lines, curves, circles and texts, with a caption that says what it shows."""

    template: ClassVar[str] = "drawing"
    title: str
    caption: str
    width: float = WIDTH
    height: float = HEIGHT
    lines: list[tuple[float, float, float, float, str]] = field(default_factory=list)  # x1, y1, x2, y2, dash
    curves: list[tuple[str, str]] = field(default_factory=list)  # points, dash
    circles: list[tuple[float, float, float]] = field(default_factory=list)  # x, y, radius
    texts: list[tuple[float, float, str, str]] = field(default_factory=list)  # x, y, text, anchor

    def line(self, start: Point, end: Point, dash: str = "") -> None:
        """Draw a straight line."""
        self.lines.append((*_rounded(start), *_rounded(end), dash))

    def curve(self, points: Iterable[Point], dash: str = "") -> None:
        """Draw a line through points."""
        self.curves.append((" ".join(f"{x:.1f},{y:.1f}" for x, y in points), dash))

    def dot(self, at: Point) -> None:
        """Draw a dot."""
        self.circles.append((*_rounded(at), 3.0))

    def text(self, at: Point, words: str, anchor: str = "start") -> None:
        """Write a word or two."""
        self.texts.append((*_rounded(at), words, anchor))

    def label_axes(self, axes: Axes, x_title: str, y_title: str, y_text: Callable[[float], str] = number) -> None:
        """Write titles and round numbers along axes; `y_text` formats the numbers of y.

        A text stands on its y coordinate, so 4 px below a tick, a third of its size, centres it there.
        """
        for x in ticks(*axes.x):
            self.text((axes.at(x, 0)[0], HEIGHT - MARGIN + 16), number(x), "middle")
        for y in ticks(*axes.y):
            self.text((MARGIN - 5, axes.at(0, y)[1] + 4), y_text(y), "end")
        self.text(((MARGIN + axes.right) / 2, HEIGHT - 10), x_title, "middle")
        self.text((MARGIN - 36, MARGIN - 30), y_title)

    def letters(self, ends: Mapping[str, Point], across: float) -> None:
        """Write letters in a column at `across` [px], each with a line to the point that it names.

        A letter is as high as its point, or lower if the one above would touch it.
        """
        baseline = -1e9  # of the letter before
        for letter, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
            baseline = max(y + LETTER / 3, baseline + LETTER)
            self.line((x, y), (across - 2, baseline - LETTER / 3), OF_INTERVAL)
            self.text((across, baseline), letter)


def ticks(start: float, end: float) -> list[float]:
    """Choose about five round numbers from `start` to `end`; none if these are equal.

    >>> ticks(0.0, 110.0), ticks(0.0, 0.86), ticks(-3.0, 16.0)
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.2, 0.4, 0.6, 0.8], [0.0, 5.0, 10.0, 15.0])
    """
    if start == end:
        return []
    rough = (end - start) / TICKS
    power = 10.0 ** floor(log10(rough))
    step = min((power * factor for factor in (1, 2, 5, 10)), key=lambda candidate: abs(log10(candidate / rough)))
    # An end that is a multiple of the step but for rounding has a tick; ticks are rounded for the same reason.
    first, last = ceil(start / step - 1e-9), floor(end / step + 1e-9)
    return [round(step * multiple, 12) for multiple in range(first, last + 1)]


def uncertainty_drawings(assessment: Assessment) -> list[Drawing]:
    """Return the curve and the target diagram of an assessment by expanded uncertainty; nothing for other sets."""
    drawn = [device for device in assessment.devices if device.curve is not None][:SHOWN]
    return [_curve_drawing(assessment, drawn), _target_diagram(assessment, drawn)] if drawn and assessment.limit else []


def _curve_drawing(assessment: Assessment, devices: Sequence[TargetResult]) -> Drawing:
    """Draw the relative expanded uncertainty over the reference, with the limits of the classes."""
    assert assessment.limit is not None
    bounds, top = _classes_in_sight(assessment, devices)
    end = max(device.curve.x[-1] for device in devices if device.curve)
    drawing = Drawing(f"{assessment.title}: uncertainty by concentration", _caption(assessment, devices))
    axes = Axes((0.0, end), (0.0, top))
    drawing.line(axes.at(0, 0), axes.at(end, 0))
    drawing.line(axes.at(0, 0), axes.at(0, top))
    for x, _ in (axes.at(tick, 0) for tick in ticks(0, end)):
        drawing.line((x, HEIGHT - MARGIN), (x, HEIGHT - MARGIN + 3))
    for _, y in (axes.at(0, tick) for tick in ticks(0, top)):
        drawing.line((MARGIN, y), (MARGIN - 3, y))
    reference = f"reference [{display_unit(assessment.unit)}]"
    drawing.label_axes(axes, reference, "relative expanded uncertainty", percent)
    for name, share in bounds.items():
        _, y = axes.at(0, share)
        drawing.line((MARGIN, y), (axes.right + 20, y), OF_CLASS)
        drawing.text((axes.right + 24, y + 4), name)
    lines = {"limit": assessment.limit}
    highest = max(device.highest_reference or 0.0 for device in devices)
    if highest < FAR_BELOW * assessment.limit:  # nearer, the two labels would touch
        lines["highest reference"] = highest
    for words, x in lines.items():
        is_between = assessment.limit / 2 < x < assessment.limit  # words would not fit on the right
        drawing.line(axes.at(x, 0), axes.at(x, top), OF_LIMIT)
        drawing.text((axes.at(x, top)[0], MARGIN - 6), words, "end" if is_between else "start")
    ends = {}
    for letter, dash, device in zip(MARKS, DASHES, devices, strict=False):
        curve = device.curve
        assert curve is not None
        visible = [axes.at(x, share) for x, share in zip(curve.x, curve.uncertainty, strict=True) if share <= top]
        if visible:
            drawing.curve(visible, dash)
            ends[letter] = visible[-1]
        if len(devices) == 1:  # the intervals of several would cover each other
            for edge in (curve.low, curve.high):
                pairs = zip(curve.x, edge, strict=False)
                drawing.curve((axes.at(x, share) for x, share in pairs if share <= top), OF_INTERVAL)
    drawing.letters(ends, axes.right + 8)
    return drawing


def _target_diagram(assessment: Assessment, devices: Sequence[TargetResult]) -> Drawing:
    """Draw the relative bias against the relative random part: a circle for each class, a line for each device.

    A dot on the line is at the limit value.
    """
    bounds, top = _classes_in_sight(assessment, devices)
    scale = (HEIGHT - MARGIN) / 2 / top
    drawing = Drawing(
        f"{assessment.title}: modified target diagram",
        "Across: twice the random standard uncertainty over the reference; up: twice the bias over the reference. The"
        " distance from the centre is the expanded uncertainty; circles are the classes. Each line leads from low to"
        " high concentrations, and the dot is at the limit value. Devices have the letters of the drawing before.",
    )

    def to_pixels(random: float, bias: float) -> Point:
        return CENTRE + random * scale, HEIGHT / 2 - bias * scale

    drawing.line(to_pixels(0, -top), to_pixels(0, top))
    drawing.line(to_pixels(0, 0), to_pixels(top, 0))
    for name, share in bounds.items():
        angles = [pi * (step / 48 - 0.5) for step in range(49)]  # half a circle, from straight down to straight up
        drawing.curve((to_pixels(share * cos(angle), share * sin(angle)) for angle in angles), OF_CLASS)
        drawing.text((CENTRE - 5, to_pixels(0, share)[1] + 4), f"{name}, {percent(share)}", "end")
    dots = {}
    for letter, dash, device in zip(MARKS, DASHES, devices, strict=False):
        curve = device.curve
        assert curve is not None
        pairs = zip(curve.random, curve.bias, strict=True)
        drawing.curve((to_pixels(*pair) for pair in pairs if hypot(*pair) <= top), dash)
        random, bias = _at_limit(curve, assessment.limit or 0.0)
        if hypot(random, bias) <= top:
            dots[letter] = to_pixels(random, bias)
            drawing.dot(dots[letter])
    drawing.letters(dots, to_pixels(top, 0)[0] + 24)
    drawing.text((CENTRE + 5, to_pixels(0, -top)[1] + 4), "random →")
    drawing.text((CENTRE + 5, to_pixels(0, top)[1] + 4), "bias")
    return drawing


def _classes_in_sight(assessment: Assessment, devices: Sequence[TargetResult]) -> tuple[dict[str, float], float]:
    """Return the classes to draw, by name, with their largest uncertainty, and the end of the axes; both are shares.

    They are the classes up to the first that holds all devices.
    """
    limits = {name: bounds["uncertainty"][1] for name, bounds in assessment.classes.items() if "uncertainty" in bounds}
    largest = max(device.values.get("uncertainty") or 0.0 for device in devices)
    shown: dict[str, float] = {}
    for name, share in limits.items():
        shown[name] = share
        if share >= largest:
            break
    return shown, TOP_OF_CLASSES * max(shown.values())


def _at_limit(curve: Curve, limit: float) -> tuple[float, float]:
    """Return random part and bias at the point of the curve that is nearest to the limit value."""
    nearest = min(range(len(curve.x)), key=lambda index: abs(curve.x[index] - limit))
    return curve.random[nearest], curve.bias[nearest]


def _caption(assessment: Assessment, devices: Sequence[TargetResult]) -> str:
    """Say which letter is which device, its uncertainty at the limit, and whether that is extrapolated."""
    mark = ", second-hand" if assessment.second_hand else ""
    named = []
    for letter, device in zip(MARKS, devices, strict=False):
        value = device.values.get("uncertainty")
        shown = percent(value) if value is not None else "unknown"
        named.append(f"{letter} {device.device}: {shown}{' (extrapolated)' if assessment.beyond(device) else ''}")
    hidden = f"; {len(assessment.devices) - SHOWN} more are in the table" if len(assessment.devices) > SHOWN else ""
    band = "; dotted: the 95 % interval" if len(devices) == 1 and devices[0].curve and devices[0].curve.low else ""
    limit = quantity(assessment.limit, assessment.unit)
    return f"At the limit of {limit} ({assessment.title}{mark}): {'; '.join(named)}{hidden}{band}."


def precision_drawing(run: Run, assessment: Assessment) -> Drawing | None:
    """Draw how far each unit is from the mean of the units side by side, over that mean.

    The values are averages over the hours that the set of targets asks for. None if fewer than two units have enough.
    """
    averaging = Averaging(assessment.average_hours, assessment.completeness, assessment.through_hours)
    averages = {series.device: averaging.of_scored(series) for series in run.series}
    units = {device: means for device, means in averages.items() if len(means) >= FEWEST}
    if assessment.together is None or len(units) < 2:
        return None
    common = common_periods(list(units.values()))
    # Calibrated values in the periods that all units have [units, averages].
    values = np.array([means.select(common).calibrated for means in units.values()])
    mean = values.mean(axis=0)  # of the units [averages]
    differences = values - mean
    order = np.argsort(mean)
    borders = np.linspace(0, len(order), min(GROUPS, len(order)) + 1).astype(int)
    groups = [order[start:end] for start, end in pairwise(borders.tolist())]  # of averages, by level
    levels = [float(np.median(mean[group])) for group in groups]
    medians = np.array([[np.median(of_unit[group]) for group in groups] for of_unit in differences])  # [units, groups]
    # A class of targets bounds the standard deviation of the units (sd). The drawing has a line for the most that the
    # strictest class allows.
    sd_bounds = [bounds["sd"] for bounds in assessment.classes.values() if "sd" in bounds]  # (least, most) of a class
    largest_sd = min((most for _, most in sd_bounds), default=None)
    top = HEADROOM * max(float(np.abs(medians).max()), largest_sd or 0.0)  # end of the axis of differences
    top = top or 1.0  # an axis has a length even if units never differ
    first, last = min(0.0, levels[0]), levels[-1]
    axes = Axes((first, last), (-top, top))
    drawing = Drawing(f"{assessment.title}: units beside each other", "")
    drawing.line(axes.at(first, -top), axes.at(first, top))
    drawing.line(axes.at(first, 0), axes.at(last, 0), OF_CLASS)
    drawing.label_axes(axes, f"mean of the units [{display_unit(assessment.unit)}]", "unit − mean")
    if largest_sd is not None:
        for _, y in (axes.at(first, -largest_sd), axes.at(first, largest_sd)):
            drawing.line((MARGIN, y), (axes.right + 20, y), OF_CLASS)
            drawing.text((axes.right + 24, y + 4), "largest sd")
    ends = {}
    for letter, dash, of_unit in zip(MARKS, DASHES, medians.tolist(), strict=False):
        points = [axes.at(x, y) for x, y in zip(levels, of_unit, strict=True)]
        drawing.curve(points, dash)
        ends[letter] = points[-1]
    drawing.letters(ends, axes.right + 8)
    named = "; ".join(
        f"{letter} {device}: {quantity(float(of_unit.mean()), assessment.unit)}"
        for letter, device, of_unit in zip(MARKS, units, differences, strict=False)
    )
    hidden = f"; {len(units) - SHOWN} more are not drawn" if len(units) > SHOWN else ""
    drawing.caption = (
        f"Medians of {len(common):,} averages of {assessment.average_hours} h in {len(groups)} groups by level. On"
        f" average above the mean of the units: {named}{hidden}."
    )
    return drawing


def dew_point(temperature: np.ndarray, humidity: np.ndarray) -> np.ndarray:
    """Compute the dew point [degC] by the Magnus formula from temperature [degC] and relative humidity [%].

    >>> dew_point(np.array([20.0, 20.0]), np.array([100.0, 50.0])).round(1)
    array([20. , 9.3])
    """
    factor, offset = MAGNUS
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma = np.log(humidity / 100) + factor * temperature / (offset + temperature)
    return offset * gamma / (factor - gamma)


def weather_drawings(run: Run) -> list[Drawing]:
    """Draw calibrated over reference by each of temperature, humidity and dew point that the run holds."""
    scored = pool([series.scored for series in run.series], "all")
    if not len(scored) or not np.isfinite(scored.reference).any():
        return []
    usable = scored.reference > LEAST_SHARE * np.nanmean(scored.reference)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(usable, scored.calibrated / scored.reference, np.nan)
    conditions = {
        "temperature [°C]": scored.temperature,
        "relative humidity [%]": scored.humidity,
        "dew point [°C]": dew_point(scored.temperature, scored.humidity),
    }
    drawings = (_weather_drawing(name, values, ratio) for name, values in conditions.items())
    return [drawing for drawing in drawings if drawing is not None]


def _weather_drawing(name: str, values: np.ndarray, ratio: np.ndarray) -> Drawing | None:
    """Draw the ratio [rows] over a condition's values [rows]; None if too few rows have both.

    Each point is the median of a bin and each bar its middle half; at 1 the sensor reads what the reference does.
    """
    known = np.isfinite(values) & np.isfinite(ratio)
    if known.sum() < FEW_ROWS or np.ptp(values[known]) == 0:
        return None
    edges, bin_of_row = round_bins(values[known])
    first, last = float(edges[0]), float(edges[-1])
    bins = [ratio[known][bin_of_row == index] for index in range(len(edges) - 1)]
    # Of each bin with enough rows: its centre, and the three quartiles of its ratios.
    quartiles = {
        float(edges[index] + edges[index + 1]) / 2: np.percentile(ratios, [25, 50, 75]).tolist()
        for index, ratios in enumerate(bins)
        if len(ratios) >= FEW_ROWS
    }
    if not quartiles:
        return None
    top = max([LEAST_RATIO, *(median * ABOVE_RATIOS for _, median, _ in quartiles.values())])
    axes = Axes((first, last), (0.0, top), right=WIDTH - MARGIN)
    drawing = Drawing(f"Calibrated over reference by {name.split(' [')[0]}", "")
    drawing.line(axes.at(first, 0), axes.at(last, 0))
    drawing.line(axes.at(first, 0), axes.at(first, top))
    drawing.line(axes.at(first, 1), axes.at(last, 1), "4 4")
    drawing.label_axes(axes, name, "calibrated / reference")
    medians = {centre: median for centre, (_, median, _) in quartiles.items()}
    for centre, (low, median, high) in quartiles.items():
        drawing.line(axes.at(centre, low), axes.at(centre, high))
        drawing.dot(axes.at(centre, median))
    drawing.curve(axes.at(centre, median) for centre, median in medians.items())
    lowest, highest = min(medians, key=lambda centre: medians[centre]), max(medians, key=lambda centre: medians[centre])
    drawing.caption = (
        f"The median ratio of a bin is lowest, {number(medians[lowest])}, around {number(lowest)} and highest,"
        f" {number(medians[highest])}, around {number(highest)}; bars are the middle half of the rows."
    )
    return drawing


def _rounded(at: Point) -> Point:
    return round(at[0], 1), round(at[1], 1)
