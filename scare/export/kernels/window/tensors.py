"""The window kernels as tensor operations."""

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


TENSORS: dict[str, MakeTensor] = {
    "hat_basis": hat_basis,
    "lens": lens,
    "bins": bins,
}
