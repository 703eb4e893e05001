"""The score card: numbers with source, grade and provenance; and a user's demands on a card.

Made by `scoring` for `scare score`, a run's folder and reports. Its JSON format is published in
`scorecard.schema.json`.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from scare.calibrator.verdict import Verdict, judge
from scare.errors import DataError, UsageError
from scare.schema import convert, nan_to_none
from scare.scorecard.assessment import Assessment
from scare.scorecard.requirements import GRADES, YES_NO, Entry, Grade, RequirementTable
from scare.words import suggestion

SCHEMA = "scare/scorecard/2"
NO_CARD = "this is not a card that scare score wrote"
TIME_STEP = "time between readings"  # the baseline of the real-time measures
TRIVIAL_MS = 100.0  # no calibrator here takes as long, on any board
DECLARED = "declared"  # the source of measures in words: no demand can be made on them


@dataclass(frozen=True)
class Card:
    """Entries with the model, the target, the data and the board that they describe, and their provenance."""

    model: Mapping[str, Any]
    target: Mapping[str, str]
    entries: tuple[Entry, ...]
    dataset: Mapping[str, Any]
    board: Mapping[str, Any] | None
    provenance: Mapping[str, Any]
    comparison: tuple[Mapping[str, Any], ...] = ()
    devices: tuple[Mapping[str, Any], ...] = ()
    targets: tuple[Mapping[str, Any], ...] = ()

    def grades(self) -> dict[str, Grade | None]:
        """Grade each requirement by the worst grade of its entries that count.

        A requirement whose entries are not all graded has no grade (None), unless one of them is X (the worst) already.
        """
        graded: dict[str, list[Grade | None]] = {entry.requirement: [] for entry in self.entries}
        for entry in self.entries:
            counts = (entry.threshold or {}).get("counts", True)
            if counts and (entry.threshold or entry.grade):
                graded[entry.requirement].append(entry.grade)
        worst: dict[str, Grade | None] = {}
        for requirement, grades in graded.items():
            known = [grade for grade in grades if grade is not None]
            is_complete = bool(grades) and len(known) == len(grades)
            worst[requirement] = max(known, key=GRADES.index) if is_complete or Grade.POOR in known else None
        return worst

    def trivially_met(self) -> frozenset[str]:
        """Return the requirements that any calibrator meets, because a share of such a long time step bounds them."""
        trivial: dict[str, bool] = {}
        for entry in self.entries:
            bounds = entry.threshold or {}
            if bounds and bounds.get("counts", True):
                step_ms = bounds["yardstick_value"] if bounds["yardstick"] == TIME_STEP else None
                is_good = entry.grade == Grade.GOOD
                is_trivial = step_ms is not None and bounds["good"] * step_ms >= TRIVIAL_MS and is_good
                trivial[entry.requirement] = trivial.get(entry.requirement, True) and is_trivial
        return frozenset(name for name, is_trivial in trivial.items() if is_trivial)

    @property
    def assessments(self) -> tuple[Assessment, ...]:
        """How devices did against sets of targets: the card's `targets`, as records."""
        return convert(self.targets, tuple[Assessment, ...], "scorecard.json: targets", DataError)

    @property
    def interval_level(self) -> float:
        """The share of intervals that should contain the reference, such as 0.9; 0 if there are no intervals."""
        coverage = next((entry for entry in self.entries if entry.measure == "interval_coverage"), None)
        return float(coverage.detail.get("level", 0.0)) if coverage else 0.0

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the scored rows; None if the reference is constant there, or the card has no accuracy."""
        details = {entry.measure: entry.detail for entry in self.entries}
        if "r2" not in details.get("rmse", {}):
            return None
        accuracy = {**details["rmse"], "line_rmse": self.model.get("line_rmse")}
        return judge(accuracy, details.get("interval_coverage"), self.model["step_seconds"], self.target["unit"])

    def to_json(self) -> str:
        """Serialise the card in the format of `scorecard.schema.json`."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return the card as plain values for JSON, with None for NaN and infinity."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        entries = [asdict(entry) for entry in self.entries]
        derived = {"grades": self.grades(), "verdict": self.verdict.as_dict() if self.verdict else None}
        plain: dict[str, Any] = nan_to_none({"schema": SCHEMA, **facts, "entries": entries, **derived})
        return plain

    @staticmethod
    def from_json(text: str) -> "Card":
        """Read a card from JSON; raises DataError for anything else."""
        try:
            facts = json.loads(text)
        except ValueError as error:
            raise DataError(f"{NO_CARD}: {error}") from error
        if not isinstance(facts, dict) or facts.pop("schema", None) != SCHEMA:
            raise DataError(f"this is not a card in the format {SCHEMA}; write it again with scare score")
        return Card.from_dict(facts)

    @staticmethod
    def from_dict(facts: Mapping[str, Any]) -> "Card":
        """Rebuild a card from the values of `as_dict`, without the schema; grades and verdict are computed again."""
        known = {name: value for name, value in facts.items() if name not in ("grades", "verdict")}
        return convert(known, Card, NO_CARD, DataError)


@dataclass(frozen=True)
class Demand:
    """A user's condition for a card: a bound on a measure, or a grade of a measure or requirement."""

    name: str
    wanted: float | Grade  # the bound, or the worst grade that is accepted

    def missed(self, card: Card, table: RequirementTable) -> str:
        """Return why the card does not meet the demand; empty if it does."""
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
        return "" if met else f"{self.name} is {entry.value:.4g}{unit}, {limit} {self.wanted:g} was required"


def read_demands(text: str, table: RequirementTable) -> list[Demand]:
    """Parse demands such as `rmse=5,ram=20000,compatibility=O`.

    >>> read_demands("rmse=5,memory=O", RequirementTable.load())
    [Demand(name='rmse', wanted=5.0), Demand(name='memory', wanted=<Grade.GOOD: 'O'>)]
    """
    measures = {measure.name: measure for measure in table.measures.values() if measure.source != DECLARED}
    known = [*measures, *table.requirements]
    demands = []
    for part in filter(str.strip, text.split(",")):
        name, _, wanted = (side.strip() for side in part.partition("="))
        if name not in known:
            raise UsageError(f"--require: no requirement is called '{name}'{suggestion(name, known)}")
        is_graded = name in table.requirements or measures[name].good is not None
        if is_graded and wanted in GRADES[:-1]:  # nobody demands X
            demands.append(Demand(name, Grade(wanted)))
            continue
        try:
            bound = float(wanted)
        except ValueError:
            bound = math.nan
        if name in table.requirements or not math.isfinite(bound):
            kinds = [] if name in table.requirements else ["a number"]
            kinds += ["O or △"] if is_graded else []
            raise UsageError(f"--require: {name} takes {', '.join(kinds)}, not '{wanted}'")
        demands.append(Demand(name, bound))
    return demands


def missed_demands(demands: Iterable[Demand], card: Card, table: RequirementTable) -> list[str]:
    """Return a message for each demand that is not met."""
    return [message for demand in demands if (message := demand.missed(card, table))]


def read_card(path: Path) -> Card:
    """Read a card from a JSON file; raises a DataError that names the file."""
    try:
        return Card.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read {path}: {reason}; scare score --out writes it") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _reaches(grade: Grade | None, wanted: float | Grade) -> bool:
    """Whether a grade is known and at least as good as the wanted one."""
    return grade is not None and isinstance(wanted, Grade) and GRADES.index(grade) <= GRADES.index(wanted)
