"""How sure: what share of the rows scored the intervals hold, by concentration, by device and over time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from scare.calibrator.interval_words import lacks
from scare.report.blocks import Badge, Block, Note, Table, Verdict
from scare.report.errors import CENTRAL, FEW_ROWS, round_edges
from scare.report.numbers import NOTHING, number, percent, quantity
from scare.scorecard.coverage import cover
from scare.scorecard.run import Run
from scare.scorecard.series import Series, pool

HOUR = 3600.0
SPANS = (HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 28 * 24 * HOUR, 364 * 24 * HOUR)  # of time, a line of the table each
LINES = 16  # of a table over time, at most


def sureness(run: Run) -> list[Block]:
    """A sentence and three tables, or that there are no intervals."""
    level = _level(run)
    scored = pool([one.scored for one in run.series], "all devices together")
    whole = cover(scored.low, scored.high, scored.reference, level)
    if whole is None:
        return [Note("The calibrator has no intervals: its file is older, and keeps too few windows to derive them.")]
    less = lacks(level, whole.share)
    sentence = (
        f"{percent(level)} intervals hold the reference in {percent(whole.share, 1)} of {whole.rows:,} rows, and are"
        f" {quantity(whole.width, run.target.unit)} wide on average."
        f"{' That is less than they state: do not rely on them in a time like this one.' if less else ''}"
    )
    tables = {
        "By concentration": [(name, scored.rows(keep)) for name, keep in _concentrations(scored, run.target.unit)],
        "By device": [(one.device, one.scored) for one in run.series],
        "Over time": [(name, scored.rows(keep)) for name, keep in _periods(scored.times)],
    }
    badge = Badge("bad", "held too rarely") if less else Badge("good", "held as stated")
    return [Verdict(badge, sentence), *(_table(name, rows, level, run) for name, rows in tables.items())]


def _level(run: Run) -> float:
    """The share that the intervals state, as the card has it."""
    entry = next((one for one in run.card.entries if one.measure == "interval_coverage"), None)
    return float(entry.detail.get("level", 0.0)) if entry else 0.0


def _table(caption: str, parts: list[tuple[str, Series]], level: float, run: Run) -> Table:
    rows = []
    for name, part in parts:
        found = cover(part.low, part.high, part.reference, level) if len(part) >= FEW_ROWS else None
        cells = [percent(found.share, 1), quantity(found.width, run.target.unit)] if found else [NOTHING] * 2
        rows.append([name, f"{len(part):,}", *cells])
    return Table(caption, ("rows", "how many", "held", "mean width"), rows)


def _concentrations(scored: Series, unit: str) -> Iterator[tuple[str, np.ndarray]]:
    """Round spans of the reference, the outer ones with all beyond, and which rows are in each."""
    edges = round_edges(*np.percentile(scored.reference, CENTRAL).tolist())
    place = np.clip(np.searchsorted(edges, scored.reference, side="right") - 1, 0, len(edges) - 2)
    for index, (low, high) in enumerate(pairwise(edges.tolist())):
        yield f"{number(low)} to {quantity(high, unit)}", place == index


def _periods(times: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Spans of time, of the same length, that have rows, and which rows are in each."""
    span = next((one for one in SPANS if np.ptp(times) / one <= LINES), SPANS[-1])
    place = np.floor(times / span)
    for index in np.unique(place):
        begin = datetime.fromtimestamp(index * span, UTC)
        yield f"from {begin:%d %b %Y}" + (f" {begin:%H:%M}" if span < 24 * HOUR else ""), place == index
