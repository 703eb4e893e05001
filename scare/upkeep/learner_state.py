"""What a learner goes by and what it remembers, the same in Python and in C (`runtime/src/scare_learn.h`).

A pair is the calibrated value, the newest scaled inputs and the reference. What is learned are a few numbers θ, so that
value + θ · (value, inputs, 1) is nearer to the reference, all in scaled units.

The state takes at most 236 bytes, and 244 as the blob in which it survives a loss of power. A blob is little-endian
words: a mark of its arithmetic, the identity of its calibrator, the state, a CRC-32. It is the same in Python and in C
(`scare_learn_store`), so that what a board has learned can be read on a computer.
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
ROUND_HOURS, SHORTEST_ROUND, LONGEST_ROUND = 8.0, 8, 1024  # how long a candidate is tested; in pairs at least, at most
PRIOR = 2.0**-2, 1.0, 2.0**-4  # what pairs have to outweigh, of the value, of an input, of 1
LIMIT = 8.0  # a residual beyond is no pair; a feature beyond is clamped
STEP = 0.5  # that a number may move at once
KEPT_SHARE = 7, 8  # of the squared error that a candidate may leave: 7/8
LEAST_CORRELATION = 0.5  # of calibrated values with references, for anything to be learned
LEAST_VARIANCE = 1 / 16  # of references, as a share of that of calibrated values: less is a stuck instrument or a unit
LEAST_EXPLAINED = 0.5  # of the squared residuals: less may be noise
MOST_EXPLAINED = 4.0  # times the variance of the target: a larger correction is no drift

SIZES = MOST * (MOST + 1) // 2, MOST, 1, MOST, MOST  # words of the arrays in a blob
SUMS = 3  # squared errors of a round: as shipped, active, candidate
BLOB_WORDS = 2 + sum(SIZES) + 2 * SUMS + 2 + 1


@dataclass(frozen=True)
class LearnerSettings:
    """How many numbers are learned, how long pairs are remembered (2^`memory_bits`), how many pairs make a round."""

    numbers: int
    memory_bits: int
    round: int

    @property
    def prior(self) -> np.ndarray:
        """What pairs have to outweigh, for each number."""
        value, inputs, one = PRIOR
        return np.array([value, *[inputs] * (self.numbers - 2), one])


def learner_settings(inputs: Inputs) -> LearnerSettings:
    """The settings for a calibrator's inputs: durations become numbers of pairs by its time step."""
    hours = inputs.step_seconds / 3600
    numbers = min(len(inputs.channels) + 2, MOST)
    bits = min(max(round(log2(24 * REMEMBERED_DAYS / hours)), 4), 16)
    return LearnerSettings(numbers, bits, min(max(round(ROUND_HOURS / hours), SHORTEST_ROUND), LONGEST_ROUND))


class PairOutcome(IntEnum):
    """What became of a pair, as `scare_learned` of scare_learn.h."""

    REFUSED = 0  # it is no pair: nothing changed
    TAKEN = 1
    BETTER = 2  # and the candidate has become active
    REVERTED = 3  # and the shipped calibrator is active again, because it was better


@dataclass
class LearnerState:
    """Weighted means of products of features (upper triangle by rows) and of features with residuals.

    `active` are the numbers in use, `shadow` the candidate. Numbers are float32, or words in fixed point.
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
    def empty(numbers: int, number: type[np.generic], sums: type[np.generic]) -> "LearnerState":
        """Before any pair."""
        sizes = (numbers * (numbers + 1) // 2, numbers, 1, numbers, numbers)
        moments, products, square, active, shadow = (np.zeros(size, number) for size in sizes)
        return LearnerState(moments, products, square, active, shadow, np.zeros(SUMS, sums))

    def store(self, mark: int, identity: int) -> bytes:
        """The blob; arrays are padded with zeros to their largest size."""
        parts = zip(self._arrays, SIZES, strict=True)
        content = np.array([mark, identity], "<u4").tobytes()
        content += b"".join(array.tobytes().ljust(4 * size, b"\0") for array, size in parts)
        content += b"".join(number.tobytes().ljust(8, b"\0") for number in self.sums)
        content += np.array([self.in_round, self.taken], "<u4").tobytes()
        return content + np.array([crc32(content)], "<u4").tobytes()

    def restore(self, blob: bytes, mark: int, identity: int, settings: LearnerSettings) -> None:
        """Take over a blob; one that is damaged or of another calibrator is refused, and nothing changes."""
        words = np.frombuffer(blob[: len(blob) // 4 * 4], "<u4")
        if len(blob) != 4 * BLOB_WORDS or words[-1] != crc32(blob[:-4]):
            raise DataError("what was learned is damaged: its checksum is wrong")
        if words[0] != mark or words[1] != identity or words[-3] >= settings.round:
            raise DataError("what was learned belongs to another calibrator")
        at = 2
        for array, size in zip(self._arrays, SIZES, strict=True):
            array[:] = words[at : at + len(array)].view(array.dtype)
            at += size
        wide = words[at : at + 2 * SUMS]
        self.sums[:] = wide.view(np.uint64) if self.sums.dtype == np.uint64 else wide[::2].view(self.sums.dtype)
        self.in_round, self.taken = int(words[-3]), int(words[-2])

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """In the order of a blob."""
        return self.moments, self.products, self.square, self.active, self.shadow
