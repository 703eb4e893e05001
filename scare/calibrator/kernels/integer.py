"""Integer kernels: the twins of the C kernels `scare_<operation>_s8`, equal to them in every bit.

A window holds int16, everything after it int32 whose unit `quantize` has chosen; window weights are int8 (int16 for
the newest rows), all other weights int16. Where a product needs half-words, a row is first shifted to the top by its
own spare bits, so that no input is too large or too small. Arrays here are as a plan names them; the order in which
C reads them is the business of `export`.
"""

from math import prod

import numpy as np

from scare.calibrator.kernels.attention import ATTENTION
from scare.calibrator.kernels.fixed import (
    LEAST_SQUARE,
    inverse_root,
    multiply_half,
    multiply_wide,
    rounded,
    spare_bits,
    to_top,
    word,
)
from scare.calibrator.kernels.formulas import FORMULAS
from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect, free
from scare.calibrator.kernels.linear import LINEAR
from scare.calibrator.kernels.pointwise import POINTWISE

FULL = 32767  # the largest number of the window
NEWEST_BITS = 14  # by which a single reading is shifted up to become a word
HIDDEN_BITS = 16  # by which the hidden layer's sums are shifted down
MOST_HALVINGS = 31 << 16  # of a softmax weight, Q16
POWER_BITS = 13  # of the weights of softmax attention
POWERS = (65531, -45287, 15078, -2557)  # 2^−f for f in [0, 1) as a cubic in f, Q16, within 10⁻⁴


def window_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The scaled window x [T, C] in steps of 1 / quantum, held within ±32767."""
    steps = np.floor(x * weights["quantum"] + x.dtype.type(0.5))
    return np.clip(np.nan_to_num(steps), -FULL, FULL).astype(np.int16)


def newest_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The newest row of the window x [T, C] as words: [C]."""
    return x[:, -1].astype(np.int32) << NEWEST_BITS


def hat_basis_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Sums of the window x [T, C] under the hats, of which each row has two `shares` [T, 2]: [knots, C]."""
    rows, matrix = np.arange(x.shape[1]), np.zeros((x.shape[1], settings["knots"]))
    for place in (0, 1):
        matrix[rows, weights["knot"] + place] = weights["shares"][:, place]
    return word(_exact(matrix.T @ x))


def _hat_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 2 and weights["knot"] == x[:1] and weights["shares"] == (x[0], 2), "hat_basis_s8")
    return (settings["knots"], x[1])


def _exact(sums: np.ndarray) -> np.ndarray:
    """Whole numbers below 2^53, computed as doubles, as integers."""
    return sums.astype(np.int64)


def project_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Projections of the window x [T, C]: Σ older · x scaled by `coarse`, plus Σ newer · x scaled by `fine`.

    Weights `older` [T − n, C, R] and `newer` [n, C, R] mix all channels: [R]. With the setting `apart` there is one
    set of weights [·, 1, R] for every channel: [R, C].
    """
    border = len(weights["older"])
    mix = "btc,tr->brc" if settings["apart"] else "btc,tcr->br"
    sums = []
    for part, name in ((x[:, :border], "older"), (x[:, border:], "newer")):
        weight = weights[name].astype(float)
        weight = weight[:, 0] if settings["apart"] else weight
        sums.append(_exact(np.einsum(mix, part.astype(float), weight, optimize=True)))
    scales = [weights[name].astype(np.int64) for name in ("coarse", "fine")]
    bias = weights["bias"].astype(np.int64)
    if settings["apart"]:
        scales, bias = [scale[:, None] for scale in scales], bias[:, None]
    return word(rounded(sums[0] * scales[0] + sums[1] * scales[1], settings["shift"]) + bias)


def _project_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    older, newer = weights["older"], weights["newer"]
    expect(len(x) == 2 and older[0] + newer[0] == x[0] and older[1:] == newer[1:], "project_s8 rows")
    expect(older[1] == (1 if settings["apart"] else x[1]), "project_s8 channels")
    expect(all(weights[name] == older[2:] for name in ("coarse", "fine", "bias")), "project_s8 scales")
    return (older[2], x[1]) if settings["apart"] else (older[2],)


def _project_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["older"][2])


def bins_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Weighted sums of the window x [T, C] over runs of rows, each scaled: [L, C]."""
    products = x.astype(np.int64) * weights["weight"][:, None]
    sums = np.add.reduceat(products, weights["start"], axis=1)
    return word(rounded(sums * weights["scale"].astype(np.int64)[:, None], settings["shift"]))


def dense_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes features: x weight + bias, shifted right by each output's own bits, for words x [..., I]: [..., O]."""
    return word((_mixed(x, weights["weight"]) + weights["bias"]) >> weights["shift"])


def _mixed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x weight for words x [..., I] and half-words weight [I, O], each product without its lowest 16 bits."""
    sums = np.zeros((*x.shape[:-1], weight.shape[1]), np.int64)
    for feature, row in enumerate(weight.astype(np.int64)):
        sums += multiply_half(x[..., feature, None].astype(np.int64), row)
    return sums


def _dense_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(weights["shift"] == weights["bias"] == weights["weight"][1:], "dense_s8 shift")
    return LINEAR["dense"].shape(x, weights, settings)


def lens_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes time: weightᵀ x for words x [T, C]: [L, C]."""
    return word(_mixed(x.swapaxes(1, 2), weights["weight"])).swapaxes(1, 2)


def token_rows_s8(seen: np.ndarray, shared: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """seen · local + share ⊗ (shared · mix) + bias for words seen [L, C] and shared [D]: [L, O]."""
    if "mix" in weights:
        shared = _mixed(shared, weights["mix"])
    spread = multiply_half(shared[:, None].astype(np.int64), weights["share"].astype(np.int64)[:, None])
    return word(_mixed(seen, weights["local"]) + spread + weights["bias"])


def row_bits(width: int) -> int:
    """To how many bits a row of this width is shifted so that the sum of its squares fits a word."""
    return (32 - int(width).bit_length()) // 2


def _unit_rows(x: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths, in Q15."""
    rows = to_top(x, spare_bits(x), row_bits(x.shape[-1]))
    root, half = inverse_root(np.maximum((rows * rows).sum(axis=-1, keepdims=True), LEAST_SQUARE))
    return multiply_half(root << (17 - half), rows)


def hash_activations_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """What `hash_codes_s8` takes the signs of, [L, bits]."""
    alike = _exact(_unit_rows(x.astype(np.int64)).astype(float) @ weights["supports"].T.astype(float))  # Q30
    coefficients = weights["coefficients"].astype(np.int64)
    kernel = np.full_like(alike, coefficients[0])
    for coefficient in coefficients[1:]:
        kernel = multiply_half(kernel, alike >> 16) + coefficient
    return _exact((kernel >> 16).astype(float) @ weights["projection"].astype(float)) + weights["bias"]


def hash_codes_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Binary codes of the rows of words x [L, D]: [L].

    The kernel is a polynomial of the cosine between row and support, highest power first; its variable is a quarter of
    the cosine, its constant part is in the bias.
    """
    signs = hash_activations_s8(x, weights, settings) >= 0
    return (signs.astype(np.uint32) << np.arange(signs.shape[-1], dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)


def _hash_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    supports, projection = weights["supports"], weights["projection"]
    expect(len(x) == 2 and supports[1] == x[1] and projection[0] == supports[0], "hash_codes_s8")
    expect(projection[1] <= 32, "hash_codes_s8 bits")
    expect(weights["bias"] == projection[1:] and len(weights["coefficients"]) == 1, "hash_codes_s8 bias")
    return x[:1]


def value_bits(keys: int, largest: int) -> int:
    """To how many bits values are shifted so that a sum of `keys` of them, weighted up to `largest`, fits a word."""
    return min(15, 31 - int(keys * largest).bit_length())


def spare_room(keys: int, largest: int) -> int:
    """How many bits such a sum leaves of a word."""
    return 31 - value_bits(keys, largest) - int(keys * largest).bit_length()


def _average(sums: np.ndarray, total: np.ndarray, spare: np.ndarray, bits: int, room: int) -> np.ndarray:
    """sums / total of values that were shifted to `bits` bits, shifted back by their spare bits."""
    mean = multiply_wide(sums << room, 0x7FFFFFFF // total)  # times 2^(room − 1)
    return word((mean << (32 - bits - room)) >> spare)


def bitwise_attention_s8(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings
) -> np.ndarray:
    """Attention with weights bias + bits − 2·popcount(q XOR k) for words v [L, D]: [L, D], in the unit of v."""
    unlike = np.bitwise_count(q[:, :, None] ^ k[:, None, :]).astype(np.int64)
    similar = settings["bias"] + settings["bits"] - 2 * unlike
    spare = spare_bits(v.reshape(len(v), 1, -1).astype(np.int64))
    size = (k.shape[1], settings["bias"] + settings["bits"])
    values = to_top(v.astype(np.int64), spare, value_bits(*size))
    return _average(similar @ values, similar.sum(-1, keepdims=True), spare, value_bits(*size), spare_room(*size))


def score_bits(width: int) -> int:
    """To how many bits queries and keys of this width are shifted so that the difference of two scores fits a word."""
    return (30 - int(width).bit_length()) // 2


def softmax_attention_s8(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings
) -> np.ndarray:
    """Multi-head attention for words q, k [L, heads·width] and v [L, heads·values], in the unit of v.

    `sharpness` · 2^(`bits` − 32 − spare bits of both) turns a score into a power of two in Q16.
    """
    count = settings["heads"]
    bits, size = score_bits(q.shape[2] // count), (k.shape[1], 1 << POWER_BITS)
    spares, heads = [], []
    for x, top in ((q, bits), (k, bits), (v, value_bits(*size))):
        spares.append(spare_bits(x.reshape(len(x), 1, -1).astype(np.int64)))
        rows = to_top(x.astype(np.int64), spares[-1], top)
        heads.append(rows.reshape(*x.shape[:2], count, x.shape[2] // count).swapaxes(1, 2))
    scores = heads[0] @ heads[1].swapaxes(2, 3)
    below = multiply_wide(scores.max(axis=-1, keepdims=True) - scores, settings["sharpness"])
    down = (spares[0] + spares[1] - settings["bits"])[:, None]
    up = np.clip(-down, 0, 20)
    power = np.minimum(below >> np.clip(down, 0, 31), MOST_HALVINGS >> up) << up
    shares = power_of_two(power)
    sums, spare = shares @ heads[2], spares[2][:, None]
    mixed = _average(sums, shares.sum(axis=-1, keepdims=True), spare, value_bits(*size), spare_room(*size))
    return mixed.swapaxes(1, 2).reshape(*q.shape[:2], v.shape[2])


def power_of_two(power: np.ndarray) -> np.ndarray:
    """2^−power for a power in Q16, as Q13; 1 for zero.

    >>> power_of_two(np.array([0, 1 << 15, 1 << 16, 5 << 16]))
    array([8191, 5792, 4095,  255])
    """
    fraction, value = power & 0xFFFF, np.full_like(power, POWERS[3])
    for coefficient in POWERS[2::-1]:
        value = ((value * fraction) >> 16) + coefficient
    return (value >> (16 - POWER_BITS)) >> (power >> 16)


def layer_norm_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Each row of words x [L, D] to mean 0 and variance 1, times gain (√D in it), plus bias.

    `epsilon` · 2^(2·spare bits − `epsilon_bits`) is ε in the unit of the sum of squares.
    """
    wide, width = x.astype(np.int64), x.shape[-1]
    spare = spare_bits(wide)
    level = to_top(wide, spare, 29 - int(width).bit_length())
    centred = width * level - level.sum(axis=-1, keepdims=True)
    more = spare_bits(centred)
    rows = to_top(centred, more, row_bits(width))
    down = np.clip(settings["epsilon_bits"] - 2 * (spare + more), 0, 31)
    squares = (rows * rows).sum(axis=-1, keepdims=True) + (settings["epsilon"] >> down)
    root, half = inverse_root(np.clip(squares, LEAST_SQUARE, (1 << 32) - 1))
    normed = (rows * root) >> (half - 1)
    return word(multiply_half(weights["gain"].astype(np.int64), normed) + weights["bias"])


def feed_forward_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Dense, cut-off below zero, dense of each row of words x [L, D].

    Each row is shifted to 15 bits by at most `most` spare bits; its biases follow. Sums are shifted right by `bits` and
    the spare bits used.
    """
    wide = x.astype(np.int64)
    spare = np.minimum(spare_bits(wide), settings["most"])
    rows = to_top(wide, spare, 15).astype(float)
    inner = _exact(rows @ weights["inner"].astype(float)) + (weights["inner_bias"] >> (settings["most"] - spare))
    hidden = np.clip(inner >> HIDDEN_BITS, 0, FULL)
    outer = _exact(hidden.astype(float) @ weights["outer"].astype(float))
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


def products_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Half of each product of two words of x [C], times `factor` / 2^32 and held within ±top: [C(C+1)/2]."""
    numbers = rounded(x.astype(np.int64) * weights["factor"], 32)
    held = np.clip(numbers, -settings["top"], settings["top"])
    first, second = np.triu_indices(x.shape[1])
    return word(rounded(held[:, first] * held[:, second], 1))


def _products_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 1 and weights["factor"] == x, "products_s8")
    return (x[0] * (x[0] + 1) // 2,)


def add_s8(a: np.ndarray, b: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Adds two values of one shape, the second shifted right to the unit of the first."""
    return a + (b >> settings["shift"])


def result_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """The word x [1] as a float."""
    return x.astype(np.float32) * np.float32(settings["unit"])


def _token_rows_shape(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Shape:
    local = weights["local"]
    expect(len(seen) == 2 and local[0] == seen[1] and weights["share"] == seen[:1], "token_rows_s8")
    expect(weights["bias"] == (seen[0], local[1]), "token_rows_s8 bias")
    expect(shared == (weights["mix"][:1] if "mix" in weights else local[1:]), "token_rows_s8 shared")
    return (seen[0], local[1])


def _token_rows_cost(seen: Shape, shared: Shape, weights: Shapes, settings: Settings) -> Operations:
    rows = prod(seen) * weights["local"][1] + prod(weights["bias"])
    return Operations(multiply_adds=rows + (prod(weights["mix"]) if "mix" in weights else 0))


INTEGER = {
    "window_s8": Kernel(window_s8, lambda x, weights, settings: x, free),
    "newest_s8": Kernel(newest_s8, POINTWISE["newest"].shape, free),
    "hat_basis_s8": Kernel(hat_basis_s8, _hat_shape, LINEAR["hat_basis"].cost),
    "project_s8": Kernel(project_s8, _project_shape, _project_cost),
    "bins_s8": Kernel(bins_s8, LINEAR["bins"].shape, LINEAR["bins"].cost),
    "dense_s8": Kernel(dense_s8, _dense_shape, LINEAR["dense"].cost),
    "lens_s8": Kernel(lens_s8, LINEAR["lens"].shape, LINEAR["lens"].cost),
    "token_rows_s8": Kernel(token_rows_s8, _token_rows_shape, _token_rows_cost),
    "hash_codes_s8": Kernel(hash_codes_s8, _hash_shape, ATTENTION["hash_codes"].cost),
    "bitwise_attention_s8": Kernel(
        bitwise_attention_s8, ATTENTION["bitwise_attention"].shape, ATTENTION["bitwise_attention"].cost
    ),
    "softmax_attention_s8": Kernel(
        softmax_attention_s8, ATTENTION["softmax_attention"].shape, ATTENTION["softmax_attention"].cost
    ),
    "layer_norm_s8": Kernel(layer_norm_s8, POINTWISE["layer_norm"].shape, POINTWISE["layer_norm"].cost),
    "feed_forward_s8": Kernel(feed_forward_s8, _feed_forward_shape, _feed_forward_cost),
    "products_s8": Kernel(products_s8, _products_shape, FORMULAS["products"].cost),
    "add_s8": Kernel(add_s8, POINTWISE["add"].shape, POINTWISE["add"].cost),
    "result_s8": Kernel(result_s8, lambda x, weights, settings: x, free),
}
