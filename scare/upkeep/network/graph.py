"""The graph of a network, solved: for each box, gain and level over time with their covariance.

    relations → nodes (a box in a week) and equations → `solve` → `Solution`

The truth is p + level + gain · (value − m), where p is a usual truth (the pivot) and m a box's median reading (its
middle), so that level and gain tell different things, however large a box's zero is. Level and the logarithm of gain
are unknown at each node; the equations are linear in them near the last solution. They are:

| group | equation | variance |
|---|---|---|
| `fleet` | the nodes of a box, together counting as one = its type's mean | learned: how much boxes of a type differ |
| `ageing` | a node = the node before | learned, for each year between them: a random walk |
| `beside` | both instruments of an encounter give one truth, a reference's is known | the relation's, and learned |
| `distant` | as `beside`, with the air of a place, which is read by the stations kilometres away | as `beside` |
| `place` | the air of a place = what the stations read (their field) | learned, in units of the kriging variance |

All are solved together by weighted least squares (`elimination`): every path from a reference to a box counts, by its
uncertainty. The learned variances are found by expectation-maximisation. An encounter that contradicts the others
loses its weight instead of being averaged, and is named; so does a box that is unlike its type.

Lines say what an instrument does. The best estimate of the truth lies a little closer to the usual value, by the
`reliability` of a reading: the share of its variance that is not noise.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from scare.errors import DataError
from scare.upkeep.network.elimination import Elimination, TooDenseError
from scare.upkeep.network.hours import DAY, NetworkHours
from scare.upkeep.network.noise import fleet_noise, noise_factors
from scare.upkeep.network.relations import BESIDE, DISTANT, Relation

WEEK, YEAR = 7 * DAY, 365.25 * DAY
FLEET, AGEING, PLACE = "fleet", "ageing", "place"
# Standard deviations that are assumed of log gain, and of level in units of the references' spread, before anything is
# known; they count as `ASSUMED_COUNT` boxes or encounters. Of ageing, in a year.
ASSUMED = {FLEET: 0.3, AGEING: 0.1, BESIDE: 0.05, DISTANT: 0.05, PLACE: 0.2}
ASSUMED_COUNT = 4.0
# 95 % of the squared distances of one or two numbers that agree; an encounter further away counts less and less.
AGREEING = {1: 3.84, 2: 5.99}
DOUBTFUL_WEIGHT = 0.2  # an encounter with less is named: one in a thousand by chance
LEAST_PRIOR_WEIGHT = 0.01  # of an equation that is no relation: nothing becomes quite free
FIRST_ROUNDS = 5  # of expectation-maximisation, in which all encounters count
MOST_ROUNDS, SMALLEST_CHANGE = 60, 0.01  # of expectation-maximisation; it ends if all deviations change by less
REFERENCE_NODE = NO_NODE = -1
NOTHING = np.zeros(2)  # coefficients of no unknown


@dataclass(frozen=True)
class Line:
    """A box's line at a time: the truth is p + level + gain · (value − m), p a usual truth (the pivot), m the middle.

    `covariance` [2, 2] is that of level and gain.
    """

    time: float
    pivot: float
    middle: float
    level: float
    gain: float
    covariance: np.ndarray

    @property
    def intercept(self) -> float:
        """What the truth is at a value of 0: it is intercept + gain · value."""
        return self.pivot + self.level - self.gain * self.middle

    def calibrate(self, values: np.ndarray) -> np.ndarray:
        """Return the truth that the line tells for each value."""
        return self.intercept + self.gain * np.asarray(values, float)

    def deviation(self, values: np.ndarray | float) -> np.ndarray:
        """Return the standard deviation of the line at these values, without the noise of a reading."""
        distance = np.asarray(values, float) - self.middle
        (level_variance, level_with_gain), (_, gain_variance) = self.covariance
        return np.sqrt(np.maximum(level_variance + 2 * distance * level_with_gain + distance**2 * gain_variance, 0))


@dataclass(frozen=True)
class Step:
    """An encounter on the path from a box to a reference: the instrument nearer to the box, the other, and when.

    `pairs` are hours with readings of both, `kind` is that of the relation.
    """

    instrument: str
    other: str
    time: float
    pairs: int
    kind: str


@dataclass(frozen=True, repr=False)
class Solution:
    """The solved network: `line` gives a box's calibration at a time."""

    pivot: float
    middles: Mapping[str, float]  # of each box: its median reading
    center: float  # mean of the references
    spread: float  # their standard deviation
    end: float
    boxes: tuple[str, ...]
    types: Mapping[str, str]
    relations: tuple[Relation, ...]
    weights: np.ndarray  # of each relation: 1 if it agrees with the others, 0 if it contradicts them
    deviations: Mapping[str, tuple[float, float]]  # learned, of level and gain, in each group
    noise: tuple[float, float]  # variance of a usual box's reading: the first + the second · value²
    noise_factors: Mapping[str, float]  # how many times as much a box has, if it met another instrument
    times: Mapping[str, np.ndarray]  # of each box's nodes
    means: np.ndarray  # of each node [nodes, 2]
    covariances: np.ndarray  # of each node [nodes, 2, 2]
    first_node: Mapping[str, int]
    system: "System"
    equations: "Equations"  # linear in the unknowns, at this solution
    factor: np.ndarray  # of the system, from `Elimination.factor`
    width: float = 1.0  # by which intervals are wider than by the model alone, learned from references hidden in turn

    def line(self, box: str, time: float | None = None) -> Line:
        """Return the line of a box at a time in seconds; at the end of the readings if none is given."""
        if box not in self.first_node:
            raise DataError(f"the network has no box '{box}'")
        time = self.end if time is None else time
        times, first = self.times[box], self.first_node[box]
        ageing = np.diag(np.square(self.deviations[AGEING])) / YEAR  # variance for each second
        after = int(np.searchsorted(times, time))
        if after in (0, len(times)):  # outside the box's nodes: the line of the nearest, which ages on
            nearest = min(after, len(times) - 1)
            node = first + nearest
            mean, covariance = self.means[node], self.covariances[node] + abs(time - times[nearest]) * ageing
        else:
            before, node = times[after - 1], first + after
            share = (time - before) / (times[after] - before)
            mean = (1 - share) * self.means[node - 1] + share * self.means[node]
            covariance = (1 - share) * self.covariances[node - 1] + share * self.covariances[node]
            # Between two nodes a random walk has the variance of a Brownian bridge.
            covariance = covariance + share * (1 - share) * (times[after] - before) * ageing
        gain = float(np.exp(mean[1]))
        scale = np.array([1.0, gain])  # from log gain to gain
        return Line(time, self.pivot, self.middles[box], float(mean[0]), gain, covariance * np.outer(scale, scale))

    def noise_variance(self, values: np.ndarray | float) -> np.ndarray:
        """Return the variance of a usual box's readings that calibrate to these values."""
        constant, of_square = self.noise
        return np.asarray(constant + of_square * np.square(values))

    def reliability(self, box: str) -> float:
        """Return the share of the variance of a box's calibrated readings that is the truth's; the rest is noise."""
        usual = float(self.noise_variance(float(np.hypot(self.center, self.spread))))
        noise = self.noise_factors.get(box, 1.0) * usual
        return float(self.spread**2 / (self.spread**2 + noise))

    def estimate(self, box: str, time: float | None = None) -> Line:
        """Return the line that estimates the truth best: that of `line`, flatter by the `reliability` of a reading.

        So all estimates are closer to the mean of the references.
        """
        line, share = self.line(box, time), self.reliability(box)
        level = share * line.level + (1 - share) * (self.center - self.pivot)
        return Line(line.time, self.pivot, line.middle, level, share * line.gain, share**2 * line.covariance)

    def uncertainty(self, box: str, time: float | None = None) -> float:
        """Return the standard deviation of a box's line, as the root mean square over usual values."""
        line = self.estimate(box, time)
        return float(np.sqrt(line.covariance[0, 0] + (self.spread / line.gain) ** 2 * line.covariance[1, 1]))

    def interval(self, box: str, values: np.ndarray, time: float | None = None, sigmas: float = 1.645) -> np.ndarray:
        """Return the half-width of the interval around each value's estimate; 1.645 standard deviations cover 90 %.

        It covers the uncertainty of the line, the noise of a reading, and the month: for a while a line may differ
        from the box's usual one, by as much as encounters of one box differ from each other.
        """
        line, share = self.estimate(box, time), self.reliability(box)
        # Errors that boxes of a type make together do not show beside each other: none is less noisy than the fleet.
        factor = max(self.noise_factors.get(box, 1.0), 1.0)
        noise = share * factor * self.noise_variance(line.calibrate(values))
        level_variance, log_variance = np.square(self.deviations.get(BESIDE, (0.0, 0.0)))
        distance = line.gain * (np.asarray(values, float) - line.middle)  # in the unit of the truth
        of_month = share**2 * level_variance + log_variance * distance**2
        return self.width * sigmas * np.sqrt(line.deviation(values) ** 2 + noise + of_month)

    def effective_pairs(self, box: str) -> float:
        """Return how many independent hours beside a reference would tell the level as well as the network does."""
        return float(self.noise_variance(self.pivot) / self.line(box).covariance[0, 0])

    def last_node(self, box: str) -> int:
        """Return the node of a box at the end of the readings."""
        return self.first_node[box] + len(self.times[box]) - 1

    def age_days(self, box: str) -> float | None:
        """Return the days since a box last stood beside another instrument; None if it never did."""
        ends = [
            relation.encounter.end
            for relation, weight in zip(self.relations, self.weights, strict=True)
            if box in (relation.encounter.box, relation.encounter.other)
            and relation.kind == BESIDE
            and weight >= DOUBTFUL_WEIGHT
        ]
        return max(0.0, self.end - max(ends)) / DAY if ends else None

    def doubtful(self) -> list[tuple[Relation, float]]:
        """Return the relations that contradict the others, with their weights, the least first."""
        doubtful = [index for index in np.argsort(self.weights, kind="stable") if self.weights[index] < DOUBTFUL_WEIGHT]
        return [(self.relations[index], self.weights[index]) for index in doubtful]

    def path(self, box: str) -> list[Step]:
        """Return the chain of encounters from a box back to a reference that adds the least uncertainty; [] if none."""
        return self.system.graph.path(box, self)


@dataclass(frozen=True)
class Equations:
    """Equations first · x[node] − second · x[other] = right, each about levels or about gains.

    x[node] are the two unknowns of a node: level and log gain. `other` is negative where there is no other node. Until
    they are `linearised`, equations of levels have the gain itself in place of its logarithm: level + distance · gain,
    where the distance, a coefficient, is how far a reading is from its box's middle. The variance of an equation is
    `known` + `scale` · the learned variance of its group.
    """

    node: np.ndarray  # [n]
    other: np.ndarray  # [n]
    first: np.ndarray  # [n, 2]
    second: np.ndarray  # [n, 2]
    right: np.ndarray  # [n]
    known: np.ndarray  # [n]
    scale: np.ndarray  # [n]
    group: np.ndarray  # index of (group, level or gain) [n]
    unit: np.ndarray  # equations of one unit share a robust weight [n]
    cut: np.ndarray  # levels that must not tell gains (bool [n])

    def linearised(self, means: np.ndarray, log_variances: np.ndarray) -> "Equations":
        """Return the equations expanded about a solution [nodes, 2], so that they are linear in level and log gain.

        An equation of levels has terms gain · distance, where gain = exp(log gain): these become tangents.

        Some levels must not tell gains (`cut`): those compared at a distance, and those of two boxes. They agree the
        better, the smaller the gains are, so they would shrink them. Their equations take the gains as known, with the
        variances `log_variances` [nodes].
        """
        has_other = self.other >= 0
        # Log gains of node (0) and other (1) in the solution so far [n, 2]; without another node 0, so a gain of 1.
        logs = np.column_stack([means[self.node, 1], np.where(has_other, means[self.other, 1], 0.0)])
        gains = np.exp(logs)
        first, second, right = self.first.copy(), self.second.copy(), self.right.copy()
        of_level = self.first[:, 0] != 0  # equations of levels; those of gains are linear already
        # Both terms of the equation first · x[node] − second · x[other] = right, with their sign and column of `logs`.
        for coefficients, sign, side in ((first, 1, 0), (second, -1, 1)):
            # With log0 of the solution so far, gain · distance = exp(log) · distance is near
            # exp(log0) · distance · (log + 1 − log0). The part without log goes to the right side.
            coefficients[of_level, 1] *= gains[of_level, side]
            constant = coefficients[of_level, 1] * (1 - logs[of_level, side])
            right[of_level] -= sign * np.where(has_other[of_level] | (sign > 0), constant, 0.0)
        # The variance of a level is in the unit of the other instrument, whose gain converts it to that of the truth.
        known = self.known * np.where(of_level, gains[:, 1] ** 2, 1.0)
        # Where gains are taken as known (`cut`), the term coefficient · log gain is a number: it goes to the right
        # side, and its variance, coefficient² · that of log gain, to the known variance.
        for coefficients, sign, side, nodes in ((first, 1, 0, self.node), (second, -1, 1, self.other)):
            of_gain = coefficients[self.cut, 1]
            right[self.cut] -= sign * of_gain * logs[self.cut, side]
            # A reference, which is no node, has a gain of 1 for certain.
            known[self.cut] += of_gain**2 * np.where(nodes[self.cut] >= 0, log_variances[nodes[self.cut]], 0.0)
            coefficients[self.cut, 1] = 0.0
        return replace(self, first=first, second=second, right=right, known=known)


class Graph:
    """Nodes and equations of a network, built from its relations; solved by `solve`, extended by `trips`."""

    def __init__(
        self,
        hours: NetworkHours,
        relations: Sequence[Relation],
        types: Mapping[str, str] | None = None,
    ) -> None:
        self.relations = tuple(relations)
        self.boxes = tuple(hours.boxes)
        self.types = {box: (types or {}).get(box, "") for box in self.boxes}
        self.end, self.references = hours.end, hours.references
        of_references = hours.values[[hours.row[name] for name in sorted(hours.references)]]  # [references, hours]
        if not np.isfinite(of_references).any():
            raise DataError("no reference has a reading: nothing can be calibrated against")
        self.center, self.spread = float(np.nanmean(of_references)), float(np.nanstd(of_references))
        self.pivot = float(np.nanmedian(of_references))
        if not self.spread > 0:
            raise DataError("the references are constant; they may be stuck")
        read = [box for box in self.boxes if np.isfinite(hours.values[hours.row[box]]).any()]
        self.middles = {box: float(np.nanmedian(hours.values[hours.row[box]])) for box in read}
        self.middle = float(np.median(list(self.middles.values())))  # of a usual box
        self.middles |= dict.fromkeys(set(self.boxes) - set(read), self.middle)
        if not any(relation.encounter.other in self.references for relation in self.relations):
            raise DataError(
                "no box was ever compared with a reference, so nothing ties the network to the truth; check the"
                " table of stays, and how far away references may be ('distant_metres' in the rules, no --no-distant)"
            )
        self._make_nodes()

    def _make_nodes(self) -> None:
        """Number the nodes.

        A box has one for each week in which it met another instrument, and one for the last week of all. A type of
        boxes has one, its hub, for its mean. A place has one for how its air differs from the field of the stations.
        """
        weeks: dict[str, set[int]] = {box: {int(self.end // WEEK)} for box in self.boxes}
        for relation in self.relations:
            for name in (relation.encounter.box, relation.encounter.other):
                if name in weeks:
                    weeks[name].add(int(relation.encounter.middle // WEEK))
        self.times: dict[str, np.ndarray] = {}
        self.first_node: dict[str, int] = {}
        self.node: dict[tuple[str, int], int] = {}
        count = 0
        for box in self.boxes:
            weeks_of_box = sorted(weeks[box])
            self.first_node[box] = count
            self.node |= {(box, week): node for node, week in enumerate(weeks_of_box, count)}
            self.times[box] = np.array([min((week + 0.5) * WEEK, self.end) for week in weeks_of_box])
            count += len(weeks_of_box)
        self.hub = {name: node for node, name in enumerate(sorted(set(self.types.values())), count)}
        count += len(self.hub)
        distant = [relation for relation in self.relations if relation.kind == DISTANT]
        # The kriging variance of each place; its relations have much the same.
        self.place_variance = {relation.encounter.site: relation.place_variance for relation in distant}
        self.unlike = {relation.encounter.site: relation.unlike for relation in distant}
        held_out = [relation.encounter for relation in distant if relation.encounter.box in self.references]
        self.station_sites = {encounter.site for encounter in held_out}
        self.place = {site: node for node, site in enumerate(sorted(self.place_variance), count)}
        count += len(self.place)
        self.nodes = count + 1 if self.place else count  # the last: what all places have in common

    def node_at(self, name: str, time: float) -> int:
        """Return the node of an instrument in the week of a time; `REFERENCE_NODE` for a reference."""
        return self.node.get((name, int(time // WEEK)), REFERENCE_NODE)

    def equations(self, groups: Mapping[str, int]) -> Equations:
        """Return all equations but those of the means of types (the hubs), which `System` adds.

        `groups` has the index of each group of equations.
        """
        rows = [*self._fleet_rows(groups), *self._relation_rows(groups)]
        node, other, first, second, right, known, scale, group, unit = zip(*rows, strict=True)
        of_unit, coefficients = np.array(unit, int), np.array(first, float)
        is_relation = of_unit < len(self.relations)
        # Levels at a distance, and of two boxes, must not tell gains (see `linearised`); nor must those of a fleet.
        is_loose = np.array(
            [one.kind == DISTANT or one.encounter.other not in self.references for one in self.relations]
        )
        # The unit of a relation's equations is its index; other equations look up any relation and are masked.
        cut = (coefficients[:, 0] != 0) & (~is_relation | is_loose[np.where(is_relation, of_unit, 0)])
        return Equations(
            np.array(node, int),
            np.array(other, int),
            coefficients,
            np.array(second, float),
            np.array(right, float),
            np.array(known, float),
            np.array(scale, float),
            np.array(group, int),
            of_unit,
            cut,
        )

    def _fleet_rows(self, groups: Mapping[str, int]) -> Iterator[tuple]:
        """Yield the equations `fleet`, `ageing` and `place`, each for level (part 0) and log gain (part 1).

        An equation is a tuple: node, other node, the coefficients of each (of level, of log gain), right side, known
        variance, scale of the learned variance, group, unit. A group is twice its number in `groups`, plus the part.
        Equations of one unit lose weight together if they contradict the others.
        """
        unit = len(self.relations)  # the units before are those of relations
        for box in self.boxes:
            first, times = self.first_node[box], self.times[box]
            hub, count = self.hub[self.types[box]], len(times)  # the node of the type's mean, and the box's nodes
            for part, axis in enumerate(np.eye(2)):  # axis: the coefficients that choose the part
                # A box's node = its type's mean. A hub's level is at the median middle of all boxes, and its gain
                # carries it from there to this box's middle.
                of_hub = np.array([1.0, self.middles[box] - self.middle]) if part == 0 else axis
                group = 2 * groups[FLEET] + part
                for k in range(count):  # count times the variance: together they count as one equation
                    yield first + k, hub, axis, of_hub, 0.0, 0.0, float(count), group, unit + k
                # A box's node = its node before, with a variance that grows with the years between them.
                group = 2 * groups[AGEING] + part
                for k, years in enumerate(np.diff(times) / YEAR):
                    yield first + k + 1, first + k, axis, axis, 0.0, 0.0, years, group, unit + count + k
            unit += 2 * count - 1  # one for each node, and one for each step from a node to the next
        # A place's difference from the field of the stations = the difference that all places have in common (the last
        # node), because stations have local air of their own. At a station's own site the difference = 0.
        common = self.nodes - 1
        for site, node in self.place.items():
            for part, axis in enumerate(np.eye(2)):
                known = self.unlike[site] ** 2 if part else 0.0  # of a site of another kind: its gain is less sure
                other, of_other = (NO_NODE, NOTHING) if site in self.station_sites else (common, axis)
                group = 2 * groups[PLACE] + part
                yield node, other, axis, of_other, 0.0, known, self.place_variance[site], group, unit + part
            unit += 2
        if self.place:  # the common difference = 0, the surer the more stations were compared with the field
            share = 1 / max(len(self.station_sites), 1)
            for part, axis in enumerate(np.eye(2)):
                yield common, NO_NODE, axis, NOTHING, 0.0, 0.0, share, 2 * groups[PLACE] + part, unit

    def _relation_rows(self, groups: Mapping[str, int]) -> Iterator[tuple]:
        """Yield the equations of each relation, as `_fleet_rows`: one of levels, and one of gains if it tells them."""
        for unit, relation in enumerate(self.relations):
            meeting, group = relation.encounter, 2 * groups[relation.kind]
            node, other = (self.node_at(name, meeting.middle) for name in (meeting.box, meeting.other))
            box_distance = relation.box_level - self.middles.get(meeting.box, self.pivot)
            other_middle = self.pivot if relation.kind == DISTANT else self.middles.get(meeting.other, self.pivot)
            other_distance = relation.other_level - other_middle
            levels = np.array([1.0, box_distance]), np.array([1.0, other_distance])  # coefficients of box and other
            gain = np.array([0.0, 1.0])
            log_slope, log_variance = np.log(relation.slope), relation.slope_variance / relation.slope**2
            if relation.kind == DISTANT:  # the other side is the air of the place, which stations tell
                other = self.place[meeting.site]
            right = other_distance if other == REFERENCE_NODE else 0.0
            if node == REFERENCE_NODE:  # a station held out tells the air of its place: the two change sides
                node, other, levels = other, NO_NODE, levels[::-1]
                right, log_slope = box_distance, -log_slope
            yield node, other, *levels, right, relation.level_variance, 1.0, group, unit
            if np.isfinite(relation.slope_variance):
                yield node, other, gain, gain, log_slope, log_variance, 1.0, group + 1, unit

    def path(self, box: str, solution: Solution) -> list[Step]:
        """Return the path of the least added variance from a box's last node to a reference, empty without one.

        The search is Dijkstra's (1959).
        """
        ageing = self._variance_over_spread(np.square(solution.deviations[AGEING]))  # in a year
        # By node: the node that an edge leads to, the variance that it adds, and its relation; ageing has none.
        edges: dict[int, list[tuple[int, float, Relation | None]]] = defaultdict(list)
        for name in self.boxes:
            for node, years in enumerate(np.diff(self.times[name]) / YEAR, self.first_node[name]):
                edges[node].append((node + 1, years * ageing, None))
                edges[node + 1].append((node, years * ageing, None))
        for relation, weight in zip(self.relations, solution.weights, strict=True):
            meeting = relation.encounter
            if weight >= DOUBTFUL_WEIGHT and meeting.box not in self.references:
                of_box, of_other = (self.node_at(name, meeting.middle) for name in (meeting.box, meeting.other))
                # Large if the encounter does not tell the gain: such a path is taken only if there is no other.
                log_variance = 1.0
                if np.isfinite(relation.slope_variance):
                    log_variance = relation.slope_variance / relation.slope**2
                learned = np.square(solution.deviations[relation.kind])
                if relation.kind == DISTANT:
                    learned = learned + relation.place_variance * np.square(solution.deviations[PLACE])
                added = self._variance_over_spread(learned + np.array([relation.level_variance, log_variance]))
                edges[of_box].append((of_other, added, relation))
                if of_other != REFERENCE_NODE:
                    edges[of_other].append((of_box, added, relation))
        start = solution.last_node(box)
        least, heap = {start: 0.0}, [(0.0, start)]  # least variance from the start to a node
        reached_from: dict[int, tuple[int, Relation | None]] = {}
        while heap:
            variance, node = heappop(heap)
            if node == REFERENCE_NODE:
                break
            if variance > least[node]:
                continue  # an older entry: the node was reached with less variance later
            for other, added, used in edges[node]:
                if variance + added < least.get(other, np.inf):
                    least[other], reached_from[other] = variance + added, (node, used)
                    heappush(heap, (variance + added, other))
        steps: list[Step] = []
        node = REFERENCE_NODE
        while node in reached_from:
            node, used = reached_from[node]
            if used:
                meeting = used.encounter
                ends = (meeting.box, meeting.other)
                from_to = ends if self._is_node_of(node, meeting.box) else ends[::-1]
                steps.append(Step(*from_to, meeting.middle, used.pairs, used.kind))
        return steps[::-1]

    def truth(self, relation: Relation, means: np.ndarray) -> tuple[float, float]:
        """Return what the truth was when a relation's other instrument read its level, and that instrument's gain.

        Both are by a solution, `means` [nodes, 2].
        """
        node = self.node_at(relation.encounter.other, relation.encounter.middle)
        if node == REFERENCE_NODE:
            return relation.other_level, 1.0
        level, gain = means[node, 0], float(np.exp(means[node, 1]))
        distance = relation.other_level - self.middles[relation.encounter.other]
        return float(self.pivot + level + gain * distance), gain

    def _is_node_of(self, node: int, box: str) -> bool:
        """Whether a node is one of a box's nodes, which are its weeks."""
        return self.first_node[box] <= node < self.first_node[box] + len(self.times[box])

    def _variance_over_spread(self, level_and_gain: np.ndarray) -> float:
        """Return the mean variance of a line over usual values, from the variances of level and gain."""
        return float(level_and_gain[0] + self.spread**2 * level_and_gain[1])


class System:
    """The equations of a graph and how to eliminate its nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        kinds = sorted({relation.kind for relation in graph.relations})
        groups = (FLEET, AGEING, *kinds, *([PLACE] if graph.place else []))
        self.groups = {name: index for index, name in enumerate(groups)}
        self.rows = graph.equations(self.groups)
        self.linked = self.rows.other >= 0
        pairs = zip(self.rows.node[self.linked].tolist(), self.rows.other[self.linked].tolist(), strict=True)
        try:
            self.elimination = Elimination(graph.nodes, set(pairs))
        except TooDenseError as error:
            raise DataError(
                "too many boxes met too many others for the network to be solved as a whole; solve it by district, or"
                " raise 'hours' in the rules, so that short encounters do not count"
            ) from error
        # Where the blocks of each equation are: (node, node), and of a linked one those with its other node.
        position, node = self.elimination.position, self.rows.node
        linked_node, linked_other = node[self.linked], self.rows.other[self.linked]
        self._own, self._others = position(node, node), position(linked_other, linked_other)
        self._across, self._back = position(linked_node, linked_other), position(linked_other, linked_node)

    def assumed(self) -> np.ndarray:
        """Return the variances [groups, 2] that are assumed before anything is known."""
        unit = np.array([self.graph.spread, 1.0])
        return np.array([np.square(ASSUMED[name] * unit) for name in self.groups])

    def factor(self, rows: Equations, variances: np.ndarray) -> np.ndarray:
        """Build the normal equations, each equation weighted by 1 / its variance [equations], and factorise them."""
        linked = self.linked
        blocks = self.elimination.zeros()
        precision = (1 / variances)[:, None, None]
        # An equation adds to the blocks (node, node) and, if there is another node, (other, other), (node, other) and
        # (other, node): the products of its coefficients, second ones with the sign −.
        first, second = rows.first, rows.second[linked]
        np.add.at(blocks, self._own, precision * first[:, :, None] * first[:, None, :])
        np.add.at(blocks, self._others, precision[linked] * second[:, :, None] * second[:, None, :])
        across = -precision[linked] * first[linked][:, :, None] * second[:, None, :]
        np.add.at(blocks, self._across, across)
        np.add.at(blocks, self._back, np.swapaxes(across, 1, 2))
        hubs = list(self.graph.hub.values())
        blocks[self.elimination.position(hubs, hubs)] += np.diag(1 / self.hub_variances)
        return self.elimination.factor(blocks)

    def solve(self, factor: np.ndarray, rows: Equations, variances: np.ndarray) -> np.ndarray:
        """Solve the normal equations with their `factor` for level and log gain of each node [nodes, 2].

        An equation is first · x[node] − second · x[other] = right, and has a variance [equations].
        """
        linked = self.linked
        right = np.zeros((self.graph.nodes, 2))
        scaled = (rows.right / variances)[:, None]
        np.add.at(right, rows.node, scaled * rows.first)
        np.subtract.at(right, rows.other[linked], scaled[linked] * rows.second[linked])
        hubs = list(self.graph.hub.values())
        # The mean of each type of boxes, its hub, is near the usual level and gain.
        right[hubs] += self.usual / self.hub_variances
        return self.elimination.solve(factor, right)

    def residuals(self, rows: Equations, means: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Return the expected squared error of each equation: its own, and what the solution's uncertainty adds.

        `means` are the solution [nodes, 2], `inverse` its covariances [blocks, 2, 2].
        """
        linked = self.linked
        first, second = rows.first, rows.second[linked]
        errors = rows.right - (first * means[rows.node]).sum(axis=1)
        errors[linked] += (second * means[rows.other[linked]]).sum(axis=1)
        # The variance of first · x[node] − second · x[other], as the solution's covariances have it.
        spread = np.einsum("ni,nij,nj->n", first, inverse[self._own], first)
        spread[linked] += np.einsum("ni,nij,nj->n", second, inverse[self._others], second)
        spread[linked] -= 2 * np.einsum("ni,nij,nj->n", first[linked], inverse[self._across], second)
        return errors**2 + np.maximum(spread, 0)

    @property
    def tells_gain(self) -> bool:
        """Whether any relation tells the gain of a box."""
        of_boxes = [one for one in self.graph.relations if one.encounter.box not in self.graph.references]
        return any(bool(np.isfinite(relation.slope_variance)) for relation in of_boxes)

    @property
    def hub_variances(self) -> np.ndarray:
        """Variances of level and log gain of a type's mean, before anything is known [2].

        Almost nothing is assumed: the deviation is ten times that of boxes of a type. Where nothing tells a gain,
        boxes are taken to have a gain of 1, more or less.
        """
        of_boxes = self.assumed()[self.groups[FLEET]]
        return of_boxes * np.array([100.0, 100.0 if self.tells_gain else 1.0])

    @property
    def beginning(self) -> np.ndarray:
        """Level and log gain of each node from which `solve` starts [nodes, 2]: `usual` ones of boxes, 0 of places."""
        means = np.tile(self.usual, (self.graph.nodes, 1))
        # The last nodes are those of the places and, if there is any, that of what they have in common.
        last = len(self.graph.place) + 1 if self.graph.place else 0
        means[self.graph.nodes - last :] = 0.0
        return means

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of equations that tell each learned variance [groups]; the nodes of a box count as one."""
        of_fleet = self.rows.group // 2 == self.groups[FLEET]
        shares = np.where(of_fleet, 1 / self.rows.scale, 1.0)
        return np.bincount(self.rows.group, shares, minlength=2 * len(self.groups))

    def learn(self, parts: np.ndarray) -> np.ndarray:
        """Return the learned variances [groups]: of each group of equations, the mean of `parts` over their scales.

        `parts` are the expected squares of that part of each error which is due to the learned variance. The assumed
        variances count as `ASSUMED_COUNT` equations more in each group.
        """
        sums = np.bincount(self.rows.group, parts / self.rows.scale, minlength=2 * len(self.groups))
        return (sums + ASSUMED_COUNT * self.assumed().ravel()) / (self.counts + ASSUMED_COUNT)

    @property
    def usual(self) -> np.ndarray:
        """Level and log gain from which `solve` starts: the median of the boxes that stood beside a reference [2]."""
        references, pivot = self.graph.references, self.graph.pivot
        with_reference = [
            relation
            for relation in self.graph.relations
            if relation.encounter.other in references and relation.encounter.box not in references
        ]
        lines = [relation for relation in with_reference if relation.kind == BESIDE] or with_reference
        gain = np.median([line.slope for line in lines]) if self.tells_gain else 1.0
        middle = self.graph.middle
        levels = [line.other_level - pivot - gain * (line.box_level - middle) for line in lines]
        return np.array([np.median(levels), np.log(gain)])


def solve(
    hours: NetworkHours,
    relations: Sequence[Relation],
    types: Mapping[str, str] | None = None,
) -> Solution:
    """Solve a network: learn its variances, then each box's gain and level over time.

    Each round solves all equations with the variances and weights so far. The errors that are left tell the variance of
    each group of equations, and which encounters contradict the others and should weigh less.
    """
    graph = Graph(hours, relations, types)
    system = System(graph)
    rows = system.rows
    units = int(rows.unit.max()) + 1  # a unit is the equations that share a weight: those of an encounter, for example
    learned = system.assumed().ravel()  # variances [groups]
    weights = np.ones(units)
    means = system.beginning  # level and log gain of each node
    # The squared distance up to which a unit agrees, by its number of equations (a relation has one or two).
    agreeing = np.array([AGREEING[min(count, 2)] for count in np.bincount(rows.unit, minlength=units).clip(1).tolist()])
    diagonal = system.elimination.position(range(graph.nodes), range(graph.nodes))
    log_variances = np.full(graph.nodes, ASSUMED[FLEET] ** 2)  # of the gains, as far as they are known
    for done in range(MOST_ROUNDS):
        linear = rows.linearised(means, log_variances)
        added = learned[rows.group] * rows.scale
        expected = linear.known + added  # squared error of each equation
        variances = expected / weights[rows.unit]
        factor = system.factor(linear, variances)
        means = system.solve(factor, linear, variances)
        inverse = system.elimination.covariance(factor)
        log_variances = np.minimum(inverse[diagonal, 1, 1], ASSUMED[FLEET] ** 2)
        squares = system.residuals(linear, means, inverse)
        distances = np.bincount(rows.unit, squares / expected, minlength=units)
        # A share of each error is due to the learned variance, the rest to the known one. The expected square of that
        # share is its own square (little of it where the weight is small) and, as nobody knows how an error divides,
        # share · known besides (expectation-maximisation).
        share = added / expected
        before, learned = learned, system.learn(share**2 * weights[rows.unit] * squares + share * linear.known)
        if done < FIRST_ROUNDS:
            continue  # how much boxes differ must be known before any is found to contradict the others
        # A unit (an encounter, say) that agrees has the weight 1; the further away it is, the less it weighs.
        weights = np.square(np.minimum(1, agreeing / np.maximum(distances, 1e-12)))
        # The units after those of relations hold the fleet together; they keep some weight.
        weights[len(relations) :] = np.maximum(weights[len(relations) :], LEAST_PRIOR_WEIGHT)
        if np.abs(np.sqrt(learned / before) - 1).max() < SMALLEST_CHANGE:
            break
    deviations = np.sqrt(learned).reshape(-1, 2)
    noise = fleet_noise(relations, hours.references)
    of_others = [graph.truth(relation, means) for relation in relations]
    return Solution(
        pivot=graph.pivot,
        middles=graph.middles,
        center=graph.center,
        spread=graph.spread,
        end=graph.end,
        boxes=graph.boxes,
        types=graph.types,
        relations=graph.relations,
        weights=weights[: len(relations)],
        deviations={name: (float(deviations[k, 0]), float(deviations[k, 1])) for name, k in system.groups.items()},
        noise=noise,
        noise_factors=noise_factors(relations, weights[: len(relations)], of_others, noise, hours.references),
        times=graph.times,
        means=means,
        covariances=inverse[diagonal],
        first_node=graph.first_node,
        system=system,
        equations=linear,
        factor=factor,
    )
