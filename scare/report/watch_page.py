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
from scare.upkeep.drift import FROM, State, Verdict, Watch
from scare.words import plural

DAY = 86400
BADGES = {State.FINE: "good", State.LOOK: "fair", State.RECOLLOCATE: "bad"}
WIDTH, HEIGHT, MOST = 300, 60, 4.0  # of a small chart, and the units at its top
ABOUT = (
    "A box is compared with its own first days and with the median of the others, so weather and season, which move all"
    " of them, do not count. One unit is a change that one healthy box in a hundred shows, or five times the scatter of"
    f" these boxes. From {FROM[State.LOOK]:g} units on: look; from {FROM[State.RECOLLOCATE]:g} on: bring it back to the"
    " reference. This is no measurement of error: only a reference knows that."
)


def make_watch_page(watched: Watch, calibrator: Calibrator) -> str:
    """The whole page as text."""
    target = calibrator.target
    heading = f"{target.name}{f' [{display_unit(target.unit)}]' if target.unit else ''}"
    return render(
        "watch.html.j2",
        title=f"Fleet watch: {heading}",
        heading=heading,
        lead=f"{plural(len(watched.verdicts), 'device')}, {_period(watched)}.",
        tiles=[(str(count), words) for words, count in count_states(watched).items()],
        boxes=_boxes(watched),
        charts=[_chart(one) for one in watched.verdicts],
        levels=[round(_height(least), 1) for least in FROM.values()],
        width=WIDTH,
        height=HEIGHT,
        version=__version__,
        css=style(),
    )


def count_states(watched: Watch) -> dict[str, int]:
    """How many boxes are in each state, the worst first."""
    return {state.words: sum(one.state is state for one in watched.verdicts) for state in reversed(State)}


def as_plain(watched: Watch) -> dict[str, Any]:
    """The same as plain values, for machines."""
    return {
        "first_day": _date(watched.first),
        "last_day": _date(watched.first + watched.days - 1),
        "states": count_states(watched),
        "boxes": [_plain(one) for one in watched.verdicts],
        "notes": list(watched.notes),
    }


def _plain(one: Verdict) -> Mapping[str, Any]:
    evidence = [vars(piece) for piece in one.evidence]
    return {
        "device": one.device,
        "state": one.state.words,
        "units": round(one.score, 3),
        "days": one.days,
        "evidence": evidence,
        "units_by_day": list(one.history),
    }


def _period(watched: Watch) -> str:
    return f"{_date(watched.first)} to {_date(watched.first + watched.days - 1)} (UTC)"


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * DAY, UTC):%Y-%m-%d}"


def _boxes(watched: Watch) -> list[Block]:
    head = ("box", "state", "units", "days", "what speaks for it")
    notes = [Note(f"{note[0].upper()}{note[1:]}.") for note in watched.notes]
    return [
        Table("All boxes, worst first", head, [_row(one) for one in watched.verdicts], "words"),
        *notes,
        Note(ABOUT),
    ]


def _row(one: Verdict) -> list[str | Cell]:
    badge = Cell("", badge=Badge(BADGES[one.state], one.state.words))
    sentences = "; ".join(piece.sentence for piece in one.evidence)
    return [one.device, badge, number(round(one.score, 2)), str(one.days), sentences]


def _chart(one: Verdict) -> dict[str, Any]:
    """A line of the units by day, and in words where it ends."""
    step = WIDTH / max(1, len(one.history) - 1)
    points = " ".join(f"{index * step:.1f},{_height(units):.1f}" for index, units in enumerate(one.history))
    rises = sum(before < FROM[State.LOOK] <= after for before, after in pairwise(one.history))
    words = f"{one.device}: {one.score:.2g} units on the last day, above {FROM[State.LOOK]:g} {plural(rises, 'time')}"
    return {"device": one.device, "points": points, "words": words, "kind": BADGES[one.state]}


def _height(units: float) -> float:
    return HEIGHT * (1 - min(units, MOST) / MOST)
