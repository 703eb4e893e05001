"""The linear kernels as tensor operations."""

import numpy as np

from scare.calibrator.kernels import hat_matrix
from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor


def _time_mix(x: Tensor, matrix: np.ndarray) -> Tensor:
    return (x.transposed @ matrix).transposed


def hat_basis(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """As a matrix: no format has hats."""
    return _time_mix(x, hat_matrix(weights["knot"], weights["fraction"], settings["knots"]))


def lens(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Each lens with its bias, then time where the channels were."""
    mixed = x.transposed @ weights["weight"]
    return (mixed + weights["bias"] if "bias" in weights else mixed).transposed


def bins(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Runs of rows as a matrix with one weight a row."""
    start, rows = weights["start"], np.arange(x.shape[0])
    run = np.searchsorted(start, rows, side="right") - 1
    matrix = np.zeros((x.shape[0], len(start)), np.float32)
    matrix[rows, run] = weights["weight"]
    return _time_mix(x, matrix)


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
    "hat_basis": hat_basis,
    "lens": lens,
    "bins": bins,
    "dense": dense,
    "add_outer": add_outer,
}
