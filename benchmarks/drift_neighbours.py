"""Evidence of drift_oracle.py through neighbours: boxes that stand near each other, or whose relation is known.

`scare watch` compares a box with the median of all boxes that read at once. Here it is compared with what two kinds of
neighbours lead to expect, by the same line over the hours of a period:

    nearby    the mean of the others, weighted by exp(−distance / 3 km)
    tied      the mean of what the others predict by their lines of the first days, weighted by how exact these were
              and by distance: the edges of the graph of `scare network`
"""

from collections.abc import Iterable

import numpy as np

from benchmarks.drift_real import WatchedTask
from benchmarks.network_real import ASSUMED_KM, RealSet
from scare.upkeep.drift import CLIPPED, FEWEST_HOURS, MIN_GAIN, PENALTY, RULES, median

NEARBY, TIED = "nearby", "tied"
REACH_KM = 3.0
LEAST_VARIANCE = 0.005  # of a pair's line, scaled: pairs that agree better count alike
FEWEST_PAIRS = 48  # hours for a line


def neighbour_units(one: WatchedTask, sets: Iterable[RealSet]) -> dict[str, np.ndarray] | None:
    """Return changes relative to each kind of neighbours in alarm units [boxes, days]; None without known sites.

    Boxes stand where the set of the same name has them.
    """
    places = next((known for known in sets if set(one.hours.devices) <= set(known.boxes)), None)
    if places is None or one.boxes < 3:
        return None
    nearness = np.exp(-kilometres(places, one.hours.devices) / REACH_KM)
    np.fill_diagonal(nearness, 0)
    calibrated = one.hours.values[..., 0].reshape(one.boxes, -1)  # [boxes, hours]
    lines, weights = pair_lines(calibrated[:, : 24 * one.lengths[0]])
    predicted = lines[..., 0, None] + lines[..., 1, None] * calibrated  # [boxes, others, hours]
    expected = {
        NEARBY: [weighted_mean(calibrated, nearness[box]) for box in range(one.boxes)],
        TIED: [weighted_mean(predicted[box], nearness[box] * weights[box]) for box in range(one.boxes)],
    }
    return {kind: changes(one, calibrated, np.stack(air)) for kind, air in expected.items()}


def kilometres(places: RealSet, devices: Iterable[str]) -> np.ndarray:
    """Compute the distances between devices [devices, devices]; `ASSUMED_KM` between sites that are not on a map."""
    sites = [places.sites[places.boxes.index(device)] for device in devices]

    def distance(one: str, other: str) -> float:
        if one == other:
            return 0.0
        return places.places[one].metres_to(places.places[other]) / 1000 if places.has_places else ASSUMED_KM

    return np.array([[distance(one, other) for other in sites] for one in sites])


def pair_lines(first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit each box to each other one over the first hours [boxes, hours].

    Returns intercepts and slopes [boxes, others, 2] and weights [boxes, others], the inverse of residual variances.
    """
    lines = np.zeros((len(first), len(first), 2))
    weights = np.zeros((len(first), len(first)))
    for box, own in enumerate(first):
        for other, known in enumerate(first):
            both = np.isfinite(own) & np.isfinite(known)
            if box != other and both.sum() >= FEWEST_PAIRS:
                slope, intercept = np.polyfit(known[both], own[both], 1)
                residuals = own[both] - intercept - slope * known[both]
                lines[box, other] = intercept, slope
                weights[box, other] = 1 / (np.median(residuals**2) + LEAST_VARIANCE)  # a spike weighs nothing
    return lines, weights


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Average known values [boxes, hours] over boxes; NaN in hours in which no box of any weight has one."""
    known = np.isfinite(values) * weights[:, None]
    total = known.sum(axis=0)
    return np.divide(np.nan_to_num(values * known).sum(axis=0), total, out=np.full(len(total), np.nan), where=total > 0)


def changes(one: WatchedTask, calibrated: np.ndarray, air: np.ndarray) -> np.ndarray:
    """Return the larger change of level and gain since the first days, in alarm units [boxes, days].

    `calibrated` and what its neighbours lead to expect, `air`, are [boxes, hours]. As in `scare watch`, the fleet's
    median change does not count.
    """
    excess = np.clip(calibrated - air, -CLIPPED, CLIPPED)

    def lines(period: slice) -> np.ndarray:
        return np.array([line_of(excess[box, period], air[box, period]) for box in range(one.boxes)])

    usual = lines(slice(0, 24 * one.lengths[0]))
    last = [lines(slice(24 * (day + 1 - one.lengths[1]), 24 * (day + 1))) for day in one.days]
    found = np.stack(last, axis=1) - usual[:, None]  # [boxes, days, level and gain]
    found = np.abs(found - median(found, 0)) / [RULES["neighbours"].unit, RULES["gain"].unit]
    return np.asarray(np.nan_to_num(found).max(axis=2))


def line_of(excess: np.ndarray, air: np.ndarray) -> tuple[float, float]:
    """Fit level and logarithm of the gain to the hours of a period, by the ridge regression of `scare watch`."""
    known = np.isfinite(excess)
    if known.sum() < FEWEST_HOURS:
        return np.nan, np.nan
    design = np.column_stack([np.ones(known.sum()), air[known]])
    level, gain = np.linalg.solve(design.T @ design + PENALTY * np.eye(2), design.T @ excess[known])
    return level, np.log(max(1 + gain, MIN_GAIN))
