"""Targets: numbers as published, the right pollutant and unit, measures as an independent computation has them."""

from dataclasses import replace

import numpy as np
import pytest

from scare.data.readings import Channel
from scare.scorecard.agency_targets import agency_targets, assess_device, assess_precision, find_target
from scare.scorecard.series import DeviceSeries

PUBLISHED = {  # slope ±, intercept ±, R², RMSE
    "PM2.5": (0.35, 5, 0.70, 7),
    "PM10": (0.35, 10, 0.70, 14),
    "O3": (0.20, 5, 0.80, 5),
    "NO2": (0.35, 5, 0.70, 15),
    "CO": (0.20, 0.05, 0.80, 0.15),
    "SO2": (0.35, 5, 0.70, 15),
}


def make_series(reference: np.ndarray, calibrated: np.ndarray, step: float = 3600.0, device: str = "a") -> DeviceSeries:
    """Rows on the hour with these values."""
    times = step * np.arange(len(reference))
    nothing, no = np.full(len(times), np.nan), np.zeros(len(times), bool)
    flags = no.astype(np.uint32)
    return DeviceSeries(
        device, step, times, nothing, reference, calibrated, *[nothing] * 3, flags, nothing, nothing, no
    )


@pytest.mark.parametrize("title", PUBLISHED)
def test_the_numbers_are_those_published(title: str) -> None:
    bounds = agency_targets().targets[title].bounds
    slope, intercept, r2, rmse = PUBLISHED[title]
    assert bounds["slope"] == pytest.approx((1 - slope, 1 + slope))
    assert bounds["intercept"] == (-intercept, intercept)
    assert bounds["r2"] == (r2, 1.0)
    assert bounds["rmse"] == (0.0, rmse)
    assert ("nrmse" in bounds) == title.startswith("PM")


def test_the_file_is_dated_and_every_target_has_a_source() -> None:
    assert agency_targets().as_of.year >= 2026
    assert all("EPA/600/R-2" in one.source for one in agency_targets().targets.values())


@pytest.mark.parametrize(
    ("name", "title"),
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
def test_a_pollutant_is_known_by_its_name(name: str, title: str | None) -> None:
    found = find_target(Channel(name))
    assert (found and found.name) == title


def test_bounds_follow_the_unit() -> None:
    no2 = find_target(Channel("NO2"))
    assert no2 is not None
    in_mass = no2.in_unit("ug/m3")
    assert in_mass is not None
    assert in_mass.bounds["rmse"][1] == pytest.approx(15 * 46.01 / 24.4654)
    assert in_mass.bounds["slope"] == no2.bounds["slope"]
    assert no2.in_unit("ppm").bounds["rmse"][1] == pytest.approx(0.015)  # type: ignore[union-attr]
    assert no2.in_unit("") is None
    assert no2.in_unit("mV") is None


def test_measures_are_those_of_complete_averages() -> None:
    rng = np.random.default_rng(5)
    reference = rng.gamma(3.0, 4.0, 24 * 40)
    calibrated = 0.9 * reference + 1.0 + rng.normal(0, 1.0, len(reference))
    calibrated[:10] = np.nan  # the first day has 14 hours: not complete
    calibrated[24:29] = np.nan  # the second has 19: complete
    pm25 = find_target(Channel("PM2.5"))
    assert pm25 is not None
    found = assess_device(make_series(reference, calibrated), pm25)
    days = [slice(29, 48), *(slice(24 * day, 24 * day + 24) for day in range(2, 40))]
    x, y = (np.array([values[day].mean() for day in days]) for values in (reference, calibrated))
    design = np.stack([x, np.ones_like(x)], axis=1)
    slope, intercept = np.linalg.lstsq(design, y, rcond=None)[0]
    assert (found.averages, found.days) == (39, 39)
    assert found.values["slope"] == pytest.approx(slope)
    assert found.values["intercept"] == pytest.approx(intercept)
    assert found.values["rmse"] == pytest.approx(np.sqrt(np.mean((x - y) ** 2)))
    assert found.values["nrmse"] == pytest.approx(found.values["rmse"] / x.mean())
    residual = y - design @ [slope, intercept]
    assert found.values["r2"] == pytest.approx(1 - residual @ residual / np.square(y - y.mean()).sum())


def test_rmse_or_its_share_of_the_mean_is_enough() -> None:
    reference = np.linspace(100, 200, 24 * 35)
    pm25 = find_target(Channel("PM2.5"))
    assert pm25 is not None
    found = assess_device(make_series(reference, reference + 20.0), pm25)
    assert found.values["rmse"] == pytest.approx(20.0)
    assert (found.met["rmse"], found.met["nrmse"], found.one_is_enough) == (False, True, True)
    assert not found.met["intercept"]
    no2 = find_target(Channel("NO2"))
    assert no2 is not None
    assert assess_device(make_series(reference, reference), no2).one_is_enough is None


def test_too_few_averages_are_not_judged() -> None:
    pm25 = find_target(Channel("PM2.5"))
    assert pm25 is not None
    assert assess_device(make_series(np.arange(24.0), np.arange(24.0)), pm25).values == {}


def test_precision_is_the_spread_of_three_devices_at_one_reference() -> None:
    reference = np.linspace(10, 20, 50)
    no2 = find_target(Channel("NO2"))
    assert no2 is not None
    three = [
        make_series(reference, reference + shift, device=name) for name, shift in zip("abc", (-1, 0, 1), strict=True)
    ]
    found = assess_precision(three, no2)
    assert found is not None
    assert found.values["sd"] == pytest.approx(np.sqrt(100 / 149))
    assert found.values["cv"] == pytest.approx(found.values["sd"] / 15)
    assert found.one_is_enough
    assert assess_precision(three[:2], no2) is None
    silent = make_series(reference, np.full(50, np.nan), device="d")
    assert assess_precision([silent, *three], no2) == found
    elsewhere = replace(three[2], reference=reference[::-1])
    assert assess_precision([*three[:2], elsewhere], no2) is None
