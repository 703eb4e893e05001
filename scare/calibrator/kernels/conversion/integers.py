"""The window as whole steps, and a word as a number: the ends of a plan in integers.

A board makes the steps as readings come (`scare_push` of scare.c); `conversion_s8.c` makes the number.
"""

import numpy as np

from scare.calibrator.kernels.fixed import FULL
from scare.calibrator.kernels.kernel import Kernel, Settings, Weights, free, same_shape


def window_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The scaled window x [T, C] in steps of 1 / quantum, held within ±32767."""
    steps = np.floor(x * weights["quantum"] + x.dtype.type(0.5))
    return np.clip(np.nan_to_num(steps), -FULL, FULL).astype(np.int16)


def result_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The word x [1] as a float."""
    return x.astype(np.float32) * np.float32(settings["unit"])


INTEGERS = {
    "window_s8": Kernel(window_s8, same_shape, free),
    "result_s8": Kernel(result_s8, same_shape, free),
}
