"""Linear kernels: dense layers, which mix features, and the outer product that adds a shared vector to each token."""

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import (
    CForm,
    MakeForm,
    PlacedStep,
    blocks_f32,
    blocks_q,
    pad_axis,
    table_f32,
    table_q,
    tables_f32,
)
from scare.kernels.c_extents import extents
from scare.kernels.contract import (
    INPUT,
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Step,
    Weights,
    expect,
    one_product,
    per_number,
)
from scare.kernels.fixed_point import (
    QuantisationRule,
    QuantisationState,
    bits_between,
    finest_unit,
    floor_loss,
    matmul_half,
    product_bound,
    to_int32,
    to_q16,
    to_word,
    word_unit,
)
from scare.kernels.tensor import MakeTensor, Tensor
from scare.kernels.window import quantise_projection


def dense(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mix features: x · weight (+ bias [O], or a bias for each row [..., O]) for x [..., I]: [..., O]."""
    mixed = one_product(x, weights["weight"])
    return mixed + weights["bias"] if "bias" in weights else mixed


def dense_step(source: str, output: str, weight: ArrayLike, bias: ArrayLike | None = None) -> Step:
    """Make the plan step output = source · weight + bias."""
    weights = {"weight": np.asarray(weight)} | ({} if bias is None else {"bias": np.asarray(bias)})
    return Step("dense", (source,), output, weights)


def _dense_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [..., I] with weight [I, O], and a bias of [O] or [..., O], to [..., O]."""
    expect(len(weights["weight"]) == 2 and x[-1] == weights["weight"][0], "dense weight")
    out = (*x[:-1], weights["weight"][1])
    expect("bias" not in weights or weights["bias"] in (out, out[-1:]), "dense bias")
    return out


def _dense_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["weight"][1])


def dense_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `dense` in fixed point: (x · weight + bias) >> shift for words x [..., I] and shift [O]: [..., O]."""
    return to_word((matmul_half(x, weights["weight"]) + weights["bias"]) >> weights["shift"])


def _dense_shape_q(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Like `_dense_shape`, with a bias and a shift for each output."""
    expect(weights["shift"] == weights["bias"] == weights["weight"][1:], "dense_q shift")
    return _dense_shape(x, weights, settings)


def _dense_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the largest magnitude of each output for inputs within their bounds: [..., O]."""
    if step.inputs[0] == INPUT:
        raise NotApplicableError("float32 only: a token for each reading has no fixed-point form")
    if step.weights.get("bias", np.empty(0)).ndim > 1:
        raise NotApplicableError("float32 only: a bias for each token has no fixed-point form")
    return product_bound(q.bounds[step.inputs[0]], step.weights["weight"], step.weights.get("bias", 0.0))


def _dense_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Choose one unit for outputs that are read together, as a kernel needs.

    These are all outputs, unless every reader is a `part` step: then they are those of each part.
    """
    units, readers = _sum_units(q, step), q.readers(step.output)
    if any(reader.kernel != "part" for reader in readers):
        return units.max()
    for reader in readers:
        start = reader.settings["start"]
        part = slice(start, start + prod(q.shapes[reader.output]))
        units[part] = units[part].max()
    return units


def _sum_units(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the unit of each output's sum, before it is shifted to the unit of the output: [O]."""
    bound = q.bounds[step.output]
    units = word_unit(bound.reshape(-1, bound.shape[-1]).max(axis=0))
    if q.is_window(step.inputs[0]):  # it becomes `project_q`, which scales its weights by itself
        return units
    return np.maximum(units, finest_unit(step.weights["weight"] * q.feature_units(step.inputs[0])[:, None]))


def _quantise_dense(q: QuantisationState, step: Step) -> Step:
    """Make `project_q` for a dense layer over the window, `dense_q` for one over computed values.

    `dense_q` sums in the fine unit of `_sum_units`, then shifts to the unit of the output.
    """
    weight, units = step.weights["weight"], q.feature_units(step.output)  # [I, O] and [O]
    bias = step.weights.get("bias", np.zeros(len(units)))
    if q.is_window(step.inputs[0]):
        matrix = weight.reshape(q.window, q.channels, -1) / q.quanta[:, None]  # per step of the window [T, C, O]
        return quantise_projection(q, step, matrix / units, bias / units, per_channel=False)
    fine = _sum_units(q, step)  # [O]
    shift = bits_between(units, fine)
    rounded = to_q16(weight * q.feature_units(step.inputs[0])[:, None] / fine)
    half_step = 1 << shift >> 1  # of the output in fine units: added, so that the shift rounds
    weights = {"weight": rounded, "bias": to_int32(bias / fine + floor_loss(rounded) + half_step, 1.0), "shift": shift}
    return Step("dense_q", step.inputs, step.output, weights)


def _c_dense_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_dense_f32(out, x, weight, bias, rows, inputs, outputs, step)`.

    `step` is the distance from the biases of a row to those of the next one.
    """
    rows, inputs = placed.rows_and_width
    outputs = placed.out[-1]
    row_biases = "bias" in placed.step.weights and placed.step.weights["bias"].ndim > 1
    bias = placed.bias(rows, outputs) if row_biases else placed.bias(outputs)
    bias_stride = outputs if row_biases else 0  # 0: all rows read the same bias
    weight = table_f32(blocks_f32(placed.weight("weight")), "weight")
    return CForm((weight, table_f32(bias, "bias"), rows, inputs, outputs, bias_stride))


def _c_dense_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_dense_q(out, x, weights, bias, shifts, rows, inputs, outputs)`."""
    weight, bias, shift = (placed.step.weights[name] for name in ("weight", "bias", "shift"))
    rows, inputs = placed.rows_and_width
    outputs, name = placed.out[-1], placed.step.output
    # C multiplies two inputs at once, and computes four outputs side by side: zeros fill up the last ones.
    if rows == outputs == 1:  # a single dot product, without blocks
        dot = table_q(pad_axis(weight.T, -1, 2), f"{name} weights")
        return CForm((dot, inputs, int(bias[0]), int(shift[0])), function="dense_1")
    tables = table_q(blocks_q(weight), f"{name} weights"), table_q(pad_axis(bias, -1, 4), f"{name} bias")
    return CForm((*tables, table_q(shift, f"{name} shifts", np.uint8), rows, inputs, outputs))


def _tensor_dense(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return tensor_mix_features(x, weights["weight"], weights.get("bias"))


def tensor_mix_features(x: Tensor, weight: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """Compute x · weight + bias for x [..., I]: [..., O]; a vector is multiplied as one row."""
    rows = x.reshape(1, *x.shape) if len(x.shape) == 1 else x
    mixed = rows @ weight
    return (mixed if bias is None else mixed + bias).reshape(*x.shape[:-1], weight.shape[1])


def add_outer(z: np.ndarray, g: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Add share[l] · g to each row l of z [L, D], for g [D] and weights share [L]: [L, D]."""
    return z + weights["share"][:, None] * g[:, None, :]


def _add_outer_shape(z: Shape, g: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from z [L, D] and g [D], with share [L], to [L, D]."""
    expect(len(z) == 2 and g == z[1:] and weights["share"] == z[:1], "add_outer")
    return z


def _c_add_outer_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_add_outer_f32(out, z, g, share, rows, width)`."""
    return CForm((*tables_f32(placed, "share"), *placed.out), in_place=(0,))


def _tensor_add_outer(z: Tensor, g: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return z + g.reshape(1, *g.shape) * weights["share"][:, None]


FLOAT_KERNELS = {
    "dense": Kernel(dense, _dense_shape, _dense_cost),
    "add_outer": Kernel(add_outer, _add_outer_shape, per_number(multiply_adds=1)),
}
FIXED_KERNELS = {
    "dense_q": Kernel(dense_q, _dense_shape_q, _dense_cost),
}
QUANTISATION = {
    "dense": QuantisationRule(_dense_bound, _dense_unit, _quantise_dense),
}
C_FLOAT32: dict[str, MakeForm] = {
    "dense": _c_dense_f32,
    "add_outer": _c_add_outer_f32,
}
C_FIXED: dict[str, MakeForm] = {
    "dense_q": _c_dense_q,
}
C_EXTENTS = {
    "dense_f32": extents(
        out="rows * outputs",
        x="rows * inputs",
        weight="inputs * outputs",
        bias="outputs + (rows - 1) * step",
        where="rows >= 1",
    ),
    "add_outer_f32": extents(out="rows * width", z="rows * width", g="width", share="rows", over="z"),
    "dense_q": extents(
        out="rows * outputs",
        x="rows * inputs",
        weights="up(outputs, 4) * up(inputs, 2)",
        bias="up(outputs, 4)",
        shifts="outputs",
        where="inputs >= 1, largest(shifts) <= 31",
    ),
    "dense_1_q": extents(out="1", x="inputs", weights="up(inputs, 2)", where="shift <= 31"),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "dense": _tensor_dense,
    "add_outer": _tensor_add_outer,
}
