"""Parity: how far two runtimes may differ on the same window, and which hash bits are too close to zero to compare.

The rules of the certificate (docs/certificate.md):

    float32        a result may differ by 10⁻⁵ of the larger of itself and the target's standard deviation, or by twice
                   the error that float32 makes in NumPy: a target that is small beside a model's inner values cannot
                   be computed to 10⁻⁵ of itself
    fixed point    every bit is equal, except for the conversion to the target's unit, which is in float
    int8 weights   as in a FlatBuffer: a result may move by 2 % of the target's standard deviation

A hash activation next to zero may have either sign, and a decision next to its threshold may choose either branch.
Goes to `export/scare_json` (golden vectors) and `board/certificate`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step, run, values
from scare.kernels import ACTIVATIONS, THRESHOLD

FLOAT32_TOLERANCE = 1e-5  # of the larger of a result and the target's standard deviation
INTEGER_TOLERANCE = 1e-6  # as above, where all but the conversion to the target's unit is integer
INTEGER_WEIGHTS_TOLERANCE = 0.02  # of the standard deviation, where only the weights are integer
ROUNDINGS = 2.0  # times the largest error of float32 in NumPy, which a result may be off if that is more
READING_TOLERANCE = 1e-6  # of the larger of a scaled reading and 1: how far a board's may be from NumPy's
TIE = 1e-4  # a hash activation closer to zero may change its sign between arithmetics
TOKENS = 10_000  # one hash code may differ in every 10,000 tokens, or fewer


@dataclass(frozen=True)
class Tolerance:
    """The float32 rule for results in one unit, in which all its numbers are."""

    deviation: float  # the target's standard deviation
    unit: float  # one of the target's physical unit
    center: float = 0.0  # of the target's scaling
    rounding: float = 0.0  # largest error of float32 in NumPy, against float64, on the model's own windows

    def strict(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Whether results [n] with these differences [n] are within 10⁻⁵, bool [n]."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.shares(results, differences) <= FLOAT32_TOLERANCE)

    def met(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Whether results are within 10⁻⁵ or within what float32 rounds in NumPy, bool [n]."""
        with np.errstate(invalid="ignore"):
            return self.strict(results, differences) | (differences <= ROUNDINGS * self.rounding)

    def shares(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Differences [n] relative to the magnitudes of their results."""
        with np.errstate(invalid="ignore"):
            return differences / magnitudes(results, results - self.center, self.deviation)


def magnitudes(results: np.ndarray, from_center: np.ndarray, deviation: float) -> np.ndarray:
    """The largest of a result, its distance from the center, and the deviation: differences are relative to it [n]."""
    return np.maximum(np.abs(results), np.abs(from_center)).clip(min=deviation)


def max_code_mismatches(tokens: int) -> int:
    """How many of these tokens may have a different hash code on two runtimes.

    >>> max_code_mismatches(0), max_code_mismatches(1), max_code_mismatches(10_001)
    (0, 1, 2)
    """
    return -(-tokens // TOKENS)


def deviation(calibrator: Calibrator) -> float:
    """The target's standard deviation in scaled units; 1 if the scaling divides by it, or if it is unknown."""
    scaling, numbers = calibrator.inputs.scaling, calibrator.validation.numbers
    if scaling.method == "standard" or len(numbers) < 2:
        return 1.0
    return float(np.std(numbers) / scaling.target.scale[0]) or 1.0


def rounding(calibrator: Calibrator) -> float:
    """The largest error of float32 in NumPy on the model's own windows whose hash codes agree, in scaled units."""
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    if not len(windows) or calibrator.plan.branches is not None:
        return 0.0
    names = {step.output for step in hash_steps(calibrator.plan)}
    last = calibrator.plan.steps[-1].output
    single = values(calibrator.plan, windows, {last, *names})
    double = values(calibrator.plan.astype(np.float64), windows.astype(np.float64), {last, *names})
    alike = np.ones(len(windows), bool)
    for name in names:
        alike &= (single[name] == double[name]).all(axis=1)
    return float(np.abs(single[last] - double[last])[alike].max(initial=0.0))


def hash_steps(plan: Plan) -> list[Step]:
    """The steps of a plan that make hash codes: bits that are signs."""
    return [step for step in plan.steps if step.kernel in ACTIVATIONS]


def distances_to_ties(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> Iterator[np.ndarray]:
    """Yield, for each hash step, how far its activations are from zero, where a sign flips [n, tokens, bits]."""
    steps = list(steps)
    if not steps:
        return
    sources = values(plan, windows, {step.inputs[0] for step in steps})
    for step in steps:
        yield np.abs(ACTIVATIONS[step.kernel](sources[step.inputs[0]], step.weights, step.settings))


def nearest_to_tie(plan: Plan, windows: np.ndarray) -> np.ndarray:
    """Distance of each window's decision from its threshold, or of its closest hash activation from zero [n].

    Infinite for a plan with neither.
    """
    if plan.branches is not None:
        return np.abs(run(plan.branches[0], windows) - THRESHOLD)
    nearest = np.full(len(windows), np.inf)
    for distances in distances_to_ties(plan, windows, hash_steps(plan)):
        nearest = np.minimum(nearest, distances.min(axis=(1, 2)))
    return nearest


def share_of_ties(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> float | None:
    """The share of hash activations to which another arithmetic might give the other sign; None if there are none."""
    near = [(distances < TIE).ravel() for distances in distances_to_ties(plan, windows, steps)]
    return float(np.mean(np.concatenate(near))) if near and len(windows) else None
