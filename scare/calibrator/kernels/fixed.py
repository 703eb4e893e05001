"""Fixed-point arithmetic, bit for bit as the C does it: what the integer kernels are made of.

A window holds int16, everything after it int32 whose unit the kernels' rules have chosen; window weights are int8
(int16 for the newest rows), all other weights int16. Where a product needs half-words, a row is first shifted to the
top by its own spare bits, so that no input is too large or too small. Arrays in kernels are as a plan names them; the
order in which C reads them is the business of `export`.

Numbers are held in int64 here and fit the word their names speak of in C: 32 bits unless said otherwise.
"""

import numpy as np

ROOT = (716907464, -1763628704, 1759230083)  # a parabola through 1/√x on [¼, 1] within 2.5 %: Q28, Q29, Q30
FULL = 32767  # the largest number of 16 bits that has a negative twin
LEAST_SQUARE = 1 << 26  # of a row scaled by `to_top`, unless it is all zeros


def multiply_wide(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """The upper 32 bits of the product of two words (SMMUL)."""
    return (a * b) >> 32


def multiply_half(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """A word times a half-word, without the lowest 16 bits (SMULWB)."""
    return (a * b) >> 16


def rounded(a: np.ndarray, bits: np.ndarray | int) -> np.ndarray:
    """a / 2^bits to the nearest whole number, halves up; at least one bit."""
    one = np.int64(1)
    return (a + (one << (np.int64(bits) - one))) >> np.int64(bits)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """Of a word without sign; 32 for zero (CLZ)."""
    return 32 - np.frexp(a.astype(np.float64))[1].astype(np.int64)  # exact: 32 bits fit a double


def spare_bits(a: np.ndarray) -> np.ndarray:
    """How far the numbers of the last axis may be shifted left together; 31 for zeros. Keeps the axis."""
    return leading_zeros(np.bitwise_or.reduce(a ^ (a >> 63), axis=-1, keepdims=True)) - 1


def to_top(a: np.ndarray, spare: np.ndarray, bits: int) -> np.ndarray:
    """Shifted left by the spare bits, then right so that the magnitude fits `bits` bits."""
    return (a << spare) >> (31 - bits)


def inverse_root(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/√square = root · 2^(−14 − half) for 2^26 ≤ square < 2^32; root fits a half-word, half is 13 to 16.

    >>> root, half = inverse_root(np.array([1 << 30]))
    >>> float(root[0] * 2.0 ** (-14 - half[0])) * 2**15
    0.99...
    """
    half = (33 - leading_zeros(square)) >> 1
    x = (square << (32 - 2 * half)) >> 2  # Q30, in [¼, 1)
    parabola = multiply_wide(multiply_wide(x, x) << 2, ROOT[2]) + multiply_wide(x << 1, ROOT[1])
    root = (ROOT[0] + parabola) << 1  # Q29
    for _ in range(2):  # Newton: r ← r (3 − x r²) / 2
        root = multiply_wide(root, ((3 << 24) - multiply_wide(x, multiply_wide(root, root))) << 5) << 2
    return root >> 15, half


def word(a: np.ndarray) -> np.ndarray:
    """As stored: 32 bits."""
    return a.astype(np.int32)


def exact(sums: np.ndarray) -> np.ndarray:
    """Whole numbers below 2^53, computed as doubles, as integers."""
    return sums.astype(np.int64)


def mixed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x weight for words x [..., I] and half-words weight [I, O], each product without its lowest 16 bits."""
    sums = np.zeros((*x.shape[:-1], weight.shape[1]), np.int64)
    for feature, row in enumerate(weight.astype(np.int64)):
        sums += multiply_half(x[..., feature, None].astype(np.int64), row)
    return sums


def row_bits(width: int) -> int:
    """To how many bits a row of this width is shifted so that the sum of its squares fits a word."""
    return (32 - int(width).bit_length()) // 2
