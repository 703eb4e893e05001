"""Fixed-point arithmetic, bit for bit as the C does it: what the integer kernels are made of.

A window holds int16, everything after it int32 whose unit the kernels' rules have chosen; window weights are int8
(int16 for the newest rows), all other weights int16. Where a product needs half-words, a row is first shifted to the
top by its own spare bits, so that no input is too large or too small. Arrays in kernels are as a plan names them; the
order in which C reads them is the business of `export`.

Numbers are held in int64 here and fit the word their names speak of in C: 32 bits unless said otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from scare.errors import NotApplicableError
from scare.kernels.contract import INPUT, Shape, Step

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


# What an integer rule is: how a kernel becomes integers. The rules themselves are in the `rules.py` of each family.
#
# Every value of an integer plan is a word of 32 bits with a unit, the real number that 1 stands for: a power of two, on
# the window's side times the channel's quantum. Units come from exact bounds: no window, whatever it holds, can make a
# sum overflow.


LARGEST = 2.0**29  # that a word may become, so that the sum of two fits as well
WINDOW = f"{INPUT}.steps"  # the window in whole steps of its quanta


@dataclass(frozen=True)
class Quantized:
    """A float plan on its way into integers: largest magnitudes and units of the values so far, each of its shape.

    `quanta` are the steps of the int16 window for 1, one for each channel.
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
        """The steps that read a value."""
        return [step for step in self.steps if name in step.inputs]

    def is_window(self, name: str) -> bool:
        """Whether a value is the window, flattened or not."""
        maker = next((step for step in self.steps if step.output == name), None)
        return name == INPUT or (maker is not None and maker.kernel == "flatten" and self.is_window(maker.inputs[0]))

    def unit(self, name: str) -> float:
        """The one unit of all numbers of a value."""
        unit = self.units[name]
        _expect_one((unit == unit.flat[0]).all(), name)
        return float(unit.flat[0])

    def feature_units(self, name: str) -> np.ndarray:
        """The unit of each number of the last axis, the same in every row."""
        rows = self.units[name].reshape(-1, self.shapes[name][-1])
        _expect_one((rows == rows[0]).all(), name)
        return rows[0]


def _expect_one(true: np.bool_, name: str) -> None:
    if not true:
        raise NotApplicableError(f"float32 only: the numbers of '{name}' have no unit in common")


@dataclass(frozen=True)
class QuantisationRule:
    """Of one kernel: bound of its output, smallest unit of its output, integer step (None: nothing to do).

    `lacks` names what of a step has no integer form although its kernel has one; empty: nothing.
    """

    bound: Callable[[Quantized, Step], np.ndarray]
    unit: Callable[[Quantized, Step], np.ndarray]
    emit: Callable[[Quantized, Step], Step | None]
    lacks: Callable[[Step], str] = lambda step: ""


def _view(q: Quantized, step: Step, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    shape, start = q.shapes[step.output], step.settings.get("start", 0)
    return arrays[step.inputs[0]].reshape(-1)[start : start + prod(shape)].reshape(shape)


VIEW = QuantisationRule(  # of kernels that read the same numbers in another shape
    lambda q, step: _view(q, step, q.bounds),
    lambda q, step: _view(q, step, q.units),
    lambda q, step: None if q.is_window(step.output) else step,
)


def power_above(number: np.ndarray | float) -> np.ndarray:
    """The next power of two, of zero a very small one."""
    return 2.0 ** np.ceil(np.log2(np.maximum(number, 2.0**-80)))


def holding(bound: np.ndarray) -> np.ndarray:
    """The units in which numbers up to these bounds fit a word."""
    return power_above(bound / LARGEST)


def finest(weight: np.ndarray) -> np.ndarray:
    """The smallest units of the outputs [O] in which weights [I, O], units of the input in them, fit as `halves`."""
    return power_above(np.abs(weight).max(axis=0, initial=0.0) * 65536 / FULL)


def bits_between(coarse: np.ndarray | float, fine: np.ndarray | float) -> np.ndarray:
    """By how many bits a word is shifted right to go from one unit to another."""
    return np.rint(np.log2(coarse / fine)).astype(np.int32)


def absolute(x: np.ndarray, weights: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """The bound of x weights + bias for a bound of x."""
    return x @ np.abs(weights) + np.abs(bias)


def own_unit(q: Quantized, step: Step) -> np.ndarray:
    """The finest unit that holds a value's own bound."""
    return holding(q.bounds[step.output].max())


# Rounding weights to int8, int16 and words: to the nearest number, or with each error passed on along time.
#
# The matrices of a FlatBuffer are rounded by its own rule, in `export/tensors/integer_matrices`.


FULL_INT8 = 127  # the largest number of 8 bits that has a negative twin
MOST_SUM = 65000  # of the magnitudes of weights: their products with numbers of 16 bits add up to a word


def checked_round(numbers: np.ndarray, kind: type[np.signedinteger]) -> np.ndarray:
    """Rounded, and checked to fit."""
    rounded = np.rint(numbers)
    if not np.abs(rounded).max(initial=0) <= np.iinfo(kind).max:  # also if it is no number
        raise NotApplicableError("float32 only: its weights are too large or too unlike for integers")
    return rounded.astype(kind)


def to_q16(weight: np.ndarray) -> np.ndarray:
    """Weights of 16 bits, for products that drop their lowest 16."""
    return checked_round(weight * 65536, np.int16)


def to_int32(bias: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
    """A bias as words."""
    return checked_round(bias / unit, np.int32)


def scales(weights: np.ndarray, most: int) -> np.ndarray:
    """What 1 stands for, for each R of weights [T, C, R]: they fit ±most, their products with a window a word."""
    largest, total = np.abs(weights).max(axis=(0, 1), initial=0.0), np.abs(weights).sum(axis=(0, 1))
    return np.maximum(np.maximum(largest / most, total / MOST_SUM), 1e-30)


def error_diffused(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights [T, C, R] as int8, rounded along time, and the scale of each of the R."""
    scale = scales(weights, FULL_INT8)
    return rounded_along_time(weights / scale, FULL_INT8).astype(np.int8), scale


def rounded_along_time(weights: np.ndarray, most: int) -> np.ndarray:
    """Weights [T, ...] as whole numbers within ±most; what a rounding loses the next row makes up for."""
    lost, rounded = np.zeros(weights.shape[1:]), np.empty(weights.shape)
    for row, exact in enumerate(weights):
        rounded[row] = np.clip(np.rint(exact + lost), -most, most)
        lost = exact + lost - rounded[row]
    return rounded
