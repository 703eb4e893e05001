"""Encounters that cannot have been as the tables have it: boxes swapped or moved, wrong coordinates, broken sensors.

Two instruments in the same air agree hour by hour. An encounter that correlates much less than the fleet's others is
left out and explained: by another box that fits clearly better in its place, by other boxes of that site with the same
trouble, or by the day since when it is so. What only the solution can find, an encounter whose line contradicts all
others, is named by `contradictions`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from scare.upkeep.network.encounters import EncounterRules
from scare.upkeep.network.graph import Solution
from scare.upkeep.network.hours import NetworkHours
from scare.upkeep.network.relations import Relation
from scare.words import listed

LOW = 4.0  # robust deviations below the fleet's usual correlation (as Fisher's z)
LEAST_SPREAD = 0.15  # of Fisher's z between encounters, if they agree even better
HOURS_PER_PAIR = 6.0  # hours of air that count as one independent pair
CLEAR = 3.0  # standard errors by which another instrument must fit better


@dataclass(frozen=True)
class Doubt:
    """Something wrong with a network's tables or boxes: whom it concerns, and a sentence for people."""

    boxes: tuple[str, ...]
    sentence: str


def find_doubts(
    hours: NetworkHours, relations: Sequence[Relation], rules: EncounterRules | None = None
) -> tuple[list[Relation], list[Doubt]]:
    """Return the relations without those of instruments in different air, and what seems to be wrong."""
    rules = rules or EncounterRules()
    if not relations:
        return [], []
    fit = np.arctanh(np.clip([relation.correlation for relation in relations], -0.999, 0.999))
    middle = np.median(fit)
    spread = max(1.4826 * float(np.median(np.abs(fit - middle))), LEAST_SPREAD)
    low = np.array([relation.correlation < rules.least_correlation for relation in relations])
    low |= fit < middle - LOW * np.hypot(spread, [_standard_error(relation.pairs) for relation in relations])
    kept = [relation for relation, is_low in zip(relations, low, strict=True) if not is_low]
    left_out = [relation for relation, is_low in zip(relations, low, strict=True) if is_low]
    return kept, _explain(hours, left_out, kept, float(np.tanh(middle - LOW * spread)))


def contradictions(solution: Solution) -> list[Doubt]:
    """Name the encounters that the robust weights of a solution have left out."""
    found = []
    for relation, weight in solution.doubtful():
        meeting = relation.encounter
        found.append(
            Doubt(
                (meeting.box, meeting.other),
                f"{meeting.box} beside {meeting.other} ({_days(meeting.begin, meeting.end)}) contradicts all other"
                f" encounters of the two and counts {weight:.0%}; compare them again",
            )
        )
    return found


def _standard_error(pairs: float) -> float:
    """Return the standard error of Fisher's z."""
    return 1 / np.sqrt(max(pairs / HOURS_PER_PAIR - 3, 1))


def _explain(hours: NetworkHours, left_out: list[Relation], kept: list[Relation], least: float) -> list[Doubt]:
    by_box: dict[tuple[str, str], list[Relation]] = defaultdict(list)
    for relation in left_out:
        by_box[relation.encounter.box, relation.encounter.other].append(relation)
    at_site: dict[str, set[str]] = defaultdict(set)
    for relation in left_out:
        at_site[relation.encounter.site].add(relation.encounter.box)
    fine = {relation.encounter.site for relation in kept}
    doubts, swapped, places = [], set(), set()
    for (box, other), relations in by_box.items():
        worst = min(relations, key=lambda relation: relation.correlation)
        meeting = worst.encounter
        days = _days(min(one.encounter.begin for one in relations), max(one.encounter.end for one in relations))
        weak = f"{box} and {other} ({days}) correlate at {worst.correlation:.2f} only"
        if instead := _better_in_its_place(hours, worst, least):
            if frozenset((box, instead)) not in swapped:
                swapped.add(frozenset((box, instead)))
                doubts.append(
                    Doubt(
                        (box, instead),
                        f"{box} and {instead} look swapped: {weak}, but {instead} fits in its place;"
                        " correct the table of stays",
                    )
                )
        elif len(at_site[meeting.site]) > 1 and meeting.site not in fine:
            if meeting.site not in places:
                places.add(meeting.site)
                names = listed(sorted(at_site[meeting.site]))
                doubts.append(
                    Doubt(
                        tuple(sorted(at_site[meeting.site])),
                        f"no box at {meeting.site} ({names}) is in the air of {other}; check the coordinates of"
                        f" {meeting.site}",
                    )
                )
        elif before := [one for one in kept if (one.encounter.box, one.encounter.other) == (box, other)]:
            since = max(one.encounter.end for one in before)
            moved = f"{weak}, and agreed until {_day(since)}: it was moved, or broke"
            doubts.append(Doubt((box,), f"{moved}; correct the table of stays, or inspect it"))
        else:
            doubts.append(
                Doubt((box,), f"{weak}, so they were not in the same air, or one is broken; check stays and sensor")
            )
    return doubts


def _better_in_its_place(hours: NetworkHours, relation: Relation, least: float) -> str:
    """Return the box that fits clearly better beside the other instrument of an encounter; "" if there is none."""
    meeting = relation.encounter
    low, other = hours.between(meeting.other, meeting.begin, meeting.end)
    window = hours.values[:, low - hours.first : low - hours.first + len(other)].astype(float)
    known = np.isfinite(window) & np.isfinite(other)
    counts = known.sum(axis=1)
    x, y = np.where(known, window, 0.0), np.where(known, other, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        x = np.where(known, x - (x.sum(axis=1) / counts)[:, None], 0.0)
        y = np.where(known, y - (y.sum(axis=1) / counts)[:, None], 0.0)
        correlations = (x * y).sum(axis=1) / np.sqrt(np.square(x).sum(axis=1) * np.square(y).sum(axis=1))
    out = [k for k, name in enumerate(hours.names) if name in (*hours.references, meeting.other, meeting.box)]
    correlations[out] = -1.0
    correlations[counts < relation.pairs / 2] = -1.0
    best = int(np.nanargmax(correlations))
    gain = np.arctanh(min(correlations[best], 0.999)) - np.arctanh(np.clip(relation.correlation, -0.999, 0.999))
    clear = correlations[best] >= least and gain > CLEAR * _standard_error(float(counts[best]))
    return hours.names[best] if clear else ""


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _days(begin: float, end: float) -> str:
    return f"{_day(begin)} to {_day(end)}"
