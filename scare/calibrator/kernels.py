"""Kernels are what a plan may call: for each operation its NumPy body, its output's shape and its cost.

Bodies work on a batch in front of the shapes given here (x [T, C] is an array [batch, T, C]) in the number type
of their weights. A kernel is named in three places by one word: here, in C as `scare_<operation>_<type>`, and
in its test `test_<operation>`. Counted are multiply-adds, additions, bit operations (XOR or popcount of one
word), exponentials, and divisions (square roots among them); moving data, comparing and starting an
accumulator at a bias are free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Weights = Mapping[str, np.ndarray]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Operations:
    """How many of each operation one inference takes."""

    multiply_adds: int = 0
    additions: int = 0
    bit_operations: int = 0
    exponentials: int = 0
    divisions: int = 0

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Kernel:
    """One operation: `run(*inputs, weights, settings)`, `shape(...)` and `cost(...)` from input shapes."""

    run: Callable[..., np.ndarray]
    shape: Callable[..., Shape]
    cost: Callable[..., Operations]
    copies: bool = True  # whether the output needs memory of its own


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


def _one_product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """x @ matrix as one large product instead of one a window."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def hat_basis(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Sums of x [T, C] under overlapping hats in log time: [knots, C]."""
    return _time_mix(x, hat_matrix(weights["knot"], weights["fraction"], settings["knots"]))


def lens(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes time: weightᵀ x (+ bias of each lens) for x [T, C]: [L, C]."""
    mixed = _time_mix(x, weights["weight"])
    return mixed + weights["bias"][:, None] if "bias" in weights else mixed


def dense(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes features: x weight (+ bias, of one row or of all rows) for x [..., I]: [..., O]."""
    mixed = _one_product(x, weights["weight"])
    return mixed + weights["bias"] if "bias" in weights else mixed


def add_outer(z: np.ndarray, g: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Adds share ⊗ g to z [L, D] for g [D]."""
    return z + weights["share"][:, None] * g[:, None, :]


def add(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Adds two values of one shape."""
    return a + b


def relu(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Cuts off below zero."""
    return np.maximum(x, 0)


def flatten(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Reads [L, D] as [L·D]."""
    return x.reshape(len(x), prod(x.shape[1:]))  # not -1: a batch may be empty


def newest(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The newest row of x [T, C]: [C]."""
    return x[:, -1]


def _row_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The dot product of each row of a with the row of b, keeping the axis."""
    return np.einsum("...d,...d->...", a, b)[..., None]


def layer_norm(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Each row of x [L, D] to mean 0 and variance 1, then gain and bias."""
    number = x.dtype.type
    centred = x - _row_sums(x, np.ones(x.shape[-1:], x.dtype)) / number(x.shape[-1])
    variance = _row_sums(centred, centred) / number(x.shape[-1])
    return centred / np.sqrt(variance + number(settings["epsilon"])) * weights["gain"] + weights["bias"]


def hash_activations(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """What `hash_codes` takes the signs of, [L, bits]: RBF kernel values against the supports, projected.

    `supports` are unit vectors divided by the bandwidth σ, so exp(x̂·support − 1/σ) = exp(−‖x̂ − ŝ‖² / 2σ).
    """
    number = x.dtype.type
    length = np.sqrt(_row_sums(x, x) + number(settings["epsilon"]))
    kernel = _one_product(x / length, weights["supports"].T)
    kernel -= number(settings["sharpness"])
    activations = _one_product(np.exp(kernel, out=kernel), weights["projection"])
    return activations + weights["bias"] if "bias" in weights else activations


def hash_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Binary codes of the rows of x [L, D], one word each, bit j set where activation j ≥ 0: [L]."""
    signs = hash_activations(x, weights, settings) >= 0
    packed = np.packbits(signs, axis=-1, bitorder="little")
    wide = np.zeros((*packed.shape[:-1], 4), np.uint8)
    wide[..., : packed.shape[-1]] = packed
    return wide.view("<u4")[..., 0]


def bitwise_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Attention with weights bias + h(q)·h(k) = bias + bits − 2·popcount(q XOR k) > 0 for v [L, D]: [L, D]."""
    unlike = np.bitwise_count(q[:, :, None] ^ k[:, None, :]).astype(v.dtype)
    similarity = settings["bias"] + settings["bits"] - 2 * unlike
    return (similarity @ v) / similarity.sum(axis=-1, keepdims=True)


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multi-head attention for q, k [L, heads·width] and v [L, heads·values]: [L, heads·values]."""
    count = settings["heads"]
    heads = [x.reshape(*x.shape[:2], count, x.shape[2] // count).swapaxes(1, 2) for x in (q, k, v)]
    scores = heads[0] @ heads[1].swapaxes(2, 3) / q.dtype.type(np.sqrt(heads[0].shape[-1]))
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = scores / scores.sum(axis=-1, keepdims=True) @ heads[2]
    return mixed.swapaxes(1, 2).reshape(*q.shape[:2], v.shape[2])


def _dense_shape(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(len(weights["weight"]) == 2 and x[-1] == weights["weight"][0], "dense weight")
    out = (*x[:-1], weights["weight"][1])
    expect("bias" not in weights or weights["bias"] in (out, out[-1:]), "dense bias")
    return out


def _lens_shape(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(len(x) == len(weights["weight"]) == 2 and x[0] == weights["weight"][0], "lens weight")
    expect("bias" not in weights or weights["bias"] == weights["weight"][1:], "lens bias")
    return (weights["weight"][1], x[1])


def _hat_shape(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(len(x) == 2 and weights["knot"] == weights["fraction"] == x[:1] and settings["knots"] >= 2, "hats")
    return (settings["knots"], x[1])


def _add_outer_shape(z: Shape, g: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(len(z) == 2 and g == z[1:] and weights["share"] == z[:1], "add_outer")
    return z


def _add_shape(a: Shape, b: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(a == b, "add")
    return a


def _same_shape(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    return x


def _norm_shape(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(weights["gain"] == weights["bias"] == x[-1:], "layer_norm")
    return x


def _hash_shape(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    supports, projection = weights["supports"], weights["projection"]
    expect(len(supports) == len(projection) == 2, "hash")
    expect(len(x) == 2 and supports[1] == x[1] and projection[0] == supports[0] and projection[1] <= 32, "hash")
    expect("bias" not in weights or weights["bias"] == projection[1:], "hash bias")
    return x[:1]


def _bitwise_shape(q: Shape, k: Shape, v: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    expect(len(q) == len(k) == 1 and len(v) == 2 and k[0] == v[0], "bitwise_attention")
    expect(settings["bias"] > settings["bits"], "bitwise_attention bias: every weight must stay positive")
    return (*q, v[1])


def _softmax_shape(q: Shape, k: Shape, v: Shape, weights: Mapping[str, Shape], settings: Settings) -> Shape:
    heads = settings["heads"]
    expect(len(q) == len(k) == len(v) == 2 and q[1] == k[1] and k[0] == v[0], "softmax_attention")
    expect(heads >= 1 and q[1] % heads == v[1] % heads == 0, "softmax_attention heads")
    return (q[0], v[1])


def expect(true: bool, what: str) -> None:
    """Refuse a step whose shapes do not fit."""
    if not true:
        raise ValueError(f"the shapes of {what} do not fit")


def _free(*_: Any) -> Operations:
    return Operations()


def _dense_cost(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["weight"][1])


def _lens_cost(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["weight"][1])


def _hat_cost(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    """One multiplication t = f·x and its sum, then x − t and its sum."""
    return Operations(multiply_adds=prod(x), additions=2 * prod(x))


def _add_outer_cost(z: Shape, g: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(z))


def _add_cost(a: Shape, b: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    return Operations(additions=prod(a))


def _norm_cost(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    """Sum, difference to the mean; squares, scaling, gain; a square root and its inverse a row."""
    return Operations(multiply_adds=3 * prod(x), additions=2 * prod(x), divisions=2 * prod(x[:-1]))


def _hash_cost(x: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    """Length and unit vector, dot product and exponential with each support, projection."""
    (tokens, width), (supports, bits) = x, weights["projection"]
    return Operations(
        multiply_adds=tokens * (2 * width + supports * width + supports * bits),
        additions=tokens * supports,
        exponentials=tokens * supports,
        divisions=2 * tokens,
    )


def _bitwise_cost(q: Shape, k: Shape, v: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    """XOR and popcount a pair, weighted sum of values, sum of weights, one division a query."""
    pairs = q[0] * k[0]
    return Operations(multiply_adds=pairs * v[1], additions=pairs, bit_operations=2 * pairs, divisions=q[0])


def _softmax_cost(q: Shape, k: Shape, v: Shape, weights: Mapping[str, Shape], settings: Settings) -> Operations:
    pairs, heads = q[0] * k[0], settings["heads"]
    return Operations(
        multiply_adds=pairs * (q[1] + v[1]),
        additions=2 * pairs * heads,
        exponentials=pairs * heads,
        divisions=q[0] * heads,
    )


KERNELS: dict[str, Kernel] = {
    "hat_basis": Kernel(hat_basis, _hat_shape, _hat_cost),
    "lens": Kernel(lens, _lens_shape, _lens_cost),
    "dense": Kernel(dense, _dense_shape, _dense_cost),
    "add_outer": Kernel(add_outer, _add_outer_shape, _add_outer_cost),
    "add": Kernel(add, _add_shape, _add_cost),
    "relu": Kernel(relu, _same_shape, _free),
    "flatten": Kernel(flatten, lambda x, weights, settings: (prod(x),), _free, copies=False),
    "newest": Kernel(newest, lambda x, weights, settings: x[1:], _free),
    "layer_norm": Kernel(layer_norm, _norm_shape, _norm_cost),
    "hash_codes": Kernel(hash_codes, _hash_shape, _hash_cost),
    "bitwise_attention": Kernel(bitwise_attention, _bitwise_shape, _bitwise_cost),
    "softmax_attention": Kernel(softmax_attention, _softmax_shape, _softmax_cost),
}
