"""How the formula kernels become integers."""

from math import floor, log2

import numpy as np

from scare.calibrator.kernels.integer_rule import Quantized, Rule
from scare.calibrator.kernels.kernel import Step
from scare.calibrator.kernels.rounding import whole
from scare.errors import NotApplicableError

MOST_HELD = 28000  # that a number may become before products: half of its square is below LARGEST


def _products_bound(q: Quantized, step: Step) -> np.ndarray:
    return np.asarray(step.settings["limit"] ** 2)


def _held_bits(step: Step) -> int:
    """The bits after the point of the numbers that `products` multiplies."""
    return floor(log2(MOST_HELD / step.settings["limit"]))


def _products_unit(q: Quantized, step: Step) -> np.ndarray:
    return np.asarray(2.0 ** (1 - 2 * _held_bits(step)))


def _products(q: Quantized, step: Step) -> Step:
    limit, bits = step.settings["limit"], _held_bits(step)
    factor = np.rint(q.feature_units(step.inputs[0]) * 2.0 ** (bits + 32))
    if factor.max() >= 2.0**31:
        raise NotApplicableError(f"float32 only: ±{limit:g} is too few steps of a reading for products")
    weights = {"factor": whole(factor, np.int32)}
    return Step("products_s8", step.inputs, step.output, weights, {"top": floor(limit * 2.0**bits)})


RULES = {
    "products": Rule(_products_bound, _products_unit, _products),
}
