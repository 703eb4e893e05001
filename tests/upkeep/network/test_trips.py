"""What a plan promises, an encounter gives."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from scare.data.simulated_city import START, City, Journey, deploy, simulate_city
from scare.data.sites import Sites, Stay
from scare.upkeep.network.hours import DAY, NetworkHours
from scare.upkeep.network.trips import Planner, Trip, plan_trips
from tests.upkeep.network.cities import hours_of, solve_city

KNOWN, LENGTH = 70.0, 5.0  # days before the trip, and of it


def until(city: City, days: float) -> City:
    """The first days of a city."""
    rows = round(days * 24)
    cut = {name: {key: array[:rows] for key, array in getattr(city, name).items()} for name in ("readings", "air")}
    return replace(city, truth={key: array[:rows] for key, array in city.truth.items()}, **cut)


def after_trip(trip: Trip, seed: int, journey: Journey) -> City:
    """The same city, in which the box was carried as proposed, for the days after those that are known."""
    deployment = deploy(journey, 20, KNOWN + LENGTH, seed)
    begin = START.timestamp() + KNOWN * DAY
    stays = list(deploy(journey, 20, KNOWN, seed).sites.stays)
    last = {stay.device: stay for stay in stays}
    for name, stay in last.items():
        site = last[trip.beside].site if name == trip.box else stay.site
        stays.append(Stay(site, name, begin, begin + LENGTH * DAY))
    return simulate_city(replace(deployment, sites=Sites(tuple(stays))), seed)


@pytest.mark.parametrize("journey", [Journey.CITY, Journey.STATION])
def test_a_trip_gives_what_was_promised(journey: Journey) -> None:
    """By how much the uncertainty fell after trips that were taken, over the promise: within 30 %."""
    gains = []
    for seed in range(6):
        network = solve_city(simulate_city(deploy(journey, 20, KNOWN, seed), seed))
        trip = plan_trips(network.solution, sorted(network.hours.references), count=1, days=LENGTH)[0]
        taken = solve_city(after_trip(trip, seed, journey)).solution
        gains.append((trip.before - taken.uncertainty(trip.box)) / (trip.before - trip.after))
    assert np.median(gains) == pytest.approx(1, abs=0.3)


def test_trips_lower_the_worst_uncertainty_one_after_the_other() -> None:
    network = solve_city(simulate_city(deploy(Journey.CITY, 20, KNOWN, 3), 3))
    references = sorted(network.hours.references)
    trips = plan_trips(network.solution, references, count=4)
    assert len({trip.box for trip in trips}) > 1
    for before, after in pairwise(trips):
        assert after.worst_before == pytest.approx(before.worst_after)
        assert after.worst_after <= after.worst_before * (1 + 1e-9)
    fixed = trips[0].box
    others = plan_trips(network.solution, references, count=4, stay=(fixed,))
    assert all(trip.beside not in references for trip in others if trip.box == fixed)


def test_the_covariance_after_an_encounter_is_that_of_all_equations() -> None:
    """Two encounters added one after the other, beside a dense inverse with both."""
    network = solve_city(simulate_city(deploy(Journey.CITY, 8, 40.0, 1), 1))
    solution, references = network.solution, sorted(network.hours.references)
    planner = Planner(solution, days=5.0)
    planner.add(*planner.with_encounter(solution.boxes[3], references[0]))
    covariances, *_ = planner.with_encounter(solution.boxes[5], solution.boxes[3])
    nodes, elimination = solution.system.graph.nodes, solution.system.elimination
    dense = elimination.solve(solution.factor, np.eye(2 * nodes).reshape(nodes, 2, 2 * nodes)).reshape(2 * nodes, -1)
    precision = np.linalg.inv(dense)
    for box, other in [(3, None), (5, 3)]:
        row = np.zeros((2, 2 * nodes))
        at = 2 * solution.last_node(solution.boxes[box])
        row[:, at : at + 2] = np.eye(2)
        if other is not None:
            at = 2 * solution.last_node(solution.boxes[other])
            row[:, at : at + 2] = -np.eye(2)
        precision += row.T @ np.diag(1 / planner.noise[other is None]) @ row
    after = np.linalg.inv(precision)
    for k, box in enumerate(solution.boxes):
        at = 2 * solution.last_node(box)
        np.testing.assert_allclose(covariances[k], after[at : at + 2, at : at + 2], rtol=1e-6, atol=1e-10)


def test_hours_of_a_city_have_its_references() -> None:
    found: NetworkHours = hours_of(simulate_city(deploy(Journey.TRAVELLER, 4, 20.0)))
    assert found.references == {"station-a"}
    assert len(found.boxes) == 5
