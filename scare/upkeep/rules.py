"""The rules a learner goes by, the same in Python and in C (`runtime/src/scare_learn.h`).

A pair is the calibrated value, the newest scaled inputs and the reference; what is learned are a few numbers θ, so that
value + θ · (value, inputs, 1) is nearer to the reference, all in scaled units.
"""

from dataclasses import dataclass
from math import log2

import numpy as np

from scare.windowing.feeding import Inputs

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
