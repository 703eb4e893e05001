"""The solution is a weighted least squares; its uncertainties are true; contradictions lose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.data.simulated_city import Journey
from scare.data.sites import Sites
from scare.errors import DataError
from scare.upkeep.network.encounters import EncounterRules, find_encounters
from scare.upkeep.network.fleet import SolvedNetwork, solve_network
from scare.upkeep.network.graph import Graph, solve
from scare.upkeep.network.hours import DAY
from scare.upkeep.network.identified import Identified
from scare.upkeep.network.relations import relate
from tests.upkeep.network.cities import MARCH, at_place, draw_city, network_hours, score, solve_city, stay

PLACES = at_place(station=(0, 0), street=(0, 800), park=(900, 0))


def chain(seed: int = 0, broken: bool = False) -> SolvedNetwork:
    """A stands at the station, then meets B, who meets C; if `broken`, C reads differently in its last days."""
    rng = np.random.default_rng(seed)
    truth = 12 + 6 * np.sin(np.arange(60 * 24) / 5) + rng.normal(0, 2, 60 * 24)
    lines = {"a": (1.2, 3.0), "b": (0.8, -2.0), "c": (1.5, 1.0)}
    boxes = {name: gain * (truth + rng.normal(0, 0.5, len(truth))) + offset for name, (gain, offset) in lines.items()}
    if broken:  # C reads differently in its second stay beside B
        boxes["c"][50 * 24 :] = 2.5 * truth[50 * 24 :] + 15
    stays = [stay("station", "ref", 0, 60), stay("station", "a", 0, 20), stay("street", "a", 20, 30)]
    stays += [stay("street", "b", 20, 30), stay("park", "b", 30, 60), stay("park", "c", 30, 60)]
    stays += [stay("station", "a", 30, 60)]
    return solve_network(network_hours({**boxes, "ref": truth}, "ref"), Sites(tuple(stays)), PLACES)


def test_gains_are_found_over_two_hops() -> None:
    solution = chain().solution
    for box, gain, offset in [("a", 1.2, 3.0), ("b", 0.8, -2.0), ("c", 1.5, 1.0)]:
        line = solution.line(box)
        assert line.gain == pytest.approx(1 / gain, rel=0.05)
        assert line.calibrate(np.array([gain * 12 + offset]))[0] == pytest.approx(12, abs=0.5)
    path = solution.path("c")
    assert [(step.instrument, step.other) for step in path] == [("c", "b"), ("b", "a"), ("a", "ref")]
    assert solution.uncertainty("a") < min(solution.uncertainty("b"), solution.uncertainty("c"))


def test_the_solution_is_dense_weighted_least_squares() -> None:
    """Rebuilt as one dense matrix, from the equations near the solution and their variances."""
    solution = chain().solution
    system, near = solution.system, solution.equations
    learned = np.array([solution.deviations[name] for name in system.groups]).ravel() ** 2
    # One more round with equal weights, so that all variances are known here.
    variances = near.known + learned[near.group] * near.scale
    factor = system.factor(near, variances)
    nodes = system.graph.nodes
    design = np.zeros((len(near.node), 2 * nodes))
    for k, (node, other) in enumerate(zip(near.node, near.other, strict=True)):
        design[k, 2 * node : 2 * node + 2] = near.first[k]
        if other >= 0:
            design[k, 2 * other : 2 * other + 2] -= near.second[k]
    (hub,) = system.graph.hub.values()
    prior = np.zeros((2, 2 * nodes))
    prior[:, 2 * hub : 2 * hub + 2] = np.eye(2)
    spread = 10 * np.sqrt(system.assumed()[0])
    whitened = np.vstack([design / np.sqrt(variances)[:, None], prior / spread[:, None]])
    right = np.concatenate([near.right / np.sqrt(variances), system.usual / spread])
    expected, *_ = np.linalg.lstsq(whitened, right, rcond=None)
    assert_allclose(system.solve(factor, near, variances).ravel(), expected, rtol=1e-6, atol=1e-8)
    inverse = np.linalg.inv(whitened.T @ whitened)
    own = system.elimination.covariance(factor)[system.elimination.position(range(nodes), range(nodes))]
    for node in range(nodes):
        assert_allclose(own[node], inverse[2 * node : 2 * node + 2, 2 * node : 2 * node + 2], rtol=1e-6, atol=1e-12)


def test_uncertainty_grows_with_age_and_is_least_at_an_encounter() -> None:
    solution = chain().solution
    growing = [solution.uncertainty("c", solution.end + days * DAY) for days in (0, 30, 90, 365)]
    assert growing == sorted(growing)
    assert growing[-1] > 1.3 * growing[0]
    between = [solution.uncertainty("b", MARCH + days * DAY) for days in (25, 33, 45)]
    assert between[0] < between[1]


def test_an_encounter_that_contradicts_the_others_is_named_and_hardly_counts() -> None:
    fine, wrong = chain(), chain(broken=True)
    assert not fine.doubts
    assert any("c" in doubt.boxes for doubt in wrong.doubts)


@pytest.mark.parametrize("journey", Journey)
def test_uncertainties_are_true_in_simulated_cities(journey: Journey) -> None:
    """Of 90 % intervals 85 to 95 % hold, lines miss by their own standard deviations, and pooled lines by more."""
    scores = [score(city, solve_city(city)) for city in (draw_city(journey, seed) for seed in range(6))]
    assert 0.85 <= np.mean([one.inside.mean() for one in scores]) <= 0.95
    z = np.sqrt(np.square(np.concatenate([one.z for one in scores])).mean(axis=0))
    assert np.all((z > 0.7) & (z < 1.4))
    rmse, pooled = (
        np.sqrt(np.mean(np.concatenate([np.square(getattr(one, name)) for one in scores])))
        for name in ("errors", "pooled")
    )
    assert rmse < 0.9 * pooled


def test_a_box_that_met_nobody_gets_the_fleet_with_the_fleet_s_uncertainty() -> None:
    network = chain()
    hours = network.hours
    lone = network_hours({**dict(zip(hours.names, hours.values, strict=True)), "z": hours.values[0]}, "ref")
    solution = solve(lone, relate(lone, find_encounters(lone, network.sites, PLACES)))
    assert solution.path("z") == []
    assert solution.age_days("z") is None
    assert solution.uncertainty("z") > 2 * solution.uncertainty("c")
    gains = [solution.line(box).gain for box in ("a", "b", "c")]
    assert min(gains) < solution.line("z").gain < max(gains)
    assert solution.effective_pairs("z") < solution.effective_pairs("c") < solution.effective_pairs("a")


def test_a_large_zero_changes_nothing_but_the_intercept() -> None:
    """Gas cells read zeros that differ by more than the air."""
    network = chain()
    names, hours = network.hours.names, network.hours
    shifted = hours.values + np.where(np.array(names) == "b", 500.0, 0.0)[:, None]
    moved = solve_network(network_hours(dict(zip(names, shifted, strict=True)), "ref"), network.sites, PLACES).solution
    for box in "bc":
        before, after = network.solution.line(box), moved.line(box)
        assert after.gain == pytest.approx(before.gain, rel=0.05)
        value = 12.0 + 500.0 * (box == "b")
        assert after.calibrate(value) == pytest.approx(before.calibrate(12.0), abs=0.3)


def test_a_noisy_box_is_drawn_to_the_mean_and_has_wider_intervals() -> None:
    rng = np.random.default_rng(3)
    truth = 12 + 6 * np.sin(np.arange(60 * 24) / 5) + rng.normal(0, 2, 60 * 24)
    noises = {"a": 1.0, "b": 1.0, "c": 5.0}
    boxes = {name: truth + rng.normal(0, noise, len(truth)) for name, noise in noises.items()}
    stays = [stay("station", "ref", 0, 60), stay("station", "a", 0, 20)]
    stays += [stay("street", "a", 20, 60), stay("street", "b", 20, 60), stay("street", "c", 20, 60)]
    network = solve_network(network_hours({**boxes, "ref": truth}, "ref"), Sites(tuple(stays)), PLACES)
    solution = network.solution
    assert solution.noise_factors["c"] > 5 * solution.noise_factors["b"]
    for box, noise in noises.items():  # the slope of least squares
        assert solution.estimate(box).gain == pytest.approx(np.var(truth) / (np.var(truth) + noise**2), abs=0.08)
    for box in "bc":
        values = boxes[box]
        inside = np.abs(solution.estimate(box).calibrate(values) - truth) <= solution.interval(box, values)
        assert 0.8 <= inside.mean() <= 0.96
    assert network.identified == {"a": Identified.GAIN, "b": Identified.GAIN, "c": Identified.LEVEL}


def test_a_network_that_nothing_ties_to_a_reference_is_refused() -> None:
    hours = chain().hours
    stays = Sites((stay("street", "a", 0, 60), stay("street", "b", 0, 60), stay("station", "ref", 0, 60)))
    with pytest.raises(DataError, match="no box was ever compared with a reference"):
        solve(hours, relate(hours, find_encounters(hours, stays, PLACES)))
    alone = Sites((stay("street", "a", 0, 60), stay("station", "ref", 0, 60)))
    with pytest.raises(DataError, match="no two instruments stood within 50 m"):
        solve_network(hours, alone, PLACES, EncounterRules(distant=False))
    silent = network_hours({"a": np.ones(48), "ref": np.full(48, np.nan)}, "ref")
    with pytest.raises(DataError, match="no reference has a reading"):
        Graph(silent, [])


def test_the_network_has_only_its_own_boxes() -> None:
    with pytest.raises(DataError, match="no box 'x'"):
        chain().solution.line("x")
