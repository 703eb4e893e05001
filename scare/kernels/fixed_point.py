"""Fixed-point arithmetic, bit for bit as in C, and the quantisation of float plans that is built on it.

    window int16 → project, hats, bins → int32 words, each value with a unit → … → one word → float

A word is an int32, a half-word an int16. A unit is the real number that the integer 1 stands for: a power of two; for
values of one channel divided by its quantum, the int16 steps per scaled unit of that channel. Hats and bins are the
sums of the window that `kernels/window` makes. Units come from exact bounds, so that no window can make a sum
overflow. Weights that read the window are int8 (int16 for the newest rows), all others int16. Where a product needs
half-words, a row is first shifted left by its spare bits, so that it uses all bits whatever its magnitude.

NumPy computes in int64; in C every result fits a word (32 bits) unless stated otherwise. Each family of `kernels` has
its quantisation rules beside its fixed-point kernels; `export/quantise.py` applies them. The int8
matrices of TensorFlow Lite are rounded by a rule of their own, in `export/tflite.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from scare.errors import NotApplicableError
from scare.kernels.contract import INPUT, Shape, Step

# 1/√x ≈ c₀ + c₁x + … + c₄x⁴ on [¼, 1] within 0.22 %: c₀ in Q20, each further one in two bits more, as x is in Q30.
ROOT = (3667952, -37684117, 245915320, -803525001, 1021246694)
FULL = 32767  # the largest magnitude of an int16 that is symmetric about zero
FULL_INT8 = 127  # likewise of an int8
LARGEST = 2.0**29  # the largest magnitude allowed for a word, so that the sum of two fits as well
MOST_OFFSET = 1 << 24  # the largest magnitude of the offset that is added to the last word
MOST_SUM = 65000  # largest sum of |weights| whose products with 16-bit numbers add up to a word
TINY = 1e-30  # replaces zero in a divisor: weights that are all zero get some scale
WINDOW = f"{INPUT}.steps"  # name of the quantised window, in int16 steps


def multiply_wide(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """Return the upper 32 bits of the product of two words, as ARM's SMMUL does."""
    return (a * b) >> 32


def multiply_half(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """Multiply a word by a half-word and drop the lowest 16 bits, as ARM's SMULWB does."""
    return (a * b) >> 16


def matmul_half(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Multiply words x [..., I] by half-words weight [I, O], dropping the lowest 16 bits of each product: [..., O]."""
    sums = np.zeros((*x.shape[:-1], weight.shape[1]), np.int64)
    for feature, row in enumerate(weight.astype(np.int64)):
        sums += multiply_half(x[..., feature, None].astype(np.int64), row)
    return sums


def rounding_shift(a: np.ndarray, bits: np.ndarray | int) -> np.ndarray:
    """Divide by 2^bits, with bits ≥ 1, and round to the nearest integer, halves up."""
    one = np.int64(1)
    return (a + (one << (np.int64(bits) - one))) >> np.int64(bits)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """Count the leading zeros of an unsigned word, as ARM's CLZ does; 32 for zero."""
    return 32 - np.frexp(a.astype(np.float64))[1].astype(np.int64)  # exact: 32 bits fit a double


def spare_bits(a: np.ndarray) -> np.ndarray:
    """Return by how many bits all numbers of a row a [..., D] can be shifted left, 31 for zeros: [..., 1]."""
    magnitudes = a ^ (a >> 63)  # a, or −a − 1 for negative numbers: as long in bits
    return leading_zeros(np.bitwise_or.reduce(magnitudes, axis=-1, keepdims=True)) - 1


def to_top(a: np.ndarray, spare: np.ndarray, bits: int) -> np.ndarray:
    """Scale words to `bits` bits and a sign: shift left by their `spare` bits, then right, dropping the lowest bits."""
    return (a << spare) >> (31 - bits)


def unit_rows(x: np.ndarray, extra: int = 0) -> np.ndarray:
    """Divide words x [..., D] by √(sum of their squares + extra): unit vectors in Q15.

    The quotient stays the same if the sum is multiplied by 4^s and the row by 2^s. So the sum is first shifted left by
    2s bits, until at most one leading zero is left, and the row by s bits.
    """
    square = (x * x).sum(axis=-1, keepdims=True).astype(np.uint64) + np.uint64(extra)  # of 64 bits
    upper = (square >> 32).astype(np.int64)
    zeros = np.where(upper, leading_zeros(upper), 32 + leading_zeros((square | 1) & 0xFFFFFFFF))  # of 64 bits
    twice = zeros & ~1  # 2s, the leading zeros rounded down to an even number
    shift = twice // 2
    top = (square << twice.astype(np.uint64) >> 34).astype(np.int64)  # the highest 30 bits: Q30, in [¼, 1)
    # The sum is below 2^(64 − 2s), so a number of the row is below 2^(32 − s). To fit a word, below 2^31, it is shifted
    # by s − 1 bits instead of s: to the right if s is 0. Then the upper half of the word is taken.
    rows = np.where(shift, x << np.maximum(shift - 1, 0), x >> 1) >> 16
    factor = inverse_root_of(top) >> 11  # from Q27 to Q16
    factor -= factor >> 13  # so that rounding down never makes a vector longer than 1, which a half-word could not hold
    return multiply_half(factor, rows)


def inverse_root_of(x: np.ndarray) -> np.ndarray:
    """Compute 1/√x in Q27 for x in Q30 from ¼ to 1, within 10⁻⁵.

    The polynomial `ROOT` gives it within 0.22 %; a step of Newton's method does the rest. `multiply_wide` gives the
    product of a number in Qm and one in Qn in Q(m + n − 32).

    >>> float(inverse_root_of(np.array([1 << 28]))[0]) / 2**27
    1.99...
    """
    root = np.full_like(x, ROOT[-1])
    # Horner's scheme. A product with x has two fractional bits fewer, as the next coefficient has.
    for coefficient in ROOT[-2::-1]:
        root = multiply_wide(root, x) + coefficient
    root = root << 9  # r, from Q20 to Q29
    # Newton's step is r (3 − x r²) / 2.
    squared = multiply_wide(root, root)  # r² in Q26
    correction = (3 << 24) - multiply_wide(x, squared)  # 3 − x r² in Q24
    return multiply_wide(root, correction << 5)  # correction in Q29, product in Q26: read as Q27, it is half as large


def to_word(a: np.ndarray) -> np.ndarray:
    """Store as int32, the word of the C kernels."""
    return a.astype(np.int32)


def to_int64(sums: np.ndarray) -> np.ndarray:
    """Convert integers that were summed as doubles, because BLAS is fast with doubles only: exact below 2^53."""
    return sums.astype(np.int64)


@dataclass(frozen=True)
class QuantisationState:
    """A float plan, and the bounds and units of its fixed-point version as far as they are known.

    `bounds` are the largest magnitudes and `units` the units of the values computed so far, each of its value's shape;
    `quanta` are the steps of the int16 window for a scaled value of 1, one for each channel.
    """

    steps: tuple[Step, ...]
    shapes: Mapping[str, Shape]
    quanta: np.ndarray
    bounds: dict[str, np.ndarray]
    units: dict[str, np.ndarray]

    @property
    def window(self) -> int:
        """Rows of the window."""
        return self.shapes[INPUT][0]

    @property
    def channels(self) -> int:
        """Channels of the window."""
        return self.shapes[INPUT][1]

    def readers(self, name: str) -> list[Step]:
        """Return the steps that read a value."""
        return [step for step in self.steps if name in step.inputs]

    def is_window(self, name: str) -> bool:
        """Whether a value is the window, flattened or not."""
        maker = next((step for step in self.steps if step.output == name), None)
        return name == INPUT or (maker is not None and maker.kernel == "flatten" and self.is_window(maker.inputs[0]))

    def unit(self, name: str) -> float:
        """Return the common unit of all numbers of a value; NotApplicableError if they differ."""
        unit = self.units[name]
        _expect_common_unit((unit == unit.flat[0]).all(), name)
        return float(unit.flat[0])

    def feature_units(self, name: str) -> np.ndarray:
        """Return the unit of each feature (last axis), equal in every row; NotApplicableError if rows differ."""
        rows = self.units[name].reshape(-1, self.shapes[name][-1])
        _expect_common_unit((rows == rows[0]).all(), name)
        return rows[0]


def _expect_common_unit(is_common: np.bool_, name: str) -> None:
    """Raise NotApplicableError for the value `name` unless its numbers have a common unit."""
    if not is_common:
        raise NotApplicableError(f"float32 only: the numbers of '{name}' have no unit in common")


@dataclass(frozen=True)
class QuantisationRule:
    """How one kernel becomes fixed point: the bound of its output, its smallest unit, and the step that replaces it.

    `bound` and `unit` give arrays of the output's shape, or one number for all. `emit` makes the fixed-point step, or
    returns None if the step needs none. `lacks` names the part of a step that has no fixed-point form, such as an
    activation; it is empty if every part has one.
    """

    bound: Callable[[QuantisationState, Step], np.ndarray]
    unit: Callable[[QuantisationState, Step], np.ndarray]
    emit: Callable[[QuantisationState, Step], Step | None]
    lacks: Callable[[Step], str] = lambda step: ""


def _view(q: QuantisationState, step: Step, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Read the bounds or units (`arrays`) of a step's input in the shape of its output.

    The step is a view, which begins at number `start` of its input.
    """
    shape, start = q.shapes[step.output], step.settings.get("start", 0)
    return arrays[step.inputs[0]].reshape(-1)[start : start + prod(shape)].reshape(shape)


VIEW = QuantisationRule(  # for kernels that read the same numbers in another shape
    lambda q, step: _view(q, step, q.bounds),
    lambda q, step: _view(q, step, q.units),
    lambda q, step: None if q.is_window(step.output) else step,
)


def product_bound(x: np.ndarray, weights: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """Return the largest magnitude of x · weights + bias for |x| up to this bound."""
    return x @ np.abs(weights) + np.abs(bias)


def power_of_two_above(number: np.ndarray | float) -> np.ndarray:
    """Round up to a power of two; zero, which has no logarithm, gives 2^−80."""
    return 2.0 ** np.ceil(np.log2(np.maximum(number, 2.0**-80)))


def word_unit(bound: np.ndarray) -> np.ndarray:
    """Return the smallest units, powers of two, in which numbers up to these bounds are at most `LARGEST`."""
    return power_of_two_above(bound / LARGEST)


def output_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Choose one unit for all numbers of a step's output: the smallest in which they fit a word."""
    return word_unit(q.bounds[step.output].max())


def finest_unit(weight: np.ndarray) -> np.ndarray:
    """Return the smallest units of the outputs [O] for which `to_q16(weight / unit)` fits an int16.

    `weight` [I, O] is the change of each output for one step of each input.
    """
    return power_of_two_above(np.abs(weight).max(axis=0, initial=0.0) * 65536 / FULL)


def bits_between(coarse: np.ndarray | float, fine: np.ndarray | float) -> np.ndarray:
    """Return the bits by which a word in the fine unit is shifted right to get it in the coarse one."""
    return np.rint(np.log2(coarse / fine)).astype(np.int32)


def checked_round(numbers: np.ndarray, kind: type[np.signedinteger]) -> np.ndarray:
    """Round to an integer type; raise NotApplicableError if a number does not fit it."""
    rounded = np.rint(numbers)
    if not np.abs(rounded).max(initial=0) <= np.iinfo(kind).max:  # NaN fails this, too
        raise NotApplicableError("float32 only: the weights are too large or differ too much in size for fixed point")
    return rounded.astype(kind)


def to_q16(weight: np.ndarray) -> np.ndarray:
    """Quantise a weight to 16 fractional bits (Q16): `multiply_half` drops as many bits of its products."""
    return checked_round(weight * 65536, np.int16)


def floor_loss(weight: np.ndarray) -> np.ndarray:
    """Return by how much rounding down lowers sums with int16 weights [I, O], on average: [O].

    `multiply_half` drops the low 16 bits of each product, which is half a step on average unless the weight is zero.
    """
    return np.count_nonzero(weight, axis=0) / 2


def to_int32(bias: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
    """Quantise a bias to int32 steps of this unit."""
    return checked_round(bias / unit, np.int32)


def weight_scales(weights: np.ndarray, most: int) -> np.ndarray:
    """Find the smallest divisor of each projection's weights [T, C, R] before rounding: [R].

    The quotients must be within ±most, and the sum of their products with an int16 window must fit a word.
    """
    largest, total = np.abs(weights).max(axis=(0, 1), initial=0.0), np.abs(weights).sum(axis=(0, 1))
    return np.maximum(np.maximum(largest / most, total / MOST_SUM), TINY)


def error_diffused(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantise weights [T, C, R] to int8 by `round_along_time`; returns them and the scale of each projection [R]."""
    scale = weight_scales(weights, FULL_INT8)
    return round_along_time(weights / scale, FULL_INT8).astype(np.int8), scale


def round_along_time(weights: np.ndarray, most: int) -> np.ndarray:
    """Round weights [T, ...] to integers within ±most, passing each row's rounding error on to the next row.

    This is error diffusion: neighbouring readings are alike, so errors that cancel between rows hardly change a sum
    over the window.
    """
    error, rounded = np.zeros(weights.shape[1:]), np.empty(weights.shape)
    for row, exact in enumerate(weights):
        rounded[row] = np.clip(np.rint(exact + error), -most, most)
        error = exact + error - rounded[row]
    return rounded
