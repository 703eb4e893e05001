"""Fused kernels: several steps in one, so that their intermediate values need no memory.

`fuse` of `calibrator/plan_passes.py` puts them into a plan before it is exported.
"""

from math import floor, log2, prod
from typing import Annotated, Literal

import numpy as np
from annotated_types import MinLen

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import (
    CHUNK,
    LARGEST_SIZES,
    SPECIALISED_WIDTH,
    CForm,
    MakeForm,
    PlacedStep,
    bias_then_weights,
    blocks_f32,
    blocks_q,
    checked_size,
    chunks_f32,
    pad_axis,
    table_f32,
    table_q,
    tables_f32,
    view_form,
)
from scare.kernels.c_extents import FARTHEST, extents
from scare.kernels.contract import Kernel, Operations, Settings, Shape, Shapes, Step, Weights, expect, free, one_product
from scare.kernels.fixed_point import (
    FULL,
    LARGEST,
    TINY,
    VIEW,
    QuantisationRule,
    QuantisationState,
    bits_between,
    checked_round,
    finest_unit,
    floor_loss,
    matmul_half,
    multiply_half,
    output_unit,
    product_bound,
    spare_bits,
    to_int32,
    to_int64,
    to_q16,
    to_top,
    to_word,
    word_unit,
)
from scare.kernels.linear import tensor_mix_features
from scare.kernels.pointwise import FLOAT_KERNELS as POINTWISE
from scare.kernels.pointwise import TENSOR_FORMS as POINTWISE_TENSORS
from scare.kernels.tensor import MakeTensor, Tensor
from scare.schema import Count, Whole

ACTIVATIONS = ("relu", "gelu")
HIDDEN_BITS = 16  # right shift of the hidden layer's sums
MOST_INNER_SUM = 32700  # largest sum of |weights| of a hidden number: with 15-bit rows it gives sums below 2^30
MOST_OUTER_SUM = 43000  # largest sum of |weights| of an output: with 15-bit hidden numbers it gives sums below 2^31


def token_rows(seen: np.ndarray, shared: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute L tokens, each from its own inputs and a vector that all share: [L, O].

    seen·local + bias + share ⊗ (shared·mix)

    For seen [L, C], shared [D], local [C, O], bias [L, O], share [L] and mix [D, O]; without `mix`, shared is [O].
    """
    common = shared @ weights["mix"] if "mix" in weights else shared
    own = one_product(seen, weights["local"]) + weights["bias"]  # what each token has of its own inputs
    return own + weights["share"][:, None] * common[:, None, :]


def _token_shape(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from seen [L, C] and shared [D] (without `mix`: [O]) to tokens [L, O]."""
    expect(len(seen) == 2 and len(shared) == 1 and len(weights["local"]) == 2, "token_rows")
    out = (seen[0], weights["local"][1])
    expect(weights["local"][0] == seen[1] and weights["bias"] == out and weights["share"] == out[:1], "token_rows")
    expect(weights["mix"] == (*shared, out[1]) if "mix" in weights else shared == out[1:], "token_rows mix")
    return out


def _token_cost(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count the products with `local`, with `mix`, and of each row's share with the shared vector."""
    rows, outputs = seen[0], weights["local"][1]
    return Operations(multiply_adds=prod(seen) * outputs + prod(weights.get("mix", (0,))) + rows * outputs)


def token_rows_q(seen: np.ndarray, shared: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `token_rows` in fixed point, for words seen [L, C] and shared [D]: [L, O]."""
    if "mix" in weights:
        shared = matmul_half(shared, weights["mix"])
    # What each token gets of the shared vector: [batch, L, O].
    from_shared = multiply_half(shared[:, None].astype(np.int64), weights["share"].astype(np.int64)[:, None])
    return to_word(matmul_half(seen, weights["local"]) + from_shared + weights["bias"])


def _tokens_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the largest magnitude of each output for inputs within their bounds: [L, O]."""
    rows = product_bound(q.bounds[step.inputs[0]], step.weights["local"], step.weights["bias"])
    return rows + np.abs(step.weights["share"])[:, None] * _mixed_bound(q, step)


def _mixed_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the bound of the shared vector, after its product with `mix` if there is one: [O]."""
    shared = q.bounds[step.inputs[1]]
    return shared @ np.abs(step.weights["mix"]) if "mix" in step.weights else shared


def _tokens_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return one unit for all tokens: the smallest in which they fit a word, and `local` and `share` fit int16."""
    local = step.weights["local"] * q.feature_units(step.inputs[0])[:, None]
    share = step.weights["share"] * _mixed_unit(q, step)
    return np.max([word_unit(q.bounds[step.output].max()), finest_unit(local).max(), *finest_unit(share[:, None])])


def _mixed_unit(q: QuantisationState, step: Step) -> float:
    """Return the unit of the shared vector, after its product with `mix` if there is one."""
    unit = q.unit(step.inputs[1])
    if "mix" not in step.weights:
        return unit
    # The smallest unit in which the product fits a word, and `mix` int16.
    return float(np.maximum(word_unit(_mixed_bound(q, step).max()), finest_unit(step.weights["mix"] * unit).max()))


def _quantise_tokens(q: QuantisationState, step: Step) -> Step:
    """Make `token_rows_q`: each weight is multiplied by the unit of what it reads and divided by that of its result."""
    unit, mixed = q.unit(step.output), _mixed_unit(q, step)
    local = to_q16(step.weights["local"] * q.feature_units(step.inputs[0])[:, None] / unit)
    share = to_q16(step.weights["share"] * mixed / unit)
    # Products are rounded down; what their sums lose on average is added to the bias [L, O].
    loss = floor_loss(local) + floor_loss(share[None])[:, None]
    weights = {"local": local, "share": share}
    if "mix" in step.weights:
        weights["mix"] = to_q16(step.weights["mix"] * q.unit(step.inputs[1]) / mixed)
        loss = loss + np.multiply.outer(share / 65536, floor_loss(weights["mix"]))  # `share` is in Q16
    weights["bias"] = to_int32(step.weights["bias"] / unit + loss, 1.0)
    return Step("token_rows_q", step.inputs, step.output, weights)


def _c_token_rows_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_token_rows_f32(out, seen, shared, share, table, rows, channels, inputs, outputs)`."""
    (rows, channels), _ = placed.shapes
    outputs = placed.out[1]
    mix = placed.weight("mix") if "mix" in placed.step.weights else np.zeros((0, outputs))
    table = table_f32(blocks_f32(mix, placed.weight("local"), placed.weight("bias")), "mix, local and bias")
    return CForm((*tables_f32(placed, "share"), table, rows, channels, len(mix), outputs))


def _c_token_rows_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_token_rows_q(out, seen, shared, local, mix, rest, rows, channels, width, outputs)`.

    The table `rest` has the share and the bias of each row; `width` is the length of the vector that `mix` multiplies,
    0 without `mix`. C computes four outputs of a row at a time, or all eight at once if there are eight, which is the
    usual number: tables are in that order.
    """
    weights = placed.step.weights
    name = placed.step.output
    (rows, channels), outputs = placed.shapes[0], placed.out[1]
    if outputs % 4:
        raise NotApplicableError(f"float32 only: tokens have {outputs} numbers; fixed point needs a multiple of four")
    at_once = SPECIALISED_WIDTH if outputs == SPECIALISED_WIDTH else 4
    local = weights["local"].reshape(channels, -1, at_once).swapaxes(0, 1)  # [outputs / at once, channels, at once]
    mix = weights.get("mix", np.zeros((0, outputs), np.int16))
    bias = weights["bias"].reshape(rows, -1, at_once).swapaxes(0, 1)  # [outputs / at once, rows, at once]
    share = np.broadcast_to(weights["share"][:, None], (*bias.shape[:2], 1))
    tables = (
        table_q(local, f"{name} local"),
        table_q(blocks_q(mix) if len(mix) else local, f"{name} mix"),  # without mix any table will do: none is read
        table_q(np.concatenate([share, bias], axis=2), f"{name} share and bias", np.int32),
    )
    if outputs != SPECIALISED_WIDTH:
        return CForm((*tables, rows, channels, len(mix), outputs))
    if channels > 1:
        return CForm((*tables, rows, channels, len(mix)), function="token_rows_8")
    return CForm((*tables, rows, len(mix)), function="token_rows_1_8")


def _tensor_token_rows(seen: Tensor, shared: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `token_rows`; a vector becomes one row, because tensors broadcast along rows."""
    common = tensor_mix_features(shared, weights["mix"], None) if "mix" in weights else shared
    own = tensor_mix_features(seen, weights["local"], weights["bias"])
    return own + common.reshape(1, *common.shape) * weights["share"][:, None]


def feed_forward(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return two dense steps with an activation between them, row by row of x [..., D]: [..., O].

    Weights `inner` [D, H], `inner_bias` [H], `outer` [H, O], `outer_bias` [O].
    """
    hidden = one_product(x, weights["inner"]) + weights["inner_bias"]
    active = POINTWISE[settings["activation"]].run(hidden, {}, {})
    return one_product(active, weights["outer"]) + weights["outer_bias"]


def _feed_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [..., D] with inner [D, H] and outer [H, O] to [..., O]."""
    inner, outer = weights["inner"], weights["outer"]
    expect(len(inner) == len(outer) == 2 and inner == (x[-1], outer[0]), "feed_forward")
    expect(weights["inner_bias"] == inner[1:] and weights["outer_bias"] == outer[1:], "feed_forward bias")
    expect(settings["activation"] in ACTIVATIONS, "feed_forward activation")
    return (*x[:-1], outer[1])


def _feed_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count both products and the activation of the hidden layer."""
    hidden = (*x[:-1], weights["inner"][1])
    products = Operations(multiply_adds=prod(x) * hidden[-1] + prod(hidden) * weights["outer"][1])
    return products + POINTWISE[settings["activation"]].cost(hidden, {}, {})


def feed_forward_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `feed_forward` in fixed point with ReLU, for words x [L, D]: [L, D].

    A row is shifted left by its spare bits, at most `most`, then right to 15 bits. `inner_bias` is scaled for a row
    with `most` spare bits, so it is shifted right for a row with fewer. The sums of the outer layer are shifted right
    by `bits` plus the row's spare bits.
    """
    inner, spare = _hidden_sums(x.astype(np.int64), weights, settings)
    hidden = np.clip(inner >> HIDDEN_BITS, 0, FULL)  # ReLU, and the largest int16
    outer = to_int64(hidden.astype(float) @ weights["outer"].astype(float))
    shift = np.minimum(spare + settings["bits"], 31)  # C does not define a longer shift of a word
    return to_word((outer >> shift) + weights["outer_bias"])


def _hidden_sums(x: np.ndarray, weights: Weights, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Compute the hidden layer before its activation [L, H] of words x [L, D], and each row's spare bits [L, 1]."""
    spare = np.minimum(spare_bits(x), settings["most"])
    rows = to_top(x, spare, 15).astype(float)
    bias = weights["inner_bias"] >> (settings["most"] - spare)
    return to_int64(rows @ weights["inner"].astype(float)) + bias, spare


def _feed_shape_q(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [L, D] with inner [D, H] and outer [H, D] to [L, D]."""
    inner, outer = weights["inner"], weights["outer"]
    expect(len(x) == 2 and inner == outer[::-1] and inner[0] == x[1], "feed_forward_q")
    expect(weights["inner_bias"] == inner[1:] and weights["outer_bias"] == outer[1:], "feed_forward_q bias")
    return x


def _feed_cost_q(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=x[0] * (prod(weights["inner"]) + prod(weights["outer"])))


def _feed_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the largest magnitude of each output; ReLU leaves the bound of the hidden layer as it is."""
    hidden = product_bound(q.bounds[step.inputs[0]], step.weights["inner"], step.weights["inner_bias"])
    return product_bound(hidden, step.weights["outer"], step.weights["outer_bias"])


def _feed_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Choose one unit for all outputs: a word holds them, and no sum of the outer layer is shifted left."""
    _, scales, _ = _quantise_hidden(q, step)
    _, bits = _scaled_outer(step.weights["outer"] / scales[:, None], axis=0)
    return np.maximum(output_unit(q, step), _sum_unit(q, step, bits))


def _quantise_feed(q: QuantisationState, step: Step) -> Step:
    """Make `feed_forward_q`: the hidden layer in scales of its own, which the weights of the outer layer undo."""
    hidden, scales, most = _quantise_hidden(q, step)
    outer, bits = _scaled_outer(step.weights["outer"] / scales[:, None], axis=0)
    outer_bias = to_int32(step.weights["outer_bias"], q.unit(step.output))
    weights = {**hidden, "outer": outer, "outer_bias": outer_bias}
    down = int(bits_between(q.unit(step.output), _sum_unit(q, step, bits)))
    return Step("feed_forward_q", step.inputs, step.output, weights, {"most": most, "bits": down})


def _quantise_hidden(q: QuantisationState, step: Step) -> tuple[dict[str, np.ndarray], np.ndarray, int]:
    """Quantise `inner` and `inner_bias`; returns them, the scale of each hidden number [H], and `most`.

    Each hidden number is scaled to use its 16 bits; all scales are then lowered by one factor if a bias would not fit a
    word. `most` is the number of spare bits of a row for which `inner_bias` is stored.
    """
    exact_bias = step.weights["inner_bias"]
    scales = MOST_INNER_SUM / np.maximum(np.abs(step.weights["inner"]).sum(axis=0), TINY)
    row_unit = q.unit(step.inputs[0]) * 65536  # of a row without spare bits, which `to_top` shifts right by 16
    largest_bias = float(np.abs(exact_bias * (scales / row_unit)).max())
    scales *= min(1.0, LARGEST / max(largest_bias, TINY))
    bias = exact_bias * scales / row_unit
    # Stored for the row with the most spare bits for which biases fit a word; `_hidden_sums` shifts them for others.
    most = int(np.clip(floor(log2(LARGEST / max(float(np.abs(bias).max()), TINY))), 0, 31))
    weights = {
        "inner": checked_round(step.weights["inner"] * scales, np.int16),
        "inner_bias": checked_round(bias * 2.0**most, np.int32),
    }
    return weights, scales, most


def _scaled_outer(outer: np.ndarray, axis: int) -> tuple[np.ndarray, int]:
    """Scale `outer` by the largest power of two for which it fits int16, and sums of |outer| fit `MOST_OUTER_SUM`.

    The sums are along `axis`. Returns the rounded weights, and the exponent of the power.
    """
    unit = max(float(np.abs(outer).max()) / FULL, float(np.abs(outer).sum(axis=axis).max()) / MOST_OUTER_SUM)
    bits = floor(-log2(max(unit, 2.0**-60)))
    return checked_round(outer * 2.0**bits, np.int16), bits


def _sum_unit(q: QuantisationState, step: Step, bits: int) -> float:
    """Return the unit of the outer layer's sums: the value that a sum of 1 stands for.

    The weights `outer` are stored multiplied by 2^`bits`, so the unit is smaller by as much. It is larger by 2^32,
    because numbers lose 32 bits on their way: 16 when the row's words are shortened to half-words, and 16
    (`HIDDEN_BITS`) when the hidden sums are. This is true of a row whose words are full. A row with spare bits is
    first shifted left by them; the kernel shifts its sums right again.
    """
    return q.unit(step.inputs[0]) * 2.0 ** (32 - bits)


def _without_relu(step: Step) -> str:
    """Name the activation if it has no fixed-point form (`QuantisationRule.lacks`); empty for ReLU, which has one."""
    activation = step.settings["activation"]
    return "" if activation == "relu" else f"{step.kernel} with {activation}"


def _c_feed_forward_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_feed_forward_f32(out, x, table, rows, width, hidden, outputs)`, or `…_8` or `…_gelu`.

    C computes ReLU as x + |x|, twice its value, so `outer` is halved here. Padded hidden numbers have zero weights.
    """
    relu = placed.step.settings["activation"] == "relu"
    inner = np.concatenate([placed.weight("inner_bias")[None], placed.weight("inner")])
    outer = placed.weight("outer") * (0.5 if relu else 1.0)
    inner, outer = pad_axis(inner, 1, CHUNK), pad_axis(outer, 0, CHUNK)
    numbers = table_f32(
        np.concatenate([placed.weight("outer_bias"), chunks_f32(inner, outer)]), "outer bias, inner and outer"
    )
    (rows, width), sizes = placed.rows_and_width, (len(outer), placed.out[-1])
    if relu and width == SPECIALISED_WIDTH:
        return CForm((numbers, rows, *sizes), function="feed_forward_8")
    return CForm((numbers, rows, width, *sizes), function="feed_forward" if relu else "feed_forward_gelu")


def _c_feed_forward_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_feed_forward_q(out, x, inner, outer, outer_bias, rows, width, hidden, most, bits)`.

    `feed_forward_q` explains `most` and `bits`.
    """
    weights, settings, name = placed.step.weights, placed.step.settings, placed.step.output
    rows, width = placed.out
    inner = bias_then_weights(weights["inner_bias"], weights["inner"])
    # C makes eight hidden numbers at a time, then four outputs, or all if there are eight: zeros fill up the last ones.
    outputs_at_once = SPECIALISED_WIDTH if width == SPECIALISED_WIDTH else 4
    outer = pad_axis(pad_axis(weights["outer"], 0, 8), 1, 4).T  # [D, H]
    # One instruction multiplies two hidden numbers by two weights, so for each pair of hidden numbers the weights of
    # the outputs follow each other: [D / at once, H / 2, at once, 2].
    in_blocks = outer.reshape(-1, outputs_at_once, outer.shape[1] // 2, 2).swapaxes(1, 2)
    tables = (
        table_q(pad_axis(inner, 0, 8), f"{name} inner bias and weights"),
        table_q(in_blocks, f"{name} outer"),
        table_q(pad_axis(weights["outer_bias"], -1, 4), f"{name} outer bias"),
    )
    numbers = checked_size("hidden", len(inner)), settings["most"], settings["bits"]
    if width == SPECIALISED_WIDTH:
        return CForm((*tables, rows, *numbers), function="feed_forward_8")
    return CForm((*tables, rows, checked_size("width", width), *numbers))


def _tensor_feed_forward(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    hidden = POINTWISE_TENSORS[settings["activation"]](
        tensor_mix_features(x, weights["inner"], weights["inner_bias"]), {}, {}
    )
    return tensor_mix_features(hidden, weights["outer"], weights["outer_bias"])


def read_out(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return one number of all rows of x [L, D]: Σ straight · x + Σ outer · active(x · inner + inner_bias) + bias: [1].

    Weights `straight` [L, D], `inner` [D, H], `inner_bias` [H], `outer` [L, H], `bias` [1].
    """
    hidden = one_product(x, weights["inner"]) + weights["inner_bias"]
    active = POINTWISE[settings["activation"]].run(hidden, {}, {})
    straight, deep = weights["straight"].reshape(-1, 1), weights["outer"].reshape(-1, 1)
    return x.reshape(-1, len(straight)) @ straight + active.reshape(-1, len(deep)) @ deep + weights["bias"]


def _read_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the shape of `read_out`: from x [L, D] with straight [L, D], inner [D, H] and outer [L, H] to [1]."""
    inner = weights["inner"]
    expect(len(x) == len(inner) == 2 and weights["straight"] == x and inner[0] == x[1], "read_out")
    expect(weights["outer"] == (x[0], inner[1]) and weights["inner_bias"] == inner[1:], "read_out hidden layer")
    # `read_out_q`, which has this shape function, too, has no such setting: it always computes ReLU.
    expect(weights["bias"] == (1,) and settings.get("activation", "relu") in ACTIVATIONS, "read_out bias")
    return (1,)


def _read_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count the products with `inner`, `outer` and `straight`, the sum of both paths, and the activation.

    `read_out_q` has no setting `activation`: it always computes ReLU.
    """
    hidden = weights["outer"]  # the shape of the hidden layer, too [L, H]
    products = Operations(multiply_adds=prod(x) * hidden[1] + prod(hidden) + prod(x), additions=1)
    return products + POINTWISE[settings.get("activation", "relu")].cost(hidden, {}, {})


def read_out_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `read_out` in fixed point with ReLU for words x [L, D]: [1].

    The hidden layer is that of `feed_forward_q`. The sum of each row is shifted right by `bits` plus the row's spare
    bits.
    """
    wide = x.astype(np.int64)
    inner, spare = _hidden_sums(wide, weights, settings)
    hidden = np.clip(inner >> HIDDEN_BITS, 0, FULL)
    sums = (hidden * weights["outer"].astype(np.int64)).sum(axis=-1, keepdims=True)
    straight = multiply_half(wide, weights["straight"].astype(np.int64)).sum(axis=(1, 2))
    down = spare + settings["bits"]  # to the left if negative; 31 below, because C does not define a longer shift
    rows = (sums << np.maximum(-down, 0)) >> np.clip(down, 0, 31)
    return to_word(rows.sum(axis=1) + straight[:, None] + weights["bias"])


def _read_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the largest magnitude of the result for inputs within their bounds: [1]."""
    x, weights = q.bounds[step.inputs[0]], step.weights
    hidden = product_bound(x, weights["inner"], weights["inner_bias"])
    straight, deep = (np.abs(weights["straight"]) * x).sum(), (np.abs(weights["outer"]) * hidden).sum()
    return straight + deep + np.abs(weights["bias"])


def _read_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Choose the smallest unit in which the result fits a word, and the weights `straight` fit int16."""
    straight = step.weights["straight"].reshape(-1, 1) * q.unit(step.inputs[0])
    return np.maximum(word_unit(q.bounds[step.output]), finest_unit(straight))


def _quantise_read(q: QuantisationState, step: Step) -> Step:
    """Make `read_out_q`: its hidden layer is that of `feed_forward_q`, other weights give the unit of the result."""
    unit, out = q.unit(step.inputs[0]), q.unit(step.output)
    hidden, scales, most = _quantise_hidden(q, step)
    outer, bits = _scaled_outer(step.weights["outer"] / scales, axis=1)
    down = int(bits_between(out, _sum_unit(q, step, bits)))
    straight = to_q16(step.weights["straight"] * unit / out)
    # Each product with `straight` loses half a step, and so does the sum of each row if it is shifted right.
    loss = floor_loss(straight.reshape(-1, 1)) + (len(outer) / 2 if down > 0 else 0.0)
    bias = to_int32(step.weights["bias"] / out + loss, 1.0)
    weights = {**hidden, "outer": outer, "straight": straight, "bias": bias}
    return Step("read_out_q", step.inputs, step.output, weights, {"most": most, "bits": down})


def _c_read_out_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_read_out_f32(out, x, inner, outer, rows, width, hidden)`, or `…_8` or `…_gelu`.

    C computes ReLU as x + |x|, twice its value, so `outer` is halved here.
    """
    relu = placed.step.settings["activation"] == "relu"
    inner = pad_axis(np.concatenate([placed.weight("inner_bias")[None], placed.weight("inner")]), 1, CHUNK)
    outer = pad_axis(placed.weight("outer") * (0.5 if relu else 1.0), 1, CHUNK)
    read = np.concatenate([placed.weight("straight"), outer], axis=1)
    tables = (
        table_f32(blocks_f32(inner), "inner bias and weights"),
        table_f32(np.concatenate([placed.weight("bias"), read.ravel()]), "bias, straight and outer"),
    )
    rows, width = placed.rows_and_width
    if relu and width == SPECIALISED_WIDTH:
        return CForm((*tables, rows, outer.shape[1]), function="read_out_8")
    return CForm((*tables, rows, width, outer.shape[1]), function="read_out" if relu else "read_out_gelu")


def _c_read_out_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_read_out_q(out, x, inner, outer, straight, rows, width, hidden, most, bits, bias)`.

    `feed_forward_q` explains `most`, `read_out_q` explains `bits`.
    """
    weights, settings, name = placed.step.weights, placed.step.settings, placed.step.output
    rows, width = placed.rows_and_width
    inner = bias_then_weights(weights["inner_bias"], weights["inner"])
    # Padded with zeros, because C makes eight hidden numbers at a time, and uses `straight` two weights at a time.
    tables = (
        table_q(pad_axis(inner, 0, 8), f"{name} inner bias and weights"),
        table_q(pad_axis(weights["outer"], 1, 8), f"{name} outer"),
        table_q(pad_axis(weights["straight"], 1, 2), f"{name} straight"),
    )
    numbers = checked_size("hidden", len(inner)), settings["most"], settings["bits"], int(weights["bias"][0])
    if width == SPECIALISED_WIDTH:
        return CForm((*tables, rows, *numbers), function="read_out_8")
    return CForm((*tables, rows, checked_size("width", width), *numbers))


def _tensor_read_out(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    hidden = POINTWISE_TENSORS[settings["activation"]](
        tensor_mix_features(x, weights["inner"], weights["inner_bias"]), {}, {}
    )
    deep = tensor_mix_features(hidden.reshape(weights["outer"].size), weights["outer"].reshape(-1, 1), weights["bias"])
    return deep + tensor_mix_features(x.reshape(weights["straight"].size), weights["straight"].reshape(-1, 1), None)


def part(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """View numbers of x [I], from number `start` on, as an array of the given `shape`."""
    shape = tuple(settings["shape"])
    return x[:, settings["start"] : settings["start"] + prod(shape)].reshape(len(x), *shape)


def _part_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [I] to the given `shape`, which must lie within x."""
    start, shape = settings["start"], tuple(settings["shape"])
    expect(len(x) == 1 and start >= 0 and min(shape) >= 1 and start + prod(shape) <= x[0], "part")
    return shape


def _tensor_part(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    shape: Shape = tuple(settings["shape"])
    return x.rows(settings["start"], settings["start"] + int(np.prod(shape))).reshape(*shape)


FLOAT_KERNELS = {
    "token_rows": Kernel(token_rows, _token_shape, _token_cost),
    "feed_forward": Kernel(
        feed_forward,
        _feed_shape,
        _feed_cost,
        takes={"activation": Literal[ACTIVATIONS]},
        scratch=lambda x, weights, settings: prod(x[:-1]) * weights["inner"][1],
    ),
    "read_out": Kernel(
        read_out,
        _read_shape,
        _read_cost,
        takes={"activation": Literal[ACTIVATIONS]},
        scratch=lambda x, weights, settings: prod(weights["outer"]),
    ),
    "part": Kernel(
        part, _part_shape, free, copies=False, takes={"start": Whole, "shape": Annotated[list[Count], MinLen(1)]}
    ),
}
FIXED_KERNELS = {
    "token_rows_q": Kernel(token_rows_q, _token_shape, _token_cost),
    "feed_forward_q": Kernel(feed_forward_q, _feed_shape_q, _feed_cost_q),
    "read_out_q": Kernel(read_out_q, _read_shape, _read_cost),
}
QUANTISATION = {
    "token_rows": QuantisationRule(_tokens_bound, _tokens_unit, _quantise_tokens),
    "feed_forward": QuantisationRule(_feed_bound, _feed_unit, _quantise_feed, _without_relu),
    "read_out": QuantisationRule(_read_bound, _read_unit, _quantise_read, _without_relu),
    "part": VIEW,
}
C_FLOAT32: dict[str, MakeForm] = {
    "token_rows": _c_token_rows_f32,
    "feed_forward": _c_feed_forward_f32,
    "read_out": _c_read_out_f32,
    "part": view_form,
}
C_FIXED: dict[str, MakeForm] = {
    "token_rows_q": _c_token_rows_q,
    "feed_forward_q": _c_feed_forward_q,
    "read_out_q": _c_read_out_q,
    "part": view_form,
}
_READ = {
    "out": "1",
    "x": "rows * width",
    "inner": "hidden * (1 + width)",
    "outer": "1 + rows * (width + hidden)",
}
_READ_Q = {"out": "1", "outer": "rows * up(hidden, 8)"}
_FEED = {"out": "rows * outputs", "x": "rows * width", "table": "outputs + hidden * (1 + width + outputs)"}
_FEED_Q = {
    "out": "rows * width",
    "x": "rows * width",
    "inner": "up(hidden, 8) * (2 + up(width, 8))",
    "outer": "up(width, 4) * up(hidden, 8)",
    "outer_bias": "up(width, 4)",
}
C_EXTENTS = {
    "token_rows_f32": extents(
        out="rows * outputs",
        seen="rows * channels",
        shared="max(inputs, (inputs == 0) * outputs)",
        share="rows",
        table="outputs * (inputs + channels + rows)",
        where="channels >= 1",
    ),
    "feed_forward_f32": extents(**_FEED, where="hidden % 16 == 0"),
    "feed_forward_8_f32": extents(
        out="rows * outputs", x="rows * 8", table="outputs + hidden * (9 + outputs)", where="hidden % 16 == 0"
    ),
    "feed_forward_gelu_f32": extents(**_FEED, where="hidden % 16 == 0"),
    "read_out_f32": extents(**_READ, where="hidden % 16 == 0"),
    "read_out_gelu_f32": extents(**_READ, where="hidden % 16 == 0"),
    "read_out_8_f32": extents(
        out="1", x="rows * 8", inner="hidden * 9", outer="1 + rows * (8 + hidden)", where="hidden % 16 == 0"
    ),
    "token_rows_q": extents(
        out="rows * outputs",
        seen="rows * channels",
        shared="max(width, (width == 0) * outputs)",
        local="outputs * channels",
        mix="outputs * up(width, 2)",
        rest="outputs // 4 * rows * 5",
        where="1 <= rows, channels >= 1, outputs % 4 == 0",
    ),
    "token_rows_1_8_q": extents(
        out="rows * 8",
        seen="rows",
        shared="max(width, (width == 0) * 8)",
        local="8",
        mix="8 * up(width, 2)",
        rest="rows * 9",
        where="1 <= rows",
    ),
    "token_rows_8_q": extents(
        out="rows * 8",
        seen="rows * channels",
        shared="max(width, (width == 0) * 8)",
        local="8 * channels",
        mix="8 * up(width, 2)",
        rest="rows * 9",
        where="1 <= rows, channels >= 1",
    ),
    "feed_forward_q": extents(
        **_FEED_Q,
        where=f"1 <= width <= {LARGEST_SIZES['width']}, hidden <= {LARGEST_SIZES['hidden']}, most <= 31,"
        f" 0 <= bits <= {FARTHEST}",
    ),
    "feed_forward_8_q": extents(
        out="rows * 8",
        x="rows * 8",
        inner="up(hidden, 8) * 10",
        outer="8 * up(hidden, 8)",
        outer_bias="8",
        where=f"hidden <= {LARGEST_SIZES['hidden']}, most <= 31, 0 <= bits <= {FARTHEST}",
    ),
    "read_out_q": extents(
        **_READ_Q,
        x="rows * width",
        inner="up(hidden, 8) * (2 + up(width, 8))",
        straight="rows * up(width, 2)",
        where=f"1 <= width <= {LARGEST_SIZES['width']}, hidden <= {LARGEST_SIZES['hidden']}, most <= 31,"
        f" -31 <= bits <= {FARTHEST}",
    ),
    "read_out_8_q": extents(
        **_READ_Q,
        x="rows * 8",
        inner="up(hidden, 8) * 10",
        straight="rows * 8",
        where=f"1 <= hidden <= {LARGEST_SIZES['hidden']}, most <= 31, -31 <= bits <= {FARTHEST}",
    ),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "token_rows": _tensor_token_rows,
    "feed_forward": _tensor_feed_forward,
    "read_out": _tensor_read_out,
    "part": _tensor_part,
}
