"""The integer twins of the formula kernels, equal to `formulas_s8.c` in every bit."""

import numpy as np

from scare.calibrator.kernels.fixed import rounded, word
from scare.calibrator.kernels.formulas.floats import FLOATS
from scare.calibrator.kernels.kernel import Kernel, Settings, Shape, Shapes, Weights, expect


def products_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Half of each product of two words of x [C], times `factor` / 2^32 and held within ±top: [C(C+1)/2]."""
    numbers = rounded(x.astype(np.int64) * weights["factor"], 32)
    held = np.clip(numbers, -settings["top"], settings["top"])
    first, second = np.triu_indices(x.shape[1])
    return word(rounded(held[:, first] * held[:, second], 1))


def _products_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 1 and weights["factor"] == x, "products_s8")
    return (x[0] * (x[0] + 1) // 2,)


INTEGERS = {
    "products_s8": Kernel(products_s8, _products_shape, FLOATS["products"].cost),
}
