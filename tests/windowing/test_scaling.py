"""Scaling goes there and back, survives odd columns, and knows which devices it has seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from scare.errors import DataError
from scare.windowing.scaling import METHODS, Affine, Scaling, constant, fit_scaling, robust, standard

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
