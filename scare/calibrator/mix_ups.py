"""Explain why new readings differ from those of training: another unit, a power of ten, or swapped channels.

One row may be flagged OUTSIDE because of the weather; if a whole channel differs, something has usually been mixed
up. An explanation must bring the channel back to the mean and spread that it had in training.
The flag itself is set by `windowing/training_range`.
Comes from the channels' scaling and training range; goes to `scare predict`.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from scare.data.quantities import conversion, display_unit, find_quantity, guess_unit, units
from scare.windowing.inputs import Inputs

UNLIKE, ALIKE = 2.0, 1.2  # distances (see `_distance`): weather stays below the first, a right guess below the second
TOO_LARGE, TOO_SMALL = (10.0, 100.0, 1000.0), (100.0, 1000.0)  # not 10: clean air may be a tenth of polluted air
LEAST_ROWS = 30


def explain_mix_ups(inputs: Inputs, values: np.ndarray) -> list[str]:
    """Name each likely mix-up in `values` [rows, channels] in a sentence; none if they look like training's."""
    columns = [_without_tails(column[np.isfinite(column)]) for column in values.T]
    if inputs.training_range is None or min(map(len, columns), default=0) < LEAST_ROWS:
        return []
    distance = _distance(inputs)
    unlike = {at for at, column in enumerate(columns) if distance(at, column) > UNLIKE}
    names = [channel.name for channel in inputs.channels]
    found = []
    for one, other in combinations(range(len(columns)), 2):
        crossed = max(distance(one, columns[other]), distance(other, columns[one]))
        if {one, other} & unlike and crossed < ALIKE:
            found.append(f"{names[one]} and {names[other]} seem to be swapped: each is as the other was in training.")
            unlike -= {one, other}
    for at in sorted(unlike):
        guesses = [(round(distance(at, changed), 6), cause) for changed, cause in _guesses(inputs, at, columns[at])]
        left, cause = min(guesses, key=lambda guess: guess[0])  # of equal ones the first: a unit before a factor
        if left < ALIKE:
            mean, usual = columns[at].mean(), inputs.scaling.fleet.invert(np.array(inputs.training_range.mean))[at]
            found.append(f"{names[at]} {cause}: its mean is {mean:.3g}, in training it was {usual:.3g}.")
    return found


def _distance(inputs: Inputs) -> Callable[[int, np.ndarray], float]:
    """Make a function that measures how far a channel's values are from training, given its index and the values.

    The larger of the distance of the means, in standard deviations of training, and of the logarithm to base 2 of the
    ratio of the standard deviations.
    """
    assert inputs.training_range is not None
    whitening = np.array(inputs.training_range.whitening)
    spread = np.sqrt(np.diag(np.linalg.inv(whitening.T @ whitening))) * inputs.scaling.fleet.scale
    mean = inputs.scaling.fleet.invert(np.array(inputs.training_range.mean))

    def distance(at: int, values: np.ndarray) -> float:
        ratio = max(values.std(), 1e-9 * spread[at]) / spread[at]
        return float(max(abs(values.mean() - mean[at]) / spread[at], abs(np.log2(ratio))))

    return distance


def _guesses(inputs: Inputs, at: int, values: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    """Values as they would be without each mistake, and the mistake."""
    channel = inputs.channels[at]
    unit = channel.unit or guess_unit(channel.name)
    quantity = find_quantity(channel.name)
    for other in units():
        way = conversion(other, unit, quantity.molar_mass if quantity else None) if unit else None
        if way and (way.gain, way.offset) != (1.0, 0.0):
            yield (
                way.gain * values + way.offset,
                f"seems to be in {display_unit(other)} instead of {display_unit(unit)}",
            )
    for factor in TOO_LARGE:
        yield values / factor, f"is about {factor:g} times as large as in training"
    for factor in TOO_SMALL:
        yield values * factor, f"is about {factor:g} times smaller than in training"


def _without_tails(values: np.ndarray) -> np.ndarray:
    """The values without the lowest and highest percent, in which codes and spikes are."""
    if not len(values):
        return values
    low, high = np.quantile(values, [0.01, 0.99])
    return values[(values >= low) & (values <= high)]
