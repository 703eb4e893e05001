"""Wrong tables are found: boxes swapped, a box moved, a wrong coordinate. Right tables are not doubted."""

from dataclasses import replace

import numpy as np
import pytest

from scare.data.simulated_city import METRES_OF_DEGREE, START, City, Journey, deploy, simulate_city
from scare.data.sites import Sites, Stay
from scare.upkeep.network.hours import DAY
from scare.upkeep.network.relations import BESIDE
from tests.upkeep.network.cities import draw_city, solve_city


def relabelled(city: City, *stays: Stay) -> City:
    return replace(city, deployment=replace(city.deployment, sites=Sites(stays)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("journey", Journey)
def test_right_tables_are_not_doubted(journey: Journey, seed: int) -> None:
    assert len(solve_city(draw_city(journey, seed)).doubts) <= 1  # chance


@pytest.mark.parametrize("seed", range(4))
def test_two_boxes_swapped_by_mistake(seed: int) -> None:
    """The tables have box-10 beside the station and box-01 in its street, but they were taken for each other."""
    city = draw_city(Journey.CITY, seed)
    names = {"box-01": "box-10", "box-10": "box-01"}
    wrong = [replace(one, device=names.get(one.device, one.device)) for one in city.deployment.sites.stays]
    network = solve_city(relabelled(city, *wrong))
    found = [doubt for doubt in network.doubts if {"box-01", "box-10"} <= set(doubt.boxes)]
    assert found
    assert "look swapped" in found[0].sentence


@pytest.mark.parametrize("seed", range(4))
def test_a_box_that_was_carried_away(seed: int) -> None:
    """The tables have it beside the station all the time; it left after a month, for a street 5 km away."""
    deployment = deploy(Journey.STATION, 20, 120, seed)
    station = deployment.places["station-a"]
    far = replace(station, latitude=station.latitude + 5000 / METRES_OF_DEGREE)
    city = simulate_city(replace(deployment, places={**deployment.places, "street-02": far}), seed)
    left = city.deployment.sites.of_device("box-02")[1].last
    stays = [one for one in city.deployment.sites.stays if one.device != "box-02"]
    begin = START.timestamp()
    wrong = [Stay("station-a", "box-02", begin + 10 * DAY, begin + 120 * DAY)]
    network = solve_city(relabelled(city, *stays, *wrong))
    found = [doubt for doubt in network.doubts if doubt.boxes == ("box-02",)]
    assert found
    assert "agreed until" in found[0].sentence
    kept = [one.encounter for one in network.solution.relations if one.encounter.box == "box-02"]
    assert all(one.begin < left for one in kept)


@pytest.mark.parametrize("seed", range(4))
def test_a_wrong_coordinate(seed: int) -> None:
    """A street is put where the station is: the boxes there are not in its air."""
    city = draw_city(Journey.TRAVELLER, seed)
    places = {**city.deployment.places, "street-05": city.deployment.places["station-a"]}
    places["street-06"] = places["street-05"]
    network = solve_city(replace(city, deployment=replace(city.deployment, places=places)))
    doubted = {box for doubt in network.doubts for box in doubt.boxes}
    assert {"box-05", "box-06"} <= doubted
    beside = [one.encounter for one in network.solution.relations if one.kind == BESIDE]
    wrong = [one for one in beside if one.other == "station-a"]
    assert {one.box for one in wrong} == {"traveller"}
    assert np.isfinite(network.solution.uncertainty("box-05"))
