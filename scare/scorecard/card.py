"""The card: one line for every number, with source and grade, and where all of it came from. Its form is published
in `scorecard.schema.json`.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from scare.errors import DataError, UsageError
from scare.records import convert
from scare.scorecard.requirements import GRADES, YES_NO, Entry, Grade, RequirementTable
from scare.words import suggestion

SCHEMA = "scare/scorecard/1"
NO_CARD = "it is no card that scare score wrote"
DECLARED = "declared"  # the source of what is told in words: there is no number to ask for


@dataclass(frozen=True)
class Card:
    """Entries with the model, the target, the data, the board and the origin they speak of."""

    model: Mapping[str, Any]
    target: Mapping[str, str]
    entries: tuple[Entry, ...]
    dataset: Mapping[str, Any]
    board: Mapping[str, Any] | None
    provenance: Mapping[str, Any]
    comparison: tuple[Mapping[str, Any], ...] = ()
    devices: tuple[Mapping[str, Any], ...] = ()
    targets: Mapping[str, Any] | None = None

    def grades(self) -> dict[str, Grade | None]:
        """The grade of each requirement: the worst of its entries with thresholds that count.

        X if one is; otherwise none where one of them is not known.
        """
        graded: dict[str, list[Grade | None]] = {entry.requirement: [] for entry in self.entries}
        for entry in self.entries:
            counts = (entry.threshold or {}).get("counts", True)
            graded[entry.requirement] += [entry.grade] if counts and (entry.threshold or entry.grade) else []
        return {requirement: _worst(grades) for requirement, grades in graded.items()}

    def to_json(self) -> str:
        """The card as the schema has it."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The card as plain values; None for a number that JSON does not have."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        entries = [asdict(entry) for entry in self.entries]
        plain: dict[str, Any] = _plain({"schema": SCHEMA, **facts, "entries": entries, "grades": self.grades()})
        return plain

    @staticmethod
    def from_json(text: str) -> "Card":
        """The card in a text; another text is refused."""
        try:
            facts = json.loads(text)
        except ValueError as error:
            raise DataError(f"{NO_CARD}: {error}") from error
        if not isinstance(facts, dict) or facts.pop("schema", None) != SCHEMA:
            raise DataError(f"it is no card of the form {SCHEMA}; make it again with scare score")
        return Card.from_dict(facts)

    @staticmethod
    def from_dict(facts: Mapping[str, Any]) -> "Card":
        """The card of what `as_dict` gave, without its schema."""
        known = {name: value for name, value in facts.items() if name != "grades"}
        return convert(known, Card, NO_CARD, DataError)


@dataclass(frozen=True)
class Demand:
    """What the user asks for: a bound on a measure, or a grade of a measure or requirement."""

    name: str
    wanted: float | Grade

    def missed(self, card: Card, table: RequirementTable) -> str:
        """Why the card does not meet it; an empty text when it does."""
        if self.name in table.requirements:
            grade = card.grades().get(self.name)
            return "" if _reaches(grade, self.wanted) else f"{self.name} is {grade or 'not graded'}, not {self.wanted}"
        entry = next((entry for entry in card.entries if entry.measure == self.name), None)
        if entry is None or not isinstance(entry.value, float):
            return f"{self.name} has no value here"
        if isinstance(self.wanted, Grade):
            met = _reaches(entry.grade, self.wanted)
            return "" if met else f"{self.name} is {entry.grade or 'not graded'}, not {self.wanted}"
        measure = table.measures[self.name]
        limit = "at most" if measure.better == "lower" else "at least"
        unit = "" if entry.unit in ("", YES_NO) else f" {entry.unit}"
        met = measure.meets(entry.value, self.wanted)
        return "" if met else f"{self.name} is {entry.value:.4g}{unit}, asked for was {limit} {self.wanted:g}"


def read_demands(text: str, table: RequirementTable) -> list[Demand]:
    """Demands from `rmse=5,ram=20000,compatibility=O`.

    >>> read_demands("rmse=5,memory=O", RequirementTable.load())
    [Demand(name='rmse', wanted=5.0), Demand(name='memory', wanted=<Grade.GOOD: 'O'>)]
    """
    return [_demand(part.strip(), table) for part in text.split(",") if part.strip()]


def _demand(text: str, table: RequirementTable) -> Demand:
    name, _, wanted = (part.strip() for part in text.partition("="))
    measures = {one.name: one for one in table.measures.values() if one.source != DECLARED}
    known = [*measures, *table.requirements]
    if name not in known:
        raise UsageError(f"--require: no requirement is called '{name}'{suggestion(name, known)}")
    graded = name in table.requirements or measures[name].good is not None
    if graded and wanted in GRADES[:-1]:
        return Demand(name, Grade(wanted))
    try:
        bound = float(wanted)
    except ValueError:
        bound = math.nan
    if name in table.requirements or not math.isfinite(bound):
        kinds = ["a number"] * (name not in table.requirements) + ["O or △"] * graded
        raise UsageError(f"--require: {name} takes {', '.join(kinds)}, not '{wanted}'")
    return Demand(name, bound)


def missed_demands(demands: Iterable[Demand], card: Card, table: RequirementTable) -> list[str]:
    """A sentence for each demand that is not met."""
    return [sentence for demand in demands if (sentence := demand.missed(card, table))]


def read_card(path: Path) -> Card:
    """The card in a file."""
    try:
        return Card.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read {path}: {reason}; scare score --out writes it") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _worst(grades: Sequence[Grade | None]) -> Grade | None:
    known = [grade for grade in grades if grade is not None]
    certain = Grade.POOR in known or len(known) == len(grades) > 0
    return max(known, key=GRADES.index) if certain else None


def _reaches(grade: Grade | None, wanted: float | Grade) -> bool:
    return grade is not None and isinstance(wanted, Grade) and GRADES.index(grade) <= GRADES.index(wanted)


def _plain(value: Any) -> Any:
    """Plain values of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value) if isinstance(value, Grade) else value


# What a card tells beyond its measures: accuracy and agreement by device, and EPA's targets.
