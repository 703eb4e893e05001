"""The descriptor: a calibrator's inputs, intervals and training range in float32, as `scare_model` of scare.h has them.

    Calibrator.inputs, intervals, training range -> make_descriptor -> Descriptor -> c_source.py, micropython.py

Python decides in double precision, a board in float32: limits are rounded so that both make the same decision about
every float32 reading. A calibrator whose numbers do not fit a board is rejected here.
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
from scare.kernels.c_arguments import pad_axis
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import TrainingRange
from scare.words import suggestion

PAST_ROWS = 16  # decay length, in rows, of the usual change that a spike is compared with
LONGEST_STEP_MS = (1 << 31) - 1  # beyond it a 32-bit clock cannot tell forwards from backwards
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
# The bits of a positive float32, read as an integer, are its rank among all float32 numbers.
TOP_RANK = int(np.float32(LARGEST).view(np.int32))
RANKS = range(-TOP_RANK, TOP_RANK + 1)  # ranks of all float32 numbers that are readings, in ascending order
LARGEST_READING = float(np.nextafter(np.float32(LARGEST), np.float32(0)))  # the valid range of a channel without limits


class Range(NamedTuple):
    """A closed interval, `scare_range` of scare.h."""

    low: float
    high: float


EVERYTHING = Range(-LARGEST_FLOAT32, LARGEST_FLOAT32)


class InputChannel(NamedTuple):
    """How one channel is read: the fields of `scare_channel` in scare.h, in float32."""

    valid: Range  # readings outside it give no value
    center: float
    rest: float  # center in double precision minus `center`
    inverse: float  # 1 / scale
    quantum: float  # int16 steps per scaled unit; 0 in float32
    clamp: Range = EVERYTHING  # scaled; what the model gets to see
    trained: Range = EVERYTHING  # scaled; a row beyond it is flagged OUTSIDE

    def scale(self, reading: float) -> np.float32:
        """Scale a reading with the rounding of a board, without clamping it."""
        center, rest, inverse = (np.float32(number) for number in (self.center, self.rest, self.inverse))
        return ((np.float32(reading) - center) - rest) * inverse


@dataclass(frozen=True)
class TrainingLimits:
    """The training range across channels: fields of `scare_model` in scare.h.

    `whitening` holds the rows of a lower-triangular matrix for the Mahalanobis distance, each after a constant that
    subtracts the mean.
    """

    whitening: tuple[float, ...] = ()
    limit: float = 0.0  # largest squared distance that counts as inside
    slow_limit: float = 0.0  # largest slow mean of it that counts as inside
    rising: float = LARGEST_FLOAT32  # scaled value of channel 0 from which `lowest` applies
    lowest: float = -LARGEST_FLOAT32  # lower bound of the scaled output
    slope: float = 0.0  # scaled output per scaled unit of channel 0 beyond the clamp


@dataclass(frozen=True)
class IntervalTable:
    """Prediction intervals as `scare_interval` of scare.h: edges between eight bands, and distances below and above."""

    edge: tuple[float, ...]
    below: tuple[float, ...]
    above: tuple[float, ...]
    widening: float

    def around(self, values: np.ndarray, flags: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
        """Compute low and high [n] for float32 values [n] with flags [n], with the bits of C; NaN stays NaN."""
        edge, below, above = (np.array(numbers, np.float32) for numbers in (self.edge, self.below, self.above))
        band = np.searchsorted(edge, values, side="right").clip(max=BANDS - 1)  # NaN sorts last
        factor = np.where(flags & UNCERTAIN, np.float32(self.widening), np.float32(1))
        ends = values - factor * below[band], values + factor * above[band]
        low, high = (np.maximum(end, np.float32(floor)) for end in ends)
        return low, high


class MovingChannel(NamedTuple):
    """A channel whose center moves when a new device settles: `scare_moving` of scare.h."""

    channel: int
    weight: float  # multiplies the sum of differences to the center; 12 bits, so that a board does so without rounding
    rest: float  # the exact weight minus `weight`


@dataclass(frozen=True)
class Descriptor:
    """The fields of `scare_model` that describe inputs and results; the others come from the program."""

    step_ms: int  # from one reading to the next
    checked: int  # newest rows that the gap rule looks at
    needed: int  # how many of them must be real
    hold: int  # rows that a reading may be repeated for
    channels: tuple[InputChannel, ...]
    absent: tuple[float, ...]  # readings that mean "missing"
    target_scale: float
    target_center: float
    floor: float  # lower limit of results
    interval: IntervalTable | None
    training: TrainingLimits
    stuck_rows: int  # equal readings, after the first, that count as stuck
    spike_share: float  # weight of each change in a decaying mean, the largest change that is no spike
    spike_floors: tuple[float, ...]  # added to that mean in each row, for each channel
    settle: int = 0  # readings until a new device has settled; 0: it was in training, or has the fleet's scaling
    moving: tuple[MovingChannel, ...] = ()


def make_descriptor(calibrator: Calibrator, device: str, quanta: Sequence[float] = ()) -> Descriptor:
    """Describe a calibrator with the scaling of a device, or (empty name) of a new device.

    `quanta` are the steps of an int16_t window per scaled unit, one for each channel; none in float32.
    """
    inputs = calibrator.inputs
    step_ms = inputs.step_seconds * 1000
    if abs(step_ms - round(step_ms)) > 1e-6 or not 1 <= step_ms <= LONGEST_STEP_MS:
        raise DataError(
            f"the readings are {inputs.step_seconds:g} s apart, but a board counts whole milliseconds, up to 24 days"
        )
    affine, is_new = scaling_of(inputs.scaling, device), inputs.scaling.known(device) is None
    sentinels = (float(np.float32(number)) for number in inputs.quality.sentinels if abs(number) <= LARGEST)
    steps = quanta or [0.0] * len(inputs.channels)
    is_clamped = inputs.training_range is not None
    channels = [
        _input_channel(channel, center, scale, quantum, is_clamped)
        for channel, center, scale, quantum in zip(
            inputs.channels, affine.center.tolist(), affine.scale.tolist(), steps, strict=True
        )
    ]
    if inputs.training_range is not None:
        channels = list(_with_training_range(inputs.training_range, affine, channels))
    target = inputs.scaling.target
    # A change is a spike beyond factor · mean; the mean gives each change a weight of 1 / PAST_ROWS.
    share = inputs.quality.spike_factor / PAST_ROWS
    widths = (channel.high - channel.low for channel in inputs.channels)  # of the valid ranges
    spike_floors = (SPIKE_FLOOR * width if isfinite(width) else 0.0 for width in widths)  # as in data/flags.py
    return Descriptor(
        step_ms=round(step_ms),
        checked=inputs.policy.rows_checked(inputs.window),
        needed=inputs.policy.rows_needed(inputs.window),
        hold=inputs.policy.hold,
        channels=tuple(channels),
        absent=tuple(dict.fromkeys(sentinels)),
        target_scale=_to_float32(target.scale[0], "the target's scale"),
        target_center=_to_float32(target.center[0], "the target's center"),
        floor=-LARGEST_FLOAT32 if calibrator.floor is None else _to_float32(calibrator.floor, "the floor"),
        interval=interval_table(calibrator.intervals) if calibrator.intervals else None,
        training=_training_limits(inputs.training_range) if inputs.training_range else TrainingLimits(),
        stuck_rows=inputs.quality.stuck_rows - 1,  # after the first of equal readings
        spike_share=_to_float32(share, "the factor of a spike"),
        spike_floors=tuple(_to_float32(share * floor, "a spike") for floor in spike_floors),
        settle=inputs.scaling.settle if is_new else 0,
        moving=tuple(_moving(inputs.scaling)) if is_new else (),
    )


def known_devices(scaling: Scaling) -> list[str]:
    """List the devices of training: those with a scaling of their own or an effect on the output."""
    return list(dict.fromkeys([*scaling.devices, *scaling.effects]))


def choose_device(scaling: Scaling, device: str) -> str:
    """Choose the device to export for: the named one, else the only one, else the fleet (empty name)."""
    known = known_devices(scaling)
    if device and device not in known:
        others = suggestion(device, known) if known else "; it scales all devices alike"
        raise UsageError(f"the calibrator knows no device called '{device}'{others}")
    return device or (known[0] if len(known) == 1 else "")


def scaling_of(scaling: Scaling, device: str) -> Affine:
    """Look up the scaling that a board starts with: the device's own, or the fleet's, from which a new one settles."""
    return scaling.known(device) or scaling.fleet


def encode_windows(windows: np.ndarray, quanta: Sequence[float] = ()) -> np.ndarray:
    """Encode scaled windows [n, window, channels] for `run`: float32, or with `quanta` int16 [n, channels, window].

    `quanta` are the int16 steps per scaled unit, by channel. An odd window has a zero after each channel.

    >>> encode_windows(np.array([[[0.5], [-0.26], [9999.0]]]), [10.0])
    array([[[    5,    -3, 32767,     0]]], dtype=int16)
    """
    if not len(quanta):
        return windows.astype(np.float32)
    with np.errstate(over="ignore"):
        steps = window_q(windows.astype(np.float32), {"quantum": np.asarray(quanta, np.float32)}, {})
    return pad_axis(steps.swapaxes(1, 2), -1, 2)


def interval_table(intervals: Intervals) -> IntervalTable:
    """Round intervals to float32 and fill them up to eight bands with copies of the last, which no value reaches.

    >>> interval_table(Intervals(0.9, (10.0,), (1.0, 4.0), (2.0, 5.0), 1.5)).above
    (2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)
    """
    missing = BANDS - len(intervals.below)

    def padded(numbers: Sequence[float], padding: float) -> tuple[float, ...]:
        return tuple(_to_float32(number, "a number of its intervals") for number in [*numbers, *[padding] * missing])

    return IntervalTable(
        padded(intervals.edges, LARGEST_FLOAT32),
        padded(intervals.below, intervals.below[-1]),
        padded(intervals.above, intervals.above[-1]),
        _to_float32(intervals.widening, "the widening of its intervals"),
    )


def range_readings(center: float, scale: float, low: float, high: float) -> tuple[float, float]:
    """Find the smallest and the largest float32 reading whose scaled value is in [low, high].

    By bisection over all float32 numbers, because solving for the reading may miss by one rounding.

    >>> range_readings(20.0, 8.0, -1.0, 2.0)
    (12.0, 36.0)
    """

    def scaled(rank: int) -> np.float32:
        return np.float32((_ranked_float32(rank) - center) / scale)

    # `hi` and `lo` keep both among the readings if none is in the range.
    least = bisect_left(RANKS, np.float32(low), hi=len(RANKS) - 1, key=scaled)
    most = bisect_right(RANKS, np.float32(high), lo=1, key=scaled) - 1
    return _ranked_float32(RANKS[least]), _ranked_float32(RANKS[most])


def _moving(scaling: Scaling) -> Iterator[MovingChannel]:
    """Describe the channels whose center moves when a new device settles.

    A center moves by own_share times the mean difference of the first `settle` readings to it. So the weight of the sum
    of these differences is own_share / settle; it is split into two floats.
    """
    own_shares = [] if scaling.own_share is None else scaling.own_share.tolist()
    for channel, own_share in enumerate(own_shares):
        if own_share:
            exact = own_share / scaling.settle
            bits = np.float32(exact).view(np.int32)
            weight = float(np.int32(bits & ~0xFFF).view(np.float32))  # the first 12 of 24 bits of the mantissa
            yield MovingChannel(channel, weight, float(np.float32(exact - weight)))


def _training_limits(training_range: TrainingRange) -> TrainingLimits:
    """Convert the limits across channels to float32; each whitening row gets a constant in front.

    The constant is −row · mean, so that a board can multiply a row without subtracting the mean from it.
    """
    matrix, mean = np.array(training_range.whitening), np.array(training_range.mean)
    # The matrix is lower-triangular, so row 1 has one number besides the constant, row 2 two, and so on.
    rows = [(-float(row @ mean), *row[:length]) for length, row in enumerate(matrix, 1)]
    bound = training_range.lower_bound
    return TrainingLimits(
        whitening=tuple(_to_float32(number, "a weight of the training range") for row in rows for number in row),
        limit=_to_float32(training_range.limit, "the limit of distances"),
        slow_limit=_to_float32(training_range.slow_limit, "the limit of slow distances"),
        # The lower bound is only for readings from the mean of the first channel on (see `TrainingRange`).
        rising=_to_float32(training_range.mean[0], "the mean of the first channel"),
        lowest=-LARGEST_FLOAT32 if bound is None else _to_float32(bound, "the lowest answer"),
        slope=_to_float32(training_range.slope, "the slope beyond training"),
    )


def _input_channel(channel: Channel, center: float, scale: float, quantum: float, is_clamped: bool) -> InputChannel:
    """Round a channel's valid range and scaling to float32.

    Readings that are not clamped must fit an int16_t window, which therefore narrows their valid range.
    """
    rounded = _to_float32(center, f"the center of {channel.name}")
    inverse = _to_float32(1 / scale, f"the scale of {channel.name}")
    if inverse == 0 or not isfinite(quantum):
        raise DataError(f"the scale of {channel.name} does not fit into 32 bits")
    # How far from the center a reading may be; a window in float32 (quantum 0) holds any.
    reach = FULL / quantum * scale if quantum and not is_clamped else inf
    low = _inward(max(channel.low, center - reach, -LARGEST), inf)
    valid = Range(low, _inward(min(channel.high, center + reach, LARGEST), -inf))
    return InputChannel(valid, rounded, float(np.float32(center - rounded)), inverse, quantum)


def _with_training_range(
    training_range: TrainingRange, affine: Affine, channels: Iterable[InputChannel]
) -> Iterator[InputChannel]:
    """Add the training range of each channel, rounded so that a board flags the same readings as Python."""
    for index, channel in enumerate(channels):
        center, scale = float(affine.center[index]), float(affine.scale[index])
        readings = range_readings(center, scale, training_range.low[index], training_range.high[index])
        low, high = (channel.scale(reading) for reading in readings)
        # A board compares the clamped row with the training range, so it must clamp a little beyond that range.
        clamp_low = min(np.float32(training_range.clamp_low[index]), np.nextafter(low, np.float32(-inf)))
        clamp_high = max(np.float32(training_range.clamp_high[index]), np.nextafter(high, np.float32(inf)))
        clamp = Range(float(clamp_low), float(clamp_high))
        yield channel._replace(clamp=clamp, trained=Range(float(low), float(high)))


def _inward(limit: float, inside: float) -> float:
    """Round a limit to float32 in the direction of `inside` (±inf), so that it admits the same float32 readings."""
    nearest = float(np.float32(limit))
    is_too_wide = nearest < limit if inside > limit else nearest > limit
    return float(np.nextafter(np.float32(nearest), np.float32(inside))) if is_too_wide else nearest


def _to_float32(number: float, what: str) -> float:
    """Round to float32; raise DataError, naming `what`, if the number is too large for it."""
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    if not isfinite(rounded):
        raise DataError(f"{what} is {number:g}, which does not fit into 32 bits")
    return rounded


def _ranked_float32(rank: int) -> float:
    """Return the float32 number of a rank in `RANKS`: its bits are |rank|, its sign is that of the rank."""
    return copysign(float(np.int32(abs(rank)).view(np.float32)), rank)
