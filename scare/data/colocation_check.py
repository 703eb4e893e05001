"""Doubts about a co-location before anything is trained: what in the data says that the result would mean nothing.

Each doubt is a sentence with its evidence and what to look at. An unrelated reference, a leaking channel and a device
that is there twice make any score worthless, so they stop `scare train` and `compare`; the others are printed.
Called for co-locations that `colocation` has read, by `scare train`, `scare compare` and `scare.fit`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import polars as pl

from scare.data.clock import LEAST_OVERLAP, find_clock_offset
from scare.data.column_kind import describe_filled, describe_sorted, is_reference_name, words
from scare.data.flags import usable_values
from scare.data.quantities import find_quantity, is_called
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.errors import DataError
from scare.words import duration

LEAST_ROWS = 100  # fewer rows are not judged
ALIVE_SHARE = 0.1  # share of rows in which a channel must have a value to be judged
CHANCE_R2 = 0.02  # R² of a regression on all channels that a reference shifted at random may reach, too
SHIFTS = 40  # random shifts of the reference, to see which R² chance reaches
EQUAL_SHARE = 0.95  # share of rows in which a channel equals the reference, or a device another one
EQUAL_TO = 1e-3  # standard deviations of the reference: no two instruments agree as closely
COARSE = 0.5  # standard deviations: a sensor with larger steps tells little
STUCK_SECONDS = 86400.0  # longest time for which a reference may keep a value
RATIO_CHANGE = 3.0  # a sudden change of reference / sensor by this factor: a unit was changed
PARTS, LEAST_PARTS = 16, 3  # parts of the period in the search for a change of unit; fewest before and after it
TOGETHER = 0.5  # least correlation of a sensor and a reference that measure the same
LAG_SECONDS = 600.0  # a shorter shift may be the sensor's own lag
LEAST_GAIN = 0.05  # of the correlation, by which a shift must raise it
FEW_VALUES, MANY_VALUES = 10, 20  # distinct values of a coarse sensor, and of a signal that surely varies
SATURATED_SHARE = 0.02  # share of the rows at the highest value, from which on it may be the sensor's limit
SATURATED_RATIO = 3.0  # the highest value is this many times as frequent as the values just below it
REPEATED_SHARE = 0.9  # share of the gaps between a reference's changes that are multiples of the usual gap
FAR_RATIO = 30.0  # between the spreads of a sensor and a reference: more is a wrong unit
FEW_DAYS = 4.0  # readings over fewer days get a doubt


@dataclass(frozen=True)
class Doubt:
    """A reason to distrust a co-location; a `fatal` one makes every score meaningless."""

    text: str
    fatal: bool = False


def check_colocation(readings: Sequence[Readings]) -> list[Doubt]:
    """Find the doubts about all devices; a doubt that several devices give is returned once, with the first device."""
    pairs = [pair for box in readings if (pair := _pair(box)) is not None]
    if not pairs:
        return []
    doubts = [*_unrelated(pairs), *_copied(readings), *_swapped(pairs[0])]
    for check in CHECKS:
        messages = [f"{pair.readings.device}: {text}" for pair in pairs if (text := check(pair))]
        if messages:
            count = f" ({len(messages)} of {len(pairs)} devices)" if len(messages) > 1 else ""
            doubts.append(Doubt(messages[0] + count, fatal=check is _leaks))
    if (days := max(np.ptp(pair.times) for pair in pairs) / 86400) < FEW_DAYS:
        doubts.append(Doubt(f"The readings cover {days:.2g} days: what did not happen in them cannot be learned."))
    return doubts


@dataclass(frozen=True)
class _Pair:
    """The rows of one device that have a value of every channel and of the reference."""

    readings: Readings
    times: np.ndarray  # [rows]
    channels: tuple[Channel, ...]  # those that are not dead
    values: np.ndarray  # [rows, channels]
    targets: np.ndarray  # [rows]


def _pair(readings: Readings) -> _Pair | None:
    """Select a device's complete rows with a reference; None if there are fewer than `LEAST_ROWS`."""
    values = usable_values(readings.values, readings.channels)[0]
    is_alive = np.isfinite(values).mean(axis=0) > ALIVE_SHARE  # [channels]; `flags` reports dead channels
    values = values[:, is_alive]
    channels = tuple(channel for channel, alive in zip(readings.channels, is_alive, strict=True) if alive)
    known = np.isfinite(values).all(axis=1) & np.isfinite(readings.targets)
    if known.sum() < LEAST_ROWS or not values.shape[1]:
        return None
    return _Pair(readings, readings.times[known], channels, values[known], readings.targets[known])


def _unrelated(pairs: Sequence[_Pair]) -> Iterator[Doubt]:
    """Yield a doubt if the channels explain the reference no better than the same reference shifted at random.

    Two unrelated series that change slowly seem to agree by chance. A shifted reference changes as slowly, so it shows
    how well chance does.
    """
    random = np.random.default_rng(0)
    total = sum(float(((pair.targets - pair.targets.mean()) ** 2).sum()) for pair in pairs)
    if not total:  # a constant reference, which a split refuses
        return

    def r_squared(shifts: Sequence[float]) -> float:
        """R² over all devices, whose references are shifted by these shares of their rows."""
        return 1 - sum(_residual(pair, shift) for pair, shift in zip(pairs, shifts, strict=True)) / total

    unshifted = r_squared([0.0] * len(pairs))
    if unshifted > CHANCE_R2:
        return
    by_chance = [r_squared(random.uniform(0.1, 0.9, len(pairs)).tolist()) for _ in range(SHIFTS)]
    if unshifted < np.quantile(by_chance, 0.95):
        yield Doubt(
            f"The reference has nothing to do with the sensor: all channels together explain {100 * unshifted:.2g} % of"
            f" its variation, and up to {100 * max(by_chance):.2g} % if it is shifted at random. Check columns and"
            " times.",
            fatal=True,
        )


def _residual(pair: _Pair, shift: float) -> float:
    """Regress the reference, rolled by a share of its rows, on all channels; return the residual sum of squares."""
    targets = np.roll(pair.targets, int(shift * len(pair.targets)))
    inputs = np.column_stack([np.ones(len(targets)), pair.values])  # [rows, 1 + channels]
    coefficients = np.linalg.lstsq(inputs, targets, rcond=None)[0]
    return float(((targets - inputs @ coefficients) ** 2).sum())


def _copied(readings: Sequence[Readings]) -> Iterator[Doubt]:
    """Yield a doubt if two devices have the same readings at the same times, as two copies of a file."""
    for box, copy in combinations(readings, 2):
        _, rows, copied_rows = np.intersect1d(box.times, copy.times, return_indices=True)
        values = box.values[rows]  # at the common times [common rows, channels]
        known = np.isfinite(values).all(axis=1)
        equal = (values == copy.values[copied_rows])[known].all(axis=1)
        varies = len(np.unique(values[known, 0])) >= MANY_VALUES  # two sensors in still air may agree
        if len(equal) >= LEAST_ROWS and equal.mean() >= EQUAL_SHARE and varies:
            yield Doubt(
                f"{box.device} and {copy.device} have the same readings in {100 * equal.mean():.0f} % of their"
                f" {len(equal):,} common rows: is a file there twice? Leave one out.",
                fatal=True,
            )
            return


def _swapped(pair: _Pair) -> Iterator[Doubt]:
    """Yield doubts if the names suggest that sensor and reference are swapped, or measure different quantities."""
    first, truth = pair.readings.channels[0], pair.readings.reference or Channel(REFERENCE)
    if _is_station(first.name) and not _is_station(truth.name):
        yield Doubt(f"{first.name} is calibrated to {truth.name}: are sensor and reference in each other's place?")
    sensor_quantity, reference_quantity = find_quantity(first.name), find_quantity(truth.name)
    if (
        sensor_quantity is None
        or reference_quantity is None
        or sensor_quantity == reference_quantity
        or {"PM", "OX"} & {sensor_quantity.name, reference_quantity.name}
    ):
        return  # PM may be any particle size, OX is ozone and nitrogen dioxide
    another_measures_it = any(is_called(channel.name, reference_quantity.name) for channel in pair.channels)
    if not another_measures_it and {sensor_quantity.family, reference_quantity.family} <= {"particles", "gas"}:
        is_what = f"the reference {truth.name} is {reference_quantity.name}"
        yield Doubt(f"{first.name} measures {sensor_quantity.name}, and {is_what}.")


def _is_station(name: str) -> bool:
    return is_reference_name(name) or bool(words(name) & {"station", "reference"})


def _leaks(pair: _Pair) -> str:
    """Return a message if a channel is the reference itself; empty if none is.

    Each function in `CHECKS` returns its message like this one, without the name of the device.
    """
    for column, channel in zip(pair.values.T, pair.channels, strict=True):
        if pair.targets.std() > 0 and np.mean(column == pair.targets) >= EQUAL_SHARE:
            return f"{channel.name} is the reference itself; leave it out with --channels."
    return ""


def _derived(pair: _Pair) -> str:
    """Return a message if a channel is the reference in another unit."""
    truth, tolerance = pair.targets, EQUAL_TO * float(pair.targets.std())
    for column, channel in zip(pair.values.T, pair.channels, strict=True):
        gain, offset = _robust_line(column, truth)
        if gain and np.mean(np.abs(truth - gain * column - offset) < tolerance) >= EQUAL_SHARE:
            line = f"{gain:.4g} times {channel.name} {'+' if offset >= 0 else '-'} {abs(offset):.4g}"
            return f"the reference is {line}, closer than two instruments agree: is one computed from the other?"
    return ""


def _robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return gain and offset of the line y = gain · x + offset, by medians, so that outliers do not move it.

    The gain is the median slope between rows that are half the series apart.
    """
    half = len(x) // 2
    run, rise = x[half : 2 * half] - x[:half], y[half : 2 * half] - y[:half]
    gain = float(np.median(rise[run != 0] / run[run != 0])) if run.any() else 0.0
    return gain, float(np.median(y - gain * x))


def _not_measured(pair: _Pair) -> str:
    """Return a message if a column was sorted by itself, or if a gap in it was filled."""
    names = [*(channel.name for channel in pair.channels), "the reference"]
    for name, values in zip(names, [*pair.values.T, pair.targets], strict=True):
        if text := describe_sorted(name, values) or describe_filled(name, values):
            return text
    return ""


def _coarse(pair: _Pair) -> str:
    """Return a message if the sensor's values are few and far apart."""
    values, name = pair.values[:, 0], pair.channels[0].name
    steps = np.diff(np.unique(values))  # between neighbouring distinct values
    if not len(steps):
        return f"{name} never changes."
    if len(steps) < FEW_VALUES and np.median(steps) > COARSE * values.std():
        return f"{name} has only {len(steps) + 1} different values, {np.median(steps):.3g} apart."
    return ""


def _saturated(pair: _Pair) -> str:
    """Return a message if the sensor is often at its highest value, and seldom just below it."""
    values, counts = np.unique(pair.values[:, 0], return_counts=True)  # in ascending order
    share = counts[-1] / len(pair.targets)
    if len(values) < MANY_VALUES or share < SATURATED_SHARE:
        return ""
    if counts[-1] < SATURATED_RATIO * counts[-10:-1].max():  # of the nine values just below
        return ""
    name = pair.channels[0].name
    return f"{name} is {values[-1]:.4g}, its highest value, in {100 * share:.0f} % of the rows: is that its limit?"


def _repeats(pair: _Pair) -> str:
    """Return a message if the reference changes only every few rows while the sensor changes, as repeated means do."""
    step = pair.readings.step_seconds
    change_times = pair.times[1:][np.diff(pair.targets) != 0]
    gaps = np.round(np.diff(change_times) / step).astype(int)  # rows from one change to the next
    usual = int(np.median(gaps)) if len(gaps) >= MANY_VALUES else 1
    if usual == 1 or np.mean(gaps % usual == 0) < REPEATED_SHARE:
        return ""
    if np.mean(np.diff(pair.values[:, 0]) != 0) < 0.5:  # the sensor stands still as well
        return ""
    return (
        f"the reference changes every {duration(usual * step)} and the sensor every {duration(step)}: train on means of"
        f" the longer time (--set data.step={usual * step:g})."
    )


def _other_scale(pair: _Pair) -> str:
    """Return a message if sensor and reference of one quantity differ in sign or by orders of magnitude."""
    first, truth = pair.channels[0], pair.readings.reference or Channel(REFERENCE)
    sensor_quantity, reference_quantity = find_quantity(first.name), find_quantity(truth.name)
    x, y = pair.values[:, 0], pair.targets
    if sensor_quantity is None or not sensor_quantity.unit or not x.std() or not y.std():
        return ""
    # A reference whose name says nothing, such as `BAM`, is taken for particles if the sensor counts them.
    may_be_particles = reference_quantity is None and sensor_quantity.family == "particles"
    if sensor_quantity != reference_quantity and not may_be_particles:
        return ""
    correlation = np.corrcoef(x, y)[0, 1]
    if abs(correlation) < TOGETHER:
        return ""
    if correlation < 0:
        return f"the reference falls when {first.name} rises: has one of them the wrong sign?"
    ratio = float(y.std() / x.std())
    if 1 / FAR_RATIO < ratio < FAR_RATIO:
        return ""
    return (
        f"the reference varies {ratio:.3g} times as much as {first.name}: another unit, or not {sensor_quantity.name}?"
    )


def _stuck(pair: _Pair) -> str:
    """Return a message if the reference keeps one value for days."""
    changes = np.flatnonzero(np.diff(pair.targets)) + 1
    # Runs of equal values: their first rows, the row after each, their values, and their lengths in seconds.
    starts, ends = np.append(0, changes), np.append(changes, len(pair.targets))
    values = pair.targets[starts]
    lengths = pair.times[ends - 1] - pair.times[starts]
    lengths[(ends - starts) * pair.readings.step_seconds < 0.5 * lengths] = 0  # equal before and after a gap
    lengths[(values == 0) | (values == values.min())] = 0  # for days: no rain, or the detection limit
    longest = int(lengths.argmax())
    if lengths[longest] < STUCK_SECONDS:
        return ""
    start = np.datetime64(int(pair.times[starts[longest]]), "s").item()
    length = duration(float(lengths[longest]))
    return f"the reference stays at {values[longest]:.4g} for {length} from {start:%Y-%m-%d %H:%M}."


def _changes_unit(pair: _Pair) -> str:
    """Return a message if the reference's standard deviation over the sensor's jumps, as when a logger changes units.

    Only those parts of the period are compared in which sensor and reference correlate.
    """
    borders = np.linspace(0, len(pair.targets), PARTS + 1).astype(int)
    ratios, starts = [], []  # of each part: log of the ratio of the standard deviations, first row
    for start, end in pairwise(borders):
        x, y = pair.values[start:end, 0], pair.targets[start:end]
        if x.std() > 0 and y.std() > 0 and abs(np.corrcoef(x, y)[0, 1]) > TOGETHER:
            ratios.append(float(np.log(y.std() / x.std())))
            starts.append(start)
    # For each part that the change may begin with: how far apart the ratios before it and from it on are.
    jumps = [  # negative if they overlap
        max(min(ratios[part:]) - max(ratios[:part]), min(ratios[:part]) - max(ratios[part:]))
        for part in range(LEAST_PARTS, len(ratios) - LEAST_PARTS + 1)
    ]
    if not jumps or max(jumps) < np.log(RATIO_CHANGE):
        return ""
    part = LEAST_PARTS + int(np.argmax(jumps))
    before, after = np.exp(np.median(ratios[:part])), np.exp(np.median(ratios[part:]))
    day = f"{np.datetime64(int(pair.times[starts[part]]), 's').item():%Y-%m-%d}"
    return f"the reference divided by the sensor changes from {before:.3g} to {after:.3g} about {day}: another unit?"


def _shifted(pair: _Pair) -> str:
    """Return a message if sensor and reference correlate clearly better when one of them is shifted in time."""
    if np.ptp(pair.times) < LEAST_OVERLAP:
        return ""
    # The reference as readings of a station of its own; a channel cannot be called `reference`.
    channel = replace(pair.readings.reference or Channel(REFERENCE), name="truth")
    frame = pair.readings.frame.select(TIME, pl.col(REFERENCE).alias("truth")).drop_nulls()
    try:
        offset = find_clock_offset(
            pair.readings, Readings("reference", frame, (channel,)), pair.readings.channels[0].name
        )
    except DataError:
        return ""
    gain = abs(offset.correlation) - abs(offset.correlation_at_zero)
    if not offset.is_clear or abs(offset.seconds) < LAG_SECONDS or gain < LEAST_GAIN:
        return ""
    return (
        f"the sensor follows the reference better when it is shifted by {duration(offset.seconds, signed=True)}"
        f" (correlation {offset.correlation:.2f} instead of {offset.correlation_at_zero:.2f}): is a clock wrong?"
    )


CHECKS = (
    *(_leaks, _derived, _not_measured, _coarse, _saturated),
    *(_stuck, _repeats, _changes_unit, _other_scale, _shifted),
)
