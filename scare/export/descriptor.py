"""The descriptor is what `scare.c` must know to make windows of readings: a calibrator's inputs in float32.

Comes from `calibrator`; goes to `c_source`. Whatever a board could not do as the calibrator does is refused here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.kernels import FULL, window_s8
from scare.data.flags import LARGEST
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.words import suggestion

LONGEST_STEP_MS = (1 << 31) - 1  # from here on a clock of 32 bits cannot tell forwards from backwards


@dataclass(frozen=True)
class InputChannel:
    """How one channel is read, as in `scare_channel`: float32 numbers."""

    low: float
    high: float
    center: float
    rest: float
    inverse: float
    quantum: float


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
    )


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
        steps = window_s8(windows.astype(np.float32), {"quantum": np.asarray(quanta, np.float32)}, {})
    return steps.swapaxes(1, 2)


def _step_ms(seconds: float) -> int:
    milliseconds = seconds * 1000
    if abs(milliseconds - round(milliseconds)) > 1e-6 or not 1 <= milliseconds <= LONGEST_STEP_MS:
        raise DataError(f"its readings are {seconds:g} s apart; a board counts whole milliseconds, up to 24 days")
    return round(milliseconds)


def _channels(inputs: Inputs, affine: Affine, quanta: Sequence[float]) -> tuple[InputChannel, ...]:
    columns = zip(inputs.channels, affine.center, affine.scale, quanta, strict=True)
    return tuple(_channel(*column) for column in columns)


def _channel(channel: Channel, center: float, scale: float, quantum: float) -> InputChannel:
    near = _float32(center, f"the center of {channel.name}")
    inverse = _float32(1 / scale, f"the scale of {channel.name}")
    if inverse == 0 or not isfinite(quantum):
        raise DataError(f"the scale of {channel.name} does not fit into 32 bits")
    reach = FULL / quantum * scale if quantum else inf  # what an int16_t window can hold
    low = _inward(max(channel.low, center - reach, -LARGEST), inf)
    high = _inward(min(channel.high, center + reach, LARGEST), -inf)
    return InputChannel(low, high, near, float(np.float32(center - near)), inverse, quantum)


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
