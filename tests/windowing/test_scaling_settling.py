"""Settling finds what all first rows would give, in memory that does not grow with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.windowing.scaling import METHODS, SAMPLE, Affine, Scaling, Settling

FLEET = Affine(np.zeros(2), np.ones(2))


def make_settling(method: str, settle: int) -> Settling:
    return Settling(Scaling(method, FLEET, FLEET, {}, settle))


def settle_one(method: str, rows: np.ndarray) -> Affine:
    settling = make_settling(method, len(rows))
    place = settling.enter(1)
    done = [bool(settling.see(place, row[None])[0]) for row in rows]
    assert done == [False] * (len(rows) - 1) + [True]
    return settling.affine(place)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 400),
    level=st.sampled_from([0.0, 20.0, -300.0, 101_325.0]),
    first=st.sampled_from([0.0, 1e4]),
)
def test_running_sums_give_mean_and_deviation_of_all_rows(seed: int, count: int, level: float, first: float) -> None:
    rows = np.random.default_rng(seed).normal(level, [1.0, 30.0], (count, 2))
    rows[0] += first  # a bad beginning
    found, expected = settle_one("standard", rows), METHODS["standard"](rows)
    assert_allclose(found.center[0], expected.center, rtol=1e-11, atol=1e-9)
    assert_allclose(found.scale[0], expected.scale, rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_column_keeps_its_size(method: str) -> None:
    rows = np.stack([np.full(40, 0.1), np.arange(40.0)], axis=1)
    found, expected = settle_one(method, rows), METHODS[method](rows)
    assert_allclose(found.center[0, 0], expected.center[0], rtol=1e-12)
    assert_array_equal(found.scale[0, 0], expected.scale[0])


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), count=st.integers(1, SAMPLE))
def test_a_sample_of_few_rows_is_all_of_them(seed: int, count: int) -> None:
    rows = np.random.default_rng(seed).normal(20, 5, (count, 2))
    found, expected = settle_one("robust", rows), METHODS["robust"](rows)
    assert_array_equal(found.center[0], expected.center)
    assert_array_equal(found.scale[0], expected.scale)


def test_a_sample_of_four_days_has_nearly_their_quartiles() -> None:
    minutes = np.arange(96 * 60)
    rng = np.random.default_rng(1)
    day, noise = 8 * np.sin(2 * np.pi * minutes / 1440), np.cumsum(rng.normal(0, 0.3, minutes.size))
    rows = np.stack([20 + day + noise, rng.gamma(2.0, 10.0, minutes.size)], axis=1)
    found, expected = settle_one("robust", rows), METHODS["robust"](rows)
    assert (np.abs(found.center[0] - expected.center) < 0.1 * expected.scale).all()
    assert_allclose(found.scale[0], expected.scale, rtol=0.15)


@pytest.mark.parametrize("method", ["standard", "robust"])
def test_many_devices_settle_as_one_does_and_give_their_places_on(method: str) -> None:
    rows = np.random.default_rng(2).normal(20, 5, (3, 7, 2))
    settling = make_settling(method, 7)
    places = settling.enter(3)
    for step in range(7):
        done = settling.see(places, rows[:, step])
    assert done.all()
    found = settling.affine(places)
    settling.leave(places[1:])
    again = settling.enter(3)
    assert set(again[:2]) == set(places[1:])
    assert len(settling) == 4
    settling.see_all(int(again[0]), rows[0])
    for index, place in [*enumerate(places.tolist()[:1]), (0, int(again[0]))]:
        one = settle_one(method, rows[index])
        assert_array_equal(settling.affine(np.array([place])).center, one.center)
    for index in range(3):
        assert_array_equal(found.center[index], settle_one(method, rows[index]).center[0])


@pytest.mark.parametrize(("method", "most"), [("standard", 100), ("robust", 8200)])
def test_a_device_takes_so_many_bytes_however_long_it_settles(method: str, most: int) -> None:
    settling = make_settling(method, 96 * 3600)
    settling.enter(1)
    settling.see_all(0, np.ones((5000, 2)))
    assert sum(array.nbytes for array in settling.state().values()) < most
