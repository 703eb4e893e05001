"""Doubts about a co-location: each mistake is named with its evidence, and a good one raises none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from scare.data.colocation_check import check_colocation
from scare.data.readings import Channel, Readings

ROWS = 1440  # of ten minutes: ten days


def air(seed: int = 1) -> np.ndarray:
    """A slowly changing concentration with a daily cycle [rows]."""
    random = np.random.default_rng(seed)
    slow = np.convolve(random.normal(size=ROWS + 35), np.ones(36) / 6, "valid")
    return 20 + 4 * slow + 3 * np.sin(np.arange(ROWS) * 2 * np.pi / 144)


def box(
    raw: np.ndarray,
    truth: np.ndarray,
    reference: str = "truth",
    sensor: str = "raw",
    rows: int = ROWS,
    **others: np.ndarray,
) -> Readings:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=10 * row) for row in range(rows)]
    columns = {name: values[:rows] for name, values in {sensor: raw, **others, "reference": truth}.items()}
    channels = tuple(Channel(name) for name in (sensor, *others))
    return Readings("box", pl.DataFrame({"time": times, **columns}), channels, Channel(reference))


def noisy(seed: int = 2) -> np.ndarray:
    return 1.7 * air() + 5 + np.random.default_rng(seed).normal(0, 3, ROWS)


def test_a_good_co_location_raises_no_doubt() -> None:
    assert check_colocation([box(noisy(), air()), box(-noisy(3), air())]) == []


@pytest.mark.parametrize("truth", [np.random.default_rng(0).permutation(air()), air(7)])
def test_a_reference_of_something_else_is_fatal(truth: np.ndarray) -> None:
    doubts = check_colocation([box(np.random.default_rng(3).normal(20, 3, ROWS), truth)])
    assert [doubt.fatal for doubt in doubts] == [True]
    assert doubts[0].text.startswith("The reference has nothing to do with the sensor: all channels together explain")


def test_a_device_that_is_there_twice_is_fatal() -> None:
    (doubt,) = check_colocation([box(noisy(), air()), replace(box(noisy(), air()), device="copy")])
    assert doubt.fatal
    assert doubt.text.startswith("box and copy have the same readings in 100 % of their 1,440 common rows")


def test_a_weak_sensor_is_not_called_unrelated() -> None:
    weak = air() + np.random.default_rng(5).normal(0, 30, ROWS)
    assert check_colocation([box(weak, air())]) == []


@pytest.mark.parametrize(
    ("readings", "text"),
    [
        (box(noisy(), air(), copy=air()), "copy is the reference itself"),
        (box(noisy(), air(), copy=(air() / 1.9).round(3)), "the reference is 1.9 times copy"),
        (box(np.sort(noisy()), air()), "raw never falls from the first row to the last"),
        (box(noisy(), -np.sort(air())), "the reference never rises"),
        (box(np.minimum(noisy(), 50), air()), "raw is 50, its highest value, in"),
        (box(noisy(), np.repeat(air()[::6], 6)), "the reference changes every 1 hour and the sensor every 10 minutes"),
        (box(noisy(), 1000 * air(), sensor="pm25"), "the reference varies 5"),
        (box(noisy(), -air(), sensor="pm25"), "the reference falls when pm25 rises"),
        (box(noisy(), air(), "station_NO2", "pm25"), "pm25 measures PM2.5, and the reference station_NO2 is NO2"),
        (box(noisy(), air(), "pm25", "pm25_station"), "pm25_station is calibrated to pm25: are sensor and reference"),
        (box(np.full(ROWS, 3.0), air(), other=noisy()), "raw never changes"),
        (box(np.round(noisy() / 30) * 30, air(), other=noisy()), "raw has only 3 different values, 30 apart"),
        (box(noisy(), np.where(abs(np.arange(ROWS) - 700) < 100, 44.0, air())), "the reference stays at 44 for"),
        (box(noisy(), np.where(np.arange(ROWS) < 700, 1, 0.001) * air()), "changes from 0.5"),
        (box(np.roll(noisy(), 36), air()), "shifted by -6 hours"),
        (box(noisy(), air(), rows=300), "The readings cover 2.1 days"),
    ],
)
def test_a_mistake_is_named(readings: Readings, text: str) -> None:
    assert any(text in doubt.text for doubt in check_colocation([readings])), check_colocation([readings])


def test_of_several_devices_the_first_is_named_and_the_others_are_counted() -> None:
    (doubt,) = check_colocation(
        [box(np.roll(noisy(2), 36), air()), box(np.roll(noisy(3), 36), air()), box(noisy(), air())]
    )
    assert doubt.text.startswith("box: the sensor follows the reference better")
    assert doubt.text.endswith("(2 of 3 devices)")
