"""A fitted calibrator says how sure it is, and how much less so of a device it does not know."""

from dataclasses import replace

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag
from scare.data.readings import Readings
from scare.data.simulate import Simulation, simulate
from scare.training.fit import fit
from tests.training.small_fits import line_recipe


@pytest.fixture(scope="module")
def boxes() -> tuple[Readings, ...]:
    return tuple(simulate(Simulation(boxes=3, days=4, seed=3)))


@pytest.fixture(scope="module")
def calibrator(boxes: tuple[Readings, ...]) -> Calibrator:
    return fit(boxes, recipe=replace(line_recipe(), per_device=True))


def share_covered(calibrator: Calibrator, readings: Readings) -> float:
    table = calibrator.predict(readings).filter(readings.frame["reference"].is_not_null()).drop_nulls("low")
    return float(table["reference"].is_between(table["low"], table["high"]).mean())


def test_intervals_are_made_when_it_is_fitted(calibrator: Calibrator, boxes: tuple[Readings, ...]) -> None:
    assert calibrator.intervals is not None
    assert (calibrator.intervals.level, calibrator.intervals.kept_windows) == (0.9, 0)
    assert 0.85 < np.mean([share_covered(calibrator, one) for one in boxes]) < 0.99


def test_the_level_is_a_setting(calibrator: Calibrator, boxes: tuple[Readings, ...]) -> None:
    recipe = replace(line_recipe(), per_device=True)
    half = fit(boxes, recipe=replace(recipe, settings=replace(recipe.settings, level=0.5))).intervals
    assert half is not None
    assert calibrator.intervals is not None
    assert half.level == 0.5
    assert np.less(half.above, calibrator.intervals.above).all()


def test_a_device_it_does_not_know_has_wider_intervals(calibrator: Calibrator, boxes: tuple[Readings, ...]) -> None:
    """Its readings are scaled as the fleet's, which is not how they are."""
    assert calibrator.intervals is not None
    assert calibrator.intervals.widening > 1.2
    table = calibrator.predict(replace(boxes[0], device="new"))
    assert ((table["flags"].to_numpy() & Flag.UNSETTLED) > 0).any()
    assert share_covered(calibrator, replace(boxes[0], device="new")) > 0.8
