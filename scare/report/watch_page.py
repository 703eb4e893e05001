"""The page of `scare watch`: which boxes to check or to re-collocate, and the evidence; one offline HTML file."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from scare import __version__
from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import display_unit
from scare.report.blocks import Badge, Block, Cell, Note, ReportTable, render
from scare.report.numbers import number
from scare.report.page import style
from scare.upkeep.drift import THRESHOLDS, BoxReport, DriftState, FleetReport
from scare.words import plural

DAY = 86400
BADGES = {DriftState.FINE: "good", DriftState.LOOK: "fair", DriftState.RECOLLOCATE: "bad"}
WIDTH, HEIGHT, TOP = 300, 60, 4.0  # of a small chart [px, px, units]
ABOUT = (
    "Each box is compared with its own first days and with the median of the others, so weather and season, which"
    " affect all of them, do not count. One unit is a change that one healthy box in a hundred shows, or five times the"
    f" spread of these boxes. From {THRESHOLDS[DriftState.LOOK]:g} units: check the box; from"
    f" {THRESHOLDS[DriftState.RECOLLOCATE]:g} units: re-collocate it with the reference. This does not measure the"
    " error: only a reference can."
)


def make_watch_page(watched: FleetReport, calibrator: Calibrator) -> str:
    """The page as HTML."""
    target = calibrator.target
    heading = f"{target.name}{f' [{display_unit(target.unit)}]' if target.unit else ''}"
    first, last = _date(watched.first), _date(watched.first + watched.days - 1)
    head = ("box", "state", "units", "days", "evidence")
    table = ReportTable("All boxes, worst first", head, [_row(one) for one in watched.boxes], "words")
    blocks: list[Block] = [table, *(Note(f"{note[0].upper()}{note[1:]}.") for note in watched.notes), Note(ABOUT)]
    return render(
        "watch.html.j2",
        title=f"Fleet watch: {heading}",
        heading=heading,
        lead=f"{plural(len(watched.boxes), 'device')}, {first} to {last} (UTC).",
        tiles=[(str(count), words) for words, count in count_states(watched).items()],
        boxes=blocks,
        charts=[_chart(one) for one in watched.boxes],
        levels=[round(_height(least), 1) for least in THRESHOLDS.values()],
        width=WIDTH,
        height=HEIGHT,
        version=__version__,
        css=style(),
    )


def count_states(watched: FleetReport) -> dict[str, int]:
    """Count the boxes in each state, the worst first."""
    return {state.label: sum(one.state is state for one in watched.boxes) for state in reversed(DriftState)}


def as_plain(watched: FleetReport) -> dict[str, Any]:
    """The contents of the page as plain values, for JSON."""
    return {
        "first_day": _date(watched.first),
        "last_day": _date(watched.first + watched.days - 1),
        "states": count_states(watched),
        "boxes": [
            {
                "device": one.device,
                "state": one.state.label,
                "units": round(one.score, 3),
                "days": one.days,
                "evidence": [vars(piece) for piece in one.evidence],
                "units_by_day": list(one.history),
            }
            for one in watched.boxes
        ],
        "notes": list(watched.notes),
    }


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}"


def _row(one: BoxReport) -> list[str | Cell]:
    badge = Cell("", badge=Badge(BADGES[one.state], one.state.label))
    sentences = "; ".join(piece.sentence for piece in one.evidence)
    return [one.device, badge, number(round(one.score, 2)), str(one.days), sentences]


def _chart(one: BoxReport) -> dict[str, Any]:
    """The points of a line of units by day, and a description of it for screen readers."""
    step = WIDTH / max(1, len(one.history) - 1)
    points = " ".join(f"{index * step:.1f},{_height(units):.1f}" for index, units in enumerate(one.history))
    rises = sum(before < THRESHOLDS[DriftState.LOOK] <= after for before, after in pairwise(one.history))
    above = f"above {THRESHOLDS[DriftState.LOOK]:g} {plural(rises, 'time')}"
    words = f"{one.device}: {one.score:.2g} units on the last day, {above}"
    return {"device": one.device, "points": points, "words": words, "kind": BADGES[one.state]}


def _height(units: float) -> float:
    return HEIGHT * (1 - min(units, TOP) / TOP)
