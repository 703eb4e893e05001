"""Explain why new readings differ from those of training: another unit, a power of ten, or swapped channels.

One row may be flagged OUTSIDE because of the weather; if a whole channel differs, something has usually been mixed
up. An explanation must bring the channel back to the mean and spread that it had in training.
The flag itself is set by `windowing/training_range`. Called by `scare predict`.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from scare.data.column_kind import LETTERS
from scare.data.quantities import conversion, display_unit, find_quantity, find_unit, guess_unit, spell_unit, units
from scare.data.readings import Channel
from scare.windowing.inputs import Inputs

UNLIKE = 2.0  # distance from training (`_distance`) that weather alone does not reach
ALIKE = 1.2  # largest distance that a channel keeps after a right guess
# Factors to try; values that are 10 times too small are not tried, as clean air may be a tenth of polluted air.
TOO_LARGE, TOO_SMALL = (10.0, 100.0, 1000.0), (100.0, 1000.0)  # factors
LEAST_ROWS = 30  # fewer rows, or distinct values, are not judged
OFTEN = 0.1  # share of rows outside training's range, from which on a channel is named
LEAST_GAP = 0.2  # least distance of a code from the next value, as a share of the range of training
LEAST_REPEATS = 3  # how often a code appears at least


def explain_mix_ups(inputs: Inputs, values: np.ndarray) -> list[str]:
    """Return a sentence for each likely mix-up in `values` [rows, channels]; none if they look like training's."""
    columns = [_without_tails(column[np.isfinite(column)]) for column in values.T]
    if inputs.training_range is None or min(map(len, columns), default=0) < LEAST_ROWS:
        return []
    distance = _distance(inputs)
    unlike = {index for index, column in enumerate(columns) if distance(index, column) > UNLIKE}  # channels
    names = [channel.name for channel in inputs.channels]
    sentences = []
    for first, second in combinations(range(len(columns)), 2):
        distance_if_swapped = max(distance(first, columns[second]), distance(second, columns[first]))
        if {first, second} & unlike and distance_if_swapped < ALIKE:
            sentences.append(
                f"{names[first]} and {names[second]} seem to be swapped: each looks like the other in training."
            )
            unlike -= {first, second}
    training_means = inputs.scaling.fleet.invert(np.array(inputs.training_range.mean))
    for index in sorted(unlike):
        name, column, training_mean = names[index], columns[index], training_means[index]
        guesses = [
            (round(distance(index, corrected), 6), cause) for corrected, cause in _guesses(inputs, index, column)
        ]
        nearest, cause = min(guesses, key=lambda guess: guess[0])  # of equal ones the first: a unit before a factor
        if nearest < ALIKE:
            sentences.append(
                f"{name} {cause}: its mean is {column.mean():.3g}, in training it was {training_mean:.3g}."
            )
    return sentences


def describe_unit(channel: Channel, stated: str) -> str:
    """Return a message if a file states another unit for a channel than the model reads; empty otherwise.

    >>> describe_unit(Channel("NO2", "ppb"), "µg/m³")
    'the file states µg/m³ for NO2, and the model reads ppb'
    """
    unit = find_unit(stated) or LETTERS.get(stated.strip("()[] "), "")
    model_unit = channel.unit or guess_unit(channel.name)
    if not unit or not model_unit or spell_unit(unit) == spell_unit(model_unit):
        return ""
    return f"the file states {display_unit(unit)} for {channel.name}, and the model reads {display_unit(model_unit)}"


def describe_unlike(inputs: Inputs, values: np.ndarray) -> str:
    """Describe which channels of `values` [rows, channels] are often beyond training's, for rows flagged OUTSIDE."""
    if inputs.training_range is None:
        return ""
    low, high = _extremes(inputs)
    shares = ((values < low) | (values > high)).mean(axis=0)
    often = [
        f"{channel.name} is outside {lowest:.3g} to {highest:.3g} in {100 * share:.0f} % of the rows"
        for channel, lowest, highest, share in zip(inputs.channels, low, high, shares, strict=True)
        if share > OFTEN
    ]
    listed = "; ".join(often)
    return f"{listed}." if listed else "no single channel, but their combination: check that no columns are swapped."


def find_codes_beyond(inputs: Inputs, at: int, values: np.ndarray) -> list[float]:
    """Find numbers that stand for "no reading" among the values of the channel with the index `at`.

    They are the lowest and the highest value, if repeated, far from the next value and outside the range of training.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if inputs.training_range is None or len(distinct) < LEAST_ROWS:
        return []
    low, high = (limits[at] for limits in _extremes(inputs))
    least_gap = LEAST_GAP * (high - low)
    least_repeats = max(LEAST_REPEATS, len(values) / 1000)  # more of a long table: a thousandth of its rows
    # Index of an end, its distance from the next value, and whether it is beyond training.
    ends = (
        (0, distinct[1] - distinct[0], distinct[0] < low),
        (-1, distinct[-1] - distinct[-2], distinct[-1] > high),
    )
    return [
        float(distinct[end])
        for end, gap, is_beyond in ends
        if is_beyond and gap > least_gap and counts[end] >= least_repeats
    ]


def _extremes(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest value of each channel in training, in its unit: two arrays [channels]."""
    assert inputs.training_range is not None
    scaled = np.array(inputs.training_range.low), np.array(inputs.training_range.high)
    return inputs.scaling.fleet.invert(scaled[0]), inputs.scaling.fleet.invert(scaled[1])


def _distance(inputs: Inputs) -> Callable[[int, np.ndarray], float]:
    """Make a function of a channel's index and values, which returns how far the values are from training.

    It is the larger of the distance of the means, in standard deviations of training, and of the logarithm to base 2
    of the ratio of the standard deviations.
    """
    assert inputs.training_range is not None
    whitening = np.array(inputs.training_range.whitening)
    # The inverse of whiteningᵀ whitening is the covariance of scaled rows in training.
    spread = np.sqrt(np.diag(np.linalg.inv(whitening.T @ whitening))) * inputs.scaling.fleet.scale
    mean = inputs.scaling.fleet.invert(np.array(inputs.training_range.mean))

    def distance(channel: int, values: np.ndarray) -> float:  # `channel` is an index
        of_means = abs(values.mean() - mean[channel]) / spread[channel]
        ratio = max(values.std() / spread[channel], 1e-9)  # above zero, so that it has a logarithm
        return float(max(of_means, abs(np.log2(ratio))))

    return distance


def _guesses(inputs: Inputs, at: int, values: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    """Yield, for each possible mistake in the channel with the index `at`, its corrected values and a description."""
    channel = inputs.channels[at]
    unit = channel.unit or guess_unit(channel.name)
    quantity = find_quantity(channel.name)
    for other in units() if unit else ():
        to_unit = conversion(other, unit, quantity.molar_mass if quantity else None)
        if to_unit and (to_unit.gain, to_unit.offset) != (1.0, 0.0):
            converted = to_unit.gain * values + to_unit.offset
            yield converted, f"seems to be in {display_unit(other)} instead of {display_unit(unit)}"
    for factor in TOO_LARGE:
        yield values / factor, f"is about {factor:g} times as large as in training"
    for factor in TOO_SMALL:
        yield values * factor, f"is about {factor:g} times smaller than in training"


def _without_tails(values: np.ndarray) -> np.ndarray:
    """Return the values without the lowest and highest percent, in which codes and spikes are."""
    if not len(values):
        return values
    low, high = np.quantile(values, [0.01, 0.99])
    return values[(values >= low) & (values <= high)]
