"""Plan the next encounters: which box to carry where, so that the fleet's worst uncertainty falls most with each trip.

The covariance after an encounter does not depend on what will be read in it, so what each possible trip brings is
computed exactly, as if the encounter took place at the end of the readings. One trip after the other is chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scare.upkeep.network.graph import REFERENCE_NODE, Solution
from scare.upkeep.network.relations import BESIDE

WORST = 5  # boxes that are considered for each trip, the most uncertain first
BEST = 3  # boxes that are considered as a partner, the least uncertain first


@dataclass(frozen=True)
class Trip:
    """A proposed encounter: a box beside another one or a reference, with uncertainties before and after it."""

    box: str
    beside: str
    days: float
    before: float  # standard deviation of the box
    after: float
    worst_before: float  # of the fleet's worst box
    worst_after: float


class Planner:
    """The covariance of all boxes at the end of the readings, while encounters are added."""

    def __init__(self, solution: Solution, days: float) -> None:
        self.solution, self.days = solution, days
        # A box changes with time, so it has a node for each of its weeks: here the one at the end [boxes].
        self._last = np.array([solution.last_node(box) for box in solution.boxes])
        self._reliabilities = np.array([solution.reliability(box) for box in solution.boxes])
        self._covariances = solution.covariances[self._last].copy()
        # Of each encounter in the plan, as `with_encounter` returned them: the covariance of all nodes with the
        # difference that it measures [nodes, 2, 2], and the inverse of that difference's variance with noise [2, 2].
        self._added: list[tuple[np.ndarray, np.ndarray]] = []
        # Variances of level and log gain after an encounter with a box and with a reference.
        self.noise = [_noise_of_an_encounter(solution, beside_reference, days) for beside_reference in (False, True)]

    def uncertainties(self, covariances: np.ndarray | None = None) -> np.ndarray:
        """Return the standard deviation of each box's line; without `covariances` those of the plan so far are used."""
        covariances = self._covariances if covariances is None else covariances
        squares = covariances[:, 0, 0] + self.solution.spread**2 * covariances[:, 1, 1]
        return self._reliabilities * np.sqrt(squares)

    def with_encounter(self, box: str, other: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the boxes' covariances [boxes, 2, 2] after an encounter, and the two arrays that `add` needs for it.

        The encounter measures the difference of box and other. The arrays are the covariance of all nodes with that
        difference [nodes, 2, 2], and the inverse of its variance with noise [2, 2].
        """
        solution = self.solution
        node, partner = solution.last_node(box), REFERENCE_NODE
        if other in solution.first_node:
            partner = solution.last_node(other)
        difference = np.zeros((solution.system.graph.nodes, 2, 2))  # its coefficients
        difference[node] += np.eye(2)
        if partner != REFERENCE_NODE:
            difference[partner] -= np.eye(2)
        across = solution.system.elimination.solve(solution.factor, difference)
        # Encounters that are in the plan already have lowered the covariances.
        for planned_across, planned_inverse in self._added:
            overlap = np.einsum("nij,nik->jk", difference, planned_across)
            across = across - planned_across @ (planned_inverse @ overlap.T)
        variance = np.einsum("nij,nik->jk", difference, across)  # of the difference [2, 2]
        noise = self.noise[1 if partner == REFERENCE_NODE else 0]
        inverse = np.linalg.inv(variance + np.diag(noise))
        # As in a Kalman filter, covariances fall by what the measured difference tells.
        of_boxes = across[self._last]
        return self._covariances - of_boxes @ inverse @ np.swapaxes(of_boxes, 1, 2), across, inverse

    def add(self, covariances: np.ndarray, across: np.ndarray, inverse: np.ndarray) -> None:
        """Make an encounter part of the plan; the arguments are what `with_encounter` returned for it."""
        self._covariances = covariances
        self._added.append((across, inverse))


def plan_trips(
    solution: Solution, references: Sequence[str], count: int = 5, days: float = 7.0, stay: Sequence[str] = ()
) -> list[Trip]:
    """Propose trips of so many days, the most useful first; boxes of `stay` are not carried, but others may come."""
    planner = Planner(solution, days)
    trips = []
    for _ in range(count):
        now = planner.uncertainties()
        order = np.argsort(-now, kind="stable")  # the most uncertain box first
        worst = [solution.boxes[index] for index in order[:WORST]]
        best = [solution.boxes[index] for index in order[::-1] if solution.boxes[index] not in stay][:BEST]
        options = []
        for box in worst:
            for other in (*(references if box not in stay else ()), *best):
                if other != box:
                    update = planner.with_encounter(box, other)
                    after = planner.uncertainties(update[0])
                    options.append((float(after.max()), float(after.mean()), box, other, after, update))
        if not options:
            break
        # The option that leaves the lowest worst uncertainty, and among equals the lowest mean.
        worst_after, _, box, other, after, update = min(options, key=lambda option: option[:2])
        index = solution.boxes.index(box)
        trips.append(Trip(box, other, days, float(now[index]), float(after[index]), float(now.max()), worst_after))
        planner.add(*update)
    return trips


def _noise_of_an_encounter(solution: Solution, beside_reference: bool, days: float) -> np.ndarray:
    """Return the variances of level and log gain that an encounter of so many days leaves, judged by past encounters.

    If no past one was of its kind, the others are used: two boxes have twice the variance of a box and a reference.
    """
    references = solution.system.graph.references
    beside = [relation for relation in solution.relations if relation.kind == BESIDE] or solution.relations
    of_this_kind = [relation for relation in beside if (relation.encounter.other in references) == beside_reference]
    factor = 1.0
    if not of_this_kind:
        factor = 0.5 if beside_reference else 2.0
    rates = []  # variances of level and log gain after one day of pairs
    for relation in of_this_kind or beside:
        pair_days = relation.pairs / 24
        log_variance = relation.slope_variance / relation.slope**2
        rates.append((relation.level_variance * pair_days, log_variance * pair_days))
    usual = factor * np.median(rates, axis=0) / days
    # Infinite if no past encounter told the gain; a large finite variance keeps the inverse defined.
    return np.square(solution.deviations.get(BESIDE, (0.0, 0.0))) + np.minimum(usual, 1e6)
