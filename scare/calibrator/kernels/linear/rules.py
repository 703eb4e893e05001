"""How the linear kernels become integers; a dense step of the whole window is a projection of it."""

from math import prod

import numpy as np

from scare.calibrator.kernels.integer_rule import Quantized, Rule, absolute, bits_between, finest, holding
from scare.calibrator.kernels.kernel import INPUT, Step
from scare.calibrator.kernels.rounding import halves, words
from scare.calibrator.kernels.window.rules import project
from scare.errors import NotApplicableError


def _dense_bound(q: Quantized, step: Step) -> np.ndarray:
    if step.inputs[0] == INPUT:
        raise NotApplicableError("float32 only: a token for each reading has no integer form")
    if step.weights.get("bias", np.empty(0)).ndim > 1:
        raise NotApplicableError("float32 only: a bias for each token has no integer form")
    return absolute(q.bounds[step.inputs[0]], step.weights["weight"], step.weights.get("bias", 0.0))


def _dense_finest(q: Quantized, step: Step) -> np.ndarray:
    """The unit of each output's sum, before it is shifted."""
    bound = q.bounds[step.output]
    most = holding(bound.reshape(-1, bound.shape[-1]).max(axis=0))
    if q.is_window(step.inputs[0]):
        return most
    return np.maximum(most, finest(step.weights["weight"] * q.feature_units(step.inputs[0])[:, None]))


def _dense_unit(q: Quantized, step: Step) -> np.ndarray:
    """One unit for all outputs that are read together."""
    units, readers = _dense_finest(q, step), q.readers(step.output)
    if any(reader.kernel != "part" for reader in readers):
        return units.max()
    for reader in readers:
        start = reader.settings["start"]
        part = slice(start, start + prod(q.shapes[reader.output]))
        units[part] = units[part].max()
    return units


def _dense(q: Quantized, step: Step) -> Step:
    weight, units = step.weights["weight"], q.feature_units(step.output)
    bias = step.weights.get("bias", np.zeros(len(units)))
    if q.is_window(step.inputs[0]):
        matrix = weight.reshape(q.window, q.channels, -1) / q.quanta[:, None]
        return project(q, step, matrix / units, bias / units, apart=False)
    fine = _dense_finest(q, step)
    shift = bits_between(units, fine)
    weights = {
        "weight": halves(weight * q.feature_units(step.inputs[0])[:, None] / fine),
        "bias": words(bias, fine) + (1 << shift >> 1),
        "shift": shift,
    }
    return Step("dense_s8", step.inputs, step.output, weights)


RULES = {
    "dense": Rule(_dense_bound, _dense_unit, _dense),
}
