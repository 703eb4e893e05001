"""The registry of targets: numbers as published, units, what is refused, and files of one's own."""

from itertools import pairwise
from pathlib import Path

import pytest

from scare.data.readings import Channel
from scare.errors import UsageError
from scare.scorecard.targets import choose_sets, target_sets, title
from tests.scorecard.own_targets import HOURLY

EPA, CEN = target_sets()["epa"], target_sets()["cen"]
PUBLISHED = {  # slope ±, intercept ±, R², RMSE
    "PM2.5": (0.35, 5, 0.70, 7),
    "PM10": (0.35, 10, 0.70, 14),
    "O3": (0.20, 5, 0.80, 5),
    "NO2": (0.35, 5, 0.70, 15),
    "CO": (0.20, 0.05, 0.80, 0.15),
    "SO2": (0.35, 5, 0.70, 15),
}


@pytest.mark.parametrize("pollutant", PUBLISHED)
def test_the_numbers_of_epa_are_those_published(pollutant: str) -> None:
    bounds = EPA.targets[pollutant].classes["target"]
    slope, intercept, r2, rmse = PUBLISHED[pollutant]
    assert bounds["slope"] == pytest.approx((1 - slope, 1 + slope))
    assert bounds["intercept"] == (-intercept, intercept)
    assert bounds["r2"] == (r2, 1.0)
    assert bounds["rmse"] == (0.0, rmse)
    assert ("nrmse" in bounds) == pollutant.startswith("PM")


def test_every_class_is_stricter_than_the_next() -> None:
    for one in target_sets().values():
        for target in one.targets.values():
            classes = list(target.classes.values())
            for better, worse in pairwise(classes):
                for measure, (low, high) in worse.items():
                    assert low <= better[measure][0] <= better[measure][1] <= high, (one.name, target.name, measure)


def test_every_set_is_dated_and_says_where_it_was_read() -> None:
    assert all(one.as_of.year >= 2026 and one.source for one in target_sets().values())
    assert "not read" in CEN.second_hand
    assert "not read" in EPA.second_hand
    assert target_sets()["eu-2008-50"].second_hand == ""
    assert all("EPA/600/R-2" in one.source for one in EPA.targets.values())


@pytest.mark.parametrize(
    ("name", "pollutant"),
    [
        ("Ref.PM2.5", "PM2.5"),
        ("pm25_reference", "PM2.5"),
        ("PM2_5", "PM2.5"),
        ("Ref.PM10", "PM10"),
        ("no2_reference", "NO2"),
        ("CO(GT)", "CO"),
        ("Ref.CO_ppm", "CO"),
        ("Ozone", "O3"),
        ("co2", None),
        ("pm_reference", None),
        ("PM100", None),
        ("NOx(GT)", None),
        ("reference", None),
    ],
)
def test_a_pollutant_is_known_by_its_name(name: str, pollutant: str | None) -> None:
    found = EPA.find(Channel(name))
    assert (found and found.name) == pollutant
    assert title(Channel(name)) == (pollutant or name)


def test_bounds_follow_the_unit_at_the_temperature_of_the_set() -> None:
    no2 = EPA.targets["NO2"]
    in_mass = no2.in_unit("ug/m3", EPA.temperature)
    assert in_mass is not None
    assert in_mass.classes["target"]["rmse"][1] == pytest.approx(15 * 46.01 / 24.4654)
    assert in_mass.classes["target"]["slope"] == no2.classes["target"]["slope"]
    small = no2.in_unit("ppm", EPA.temperature)
    assert small is not None
    assert small.classes["target"]["rmse"][1] == pytest.approx(0.015)
    assert no2.in_unit("", 25.0) is None
    assert no2.in_unit("mV", 25.0) is None
    european = CEN.targets["NO2"].in_unit("ppb", CEN.temperature)
    assert european is not None
    assert european.limit == pytest.approx(200 * 24.0550 / 46.01, rel=1e-4)  # litres per mole at 20 °C


def test_a_directive_without_numbers_refuses_and_says_what_to_type_in() -> None:
    with pytest.raises(UsageError, match=r"Type in annex V .* --targets FILE.toml"):
        choose_sets("eu-2024-2881")
    assert "eu-2024-2881" not in [one.name for one in choose_sets("")]


def test_a_file_of_ones_own_is_a_set_beside_the_others(tmp_path: Path) -> None:
    path = tmp_path / "city.toml"
    path.write_text(HOURLY)
    assert [one.title for one in choose_sets(f"epa,{path}")] == [EPA.title, "Hourly PM2.5"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("uncertainty = [0.0, 0.3]", "uncertanty = [0.0, 0.3]", "no measure is called 'uncertanty'; did you mean"),
        ("limit = 25.0\n", "", "the uncertainty is judged at a limit; add limit"),
        ('"PM2.5"', '"PM2.55"', "no quantity is called 'PM2.55'"),
        ('regression = "orthogonal"', 'regression = "huber"', "regression is 'huber'"),
        ("[hourly]\n", "", "'title' belongs to no set of targets"),
    ],
)
def test_a_mistake_in_a_file_of_ones_own_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "city.toml"
    path.write_text(HOURLY.replace(old, new))
    with pytest.raises(UsageError, match=message):
        choose_sets(str(path))


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(UsageError, match="no set of targets is called 'cenn'; did you mean 'cen'"):
        choose_sets("cenn")
