"""The integer twins of the pointwise kernels, equal to `pointwise_s8.c` in every bit."""

import numpy as np

from scare.calibrator.kernels.fixed import LEAST_SQUARE, inverse_root, multiply_half, row_bits, spare_bits, to_top, word
from scare.calibrator.kernels.kernel import Kernel, Settings, Weights, free
from scare.calibrator.kernels.pointwise.floats import FLOATS

NEWEST_BITS = 14  # by which a single reading is shifted up to become a word


def add_s8(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Adds two values of one shape, the second shifted right to the unit of the first."""
    return a + (b >> settings["shift"])


def newest_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The newest row of the window x [T, C] as words: [C]."""
    return x[:, -1].astype(np.int32) << NEWEST_BITS


def layer_norm_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Each row of words x [L, D] to mean 0 and variance 1, times gain (√D in it), plus bias.

    `epsilon` · 2^(2·spare bits − `epsilon_bits`) is ε in the unit of the sum of squares.
    """
    wide, width = x.astype(np.int64), x.shape[-1]
    spare = spare_bits(wide)
    level = to_top(wide, spare, 29 - int(width).bit_length())
    centred = width * level - level.sum(axis=-1, keepdims=True)
    more = spare_bits(centred)
    rows = to_top(centred, more, row_bits(width))
    down = np.clip(settings["epsilon_bits"] - 2 * (spare + more), 0, 31)
    squares = (rows * rows).sum(axis=-1, keepdims=True) + (settings["epsilon"] >> down)
    root, half = inverse_root(np.clip(squares, LEAST_SQUARE, (1 << 32) - 1))
    normed = (rows * root) >> (half - 1)
    return word(multiply_half(weights["gain"].astype(np.int64), normed) + weights["bias"])


INTEGERS = {
    "add_s8": Kernel(add_s8, FLOATS["add"].shape, FLOATS["add"].cost),
    "newest_s8": Kernel(newest_s8, FLOATS["newest"].shape, free),
    "layer_norm_s8": Kernel(layer_norm_s8, FLOATS["layer_norm"].shape, FLOATS["layer_norm"].cost),
}
