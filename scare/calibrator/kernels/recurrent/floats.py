"""Recurrent kernels: a state carried along the rows of one window, of which the last is wanted."""

import numpy as np

from scare.calibrator.kernels.choice.floats import sigmoid
from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect


def lstm(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The last hidden state of a long short-term memory over x [T, C], from zero: [H].

    Gates i, f, g, o side by side in the columns of `input` [C, 4H], `hidden` [H, 4H] and `bias` [4H]:
    c ← σ(f) c + σ(i) tanh(g), h ← σ(o) tanh(c).
    """
    size = weights["hidden"].shape[0]
    state = memory = np.zeros((len(x), size), x.dtype)
    for row in range(x.shape[1]):
        gates = x[:, row] @ weights["input"] + weights["bias"] + state @ weights["hidden"]
        write, keep, _, show = np.split(sigmoid(gates), 4, axis=1)
        memory = keep * memory + write * np.tanh(gates[:, 2 * size : 3 * size])
        state = show * np.tanh(memory)
    return state


def _lstm_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    size = weights["hidden"][0]
    expect(len(x) == 2 and weights["input"] == (x[1], 4 * size), "lstm input")
    expect(weights["hidden"] == (size, 4 * size) and weights["bias"] == (4 * size,), "lstm hidden")
    return (size,)


def _lstm_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """A row: both products, three products a unit; three sigmoids (+ 1) and two tanh (± 1), each an exponential."""
    (rows, channels), size = x, weights["hidden"][0]
    units = rows * size
    return Operations(
        multiply_adds=units * (4 * (channels + size) + 3),
        additions=7 * units,
        exponentials=5 * units,
        divisions=5 * units,
    )


FLOATS = {"lstm": Kernel(lstm, _lstm_shape, _lstm_cost)}
