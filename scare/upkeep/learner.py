"""A learner improves a calibrator from pairs of readings and references, and never without proof.

Recursive least squares with forgetting: weighted means of products are all that is remembered of the pairs, and a prior
that is never forgotten draws what is learned back to zero. Every round a candidate is fitted; on the pairs of the next
round, which it has not seen, it must beat the numbers in use and the shipped calibrator before it becomes active. The
active numbers are dropped as soon as the shipped calibrator is better. The counterpart in C is `scare_learn.c`.
"""

from types import ModuleType

import numpy as np

from scare.upkeep import learner_fixed, learner_float
from scare.upkeep.learner_state import LearnerSettings, LearnerState, PairOutcome

FLOAT32, FIXED = "float32", "fixed"
ARITHMETICS: dict[str, tuple[ModuleType, int, type[np.generic], type[np.generic]]] = {
    FLOAT32: (learner_float, 0x46324C53, np.float32, np.float32),  # marks of blobs: "SL2F", "SL2Q"
    FIXED: (learner_fixed, 0x51324C53, np.int32, np.uint64),
}


class Learner:
    """What one calibrator has learned from its pairs; `identity` is a checksum of that calibrator."""

    def __init__(self, settings: LearnerSettings, identity: int = 0, arithmetic: str = FLOAT32) -> None:
        self.settings, self.identity = settings, identity
        self._arithmetic, self._mark, number, sums = ARITHMETICS[arithmetic]
        self.state = LearnerState.empty(settings.numbers, number, sums)

    @property
    def numbers(self) -> np.ndarray:
        """The active numbers: of the value, of the inputs, of 1 [n]."""
        scale = 1.0 if self.state.active.dtype == np.float32 else 2.0**-learner_fixed.NUMBER_BITS
        return self.state.active.astype(np.float64) * scale

    def learn(self, features: np.ndarray, residual: float) -> PairOutcome:
        """Take one pair: scaled value, inputs and 1 [n], and reference − value, scaled."""
        features, state = np.asarray(features, np.float32), self.state
        if not np.isfinite(features).all():
            return PairOutcome.REFUSED
        if not self._arithmetic.take(self.settings, state, features, np.float32(residual)):
            return PairOutcome.REFUSED
        state.taken, state.in_round = (state.taken + 1) & 0xFFFFFFFF, state.in_round + 1
        return self._end_round() if state.in_round == self.settings.round else PairOutcome.TAKEN

    def accept(self) -> None:
        """Make the candidate of all pairs so far active without a test; a new round begins."""
        self._arithmetic.propose(self.settings, self.state)
        self.state.active = self.state.shadow.copy()
        self.state.in_round, self.state.sums = 0, np.zeros_like(self.state.sums)

    def revert(self) -> None:
        """Return to the shipped calibrator; what is remembered of the pairs stays."""
        self.state.active = np.zeros_like(self.state.active)

    def store(self) -> bytes:
        """The state as a blob."""
        return self.state.store(self._mark, self.identity)

    def restore(self, blob: bytes) -> None:
        """Continue from a blob; one that is damaged or of another calibrator is refused."""
        self.state.restore(blob, self._mark, self.identity, self.settings)

    def _end_round(self) -> PairOutcome:
        state = self.state
        outcome: PairOutcome = self._arithmetic.compare_errors(state)
        if outcome is PairOutcome.BETTER:
            state.active = state.shadow.copy()
        elif outcome is PairOutcome.REVERTED:
            self.revert()
        state.in_round, state.sums = 0, np.zeros_like(state.sums)
        self._arithmetic.propose(self.settings, state)
        return outcome
