"""Pointwise kernels: sums, activations, layer norm, the newest row, and views of the same numbers.

Also both ends of a fixed-point plan: `window_q` quantises the window of scaled readings (on a board `quantise` in
scare.c does so as each reading arrives), `result_q` converts the last word to a float.
"""

from math import pi, prod, sqrt

import numpy as np

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import (
    LARGEST_SIZES,
    SPECIALISED_WIDTH,
    WINDOW_NAME,
    CForm,
    CView,
    MakeForm,
    PlacedStep,
    checked_size,
    elementwise_form,
    even,
    pad_axis,
    table_q,
    tables_f32,
    view_form,
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
    equal_shapes,
    expect,
    free,
    per_number,
    row_sums,
    same_shape,
)
from scare.kernels.fixed_point import (
    FULL,
    LARGEST,
    MOST_OFFSET,
    VIEW,
    WINDOW,
    QuantisationRule,
    QuantisationState,
    bits_between,
    multiply_half,
    output_unit,
    to_int32,
    to_word,
    unit_rows,
)
from scare.kernels.tensor import MakeTensor, Tensor
from scare.schema import Positive

# GELU as C computes it, x / (1 + exp(x (a + b x²))): square, inner sum, product; exponential, + 1, division.
GELU_COST = per_number(multiply_adds=3, additions=1, exponentials=1, divisions=1)
MOST_EPSILON = 1 << 60  # largest ε of a norm, in squared steps
NEWEST_BITS = 14  # left shift that turns an int16 reading into a word below `fixed_point.LARGEST`


def add(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Add two values, elementwise."""
    return a + b


def add_step(first: str, second: str, output: str) -> Step:
    """Make the plan step output = first + second."""
    return Step("add", (first, second), output)


def add_q(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Add two values, elementwise, the second shifted right to the unit of the first."""
    return a + (b >> settings["shift"])


def _add_bound(q: QuantisationState, step: Step) -> np.ndarray:
    return q.bounds[step.inputs[0]] + q.bounds[step.inputs[1]]


def _add_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the coarser of the two units; the number in the finer one is shifted right to it.

    A number is at most `LARGEST` (2²⁹), so chained additions may sum three of them in a word of 32 bits, but not four.
    """
    unit = max(q.unit(name) for name in step.inputs)
    if q.bounds[step.output].max() / unit >= 2.0**31 - MOST_OFFSET:
        raise NotApplicableError("float32 only: a sum of more than three values has no fixed-point form")
    return np.asarray(unit)


def _quantise_add(q: QuantisationState, step: Step) -> Step:
    """Make `add_q`, which reads the input with the coarser unit first and shifts the other to that unit."""
    coarse, fine = sorted(step.inputs, key=q.unit, reverse=True)
    shift = int(bits_between(q.unit(coarse), q.unit(fine)))
    return Step("add_q", (coarse, fine), step.output, settings={"shift": shift})


def _c_add_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_add_q(out, a, b, count, shift)`."""
    return CForm((prod(placed.out), placed.step.settings["shift"]), in_place=(0, 1))


def relu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Replace negative numbers by zero."""
    return np.maximum(x, 0)


def gelu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Apply the Gaussian error linear unit in its tanh form: x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    return x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2


def _tensor_gelu(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Return x σ(2 √(2/π) (x + 0.044715 x³)), which equals the tanh form."""
    inner = x * (x * x * 0.044715 + 1.0) * (2 * sqrt(2 / pi))
    return x * inner.apply("sigmoid")


def flatten(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """View x [L, D] as one row [L·D]."""
    return x.reshape(len(x), prod(x.shape[1:]))  # not -1: a batch may be empty


def _tensor_flatten(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x.reshape(int(np.prod(x.shape)))


def newest(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return the newest row of x [T, C]: [C]."""
    return x[:, -1]


def newest_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `newest` in fixed point: the newest row of the int16 window x [T, C], shifted to words: [C]."""
    return x[:, -1].astype(np.int32) << NEWEST_BITS


def _newest_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the bounds of the window's newest row [C]."""
    return q.bounds[INPUT][-1]


def _newest_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the unit of a reading, 1 / quantum of its channel, after the left shift by `NEWEST_BITS`: [C]."""
    return 2.0**-NEWEST_BITS / q.quanta


def _quantise_newest(q: QuantisationState, step: Step) -> Step:
    return Step("newest_q", (WINDOW,), step.output)


def c_newest_f32(placed: PlacedStep) -> CForm | CView:
    """Make the C form of a kernel that takes the newest rows.

    The window and codes stay in memory for the whole run, so the rows are a view. Other values are copied: a view
    would keep the memory of all their rows in use.
    """
    source, shape = placed.inputs[0], placed.shapes[0]
    if source.kind != "float" or source.name == WINDOW_NAME:
        return CView(prod(shape) - prod(placed.out))
    width = prod(shape[1:])
    return CForm((shape[0], width, prod(placed.out) // width), function="newest_rows")


def _c_newest_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_newest_q(out, window, stride, rows, channels)`."""
    window, channels = placed.shapes[0]
    return CForm((even(window), window, channels))


def _tensor_newest(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x.rows(x.shape[0] - 1, x.shape[0]).reshape(x.shape[1])


def layer_norm(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Normalise each row of x [L, D] to mean 0 and variance 1, then apply gain and bias."""
    number = x.dtype.type
    centred = x - row_sums(x, np.ones(x.shape[-1:], x.dtype)) / number(x.shape[-1])
    variance = row_sums(centred, centred) / number(x.shape[-1])
    return centred / np.sqrt(variance + number(settings["epsilon"])) * weights["gain"] + weights["bias"]


def _norm_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(weights["gain"] == weights["bias"] == x[-1:], "layer_norm")
    return x


def _norm_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count sum, difference to the mean, square, scaling and gain for each number; a root and inverse for each row."""
    return Operations(multiply_adds=3 * prod(x), additions=2 * prod(x), divisions=2 * prod(x[:-1]))


def layer_norm_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `layer_norm` in fixed point for words x [L, D]: [L, D].

    Rows are halved, so that the sum of their squares fits 64 bits, and divided by √(sum + `epsilon`). A variance is the
    mean of squares, so √D is part of the gain.
    """
    wide, width = x.astype(np.int64), x.shape[-1]
    share = round(2**15 / width)  # of each number in half the mean, Q16
    # `multiply_half` rounds each product down, by half a step on average: the sum gets `width` half steps back.
    half_mean = multiply_half(wide, share).sum(axis=-1, keepdims=True) + (width >> 1)
    normed = unit_rows((wide >> 1) - half_mean, settings["epsilon"])
    return to_word(multiply_half(weights["gain"].astype(np.int64), normed) + weights["bias"])


def _norm_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return |gain| · √width + |bias| of each feature: in a row of variance 1 no number exceeds √width."""
    width = q.shapes[step.output][-1]
    return np.abs(step.weights["gain"]) * sqrt(width) + np.abs(step.weights["bias"])


def _quantise_norm(q: QuantisationState, step: Step) -> Step:
    """Make `layer_norm_q`, whose `epsilon` is added to the sum of the squares of a row's halved words."""
    unit, width, source = q.unit(step.output), q.shapes[step.output][-1], step.inputs[0]
    if q.bounds[source].max() / q.unit(source) > 2 * LARGEST:
        raise NotApplicableError("float32 only: a norm of a sum of more than two values has no fixed-point form")
    # Doubled, because rows are Q15 and `multiply_half` drops 16 bits; 2^−13 is by how much `unit_rows` shortens them.
    gain = step.weights["gain"] * sqrt(width) * 2 * (1 + 2.0**-13) / unit
    weights = {
        "gain": to_int32(gain, 1.0),
        # A row and its product with the gain are rounded down, each by half a step on average.
        "bias": to_int32(step.weights["bias"] / unit + gain / 2**17 + 0.5, 1.0),
    }
    epsilon = step.settings["epsilon"] * width / (2 * q.unit(source)) ** 2
    settings = {"epsilon": round(np.clip(epsilon, 1, MOST_EPSILON))}
    return Step("layer_norm_q", step.inputs, step.output, weights, settings)


def _c_layer_norm_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_layer_norm_f32(out, x, gain, bias, rows, width, epsilon)`."""
    scales, (rows, width) = tables_f32(placed, "gain", "bias"), placed.rows_and_width
    epsilon = float(placed.step.settings["epsilon"])
    if width == SPECIALISED_WIDTH:
        return CForm((*scales, rows, epsilon), in_place=(0,), function="layer_norm_8")
    return CForm((*scales, rows, width, epsilon), in_place=(0,))


def _c_layer_norm_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_layer_norm_q(out, x, scales, rows, width, epsilon_low, epsilon_high)`.

    The last two are the lower and the upper word of epsilon, which has 64 bits.
    """
    weights, epsilon = placed.step.weights, placed.step.settings["epsilon"]
    (rows, width) = placed.out
    pairs = pad_axis(np.stack([weights["gain"], weights["bias"]]), -1, 2).T  # [width, 2]; C reads two pairs at a time
    scales = table_q(pairs, f"{placed.step.output} gain and bias")
    numbers = epsilon & 0xFFFFFFFF, epsilon >> 32
    if width == SPECIALISED_WIDTH:
        return CForm((scales, rows, *numbers), in_place=(0,), function="layer_norm_8")
    return CForm((scales, rows, checked_size("width", width), *numbers), in_place=(0,))


def _tensor_layer_norm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `layer_norm`; means are those of rows, along the last axis."""
    centred = x - x.mean()
    root = ((centred * centred).mean() + settings["epsilon"]).apply("inverse_root")
    return centred * root * weights["gain"] + weights["bias"]


def window_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Quantise the scaled window x [T, C] to int16 steps of 1 / quantum, clamped at ±32767; NaN gives 0."""
    steps = np.floor(x * weights["quantum"] + x.dtype.type(0.5))
    return np.clip(np.nan_to_num(steps), -FULL, FULL).astype(np.int16)


def result_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Add an offset to the word x [1], then convert it to float32 by multiplying it by its unit: [1]."""
    return (x + settings["offset"]).astype(np.float32) * np.float32(settings["unit"])


def _c_result_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_result_q(out, x, offset, unit)`."""
    return CForm((placed.step.settings["offset"], float(placed.step.settings["unit"])), kind="float")


FLOAT_KERNELS = {
    "add": Kernel(add, equal_shapes("add"), per_number(additions=1)),
    "relu": Kernel(relu, same_shape, free),
    "gelu": Kernel(gelu, same_shape, GELU_COST),
    "flatten": Kernel(flatten, lambda x, weights, settings: (prod(x),), free, copies=False),
    "newest": Kernel(newest, lambda x, weights, settings: x[1:], free),
    "layer_norm": Kernel(layer_norm, _norm_shape, _norm_cost, takes={"epsilon": Positive}),
}
FIXED_KERNELS = {
    "add_q": Kernel(add_q, equal_shapes("add"), per_number(additions=1)),
    "newest_q": Kernel(newest_q, FLOAT_KERNELS["newest"].shape, free),
    "layer_norm_q": Kernel(layer_norm_q, _norm_shape, _norm_cost),
    "window_q": Kernel(window_q, same_shape, free),
    "result_q": Kernel(result_q, same_shape, free),
}
QUANTISATION = {
    "newest": QuantisationRule(_newest_bound, _newest_unit, _quantise_newest),
    "layer_norm": QuantisationRule(_norm_bound, output_unit, _quantise_norm),
    "add": QuantisationRule(_add_bound, _add_unit, _quantise_add),
    "flatten": VIEW,
}
C_FLOAT32: dict[str, MakeForm] = {
    "add": elementwise_form,
    "relu": elementwise_form,
    "gelu": elementwise_form,
    "flatten": view_form,
    "newest": c_newest_f32,
    "layer_norm": _c_layer_norm_f32,
}
C_FIXED: dict[str, MakeForm] = {
    "add_q": _c_add_q,
    "newest_q": _c_newest_q,
    "layer_norm_q": _c_layer_norm_q,
    "result_q": _c_result_q,
    "flatten": view_form,
}
C_EXTENTS = {
    "add_f32": extents(out="count", a="count", b="count", over="a b"),
    "relu_f32": extents(out="count", x="count", over="x"),
    "gelu_f32": extents(out="count", x="count", over="x"),
    "layer_norm_f32": extents(out="rows * width", x="rows * width", gain="width", bias="width", over="x"),
    "layer_norm_8_f32": extents(out="rows * 8", x="rows * 8", gain="8", bias="8", over="x"),
    "add_q": extents(out="count", a="count", b="count", where="shift <= 31", over="a b"),
    "newest_q": extents(out="channels", window="(channels - 1) * stride + rows", where="rows >= 1, channels >= 1"),
    "layer_norm_q": extents(
        out="rows * width",
        x="rows * width",
        scales="2 * up(width, 2)",
        where=f"1 <= width <= {LARGEST_SIZES['width']}",
        over="x",
        words="epsilon_low epsilon_high",
    ),
    "layer_norm_8_q": extents(
        out="rows * 8",
        x="rows * 8",
        scales="16",
        where="1 <= rows",
        over="x",
        words="epsilon_low epsilon_high",
    ),
    "result_q": extents(out="1", x="1"),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "add": lambda a, b, weights, settings: a + b,
    "relu": lambda x, weights, settings: x.apply("relu"),
    "gelu": _tensor_gelu,
    "flatten": _tensor_flatten,
    "newest": _tensor_newest,
    "layer_norm": _tensor_layer_norm,
}
