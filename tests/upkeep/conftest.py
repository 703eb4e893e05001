"""A fleet of gas boxes that was calibrated side by side."""

from dataclasses import replace

import pytest

from scare.baselines.classical import linear_regression
from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag, flag
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.training.data import prepare_inputs
from scare.training.recipe import Recipe
from scare.upkeep.drift import training_hours

FLEET = Simulation(boxes=6, days=44, step_seconds=1800, kind=SimulationKind.GAS, seed=5)
BORDER = FLEET.start.timestamp() + 14 * 86400


@pytest.fixture(scope="module")
def calibrator() -> Calibrator:
    """A line on all channels of boxes side by side, learned without their spikes."""
    train = [one.rows((one.times < BORDER) & (one.flags & Flag.SPIKE == 0)) for one in map(flag, simulate(FLEET))]
    inputs, target = prepare_inputs(train, train, Recipe.preset("default", 4), with_effects=False)
    line = linear_regression(train, inputs, target, len(inputs.channels))
    return replace(line, training_hours=training_hours(line.inputs, train))
