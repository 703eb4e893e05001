"""How the pointwise kernels become integers."""

from math import floor, log2, sqrt

import numpy as np

from scare.calibrator.kernels.fixed import row_bits
from scare.calibrator.kernels.integer_rule import VIEW, WINDOW, Quantized, Rule, bits_between, own_unit
from scare.calibrator.kernels.kernel import INPUT, Step
from scare.calibrator.kernels.pointwise.integers import NEWEST_BITS
from scare.calibrator.kernels.rounding import words
from scare.errors import NotApplicableError


def _newest_bound(q: Quantized, step: Step) -> np.ndarray:
    return q.bounds[INPUT][-1]


def _newest_unit(q: Quantized, step: Step) -> np.ndarray:
    return 2.0**-NEWEST_BITS / q.quanta


def _newest(q: Quantized, step: Step) -> Step:
    return Step("newest_s8", (WINDOW,), step.output)


def _norm_bound(q: Quantized, step: Step) -> np.ndarray:
    width = q.shapes[step.output][-1]
    return np.abs(step.weights["gain"]) * sqrt(width) + np.abs(step.weights["bias"])


def _norm(q: Quantized, step: Step) -> Step:
    unit, width = q.unit(step.output), q.shapes[step.output][-1]
    top = 2.0 ** (-62 + 29 - width.bit_length() + row_bits(width)) / q.unit(step.inputs[0])
    epsilon = step.settings["epsilon"] * width**3 * top**2
    bits = 30 - floor(log2(epsilon))
    weights = {
        "gain": words(step.weights["gain"] * sqrt(width) * 2, unit),
        "bias": words(step.weights["bias"], unit),
    }
    settings = {"epsilon": round(epsilon * 2.0**bits), "epsilon_bits": bits}
    return Step("layer_norm_s8", step.inputs, step.output, weights, settings)


def _add_bound(q: Quantized, step: Step) -> np.ndarray:
    return q.bounds[step.inputs[0]] + q.bounds[step.inputs[1]]


def _add_unit(q: Quantized, step: Step) -> np.ndarray:
    """The coarser of the two: what is held by it leaves room for two additions."""
    unit = max(q.unit(name) for name in step.inputs)
    if q.bounds[step.output].max() / unit >= 2.0**31:
        raise NotApplicableError("float32 only: a sum of more than three values has no integer form")
    return np.asarray(unit)


def _add(q: Quantized, step: Step) -> Step:
    coarse, fine = sorted(step.inputs, key=q.unit, reverse=True)
    shift = int(bits_between(q.unit(coarse), q.unit(fine)))
    return Step("add_s8", (coarse, fine), step.output, settings={"shift": shift})


RULES = {
    "newest": Rule(_newest_bound, _newest_unit, _newest),
    "layer_norm": Rule(_norm_bound, own_unit, _norm),
    "add": Rule(_add_bound, _add_unit, _add),
    "flatten": VIEW,
}
