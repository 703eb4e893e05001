"""The integer twin of a linear kernel, equal to `linear_s8.c` in every bit."""

import numpy as np

from scare.calibrator.kernels.fixed import mixed, word
from scare.calibrator.kernels.kernel import Kernel, Settings, Shape, Shapes, Weights, expect
from scare.calibrator.kernels.linear.floats import FLOATS


def dense_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes features: x weight + bias, shifted right by each output's own bits, for words x [..., I]: [..., O]."""
    return word((mixed(x, weights["weight"]) + weights["bias"]) >> weights["shift"])


def _dense_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(weights["shift"] == weights["bias"] == weights["weight"][1:], "dense_s8 shift")
    return FLOATS["dense"].shape(x, weights, settings)


INTEGERS = {
    "dense_s8": Kernel(dense_s8, _dense_shape, FLOATS["dense"].cost),
}
