"""How the fused kernels become integers."""

from math import floor, log2

import numpy as np

from scare.calibrator.kernels.fixed import FULL
from scare.calibrator.kernels.integer_rule import (
    LARGEST,
    VIEW,
    Quantized,
    Rule,
    absolute,
    bits_between,
    finest,
    holding,
    own_unit,
)
from scare.calibrator.kernels.kernel import Step
from scare.calibrator.kernels.rounding import halves, whole, words


def _tokens_bound(q: Quantized, step: Step) -> np.ndarray:
    rows = absolute(q.bounds[step.inputs[0]], step.weights["local"], step.weights["bias"])
    return rows + np.abs(step.weights["share"])[:, None] * _mixed_bound(q, step)


def _mixed_bound(q: Quantized, step: Step) -> np.ndarray:
    shared = q.bounds[step.inputs[1]]
    return shared @ np.abs(step.weights["mix"]) if "mix" in step.weights else shared


def _mixed_unit(q: Quantized, step: Step) -> float:
    """The unit of what all rows share, once mixed."""
    unit = q.unit(step.inputs[1])
    if "mix" not in step.weights:
        return unit
    return float(np.maximum(holding(_mixed_bound(q, step).max()), finest(step.weights["mix"] * unit).max()))


def _tokens_unit(q: Quantized, step: Step) -> np.ndarray:
    local = step.weights["local"] * q.feature_units(step.inputs[0])[:, None]
    share = step.weights["share"] * _mixed_unit(q, step)
    return np.max([holding(q.bounds[step.output].max()), finest(local).max(), *finest(share[:, None])])


def _tokens(q: Quantized, step: Step) -> Step:
    unit, mixed = q.unit(step.output), _mixed_unit(q, step)
    weights = {
        "local": halves(step.weights["local"] * q.feature_units(step.inputs[0])[:, None] / unit),
        "share": halves(step.weights["share"] * mixed / unit),
        "bias": words(step.weights["bias"], unit),
    }
    if "mix" in step.weights:
        weights["mix"] = halves(step.weights["mix"] * q.unit(step.inputs[1]) / mixed)
    return Step("token_rows_s8", step.inputs, step.output, weights)


def _feed_bound(q: Quantized, step: Step) -> np.ndarray:
    hidden = absolute(q.bounds[step.inputs[0]], step.weights["inner"], step.weights["inner_bias"])
    return absolute(hidden, step.weights["outer"], step.weights["outer_bias"])


def _feed(q: Quantized, step: Step) -> Step:
    """Each hidden number is multiplied by a factor of its own, so that it uses its 16 bits; the biases must fit too."""
    unit = q.unit(step.inputs[0])
    scales = 32700 / np.maximum(np.abs(step.weights["inner"]).sum(axis=0), 1e-30)
    for_no_spare_bits = scales / unit / 65536
    scales *= min(1.0, LARGEST / max(float(np.abs(step.weights["inner_bias"] * for_no_spare_bits).max()), 1e-30))
    bias = step.weights["inner_bias"] * scales / unit / 65536
    most = int(np.clip(floor(log2(LARGEST / max(float(np.abs(bias).max()), 1e-30))), 0, 31))
    outer = step.weights["outer"] / scales[:, None]
    top = max(float(np.abs(outer).max()) / FULL, float(np.abs(outer).sum(axis=0).max()) / 43000)
    bits = floor(-log2(max(top, 2.0**-60)))
    weights = {
        "inner": whole(step.weights["inner"] * scales, np.int16),
        "inner_bias": whole(bias * 2.0**most, np.int32),
        "outer": whole(outer * 2.0**bits, np.int16),
        "outer_bias": words(step.weights["outer_bias"], q.unit(step.output)),
    }
    down = bits - 32 + int(bits_between(q.unit(step.output), unit))
    return Step("feed_forward_s8", step.inputs, step.output, weights, {"most": most, "bits": down})


def _without_relu(step: Step) -> str:
    activation = step.settings["activation"]
    return "" if activation == "relu" else f"feed_forward with {activation}"


RULES = {
    "token_rows": Rule(_tokens_bound, _tokens_unit, _tokens),
    "feed_forward": Rule(_feed_bound, own_unit, _feed, _without_relu),
    "part": VIEW,
}
