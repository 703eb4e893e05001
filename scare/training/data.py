"""Training data: from readings to scaled inputs, with the scaling chosen on validation, and to batches of windows.

Input: `Readings`; output: `Inputs` for `fit`, and a `Gather` for the compiled training loop, which looks up windows by
index.
"""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.linear import same_unit
from scare.data.flags import DEFAULT_SETTINGS, usable_values
from scare.data.readings import Channel, Readings
from scare.data.split import cut_by_time
from scare.errors import DataError
from scare.layers.embedding import HatBasis
from scare.layers.heads import products
from scare.models import Network
from scare.models.linear_families import LINEAR, LINEAR_FAMILIES, Design
from scare.training.new_device_scaling import own_share
from scare.training.recipe import Recipe
from scare.training.selection import fit_families
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import fit_scaling
from scare.windowing.training_examples import Examples, design_matrix, features, make_examples, storable
from scare.windowing.windows import steps_in

HELD_OUT = 0.15  # share of the readings kept for validation when none is given
MOST_WINDOWS = 20_000  # most windows used to choose between scalings
SHORTEST_STEP, LONGEST_STEP = 0.75, 1.5  # of a device, times the median step of all
CLEARLY_LOWER = 0.95  # ratio of squared errors; on a near-tie devices are scaled together, which serves new ones, too


def hold_out(readings: Sequence[Readings], recipe: Recipe) -> tuple[tuple[Readings, ...], tuple[Readings, ...]]:
    """Hold out the last rows for validation: all devices are cut at one time, with a gap of one window before it."""
    return cut_by_time(readings, HELD_OUT, gap_seconds=recipe.window_readings * common_step(readings))


def prepare_inputs(
    readings: Sequence[Readings], validation: Sequence[Readings], recipe: Recipe, with_effects: bool = True
) -> tuple[Inputs, Channel]:
    """Return the inputs, scaled to the training readings, and the target channel.

    Unless the recipe states it, validation decides whether each device has its own scaling or all share one: the choice
    with which the best linear family has the lower error. `with_effects` counts families with device effects, which
    baselines do not have. If validation has other devices than training, all share one scaling.
    """
    first = readings[0]
    if first.reference is None:
        raise DataError(f"{first.device}: training needs a reference; name its column with --reference")
    names = [channel.name for channel in first.channels]
    for box in readings:
        if [channel.name for channel in box.channels] != names or box.reference is None:
            raise DataError(f"{box.device} does not have the channels and reference of {first.device}")
    targets = np.concatenate([box.targets for box in readings])
    targets = targets[np.isfinite(targets)]
    if not len(targets):
        raise DataError(f"the reference {first.reference.name} has no value at the sensor's times: they do not overlap")
    if targets.min() == targets.max():
        raise DataError(
            f"the reference {first.reference.name} is constant ({targets[0]:g}) in training: nothing can be learned"
            " from it"
        )
    step = common_step(readings)
    settle = steps_in(recipe.settle_hours, step) if recipe.settle_hours else 0
    rows = usable_rows(readings)
    # How far the first readings of a new device move each channel's centre: 1, all the way, in the same air.
    share = np.ones(len(first.channels)) if recipe.same_air else own_share(readings, max(settle, 1))

    def scaled(per_device: bool) -> Inputs:
        scaling = fit_scaling(recipe.scaling, rows, targets, per_device, settle, share)
        return Inputs(first.channels, scaling, step, recipe.window_readings, recipe.policy, DEFAULT_SETTINGS)

    if recipe.per_device is not None:
        return scaled(recipe.per_device), first.reference
    devices = {box.device for box in readings}
    if not {box.device for box in validation} <= devices:
        return scaled(False), first.reference
    if len(devices) == 1 or recipe.scaling == "constant":  # both are the same
        return scaled(True), first.reference
    per_device, shared = scaled(True), scaled(False)
    families = LINEAR_FAMILIES if with_effects else (LINEAR,)
    per_device_error = _linear_error(per_device, readings, validation, recipe, families)
    shared_error = _linear_error(shared, readings, validation, recipe, families)
    return (per_device if per_device_error < CLEARLY_LOWER * shared_error else shared), first.reference


def _linear_error(
    inputs: Inputs,
    readings: Sequence[Readings],
    validation: Sequence[Readings],
    recipe: Recipe,
    families: Sequence[str],
) -> float:
    """Return the lowest mean squared error, scaled, that one of these families has on a sample of validation."""
    basis, target = HatBasis(inputs.window).matrix, readings[0].reference
    parts = make_examples(readings, replace(inputs, policy=recipe.learned_from)), make_examples(validation, inputs)
    if target is None or not all(map(len, parts)):
        return 0.0  # nothing to compare; `check_examples` raises the error
    newest_row = 0  # of the features of the hat basis
    train, held_out = (
        Design(
            design_matrix(part, basis, MOST_WINDOWS),
            inputs.scaling,
            newest_row,
            lambda features: products(features[:, newest_row]),
        )
        for part in parts
    )
    fitted = fit_families(train, held_out, same_unit(inputs.channels[0], target), recipe.rules)
    return min(family.rmse(held_out.data.targets) for family in fitted if family.family in families) ** 2


def common_step(readings: Sequence[Readings]) -> float:
    """Return the time step of all readings, in seconds; raises a DataError if they do not agree."""
    steps = [box.step_seconds for box in readings if len(box) > 1]
    if not steps:
        raise DataError("no device has two rows")
    step = float(np.median(steps))
    for box in readings:
        if len(box) > 1 and not SHORTEST_STEP < box.step_seconds / step < LONGEST_STEP:
            raise DataError(
                f"{box.device} has a row every {box.step_seconds:g} s, but the median of all devices is {step:g} s;"
                " average them to one step (data.step in a --config file)"
            )
    return step


def usable_rows(readings: Sequence[Readings]) -> dict[str, np.ndarray]:
    """Collect the complete usable rows [rows, channels] of each device that has any."""
    rows: dict[str, np.ndarray] = {}
    for box in readings:
        values, _ = usable_values(box.values, box.channels, DEFAULT_SETTINGS)
        values = values[np.isfinite(values).all(axis=1)]
        if len(values):
            rows[box.device] = values
    if not rows:
        raise DataError("no row has a usable value in every channel")
    return rows


class Gather(eqx.Module):
    """Looks up the features of examples by index inside a compiled loop, either stored or cut out of the series."""

    stored: np.ndarray | Array | None  # [n, rows, channels]
    series: Array | None  # [slots, channels]
    ends: Array | None  # [n] newest slot of each example
    basis: Array | None  # [window, rows]
    window: int = eqx.field(static=True)

    def __call__(self, which: Array) -> Array:
        """Look up the features [len(which), rows, channels]."""
        if self.stored is not None:
            return jnp.asarray(self.stored)[which]
        assert self.series is not None
        assert self.ends is not None
        slots = self.ends[which][:, None] + jnp.arange(1 - self.window, 1)  # [len(which), window], oldest first
        windows = self.series[slots]
        return windows if self.basis is None else jnp.einsum("tk,btc->bkc", self.basis, windows)

    def narrowed(self, which: np.ndarray) -> tuple["Gather", np.ndarray]:
        """Keep only the examples `which`; returns the smaller `Gather`, and the index in it of each of `which`.

        Its shape depends on `which` alone, so what is compiled for it serves any number of examples. Features that are
        not stored are left as they are.
        """
        if self.stored is None:
            return self, which
        stored = np.asarray(self.stored)[which.ravel()]
        return replace(self, stored=stored), np.arange(which.size, dtype=np.int32).reshape(which.shape)


def make_gather(examples: Examples, network: Network) -> Gather:
    """Store the features of these examples if they fit into memory; otherwise they are cut out of the series later."""
    basis = network.basis
    if basis is not None and len(examples) <= storable(examples, basis):
        stored = features(examples, np.arange(len(examples)), basis)
        return Gather(stored, series=None, ends=None, basis=None, window=examples.window)
    matrix = None if basis is None else jnp.asarray(basis, jnp.float32)
    return Gather(None, jnp.asarray(examples.series), jnp.asarray(examples.ends), matrix, examples.window)
