"""The integer twins of the attention kernels, equal to `attention_s8.c` in every bit."""

import numpy as np

from scare.calibrator.kernels.attention.floats import FLOATS
from scare.calibrator.kernels.fixed import (
    LEAST_SQUARE,
    exact,
    inverse_root,
    multiply_half,
    multiply_wide,
    row_bits,
    spare_bits,
    to_top,
    word,
)
from scare.calibrator.kernels.kernel import Kernel, Settings, Shape, Shapes, Weights, expect

MOST_HALVINGS = 31 << 16  # of a softmax weight, Q16
POWER_BITS = 13  # of the weights of softmax attention
POWERS = (65531, -45287, 15078, -2557)  # 2^−f for f in [0, 1) as a cubic in f, Q16, within 10⁻⁴


def _unit_rows(x: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths, in Q15."""
    rows = to_top(x, spare_bits(x), row_bits(x.shape[-1]))
    root, half = inverse_root(np.maximum((rows * rows).sum(axis=-1, keepdims=True), LEAST_SQUARE))
    return multiply_half(root << (17 - half), rows)


def hash_activations_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """What `hash_codes_s8` takes the signs of, [L, bits]."""
    alike = exact(_unit_rows(x.astype(np.int64)).astype(float) @ weights["supports"].T.astype(float))  # Q30
    coefficients = weights["coefficients"].astype(np.int64)
    kernel = np.full_like(alike, coefficients[0])
    for coefficient in coefficients[1:]:
        kernel = multiply_half(kernel, alike >> 16) + coefficient
    return exact((kernel >> 16).astype(float) @ weights["projection"].astype(float)) + weights["bias"]


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


INTEGERS = {
    "hash_codes_s8": Kernel(hash_codes_s8, _hash_shape, FLOATS["hash_codes"].cost),
    "bitwise_attention_s8": Kernel(
        bitwise_attention_s8, FLOATS["bitwise_attention"].shape, FLOATS["bitwise_attention"].cost
    ),
    "softmax_attention_s8": Kernel(
        softmax_attention_s8, FLOATS["softmax_attention"].shape, FLOATS["softmax_attention"].cost
    ),
}
