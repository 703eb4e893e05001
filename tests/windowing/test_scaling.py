"""Scaling goes there and back, survives odd columns; a new device settles on what all its first rows would give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from scare.errors import DataError
from scare.windowing.scaling import METHODS, SAMPLE, Affine, Scaling, Settling, constant, fit_scaling, robust, standard

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
TABLES = arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=NUMBERS)


@settings(deadline=None)
@given(method=st.sampled_from(sorted(METHODS)), values=TABLES)
def test_scaling_goes_there_and_back(method: str, values: np.ndarray) -> None:
    affine = METHODS[method](values)
    assert affine.center.shape == affine.scale.shape == values.shape[1:]
    assert (affine.scale > 0).all()
    back = affine.invert(affine.apply(values))
    assert_allclose(back, values, rtol=1e-12, atol=1e-12 * (1 + np.abs(values).max() + affine.scale.max()))


@settings(deadline=None)
@given(value=NUMBERS, rows=st.integers(1, 50))
def test_a_constant_column_keeps_its_size(value: float, rows: int) -> None:
    column = np.full((rows, 1), value)
    for method in (standard, robust):
        affine = method(column)
        assert affine.scale.tolist() == [1.0]
        assert_allclose(affine.apply(column), 0.0, atol=1e-9 * (1 + abs(value)))


def test_standard_gives_mean_zero_and_deviation_one() -> None:
    values = np.random.default_rng(0).normal([5, -3], [2, 0.1], (500, 2))
    scaled = standard(values).apply(values)
    assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    assert_allclose(scaled.std(axis=0), 1)


def test_robust_is_about_standard_for_normal_numbers_and_ignores_an_outlier() -> None:
    values = np.random.default_rng(1).normal(20, 3, (5001, 1))
    assert_allclose(robust(values).scale, standard(values).scale, rtol=0.05)
    spoiled = values.copy()
    spoiled[np.argmax(spoiled)] = 1e9
    assert_array_equal(robust(spoiled).center, robust(values).center)
    assert_array_equal(robust(spoiled).scale, robust(values).scale)
    assert standard(spoiled).scale > 1e6


def test_constant_divides_by_three_hundred_whatever_the_data() -> None:
    assert constant(np.full((2, 2), 9e9)).apply(np.array([[300.0, 600.0]])).tolist() == [[1.0, 2.0]]


def test_each_device_of_the_training_set_keeps_its_own_numbers() -> None:
    rows = {"a": np.array([[1.0], [3.0]]), "b": np.array([[10.0], [14.0]])}
    scaling = fit_scaling("standard", rows, np.array([0.0, 2.0]), per_device=True, settle=5)
    assert (scaling.known("a").center.tolist(), scaling.known("b").scale.tolist()) == ([2.0], [2.0])
    assert scaling.known("c") is None
    assert scaling.target.center.tolist() == [1.0]
    assert_array_equal(scaling.own(rows["b"]).center, scaling.known("b").center)


@pytest.mark.parametrize(("method", "per_device"), [("standard", False), ("constant", True), ("constant", False)])
def test_a_pooled_scaling_never_settles(method: str, per_device: bool) -> None:
    scaling = fit_scaling(method, {"a": np.ones((3, 1))}, np.ones(3), per_device, settle=9)
    assert scaling.settle == 0
    assert scaling.known("a") is scaling.known("unseen") is scaling.fleet


def test_an_unseen_device_without_settling_is_scaled_as_the_fleet_is() -> None:
    fleet, own = Affine(np.zeros(1), np.ones(1)), Affine(np.ones(1), np.ones(1))
    scaling = Scaling("standard", fleet, fleet, {"a": own})
    assert scaling.known("a") is own
    assert scaling.known("b") is fleet


def test_an_unknown_method_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"'magic'.*constant, standard, robust"):
        fit_scaling("magic", {"a": np.ones((1, 1))}, np.ones(1), False, 0)


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
def test_a_constant_column_keeps_its_size_after_settling(method: str) -> None:
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
