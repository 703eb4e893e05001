"""The integer twins of the fused kernels, equal to `fused_s8.c` in every bit."""

from math import prod

import numpy as np

from scare.calibrator.kernels.fixed import FULL, exact, mixed, multiply_half, spare_bits, to_top, word
from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect

HIDDEN_BITS = 16  # by which the hidden layer's sums are shifted down


def token_rows_s8(seen: np.ndarray, shared: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """seen · local + share ⊗ (shared · mix) + bias for words seen [L, C] and shared [D]: [L, O]."""
    if "mix" in weights:
        shared = mixed(shared, weights["mix"])
    spread = multiply_half(shared[:, None].astype(np.int64), weights["share"].astype(np.int64)[:, None])
    return word(mixed(seen, weights["local"]) + spread + weights["bias"])


def _token_rows_shape(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Shape:
    local = weights["local"]
    expect(len(seen) == 2 and local[0] == seen[1] and weights["share"] == seen[:1], "token_rows_s8")
    expect(weights["bias"] == (seen[0], local[1]), "token_rows_s8 bias")
    expect(shared == (weights["mix"][:1] if "mix" in weights else local[1:]), "token_rows_s8 shared")
    return (seen[0], local[1])


def _token_rows_cost(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Operations:
    rows = prod(seen) * weights["local"][1] + prod(weights["bias"])
    return Operations(multiply_adds=rows + (prod(weights["mix"]) if "mix" in weights else 0))


def feed_forward_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Dense, cut-off below zero, dense of each row of words x [L, D].

    Each row is shifted to 15 bits by at most `most` spare bits; its biases follow. Sums are shifted right by `bits` and
    the spare bits used.
    """
    wide = x.astype(np.int64)
    spare = np.minimum(spare_bits(wide), settings["most"])
    rows = to_top(wide, spare, 15).astype(float)
    inner = exact(rows @ weights["inner"].astype(float)) + (weights["inner_bias"] >> (settings["most"] - spare))
    hidden = np.clip(inner >> HIDDEN_BITS, 0, FULL)
    outer = exact(hidden.astype(float) @ weights["outer"].astype(float))
    down = spare + settings["bits"]
    shifted = (outer << np.maximum(-down, 0)) >> np.clip(down, 0, 31)
    return word(shifted + weights["outer_bias"])


def _feed_forward_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    inner, outer = weights["inner"], weights["outer"]
    expect(len(x) == 2 and inner == outer[::-1] and inner[0] == x[1], "feed_forward_s8")
    expect(weights["inner_bias"] == inner[1:] and weights["outer_bias"] == outer[1:], "feed_forward_s8 bias")
    return x


def _feed_forward_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=2 * x[0] * prod(weights["inner"]))


INTEGERS = {
    "token_rows_s8": Kernel(token_rows_s8, _token_rows_shape, _token_rows_cost),
    "feed_forward_s8": Kernel(feed_forward_s8, _feed_forward_shape, _feed_forward_cost),
}
