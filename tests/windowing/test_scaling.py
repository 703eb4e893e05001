"""Scaling goes there and back, survives odd columns; a new device settles on what all its first rows would give."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from scare.errors import DataError
from scare.windowing.scaling import (
    METHODS,
    NO_EFFECT,
    Affine,
    DeviceEffect,
    Scaling,
    Settling,
    add_devices,
    constant,
    fit_scaling,
    robust,
    standard,
)

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


ROWS = {"a": np.array([[1.0], [3.0]]), "b": np.array([[10.0], [14.0]])}


def test_each_device_of_the_training_set_keeps_its_own_numbers() -> None:
    scaling = fit_scaling("standard", ROWS, np.array([0.0, 2.0]), per_device=True, settle=5, own_share=np.ones(1))
    assert (scaling.known("a").center.tolist(), scaling.known("b").scale.tolist()) == ([2.0], [2.0])
    assert scaling.known("c") is None
    assert scaling.target.center.tolist() == [1.0]
    assert_array_equal(scaling.own(ROWS["b"]).center, scaling.known("b").center)


@pytest.mark.parametrize(
    ("method", "per_device", "settle", "share"),
    [
        ("standard", False, 9, None),
        ("standard", False, 9, 0.0),
        ("standard", False, 0, 1.0),
        ("constant", True, 9, 1.0),
        ("constant", False, 9, 1.0),
    ],
)
def test_a_fleet_without_a_centre_that_moves_never_settles(
    method: str, per_device: bool, settle: int, share: float | None
) -> None:
    own_share = None if share is None else np.array([share])
    scaling = fit_scaling(method, {"a": np.ones((3, 1))}, np.ones(3), per_device, settle, own_share)
    assert (scaling.settle, scaling.own_share) == (0, None)
    assert scaling.known("a") is scaling.known("unseen") is scaling.fleet


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_only_centres_of_a_new_device_move_and_by_their_share(share: float) -> None:
    rows = np.random.default_rng(0).normal([10, 500], [2, 40], (50, 2))
    own_share = np.array([0.0, share])
    scaling = fit_scaling("standard", {"a": rows}, rows[:, 0], False, 20, own_share)
    new = rows + np.array([3.0, 200.0])
    found = scaling.own(new)
    assert_allclose(found.center, scaling.fleet.center + np.array([0.0, 200.0 * share]))
    assert_array_equal(found.scale, scaling.fleet.scale)
    assert_allclose(scaling.known("a").center, scaling.fleet.center)  # by the same rule
    assert scaling.known("new") is None


def test_a_device_of_training_has_its_effect_and_others_have_none() -> None:
    fleet = Affine(np.zeros(1), np.ones(1))
    scaling = Scaling("standard", fleet, fleet, effects={"a": DeviceEffect(0.5, -0.25)})
    assert scaling.effect("a") == (0.5, -0.25)
    assert scaling.effect("b") == scaling.effect("") == NO_EFFECT


@pytest.mark.parametrize("per_device", [True, False])
def test_a_device_added_later_is_scaled_as_those_of_training_are(per_device: bool) -> None:
    rows = {name: np.random.default_rng(seed).normal(9 * seed, 1 + seed, (40, 2)) for seed, name in enumerate("abc")}
    first = {name: rows[name] for name in "ab"}
    scaling = fit_scaling("standard", first, np.arange(3.0), per_device, settle=20, own_share=np.array([1.0, 0.5]))
    added = add_devices(scaling, rows)
    fleet = scaling.fleet
    assert added.devices["a"] is scaling.devices["a"]
    assert_array_equal(added.devices["c"].scale, rows["c"].std(axis=0) if per_device else fleet.scale)
    mean = rows["c"].mean(axis=0)
    moved = fleet.center + np.array([1.0, 0.5]) * (mean - fleet.center)
    assert_allclose(added.devices["c"].center, mean if per_device else moved)


def test_an_unseen_device_without_settling_is_scaled_as_the_fleet_is() -> None:
    fleet, own = Affine(np.zeros(1), np.ones(1)), Affine(np.ones(1), np.ones(1))
    scaling = Scaling("standard", fleet, fleet, {"a": own})
    assert scaling.known("a") is own
    assert scaling.known("b") is fleet


def test_an_unknown_method_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"'magic'.*constant, standard, robust"):
        fit_scaling("magic", {"a": np.ones((1, 1))}, np.ones(1), False, 0)


FLEET, SHARE = Affine(np.array([20.0, 300.0]), np.array([2.0, 30.0])), np.array([1.0, 0.5])


def make_settling(settle: int) -> Settling:
    return Settling(Scaling("standard", FLEET, FLEET, {}, settle, own_share=SHARE))


def settle_one(rows: np.ndarray) -> Affine:
    settling = make_settling(len(rows))
    place = settling.allocate(1)
    done = [bool(settling.update(place, row[None])[0]) for row in rows]
    assert done == [False] * (len(rows) - 1) + [True]
    return settling.affine(place)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 400),
    level=st.sampled_from([0.0, 20.0, -300.0, 101_325.0]),
    first=st.sampled_from([0.0, 1e4]),
)
def test_running_sums_give_the_scaling_of_all_rows(seed: int, count: int, level: float, first: float) -> None:
    rows = np.random.default_rng(seed).normal(level, [1.0, 30.0], (count, 2))
    rows[0] += first  # a bad beginning
    found, expected = settle_one(rows), Scaling("standard", FLEET, FLEET, own_share=SHARE).own(rows)
    assert_allclose(found.center[0], expected.center, rtol=1e-11, atol=1e-9)
    assert_array_equal(found.scale[0], FLEET.scale)


def test_many_devices_settle_as_one_does_and_give_their_places_on() -> None:
    rows = np.random.default_rng(2).normal(20, 5, (3, 7, 2))
    settling = make_settling(7)
    places = settling.allocate(3)
    for step in range(7):
        done = settling.update(places, rows[:, step])
    assert done.all()
    found = settling.affine(places)
    settling.release(places[1:])
    again = settling.allocate(3)
    assert set(again[:2]) == set(places[1:])
    assert len(settling) == 4
    settling.update_one(int(again[0]), rows[0])
    for index, place in [*enumerate(places.tolist()[:1]), (0, int(again[0]))]:
        assert_array_equal(settling.affine(np.array([place])).center, settle_one(rows[index]).center)
    for index in range(3):
        assert_array_equal(found.center[index], settle_one(rows[index]).center[0])


def test_settling_goes_on_from_a_state() -> None:
    rows, settling, other = np.random.default_rng(3).normal(20, 5, (7, 2)), make_settling(7), make_settling(7)
    place = settling.allocate(2)[:1]
    settling.release(np.array([1]))
    settling.update_one(0, rows[:4])
    other.restore(settling.state())
    assert other.rows_missing(0) == settling.rows_missing(0) == 3
    assert other.allocate(1).tolist() == [1]
    other.update_one(0, rows[4:])
    assert_array_equal(other.affine(place).center, settle_one(rows).center)


@pytest.mark.parametrize("restored", [False, True])
def test_settling_goes_on_for_a_scaling_with_another_centre(restored: bool) -> None:
    rows, settling = np.random.default_rng(4).normal(20, 5, (7, 2)), make_settling(7)
    place = settling.allocate(1)
    settling.update_one(0, rows[:4])
    other = Scaling("standard", Affine(np.array([-50.0, 7.0]), np.array([3.0, 9.0])), FLEET, {}, 7, own_share=SHARE)
    if restored:
        state, settling = settling.state(), Settling(other)
        settling.restore(state)
    else:
        settling.replace_scaling(other)
    settling.update_one(0, rows[4:])
    assert_allclose(settling.affine(place).center[0], other.own(rows).center, rtol=1e-12)


def test_a_device_takes_so_many_bytes_however_long_it_settles() -> None:
    settling = make_settling(96 * 3600)
    settling.allocate(1)
    settling.update_one(0, np.ones((5000, 2)))
    assert sum(array.nbytes for array in settling.state().values()) < 100
