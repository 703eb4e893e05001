"""Attention kernels: hash codes, attention on bits pair by pair or through a memory, attention with softmax."""

from math import prod
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from scare.calibrator.kernels.kernel import (
    BITS,
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
from scare.records import Count, Positive

BIAS = Annotated[int, Ge(1), Le(1 << 20)]
SCORES = 1 << 20  # pairs of tokens for which softmax attention holds a weight at once: they stay in a cache


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


def raw_hash_activations(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """`hash_activations` of vectors of any length, against `supports` of any length: exp(−‖x − s‖² / 2σ)."""
    number, supports = x.dtype.type, weights["supports"]
    distance = row_sums(x, x) - number(2) * one_product(x, supports.T) + row_sums(supports, supports)[:, 0]
    return one_product(np.exp(distance * number(-settings["sharpness"] / 2)), weights["projection"])


def hash_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Binary codes of the rows of x [L, D], one word each, bit j set where activation j ≥ 0: [L]."""
    return _packed(hash_activations(x, weights, settings) >= 0)


def raw_hash_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """`hash_codes` without unit vectors: the paper's literal form."""
    return _packed(raw_hash_activations(x, weights, settings) >= 0)


def _packed(signs: np.ndarray) -> np.ndarray:
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


def _hash_scratch(x: Shape, weights: Shapes, settings: Settings) -> int:
    return x[0] * sum(weights["projection"])


def _hash_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Length and unit vector, dot product and exponential with each support, projection."""
    (tokens, width), (supports, bits) = x, weights["projection"]
    return Operations(
        multiply_adds=tokens * (2 * width + supports * width + supports * bits),
        additions=tokens * supports,
        exponentials=tokens * supports,
        divisions=2 * tokens,
    )


def _raw_hash_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Length, dot product, distance and exponential with each support, projection."""
    (tokens, width), (supports, bits) = x, weights["projection"]
    kernel = tokens * supports
    return Operations(tokens * width + kernel * (width + 1 + bits), 2 * kernel, exponentials=kernel)


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


def memory_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """`bitwise_attention` without pairs: all keys go into one memory M = Σ h(k) ⊗ v, and each query reads it.

    A query h gives (h·M + bias Σ v) / (h·Σ h(k) + bias L) for v [L, D]: [Q, D], or [D] for q a single code. With
    the setting `own` the bias counts for the query's own value instead of Σ v; queries are then the newest rows.
    """
    rows = q if q.ndim == 2 else q[:, None]
    queries, keys = (_signs(words, settings["bits"], v.dtype) for words in (rows, k))
    favoured = v[:, v.shape[1] - queries.shape[1] :] if settings["own"] else v.sum(axis=1, keepdims=True)
    read = queries @ (keys.swapaxes(1, 2) @ v) + settings["bias"] * favoured
    mixed = read / (queries @ keys.sum(axis=1)[:, :, None] + settings["bias"] * v.shape[1])
    return mixed if q.ndim == 2 else mixed[:, 0]


def _signs(words: np.ndarray, bits: int, number: np.dtype) -> np.ndarray:
    """Codes as ±1, [..., bits]."""
    set_bits = words[..., None] >> np.arange(bits, dtype=np.uint32) & 1
    return 2 * set_bits.astype(number) - 1


def _memory_shape(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(q) <= 1 and len(k) == 1 and len(v) == 2 and k[0] == v[0], "memory_attention")
    expect(not settings["own"] or prod(q) <= k[0], "memory_attention own values")
    expect(settings["bias"] > settings["bits"], "memory_attention bias: no denominator may be zero")
    return (*q, v[1])


def _memory_cost(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Signed additions into the memory and out of it; bias times the favoured values; one division a query."""
    (keys, width), queries, bits = v, prod(q), settings["bits"]
    additions = (keys + queries) * bits * (width + 1)
    return Operations(
        multiply_adds=(queries if settings["own"] else 1) * width,
        additions=additions + (0 if settings["own"] else keys * width),
        divisions=queries,
    )


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multi-head attention for q, k [L, heads·width] and v [L, heads·values]: [L, heads·values]."""
    count = settings["heads"]
    piece = max(1, SCORES // (count * q.shape[1] * k.shape[1]))
    if len(q) > piece:
        parts = [slice(start, start + piece) for start in range(0, len(q), piece)]
        return np.concatenate([softmax_attention(q[part], k[part], v[part], weights, settings) for part in parts])
    heads = [x.reshape(*x.shape[:2], count, x.shape[2] // count).swapaxes(1, 2) for x in (q, k, v)]
    scores = heads[0] / q.dtype.type(np.sqrt(heads[0].shape[-1])) @ heads[1].swapaxes(2, 3)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed = scores @ heads[2] / scores.sum(axis=-1, keepdims=True)
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


def attention_scores(q: np.ndarray, k: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The dot products, head by head, of q [L, heads·width] with k [M, heads·width]: [heads, L, M]."""
    count = settings["heads"]
    heads = [x.reshape(*x.shape[:2], count, x.shape[2] // count).swapaxes(1, 2) for x in (q, k)]
    return heads[0] @ heads[1].swapaxes(2, 3)


def _scores_shape(q: Shape, k: Shape, weights: Shapes, settings: Settings) -> Shape:
    heads = settings["heads"]
    expect(len(q) == len(k) == 2 and q[1] == k[1] and heads >= 1 and q[1] % heads == 0, "attention_scores")
    return (heads, q[0], k[0])


def _scores_cost(q: Shape, k: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=q[0] * k[0] * q[1])


def softmax_mix(scores: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Values v [M, heads·values] weighted by the softmax over M of scores [heads, L, M]: [L, heads·values]."""
    heads = v.reshape(*v.shape[:2], scores.shape[1], v.shape[2] // scores.shape[1]).swapaxes(1, 2)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (shares @ heads) / shares.sum(axis=-1, keepdims=True)
    return mixed.swapaxes(1, 2).reshape(len(v), scores.shape[2], v.shape[2])


def _mix_shape(scores: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(scores) == 3 and len(v) == 2 and scores[2] == v[0] and v[1] % scores[0] == 0, "softmax_mix")
    return (scores[1], v[1])


def _mix_cost(scores: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Difference to the largest, exponential, sum; weighted values; one division a query and head."""
    every = prod(scores)
    return Operations(
        multiply_adds=scores[1] * prod(v), additions=2 * every, exponentials=every, divisions=scores[0] * scores[1]
    )


ACTIVATIONS = {"hash_codes": hash_activations, "raw_hash_codes": raw_hash_activations}  # what takes signs, and of what
FLOATS = {
    "hash_codes": Kernel(
        hash_codes,
        _hash_shape,
        _hash_cost,
        takes={"sharpness": Positive, "epsilon": Positive},
        scratch=_hash_scratch,
    ),
    "raw_hash_codes": Kernel(
        raw_hash_codes, _hash_shape, _raw_hash_cost, takes={"sharpness": Positive}, scratch=_hash_scratch
    ),
    "bitwise_attention": Kernel(
        bitwise_attention,
        _bitwise_shape,
        _bitwise_cost,
        takes={"bits": BITS, "bias": BIAS},
        scratch=lambda q, k, v, *_: q[0] * k[0],
    ),
    "memory_attention": Kernel(
        memory_attention,
        _memory_shape,
        _memory_cost,
        takes={"bits": BITS, "bias": BIAS, "own": bool},
        scratch=lambda q, k, v, weights, settings: settings["bits"] * (prod(q) + k[0] + v[1]),
    ),
    "softmax_attention": Kernel(
        softmax_attention,
        _softmax_shape,
        _softmax_cost,
        takes={"heads": Count},
        scratch=lambda q, k, v, weights, settings: settings["heads"] * q[0] * k[0],
    ),
    "attention_scores": Kernel(attention_scores, _scores_shape, _scores_cost, takes={"heads": Count}),
    "softmax_mix": Kernel(softmax_mix, _mix_shape, _mix_cost, scratch=lambda scores, *_: prod(scores)),
}
