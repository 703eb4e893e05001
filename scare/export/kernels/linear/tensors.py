"""The linear kernels as tensor operations."""

import numpy as np

from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor


def dense(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """A matrix and, if there is one, a bias."""
    return mix_features(x, weights["weight"], weights.get("bias"))


def mix_features(x: Tensor, weight: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """x weight + bias for x [..., I]: [..., O]."""
    rows = x.reshape(1, *x.shape) if len(x.shape) == 1 else x
    mixed = rows @ weight
    return (mixed if bias is None else mixed + bias).reshape(*x.shape[:-1], weight.shape[1])


def add_outer(z: Tensor, g: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Share by share."""
    return z + g.reshape(1, *g.shape) * weights["share"][:, None]


TENSORS: dict[str, MakeTensor] = {
    "dense": dense,
    "add_outer": add_outer,
}
