"""How much wider than the model says intervals have to be: references are hidden in turn and estimated without.

Where several references are known, the boxes beside one of them tell what the others would have made of them. Only
boxes that stood beside a reference are solved again, and no more than are needed, so that it takes little time.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scare.errors import DataError
from scare.upkeep.network.encounters import Encounter
from scare.upkeep.network.graph import ASSUMED_COUNT, DOUBTFUL_WEIGHT, Solution
from scare.upkeep.network.hours import NetworkHours
from scare.upkeep.network.relations import BESIDE

MOST_REFERENCES, MOST_BOXES = 10, 20  # that are hidden in turn; that are solved again beside each
LEVEL = 0.9  # of the intervals whose half-width `Solution.interval` returns


def learn_width(hours: NetworkHours, solution: Solution, solve: Callable[[NetworkHours], Solution]) -> float:
    """Return the factor by which intervals of boxes have to be wider, at least 1; 1 if only one reference is known.

    `solve` solves the network of some of its instruments. Each box beside a hidden reference tells by which factor its
    intervals would hold 90 % of that reference's readings. The geometric mean is drawn to 1 as if `ASSUMED_COUNT` boxes
    had told 1.
    """
    meetings: dict[str, dict[str, list[Encounter]]] = {}  # of each reference, by box
    for relation, weight in zip(solution.relations, solution.weights, strict=True):
        box, reference = relation.encounter.box, relation.encounter.other
        if relation.kind == BESIDE and reference in hours.references and weight >= DOUBTFUL_WEIGHT:
            of_boxes = meetings.setdefault(reference, defaultdict(list))
            if box in of_boxes or len(of_boxes) < MOST_BOXES:
                of_boxes[box].append(relation.encounter)
    meetings = dict(list(meetings.items())[:MOST_REFERENCES])
    if len(meetings) < 2:
        return 1.0
    known_boxes = {box for of_boxes in meetings.values() for box in of_boxes}
    log_factors = []
    for reference, of_boxes in meetings.items():
        try:
            without = solve(_only(hours, known_boxes | hours.references - {reference}))
        except DataError:
            continue  # the other references tell nothing of these boxes
        log_factors += [_log_factor(hours, without, encounters, reference) for encounters in of_boxes.values()]
    return float(np.exp(max(0.0, sum(log_factors)) / (len(log_factors) + ASSUMED_COUNT)))


def _only(hours: NetworkHours, names: set[str] | frozenset[str]) -> NetworkHours:
    kept = tuple(name for name in hours.names if name in names)
    return replace(
        hours, names=kept, values=hours.values[[hours.row[name] for name in kept]], references=hours.references & names
    )


def _log_factor(hours: NetworkHours, without: Solution, encounters: list[Encounter], reference: str) -> float:
    """Return by how much intervals have to be wider to hold 90 % of the hidden reference, as a logarithm."""
    ratios = []
    for encounter in encounters:
        _, readings = hours.between(encounter.box, encounter.begin, encounter.end)
        _, truth = hours.between(reference, encounter.begin, encounter.end)
        errors = without.estimate(encounter.box, encounter.middle).calibrate(readings) - truth
        ratios.append(np.abs(errors) / without.interval(encounter.box, readings, encounter.middle))
    return float(np.log(max(np.nanquantile(np.concatenate(ratios), LEVEL), 1e-3)))
