"""The eight requirements and the measures that grade them, read from `requirements.toml`.

    Finding (a number, and what it is divided by) → RequirementTable.make_entry → Entry with unit, source and grade

A user's own TOML file may change thresholds and the measurement protocol, nothing else.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt

from scare.errors import UsageError
from scare.schema import Count, Positive, convert, load_toml, merge, with_names
from scare.words import suggestion

TABLE = Path(__file__).with_name("requirements.toml")
YES_NO = "yes/no"  # the unit of a 1 or a 0
Several = Annotated[int, Gt(1)]  # the jitter of latencies needs at least two


class Grade(StrEnum):
    """How well a requirement is met: O satisfied, △ partially satisfied, X not satisfied."""

    GOOD = "O"
    FAIR = "△"
    POOR = "X"


GRADES = list(Grade)  # best first


@dataclass(frozen=True)
class Requirement:
    """One of the eight requirements; its dimension is accuracy, real-time or efficiency."""

    name: str
    title: str
    dimension: str


@dataclass(frozen=True)
class Measure:
    """A number that measures a requirement; the unit "target" is that of the calibrated quantity."""

    name: str
    requirement: str
    label: str
    unit: str
    source: Literal["measured", "emulated", "counted", "declared"]
    how: str
    better: Literal["lower", "higher"] = "lower"
    baseline: str = ""  # what the number is divided by before it is compared
    good: Positive | None = None
    fair: Positive | None = None
    counts: bool = True  # towards the grade of the requirement; otherwise its own grade is for information

    def __post_init__(self) -> None:
        if (self.good is None) != (self.fair is None):
            raise UsageError(f"{self.name}: good and fair go together; give both")
        if self.good is not None and self.fair is not None and not self.meets(self.good, self.fair):
            raise UsageError(f"{self.name}: good is {self.good:g} and fair is {self.fair:g}; {self.better} is better")

    def grade(self, ratio: float) -> Grade | None:
        """Grade a number divided by its baseline; None without thresholds, or for NaN."""
        if math.isnan(ratio) or self.good is None or self.fair is None:
            return None
        if self.meets(ratio, self.good):
            return Grade.GOOD
        return Grade.FAIR if self.meets(ratio, self.fair) else Grade.POOR

    def meets(self, value: float, bound: float) -> bool:
        """Whether a value is at least as good as a bound in the same unit."""
        return value <= bound if self.better == "lower" else value >= bound


@dataclass(frozen=True)
class ScoreProtocol:
    """How often, how long and at what window lengths things are measured; requirements.toml explains each."""

    warm_ups: Count
    windows: Several
    rounds: Count
    request_hz: Positive
    blocks: Count
    block_seconds: Positive
    board_windows: Several
    lengths: tuple[Several, ...]

    def __post_init__(self) -> None:
        if len(self.lengths) < 2 or any(length >= other for length, other in pairwise(self.lengths)):
            raise UsageError(f"lengths takes two or more rising whole numbers, not {list(self.lengths)}")


@dataclass(frozen=True)
class Thresholds:
    """The bounds of good and fair numbers, for `RequirementChanges`."""

    good: Positive | None = None
    fair: Positive | None = None


@dataclass(frozen=True)
class RequirementChanges:
    """The part of the table that a user's own file may change."""

    measures: Mapping[str, Thresholds] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The value found for a measure, and what it is divided by (`per`) before it is graded.

    An unknown number is None and has no grade; the latency of something that cannot run is infinite and graded poor.
    """

    measure: str
    value: float | str | None
    per: float = 1.0
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One number of a card, with unit, source and grade."""

    requirement: str
    title: str
    dimension: str
    measure: str
    label: str
    value: float | str | None
    unit: str
    source: str
    grade: Grade | None
    threshold: Mapping[str, Any] | None
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class RequirementTable:
    """The table of requirements, measures and the measurement protocol."""

    requirements: Mapping[str, Requirement]
    measures: Mapping[str, Measure]
    protocol: ScoreProtocol

    @staticmethod
    def load(changes: Path | None = None) -> "RequirementTable":
        """Load the table; a TOML file `changes` may replace `good` and `fair` of `[measures.NAME]`, and `[protocol]`.

        >>> RequirementTable.load().measures["rmse"].good
        0.55
        """
        table = load_toml(TABLE)
        if changes is not None:
            changed = load_toml(changes)
            for name in convert(changed, RequirementChanges, changes).measures:
                if name not in table["measures"]:
                    raise UsageError(f"{changes}: no measure is called '{name}'{suggestion(name, table['measures'])}")
            table = merge(table, changed)
        named = {name: with_names(table[name]) for name in ("requirements", "measures")}
        return convert({**table, **named}, RequirementTable, changes or TABLE)

    def make_entry(self, finding: Finding, target_unit: str) -> Entry:
        """Grade a finding as an entry of a card."""
        measure = self.measures[finding.measure]
        requirement = self.requirements[measure.requirement]
        ratio = finding.value / finding.per if finding.per and isinstance(finding.value, int | float) else math.nan
        threshold = None
        if measure.good is not None:
            threshold = {
                **{name: getattr(measure, name) for name in ("better", "good", "fair")},
                "yardstick": measure.baseline,  # the card's format has this word for the baseline
                "yardstick_value": finding.per if measure.baseline else None,
                "ratio": _number(ratio),
                **({} if measure.counts else {"counts": False}),
            }
        return Entry(
            requirement=requirement.name,
            title=requirement.title,
            dimension=requirement.dimension,
            measure=measure.name,
            label=measure.label,
            value=_number(finding.value),
            unit=target_unit if measure.unit == "target" else measure.unit,
            source=measure.source,
            grade=measure.grade(ratio),
            threshold=threshold,
            detail=finding.detail,
        )


def _number(value: float | str | None) -> float | str | None:
    """Convert a number to float, and NaN and infinity, which JSON does not have, to None; text stays."""
    if value is None or isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else None
