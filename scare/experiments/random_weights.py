"""Untrained networks with random weights: what they cost on a board or a computer is known before training.

Training changes values, not sizes. In fixed point it moves instruction counts a little (docs/benchmarks/board.md says
why).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import BANDS, LEVEL, Intervals
from scare.calibrator.passes import average, fold
from scare.calibrator.plan import Plan
from scare.data.flags import QualitySettings
from scare.data.readings import Channel, Readings
from scare.experiments.study import recipe_of
from scare.models import Network
from scare.training.data import prepare_inputs
from scare.training.extrapolation import scaled_rows
from scare.training.recipe import Recipe
from scare.windowing.examples import make_examples
from scare.windowing.grid import RECENT
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import fit_training_range

SAMPLES = 16  # windows that the fixed-point form is scaled from
SMALL = 0.1  # standard deviation of weights that start at zero: outputs are about as large as trained ones
BANDWIDTH = 1.5, 2.5  # range of a trained hash bandwidth, a scalar that starts at zero


def draw_network(recipe: Recipe, channels: int, seed: int, draw: np.random.Generator) -> Network:
    """Build a recipe's network and replace its zeros: weights by small numbers, bandwidths by one about 2."""

    def fill(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        drawn = draw.normal(0.0, SMALL, leaf.shape) if leaf.ndim else draw.uniform(*BANDWIDTH)
        return np.where(leaf == 0, drawn, leaf)

    filled: Network = jax.tree.map(fill, recipe.model.build(recipe.window, channels, jax.random.key(seed)))
    return filled


def draw_plan(recipe: Recipe, channels: int, seed: int, draw: np.random.Generator) -> Plan:
    """Like `draw_network`, as a plan that is not folded yet."""
    return draw_network(recipe, channels, seed, draw).plan()


def draw_ensemble(recipe: Recipe, channels: int, members: int) -> Plan:
    """Plan (folded, float32) of the mean of several untrained networks."""
    plans = [draw_plan(recipe, channels, member, np.random.default_rng(member)) for member in range(members)]
    return fold(average(plans)).astype(np.float32)


def draw_calibrator(recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings]) -> Calibrator:
    """A calibrator of a recipe with random weights, scaled for these readings."""
    inputs, target = prepare_inputs(train, validation, recipe)
    examples = make_examples(validation, inputs)
    windows = examples.windows(examples.spread(SAMPLES))
    sample = Sample(windows, np.zeros(len(windows)))
    inputs = replace(inputs, training_range=fit_training_range(scaled_rows(train, inputs), inputs.window))
    plan = draw_ensemble(recipe, len(inputs.channels), recipe.settings.members)
    return Calibrator(plan, inputs, target, sample, sample, intervals=Intervals(LEVEL, (), (0.0,), (0.0,)))


@cache
def draw_method(name: str, window: int) -> Calibrator:
    """A method's network with one channel of PM in ug/m3, once a minute, with the tables that training adds."""
    draw = np.random.default_rng(0)
    plan = fold(draw_plan(recipe_of(name, window, 0, {}), 1, 0, draw)).astype(np.float32)
    scale = Affine(np.array([20.0]), np.array([10.0]))
    channels, scaling = (Channel("pm25", "ug/m3", 0.0, 1000.0),), Scaling("standard", scale, scale)
    windows = draw.normal(size=(SAMPLES, window, 1)).astype(np.float32)
    training_range, sample = fit_training_range(list(windows), window), Sample(windows, np.zeros(SAMPLES))
    inputs = Inputs(channels, scaling, 60.0, window, RECENT, QualitySettings(), training_range)
    bands = Intervals(LEVEL, tuple(10.0 * np.arange(1, BANDS)), (2.0,) * BANDS, (3.0,) * BANDS, widening=1.5)
    return Calibrator(plan, inputs, Channel("reference", "ug/m3"), sample, sample, intervals=bands, floor=0.0)
