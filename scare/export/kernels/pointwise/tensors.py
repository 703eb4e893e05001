"""The pointwise kernels as tensor operations."""

from math import pi, sqrt

import numpy as np

from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor


def gelu(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """x σ(2 √(2/π) (x + 0.044715 x³)), which is the form with tanh."""
    inner = x * (x * x * 0.044715 + 1.0) * (2 * sqrt(2 / pi))
    return x * inner.apply("sigmoid")


def flatten(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """One row."""
    return x.reshape(int(np.prod(x.shape)))


def newest(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The last row."""
    return x.rows(x.shape[0] - 1, x.shape[0]).reshape(x.shape[1])


def layer_norm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Mean 0 and variance 1, then gain and bias."""
    centred = x - x.mean()
    root = ((centred * centred).mean() + settings["epsilon"]).apply("inverse_root")
    return centred * root * weights["gain"] + weights["bias"]


TENSORS: dict[str, MakeTensor] = {
    "add": lambda a, b, weights, settings: a + b,
    "relu": lambda x, weights, settings: x.apply("relu"),
    "gelu": gelu,
    "flatten": flatten,
    "newest": newest,
    "layer_norm": layer_norm,
}
