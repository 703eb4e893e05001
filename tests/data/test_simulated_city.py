"""A simulated city is what it says: stays that do not overlap, air that is alike nearby, tables that are read back."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.simulated_city import LOCAL_METRES, TRAFFIC, Journey, deploy, simulate_city, write_city
from scare.data.sites import read_places, read_sites


@pytest.mark.parametrize("journey", Journey)
def test_tables_are_read_back(journey: Journey, tmp_path: Path) -> None:
    city = simulate_city(deploy(journey, boxes=5, days=40, seed=2), seed=2)
    write_city(city, tmp_path)
    stays = read_sites(tmp_path / "stays.csv")  # refuses a box at two sites at once
    places = read_places(tmp_path / "places.csv")
    assert {stay.site for stay in stays.stays} <= set(places)
    for name, place in city.deployment.places.items():
        assert place.metres_to(places[name]) < 1
    truth, read = (pl.read_csv(tmp_path / name, try_parse_dates=True) for name in ("truth.csv", "readings.csv"))
    assert truth.select("time", "device").equals(read.select("time", "device"))
    boxes = {"traveller"} if journey is Journey.TRAVELLER else set()
    assert set(read["device"]) == {f"box-0{k}" for k in range(1, 6)} | boxes


def test_the_same_seed_gives_the_same_city_and_another_one_another() -> None:
    one, again, other = (simulate_city(deploy(Journey.CITY, 4, 20, seed), seed) for seed in (1, 1, 2))
    for name, values in one.readings.items():
        np.testing.assert_array_equal(values, again.readings[name])
        assert not np.array_equal(values, other.readings[name])


def test_air_is_alike_nearby() -> None:
    """The correlation of what the sites do not share falls with distance as stated."""
    city = simulate_city(deploy(Journey.CITY, 40, 365, seed=3), seed=3)
    places = city.deployment.places
    names = [name for name, place in places.items() if place.kind != TRAFFIC]  # rush hours are a street's own
    logs = np.log([city.truth[name] for name in names])
    metres, half = [], []  # semivariances of pairs
    for i in range(len(names)):
        for j in range(i):
            metres.append(places[names[i]].metres_to(places[names[j]]))
            half.append(np.var(logs[i] - logs[j]) / 2)
    expected = 0.2**2 * (1 - np.exp(-np.array(metres) / LOCAL_METRES))
    slope, constant = np.polyfit(expected, half, 1)
    assert slope == pytest.approx(1, abs=0.1)
    assert constant == pytest.approx(0, abs=0.003)


def test_a_box_reads_its_line_of_the_truth() -> None:
    city = simulate_city(deploy(Journey.STATION, 6, 60, seed=4), seed=4)
    for box in city.deployment.boxes:
        known = np.isfinite(city.air[box])
        line = city.gains[box] * city.air[box] + city.offsets[box]
        assert abs(np.mean((city.readings[box] - line)[known])) < 0.5
        assert np.corrcoef(city.readings[box][known], city.air[box][known])[0, 1] > 0.9
