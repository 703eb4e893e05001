"""Recurrent kernels: a hidden state updated along the rows of a window; the output is the last state."""

import numpy as np

from scare.kernels.c_arguments import CForm, MakeForm, PlacedStep, table_f32
from scare.kernels.c_extents import extents
from scare.kernels.choice import sigmoid
from scare.kernels.contract import Kernel, Operations, Settings, Shape, Shapes, Weights, expect
from scare.kernels.tensor import MakeTensor, Tensor, as_tensor


def lstm(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Run an LSTM (long short-term memory) over the rows of x [T, C] from a zero state: the last hidden state [H].

    Gates i, f, g, o side by side in the columns of `input` [C, 4H], `hidden` [H, 4H] and `bias` [4H]:
    c ← σ(f) c + σ(i) tanh(g), h ← σ(o) tanh(c).
    """
    size = weights["hidden"].shape[0]
    hidden = cell = np.zeros((len(x), size), x.dtype)
    for row in range(x.shape[1]):
        gates = x[:, row] @ weights["input"] + weights["bias"] + hidden @ weights["hidden"]
        input_gate, forget_gate, _, output_gate = np.split(sigmoid(gates), 4, axis=1)  # g takes tanh in place of σ
        cell = forget_gate * cell + input_gate * np.tanh(gates[:, 2 * size : 3 * size])
        hidden = output_gate * np.tanh(cell)
    return hidden


def _lstm_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] with input [C, 4H], hidden [H, 4H] and bias [4H] to [H]."""
    size = weights["hidden"][0]
    expect(len(x) == 2 and weights["input"] == (x[1], 4 * size), "lstm input")
    expect(weights["hidden"] == (size, 4 * size) and weights["bias"] == (4 * size,), "lstm hidden")
    return (size,)


def _lstm_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count, by row and unit, both matrix products, three products of gates, and exponentials of 3 sigmoids and 2 tanh.

    A sigmoid takes one addition, a tanh two; both take one division.
    """
    (rows, channels), size = x, weights["hidden"][0]
    units = rows * size
    return Operations(
        multiply_adds=units * (4 * (channels + size) + 3),
        additions=7 * units,
        exponentials=5 * units,
        divisions=5 * units,
    )


def _c_lstm_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_lstm_f32(out, x, table, rows, channels, size)`.

    The table has the weights unit by unit, with the four gates of a unit side by side.
    """
    (size,) = placed.out
    rows = np.concatenate([placed.bias(1, 4 * size), placed.weight("input"), placed.weight("hidden")])  # [1+C+H, 4H]
    units = rows.reshape(len(rows), 4, size).transpose(2, 0, 1)  # [H, 1 + C + H, 4]
    table = table_f32(units, "bias, input and hidden of each unit")
    return CForm((table, *placed.shapes[0], size), work=2 * size)  # scratch memory: cell states, next hidden states


def _tensor_lstm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Return one operation of the graph, which each format writes in its own way."""
    size = weights["hidden"].shape[0]
    return Tensor("lstm", (x, *(as_tensor(weights[name]) for name in ("input", "hidden", "bias"))), (size,))


FLOAT_KERNELS = {"lstm": Kernel(lstm, _lstm_shape, _lstm_cost)}
C_FLOAT32: dict[str, MakeForm] = {
    "lstm": _c_lstm_f32,
}
C_EXTENTS = {
    "lstm_f32": extents(out="3 * size", x="rows * channels", table="4 * size * (1 + channels + size)"),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "lstm": _tensor_lstm,
}
