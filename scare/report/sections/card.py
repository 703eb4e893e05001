"""The scorecard: every number with its grade, its bounds and its source."""

from collections.abc import Mapping
from typing import Any

from scare.report.blocks import Badge, Block, Cell, Note, Table
from scare.report.numbers import NOTHING, number, quantity
from scare.scorecard.card import Card
from scare.scorecard.requirements import YES_NO, Entry, Measure, Requirements

GRADES = {
    "O": ("good", "O\u2002met"),
    "△": ("fair", "△\u2002partly"),
    "X": ("bad", "X\u2002missed"),
    None: ("none", "not graded"),
}
DIMENSIONS = {"accuracy": "Accuracy", "real-time": "Real time", "efficiency": "Efficiency"}


def grade_badge(grade: Any) -> Badge:
    """O, △ or X with its word, or that there is none."""
    return Badge(*GRADES.get(grade, GRADES[None]))


def scorecard(card: Card) -> list[Block]:
    """A table for each dimension; under each requirement with its grade, a row for every number."""
    head = ("measure", "value", "grade", "O from", "△ from", "source")
    measures, blocks = Requirements.load().measures, list[Block]()
    for name, title in DIMENSIONS.items():
        rows: list[list[str | Cell]] = []
        for requirement, grade in card.grades().items():
            entries = [one for one in card.entries if (one.dimension, one.requirement) == (name, requirement)]
            if entries:
                rows += [
                    [Cell(entries[0].title, badge=grade_badge(grade))],
                    *(_entry(one, measures.get(one.measure)) for one in entries),
                ]
        blocks += [Table(title, head, rows, "words card")] if rows else []
    legend = (
        "O: the requirement is met; △: partly; X: missed. A requirement has the worst grade of its numbers, and none if"
        " one with bounds is not known; those without bounds inform. Measured: on a computer; emulated: on a virtual"
        " board; counted: in the model's plan; declared: by the model's file."
    )
    return [*blocks, Note(legend)]


def _entry(entry: Entry, measure: Measure | None) -> list[str | Cell]:
    good, fair = bounds(entry.threshold or {}, entry.unit)
    value = _value(entry.value, entry.unit) if entry.value is not None else entry.detail.get("reason", NOTHING)
    how = measure.how.replace("`", "") if measure else ""
    return [Cell(entry.label, how), value, entry.grade or "", good, fair, entry.source]


def _value(value: Any, of: str) -> str:
    if of == YES_NO:
        return {1: "yes", 0: "no"}.get(value, number(value))
    return value if isinstance(value, str) else quantity(value, of)


def bounds(threshold: Mapping[str, Any], of: str) -> tuple[str, str]:
    """Where O and where △ begins, in the unit of the value."""
    good, fair = threshold.get("good"), threshold.get("fair")
    unknown = threshold.get("yardstick") and threshold["yardstick_value"] is None
    if good is None or fair is None or unknown:
        return "", ""
    if of == YES_NO:
        return "yes", ""
    sign = "≤" if threshold["better"] == "lower" else "≥"
    factor = threshold["yardstick_value"] or 1.0
    return f"{sign} {quantity(factor * good, of)}", f"{sign} {quantity(factor * fair, of)}"
