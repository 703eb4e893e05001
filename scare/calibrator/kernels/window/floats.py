"""Window kernels: mixing time, by hats, lenses and bins over the rows of a window."""

from math import prod
from typing import Annotated

import numpy as np
from annotated_types import Ge

from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect


def hat_fractions(lags: int, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower knot index and share of the upper knot for lag 0 … lags-1, on the axis log2(lag + 1)."""
    position = np.log2(np.arange(lags) + 1.0)
    lower = np.clip(np.searchsorted(knots, position, side="right") - 1, 0, len(knots) - 2)
    return lower, (position - knots[lower]) / (knots[lower + 1] - knots[lower])


def hat_matrix(knot: np.ndarray, fraction: np.ndarray, knots: int) -> np.ndarray:
    """The hats as a matrix [T, knots], oldest row first."""
    expect(knot.min() >= 0 and knot.max() < knots - 1, "hats")
    rows = np.arange(len(knot))
    matrix = np.zeros((len(knot), knots), fraction.dtype)
    matrix[rows, knot] = 1 - fraction
    matrix[rows, knot + 1] += fraction
    return matrix


def _time_mix(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """matrixᵀ x for x [batch, T, C] and matrix [T, L]: [batch, L, C]."""
    if x.shape[2] == 1:
        return (x[:, :, 0] @ matrix)[:, :, None]
    return matrix.T @ x


def hat_basis(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Sums of x [T, C] under overlapping hats in log time: [knots, C]."""
    return _time_mix(x, hat_matrix(weights["knot"], weights["fraction"], settings["knots"]))


def _hat_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 2 and weights["knot"] == weights["fraction"] == x[:1] and settings["knots"] >= 2, "hats")
    return (settings["knots"], x[1])


def _hat_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """One multiplication t = f·x and its sum, then x − t and its sum."""
    return Operations(multiply_adds=prod(x), additions=2 * prod(x))


def lens(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes time: weightᵀ x (+ bias of each lens) for x [T, C]: [L, C]."""
    mixed = _time_mix(x, weights["weight"])
    return mixed + weights["bias"][:, None] if "bias" in weights else mixed


def _lens_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == len(weights["weight"]) == 2 and x[0] == weights["weight"][0], "lens weight")
    expect("bias" not in weights or weights["bias"] == weights["weight"][1:], "lens bias")
    return (weights["weight"][1], x[1])


def _lens_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["weight"][1])


def bins(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Weighted sums of x [T, C] over runs of rows, run l from row start_l to the next start: [L, C]."""
    start = weights["start"]
    expect(start[0] == 0 and start[-1] < x.shape[1] and bool((np.diff(start) > 0).all()), "bins start")
    return np.add.reduceat(x * weights["weight"][:, None], start, axis=1)


def _bins_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 2 and weights["weight"] == x[:1], "bins weight")
    expect(len(weights["start"]) == 1 and 1 <= weights["start"][0] <= x[0], "bins start")
    return (*weights["start"], x[1])


def _bins_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x))


FLOATS = {
    "hat_basis": Kernel(
        hat_basis,
        _hat_shape,
        _hat_cost,
        takes={"knots": Annotated[int, Ge(2)]},
        whole=frozenset({"knot"}),
        scratch=lambda x, weights, settings: x[0] * settings["knots"],
    ),
    "lens": Kernel(lens, _lens_shape, _lens_cost),
    "bins": Kernel(bins, _bins_shape, _bins_cost, whole=frozenset({"start"}), scratch=lambda x, *_: prod(x)),
}
