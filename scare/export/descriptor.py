"""The descriptor is what `scare.c` must know to make windows of readings: a calibrator's inputs in float32.

Comes from `calibrator`; goes to `c_source`. Whatever a board could not do as the calibrator does is refused here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import copysign, inf, isfinite
from typing import NamedTuple

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import BANDS, UNCERTAIN, Intervals
from scare.data.flags import LARGEST, SPIKE_FLOOR
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.kernels import FULL, window_q
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import TrainingRange
from scare.words import suggestion

# The edges of training as readings: float32 numbers by which a board decides as Python does in double precision.
#
# Comes from `windowing/training_range`; goes to `descriptor`.


TOP = int(np.float32(LARGEST).view(np.int32))
RANKS = range(-TOP, TOP + 1)  # of the float32 numbers that are readings, in their order


def edge_readings(center: float, scale: float, low: float, high: float) -> tuple[float, float]:
    """The least and the largest float32 reading that is not below `low` nor above `high` when it is scaled.

    >>> edge_readings(20.0, 8.0, -1.0, 2.0)
    (12.0, 36.0)
    """

    def scaled(rank: int) -> np.float32:
        return np.float32((_number(rank) - center) / scale)

    least = bisect_left(RANKS, np.float32(low), hi=len(RANKS) - 1, key=scaled)
    most = bisect_right(RANKS, np.float32(high), lo=1, key=scaled) - 1
    return _number(RANKS[least]), _number(RANKS[most])


def _number(rank: int) -> float:
    return copysign(float(np.int32(abs(rank)).view(np.float32)), rank)


# Intervals as a board looks them up: a table of eight bands in float32, and what it gives, rounded as there.
#
# Comes from `calibrator/intervals`; goes to `descriptor` and, as what C must give in every bit, to `board/certificate`.


LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class IntervalTable:
    """The numbers of `scare_interval`: edges between eight bands, distances below and above a value of each."""

    edge: tuple[float, ...]
    below: tuple[float, ...]
    above: tuple[float, ...]
    widening: float

    def around(self, values: np.ndarray, flags: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
        """Low and high [n] of float32 values [n] in rows with these flags [n]; NaN where there is no value."""
        edge, below, above = (np.array(numbers, np.float32) for numbers in (self.edge, self.below, self.above))
        band = np.searchsorted(edge, values, side="right").clip(max=BANDS - 1)  # NaN sorts last
        factor = np.where(flags & UNCERTAIN, np.float32(self.widening), np.float32(1))
        ends = values - factor * below[band], values + factor * above[band]
        low, high = (np.maximum(end, np.float32(floor)) for end in ends)
        return low, high


def interval_table(intervals: Intervals) -> IntervalTable:
    """The table of intervals with fewer bands is filled up with the last one, which nothing reaches.

    >>> interval_table(Intervals(0.9, (10.0,), (1.0, 4.0), (2.0, 5.0), 1.5)).above
    (2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)
    """
    more = BANDS - len(intervals.below)
    edge = _as_float32([*intervals.edges, *[LARGEST_FLOAT32] * more])
    below, above = (_as_float32([*sides, *[sides[-1]] * more]) for sides in (intervals.below, intervals.above))
    return IntervalTable(edge, below, above, *_as_float32([intervals.widening]))


def _as_float32(numbers: Iterable[float]) -> tuple[float, ...]:
    with np.errstate(over="ignore"):
        near = np.array(list(numbers)).astype(np.float32)
    if not np.isfinite(near).all():
        raise DataError("a number of its intervals does not fit into 32 bits")
    return tuple(near.tolist())


PAST_ROWS = 16  # in which a usual change is forgotten
LONGEST_STEP_MS = (1 << 31) - 1  # from here on a clock of 32 bits cannot tell forwards from backwards
LARGEST_FLOAT = float(np.finfo(np.float32).max)


class Range(NamedTuple):
    """From here to there, both included."""

    low: float
    high: float


EVERYTHING = Range(-LARGEST_FLOAT, LARGEST_FLOAT)


class InputChannel(NamedTuple):
    """How one channel is read, as in `scare_channel`: float32 numbers."""

    valid: Range
    center: float
    rest: float
    inverse: float
    quantum: float
    clamp: Range = EVERYTHING
    trained: Range = EVERYTHING

    def scale(self, reading: float) -> np.float32:
        """A reading scaled and rounded as on a board, not held."""
        center, rest, inverse = (np.float32(one) for one in (self.center, self.rest, self.inverse))
        return ((np.float32(reading) - center) - rest) * inverse


@dataclass(frozen=True)
class Training:
    """What a board must know of training, as in `scare_model`.

    `whitening` is a lower triangle, row after row, each after what it adds for the mean.
    """

    whitening: tuple[float, ...] = ()
    limit: float = 0.0
    slow_limit: float = 0.0
    rising: float = LARGEST_FLOAT
    lowest: float = -LARGEST_FLOAT
    slope: float = 0.0


@dataclass(frozen=True)
class Descriptor:
    """The fields of `scare_model` that are not the program's."""

    step_ms: int
    checked: int
    needed: int
    hold: int
    channels: tuple[InputChannel, ...]
    absent: tuple[float, ...]
    target_scale: float
    target_center: float
    floor: float
    interval: IntervalTable | None
    training: Training
    stuck_rows: int
    spike_share: float
    spike_floors: tuple[float, ...]


def describe(calibrator: Calibrator, device: str, quanta: Sequence[float] = ()) -> Descriptor:
    """The descriptor for one device of the calibrator, or for the fleet (an empty name).

    `quanta` are the steps of an int16_t window for a scaled value of 1, one for each channel.
    """
    inputs = calibrator.inputs
    affine = inputs.scaling.devices[device] if device else inputs.scaling.fleet
    sentinels = (float(np.float32(number)) for number in inputs.quality.sentinels if abs(number) <= LARGEST)
    target = inputs.scaling.target
    return Descriptor(
        _step_ms(inputs.step_seconds),
        inputs.policy.rows_checked(inputs.window),
        inputs.policy.rows_needed(inputs.window),
        inputs.policy.hold,
        _channels(inputs, affine, quanta or [0.0] * len(inputs.channels)),
        tuple(dict.fromkeys(sentinels)),
        _float32(target.scale[0], "the target's scale"),
        _float32(target.center[0], "the target's center"),
        -LARGEST_FLOAT if calibrator.floor is None else _float32(calibrator.floor, "the floor"),
        interval_table(calibrator.intervals) if calibrator.intervals else None,
        _training(inputs.training_range) if inputs.training_range else Training(),
        inputs.quality.stuck_rows - 1,
        _float32(share := inputs.quality.spike_factor / PAST_ROWS, "the factor of a spike"),
        tuple(_float32(share * _spike_floor(one), "a spike") for one in inputs.channels),
    )


def _spike_floor(channel: Channel) -> float:
    """What a change is usual at least, as `data/flags` has it; 0 where the channel has no range."""
    width = channel.high - channel.low
    return SPIKE_FLOOR * width if isfinite(width) else 0.0


def choose_device(scaling: Scaling, device: str) -> str:
    """The device whose scaling is meant: the one named, or the only one; an empty name is the fleet."""
    if device and device not in scaling.devices:
        known = suggestion(device, scaling.devices) if scaling.devices else "; it scales all devices alike"
        raise UsageError(f"the calibrator knows no device called '{device}'{known}")
    return device or (next(iter(scaling.devices)) if len(scaling.devices) == 1 else "")


def as_read(windows: np.ndarray, quanta: Sequence[float] = ()) -> np.ndarray:
    """Scaled windows [n, window, channels] as a program reads them: float32, or int16 [n, channels, window].

    >>> as_read(np.array([[[0.5], [-0.26], [9999.0]]]), [10.0])
    array([[[    5,    -3, 32767]]], dtype=int16)
    """
    if not len(quanta):
        return windows.astype(np.float32)
    with np.errstate(over="ignore"):
        steps = window_q(windows.astype(np.float32), {"quantum": np.asarray(quanta, np.float32)}, {})
    return steps.swapaxes(1, 2)


def _step_ms(seconds: float) -> int:
    milliseconds = seconds * 1000
    if abs(milliseconds - round(milliseconds)) > 1e-6 or not 1 <= milliseconds <= LONGEST_STEP_MS:
        raise DataError(f"its readings are {seconds:g} s apart; a board counts whole milliseconds, up to 24 days")
    return round(milliseconds)


def _training(training_range: TrainingRange) -> Training:
    weights, mean = np.array(training_range.whitening), np.array(training_range.mean)
    lines = [(-float(line @ mean), *line[:size]) for size, line in enumerate(weights, 1)]
    return Training(
        tuple(_float32(number, "a weight of the training range") for line in lines for number in line),
        _float32(training_range.limit, "the limit of distances"),
        _float32(training_range.slow_limit, "the limit of slow distances"),
        _float32(training_range.mean[0], "the mean of the first channel"),
        -LARGEST_FLOAT
        if training_range.lower_bound is None
        else _float32(training_range.lower_bound, "the lowest answer"),
        _float32(training_range.slope, "the slope beyond training"),
    )


def _channels(inputs: Inputs, affine: Affine, quanta: Sequence[float]) -> tuple[InputChannel, ...]:
    columns = zip(inputs.channels, affine.center.tolist(), affine.scale.tolist(), quanta, strict=True)
    channels = (_channel(*column, held=inputs.training_range is not None) for column in columns)
    return tuple(channels) if inputs.training_range is None else tuple(_hold(inputs.training_range, affine, channels))


def _channel(channel: Channel, center: float, scale: float, quantum: float, held: bool) -> InputChannel:
    """What is not held is valid as far as an int16_t window reaches."""
    near = _float32(center, f"the center of {channel.name}")
    inverse = _float32(1 / scale, f"the scale of {channel.name}")
    if inverse == 0 or not isfinite(quantum):
        raise DataError(f"the scale of {channel.name} does not fit into 32 bits")
    reach = FULL / quantum * scale if quantum and not held else inf
    low = _inward(max(channel.low, center - reach, -LARGEST), inf)
    valid = Range(low, _inward(min(channel.high, center + reach, LARGEST), -inf))
    return InputChannel(valid, near, float(np.float32(center - near)), inverse, quantum)


def _hold(training_range: TrainingRange, affine: Affine, channels: Iterable[InputChannel]) -> Iterator[InputChannel]:
    """The channels with what training had of each, at whose edges a board decides as Python does."""
    for index, channel in enumerate(channels):
        edges = training_range.low[index], training_range.high[index]
        readings = edge_readings(float(affine.center[index]), float(affine.scale[index]), *edges)
        known = np.array([channel.scale(end) for end in readings])
        # A board compares the clamped row with the training range: clamped at that range, every row would lie inside.
        beyond = np.nextafter(known, np.array([-inf, inf], np.float32))
        low = min(np.float32(training_range.clamp_low[index]), beyond[0])
        high = max(np.float32(training_range.clamp_high[index]), beyond[1])
        yield channel._replace(clamp=Range(float(low), float(high)), trained=Range(*known.tolist()))


def _inward(limit: float, inside: float) -> float:
    """The float32 number nearest to a limit that is not beyond it, so that the same readings are within."""
    near = float(np.float32(limit))
    beyond = near < limit if inside > limit else near > limit
    return float(np.nextafter(np.float32(near), np.float32(inside))) if beyond else near


def _float32(number: float, what: str) -> float:
    with np.errstate(over="ignore"):
        near = float(np.float32(number))
    if not isfinite(near):
        raise DataError(f"{what} is {number:g}, which does not fit into 32 bits")
    return near


# The range of each channel in a calibrator's own windows, for examples that make plausible readings up.
