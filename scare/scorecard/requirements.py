"""The eight requirements and every number that speaks of one: `requirements.toml` is the table, here it is read.

Rooms' measurements come as findings (a number and what it is compared with); `judge` makes entries of them: with
unit, source and grade. A user's own file changes thresholds and the protocol, nothing else.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from scare.errors import UsageError
from scare.words import suggestion

TABLE = Path(__file__).with_name("requirements.toml")
THRESHOLDS = ("good", "fair")
YES_NO = "yes/no"  # the unit of a 1 or a 0
AT_LEAST_TWO = ("windows", "board_windows")  # one latency has no jitter


class Grade(StrEnum):
    """Satisfied, partially satisfied, not satisfied."""

    GOOD = "O"
    FAIR = "△"
    POOR = "X"


GRADES = list(Grade)  # best first


@dataclass(frozen=True)
class Requirement:
    """One of the eight, and its dimension: accuracy, real-time or efficiency."""

    name: str
    title: str
    dimension: str


@dataclass(frozen=True)
class Measure:
    """One number that speaks of a requirement; `unit` "target" is that of the calibrated quantity."""

    name: str
    requirement: str
    label: str
    unit: str
    source: str  # measured, emulated, counted or declared
    how: str
    better: str = "lower"
    yardstick: str = ""  # what the number is divided by before it is compared
    good: float | None = None
    fair: float | None = None

    def __post_init__(self) -> None:
        if self.good is None or self.fair is None:
            if self.good != self.fair:
                raise UsageError(f"{self.name}: good and fair go together; give both")
        elif not self.meets(self.good, self.fair):
            raise UsageError(f"{self.name}: good is {self.good:g} and fair is {self.fair:g}; {self.better} is better")

    def grade(self, ratio: float) -> Grade | None:
        """The grade of a number divided by its yardstick; None without thresholds, or if it is NaN."""
        if math.isnan(ratio) or self.good is None or self.fair is None:
            return None
        if self.meets(ratio, self.good):
            return Grade.GOOD
        return Grade.FAIR if self.meets(ratio, self.fair) else Grade.POOR

    def meets(self, value: float, bound: float) -> bool:
        """Whether a value is at least as good as a bound in the same unit."""
        return value <= bound if self.better == "lower" else value >= bound


@dataclass(frozen=True)
class Protocol:
    """How often, how long and at what lengths things are measured (requirements.toml says what each is)."""

    warm_ups: int
    windows: int
    rounds: int
    request_hz: float
    blocks: int
    block_seconds: float
    board_windows: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Finding:
    """A number found, and what it is divided by before it is graded.

    What is not known is None and has no grade; what never ends is infinite and is graded as that.
    """

    measure: str
    value: float | str | None
    per: float = 1.0
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A line of the card."""

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
class Requirements:
    """The whole table."""

    requirements: Mapping[str, Requirement]
    measures: Mapping[str, Measure]
    protocol: Protocol

    @staticmethod
    def load(changes: Path | None = None) -> "Requirements":
        """The table, changed by a TOML with `[measures.NAME]` of `good` and `fair`, and `[protocol]`.

        >>> Requirements.load().measures["rmse"].good
        0.55
        """
        table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
        requirements = {name: Requirement(name, **facts) for name, facts in table["requirements"].items()}
        measures = {name: Measure(name, **facts) for name, facts in table["measures"].items()}
        protocol = Protocol(**{**table["protocol"], "lengths": tuple(table["protocol"]["lengths"])})
        known = Requirements(requirements, measures, protocol)
        return known if changes is None else known._changed(changes)

    def judge(self, finding: Finding, target_unit: str) -> Entry:
        """A finding as a line of the card."""
        measure = self.measures[finding.measure]
        requirement = self.requirements[measure.requirement]
        ratio = finding.value / finding.per if finding.per and isinstance(finding.value, int | float) else math.nan
        threshold = None
        if measure.good is not None:
            facts = {name: getattr(measure, name) for name in ("better", *THRESHOLDS, "yardstick")}
            yardstick = finding.per if measure.yardstick else None
            threshold = {**facts, "yardstick_value": yardstick, "ratio": _number(ratio)}
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

    def to_markdown(self) -> str:
        """The table as docs/scorecard.md has it."""
        lines = ["| requirement | measure | unit | source | how | O | △ |", "|---|---|---|---|---|---|---|"]
        for one in self.measures.values():
            sign = "≤" if one.better == "lower" else "≥"
            bounds = [f"{sign} {bound:g}" if bound is not None else "" for bound in (one.good, one.fair)]
            how = f"{one.how}; compared with {one.yardstick}" if one.yardstick else one.how
            title = self.requirements[one.requirement].title
            lines.append(f"| {' | '.join([title, f'`{one.name}`', one.unit, one.source, how, *bounds])} |")
        return "\n".join(lines) + "\n"

    def _changed(self, path: Path) -> "Requirements":
        table = _read_changes(path)
        _check_names(path, table, ("measures", "protocol"), "section")
        given = table.get("measures", {})
        _check_names(path, given, self.measures, "measure")
        changed = {name: _changed_measure(path, self.measures[name], facts) for name, facts in given.items()}
        protocol = _changed_protocol(path, self.protocol, table)
        return replace(self, measures={**self.measures, **changed}, protocol=protocol)


def _changed_measure(path: Path, measure: Measure, facts: Any) -> Measure:
    _check_names(path, facts, THRESHOLDS, f"threshold of {measure.name}")
    bounds = {key: _above(path, f"{measure.name}.{key}", value, float) for key, value in facts.items()}
    try:
        return replace(measure, **bounds)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def _changed_protocol(path: Path, protocol: Protocol, table: Mapping[str, Any]) -> Protocol:
    kinds = {one.name: one.type for one in fields(Protocol)}
    given = table.get("protocol", {})
    _check_names(path, given, kinds, "setting of the protocol")
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name == "lengths":
            changes[name] = _rising(path, name, value)
        else:
            changes[name] = _above(path, name, value, kinds[name], limit=int(name in AT_LEAST_TWO))
    return replace(protocol, **changes)


def _read_changes(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


def _check_names(path: Path, given: Any, known: Any, what: str) -> None:
    if not isinstance(given, dict):
        raise UsageError(f"{path}: a {what} is expected where there is {given!r}")
    for name in given:
        if name not in known:
            raise UsageError(f"{path}: no {what} is called '{name}'{suggestion(name, known)}")


def _above(path: Path, name: str, value: Any, kind: Any, limit: int = 0) -> Any:
    """A number above a limit, whole where it must be."""
    right, whole = (int, "whole ") if kind is int else ((int, float), "")
    if isinstance(value, bool) or not isinstance(value, right) or not limit < value < math.inf:
        raise UsageError(f"{path}: {name} takes a {whole}number above {limit or 'zero'}, not {value!r}")
    return kind(value)


def _rising(path: Path, name: str, value: Any) -> tuple[int, ...]:
    """Two whole numbers or more above 1, each greater than the one before."""
    numbers = tuple(_above(path, name, one, int, limit=1) for one in value) if isinstance(value, list) else ()
    if len(numbers) < 2 or any(one >= other for one, other in pairwise(numbers)):
        raise UsageError(f"{path}: {name} takes two or more rising whole numbers, not {value!r}")
    return numbers


def _number(value: float | str | None) -> float | str | None:
    """The number as a float; None for one that JSON does not have."""
    if value is None or isinstance(value, str):
        return value
    return float(value) if math.isfinite(value) else None
