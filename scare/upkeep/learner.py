"""A learner makes a calibrator better from pairs of readings and references, and never without proof.

Recursive least squares with forgetting: weighted means of products are all that is remembered of the pairs, and a prior
that is never forgotten draws what is learned back to nothing. Every round a candidate is made and kept in the shadow;
on the pairs of the next round, which it has not seen, it must beat what holds, and what was shipped, before it takes
over. What holds is given up again as soon as what was shipped is better. Its twin is `scare_learn.c`.
"""

from types import ModuleType

import numpy as np

from scare.upkeep import learner_fixed, learner_float
from scare.upkeep.learner_state import LearningRules, State, Verdict

# The rules a learner goes by, the same in Python and in C (`runtime/src/scare_learn.h`).
#
# A pair is the calibrated value, the newest scaled inputs and the reference; what is learned are a few numbers θ, so
# that value + θ · (value, inputs, 1) is nearer to the reference, all in scaled units.


# A learner's state: at most 236 bytes, and the blob of 244 bytes in which it survives a loss of power.
#
# A blob is words, little-endian: a mark of its arithmetic, the identity of its calibrator, the state, a CRC-32. It is
# the same in Python and in C (`scare_learn_store`), so that what a board has learned can be read at home.


FLOAT32, FIXED = "float32", "fixed"
ARITHMETICS: dict[str, tuple[ModuleType, int, type[np.generic], type[np.generic]]] = {
    FLOAT32: (learner_float, 0x46324C53, np.float32, np.float32),  # marks of blobs: "SL2F", "SL2Q"
    FIXED: (learner_fixed, 0x51324C53, np.int32, np.uint64),
}


class Learner:
    """What one calibrator has learned from its pairs; `identity` says which calibrator."""

    def __init__(self, rules: LearningRules, identity: int = 0, arithmetic: str = FLOAT32) -> None:
        self.rules, self.identity = rules, identity
        self._body, self._mark, number, sums = ARITHMETICS[arithmetic]
        self.state = State.empty(rules.numbers, number, sums)

    def learn(self, features: np.ndarray, residual: float) -> Verdict:
        """Take one pair: scaled value, inputs and 1 [n], and reference − value, scaled; what became of it."""
        features, state = np.asarray(features, np.float32), self.state
        if not (np.isfinite(features).all() and self._body.take(self.rules, state, features, np.float32(residual))):
            return Verdict.REFUSED
        state.taken, state.in_round = (state.taken + 1) & 0xFFFFFFFF, state.in_round + 1
        return self._end_round() if state.in_round == self.rules.round else Verdict.TAKEN

    def _end_round(self) -> Verdict:
        state = self.state
        verdict: Verdict = self._body.judge(self.rules, state)
        if verdict is Verdict.BETTER:
            state.active = state.shadow.copy()
        elif verdict is Verdict.REVERTED:
            self.revert()
        state.in_round, state.sums = 0, np.zeros_like(state.sums)
        self._body.propose(self.rules, state)
        return verdict

    def correct(self, features: np.ndarray) -> np.float32:
        """What is to be added to the value, scaled, for features [n]."""
        correction: np.float32 = self._body.correction(self.rules, self.state.active, np.asarray(features, np.float32))
        return correction

    def accept(self) -> None:
        """The candidate that all pairs so far give takes over without a judge; a round begins anew."""
        self._body.propose(self.rules, self.state)
        self.state.active = self.state.shadow.copy()
        self.state.in_round, self.state.sums = 0, np.zeros_like(self.state.sums)

    def revert(self) -> None:
        """What was shipped holds again; what is remembered of the pairs stays."""
        self.state.active = np.zeros_like(self.state.active)

    @property
    def numbers(self) -> np.ndarray:
        """What holds: numbers of the value, of the inputs, of 1 [n]."""
        scale = 1.0 if self.state.active.dtype == np.float32 else 2.0**-learner_fixed.NUMBER_BITS
        return self.state.active.astype(np.float64) * scale

    def store(self) -> bytes:
        """The state as a blob."""
        return self.state.store(self._mark, self.identity)

    def restore(self, blob: bytes) -> None:
        """Go on from a blob; one that is damaged or of another calibrator is refused."""
        self.state.restore(blob, self._mark, self.identity, self.rules)
