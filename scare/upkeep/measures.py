"""A day of a box as sums of its hours; days add up to a period, and a period has measures.

Hours [boxes, 24, 1 + channels] are means: of the calibrated value in the target's scale, then of each channel in its
device's. Most sums are of a box beside the fleet's median: what weather does to all boxes is no drift of one of them.

    calibrated  =  neighbours  +  gain · fleet  +  humidity · RH        least squares over the hours of a period

`neighbours` is then how much more a box says in the air that training had on average, however clean this week is. Comes
from `hours`; goes to `judging`.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from scare.data.quantities import is_called

FEWEST_BOXES = 2  # at the same hour, to have a median to compare with
FEWEST_HOURS = 36  # of a period that is measured
CLEAN_HOURS = 6  # of a day, by the fleet's median
CLIPPED = 5.0  # scales: what is further from the fleet counts no more
PENALTY = 6.0  # hours' worth of evidence that a box is as the others are
BINS = 8  # of equal weight in training
OF_ALL = ("neighbours", "gain", "humidity", "night", "response", "liveliness", "stuck", "silent")


@dataclass(frozen=True)
class Yardstick:
    """What hours are measured by: the channels, and the inner borders of training's `BINS`, scaled [7, channels]."""

    channels: tuple[str, ...]
    borders: np.ndarray

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures of a period, in their order."""
        return (*OF_ALL, *(f"{kind} {channel}" for kind in ("shift", "PSI") for channel in self.channels))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many sums each part of a day's has."""
        channels = len(self.channels)
        return (9, 2, 4, 3, 5 * channels, BINS * channels)

    @property
    def humidity(self) -> int | None:
        """Which channel is relative humidity."""
        return next((at for at, name in enumerate(self.channels) if is_called(name, "RH")), None)

    def sum_day(self, hours: np.ndarray) -> np.ndarray:
        """The sums of a day's hours [boxes, 24, 1 + channels], of each box [boxes, sums]."""
        calibrated, channels = hours[..., 0], hours[..., 1:]
        fleet, air = fleet_median(calibrated), fleet_median(channels)
        apart = np.clip(calibrated - fleet, -CLIPPED, CLIPPED)
        wet = np.zeros(len(fleet)) if self.humidity is None else air[:, self.humidity]
        clean = np.where(_cleanest(fleet), apart, np.nan)
        parts = [
            _line_sums(apart, np.stack([fleet, wet], axis=1)),
            np.stack([np.isfinite(clean).sum(axis=1), np.nansum(clean, axis=1)], axis=1),
            _change_sums(channels[..., 0], air[:, 0]),
            _counts(calibrated, channels[..., 0]),
            *(_line_sums(channels[..., one] - air[:, one], air[:, one, None]) for one in range(len(self.channels))),
            *(_bin_counts(channels[..., one], self.borders[:, one]) for one in range(len(self.channels))),
        ]
        return np.concatenate(parts, axis=1)

    def measure(self, sums: np.ndarray) -> np.ndarray:
        """The measures of periods [..., sums]: [..., measures], NaN where there are too few hours."""
        line, night, changes, counts, levels, bins = np.split(sums, list(accumulate(self.sizes))[:-1], axis=-1)
        level, gain, humidity = np.moveaxis(_solved(line), -1, 0)
        known, stuck, hours = np.moveaxis(counts, -1, 0)
        shared = line[..., 0]  # hours in which there was a fleet
        columns = [
            *_if_enough(shared, level, 1 + gain, humidity, _ratio(night[..., 1], night[..., 0])),
            *_if_enough(shared, _ratio(changes[..., 1], changes[..., 0])),
            *_if_enough(known, np.log(np.maximum(_ratio(changes[..., 2], changes[..., 3]), 1e-12)) / 2),
            *_if_enough(known, _ratio(stuck, known)),
            1 - _ratio(known, hours),
            *_if_enough(shared, *np.moveaxis(_solved(self._by_channel(levels))[..., 0], -1, 0)),
            *_if_enough(known, *np.moveaxis(_population_stability(self._by_channel(bins)), -1, 0)),
        ]
        return np.stack(columns, axis=-1)

    def _by_channel(self, part: np.ndarray) -> np.ndarray:
        return part.reshape(*part.shape[:-1], len(self.channels), -1)


def fleet_median(values: np.ndarray) -> np.ndarray:
    """The median over boxes [boxes, hours, …], NaN in hours that too few of them have."""
    enough = np.isfinite(values).sum(axis=0) >= FEWEST_BOXES
    return np.where(enough, median(values, 0), np.nan)


def median(values: np.ndarray, axis: int) -> np.ndarray:
    """The median of what is known along an axis, NaN where nothing is.

    >>> median(np.array([[3.0, np.nan, 1.0], [np.nan] * 3]), 1)
    array([ 2., nan])
    """
    ordered = np.sort(np.moveaxis(values, axis, 0), axis=0)  # what is not known comes last
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)[None]
    low, high = (np.take_along_axis(ordered, place, axis=0)[0] for place in (last // 2, (last + 1) // 2))
    return np.asarray(low + 0.5 * (high - low))


def borders_of(rows: np.ndarray) -> np.ndarray:
    """The inner borders of bins of equal weight of the known hours of training [n, channels]: [7, channels]."""
    return np.nanquantile(rows, np.arange(1, BINS) / BINS, axis=0)


def _cleanest(fleet: np.ndarray) -> np.ndarray:
    """The hours with the lowest median of the fleet, bool [hours]."""
    return np.asarray(fleet <= np.sort(fleet)[CLEAN_HOURS - 1])


def _line_sums(apart: np.ndarray, by: np.ndarray) -> np.ndarray:
    """What least squares of `apart` [boxes, hours] by 1 and columns [hours, n] needs: [boxes, (n+1)(n+2)/2 + n+1]."""
    known = np.isfinite(apart) & np.isfinite(by).all(axis=1)
    design = np.nan_to_num(np.column_stack([np.ones(len(by)), by]))
    wanted = np.where(known, apart, 0.0)
    upper = np.triu_indices(design.shape[1])
    squares = (design[:, :, None] * design[:, None, :])[:, *upper]
    return np.concatenate([known @ squares, wanted @ design], axis=1)


def _solved(sums: np.ndarray) -> np.ndarray:
    """The coefficients [..., n] of such sums, drawn a little towards none."""
    size = {9: 3, 5: 2}[sums.shape[-1]]
    square = np.zeros((*sums.shape[:-1], size, size))
    rows, columns = np.triu_indices(size)
    square[..., rows, columns] = square[..., columns, rows] = sums[..., :-size]
    return np.linalg.solve(square + PENALTY * np.eye(size), sums[..., -size:, None])[..., 0]


def _change_sums(sensor: np.ndarray, air: np.ndarray) -> np.ndarray:
    """Of changes from hour to hour: squares of the fleet's, products, squares of the box's, how many [boxes, 4]."""
    change, usual = np.clip(np.diff(sensor, axis=1), -CLIPPED, CLIPPED), np.diff(air)
    both = np.isfinite(change) & np.isfinite(usual)
    squares, products = both @ np.nan_to_num(usual**2), np.where(both, change * usual, 0.0).sum(axis=1)
    return np.stack([squares, products, np.nansum(change**2, axis=1), np.isfinite(change).sum(axis=1)], axis=1)


def _counts(calibrated: np.ndarray, sensor: np.ndarray) -> np.ndarray:
    """Hours with a value, hours in which the sensor reads as in the one before, hours that any box has [boxes, 3]."""
    known, stuck = np.isfinite(calibrated), (np.diff(sensor, axis=1) == 0).sum(axis=1)
    return np.stack([known.sum(axis=1), stuck, np.full(len(known), known.any(axis=0).sum())], axis=1)


def _bin_counts(channel: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """How many hours of a channel [boxes, hours] are in each bin of training [boxes, bins]."""
    place = np.searchsorted(borders, channel)
    return ((place[..., None] == np.arange(BINS)) & np.isfinite(channel)[..., None]).sum(axis=1)


def _population_stability(bins: np.ndarray) -> np.ndarray:
    """The population stability index of counts [..., bins] against bins of equal weight; half an hour is in each.

    >>> _population_stability(np.array([[10.0] * 8, [80.0] + [0.0] * 7]))
    array([0. , 4.23])
    """
    share = (bins + 0.5) / (bins + 0.5).sum(axis=-1, keepdims=True)
    return np.asarray(((share - 1 / BINS) * np.log(share * BINS)).sum(axis=-1))


def _if_enough(hours: np.ndarray, *measures: np.ndarray) -> list[np.ndarray]:
    """Measures where there are hours enough, NaN elsewhere."""
    return [np.where(hours >= FEWEST_HOURS, one, np.nan) for one in measures]


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
