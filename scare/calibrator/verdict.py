"""The verdict on a calibrator in plain words: good, usable with care, or not usable, and why, in two sentences.

It depends on R² (the share of the reference's variation that is explained), on whether a straight line does as well, on
how often the intervals contain the reference, and on the number of rows. Terminal, card, page and report share it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import isfinite, sqrt
from typing import Any

from scare.calibrator.intervals import COVERAGE_FACT
from scare.data.quantities import display_unit
from scare.words import duration, plural

GOOD_R2 = 0.7  # the target of the US EPA's performance testing protocol for fine dust (EPA/600/R-20/280)
LEAST_R2 = 0.5  # below this, more of the variation is error than air
NO_BETTER = 1.02  # an error of up to so many times that of a straight line may be larger by chance
MISSED_COVERAGE = 0.1  # coverage that is lower than stated by more than this is a doubt
FEW_ROWS = 100  # fewer scored rows are a doubt
STEPS = {60.0: "one-minute", 600.0: "ten-minute", 3600.0: "hourly", 86400.0: "daily"}  # by seconds


class Level(StrEnum):
    """What a calibrator is good for."""

    GOOD = "good"
    CARE = "usable with care"
    NOT = "not usable"


@dataclass(frozen=True)
class Verdict:
    """The level, and two sentences: how much the calibrator explains, and the numbers behind it."""

    level: Level
    text: str

    def as_dict(self) -> dict[str, str]:
        """Return the plain values, for JSON."""
        return asdict(self)


def judge(
    accuracy: Mapping[str, Any], coverage: Mapping[str, Any] | None, step_seconds: float, unit: str
) -> Verdict | None:
    """Judge a calibrator by its accuracy on scored rows and by the coverage of its intervals.

    `accuracy` has `rows`, `rmse`, `r2` and `line_rmse` (None: unknown); `coverage` has the stated `level` of the
    intervals and the `share` of references that they contain. Returns None if the reference is constant.

    >>> poor = judge({"rows": 800, "rmse": 5.2, "r2": 0.14, "line_rmse": 5.6}, None, 3600.0, "ug/m3")
    >>> print(poor.text)  # doctest: +NORMALIZE_WHITESPACE
    Explains 14 % of the variation: not usable for hourly values. The typical error (RMSE) is 5.2 µg/m³,
    while the reference varies by 5.61; a straight line has an error of 5.6.
    """
    r2, rmse, line_rmse = accuracy["r2"], float(accuracy["rmse"]), accuracy.get("line_rmse")
    if r2 is None or not isfinite(r2):
        return None
    doubts = []
    comparison = ""
    if line_rmse is not None:
        line_is_better = rmse > NO_BETTER * line_rmse
        comparison = f"a straight line {'is better, with' if line_is_better else 'has'} an error of {line_rmse:.3g}"
        if line_is_better:
            doubts.append(comparison)
    if coverage and coverage["share"] < coverage["level"] - MISSED_COVERAGE:
        stated, covered = (f"{100 * coverage[name]:.0f} %" for name in ("level", "share"))
        doubts.append(f"the {stated} interval contains only {covered} of the references")
    if accuracy["rows"] < FEW_ROWS:
        doubts.append(f"only {plural(accuracy['rows'], 'row')} could be scored")
    level = Level.CARE if doubts or r2 < GOOD_R2 else Level.GOOD
    if r2 < LEAST_R2:
        level = Level.NOT
    shown_unit = f" {display_unit(unit)}" if unit else ""
    # R² = 1 - rmse² / variance gives the reference's standard deviation.
    spread = f", while the reference varies by {rmse / sqrt(1 - r2):.3g}" if r2 < 1 else ""
    values = f"{STEPS[step_seconds]} values" if step_seconds in STEPS else f"values every {duration(step_seconds)}"
    first = f"Explains {100 * max(0.0, r2):.0f} % of the variation: {level} for {values}."
    second = f"The typical error (RMSE) is {rmse:.3g}{shown_unit}{spread}"
    clauses = dict.fromkeys(filter(None, [second, comparison, *doubts]))  # the comparison may be a doubt, too
    return Verdict(level, f"{first} {'; '.join(clauses)}.")


def verdict_of(facts: Mapping[str, Any], step_seconds: float, unit: str) -> Verdict | None:
    """Return the verdict on the test rows that training scored; None for a calibrator without scores."""
    scores = facts.get("test_scores")
    if not scores:
        return None
    *_, of_calibrator = scores.values()  # after the scores of the candidates
    line_rmse = scores.get("linear", {}).get("rmse")
    return judge({**of_calibrator, "line_rmse": line_rmse}, facts.get(COVERAGE_FACT), step_seconds, unit)
