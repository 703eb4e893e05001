"""The rules a learner goes by, the same in Python and in C (`runtime/src/scare_learn.h`).

A pair is the calibrated value, the newest scaled inputs and the reference; what is learned are a few numbers θ, so that
value + θ · (value, inputs, 1) is nearer to the reference, all in scaled units.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import log2
from zlib import crc32

import numpy as np

from scare.errors import DataError
from scare.windowing.inputs import Inputs

MOST = 7  # numbers: of the value, of five inputs, of 1


REMEMBERED_DAYS = 1.5  # of pairs: older ones fade


ROUND_HOURS, SHORTEST_ROUND = 8.0, 8  # how long a candidate is judged before it may take over; in pairs at least


LARGEST_ROUND = 1024


PRIOR = 2.0**-2, 1.0, 2.0**-4  # what pairs have to outweigh, of the value, of an input, of 1


LIMIT = 8.0  # a residual beyond is no pair; a feature beyond is held


STEP = 0.5  # that a number may move at once


KEPT_SHARE = 7, 8  # of the squared error that a candidate may leave: 7/8


LEAST_CORRELATION = 0.5  # of calibrated values with references, for anything to be learned


LEAST_VARIANCE = 1 / 16  # of references, of that of calibrated values: less is a stuck instrument or another unit


LEAST_EXPLAINED = 0.5  # of the squared residuals: less may be noise


MOST_EXPLAINED = 4.0  # times the variance of the target: a correction that is larger is no drift


@dataclass(frozen=True)
class LearningRules:
    """How many numbers are learned, how long pairs are remembered (2^`memory_bits`), how many pairs judge."""

    numbers: int
    memory_bits: int
    round: int

    @property
    def prior(self) -> np.ndarray:
        """What pairs have to outweigh, for each number."""
        value, inputs, one = PRIOR
        return np.array([value, *[inputs] * (self.numbers - 2), one])


def rules_of(inputs: Inputs) -> LearningRules:
    """The rules for a calibrator's inputs: times become pairs by its step."""
    hours = inputs.step_seconds / 3600
    numbers = min(len(inputs.channels) + 2, MOST)
    bits = min(max(round(log2(24 * REMEMBERED_DAYS / hours)), 4), 16)
    return LearningRules(numbers, bits, min(max(round(ROUND_HOURS / hours), SHORTEST_ROUND), LARGEST_ROUND))


PAIRS = MOST * (MOST + 1) // 2


SIZES = PAIRS, MOST, 1, MOST, MOST  # words of the arrays in a blob


SUMS = 3  # squared errors of a round: as shipped, as it holds, of the candidate


BLOB_WORDS = 2 + sum(SIZES) + 2 * SUMS + 2 + 1


class Verdict(IntEnum):
    """What became of a pair, as `scare_learned` of scare_learn.h."""

    REFUSED = 0  # it is no pair: nothing changed
    TAKEN = 1
    BETTER = 2  # and the candidate has taken over
    REVERTED = 3  # and what was shipped holds again, because it was better


@dataclass
class State:
    """Weighted means of products of features, upper triangle by rows; of features with residuals; numbers learned.

    `active` is what holds, `shadow` the candidate. Numbers are float32, or words in fixed point.
    """

    moments: np.ndarray
    products: np.ndarray
    square: np.ndarray
    active: np.ndarray
    shadow: np.ndarray
    sums: np.ndarray  # of the round
    in_round: int = 0
    taken: int = 0

    @staticmethod
    def empty(numbers: int, number: type[np.generic], sums: type[np.generic]) -> "State":
        """Before any pair."""
        sizes = (numbers * (numbers + 1) // 2, numbers, 1, numbers, numbers)
        moments, products, square, active, shadow = (np.zeros(size, number) for size in sizes)
        return State(moments, products, square, active, shadow, np.zeros(SUMS, sums))

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """In the order of a blob."""
        return self.moments, self.products, self.square, self.active, self.shadow

    def store(self, mark: int, identity: int) -> bytes:
        """The blob; arrays are filled up with zeros to their largest size."""
        parts = zip(self._arrays, SIZES, strict=True)
        content = np.array([mark, identity], "<u4").tobytes()
        content += b"".join(array.tobytes().ljust(4 * size, b"\0") for array, size in parts)
        content += b"".join(number.tobytes().ljust(8, b"\0") for number in self.sums)
        content += np.array([self.in_round, self.taken], "<u4").tobytes()
        return content + np.array([crc32(content)], "<u4").tobytes()

    def restore(self, blob: bytes, mark: int, identity: int, rules: LearningRules) -> None:
        """Take over a blob; one that is damaged or of another calibrator is refused, and nothing changes."""
        words = np.frombuffer(blob[: len(blob) // 4 * 4], "<u4")
        if len(blob) != 4 * BLOB_WORDS or words[-1] != crc32(blob[:-4]):
            raise DataError("what was learned is damaged: its checksum is wrong")
        if words[0] != mark or words[1] != identity or words[-3] >= rules.round:
            raise DataError("what was learned belongs to another calibrator")
        at = 2
        for array, size in zip(self._arrays, SIZES, strict=True):
            array[:] = words[at : at + len(array)].view(array.dtype)
            at += size
        wide = words[at : at + 2 * SUMS]
        self.sums[:] = wide.view(np.uint64) if self.sums.dtype == np.uint64 else wide[::2].view(self.sums.dtype)
        self.in_round, self.taken = int(words[-3]), int(words[-2])
