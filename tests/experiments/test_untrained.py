"""Untrained networks stand in for trained ones where only sizes matter; the largest window that fits is the largest."""

from dataclasses import asdict

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.baselines import DLinear
from scare.board.boards import board
from scare.board.measure import measure_once
from scare.calibrator.calibrator import Calibrator
from scare.experiments.study import recipe_of
from scare.experiments.untrained import BANDWIDTH, draw_method, draw_network, largest, largest_window
from scare.export.lowering import compile_calibrator

UNO = board("uno")


def dlinear(window: int) -> Calibrator:
    """DLinear of one channel; its file tells the architecture."""
    return draw_method("dlinear", window).with_facts(model="dlinear", architecture=asdict(DLinear.default()))


@pytest.mark.slow
def test_the_largest_window_fits_and_one_more_does_not() -> None:
    asked: list[int] = []
    window = largest_window(dlinear(300), "float32", UNO, lambda: asked.append(1))
    assert window is not None
    assert 50 < window < 300
    assert measure_once(compile_calibrator(dlinear(window), "float32"), UNO).fits
    assert not measure_once(compile_calibrator(dlinear(window + 1), "float32"), UNO).fits
    assert len(asked) <= 10


def test_what_is_no_model_of_ours_has_no_other_window() -> None:
    assert largest_window(draw_method("dlinear", 8), "float32", UNO) is None


@given(st.integers(0, 200), st.integers(1, 20), st.integers(20, 150))
def test_the_largest_is_found(limit: int, least: int, most: int) -> None:
    asked: list[int] = []

    def fits(number: int) -> bool:
        asked.append(number)
        return number <= limit

    assert largest(fits, least, most) == max((n for n in range(least, most + 1) if n <= limit), default=0)
    assert len(asked) <= (9 if limit >= least else 1)


@pytest.mark.parametrize("name", ["scare", "tesla", "dlinear"])
def test_nothing_is_left_at_zero_and_the_rest_is_as_built(name: str) -> None:
    recipe = recipe_of(name, 15, 0, {})
    built = recipe.model.build(15, 1, jax.random.key(3))
    drawn = draw_network(recipe, 1, 3, np.random.default_rng(0))
    for before, after in zip(
        *(jax.tree.leaves(eqx.filter(one, eqx.is_inexact_array)) for one in (built, drawn)), strict=True
    ):
        zero = np.asarray(before) == 0
        assert (np.asarray(after)[zero] != 0).all()
        np.testing.assert_array_equal(np.asarray(after)[~zero], np.asarray(before)[~zero])
        if zero.ndim == 0 and zero:
            assert BANDWIDTH[0] <= after <= BANDWIDTH[1]


def test_a_method_is_drawn_once_and_the_same_again() -> None:
    first = draw_method("scare", 15)
    draw_method.cache_clear()
    again = draw_method("scare", 15)
    assert all(
        np.array_equal(one.weights[name], other.weights[name])
        for one, other in zip(first.plan.steps, again.plan.steps, strict=True)
        for name in one.weights
    )
