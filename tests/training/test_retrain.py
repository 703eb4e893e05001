"""Trained anew means the same recipe, everything before the newest day, and that day as the judge."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.errors import DataError, UsageError
from scare.training.recipe import Recipe
from scare.training.retrain import DAY, NewestDay, join_devices, recipe_of
from tests.upkeep.sessions import HOURLY, air, session

WINDOW = 5 * 3600.0


def shifted(by: float) -> Calibrator:
    """The calibrator with an offset."""
    target = HOURLY.inputs.scaling.target
    scaling = replace(HOURLY.inputs.scaling, target=replace(target, center=target.center + by))
    return replace(HOURLY, inputs=replace(HOURLY.inputs, scaling=scaling))


def test_the_newest_day_is_not_learned_from_and_judges() -> None:
    (readings,) = [session(air(5), offset=2.0)]
    newest = NewestDay.split_off([readings], WINDOW)
    (before,) = newest.before
    assert newest.start == readings.times[-1] - DAY
    assert before.times[-1] < newest.start - WINDOW
    found = newest.choose(HOURLY, shifted(2.0))
    assert found.changed
    assert found.after < 0.5 < 1.5 < found.before
    assert newest.choose(shifted(2.0), HOURLY).calibrator == shifted(2.0)
    assert not newest.choose(HOURLY, HOURLY).changed


def test_one_day_alone_is_too_little() -> None:
    with pytest.raises(DataError, match="no row before the newest day has a reference"):
        NewestDay.split_off([session(air(1))], WINDOW)


def test_a_device_goes_on_where_it_ended_and_new_rows_replace_old_ones() -> None:
    old, new = session(air(2)), session(air(2, seed=4, start_day=20001))
    other = replace(session(air(1)), device="box-2")
    first, second = join_devices([old, other], [new])
    assert second.device == "box-2"
    assert_array_equal(first.times, np.unique([*old.times, *new.times]))
    assert_array_equal(first.values[24:], new.values)
    assert first.frame.select(pl.col("time").is_sorted()).item()


def test_the_recipe_is_the_one_of_its_facts() -> None:
    recipe = Recipe.preset("default", window=24, steps=70, seed=3)
    trained = replace(HOURLY, inputs=replace(HOURLY.inputs, window=24, policy=recipe.policy))
    facts = {"model": "ridge", "preset": "default+box", "architecture": {"front": {"width": 4}}}
    trained = trained.with_facts(**facts, settings={"steps": 70, "epochs": 0, "seed": 3})
    found = recipe_of(trained)
    assert (found.name, found.window, found.settings.steps, found.settings.seed) == ("default+box", 24, 70, 3)
    assert found.model.front.width == 4  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="does not contain its training settings"):
        recipe_of(HOURLY)
