"""Untrained networks: what a board or a computer must do for one is known before it is trained.

Training changes values, not sizes. In int8 it moves counts a little (docs/benchmarks/board.md says why).
"""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import BANDS, LEVEL, Intervals
from scare.calibrator.passes import fold
from scare.calibrator.plan import Plan
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.experiments.study import recipe_of
from scare.models import Network
from scare.training.recipe import Recipe
from scare.windowing.grid import RECENT
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import fit_training_range

SAMPLES = 16  # windows that the integer form is made from
SMALL = 0.1  # standard deviation of what starts at zero: results are about as large as trained ones
NEAR = 1.5, 2.5  # where a trained hash's bandwidth ends, a number alone that starts at zero


def draw_network(recipe: Recipe, channels: int, seed: int, draw: np.random.Generator) -> Network:
    """A network as it is built; zeros become small numbers, a bandwidth one about 2."""

    def fill(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        drawn = draw.normal(0.0, SMALL, leaf.shape) if leaf.ndim else draw.uniform(*NEAR)
        return np.where(leaf == 0, drawn, leaf)

    filled: Network = jax.tree.map(fill, recipe.model.build(recipe.window, channels, jax.random.key(seed)))
    return filled


def draw_plan(recipe: Recipe, channels: int, seed: int, draw: np.random.Generator) -> Plan:
    """The plan of such a network."""
    return draw_network(recipe, channels, seed, draw).plan()


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
    sure = Intervals(LEVEL, tuple(10.0 * np.arange(1, BANDS)), (2.0,) * BANDS, (3.0,) * BANDS, widening=1.5)
    return Calibrator(plan, inputs, Channel("reference", "ug/m3"), sample, sample, intervals=sure, floor=0.0)
