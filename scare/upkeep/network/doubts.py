"""Encounters that cannot have been as the tables have it: boxes swapped or moved, wrong coordinates, broken sensors.

Two instruments in the same air differ by their noise only, which is much the same in all encounters. One with much
larger residuals is left out and explained: by another box that fits clearly better in its place, by other boxes of that
site with the same trouble, or by the day since when it is so. If nothing explains it, it tells a level that is less
sure, and no gain: low correlation may be the noise of a box. What only the solution can find, an encounter whose line
contradicts all others, is named by `contradictions`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from scare.upkeep.network.encounters import EncounterRules
from scare.upkeep.network.graph import Solution
from scare.upkeep.network.hours import NetworkHours
from scare.upkeep.network.noise import fit_noise
from scare.upkeep.network.relations import DISTANT, Relation, relate
from scare.words import listed

EXCESS_DEVIATIONS = 3.5  # by which residuals must exceed those of the fleet's other encounters to be doubted
LEAST_SPREAD = 0.15  # of the logarithm of residuals between encounters in one air
LONG_PAIRS, LONG_COUNT = 200, 8  # this many encounters with this many pairs tell the spread of a fleet
HOURS_PER_PAIR = 6.0  # hours of air that count as one independent pair
CANDIDATES, SAMPLED_HOURS = 50, 96  # that are looked at for a box in the place of another: most alike in some hours
CLEAR_ERRORS = 3.0  # standard errors that are more than chance
UNLIKE_AIR = 0.3  # standard deviation between levels of unlike air, in units of what is between low and high levels
ROUNDS = 3  # in which the fleet's noise is fitted without outliers
MAD_TO_DEVIATION = 1.4826  # from the median absolute deviation of normal numbers to their standard deviation


@dataclass(frozen=True)
class Doubt:
    """Something wrong with a network's tables or boxes: whom it concerns, and a sentence for people."""

    boxes: tuple[str, ...]
    sentence: str


def find_doubts(
    hours: NetworkHours, relations: Sequence[Relation], rules: EncounterRules | None = None
) -> tuple[list[Relation], list[Doubt]]:
    """Return the relations without those that cannot have been as the tables have it, and what seems to be wrong."""
    rules = rules or EncounterRules()
    if not relations:
        return [], []
    doubted = _have_excess(relations, hours.references)
    independent_pairs = np.array([relation.pairs for relation in relations]) / HOURS_PER_PAIR
    fisher_z = np.arctanh(np.clip([relation.correlation for relation in relations], -0.999, 0.999))
    # Doubted, too, if the correlation is too low even when chance has lowered it by `CLEAR_ERRORS` standard errors.
    doubted |= np.tanh(fisher_z + CLEAR_ERRORS * _standard_error(independent_pairs)) < rules.least_correlation
    # A session that goes on from a doubted one is doubted, too: an instrument that has left does not come back by then.
    ends = set()
    for index, relation in enumerate(relations):  # in the order of time
        meeting = relation.encounter
        doubted[index] |= (meeting.box, meeting.other, meeting.begin) in ends
        if doubted[index]:
            ends.add((meeting.box, meeting.other, meeting.end))
    trusted = [relation for relation, is_doubted in zip(relations, doubted, strict=True) if not is_doubted]
    left_out = [relation for relation, is_doubted in zip(relations, doubted, strict=True) if is_doubted]
    doubts, unexplained = _explain(hours, left_out, trusted)
    return [*trusted, *map(_level_only, unexplained)], doubts


def _level_only(relation: Relation) -> Relation:
    """Return a relation of instruments that may have been in unlike air: no gain, and a level that is less sure."""
    levels = [level for level, _ in relation.noise]  # below and above the median
    variance = relation.level_variance + (UNLIKE_AIR * (max(levels) - min(levels))) ** 2
    return replace(relation, level_variance=variance, slope_variance=np.inf)


def contradictions(solution: Solution) -> list[Doubt]:
    """Name the encounters that the robust weights of a solution have left out."""
    doubts = []
    for relation, weight in solution.doubtful():
        meeting = relation.encounter
        if relation.kind == DISTANT:
            continue  # the air of a place that is unlike the field is no mistake
        doubts.append(
            Doubt(
                (meeting.box, meeting.other),
                f"{meeting.box} beside {meeting.other} ({_days(meeting.begin, meeting.end)}) contradicts all other"
                f" encounters of the two and counts {weight:.0%}; compare them again",
            )
        )
    return doubts


def _have_excess(relations: Sequence[Relation], references: frozenset[str]) -> np.ndarray:
    """Return which relations have larger residuals than those of instruments in one air (bool [n]).

    Boxes of one type make errors together, for example in humid air, which only a reference shows. So if all relations
    with references have larger residuals than two boxes beside each other have, the smallest of them count as usual.
    """
    excess = _excess(relations, references)
    has_reference = np.array([relation.encounter.other in references for relation in relations])
    if has_reference.any() and not has_reference.all():
        usual_of_boxes = float(np.median(excess[~has_reference]))
        excess[has_reference] -= max(0.0, excess[has_reference].min() - usual_of_boxes)
    pairs = np.array([relation.pairs for relation in relations])
    usual = float(np.median(excess))
    # Long encounters, if there are enough of them, tell how much the excess differs without chance.
    distances = np.abs(excess - usual)[pairs >= LONG_PAIRS]
    spread = LEAST_SPREAD
    if len(distances) >= LONG_COUNT:
        spread = max(MAD_TO_DEVIATION * float(np.median(distances)), LEAST_SPREAD)
    chance = 1 / np.sqrt(2 * pairs / HOURS_PER_PAIR)  # standard error of the logarithm of a standard deviation
    return excess > usual + EXCESS_DEVIATIONS * np.hypot(spread, chance)


def _excess(relations: Sequence[Relation], references: frozenset[str]) -> np.ndarray:
    """Return how much larger than usual at its level the residuals of each relation are, as a logarithm [n].

    Residuals of two boxes are in the unit of a box and have the noise of both: the fleet's usual line converts them to
    the unit of the truth, and √2 to the noise of one box.
    """
    with_reference = [each for each in relations if each.encounter.other in references] or list(relations)
    gain = float(np.median([relation.slope for relation in with_reference]))
    intercept = float(np.median([relation.other_level - gain * relation.box_level for relation in with_reference]))
    points = []  # index of a relation, level and size of its residuals in the unit of the truth
    for index, relation in enumerate(relations):
        for level, size in relation.noise:
            if relation.encounter.other in references:
                points.append((index, level, size))
            else:
                points.append((index, intercept + gain * level, gain * size / np.sqrt(2)))
    indices, levels, sizes = (np.array(column) for column in zip(*points, strict=True))
    squares, is_usable = np.maximum(sizes.astype(float) ** 2, 1e-12), np.ones(len(indices), bool)
    # The usual size at each level is fitted to the points that are near it, again and again.
    for _ in range(ROUNDS):
        constant, of_square = fit_noise(levels[is_usable], squares[is_usable])
        usual_squares = np.maximum(constant + of_square * levels**2, 1e-12)
        ratio = np.log(squares / usual_squares) / 2  # logarithm of a ratio of sizes
        distance = np.abs(ratio - np.median(ratio))
        is_usable = distance <= 2 * max(MAD_TO_DEVIATION * float(np.median(distance)), LEAST_SPREAD)
    # The mean of each relation's points.
    return np.bincount(indices, ratio, minlength=len(relations)) / np.bincount(indices, minlength=len(relations))


def _standard_error(pairs: np.ndarray | float) -> np.ndarray | float:
    """Return the standard error of Fisher's z, from the number of independent pairs."""
    return 1 / np.sqrt(np.maximum(np.asarray(pairs) - 3, 1))


def _explain(
    hours: NetworkHours, left_out: list[Relation], trusted: list[Relation]
) -> tuple[list[Doubt], list[Relation]]:
    """Return the likeliest reason for each pair of instruments left out, and the relations that nothing explains."""
    by_box: dict[tuple[str, str], list[Relation]] = defaultdict(list)
    for relation in left_out:
        by_box[relation.encounter.box, relation.encounter.other].append(relation)
    at_site: dict[str, set[str]] = defaultdict(set)
    for relation in left_out:
        at_site[relation.encounter.site].add(relation.encounter.box)
    trusted_sites = {relation.encounter.site for relation in trusted}
    doubts, swapped, doubted_sites = [], set(), set()
    unexplained: list[Relation] = []
    for (box, other), relations in by_box.items():
        worst = min(relations, key=lambda relation: relation.correlation)
        meeting = worst.encounter
        encounters = [relation.encounter for relation in relations]
        days = _days(min(each.begin for each in encounters), max(each.end for each in encounters))
        finding = f"{box} and {other} ({days}) correlate at {worst.correlation:.2f} only"
        agreed_until = [
            relation.encounter.end
            for relation in trusted
            if (relation.encounter.box, relation.encounter.other) == (box, other)
        ]
        if agreed_until:
            moved = f"{finding}, and agreed until {_day(max(agreed_until))}: it was moved, or broke"
            doubts.append(Doubt((box,), f"{moved}; correct the table of stays, or inspect it"))
        elif instead := _better_in_its_place(hours, worst, trusted):
            if frozenset((box, instead)) not in swapped:
                swapped.add(frozenset((box, instead)))
                doubts.append(
                    Doubt(
                        (box, instead),
                        f"{box} and {instead} look swapped: {finding}, but {instead} fits in its place;"
                        " correct the table of stays",
                    )
                )
        elif len(at_site[meeting.site]) > 1 and meeting.site not in trusted_sites:
            if meeting.site not in doubted_sites:
                doubted_sites.add(meeting.site)
                names = listed(sorted(at_site[meeting.site]))
                doubts.append(
                    Doubt(
                        tuple(sorted(at_site[meeting.site])),
                        f"no box at {meeting.site} ({names}) is in the air of {other}; check the coordinates of"
                        f" {meeting.site}",
                    )
                )
        else:
            unexplained += relations
            doubts.append(
                Doubt(
                    (box,),
                    f"{finding}, so they were not in the same air, or one is broken, and only their levels are"
                    " compared; check stays and sensor",
                )
            )
    return doubts, unexplained


def _better_in_its_place(hours: NetworkHours, relation: Relation, trusted: Sequence[Relation]) -> str:
    """Return a box that stood elsewhere by the tables but fits this place clearly better; empty if there is none."""
    meeting = relation.encounter
    present: set[str] = set()  # beside the other instrument at that time
    for encounter in (each.encounter for each in trusted):
        is_meanwhile = encounter.begin < meeting.end and encounter.end > meeting.begin
        if is_meanwhile and meeting.other in (encounter.box, encounter.other):
            present |= {encounter.box, encounter.other}
    first_hour, other = hours.between(meeting.other, meeting.begin, meeting.end)
    begin = first_hour - hours.first
    window = hours.values[:, begin : begin + len(other)]  # [instruments, hours]
    excluded = {*hours.references, *present, meeting.other, meeting.box}
    rows = np.array([row for row, name in enumerate(hours.names) if name not in excluded], int)
    if len(rows) > CANDIDATES:  # a sample of the hours leaves the few that are worth comparing in all hours
        sample = np.linspace(0, len(other) - 1, min(SAMPLED_HOURS, len(other)), dtype=int)
        in_sample, _ = _correlations(window[np.ix_(rows, sample)], other[sample], SAMPLED_HOURS // 4)
        rows = rows[np.argsort(-in_sample, kind="stable")[:CANDIDATES]]
    if not len(rows):
        return ""
    correlations, counts = _correlations(window[rows], other, relation.pairs / 2)
    best = int(np.argmax(correlations))
    # Both as Fisher's z, whose standard error does not depend on the correlation.
    gain = np.arctanh(min(correlations[best], 0.999)) - np.arctanh(np.clip(relation.correlation, -0.999, 0.999))
    if gain < CLEAR_ERRORS * _standard_error(counts[best] / HOURS_PER_PAIR):
        return ""
    name = hours.names[rows[best]]
    in_its_place = relate(hours, [replace(meeting, box=name)])
    fits = in_its_place and not _have_excess([*trusted, *in_its_place], hours.references)[-1]
    return name if fits else ""


def _correlations(window: np.ndarray, other: np.ndarray, least_hours: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the correlation of each instrument [instruments, hours] with another one, and the hours that both have.

    The correlation is −1 if they have fewer than `least_hours`, or one of them is constant.
    """
    is_known = np.isfinite(window) & np.isfinite(other)
    counts = is_known.sum(axis=1)
    x, y = np.where(is_known, window, 0.0).astype(float), np.where(is_known, other, 0.0).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        x = np.where(is_known, x - (x.sum(axis=1) / counts)[:, None], 0.0)
        y = np.where(is_known, y - (y.sum(axis=1) / counts)[:, None], 0.0)
        correlations = (x * y).sum(axis=1) / np.sqrt(np.square(x).sum(axis=1) * np.square(y).sum(axis=1))
    return np.where((counts < least_hours) | np.isnan(correlations), -1.0, correlations), counts


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _days(begin: float, end: float) -> str:
    return f"{_day(begin)} to {_day(end)}"
