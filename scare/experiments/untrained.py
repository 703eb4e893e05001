"""Untrained models: networks with random weights, their cost on a board, and the largest window that fits.

Training changes values, not sizes, so a network with random weights already has the RAM, the flash and, nearly, the
instructions of the trained one (docs/benchmarks/board.md has the differences in fixed point). `tuning` measures
candidates with it, `scare export` suggests a shorter window for a board that is too small, and `scare score` asks how a
model's operations grow with its window.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scare.baselines import MODELS
from scare.board.boards import Board
from scare.board.measure import BoardBudget, measure_once
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import BANDS, LEVEL, Intervals
from scare.calibrator.plan import Plan
from scare.calibrator.plan_passes import average, fold
from scare.data.flags import QualitySettings
from scare.data.readings import Channel, Readings
from scare.data.split import FEWEST_READINGS
from scare.errors import UsageError
from scare.experiments.study import recipe_of
from scare.export.lowering import compile_calibrator
from scare.models import Architecture, Network
from scare.schema import convert
from scare.scorecard.cost import OperationGrowth
from scare.training.data import prepare_inputs
from scare.training.extrapolation import scaled_rows
from scare.training.recipe import Recipe
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_examples import make_examples
from scare.windowing.training_range import fit_training_range
from scare.windowing.windows import RECENT

SAMPLES = 16  # random windows in an untrained calibrator, from which fixed point takes its scales
SMALL = 0.1  # standard deviation drawn for weights that start at zero: outputs are about as large as trained ones
BANDWIDTH = 1.5, 2.5  # range drawn for a hash bandwidth, a scalar that starts at zero: about as after training


def draw_network(recipe: Recipe, channels: int, seed: int, draw: np.random.Generator) -> Network:
    """Build a recipe's network and replace its zeros: weights by small random numbers, bandwidths by about 2.

    A trained network has no such zeros, and a hash cannot be computed with a bandwidth of 0.
    """

    def fill(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        random = draw.normal(0.0, SMALL, leaf.shape) if leaf.ndim else draw.uniform(*BANDWIDTH)
        return np.where(leaf == 0, random, leaf)

    filled: Network = jax.tree.map(fill, recipe.model.build(recipe.window_readings, channels, jax.random.key(seed)))
    return filled


def draw_plan(recipe: Recipe, channels: int, seed: int, draw: np.random.Generator) -> Plan:
    """Like `draw_network`, but return its plan, which `fold` has not shortened yet."""
    return draw_network(recipe, channels, seed, draw).plan()


def draw_ensemble(recipe: Recipe, channels: int, members: int) -> Plan:
    """Draw several networks; returns the plan of their mean, folded, in float32."""
    plans = [draw_plan(recipe, channels, member, np.random.default_rng(member)) for member in range(members)]
    return fold(average(plans)).astype(np.float32)


def draw_calibrator(recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings]) -> Calibrator:
    """Make a calibrator of a recipe with random weights, scaled for these readings."""
    inputs, target = prepare_inputs(train, validation, recipe)
    examples = make_examples(validation, inputs)
    windows = examples.windows(examples.spread(SAMPLES))
    sample = Sample(windows, np.zeros(len(windows)))
    inputs = replace(inputs, training_range=fit_training_range(scaled_rows(train, inputs), inputs.window))
    plan = draw_ensemble(recipe, len(inputs.channels), recipe.settings.members)
    one_band = Intervals(LEVEL, edges=(), below=(0.0,), above=(0.0,))
    return Calibrator(plan, inputs, target, sample, sample, intervals=one_band)


@cache
def draw_method(name: str, window: int, channels: int = 1) -> Calibrator:
    """Make an untrained calibrator of a method, with the training range and intervals that training would add.

    All numbers are made up, since the cost depends only on how many there are. The channels are PM in ug/m3, read once
    a minute.
    """
    draw = np.random.default_rng(0)
    plan = fold(draw_plan(recipe_of(name, window, 0, {}), channels, 0, draw)).astype(np.float32)
    scale, target_scale = (Affine(np.full(count, 20.0), np.full(count, 10.0)) for count in (channels, 1))
    scaling = Scaling("standard", scale, target_scale)
    names = ("pm25", *(f"pm25_{number}" for number in range(2, channels + 1)))
    windows = draw.normal(size=(SAMPLES, window, channels)).astype(np.float32)
    training_range = fit_training_range(list(windows), window)
    sample = Sample(windows, np.zeros(SAMPLES))
    sensors = tuple(Channel(one, "ug/m3", 0.0, 1000.0) for one in names)
    inputs = Inputs(sensors, scaling, 60.0, window, RECENT, QualitySettings(), training_range)
    bands = Intervals(LEVEL, tuple(10.0 * np.arange(1, BANDS)), (2.0,) * BANDS, (3.0,) * BANDS, widening=1.5)
    return Calibrator(plan, inputs, Channel("reference", "ug/m3"), sample, sample, intervals=bands, floor=0.0)


def measure_cost(
    recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings], budget: BoardBudget
) -> dict[str, int]:
    """Measure the cost of a recipe on the budget's board with random weights (`draw_calibrator`)."""
    return budget.measure(draw_calibrator(recipe, train, validation))


def largest_window(
    calibrator: Calibrator, arithmetic: str, board: Board, advance: Callable[[], object] = lambda: None
) -> int | None:
    """Find the largest shorter window [readings] that fits a board; 0 if none does, None if the model is not ours.

    Every window that is tried is built with random weights and measured; `advance` is called before each.
    """
    model = architecture_of(calibrator)
    if model is None:
        return None
    channels = calibrator.plan.channels
    members = int(calibrator.facts.get("settings", {}).get("members", 1))

    def fits(window: int) -> bool:
        advance()
        plan = draw_ensemble(Recipe(model=model, window=window), channels, members)
        windows = np.random.default_rng(0).normal(size=(SAMPLES, window, channels)).astype(np.float32)
        sample = Sample(windows, np.zeros(SAMPLES))
        inputs = replace(calibrator.inputs, window=window)
        shorter = replace(calibrator, plan=plan, inputs=inputs, golden=sample, validation=sample)
        return measure_once(compile_calibrator(shorter, arithmetic), board).fits

    return largest(fits, FEWEST_READINGS, calibrator.window - 1)


def largest(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Find the largest number from `least` to `most` that fits, by bisection; 0 if none does.

    >>> largest(lambda window: 3 * window <= 100, 4, 60), largest(lambda window: False, 4, 60)
    (33, 0)
    """
    if most < least or not fits(least):  # `least` is tried first: often nothing fits, and each trial takes seconds
        return 0
    best = least  # fits, and nothing above `most` does
    while best < most:
        middle = (best + most + 1) // 2
        if fits(middle):
            best = middle
        else:
            most = middle - 1
    return best


def operation_growth(calibrator: Calibrator) -> OperationGrowth | None:
    """Find how the operations of a calibrator's model grow with its window; None if its model is not known.

    Counts one member: an ensemble multiplies the count by a constant, which leaves the exponent that `scorecard.cost`
    fits unchanged.
    """
    model, channels = architecture_of(calibrator), calibrator.plan.channels
    if model is None:
        return None
    return OperationGrowth(model.complexity, lambda window: model.operations(window, channels))


def architecture_of(calibrator: Calibrator) -> Architecture | None:
    """Read the architecture that a calibrator's file describes; None if it is not one of our models."""
    kind = MODELS.get(calibrator.facts.get("model", ""))
    architecture = calibrator.facts.get("architecture")
    if kind is None or not isinstance(architecture, Mapping):
        return None
    try:
        return convert(architecture, kind, "architecture", unknown="ignore")
    except UsageError:  # written by a version with other settings
        return None
