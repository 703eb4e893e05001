"""A learner's arithmetic in fixed point, bit for bit as `scare_learn_s32.c` does it.

Features and residuals have 12 bits after the point and fit 16; moments and numbers have 24 and fit 32.
"""

from typing import TypeVar

import numpy as np

from scare.upkeep.learner_state import (
    KEPT_SHARE,
    LEAST_CORRELATION,
    LEAST_EXPLAINED,
    LEAST_VARIANCE,
    LIMIT,
    MOST_EXPLAINED,
    STEP,
    LearnerSettings,
    LearnerState,
    PairOutcome,
)

Whole = TypeVar("Whole", int, np.ndarray)
FEATURE_BITS, NUMBER_BITS, RESULT_BITS = 12, 24, 20
FULL = 32767  # the largest feature
WORD = (1 << 31) - 1
LARGEST = int(LIMIT) << NUMBER_BITS  # that a number may become
LEAST_PIVOT = 1 << 12


def take(settings: LearnerSettings, state: LearnerState, features: np.ndarray, residual: np.float32) -> bool:
    """Add features [n] and the residual to the reference to the state; False if they are no pair."""
    if not abs(residual) <= LIMIT:
        return False
    clamped, missing = _steps(features), int(_steps(np.array([residual]))[0])
    first, second = np.triu_indices(settings.numbers)
    for array, products in (
        (state.moments, clamped[first] * clamped[second]),
        (state.products, clamped * missing),
        (state.square, np.array([missing * missing])),
    ):
        array += rounded(products - array.astype(np.int64), settings.memory_bits).astype(np.int32)
    for index, numbers in enumerate((None, state.active, state.shadow)):
        predicted = 0 if numbers is None else int(rounded(_dot(numbers, clamped), NUMBER_BITS))
        error = min(max(missing - predicted, -FULL), FULL)
        state.sums[index] += np.uint64(error * error)
    return True


def correction(numbers: np.ndarray, features: np.ndarray) -> np.float32:
    """What a board adds to the value, scaled."""
    words = rounded(_dot(numbers, _steps(features)), NUMBER_BITS + FEATURE_BITS - RESULT_BITS)
    return np.float32(_word(int(words))) * np.float32(2.0**-RESULT_BITS)


def compare_errors(state: LearnerState) -> PairOutcome:
    """Whether the candidate or the shipped calibrator was clearly nearer to the references of the round."""
    shipped, active, shadow = map(int, state.sums)
    left, of = KEPT_SHARE
    if shadow * of < active * left and shadow <= shipped:
        return PairOutcome.BETTER
    return PairOutcome.REVERTED if shipped * of < active * left else PairOutcome.TAKEN


def propose(settings: LearnerSettings, state: LearnerState) -> None:
    """Set the candidate: the least-squares solution, at most a step from the active numbers; else those."""
    numbers = _solve(settings, state)
    if not _plausible(state, numbers):
        state.shadow = state.active.copy()
        return
    moved = [number - int(old) for number, old in zip(numbers, state.active, strict=True)]
    step, largest = int(STEP * 2**NUMBER_BITS), max(map(abs, moved))
    if largest > step:
        share = quotient(step, largest)
        moved = [int(rounded(one * share, NUMBER_BITS)) for one in moved]
    state.shadow = state.active + np.array(moved, np.int32)


def rounded(number: Whole, bits: int) -> Whole:
    """Divided by 2^bits, to the nearest whole number, halves up."""
    return (number + (1 << (bits - 1))) >> bits


def quotient(number: int, divisor: int) -> int:
    """number / divisor with 24 bits after the point, of a word by a positive word, clamped to a word.

    By a reciprocal of 31 bits: one division of 32 bits and a step of Newton's, as boards can do them.

    >>> quotient(3 << 20, 2 << 20) / 2**24
    1.5
    """
    spare = 32 - divisor.bit_length()
    top = divisor << spare
    near = (0xFFFFFFFF // (top >> 16)) << 14
    near = (near * ((1 << 32) - ((top * near) >> 31))) >> 31
    return _word((number * near) >> (38 - spare))


def _solve(settings: LearnerSettings, state: LearnerState) -> list[int]:
    """(moments + prior) θ = products, by L D Lᵀ."""
    n = settings.numbers
    matrix = np.zeros((n, n), object)
    matrix[np.triu_indices(n)] = [int(number) for number in state.moments]
    right = [int(number) for number in state.products]
    for j, prior in enumerate(settings.prior):
        matrix[j, j] += int(prior * 2**NUMBER_BITS)
    for j in range(n):
        pivot = max(matrix[j, j], LEAST_PIVOT)
        factors = [quotient(number, pivot) for number in matrix[j, j + 1 :]]
        for i, factor in enumerate(factors, j + 1):
            for m in range(i, n):
                matrix[i, m] = _word(matrix[i, m] - rounded(factor * matrix[j, m], NUMBER_BITS))
            right[i] = _word(right[i] - rounded(factor * right[j], NUMBER_BITS))
        right[j] = quotient(right[j], pivot)
        matrix[j, j + 1 :] = factors
    for j in reversed(range(n)):
        total = right[j]
        for i in range(j + 1, n):
            total -= rounded(matrix[j, i] * right[i], NUMBER_BITS)
        right[j] = min(max(total, -LARGEST), LARGEST)
    return right


def _plausible(state: LearnerState, numbers: list[int]) -> bool:
    """Whether values and references correlate, and the correction explains enough of the residuals, not too much."""
    moments, products = [int(one) for one in state.moments], [int(one) for one in state.products]
    weight, mean, error = moments[-1], moments[len(products) - 1], products[-1]
    half = 2 * NUMBER_BITS - RESULT_BITS  # leaves 20 bits after the point
    spread = rounded(moments[0] * weight - mean * mean, half)
    common = rounded(products[0] * weight - mean * error, half)
    other = rounded(int(state.square[0]) * weight - error * error, half)
    together, references = spread + common, spread + common + common + other
    follows = together > 0 and together * together * int(1 / LEAST_CORRELATION**2) >= spread * references
    varies = references * int(1 / LEAST_VARIANCE) >= spread
    explained = sum(number * product for number, product in zip(numbers, products, strict=True))
    least, most = (int(state.square[0]) << NUMBER_BITS) // int(1 / LEAST_EXPLAINED), int(MOST_EXPLAINED) * weight
    return follows and varies and least <= explained <= most << NUMBER_BITS


def _steps(features: np.ndarray) -> np.ndarray:
    """Features as integers with `FEATURE_BITS` after the point."""
    with np.errstate(over="ignore"):
        steps = np.floor(features * np.float32(1 << FEATURE_BITS) + np.float32(0.5))
    return np.clip(steps, -FULL, FULL).astype(np.int64)


def _dot(numbers: np.ndarray, steps: np.ndarray) -> int:
    return int((numbers.astype(np.int64) * steps).sum())


def _word(number: int) -> int:
    """Clamped to 32 bits."""
    return min(max(number, -WORD), WORD)
