"""State-space kernels: a selective state space (Mamba) evaluated at the newest row only, and its norm and gates."""

from math import prod

import numpy as np

from scare.kernels.c_arguments import CForm, MakeForm, PlacedStep, elementwise_form, tables_f32
from scare.kernels.c_extents import extents
from scare.kernels.contract import (
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Weights,
    equal_shapes,
    expect,
    free,
    per_number,
    row_sums,
    same_shape,
)
from scare.kernels.pointwise import c_newest_f32
from scare.kernels.tensor import MakeTensor, Tensor
from scare.schema import Count, Positive


def rms_norm(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Divide each row of x [..., D] by its root mean square; the plan folds the gain into the matrix that follows."""
    number = x.dtype.type
    return x / np.sqrt(row_sums(x, x) / number(x.shape[-1]) + number(settings["epsilon"]))


def _rms_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count a square and a scaling for each number, and a square root and its inverse for each row."""
    return Operations(multiply_adds=2 * prod(x), divisions=2 * prod(x[:-1]))


def _c_rms_norm_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_rms_norm_f32(out, x, rows, width, epsilon)`."""
    return CForm((*placed.rows_and_width, float(placed.step.settings["epsilon"])), in_place=(0,))


def _tensor_rms_norm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x * ((x * x).mean() + settings["epsilon"]).apply("inverse_root")


def silu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Apply the sigmoid linear unit: x / (1 + exp(−x))."""
    with np.errstate(over="ignore"):  # exp(−x) = ∞ gives the right zero
        return x / (1 + np.exp(-x))


def multiply(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multiply two values, elementwise."""
    return a * b


def newest_rows(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return the newest `rows` rows of x [T, C], oldest first: [rows, C]."""
    return x[:, x.shape[1] - settings["rows"] :]


def _newest_rows_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] to [rows, C]."""
    expect(len(x) == 2 and 1 <= settings["rows"] <= x[0], "newest_rows")
    return (settings["rows"], x[1])


def _tensor_newest_rows(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return x.rows(x.shape[0] - settings["rows"], x.shape[0])


def causal_convolution(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Convolve each feature of x [batch, T, F] along time with its own taps [k, F]: [batch, T, F].

    The last tap is for the row itself, those before it for earlier rows; before the first row there are zeros.
    """
    taps, rows = weights["taps"], x.shape[1]
    mixed = x * taps[-1] + weights["bias"]
    for lag in range(1, min(len(taps), rows)):
        mixed[:, lag:] += x[:, : rows - lag] * taps[-1 - lag]
    return mixed


def _convolution_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, F] with taps [k, F] and bias [F] to [T, F]."""
    expect(len(x) == len(weights["taps"]) == 2 and weights["taps"][1:] == weights["bias"] == x[1:], "convolution")
    return x


def _convolution_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["taps"][0])


def _c_causal_convolution_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_causal_convolution_f32(out, x, taps, bias, rows, features, lags)`."""
    return CForm((*tables_f32(placed, "taps", "bias"), *placed.out, len(placed.step.weights["taps"])), in_place=(0,))


def _tensor_causal_convolution(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Sum shifted rows, each times its tap."""
    taps, rows = weights["taps"], x.shape[0]
    mixed = x * taps[-1] + weights["bias"]
    for lag in range(1, min(len(taps), rows)):
        mixed = mixed + x.rows(0, rows - lag).after_zeros(lag) * taps[-1 - lag]
    return mixed


def state_space(
    x: np.ndarray, b: np.ndarray, c: np.ndarray, dt: np.ndarray, weights: Weights, settings: Settings
) -> np.ndarray:
    """Compute the newest output of a selective state space, x [T, heads·P], b [T, S], c [S], dt [T, heads]: [heads·P].

    The recurrence h_t = exp(Δ_t A) h_{t−1} + Δ_t x_t ⊗ b_t, y = h c + D x with Δ = softplus(dt), A = `decay` < 0 and
    D = `direct` of each head, read at the last row only: Σ_s exp(A Σ_{r>s} Δ_r) (c·b_s) Δ_s x_s + D x_T.
    """
    step = np.logaddexp(dt, dt.dtype.type(0))  # softplus
    later = np.zeros_like(step)  # Σ_{r>s} Δ_r, summed from the newest row back: exact where differences would not be
    later[:, :-1] = np.cumsum(step[:, :0:-1], axis=1)[:, ::-1]
    share = np.exp(weights["decay"] * later) * step * (b @ c[:, :, None])  # weight of each x_s [batch, T, heads]
    by_head = x.reshape(*x.shape[:2], dt.shape[2], x.shape[2] // dt.shape[2])  # [batch, T, heads, P]
    mixed = np.einsum("bth,bthp->bhp", share, by_head) + weights["direct"][:, None] * by_head[:, -1]
    return mixed.reshape(len(x), x.shape[2])


def _state_shape(x: Shape, b: Shape, c: Shape, dt: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, heads·P], b [T, S], c [S] and dt [T, heads] to [heads·P]."""
    expect(len(x) == len(b) == len(dt) == 2 and x[0] == b[0] == dt[0] and c == b[1:], "state_space")
    expect(x[1] % dt[1] == 0 and weights["decay"] == weights["direct"] == dt[1:], "state_space heads")
    return x[1:]


def _state_cost(x: Shape, b: Shape, c: Shape, dt: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count c·b for each row; for each row and head softplus (exp, log), sum, decay and share; and the weighted sum."""
    (rows, inner), steps = x, prod(dt)
    return Operations(
        multiply_adds=prod(b) + 3 * steps + rows * inner + inner,  # 3: A Σ Δ, then its exponential times Δ and c·b
        additions=3 * steps,  # two in softplus, one in Σ Δ
        exponentials=3 * steps,  # exp and log of softplus, exp of the decay
    )


def _c_state_space_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_state_space_f32(out, x, b, c, dt, decay, direct, rows, heads, states, width)`."""
    (rows, inner), (states,), heads = placed.shapes[0], placed.shapes[2], placed.shapes[3][1]
    return CForm((*tables_f32(placed, "decay", "direct"), rows, heads, states, inner // heads), work=heads)


def _tensor_state_space(x: Tensor, b: Tensor, c: Tensor, dt: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Like `state_space`; softplus as max(x, 0) + log(1 + exp(−|x|)), which does not overflow."""
    (rows, inner), heads = x.shape, dt.shape[1]
    step = dt.maximum(0.0) + ((dt.apply("abs") * -1.0).apply("exp") + 1.0).apply("log")
    # The newest output is a weighted sum of all rows. A row's weight is what is left of it after the decay over all
    # later steps, times its own step, times how much of what it wrote to the state (b) the newest row reads (c).
    decayed = (step.later_sum() * weights["decay"]).apply("exp")
    share = decayed * step * (b @ c.reshape(c.shape[0], 1))  # [T, heads]
    values = x.reshape(rows, heads, inner // heads).permute(1, 0, 2)  # [heads, T, P]
    mixed = share.transposed.reshape(heads, 1, rows) @ values  # [heads, 1, P]
    last = x.rows(rows - 1, rows).reshape(heads, 1, inner // heads)
    return (mixed + last * weights["direct"][:, None, None]).reshape(inner)


FLOAT_KERNELS = {
    "rms_norm": Kernel(rms_norm, same_shape, _rms_cost, takes={"epsilon": Positive}),
    "silu": Kernel(silu, same_shape, per_number(additions=1, exponentials=1, divisions=1)),
    "multiply": Kernel(multiply, equal_shapes("multiply"), per_number(multiply_adds=1)),
    "newest_rows": Kernel(newest_rows, _newest_rows_shape, free, takes={"rows": Count}),
    "causal_convolution": Kernel(causal_convolution, _convolution_shape, _convolution_cost),
    "state_space": Kernel(state_space, _state_shape, _state_cost),
}
C_FLOAT32: dict[str, MakeForm] = {
    "rms_norm": _c_rms_norm_f32,
    "silu": elementwise_form,
    "multiply": elementwise_form,
    "newest_rows": c_newest_f32,
    "causal_convolution": _c_causal_convolution_f32,
    "state_space": _c_state_space_f32,
}
C_EXTENTS = {
    "rms_norm_f32": extents(out="rows * width", x="rows * width", over="x"),
    "silu_f32": extents(out="count", x="count", over="x"),
    "multiply_f32": extents(out="count", a="count", b="count", over="a b"),
    "newest_rows_f32": extents(out="kept * width", x="rows * width", where="kept <= rows"),
    "causal_convolution_f32": extents(
        out="rows * features", x="rows * features", taps="lags * features", bias="features", over="x"
    ),
    "state_space_f32": extents(
        out="heads * width + heads",
        x="rows * heads * width",
        b="rows * states",
        c="states",
        dt="rows * heads",
        decay="heads",
        direct="heads",
        where="rows >= 1",
    ),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "rms_norm": _tensor_rms_norm,
    "silu": lambda x, weights, settings: x * x.apply("sigmoid"),
    "multiply": lambda a, b, weights, settings: a * b,
    "newest_rows": _tensor_newest_rows,
    "causal_convolution": _tensor_causal_convolution,
    "state_space": _tensor_state_space,
}
