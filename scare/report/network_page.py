"""The page of `scare network`: an offline map of a network's uncertainty, each box with its age and its path."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, radians
from typing import Any

from markupsafe import Markup

from scare import __version__
from scare.data.quantities import display_unit
from scare.report.blocks import Block, Note, ReportTable, number, render
from scare.report.page import style
from scare.upkeep.network.graph import DOUBTFUL_WEIGHT
from scare.upkeep.network.relations import BESIDE

WIDTH, MARGIN = 640.0, 36.0
LEAST_DEGREES = 0.002  # of latitude: a network at one site gets a map, too
COLOUR_RATIO = 1.25  # an uncertainty this many times the fleet's median, or less by as much, has another colour
LOW_COLOUR, USUAL_COLOUR, HIGH_COLOUR = "#6a994e", "#e9c46a", "#d1495b"
APART = 7  # px between two marks that would lie on each other
MOST_LABELS = 60  # marks on a map that are still named
NO_PATH = "no path to a reference: the fleet's mean"


@dataclass(frozen=True)
class Mark:
    """A box or reference on the map, in pixels."""

    x: float
    y: float
    radius: float
    kind: str
    colour: str
    label: str
    words: str


def make_network_page(network: Mapping[str, Any]) -> str:
    """Render the page of a network, which is described as in `network.json`."""
    unit = display_unit(network["unit"]) if network["unit"] else ""
    blocks: list[Block] = [
        ReportTable(
            "All boxes, the most uncertain first",
            ("box", "site", f"uncertainty{f' [{unit}]' if unit else ''}", "age", "worth", "gain", "intercept", "path"),
            [_row(box) for box in network["boxes"]],
            "words",
        )
    ]
    blocks.append(
        Note(
            "Uncertainty: standard deviation of the calibration over usual values, without the noise of a reading. Age:"
            " since the last encounter. Worth: independent hours beside a reference that would tell as much."
        )
    )
    doubts: list[Block] = [Note(f"Not identifiable: {sentence}.") for sentence in network["notes"]]
    doubts += [Note(doubt["sentence"]) for doubt in network["doubts"]]
    boxes = network["boxes"]
    with_path = sum(bool(box["path"]) for box in boxes)
    return render(
        "network.html.j2",
        title="Network",
        lead=f"{network['begin'][:10]} to {network['end'][:10]} (UTC)",
        tiles=[
            (str(len(boxes)), "boxes"),
            (str(with_path), "with a path to a reference"),
            (number(boxes[0]["uncertainty"]) if boxes else "", "worst uncertainty"),
            (str(len(network["doubts"])), "doubts"),
        ],
        map=Markup(make_map(network)),
        boxes=blocks,
        doubts=doubts,
        version=__version__,
        css=style(),
    )


def make_map(network: Mapping[str, Any]) -> str:
    """Draw the map of a network, described as in `network.json`: an SVG that needs no other file."""
    marks, lines, height = _draw(network)
    labels = len(marks) <= MOST_LABELS
    return render("network_map.svg", marks=marks, lines=lines, width=round(WIDTH), height=round(height), labels=labels)


def describe_path(box: Mapping[str, Any]) -> str:
    """Return the chain of encounters on which a box's value rests.

    >>> describe_path({"path": [{"beside": "station-a", "time": "2026-01-05T00:00:00Z", "kind": "beside"}]})
    'station-a (2026-01-05)'
    """
    if not box["path"]:
        return NO_PATH
    return " ← ".join(
        f"{'air of ' if step['kind'] == 'distant' else ''}{step['beside']} ({step['time'][:10]})"
        for step in box["path"]
    )


def describe_age(days: float | None) -> str:
    """Return an age in words.

    >>> describe_age(3.2), describe_age(None)
    ('3 days', 'never')
    """
    return "never" if days is None else f"{days:.0f} days"


def _row(box: Mapping[str, Any]) -> Sequence[str]:
    return [
        box["device"],
        box["site"] or "nowhere",
        number(box["uncertainty"]),
        describe_age(box["age_days"]),
        f"{box['effective_pairs']:.0f} h",
        f"{box['gain']:.3f}",
        number(box["intercept"]),
        describe_path(box),
    ]


def _draw(network: Mapping[str, Any]) -> tuple[list[Mark], list[tuple[float, float, float, float]], float]:
    """Return a mark for each box and reference, a line (x, y, x, y) for each pair that met, and the height [px].

    Meetings of a weight below `DOUBTFUL_WEIGHT` have no line.
    """
    coordinates = {
        reference["name"]: (reference["latitude"], reference["longitude"]) for reference in network["references"]
    }
    coordinates |= {box["device"]: (box["latitude"], box["longitude"]) for box in network["boxes"]}
    coordinates = {name: pair for name, pair in coordinates.items() if pair[0] is not None}
    if not coordinates:
        return [], [], 0.0
    latitudes, longitudes = zip(*coordinates.values(), strict=True)
    shrinkage = cos(radians(sum(latitudes) / len(latitudes)))  # of a degree of longitude, compared with latitude
    tall = max(max(latitudes) - min(latitudes), LEAST_DEGREES)
    wide = max((max(longitudes) - min(longitudes)) * shrinkage, LEAST_DEGREES)
    scale = (WIDTH - 2 * MARGIN) / max(wide, tall)  # px in a degree of latitude
    height = tall * scale + 2 * MARGIN
    middle = (max(longitudes) + min(longitudes)) / 2

    places: dict[str, tuple[float, float]] = {}  # px
    marks_at: Counter[tuple[int, int]] = Counter()  # marks drawn at each pixel so far
    for name, (latitude, longitude) in coordinates.items():
        x = WIDTH / 2 + (longitude - middle) * shrinkage * scale
        y = MARGIN + (max(latitudes) - latitude) * scale
        places[name] = (x + APART * marks_at[round(x), round(y)], y)
        marks_at[round(x), round(y)] += 1
    names = [reference["name"] for reference in network["references"] if reference["name"] in places]
    marks = [Mark(*places[name], 6, "reference", "", name, f"reference {name}") for name in names]
    ordered = sorted(box["uncertainty"] for box in network["boxes"])
    usual = ordered[len(ordered) // 2] if ordered else 1.0  # the median
    for box in network["boxes"]:
        name = box["device"]
        if name in places:
            relative = box["uncertainty"] / usual if usual else 1.0
            usual_or_high = USUAL_COLOUR if relative <= COLOUR_RATIO else HIGH_COLOUR
            colour = LOW_COLOUR if relative < 1 / COLOUR_RATIO else usual_or_high
            words = f"{name}: ±{number(box['uncertainty'])}, {describe_age(box['age_days'])}, {describe_path(box)}"
            radius = 4 + 3 * min(relative, 3.0)  # px: a box that is less certain has a larger mark
            marks.append(Mark(*places[name], radius, "box", colour, name, words))
    pairs = {
        (encounter["box"], encounter["other"])
        for encounter in network["encounters"]
        if encounter["kind"] == BESIDE
        and encounter["weight"] >= DOUBTFUL_WEIGHT
        and {encounter["box"], encounter["other"]} <= places.keys()
    }
    return marks, [(*places[box], *places[other]) for box, other in sorted(pairs)], height
