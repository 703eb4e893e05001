"""References that are hidden in turn tell how wide intervals have to be."""

from dataclasses import replace

import numpy as np
import pytest

from scare.data.sites import Sites
from scare.upkeep.network.fleet import SolvedNetwork, solve_network
from scare.upkeep.network.hidden import learn_width
from tests.upkeep.network.cities import at_place, network_hours, stay

STATIONS = ("west", "east", "north")
PLACES = {
    name: replace(place, kind="park")
    for name, place in at_place(west=(0, 0), east=(0, 2000), north=(2000, 0), street=(1000, 1000)).items()
}
DAYS = 40


def solve_with(errors: np.ndarray, known: tuple[str, ...] = STATIONS) -> tuple[SolvedNetwork, np.ndarray]:
    """Solve four boxes with these errors [boxes, hours], of which one stands alone; also return the air [hours]."""
    rng = np.random.default_rng(3)
    hour = np.arange(DAYS * 24)
    air = 25 + 12 * np.sin(hour / 17) + rng.normal(0, 1, len(hour))
    sites = (*STATIONS, "street")
    readings = {f"box {site}": air + error for site, error in zip(sites, errors, strict=True)}
    readings |= {site: air + rng.normal(0, 0.5, len(hour)) for site in known}
    stays = [stay(site, f"box {site}", 0, DAYS) for site in sites] + [stay(site, site, 0, DAYS) for site in known]
    return solve_network(network_hours(readings, *known), Sites(tuple(stays)), PLACES), air


def share_inside(network: SolvedNetwork, air: np.ndarray) -> float:
    readings = network.hours.values[network.hours.row["box street"]]
    errors = network.solution.estimate("box street").calibrate(readings) - air
    return float(np.mean(np.abs(errors) <= network.solution.interval("box street", readings)))


def with_width(network: SolvedNetwork, width: float) -> SolvedNetwork:
    return replace(network, solution=replace(network.solution, width=width))


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(4).normal(0, 1, (4, DAYS * 24))


def test_intervals_widen_where_boxes_err_by_day_as_they_do_not_by_night(noise: np.ndarray) -> None:
    """Stations far away are compared by night, so that they tell nothing of what the sun does to a box."""
    is_day = np.arange(DAYS * 24) % 24 > 7
    network, air = solve_with(noise + np.array([6.0, -6.0, 8.0, -8.0])[:, None] * is_day)
    assert network.solution.width > 1.1
    assert share_inside(network, air) > share_inside(with_width(network, 1.0), air) + 0.05
    assert solve_with(noise)[0].solution.width == 1


def test_one_reference_tells_no_width(noise: np.ndarray) -> None:
    network, _ = solve_with(5 * noise, ("west",))
    assert network.solution.width == 1
    assert learn_width(network.hours, network.solution, lambda some: pytest.fail("solved again")) == 1


def test_what_is_solved_again_lacks_one_reference_and_the_boxes_that_met_none(noise: np.ndarray) -> None:
    """Intervals a tenth as wide have to be ten times as wide: three boxes tell it, and four are assumed to tell 1."""
    network, _ = solve_with(noise)
    solved, widths = [], []
    for width in (0.1, 0.01):
        too_narrow = with_width(network, width).solution
        widths.append(
            learn_width(network.hours, network.solution, lambda some, of=too_narrow: solved.append(some) or of)
        )
    assert {some.references for some in solved} == {frozenset(STATIONS) - {hidden} for hidden in STATIONS}
    assert all(set(some.boxes) == {"box west", "box east", "box north"} for some in solved)
    assert widths[1] / widths[0] == pytest.approx(10 ** (3 / 7))
