"""Stations kilometres away tell levels, and gains at sites of their kind; what they cannot tell is said."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.data.simulated_city import TRAFFIC, City, Journey
from scare.data.sites import Place, Sites
from scare.errors import DataError
from scare.upkeep.network.distant import Field, Station, compare_distant
from scare.upkeep.network.encounters import EncounterRules
from scare.upkeep.network.fleet import SolvedNetwork, solve_network
from scare.upkeep.network.graph import Graph, System
from scare.upkeep.network.hours import NetworkHours
from scare.upkeep.network.identified import Identified
from scare.upkeep.network.relations import DISTANT
from tests.upkeep.network.cities import at_place, draw_city, hours_of, network_hours, score, stay

RULES = EncounterRules(distant=True)
NO_ENCOUNTERS = replace(RULES, hours=1e9)
PLACES = at_place(west=(0, 0), east=(0, 4000), north=(4000, 0), street=(0, 1000))


@pytest.fixture(scope="module")
def city() -> City:
    return draw_city(Journey.CITY, 2, boxes=30, days=90.0)


def solve_distant(city: City, rules: EncounterRules = RULES, kind: str | None = None) -> SolvedNetwork:
    places = city.deployment.places
    if kind is not None:
        places = {name: replace(place, kind=kind) for name, place in places.items()}
    return solve_network(hours_of(city), city.deployment.sites, places, rules)


def test_kriging_is_exact_at_a_station_and_keeps_what_all_stations_share() -> None:
    hours = network_hours({"w": np.full(48, 10.0), "e": np.full(48, 20.0), "n": np.full(48, 15.0)}, "w", "e", "n")
    stations = [Station("w", PLACES["west"]), Station("e", PLACES["east"]), Station("n", PLACES["north"])]
    field = Field(hours, stations, 3000.0)
    at_west, weights, near = field.at(PLACES["west"])
    assert_allclose(at_west, 10.0, atol=1e-6)
    assert_allclose(weights, [1, 0, 0], atol=1e-6)
    in_street, weights, far = field.at(PLACES["street"])
    assert weights.sum() == pytest.approx(1)
    assert 10 < in_street[0] < 15
    assert far > near
    # Two stations alone, solved by hand: w = (1 + (a - b) / (1 - c)) / 2 of covariances a, b with the place, c of both.
    a, b, c = np.exp(-np.array([1000, 3000, 4000]) / 3000)
    west, east = (1 + (a - b) / (1 - c)) / 2, (1 - (a - b) / (1 - c)) / 2
    assert_allclose(Field(hours, stations[:2], 3000.0).at(PLACES["street"])[1], [west, east], rtol=1e-4)


def test_a_silent_station_is_done_without() -> None:
    west = np.full(48, 10.0)
    west[24:] = np.nan
    hours = network_hours({"w": west, "e": np.full(48, 20.0)}, "w", "e")
    field, *_ = Field(hours, [Station("w", PLACES["west"]), Station("e", PLACES["east"])], 3000.0).at(PLACES["street"])
    assert (field[:24] < 15).all()
    assert_allclose(field[24:], 20.0)


def test_only_sites_of_one_kind_tell_the_gain(city: City) -> None:
    deployment = city.deployment
    relations, notes = compare_distant(hours_of(city), deployment.sites, deployment.places, RULES)
    boxes = [one for one in relations if one.encounter.box not in deployment.references]
    telling = {deployment.places[one.encounter.site].kind for one in boxes if np.isfinite(one.slope_variance)}
    assert telling == {"background"}
    assert all(np.isinf(one.slope_variance) for one in boxes if deployment.places[one.encounter.site].kind == TRAFFIC)
    assert {one.encounter.box for one in relations} >= set(deployment.references)  # stations held out
    assert "the gain is not identifiable" in notes[0]


def test_nothing_is_said_of_boxes_whose_gain_stations_of_their_kind_tell(city: City) -> None:
    alike = {name: replace(place, kind="background") for name, place in city.deployment.places.items()}
    _, notes = compare_distant(hours_of(city), city.deployment.sites, alike, RULES)
    assert not any("only the level" in note for note in notes)


def test_distant_stations_make_a_network_surer_and_truer(city: City) -> None:
    alone, helped = solve_distant(city, replace(RULES, distant=False)), solve_distant(city)
    before, after = score(city, alone), score(city, helped)
    assert np.sqrt(np.mean(after.errors**2)) < np.sqrt(np.mean(before.errors**2))
    assert 0.85 <= after.inside.mean() <= 0.95
    worst = [max(map(one.solution.uncertainty, one.solution.boxes)) for one in (alone, helped)]
    assert worst[1] < worst[0]


def errors_of_gains(city: City, network: SolvedNetwork) -> tuple[np.ndarray, np.ndarray]:
    """Return each box's gain, and its error in its standard deviations."""
    lines = [network.solution.line(box) for box in network.solution.boxes]
    gains = np.array([line.gain for line in lines])
    true_gains = np.array([1 / city.gains[box][-1] for box in network.solution.boxes])
    return gains, (gains - true_gains) / np.sqrt([line.covariance[1, 1] for line in lines])


def test_at_sites_of_another_kind_gains_stay_unknown_without_encounters(city: City) -> None:
    """Levels alone must not tell gains: a box with a high offset would look like one with a small gain."""
    stations = {stay.site for stay in city.deployment.sites.stays if stay.device in city.deployment.references}
    places = city.deployment.places.items()
    unlike = {name: replace(place, kind="roof" if name in stations else "street") for name, place in places}
    network = solve_network(hours_of(city), city.deployment.sites, unlike, NO_ENCOUNTERS)
    assert all(relation.kind == DISTANT for relation in network.solution.relations)
    gains, z = errors_of_gains(city, network)
    assert_allclose(gains, 1.0, atol=1e-6)
    assert np.sqrt(np.mean(z**2)) < 1.3
    assert score(city, network).inside.mean() >= 0.85
    assert Identified.GAIN not in network.identified.values()


def test_where_no_kind_is_stated_gains_are_told_weakly(city: City) -> None:
    network = solve_distant(city, NO_ENCOUNTERS, kind="")
    gains, z = errors_of_gains(city, network)
    assert np.ptp(gains) > 0.1
    assert np.sqrt(np.mean(z**2)) < 1.3
    assert score(city, network).inside.mean() >= 0.85
    assert set(network.identified.values()) == {Identified.LEVEL}


def test_the_gain_of_a_station_held_out_is_not_uncertain(city: City) -> None:
    hours, deployment = hours_of(city), city.deployment
    relations, _ = compare_distant(hours, deployment.sites, deployment.places, RULES)
    system = System(Graph(hours, relations))
    of_stations = system.rows.cut & (system.rows.other < 0)
    assert of_stations.sum() >= len(deployment.references)
    variances = np.zeros(system.graph.nodes)
    variances[-1] = 1e6  # of a node that these equations do not have
    known = system.rows.linearised(system.beginning, variances).known
    assert_allclose(known[of_stations], system.rows.known[of_stations])


def test_far_or_unlike_air_is_not_compared() -> None:
    rng = np.random.default_rng(1)
    air = 12 + 6 * np.sin(np.arange(60 * 24) / 17) + rng.normal(0, 1, 60 * 24)
    hours = network_hours({"box": rng.normal(20, 5, len(air)), "like": 2 * air, "ref": air}, "ref")
    stays = [stay("west", "ref", 0, 60), stay("east", "box", 0, 60), stay("street", "like", 0, 60)]
    relations, notes = compare_distant(hours, Sites(tuple(stays)), PLACES, RULES)
    assert {one.encounter.box for one in relations} == {"like"}
    assert any(sentence.startswith("box cannot be compared") for sentence in notes)
    near = replace(RULES, distant_metres=500.0)
    assert compare_distant(hours, Sites(tuple(stays)), PLACES, near) == ([], [])


def test_hours_in_which_stations_differ_can_be_left_out() -> None:
    """In half of the hours a plume is at one of two stations; without these the box agrees with their mean."""
    air = 12 + 6 * np.sin(np.arange(60 * 24) / 17)
    plume = 40.0 * (np.arange(60 * 24) // 2 % 2)
    hours = network_hours({"box": air, "w": air, "e": air + plume}, "w", "e")
    stays = Sites((stay("west", "w", 0, 60), stay("east", "e", 0, 60), stay("street", "box", 0, 60)))
    pairs, misses = [], []
    for share in (1.0, 0.5):
        relations, _ = compare_distant(hours, stays, PLACES, replace(RULES, distant_calm=share, least_correlation=0.0))
        of_box = [one for one in relations if one.encounter.box == "box"]
        pairs.append(sum(one.pairs for one in of_box))
        misses.append(max(abs(one.other_level - one.box_level) for one in of_box))
    assert pairs[1] == pytest.approx(pairs[0] / 2, rel=0.2)
    assert misses[1] < 0.01 < 1 < misses[0]


@pytest.fixture(scope="module")
def chimneys() -> tuple[NetworkHours, Sites, np.ndarray]:
    """A box and three stations, each with smoke of its own while there is little wind, and the air at the box."""
    rng = np.random.default_rng(5)
    count = 60 * 24
    wind = 3 + 2 * np.sin(np.arange(count) / 29) + rng.normal(0, 0.5, count)
    region = 25 + 12 * np.sin(np.arange(count) / 17)
    smoke = rng.exponential((9.0, 3.0, 3.0, 3.0), (count, 4)).T * (wind < 2.5)
    air = region + rng.normal(0, 1.5, (4, count)) + smoke
    hours = network_hours({"box": 1.5 * air[0] + 4, "w": air[1], "e": air[2], "n": air[3]}, "w", "e", "n")
    stays = (
        stay("west", "w", 0, 60),
        stay("east", "e", 0, 60),
        stay("north", "n", 0, 60),
        stay("street", "box", 0, 60),
    )
    return replace(hours, wind=wind), Sites(stays), air[0]


def test_hours_of_little_wind_can_be_left_out(chimneys: tuple[NetworkHours, Sites, np.ndarray]) -> None:
    """Smoke at the box is three times that at the stations, and looks like another gain in calm air."""
    hours, sites, air = chimneys
    errors = []
    for least in (0.0, 2.5):
        network = solve_network(hours, sites, PLACES, replace(RULES, distant_wind=least))
        estimate = network.solution.estimate("box").calibrate(hours.values[0])
        errors.append(np.sqrt(np.mean(np.square(estimate - air))))
    assert errors[1] < 0.3 * errors[0]


def test_hours_of_unknown_wind_are_left_out(chimneys: tuple[NetworkHours, Sites, np.ndarray]) -> None:
    hours, sites, _ = chimneys
    assert hours.wind is not None
    unknown = np.where(np.arange(len(hours.wind)) < 30 * 24, hours.wind, np.nan)
    pairs = []
    for wind in (hours.wind, unknown):
        relations, _ = compare_distant(replace(hours, wind=wind), sites, PLACES, replace(RULES, distant_wind=2.5))
        pairs.append(sum(one.pairs for one in relations if one.encounter.box == "box"))
    assert pairs[1] == pytest.approx(pairs[0] / 2, rel=0.2)
    with pytest.raises(DataError, match="wind_column"):
        compare_distant(replace(hours, wind=None), sites, PLACES, replace(RULES, distant_wind=2.5))


def test_quiet_hours_are_those_of_the_place() -> None:
    """A day of 24 values tells which hours were used: nights at 172.5° east are from noon on in UTC."""
    levels = np.tile(np.arange(24.0), 40)
    hours = network_hours({"box": levels + 1, "ref": levels}, "ref")
    far_east = {name: Place(0.0, longitude, "park") for name, longitude in (("a", 172.5), ("b", 172.51))}
    relations, _ = compare_distant(hours, Sites((stay("a", "ref", 0, 40), stay("b", "box", 0, 40))), far_east, RULES)
    assert {round(one.other_level) for one in relations} == {15}  # 13 to 17 o'clock UTC
    assert relations[0].slope == pytest.approx(1, rel=1e-6)
