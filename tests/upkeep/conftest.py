"""A fleet of gas boxes that was calibrated side by side."""

from dataclasses import replace

import numpy as np
import pytest

from scare.baselines.classical import linear_regression
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import derive_intervals
from scare.data.flags import Flag, flag
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.training.data import prepare_inputs
from scare.training.recipe import Recipe

FLEET = Simulation(boxes=6, days=44, step_seconds=1800, kind=SimulationKind.GAS, seed=5)
BORDER = FLEET.start.timestamp() + 14 * 86400


@pytest.fixture(scope="module")
def calibrator() -> Calibrator:
    """A line on all channels of boxes side by side, learned without their spikes."""
    train = [one.rows((one.times < BORDER) & (one.flags & Flag.SPIKE == 0)) for one in map(flag, simulate(FLEET))]
    inputs, target = prepare_inputs(train, train, Recipe.preset("default", 4), with_effects=False)
    line = linear_regression(train, inputs, target, len(inputs.channels))
    pairs = [(line.predict(box)["calibrated"].fill_null(np.nan).to_numpy(), box.targets) for box in train]
    values, references = (np.concatenate(column) for column in zip(*pairs, strict=True))
    known = np.isfinite(values) & np.isfinite(references)
    return replace(line, intervals=derive_intervals(values[known], references[known]))
