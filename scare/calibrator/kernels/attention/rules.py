"""How the attention kernels become integers: a hash keeps its signs, attention the unit of its values."""

from math import ceil, log2, sqrt

import numpy as np

from scare.calibrator.kernels.attention.integers import score_bits
from scare.calibrator.kernels.fixed import FULL
from scare.calibrator.kernels.integer_rule import LARGEST, Quantized, Rule
from scare.calibrator.kernels.kernel import Step
from scare.calibrator.kernels.rounding import MOST_SUM, whole
from scare.errors import NotApplicableError

KERNEL_ERROR, HIGHEST_DEGREE = 1e-4, 12  # of the hash kernel's polynomial; the error as a share of the kernel's range


def _none(q: Quantized, step: Step) -> np.ndarray:
    """Codes have neither bound nor unit."""
    return np.zeros(())


def _hash(q: Quantized, step: Step) -> Step:
    """Only signs are wanted: each bit's projection, and the kernel, may be scaled at will."""
    sharpness = step.settings["sharpness"]
    if np.linalg.norm(step.weights["supports"], axis=1).max() > 1.001 * sharpness:
        raise NotApplicableError("float32 only: the supports of a hash are not unit vectors")
    supports = whole(step.weights["supports"] / sharpness * FULL, np.int16)
    powers, constant = _kernel_powers(sharpness)
    size = 2.0**31 * 0.99 / 65536 / _largest_partial(powers)
    projection = step.weights["projection"]
    bias = step.weights.get("bias", 0.0) + constant * projection.sum(axis=0)
    room = np.maximum(np.abs(projection).sum(axis=0) / MOST_SUM, np.abs(projection).max(axis=0) / FULL)
    room = np.maximum(np.maximum(room, np.abs(bias) * size / LARGEST), 1e-30)
    scaled = whole(projection / room, np.int16)
    weights = {
        "supports": supports,
        "coefficients": whole(np.array([*powers[::-1], 0.0]) * size * 65536, np.int32),
        "projection": scaled,
        "bias": whole(bias * size / room + 0.5 * scaled.sum(axis=0), np.int32),  # the kernel is rounded down
    }
    return Step("hash_codes_s8", step.inputs, step.output, weights)


def _largest_partial(powers: np.ndarray) -> float:
    """The largest magnitude that evaluating the powers 1, 2, … of |t| ≤ ¼, highest first, comes by."""
    quarter, partial, largest = np.linspace(-0.25, 0.25, 201), np.zeros(201), 0.0
    for power in (*powers[::-1], 0.0):
        partial = partial * quarter + power
        largest = max(largest, float(np.abs(partial).max()))
    return largest


def _kernel_powers(sharpness: float) -> tuple[np.ndarray, float]:
    """exp(sharpness (c − 1)) for c in [−1, 1] as powers 1, 2, … of c / 4, and the constant."""
    grid = np.linspace(-1.0, 1.0, 1001)
    exact = np.exp(sharpness * (grid - 1))
    for degree in range(1, HIGHEST_DEGREE + 1):
        series = np.polynomial.chebyshev.Chebyshev.interpolate(lambda c: np.exp(sharpness * (c - 1)), degree)
        if np.abs(series(grid) - exact).max() <= KERNEL_ERROR * np.ptp(exact):
            power = np.asarray(series.convert(kind=np.polynomial.Polynomial).coef, float)
            power *= 4.0 ** np.arange(degree + 1)
            return power[1:], float(power[0])
    raise NotApplicableError(
        f"float32 only: the hash kernel is too sharp ({sharpness:.3g}) for a polynomial of degree {HIGHEST_DEGREE}"
    )


def _value_bound(q: Quantized, step: Step) -> np.ndarray:
    return np.full(q.shapes[step.output], q.bounds[step.inputs[2]].max())


def _value_unit(q: Quantized, step: Step) -> np.ndarray:
    return np.asarray(q.unit(step.inputs[2]))


def _bitwise(q: Quantized, step: Step) -> Step:
    return Step("bitwise_attention_s8", step.inputs, step.output, settings=step.settings)


def _softmax(q: Quantized, step: Step) -> Step:
    """`sharpness` · 2^(`bits` − 32) is what a score, of rows shifted to the top, is worth as a power of two in Q16."""
    heads = step.settings["heads"]
    width = q.shapes[step.inputs[0]][1] // heads
    down = 2 * (31 - score_bits(width))
    worth = q.unit(step.inputs[0]) * q.unit(step.inputs[1]) * 2.0**down / sqrt(width) / np.log(2) * 65536
    bits = ceil(log2(worth)) + 2
    settings = {"heads": heads, "sharpness": round(worth * 2.0 ** (32 - bits)), "bits": bits}
    return Step("softmax_attention_s8", step.inputs, step.output, settings=settings)


RULES = {
    "hash_codes": Rule(_none, _none, _hash),
    "bitwise_attention": Rule(_value_bound, _value_unit, _bitwise),
    "softmax_attention": Rule(_value_bound, _value_unit, _softmax),
}
