"""The learner: corrects a calibrator from pairs of readings and references, and only where that is proved to help.

    value + θ · (value, newest inputs, 1)  is nearer to the reference than the value, all in scaled units

θ, at most seven coefficients, comes from least squares with exponential forgetting: only weighted means of products are
stored, not the pairs, and a ridge penalty that is never forgotten shrinks θ to zero. Every round a candidate is
fitted. It becomes active only if it beats both the active coefficients and the shipped calibrator on the pairs of the
next round, which it has not seen. As soon as the shipped calibrator is better, the correction is dropped.

It also keeps the share of references that intervals contain: one outside makes them wider, one inside slightly
narrower.

The state takes at most 240 bytes, and 248 as the blob in which it survives a loss of power. A blob is little-endian
words: a tag for its arithmetic, the identity of its calibrator, the state, a CRC-32. Python and C agree in every bit
(`runtime/src/scare_learn.h`, with the same two arithmetics), so a computer can read what a board has learned.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from math import log2
from typing import TypeVar
from zlib import crc32

import numpy as np

from scare.calibrator.intervals import LEVEL, Intervals, next_factor
from scare.errors import DataError
from scare.windowing.inputs import Inputs

FLOAT32, FIXED = "float32", "fixed"  # names of the arithmetics

MAX_COEFFICIENTS = 7  # coefficients of the value, of up to five inputs, and of 1
REMEMBERED_DAYS = 1.5  # time constant with which older pairs fade
ROUND_HOURS, SHORTEST_ROUND, LONGEST_ROUND = 8.0, 8, 1024  # how long a candidate is tested; limits in pairs
PRIOR = 2.0**-2, 1.0, 2.0**-4  # ridge penalty: of the value's coefficient, of an input's, of the intercept
LIMIT = 8.0  # a pair with a larger residual is refused; a larger feature is clamped
STEP = 0.5  # the most by which a coefficient may move in a round
KEPT_SHARE = 7, 8  # numerator and denominator: a candidate must leave less than 7/8 of the squared error
# When a solution is plausible (`_is_plausible`):
LEAST_CORRELATION = 0.5  # least correlation of values with references for anything to be learned
LEAST_VARIANCE = 1 / 16  # variance of references, in variances of values: less is a stuck instrument or another unit
LEAST_EXPLAINED = 0.5  # share of the squared residuals that a correction must explain: less may be noise
MOST_EXPLAINED = 4.0  # most that it may explain, in variances of the target: a larger correction is no drift

# Words of moments, products, square, active and shadow in a blob.
SIZES = MAX_COEFFICIENTS * (MAX_COEFFICIENTS + 1) // 2, MAX_COEFFICIENTS, 1, MAX_COEFFICIENTS, MAX_COEFFICIENTS
SUMS = 3  # squared errors of a round: as shipped, active, candidate
BLOB_WORDS = 2 + sum(SIZES) + 2 * SUMS + 3 + 1  # tag and identity, arrays, sums of two words, counters, width, CRC-32
WITHOUT_WIDTH = 0x10000  # a blob from before there was a width is a word shorter, and its tag is so much less

FEATURE_BITS, COEFFICIENT_BITS, RESULT_BITS = 12, 24, 20  # fractional bits in fixed point
LARGEST_FEATURE = (1 << 15) - 1  # of a 16-bit word
LARGEST_WORD = (1 << 31) - 1
LARGEST_COEFFICIENT = int(LIMIT) << COEFFICIENT_BITS  # as a word
LEAST_PIVOT = 1 << 12  # keeps a rounded pivot above zero

Whole = TypeVar("Whole", int, np.ndarray)  # an integer, or an array of integers


@dataclass(frozen=True)
class LearnerSettings:
    """How a learner learns from pairs of a reading and its reference.

    It has `size` coefficients, which are fitted anew every `round` pairs. Older pairs are forgotten exponentially, with
    a time constant of 2^`memory_bits` pairs. `level` is the share of references that intervals are to cover.
    """

    size: int
    memory_bits: int
    round: int
    level: float = LEVEL

    @property
    def prior(self) -> np.ndarray:
        """The ridge penalty of each coefficient."""
        value, inputs, one = PRIOR
        return np.array([value, *[inputs] * (self.size - 2), one])


def learner_settings(inputs: Inputs, intervals: Intervals | None = None) -> LearnerSettings:
    """Return the settings for a calibrator's inputs and intervals: its time step turns hours into numbers of pairs."""
    step_hours = inputs.step_seconds / 3600
    size = min(len(inputs.channels) + 2, MAX_COEFFICIENTS)
    memory_bits = min(max(round(log2(24 * REMEMBERED_DAYS / step_hours)), 4), 16)  # 16 to 65,536 pairs
    pairs = min(max(round(ROUND_HOURS / step_hours), SHORTEST_ROUND), LONGEST_ROUND)
    return LearnerSettings(size, memory_bits, pairs, intervals.level if intervals else LEVEL)


class PairOutcome(IntEnum):
    """The outcome of a pair; the numbers are those of `scare_learned` in scare_learn.h."""

    REFUSED = 0  # a number is missing, or the residual is too large: nothing changed
    TAKEN = 1
    BETTER = 2  # taken, and the candidate has become active
    REVERTED = 3  # taken, and the shipped calibrator is active again, because it was better


@dataclass
class LearnerState:
    """The coefficients of a correction, and sums over the pairs of result and reference that it was learned from.

    No pair is stored. Arrays are float32, or 32-bit words in fixed point.
    """

    moments: np.ndarray  # weighted means of products of features, upper triangle by rows [n(n+1)/2]
    products: np.ndarray  # weighted means of products of features and residuals [n]
    square: np.ndarray  # weighted mean of squared residuals [1]
    active: np.ndarray  # coefficients in use [n]
    shadow: np.ndarray  # coefficients of the candidate [n]
    sums: np.ndarray  # squared errors of the round: as shipped, active, candidate [3]
    in_round: int = 0  # pairs of the round so far
    taken: int = 0  # pairs so far
    width: float = 1.0  # of intervals, relative to the calibrator's, a float32

    @staticmethod
    def empty(size: int, number: type[np.generic], sums: type[np.generic]) -> "LearnerState":
        """Return the state before any pair, for `size` coefficients; `sums` is the type of sums, `number` of others."""
        sizes = (size * (size + 1) // 2, size, 1, size, size)  # moments are an upper triangle with its diagonal
        moments, products, square, active, shadow = (np.zeros(length, number) for length in sizes)
        return LearnerState(moments, products, square, active, shadow, np.zeros(SUMS, sums))

    def store(self, mark: int, identity: int) -> bytes:
        """Pack the state as a blob. It begins with `mark`, the tag of its arithmetic, and the calibrator's `identity`.

        Arrays are padded with zeros to their largest size, each sum to two words.
        """
        content = np.array([mark, identity], "<u4").tobytes()
        for array, most_words in zip(self._arrays, SIZES, strict=True):
            content += array.tobytes().ljust(4 * most_words, b"\0")
        content += b"".join(number.tobytes().ljust(8, b"\0") for number in self.sums)
        content += np.array([self.in_round, self.taken], "<u4").tobytes() + np.array([self.width], "<f4").tobytes()
        return content + np.array([crc32(content)], "<u4").tobytes()

    def restore(self, blob: bytes, mark: int, identity: int, settings: LearnerSettings) -> None:
        """Continue from a blob; one that is damaged or of another calibrator is refused, and nothing changes."""
        words = np.frombuffer(blob[: len(blob) // 4 * 4], "<u4")
        # An earlier version had no width: one word less.
        if len(blob) not in (4 * BLOB_WORDS - 4, 4 * BLOB_WORDS) or words[-1] != crc32(blob[:-4]):
            raise DataError("the learned state is damaged: its checksum is wrong")
        has_width = len(words) == BLOB_WORDS
        counters = BLOB_WORDS - 4  # index of `in_round`, then come `taken`, the width and the CRC-32
        is_ours = words[0] == (mark if has_width else mark - WITHOUT_WIDTH) and words[1] == identity
        if not is_ours or words[counters] >= settings.round:
            raise DataError("the learned state belongs to another calibrator")
        begin = 2  # after the mark and the identity
        for array, most_words in zip(self._arrays, SIZES, strict=True):
            array[:] = words[begin : begin + len(array)].view(array.dtype)
            begin += most_words
        sum_words = words[begin : begin + 2 * SUMS]  # a sum takes two words; a float32 leaves the second one empty
        if self.sums.dtype == np.uint64:
            self.sums[:] = sum_words.view(np.uint64)
        else:
            self.sums[:] = sum_words[::2].view(self.sums.dtype)
        self.in_round, self.taken = int(words[counters]), int(words[counters + 1])
        self.width = float(words[counters + 2 : counters + 3].view(np.float32)[0]) if has_width else 1.0

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays in the order of a blob."""
        return self.moments, self.products, self.square, self.active, self.shadow


class Learner:
    """Learns a correction of one calibrator from pairs; `identity` is a checksum of that calibrator."""

    def __init__(self, settings: LearnerSettings, identity: int = 0, arithmetic: str = FLOAT32) -> None:
        self.settings, self.identity, self._arithmetic = settings, identity, ARITHMETICS[arithmetic]
        self.state = LearnerState.empty(settings.size, self._arithmetic.number, self._arithmetic.sums)

    @property
    def coefficients(self) -> np.ndarray:
        """The active coefficients [n]: of the calibrated value, of each input, and the constant."""
        return self.state.active.astype(np.float64) * self._arithmetic.unit

    def learn(self, features: np.ndarray, residual: float) -> PairOutcome:
        """Learn from one pair: `features` are the value, the inputs and 1 [n], `residual` is reference − value.

        Both are scaled. The last pair of a round also decides on the candidate and fits the next one.
        """
        features, rounded = np.asarray(features, np.float32), np.float32(residual)
        if not (np.isfinite(features).all() and abs(rounded) <= LIMIT):
            return PairOutcome.REFUSED
        state = self.state
        self._arithmetic.take(self.settings, state, features, rounded)
        state.taken = (state.taken + 1) & 0xFFFFFFFF  # wraps as uint32 does in C
        state.in_round += 1
        if state.in_round < self.settings.round:
            return PairOutcome.TAKEN
        outcome = self._arithmetic.compare_errors(state)
        if outcome is PairOutcome.BETTER:
            state.active = state.shadow.copy()  # the candidate
        elif outcome is PairOutcome.REVERTED:
            state.active = np.zeros_like(state.active)
        state.in_round = 0
        state.sums = np.zeros_like(state.sums)
        self._arithmetic.propose(self.settings, state)
        return outcome

    def accept(self) -> None:
        """Make the candidate of all pairs so far active without a test, and begin a new round."""
        self._arithmetic.propose(self.settings, self.state)
        self.state.active = self.state.shadow.copy()  # the candidate
        self.state.in_round = 0
        self.state.sums = np.zeros_like(self.state.sums)

    def hold_level(self, is_inside: bool) -> None:
        """Widen intervals after a reference outside of them, narrow them slightly after one inside.

        So the share of references inside stays what it should be (the level).
        """
        self.state.width = next_factor(self.state.width, is_inside, self.settings.level)

    def revert(self) -> None:
        """Return to the shipped calibrator and its intervals, but keep the sums of all pairs."""
        self.state.active = np.zeros_like(self.state.active)
        self.state.width = 1.0

    def store(self) -> bytes:
        """Return the state as bytes (a blob), from which `restore` continues."""
        return self.state.store(self._arithmetic.mark, self.identity)

    def restore(self, blob: bytes) -> None:
        """Continue from a blob; one that is damaged or of another calibrator is refused."""
        self.state.restore(blob, self._arithmetic.mark, self.identity, self.settings)


class LearnerArithmetic(ABC):
    """The learner's computations in one number format."""

    mark: int  # first word of a blob
    number: type[np.generic]
    sums: type[np.generic]  # type of sums of squared errors
    unit: float  # value of a coefficient's last bit; 1 for floats

    @abstractmethod
    def take(self, settings: LearnerSettings, state: LearnerState, features: np.ndarray, residual: np.float32) -> None:
        """Add the features [n] and the residual of a pair to the state."""

    @abstractmethod
    def correction(self, coefficients: np.ndarray, features: np.ndarray) -> np.float32:
        """Compute the correction that a board adds to the value: coefficients [n] · features [n], in scaled units."""

    @abstractmethod
    def compare_errors(self, state: LearnerState) -> PairOutcome:
        """Compare candidate, active coefficients and shipped calibrator by their squared errors in the round.

        BETTER: the candidate was clearly nearer to the references than the active coefficients, and not further away
        than the shipped calibrator. REVERTED: the shipped calibrator was clearly nearer than the active coefficients.
        TAKEN: neither, so the active coefficients stay.
        """

    @abstractmethod
    def propose(self, settings: LearnerSettings, state: LearnerState) -> None:
        """Set the candidate: the least-squares solution, at most `STEP` from the active coefficients.

        Without a plausible solution the candidate is what is active already.
        """


class _Float32(LearnerArithmetic):
    """Float32, operation for operation as in `scare_learn_f32.c`."""

    mark = 0x46334C53  # "SL3F"
    number = sums = np.float32
    unit = 1.0

    def take(self, settings: LearnerSettings, state: LearnerState, features: np.ndarray, residual: np.float32) -> None:
        # Exponential moving averages of products, then the squared errors of this pair.
        clamped = np.clip(features, np.float32(-LIMIT), np.float32(LIMIT))
        share = np.float32(2.0**-settings.memory_bits)
        first, second = np.triu_indices(settings.size)
        state.moments += (clamped[first] * clamped[second] - state.moments) * share
        state.products += (clamped * residual - state.products) * share
        state.square += (residual * residual - state.square) * share
        for index, coefficients in enumerate((None, state.active, state.shadow)):  # None: as shipped
            error = residual if coefficients is None else residual - self._dot(coefficients, clamped)
            state.sums[index] += error * error

    def correction(self, coefficients: np.ndarray, features: np.ndarray) -> np.float32:
        return self._dot(coefficients, np.clip(features, np.float32(-LIMIT), np.float32(LIMIT)))

    def compare_errors(self, state: LearnerState) -> PairOutcome:
        shipped, active, candidate = state.sums
        enough = np.float32(KEPT_SHARE[0] / KEPT_SHARE[1])
        if candidate < active * enough and candidate <= shipped:
            return PairOutcome.BETTER
        return PairOutcome.REVERTED if shipped < active * enough else PairOutcome.TAKEN

    def propose(self, settings: LearnerSettings, state: LearnerState) -> None:
        solution = self._solve(settings, state)
        if not self._is_plausible(state, solution):
            state.shadow = state.active.copy()  # the candidate
            return
        change = solution - state.active
        largest = np.abs(change).max()
        if largest > STEP:  # shorten the change as a whole, which keeps its direction
            change = change * (np.float32(STEP) / largest)
        state.shadow = state.active + change

    def _solve(self, settings: LearnerSettings, state: LearnerState) -> np.ndarray:
        """Solve (moments + prior) θ = products by the decomposition L D Lᵀ; only the upper triangle is used."""
        n = settings.size
        matrix, right = np.zeros((n, n), np.float32), state.products.copy()
        matrix[np.triu_indices(n)] = state.moments
        matrix[np.diag_indices(n)] += settings.prior.astype(np.float32)
        for j in range(n):  # eliminate unknown j from the equations after it
            factors = matrix[j, j + 1 :] / matrix[j, j]
            for i, factor in enumerate(factors, j + 1):
                matrix[i, i:] -= factor * matrix[j, i:]
                right[i] -= factor * right[j]
            right[j] = right[j] / matrix[j, j]
            matrix[j, j + 1 :] = factors
        for j in reversed(range(n)):  # substitute back
            for i in range(j + 1, n):
                right[j] -= matrix[j, i] * right[i]
        return right

    def _is_plausible(self, state: LearnerState, solution: np.ndarray) -> bool:
        """Whether values and references correlate, and the correction explains neither too little nor too much."""
        # The features are value, inputs, 1. Moments are sums of feature · feature, by rows of an upper triangle, so the
        # first row ends with value · 1, and the last moment is 1 · 1. Products are sums of feature · residual.
        value_square, value_sum, weight = state.moments[0], state.moments[len(state.products) - 1], state.moments[-1]
        value_residual, residual_sum, residual_square = state.products[0], state.products[-1], state.square
        # All variances here are multiplied by weight², so that nothing is divided.
        variance = value_square * weight - value_sum * value_sum  # of the values
        covariance = value_residual * weight - value_sum * residual_sum  # of values and residuals
        residual_variance = residual_square * weight - residual_sum * residual_sum
        # A reference is value + residual.
        with_references = variance + covariance  # covariance of values and references
        reference_variance = variance + covariance + covariance + residual_variance
        # The correlation is at least LEAST_CORRELATION, written without a root or a division.
        least_square = np.float32(LEAST_CORRELATION**2) * (variance * reference_variance)
        correlates = with_references > 0 and with_references * with_references >= least_square
        varies = reference_variance >= np.float32(LEAST_VARIANCE) * variance
        explained = self._dot(solution, state.products)  # sum of squared residuals that the correction removes
        explains_enough = explained >= np.float32(LEAST_EXPLAINED) * residual_square[0]
        is_too_large = explained > np.float32(MOST_EXPLAINED) * weight  # the target's scaled variance is 1
        return bool(correlates and varies and explains_enough and not is_too_large)

    @staticmethod
    def _dot(coefficients: np.ndarray, features: np.ndarray) -> np.float32:
        """Return the dot product, summed in the order of C."""
        total = coefficients[0] * features[0]
        for coefficient, feature in zip(coefficients[1:], features[1:], strict=True):
            total = total + coefficient * feature
        return total


class _FixedPoint(LearnerArithmetic):
    """Fixed point, bit for bit as in `scare_learn_q.c`.

    Features and residuals are 16-bit words with 12 bits after the point, moments and coefficients 32-bit words with 24.
    """

    mark = 0x51334C53  # "SL3Q"
    number, sums = np.int32, np.uint64
    unit = 2.0**-COEFFICIENT_BITS

    def take(self, settings: LearnerSettings, state: LearnerState, features: np.ndarray, residual: np.float32) -> None:
        # As `_Float32.take`; all products have 24 bits after the point.
        clamped = self._to_fixed(features)
        rounded = int(self._to_fixed(np.array([residual]))[0])
        first, second = np.triu_indices(settings.size)
        for array, products in (
            (state.moments, clamped[first] * clamped[second]),
            (state.products, clamped * rounded),
            (state.square, np.array([rounded * rounded])),
        ):
            array += rounding_shift(products - array.astype(np.int64), settings.memory_bits).astype(np.int32)
        for index, coefficients in enumerate((None, state.active, state.shadow)):  # None: as shipped
            predicted = 0
            if coefficients is not None:
                predicted = rounding_shift(self._dot(coefficients, clamped), COEFFICIENT_BITS)  # 12 bits, as `rounded`
            error = min(max(rounded - predicted, -LARGEST_FEATURE), LARGEST_FEATURE)
            state.sums[index] += np.uint64(error * error)

    def correction(self, coefficients: np.ndarray, features: np.ndarray) -> np.float32:
        total = self._dot(coefficients, self._to_fixed(features))  # 24 + 12 bits after the point; `word` has 20
        word = clamp_word(rounding_shift(total, COEFFICIENT_BITS + FEATURE_BITS - RESULT_BITS))
        return np.float32(word) * np.float32(2.0**-RESULT_BITS)

    def compare_errors(self, state: LearnerState) -> PairOutcome:
        shipped, active, candidate = map(int, state.sums)
        numerator, denominator = KEPT_SHARE
        if candidate * denominator < active * numerator and candidate <= shipped:
            return PairOutcome.BETTER
        return PairOutcome.REVERTED if shipped * denominator < active * numerator else PairOutcome.TAKEN

    def propose(self, settings: LearnerSettings, state: LearnerState) -> None:
        solution = self._solve(settings, state)
        if not self._is_plausible(state, solution):
            state.shadow = state.active.copy()  # the candidate
            return
        changes = [number - int(old) for number, old in zip(solution, state.active, strict=True)]
        largest = max(map(abs, changes))
        step = int(STEP * 2**COEFFICIENT_BITS)
        if largest > step:  # shorten the change as a whole, which keeps its direction
            share = quotient(step, largest)
            changes = [rounding_shift(change * share, COEFFICIENT_BITS) for change in changes]
        state.shadow = state.active + np.array(changes, np.int32)

    def _solve(self, settings: LearnerSettings, state: LearnerState) -> list[int]:
        """Solve (moments + prior) θ = products by the decomposition L D Lᵀ, in words with 24 bits after the point."""
        n = settings.size
        matrix = np.zeros((n, n), object)  # Python integers, which do not overflow before they are clamped
        matrix[np.triu_indices(n)] = [int(number) for number in state.moments]
        right = [int(number) for number in state.products]
        for j, prior in enumerate(settings.prior):
            matrix[j, j] += int(prior * 2**COEFFICIENT_BITS)
        for j in range(n):  # eliminate unknown j from the equations after it
            pivot = max(matrix[j, j], LEAST_PIVOT)
            factors = [quotient(number, pivot) for number in matrix[j, j + 1 :]]
            for i, factor in enumerate(factors, j + 1):
                for m in range(i, n):
                    matrix[i, m] = clamp_word(matrix[i, m] - rounding_shift(factor * matrix[j, m], COEFFICIENT_BITS))
                right[i] = clamp_word(right[i] - rounding_shift(factor * right[j], COEFFICIENT_BITS))
            right[j] = quotient(right[j], pivot)
            matrix[j, j + 1 :] = factors
        for j in reversed(range(n)):  # substitute back
            total = right[j]
            for i in range(j + 1, n):
                total -= rounding_shift(matrix[j, i] * right[i], COEFFICIENT_BITS)
            right[j] = min(max(total, -LARGEST_COEFFICIENT), LARGEST_COEFFICIENT)
        return right

    def _is_plausible(self, state: LearnerState, solution: list[int]) -> bool:
        """Whether values and references correlate, and the correction explains neither too little nor too much."""
        # As `_Float32._is_plausible`, in integers. A bound below 1 is 1 over a whole number, which multiplies the other
        # side of the comparison or divides this one.
        moments = [int(number) for number in state.moments]
        products = [int(number) for number in state.products]
        # The features are value, inputs, 1. Moments are sums of feature · feature, by rows of an upper triangle, so the
        # first row ends with value · 1, and the last moment is 1 · 1. Products are sums of feature · residual.
        value_square, value_sum, weight = moments[0], moments[len(products) - 1], moments[-1]
        value_residual, residual_sum, residual_square = products[0], products[-1], int(state.square[0])
        # These words have 24 bits after the point, products of two have 48, and shifted ones 20.
        shift = 2 * COEFFICIENT_BITS - RESULT_BITS
        # Variances and covariances are multiplied by weight², so that nothing is divided.
        variance = rounding_shift(value_square * weight - value_sum * value_sum, shift)  # of the values
        covariance = rounding_shift(value_residual * weight - value_sum * residual_sum, shift)  # of values, residuals
        residual_variance = rounding_shift(residual_square * weight - residual_sum * residual_sum, shift)
        # A reference is value + residual.
        with_references = variance + covariance  # covariance of values and references
        reference_variance = variance + covariance + covariance + residual_variance
        correlates = (  # at least LEAST_CORRELATION, as squares
            with_references > 0
            and with_references * with_references * int(1 / LEAST_CORRELATION**2) >= variance * reference_variance
        )
        varies = reference_variance * int(1 / LEAST_VARIANCE) >= variance
        # Sum of squared residuals that the correction removes: coefficients · products, with 48 bits after the point.
        # Both bounds have 24 and are shifted to as many. The target's scaled variance is 1, so that of all pairs is the
        # weight.
        explained = sum(coefficient * product for coefficient, product in zip(solution, products, strict=True))
        least = (residual_square << COEFFICIENT_BITS) // int(1 / LEAST_EXPLAINED)
        most = (int(MOST_EXPLAINED) * weight) << COEFFICIENT_BITS
        return correlates and varies and least <= explained <= most

    @staticmethod
    def _to_fixed(features: np.ndarray) -> np.ndarray:
        """Return the features as integers with `FEATURE_BITS` after the point."""
        with np.errstate(over="ignore"):
            steps = np.floor(features * np.float32(1 << FEATURE_BITS) + np.float32(0.5))
        return np.clip(steps, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.int64)

    @staticmethod
    def _dot(coefficients: np.ndarray, features: np.ndarray) -> int:
        """Return the dot product, exact in 64 bits, with `COEFFICIENT_BITS` + `FEATURE_BITS` after the point."""
        return int((coefficients.astype(np.int64) * features).sum())


ARITHMETICS: dict[str, LearnerArithmetic] = {FLOAT32: _Float32(), FIXED: _FixedPoint()}


def rounding_shift(number: Whole, bits: int) -> Whole:
    """Divide by 2^bits, rounded to the nearest whole number, halves up."""
    return (number + (1 << (bits - 1))) >> bits


def clamp_word(number: int) -> int:
    """Clamp to the range of a 32-bit word, symmetrically: ±(2³¹ − 1)."""
    return min(max(number, -LARGEST_WORD), LARGEST_WORD)


def quotient(number: int, divisor: int) -> int:
    """Divide a 32-bit word by a positive one: the quotient has 24 bits after the point and is clamped to 32 bits.

    Boards have no 64-bit division. In its place is a 31-bit reciprocal, by one 32-bit division and one Newton step.

    >>> quotient(3 << 20, 2 << 20) / 2**24
    1.5
    """
    spare = 32 - divisor.bit_length()
    top = divisor << spare  # normalised: its highest bit is bit 31
    reciprocal = (0xFFFFFFFF // (top >> 16)) << 14  # about 2⁶² / top, from the upper half of `top`
    reciprocal = (reciprocal * ((1 << 32) - ((top * reciprocal) >> 31))) >> 31  # Newton: r · (2 − top · r)
    return clamp_word((number * reciprocal) >> (38 - spare))  # 38 = 62 - 24 bits after the point
