"""How the window kernels become integers.

The weights of long projections are int8 with the error of each rounding passed on along time, those of the newest
rows int16.
"""

from math import ceil, log2

import numpy as np

from scare.calibrator.kernels.fixed import FULL
from scare.calibrator.kernels.integer_rule import WINDOW, Quantized, Rule, finest, holding
from scare.calibrator.kernels.kernel import INPUT, Step
from scare.calibrator.kernels.rounding import MOST_SUM, diffused, halves, rounded_along_time, scales, whole
from scare.calibrator.kernels.window.floats import hat_matrix
from scare.errors import NotApplicableError

NEWEST, SHORT = 8, 16  # rows at the window's end whose weights have 16 bits; all of a window up to SHORT


def _lens_bound(q: Quantized, step: Step) -> np.ndarray:
    bias = np.asarray(step.weights.get("bias", 0.0))
    return np.abs(step.weights["weight"]).T @ q.bounds[step.inputs[0]] + np.abs(bias)[..., None]


def _channel_units(q: Quantized, step: Step) -> np.ndarray:
    """One power of two for all numbers of a value, times the channel's unit."""
    return holding((q.bounds[step.output] * q.quanta).max()) / q.quanta


def _lens_unit(q: Quantized, step: Step) -> np.ndarray:
    if step.inputs[0] == INPUT:
        return _channel_units(q, step)
    return np.maximum(_channel_units(q, step), finest(step.weights["weight"] * _knots(q, step)).max() / q.quanta)


def _knots(q: Quantized, step: Step) -> np.ndarray:
    """The units of a lens's rows, the channels' quanta apart."""
    return (q.units[step.inputs[0]] * q.quanta)[:, :1]


def _lens(q: Quantized, step: Step) -> Step:
    weight = step.weights["weight"]
    if "bias" in step.weights:
        raise NotApplicableError("float32 only: a lens with a bias has no integer form")
    unit = float((q.units[step.output] * q.quanta).flat[0])
    if step.inputs[0] == INPUT:
        return project(q, step, weight[:, None] / unit, np.zeros(weight.shape[1]), apart=True)
    return Step("lens_s8", step.inputs, step.output, {"weight": halves(weight * _knots(q, step) / unit)})


def project(q: Quantized, step: Step, matrix: np.ndarray, bias: np.ndarray, apart: bool) -> Step:
    """Weights [T, C, R], in units of the output a step of the window, split into older and newer rows."""
    rows = len(matrix)
    aligned = q.channels == 1 or rows % 2 == 0  # every channel begins on a word boundary
    newer = NEWEST + (rows - NEWEST) % 8 if rows > SHORT and aligned else rows
    older, coarse = diffused(matrix[: rows - newer])
    fine = scales(matrix[rows - newer :], FULL)
    shift = 30 - max(1, ceil(log2(max(coarse.max(), fine.max()))) + 1)
    shift = int(min(shift, 62))
    weights = {
        "older": older,
        "newer": whole(matrix[rows - newer :] / fine, np.int16),
        "coarse": whole(coarse * 2.0**shift, np.int32),
        "fine": whole(fine * 2.0**shift, np.int32),
        "bias": whole(bias, np.int32),
    }
    return Step("project_s8", (WINDOW,), step.output, weights, {"apart": apart, "shift": shift})


def _hats_bound(q: Quantized, step: Step) -> np.ndarray:
    return np.abs(_hat_sums(step))[:, None] * q.bounds[INPUT][:1]


def _hat_sums(step: Step) -> np.ndarray:
    """The sum of the weights under each hat."""
    knot, fraction = step.weights["knot"], step.weights["fraction"]
    count = step.settings["knots"]
    return np.bincount(knot, 1 - fraction, count) + np.bincount(knot + 1, fraction, count)


def _hats_unit(q: Quantized, step: Step) -> np.ndarray:
    return holding(_hat_sums(step) * FULL)[:, None] / q.quanta


def _hats(q: Quantized, step: Step) -> Step:
    knot, knots = step.weights["knot"], step.settings["knots"]
    unit = holding(_hat_sums(step) * FULL)
    matrix = rounded_along_time(hat_matrix(knot, step.weights["fraction"], knots) / unit, FULL)
    shares = np.take_along_axis(matrix, knot[:, None] + np.arange(2), axis=1).astype(np.int16)
    return Step("hat_basis_s8", (WINDOW,), step.output, {"knot": knot, "shares": shares}, step.settings)


def _bins_bound(q: Quantized, step: Step) -> np.ndarray:
    return np.add.reduceat(np.abs(step.weights["weight"])[:, None] * q.bounds[INPUT], step.weights["start"], axis=0)


def _bins(q: Quantized, step: Step) -> Step:
    weight, start = step.weights["weight"], step.weights["start"]
    unit = float((q.units[step.output] * q.quanta).flat[0])
    sums = np.add.reduceat(np.abs(weight), start)
    scale = np.maximum(np.maximum(sums / MOST_SUM, np.maximum.reduceat(np.abs(weight), start) / FULL), 1e-30)
    each = np.repeat(scale, np.diff([*start, len(weight)]))
    shift = int(min(30 - ceil(log2((scale / unit).max())), 62))
    weights = {
        "weight": whole(weight / each, np.int16),
        "start": start,
        "scale": whole(scale / unit * 2.0**shift, np.int32),
    }
    return Step("bins_s8", (WINDOW,), step.output, weights, {"shift": shift})


RULES = {
    "hat_basis": Rule(_hats_bound, _hats_unit, _hats),
    "lens": Rule(_lens_bound, _lens_unit, _lens),
    "bins": Rule(_bins_bound, _channel_units, _bins),
}
