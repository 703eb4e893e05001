"""Linear kernels: mixing features, and what makes tokens cheap."""

from math import prod

import numpy as np

from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect, one_product


def dense(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes features: x weight (+ bias, of one row or of all rows) for x [..., I]: [..., O]."""
    mixed = one_product(x, weights["weight"])
    return mixed + weights["bias"] if "bias" in weights else mixed


def _dense_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(weights["weight"]) == 2 and x[-1] == weights["weight"][0], "dense weight")
    out = (*x[:-1], weights["weight"][1])
    expect("bias" not in weights or weights["bias"] in (out, out[-1:]), "dense bias")
    return out


def _dense_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["weight"][1])


def add_outer(z: np.ndarray, g: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Adds share ⊗ g to z [L, D] for g [D]."""
    return z + weights["share"][:, None] * g[:, None, :]


def _add_outer_shape(z: Shape, g: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(z) == 2 and g == z[1:] and weights["share"] == z[:1], "add_outer")
    return z


def _add_outer_cost(z: Shape, g: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(z))


FLOATS = {
    "dense": Kernel(dense, _dense_shape, _dense_cost),
    "add_outer": Kernel(add_outer, _add_outer_shape, _add_outer_cost),
}
