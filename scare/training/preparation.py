"""Preparation decides from the training readings what the calibrator will read, and refuses what cannot be learned."""

from collections.abc import Sequence

import numpy as np

from scare.data.flags import DEFAULT_SETTINGS, usable_values
from scare.data.readings import Channel, Readings
from scare.data.split import cut_by_time
from scare.errors import DataError
from scare.layers.hats import HatBasis
from scare.models.ridge import fit_ridge
from scare.training.examples import Examples, known, make_examples
from scare.training.presets import Recipe
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import fit_scaling
from scare.windowing.slicing import lay, longest_run, rows_in

HELD_OUT = 0.15  # share of the readings kept for validation when none is given
LOOKED_AT = 20_000  # windows, to choose between scalings
CONSTANT = "constant"  # the scaling that is the same for every device


def hold_out(readings: Sequence[Readings], recipe: Recipe) -> tuple[tuple[Readings, ...], tuple[Readings, ...]]:
    """Training and validation: before and after one moment, a window apart."""
    step = common_step(readings)
    return cut_by_time(readings, HELD_OUT, gap_seconds=recipe.window * step)


def prepare_inputs(
    readings: Sequence[Readings], validation: Sequence[Readings], recipe: Recipe
) -> tuple[Inputs, Channel]:
    """What the calibrator reads, scaled as the training readings ask for, and its target.

    Unless the recipe says so, validation decides whether devices are scaled apart or together: by the error of a ridge
    where it is on the same devices; where it is on others, together: a new device's few own readings say less about it
    than the fleet does.
    """
    first = readings[0]
    if first.reference is None:
        raise DataError(f"{first.device}: training needs a reference; name its column with --reference")
    names = [channel.name for channel in first.channels]
    for one in readings:
        if [channel.name for channel in one.channels] != names or one.reference is None:
            raise DataError(f"{one.device} does not have the channels and reference of {first.device}")
    targets = np.concatenate([one.targets for one in readings])
    targets = targets[np.isfinite(targets)]
    _check_targets(targets, first.reference)
    step = common_step(readings)
    settle = rows_in(recipe.settle_hours, step) if recipe.settle_hours else 0
    rows = _real_rows(readings)

    def scaled(apart: bool) -> Inputs:
        scaling = fit_scaling(recipe.scaling, rows, targets, apart, settle)
        return Inputs(first.channels, scaling, step, recipe.window, recipe.policy, DEFAULT_SETTINGS)

    choices = _scalings(recipe, {one.device for one in readings}, {one.device for one in validation})
    candidates = [scaled(apart) for apart in choices]
    if len(candidates) == 1:
        return candidates[0], first.reference
    return min(candidates, key=lambda inputs: _ridge_error(inputs, readings, validation)), first.reference


def _scalings(recipe: Recipe, trained: set[str], validated: set[str]) -> tuple[bool, ...]:
    """Whether devices are scaled apart; where validation may decide, both."""
    if recipe.per_device is not None:
        return (recipe.per_device,)
    if not validated <= trained:
        return (False,)
    return (True, False) if len(trained) > 1 and recipe.scaling != CONSTANT else (True,)


def _ridge_error(inputs: Inputs, readings: Sequence[Readings], validation: Sequence[Readings]) -> float:
    """The mean squared error on validation of ridge on hats, fitted to some of the windows; scaled."""
    basis = HatBasis(inputs.window).matrix
    parts = [make_examples(part, inputs) for part in (readings, validation)]
    if not all(map(len, parts)):
        return 0.0
    train, held = (known(one, basis, LOOKED_AT) for one in parts)
    weights, bias = fit_ridge(train, held, newest=0)
    return float(np.square(held.features.reshape(len(held.targets), -1) @ weights + bias - held.targets).mean())


def common_step(readings: Sequence[Readings]) -> float:
    """The time step of all readings, in seconds; they must agree."""
    steps = [one.step_seconds for one in readings if len(one) > 1]
    if not steps:
        raise DataError("no device has two rows")
    step = float(np.median(steps))
    for one in readings:
        if len(one) > 1 and not 0.75 < one.step_seconds / step < 1.5:
            raise DataError(
                f"{one.device} has a row every {one.step_seconds:g} s and others every {step:g} s;"
                " average them to one step (data.step in a --config file)"
            )
    return step


def check_examples(examples: Examples, readings: Sequence[Readings], inputs: Inputs, part: str) -> None:
    """Refuse a part without a single window, saying what is missing."""
    if len(examples):
        return
    rows = sum(len(one) for one in readings)
    longest = max((_longest_run(one, inputs) for one in readings), default=0)
    needed = inputs.policy.rows_checked(inputs.window)
    if longest >= needed:
        raise DataError(
            f"{part}: sensor and reference do not overlap: no window of {inputs.window} readings"
            " ends in a row with a reference"
        )
    raise DataError(
        f"{part}: too few rows for one window: {rows} rows, the longest run without a gap is {longest} readings,"
        f" and a window of {inputs.window} needs {needed}; use a shorter --window or more data"
    )


def _longest_run(readings: Readings, inputs: Inputs) -> int:
    """The longest run of steps with a usable row."""
    if not len(readings):
        return 0
    values, _ = usable_values(inputs.select(readings), inputs.channels, inputs.quality)
    grid = lay(readings.times, values, inputs.step_seconds, inputs.window, inputs.policy, None)
    return longest_run(grid.real)


def _check_targets(targets: np.ndarray, reference: Channel) -> None:
    if not len(targets):
        raise DataError(f"the reference {reference.name} has no value at the sensor's times: the two do not overlap")
    if targets.min() == targets.max():
        raise DataError(
            f"the reference {reference.name} is constant ({targets[0]:g}) in training: nothing can be learned from it"
        )


def _real_rows(readings: Sequence[Readings]) -> dict[str, np.ndarray]:
    """The usable complete rows of each device that has any, [rows, channels]."""
    rows: dict[str, np.ndarray] = {}
    for one in readings:
        values, _ = usable_values(one.values, one.channels, DEFAULT_SETTINGS)
        values = values[np.isfinite(values).all(axis=1)]
        if len(values):
            rows[one.device] = values
    if not rows:
        raise DataError("no row has a usable value in every channel")
    return rows
