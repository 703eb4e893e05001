"""The page of a watched fleet: which boxes to look at or to bring back, and what speaks for it; one offline file."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from scare import __version__
from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import display_unit
from scare.report.blocks import Badge, Block, Cell, Note, Table, render
from scare.report.numbers import number
from scare.report.page import style
from scare.upkeep.drift import THRESHOLDS, BoxReport, DriftState, FleetReport
from scare.words import plural

DAY = 86400
BADGES = {DriftState.FINE: "good", DriftState.LOOK: "fair", DriftState.RECOLLOCATE: "bad"}
WIDTH, HEIGHT, MOST = 300, 60, 4.0  # of a small chart, and the units at its top
ABOUT = (
    "A box is compared with its own first days and with the median of the others, so weather and season, which move all"
    " of them, do not count. One unit is a change that one healthy box in a hundred shows, or five times the spread of"
    f" these boxes. From {THRESHOLDS[DriftState.LOOK]:g} units on: look; from"
    f" {THRESHOLDS[DriftState.RECOLLOCATE]:g} on: bring it back to the reference. This does not measure the error: only"
    " a reference does."
)


def make_watch_page(watched: FleetReport, calibrator: Calibrator) -> str:
    """The whole page as text."""
    target = calibrator.target
    heading = f"{target.name}{f' [{display_unit(target.unit)}]' if target.unit else ''}"
    return render(
        "watch.html.j2",
        title=f"Fleet watch: {heading}",
        heading=heading,
        lead=f"{plural(len(watched.boxes), 'device')}, {_period(watched)}.",
        tiles=[(str(count), words) for words, count in count_states(watched).items()],
        boxes=_boxes(watched),
        charts=[_chart(one) for one in watched.boxes],
        levels=[round(_height(least), 1) for least in THRESHOLDS.values()],
        width=WIDTH,
        height=HEIGHT,
        version=__version__,
        css=style(),
    )


def count_states(watched: FleetReport) -> dict[str, int]:
    """How many boxes are in each state, the worst first."""
    return {state.label: sum(one.state is state for one in watched.boxes) for state in reversed(DriftState)}


def as_plain(watched: FleetReport) -> dict[str, Any]:
    """The same as plain values, for machines."""
    return {
        "first_day": _date(watched.first),
        "last_day": _date(watched.first + watched.days - 1),
        "states": count_states(watched),
        "boxes": [_plain(one) for one in watched.boxes],
        "notes": list(watched.notes),
    }


def _plain(one: BoxReport) -> Mapping[str, Any]:
    evidence = [vars(piece) for piece in one.evidence]
    return {
        "device": one.device,
        "state": one.state.label,
        "units": round(one.score, 3),
        "days": one.days,
        "evidence": evidence,
        "units_by_day": list(one.history),
    }


def _period(watched: FleetReport) -> str:
    return f"{_date(watched.first)} to {_date(watched.first + watched.days - 1)} (UTC)"


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}"


def _boxes(watched: FleetReport) -> list[Block]:
    head = ("box", "state", "units", "days", "what speaks for it")
    notes = [Note(f"{note[0].upper()}{note[1:]}.") for note in watched.notes]
    return [
        Table("All boxes, worst first", head, [_row(one) for one in watched.boxes], "words"),
        *notes,
        Note(ABOUT),
    ]


def _row(one: BoxReport) -> list[str | Cell]:
    badge = Cell("", badge=Badge(BADGES[one.state], one.state.label))
    sentences = "; ".join(piece.sentence for piece in one.evidence)
    return [one.device, badge, number(round(one.score, 2)), str(one.days), sentences]


def _chart(one: BoxReport) -> dict[str, Any]:
    """A line of the units by day, and in words where it ends."""
    step = WIDTH / max(1, len(one.history) - 1)
    points = " ".join(f"{index * step:.1f},{_height(units):.1f}" for index, units in enumerate(one.history))
    rises = sum(before < THRESHOLDS[DriftState.LOOK] <= after for before, after in pairwise(one.history))
    words = (
        f"{one.device}: {one.score:.2g} units on the last day,"
        f" above {THRESHOLDS[DriftState.LOOK]:g} {plural(rises, 'time')}"
    )
    return {"device": one.device, "points": points, "words": words, "kind": BADGES[one.state]}


def _height(units: float) -> float:
    return HEIGHT * (1 - min(units, MOST) / MOST)
