"""EPA's NowCast of ozone: its regression by another route, its rules for missing hours, the width of its interval."""

import numpy as np
import pytest

from scare.calibrator.air_index import find_index
from scare.calibrator.ozone_nowcast import HOURS, ozone_nowcast
from scare.data.readings import Channel

NOW = 1.645  # standard deviations of a 90 % interval


def ozone(seed: int, hours: int = 336) -> np.ndarray:
    rng = np.random.default_rng(seed)
    time = np.arange(hours)
    return 40 + 20 * np.sin(2 * np.pi * time / 24) * (1 + 0.2 * np.sin(time / 40)) + rng.normal(0, 4, hours)


def three(values: np.ndarray) -> np.ndarray:
    return np.column_stack([values, values - 4, values + 6])


def by_partial_least_squares(values: np.ndarray) -> float:
    """The white paper's equation 2 without missing hours, by R's default algorithm (Dayal and MacGregor 1997)."""
    rows = np.array([values[last - 95 : last + 1] for last in range(95, 333)])
    means = np.array([values[last - 4 : last + 4].mean() for last in range(95, 333)])
    x, covariance = rows - rows.mean(axis=0), (rows - rows.mean(axis=0)).T @ (means - means.mean())
    loads, directions, slopes = list[np.ndarray](), list[np.ndarray](), np.zeros(96)
    for _ in range(96):
        weight = covariance / np.linalg.norm(covariance)
        direction = weight.copy()
        for load, earlier in zip(loads, directions, strict=True):
            direction -= (load @ weight) * earlier
        scores = x @ direction
        loads.append(x.T @ scores / (scores @ scores))
        directions.append(direction)
        gain = covariance @ direction / (scores @ scores)
        slopes += gain * direction
        covariance = covariance - gain * (scores @ scores) * loads[-1]
    return float(means.mean() + (values[-96:] - rows.mean(axis=0)) @ slopes)


def test_it_is_the_partial_least_squares_of_epa() -> None:
    values = ozone(0)
    found = ozone_nowcast(three(values), NOW)[0]
    assert found == pytest.approx(by_partial_least_squares(values), rel=1e-6)


def test_the_interval_holds_the_mean_that_comes() -> None:
    inside = 0
    for seed in range(25):
        values = ozone(seed, 340)
        _, low, high = ozone_nowcast(np.repeat(values[:336, None], 3, axis=1), NOW)
        inside += low <= values[331:339].mean() <= high
    assert 19 <= inside <= 25  # of 25, at 90 %


def test_the_interval_of_the_hours_is_in_it() -> None:
    values = ozone(1)
    value, low, high = ozone_nowcast(three(values), 0.0)
    assert (value - low, high - value) == pytest.approx((4.0, 6.0))
    value, low, high = ozone_nowcast(three(values), NOW)
    assert np.sqrt((value - low) ** 2 - 4.0**2) == pytest.approx(np.sqrt((high - value) ** 2 - 6.0**2))


def test_without_intervals_of_the_last_hours_it_has_none() -> None:
    hours = three(ozone(1))
    hours[-8:, 1:] = np.nan
    value, low, high = ozone_nowcast(hours, NOW)
    assert (np.isfinite(value), np.isnan(low), np.isnan(high)) == (True, True, True)


def test_a_missing_hour_takes_the_nowcast_of_the_hour_before_and_three_give_none() -> None:
    values = ozone(2, HOURS)
    missing = three(values)
    missing[-1] = np.nan
    np.testing.assert_array_equal(ozone_nowcast(missing, NOW), ozone_nowcast(missing[:-1], NOW))
    missing[-3:] = np.nan
    assert np.isnan(ozone_nowcast(missing, NOW)).all()


@pytest.mark.parametrize("gone", [slice(0, 85), slice(100, 108)], ids=["a quarter", "eight hours in a row"])
def test_too_little_of_two_weeks_takes_the_surrogate(gone: slice) -> None:
    values = ozone(3)
    values[gone] = np.nan
    assert ozone_nowcast(three(values), NOW)[0] == pytest.approx(0.85 * values[-1] + 4.5)
    assert ozone_nowcast(three(values[-12:]), NOW)[0] == pytest.approx(0.85 * values[-1] + 4.5)


def test_short_gaps_are_filled() -> None:
    whole = ozone(4)
    holes = whole.copy()
    holes[[120, 200, 201, 250]] = np.nan
    assert ozone_nowcast(three(holes), NOW)[0] == pytest.approx(ozone_nowcast(three(whole), NOW)[0], abs=1.5)


def test_a_dead_analyser_reads_nothing() -> None:
    assert ozone_nowcast(np.zeros((336, 3)), NOW).tolist() == [0.0, 0.0, 0.0]


def test_the_index_of_ozone_takes_it_in_any_unit() -> None:
    ppb, ppm = (find_index("us-aqi", Channel("O3", unit)) for unit in ("ppb", "ppm"))
    hours = three(ozone(5))
    first, second = ppb.read(hours, 0.9), ppm.read(hours / 1000, 0.9)
    assert first is not None
    assert second is not None
    assert first.concentration == pytest.approx(second.concentration)
    assert first.concentration == pytest.approx(ozone_nowcast(hours, NOW)[0])
