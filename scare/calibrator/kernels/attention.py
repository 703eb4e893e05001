"""Attention kernels: hash codes, attention on bits, attention with softmax."""

import numpy as np

from scare.calibrator.kernels.kernel import (
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Weights,
    expect,
    one_product,
    row_sums,
)


def hash_activations(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """What `hash_codes` takes the signs of, [L, bits]: RBF kernel values against the supports, projected.

    `supports` are unit vectors divided by the bandwidth σ, so exp(x̂·support − 1/σ) = exp(−‖x̂ − ŝ‖² / 2σ).
    """
    number = x.dtype.type
    length = np.sqrt(row_sums(x, x) + number(settings["epsilon"]))
    kernel = one_product(x / length, weights["supports"].T)
    kernel -= number(settings["sharpness"])
    activations = one_product(np.exp(kernel, out=kernel), weights["projection"])
    return activations + weights["bias"] if "bias" in weights else activations


def hash_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Binary codes of the rows of x [L, D], one word each, bit j set where activation j ≥ 0: [L]."""
    signs = hash_activations(x, weights, settings) >= 0
    packed = np.packbits(signs, axis=-1, bitorder="little")
    wide = np.zeros((*packed.shape[:-1], 4), np.uint8)
    wide[..., : packed.shape[-1]] = packed
    return wide.view("<u4")[..., 0]


def _hash_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    supports, projection = weights["supports"], weights["projection"]
    expect(len(supports) == len(projection) == 2, "hash")
    expect(len(x) == 2 and supports[1] == x[1] and projection[0] == supports[0] and projection[1] <= 32, "hash")
    expect("bias" not in weights or weights["bias"] == projection[1:], "hash bias")
    return x[:1]


def _hash_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Length and unit vector, dot product and exponential with each support, projection."""
    (tokens, width), (supports, bits) = x, weights["projection"]
    return Operations(
        multiply_adds=tokens * (2 * width + supports * width + supports * bits),
        additions=tokens * supports,
        exponentials=tokens * supports,
        divisions=2 * tokens,
    )


def bitwise_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Attention with weights bias + h(q)·h(k) = bias + bits − 2·popcount(q XOR k) > 0 for v [L, D]: [L, D]."""
    unlike = np.bitwise_count(q[:, :, None] ^ k[:, None, :]).astype(v.dtype)
    similarity = settings["bias"] + settings["bits"] - 2 * unlike
    return (similarity @ v) / similarity.sum(axis=-1, keepdims=True)


def _bitwise_shape(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(q) == len(k) == 1 and len(v) == 2 and k[0] == v[0], "bitwise_attention")
    expect(settings["bias"] > settings["bits"], "bitwise_attention bias: every weight must stay positive")
    return (*q, v[1])


def _bitwise_cost(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """XOR and popcount a pair, weighted sum of values, sum of weights, one division a query."""
    pairs = q[0] * k[0]
    return Operations(multiply_adds=pairs * v[1], additions=pairs, bit_operations=2 * pairs, divisions=q[0])


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multi-head attention for q, k [L, heads·width] and v [L, heads·values]: [L, heads·values]."""
    count = settings["heads"]
    heads = [x.reshape(*x.shape[:2], count, x.shape[2] // count).swapaxes(1, 2) for x in (q, k, v)]
    scores = heads[0] @ heads[1].swapaxes(2, 3) / q.dtype.type(np.sqrt(heads[0].shape[-1]))
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = scores / scores.sum(axis=-1, keepdims=True) @ heads[2]
    return mixed.swapaxes(1, 2).reshape(*q.shape[:2], v.shape[2])


def _softmax_shape(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    heads = settings["heads"]
    expect(len(q) == len(k) == len(v) == 2 and q[1] == k[1] and k[0] == v[0], "softmax_attention")
    expect(heads >= 1 and q[1] % heads == v[1] % heads == 0, "softmax_attention heads")
    return (q[0], v[1])


def _softmax_cost(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    pairs, heads = q[0] * k[0], settings["heads"]
    return Operations(
        multiply_adds=pairs * (q[1] + v[1]),
        additions=2 * pairs * heads,
        exponentials=pairs * heads,
        divisions=q[0] * heads,
    )


ATTENTION = {
    "hash_codes": Kernel(hash_codes, _hash_shape, _hash_cost),
    "bitwise_attention": Kernel(bitwise_attention, _bitwise_shape, _bitwise_cost),
    "softmax_attention": Kernel(softmax_attention, _softmax_shape, _softmax_cost),
}
