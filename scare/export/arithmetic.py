"""The arithmetics a calibrator can be exported in, and how fine a window of whole numbers is."""

from enum import StrEnum

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.errors import UsageError
from scare.kernels import FULL
from scare.words import suggestion


class Arithmetic(StrEnum):
    """What a board computes in."""

    FLOAT32 = "float32"
    INT8 = "int8"


HEADROOM, FARTHEST = 8.0, 64.0  # times the largest number seen: how far an int16 window reaches; to a known limit


def find_arithmetic(name: str) -> Arithmetic:
    """The arithmetic of this name; another name is refused with the nearest one."""
    if name not in list(Arithmetic):
        raise UsageError(f"no arithmetic is called '{name}'{suggestion(name, Arithmetic)}")
    return Arithmetic(name)


def window_quanta(calibrator: Calibrator) -> np.ndarray:
    """Steps of an int16 window for a scaled value of 1, [channels]: fine enough, and wide enough for valid readings.

    Where readings are held, because training is known, the window reaches as far.
    """
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    seen = np.maximum(np.abs(windows).max(axis=(0, 1), initial=0.0), 1e-3)
    scaling, validity = calibrator.inputs.scaling, calibrator.inputs.validity
    held = np.abs([validity.held_low, validity.held_high]).max(axis=0) if validity else 0.0
    limits = np.array([(channel.low, channel.high) for channel in calibrator.inputs.channels]).T
    ends = [np.abs(affine.apply(limits)).max(axis=0) for affine in (scaling.fleet, *scaling.devices.values())]
    limit = np.max(ends, axis=0)
    reach = np.where(np.isfinite(limit), np.minimum(limit, FARTHEST * seen), HEADROOM * seen)
    return FULL / np.maximum(reach, held)
