"""Untrained networks stand in for trained ones where only sizes and counts matter."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.experiments.random_weights import BANDWIDTH, draw_method, draw_network
from scare.experiments.study import recipe_of


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
