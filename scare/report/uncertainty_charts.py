"""Two drawings of the European page: expanded uncertainty over concentration, and the modified target diagram.

They are drawn here as SVG, so that they print, need no script, and are readable in black and white: classes and devices
are told apart by dashes, marks and labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

from scare.report.blocks import number, percent, quantity
from scare.scorecard.assessment import Assessment, Curve, TargetResult

WIDTH, HEIGHT, MARGIN = 460.0, 300.0, 46.0  # px
TOP_OF_CLASSES = 1.15  # the end of an axis, times the widest class in sight
SHOWN = 8  # devices drawn
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4", "4 2 1 2", "3 6")
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
    circles: list[tuple[float, float, float, str, bool]] = field(default_factory=list)  # x, y, radius, dash, filled
    texts: list[tuple[float, float, str, str]] = field(default_factory=list)  # x, y, text, anchor

    def line(self, start: tuple[float, float], end: tuple[float, float], dash: str = "") -> None:
        """Draw a straight line."""
        self.lines.append((*_rounded(start), *_rounded(end), dash))

    def text(self, at: tuple[float, float], words: str, anchor: str = "start") -> None:
        """Write a word or two."""
        self.texts.append((*_rounded(at), words, anchor))


def uncertainty_drawings(one: Assessment) -> list[Drawing]:
    """Both drawings of an assessment by expanded uncertainty; none for other sets, or without a device."""
    drawn = [device for device in one.devices if device.curve is not None][:SHOWN]
    return [_curve_drawing(one, drawn), _target_diagram(one, drawn)] if drawn and one.limit else []


def _curve_drawing(one: Assessment, devices: Sequence[TargetResult]) -> Drawing:
    """Relative expanded uncertainty over the reference, with the limits of the classes."""
    bounds, top = _classes_in_sight(one, devices)
    end = max(device.curve.x[-1] for device in devices if device.curve)
    drawing = Drawing(f"{one.title}: uncertainty by concentration", _caption(one, devices))

    def place(x: float, share: float) -> tuple[float, float]:
        across = MARGIN + (WIDTH - 2 * MARGIN) * x / end
        return across, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(share, top) / top

    drawing.line(place(0, 0), place(end, 0))
    drawing.line(place(0, 0), place(0, top))
    for share in (0.0, top / 2, top):
        drawing.text((MARGIN - 4, place(0, share)[1] + 4), percent(share), "end")
    for x in (0.0, end / 2, end):
        drawing.text((place(x, 0)[0], HEIGHT - MARGIN + 16), number(x), "middle")
    drawing.text((WIDTH / 2, HEIGHT - 8), f"reference [{quantity(1, one.unit).split(' ', 1)[-1]}]", "middle")
    drawing.text((MARGIN, MARGIN - 26), "relative expanded uncertainty")
    for name, share in bounds.items():
        drawing.line(place(0, share), place(end, share), "4 4")
        drawing.text((place(end, share)[0] - 40, place(end, share)[1] - 3), f"{name}: {percent(share)}", "end")
    assert one.limit is not None
    drawing.line(place(one.limit, 0), place(one.limit, top), "1 3")
    drawing.text((place(one.limit, top)[0], place(0, top)[1] - 6), "limit", "middle")
    for index, device in enumerate(devices):
        assert device.curve is not None
        inside = [(x, share) for x, share in zip(device.curve.x, device.curve.uncertainty, strict=True) if share <= top]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*pair) for pair in inside))
        drawing.curves.append((points, DASHES[index]))
        if inside:
            drawing.text((place(*inside[-1])[0] + 4, place(*inside[-1])[1] + 4), MARKS[index])
    return drawing


def _target_diagram(one: Assessment, devices: Sequence[TargetResult]) -> Drawing:
    """Relative bias against the relative random part, a circle for each class, a dot at the limit."""
    bounds, top = _classes_in_sight(one, devices)
    scale = (HEIGHT - MARGIN) / 2 / top
    drawing = Drawing(
        f"{one.title}: modified target diagram",
        "Across: twice the random standard uncertainty over the reference; up: twice the bias over the reference. The"
        " distance from the centre is the expanded uncertainty; circles are the classes. Each line leads from low to"
        " high concentrations, and the dot is at the limit value.",
    )
    centre = 2 * MARGIN, HEIGHT / 2

    def place(random: float, bias: float) -> tuple[float, float]:
        return centre[0] + random * scale, centre[1] - bias * scale

    drawing.line(place(0, -top), place(0, top))
    drawing.line(place(0, 0), place(top, 0))
    for name, share in bounds.items():
        steps = [(share * k / 24, share * sqrt(max(0.0, 1 - (k / 24) ** 2))) for k in range(25)]
        arc = [*((x, y) for x, y in steps), *((x, -y) for x, y in reversed(steps))]
        drawing.curves.append((" ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*pair) for pair in arc)), "4 4"))
        drawing.text((place(0, share)[0] - 4, place(0, share)[1] + 4), f"{name}", "end")
    for index, device in enumerate(devices):
        curve = device.curve
        assert curve is not None
        pairs = [
            (random, bias)
            for random, bias in zip(curve.random, curve.bias, strict=True)
            if random <= top and abs(bias) <= top
        ]
        drawing.curves.append((" ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*one) for one in pairs)), DASHES[index]))
        at = _at_limit(curve, one.limit or 0.0)
        if at[0] <= top and abs(at[1]) <= top:
            drawing.circles.append((*_rounded(place(*at)), 3.0, "", True))
            drawing.text((place(*at)[0] + 5, place(*at)[1] - 5), MARKS[index])
    drawing.text((place(top, 0)[0], place(0, 0)[1] + 16), "random", "end")
    drawing.text((place(0, top)[0] + 4, place(0, top)[1] + 4), "bias")
    return drawing


def _class_limits(one: Assessment) -> dict[str, float]:
    """The largest expanded uncertainty of each class."""
    return {name: bounds["uncertainty"][1] for name, bounds in one.classes.items() if "uncertainty" in bounds}


def _classes_in_sight(one: Assessment, devices: Sequence[TargetResult]) -> tuple[dict[str, float], float]:
    """The limits of the classes up to the first that holds all devices, and the end of the axes."""
    limits = _class_limits(one)
    largest = max(device.values.get("uncertainty") or 0.0 for device in devices)
    shown: dict[str, float] = {}
    for name, share in limits.items():
        shown[name] = share
        if share >= largest:
            break
    return shown, TOP_OF_CLASSES * max(shown.values())


def _at_limit(curve: Curve, limit: float) -> tuple[float, float]:
    """Random part and bias at the point of the curve that is nearest to the limit value."""
    index = min(range(len(curve.x)), key=lambda place: abs(curve.x[place] - limit))
    return curve.random[index], curve.bias[index]


def _caption(one: Assessment, devices: Sequence[TargetResult]) -> str:
    """Say which letter is which device, its uncertainty at the limit, and whether that is extrapolated."""
    mark = ", second-hand" if one.second_hand else ""
    named = []
    for letter, device in zip(MARKS, devices, strict=False):
        value = device.values.get("uncertainty")
        shown = percent(value) if value is not None else "unknown"
        named.append(f"{letter} {device.device}: {shown}{' (extrapolated)' if one.beyond(device) else ''}")
    more = f"; {len(one.devices) - SHOWN} more are in the table" if len(one.devices) > SHOWN else ""
    return f"At the limit of {quantity(one.limit, one.unit)} ({one.title}{mark}): {'; '.join(named)}{more}."


def _rounded(at: tuple[float, float]) -> tuple[float, float]:
    return round(at[0], 1), round(at[1], 1)
