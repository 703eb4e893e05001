"""Simulated cities as networks: their hours, solutions, and the truth that belongs to them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from scare.data.simulated_city import START, City, Deployment, Journey, deploy, simulate_city
from scare.data.sites import Place, Sites, Stay
from scare.upkeep.network.fleet import SolvedNetwork, solve_network
from scare.upkeep.network.hours import DAY, HOUR, NetworkHours

MARCH = 1_772_323_200.0  # 1 March 2026


def hours_of(city: City) -> NetworkHours:
    names = tuple(sorted(city.readings))
    values = np.array([city.readings[name] for name in names], np.float32)
    return NetworkHours(names, int(START.timestamp() // HOUR), values, frozenset(city.deployment.references))


def solve_city(city: City, deployment: Deployment | None = None) -> SolvedNetwork:
    """Solve a city by its own tables, or by wrong ones."""
    tables = deployment or city.deployment
    return solve_network(hours_of(city), tables.sites, tables.places)


def draw_city(journey: Journey, seed: int, boxes: int = 20, days: float = 70.0) -> City:
    return simulate_city(deploy(journey, boxes, days, seed), seed)


def network_hours(readings: Mapping[str, np.ndarray], *references: str) -> NetworkHours:
    """Hours from 1 March 2026 on."""
    values = np.array(list(readings.values()), np.float32)
    return NetworkHours(tuple(readings), int(MARCH // HOUR), values, frozenset(references))


def stay(site: str, device: str, first_day: float, last_day: float) -> Stay:
    return Stay(site, device, MARCH + first_day * DAY, MARCH + last_day * DAY)


def with_stays(deployment: Deployment, *stays: Stay) -> Deployment:
    return replace(deployment, sites=Sites(stays))


@dataclass(frozen=True)
class Scores:
    """Errors of boxes against the truth where they stood, in the last days of a city."""

    errors: np.ndarray  # of all hours
    inside: np.ndarray  # of the network's 90 % intervals
    z: np.ndarray  # errors of level and log gain in their standard deviations, a row for each box
    pooled: np.ndarray  # errors of one line for all boxes, fitted to those that stood beside a reference


def score(city: City, network: SolvedNetwork, days: float = 14.0) -> Scores:
    solution = network.solution
    last = slice(-round(days * 24), None)
    beside = [one for one in solution.relations if one.encounter.other in city.deployment.references]
    gain = float(np.median([one.slope for one in beside]))
    intercept = float(np.median([one.other_level - gain * one.box_level for one in beside]))
    errors, inside, z, pooled = [], [], [], []
    for box in solution.boxes:
        read, truth = city.readings[box][last], city.air[box][last]
        known = np.isfinite(read) & np.isfinite(truth)
        if not known.any():
            continue
        error = solution.estimate(box).calibrate(read) - truth
        errors.append(error[known])
        inside.append((np.abs(error) <= solution.interval(box, read))[known])
        pooled.append((intercept + gain * read - truth)[known])
        line = solution.line(box)
        true_gain = 1 / city.gains[box][-1]
        true_level = (line.middle - city.offsets[box][-1]) * true_gain - line.pivot
        errors_of_line = np.array([line.level - true_level, line.gain * np.log(line.gain / true_gain)])
        z.append(errors_of_line / np.sqrt(np.diag(line.covariance)))
    return Scores(np.concatenate(errors), np.concatenate(inside), np.array(z), np.concatenate(pooled))


def at_place(**sites: tuple[float, float]) -> dict[str, Place]:
    """Places by metres north and east of a point."""
    return {name: Place(51 + north / 111_195, 4 + east / 69_978) for name, (north, east) in sites.items()}
