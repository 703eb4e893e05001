"""Pointwise kernels: sums, cut-offs, norms, and other views of the same numbers."""

from math import pi, prod, sqrt

import numpy as np

from scare.calibrator.kernels.kernel import (
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Weights,
    expect,
    free,
    row_sums,
    same_shape,
)
from scare.records import Positive


def add(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Adds two values of one shape."""
    return a + b


def _add_shape(a: Shape, b: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(a == b, "add")
    return a


def _add_cost(a: Shape, b: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(additions=prod(a))


def relu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Cuts off below zero."""
    return np.maximum(x, 0)


def gelu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """A smooth cut-off below zero: x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    return x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2


def _gelu_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """As x / (1 + exp(x (a + b x²))): square, inner sum, product; exponential, one more, division."""
    return Operations(3 * prod(x), additions=prod(x), exponentials=prod(x), divisions=prod(x))


def flatten(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Reads [L, D] as [L·D]."""
    return x.reshape(len(x), prod(x.shape[1:]))  # not -1: a batch may be empty


def newest(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The newest row of x [T, C]: [C]."""
    return x[:, -1]


def layer_norm(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Each row of x [L, D] to mean 0 and variance 1, then gain and bias."""
    number = x.dtype.type
    centred = x - row_sums(x, np.ones(x.shape[-1:], x.dtype)) / number(x.shape[-1])
    variance = row_sums(centred, centred) / number(x.shape[-1])
    return centred / np.sqrt(variance + number(settings["epsilon"])) * weights["gain"] + weights["bias"]


def _norm_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(weights["gain"] == weights["bias"] == x[-1:], "layer_norm")
    return x


def _norm_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Sum, difference to the mean; squares, scaling, gain; a square root and its inverse a row."""
    return Operations(multiply_adds=3 * prod(x), additions=2 * prod(x), divisions=2 * prod(x[:-1]))


FLOATS = {
    "add": Kernel(add, _add_shape, _add_cost),
    "relu": Kernel(relu, same_shape, free),
    "gelu": Kernel(gelu, same_shape, _gelu_cost),
    "flatten": Kernel(flatten, lambda x, weights, settings: (prod(x),), free, copies=False),
    "newest": Kernel(newest, lambda x, weights, settings: x[1:], free),
    "layer_norm": Kernel(layer_norm, _norm_shape, _norm_cost, takes={"epsilon": Positive}),
}
