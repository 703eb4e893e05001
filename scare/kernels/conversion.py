"""Conversion kernels: both ends of a fixed-point plan, from float readings to int16 steps and from a word to a float.

A board quantises readings as they come (`quantise` in scare.c); `conversion_q.c` makes the float.
"""

import numpy as np

from scare.kernels.c_arguments import CForm, MakeForm, PlacedStep
from scare.kernels.contract import Kernel, Settings, Weights, free, same_shape
from scare.kernels.fixed_point import FULL


def window_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Quantise the scaled window x [T, C] to steps of 1 / quantum, clamped at ±32767."""
    steps = np.floor(x * weights["quantum"] + x.dtype.type(0.5))
    return np.clip(np.nan_to_num(steps), -FULL, FULL).astype(np.int16)


def result_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Convert the word x [1] to a float."""
    return x.astype(np.float32) * np.float32(settings["unit"])


def _c_result_q(placed: PlacedStep) -> CForm:
    return CForm((float(placed.step.settings["unit"]),), kind="float")


FIXED_KERNELS = {
    "window_q": Kernel(window_q, same_shape, free),
    "result_q": Kernel(result_q, same_shape, free),
}
C_FIXED: dict[str, MakeForm] = {"result_q": _c_result_q}
