"""The attention kernels as tensor operations."""

from math import sqrt

import numpy as np

from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.kernels.linear.tensors import mix_features
from scare.export.tensors.tensor import MakeTensor, Tensor


def hash_codes(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Signs, ±1, of the activations of `kernels.attention.hash_activations`: [L, bits]."""
    unit = x * ((x * x).sum() + settings["epsilon"]).apply("inverse_root")
    supports = weights["supports"]
    kernel = mix_features(unit, supports.T, np.full(len(supports), -settings["sharpness"])).apply("exp")
    return mix_features(kernel, weights["projection"], weights.get("bias")).apply("sign")


def bitwise_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Pair by pair: signs times signs."""
    similarity = q @ k.transposed + settings["bias"]
    return (similarity @ v) / similarity.sum()


def memory_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Keys into one memory, read by each query; a query alone is a row here."""
    keys, rows = v.shape[0], q if len(q.shape) == 2 else q.reshape(1, *q.shape)
    favoured = v.rows(keys - rows.shape[0], keys) if settings["own"] else v.sum(0)
    read = rows @ (k.transposed @ v) + favoured * settings["bias"]
    mixed = read / (rows @ k.sum(0).transposed + settings["bias"] * keys)
    return mixed if len(q.shape) == 2 else mixed.reshape(v.shape[1])


def _heads(x: Tensor, count: int) -> Tensor:
    """[L, heads·width] as [heads, L, width]."""
    return x.reshape(x.shape[0], count, x.shape[1] // count).permute(1, 0, 2)


def _joined(x: Tensor) -> Tensor:
    """[heads, L, width] as [L, heads·width]."""
    return x.permute(1, 0, 2).reshape(x.shape[1], x.shape[0] * x.shape[2])


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Head by head."""
    scale = 1 / sqrt(q.shape[1] // settings["heads"])
    return softmax_mix(attention_scores(q * scale, k, weights, settings), v, weights, settings)


def attention_scores(q: Tensor, k: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Dot products, head by head."""
    return _heads(q, settings["heads"]) @ _heads(k, settings["heads"]).transposed


def softmax_mix(scores: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Values weighted by the softmax of the scores."""
    return _joined(scores.apply("softmax") @ _heads(v, scores.shape[0]))


TENSORS: dict[str, MakeTensor] = {
    "hash_codes": hash_codes,
    "bitwise_attention": bitwise_attention,
    "memory_attention": memory_attention,
    "softmax_attention": softmax_attention,
    "attention_scores": attention_scores,
    "softmax_mix": softmax_mix,
}
