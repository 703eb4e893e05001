"""The arithmetics a calibrator can be exported in: how each makes a program, and what that program computes."""

from enum import StrEnum

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.fuse import fuse
from scare.calibrator.kernels.integer import FULL
from scare.calibrator.plan import Plan, run
from scare.calibrator.quantize import quantize
from scare.errors import UsageError
from scare.export import float32, int8
from scare.export.program import Program
from scare.words import suggestion


class Arithmetic(StrEnum):
    """What a board computes in."""

    FLOAT32 = "float32"
    INT8 = "int8"


HEADROOM, FARTHEST = 8.0, 64.0  # times the largest number seen: how far an int16 window reaches; to a known limit


def make_program(calibrator: Calibrator, arithmetic: str) -> Program:
    """The calibrator's plan as a program of this arithmetic; a plan that has none says so."""
    lower = int8.lower if _check(arithmetic) is Arithmetic.INT8 else float32.lower
    return lower(plan_for(calibrator, arithmetic))


def plan_for(calibrator: Calibrator, arithmetic: str) -> Plan:
    """The plan that the program computes: fused, and in integers where the arithmetic asks for it."""
    fused = fuse(calibrator.plan)
    return quantize(fused, window_quanta(calibrator)) if _check(arithmetic) is Arithmetic.INT8 else fused


def compute(calibrator: Calibrator, arithmetic: str, windows: np.ndarray) -> np.ndarray:
    """The scaled results [n] that the program gives for scaled windows [n, window, channels], each by itself."""
    return run(plan_for(calibrator, arithmetic), windows)


def window_quanta(calibrator: Calibrator) -> np.ndarray:
    """Steps of an int16 window for a scaled value of 1, [channels]: fine enough, and wide enough for valid readings."""
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    seen = np.maximum(np.abs(windows).max(axis=(0, 1), initial=0.0), 1e-3)
    scaling = calibrator.inputs.scaling
    limits = np.array([(channel.low, channel.high) for channel in calibrator.inputs.channels]).T
    ends = [np.abs(affine.apply(limits)).max(axis=0) for affine in (scaling.fleet, *scaling.devices.values())]
    limit = np.max(ends, axis=0)
    return FULL / np.where(np.isfinite(limit), np.minimum(limit, FARTHEST * seen), HEADROOM * seen)


def _check(arithmetic: str) -> Arithmetic:
    if arithmetic not in list(Arithmetic):
        raise UsageError(f"no arithmetic is called '{arithmetic}'{suggestion(arithmetic, Arithmetic)}")
    return Arithmetic(arithmetic)
