"""Two drawings of the European page: expanded uncertainty over concentration, and the modified target diagram.

They are drawn here as SVG, so that they print, need no script, and are readable in black and white: classes and devices
are told apart by dashes, marks and labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, cos, floor, hypot, log10, pi, sin
from typing import ClassVar

from scare.data.quantities import display_unit
from scare.report.blocks import number, percent, quantity
from scare.scorecard.assessment import Assessment, Curve, TargetResult

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

    def label_axes(
        self,
        x_labels: Iterable[tuple[float, str]],
        y_labels: Iterable[tuple[float, str]],
        x_title: str,
        y_title: str,
        right: float,
    ) -> None:
        """Label axes from `MARGIN` to `right` and from top to bottom; each label has its position along its axis [px].

        The distances are those of the text's size: 4 px lower, a label is centred on its tick.
        """
        for x, label in x_labels:
            self.text((x, HEIGHT - MARGIN + 16), label, "middle")
        for y, label in y_labels:
            self.text((MARGIN - 5, y + 4), label, "end")
        self.text(((MARGIN + right) / 2, HEIGHT - 10), x_title, "middle")
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


def ticks(end: float, start: float = 0.0) -> list[float]:
    """Choose about five round numbers from `start` to `end`.

    >>> ticks(110.0), ticks(0.86), ticks(16.0, -3.0)
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.2, 0.4, 0.6, 0.8], [0.0, 5.0, 10.0, 15.0])
    """
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
    right = WIDTH - RIGHT

    def to_pixels(x: float, share: float) -> Point:
        """Return the position of a reference and an uncertainty, which is clamped at the top of the axis."""
        across = MARGIN + (right - MARGIN) * x / end
        return across, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(share, top) / top

    drawing.line(to_pixels(0, 0), to_pixels(end, 0))
    drawing.line(to_pixels(0, 0), to_pixels(0, top))
    x_labels = [(to_pixels(x, 0)[0], number(x)) for x in ticks(end)]
    y_labels = [(to_pixels(0, share)[1], percent(share)) for share in ticks(top)]
    for x, _ in x_labels:
        drawing.line((x, HEIGHT - MARGIN), (x, HEIGHT - MARGIN + 3))
    for y, _ in y_labels:
        drawing.line((MARGIN, y), (MARGIN - 3, y))
    reference = f"reference [{display_unit(assessment.unit)}]"
    drawing.label_axes(x_labels, y_labels, reference, "relative expanded uncertainty", right)
    for name, share in bounds.items():
        drawing.line(to_pixels(0, share), (right + 20, to_pixels(0, share)[1]), OF_CLASS)
        drawing.text((right + 24, to_pixels(0, share)[1] + 4), name)
    lines = {"limit": assessment.limit}
    highest = max(device.highest_reference or 0.0 for device in devices)
    if highest < FAR_BELOW * assessment.limit:  # nearer, the two labels would touch
        lines["highest reference"] = highest
    for words, x in lines.items():
        is_between = assessment.limit / 2 < x < assessment.limit  # words would not fit on the right
        drawing.line(to_pixels(x, 0), to_pixels(x, top), OF_LIMIT)
        drawing.text((to_pixels(x, top)[0], MARGIN - 6), words, "end" if is_between else "start")
    ends = {}
    for letter, dash, device in zip(MARKS, DASHES, devices, strict=False):
        curve = device.curve
        assert curve is not None
        visible = [to_pixels(x, share) for x, share in zip(curve.x, curve.uncertainty, strict=True) if share <= top]
        if visible:
            drawing.curve(visible, dash)
            ends[letter] = visible[-1]
        if len(devices) == 1:  # the intervals of several would cover each other
            for edge in (curve.low, curve.high):
                pairs = zip(curve.x, edge, strict=False)
                drawing.curve((to_pixels(x, share) for x, share in pairs if share <= top), OF_INTERVAL)
    drawing.letters(ends, right + 8)
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


def _rounded(at: Point) -> Point:
    return round(at[0], 1), round(at[1], 1)
