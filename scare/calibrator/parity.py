"""Parity: how far two runtimes may be apart on the same window, and which hash bits are too close to zero to count on.

The rule is that of the certificate (docs/certificate.md). In float32 a result is within 10⁻⁵ of the larger of itself
and the target's standard deviation, or within twice what float32 rounds in NumPy itself: where a target is small beside
the numbers within a model, 10⁻⁵ of it is less than they can tell. In fixed point everything is equal in
every bit, but for the target's unit where it is real. Weights in int8 alone, as a FlatBuffer has them, may move a
result by 2 % of the standard deviation. A hash activation as good as zero may have either sign, a choice as good as
undecided be either.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step, run, values
from scare.kernels import ACTIVATIONS, THRESHOLD

FLOAT32_TOLERANCE = 1e-5  # how far off a result may be, of the larger of itself and the target's standard deviation
INTEGER_TOLERANCE = 1e-6  # the same where all but the target's unit is integer
INTEGER_WEIGHTS_TOLERANCE = 0.02  # of the standard deviation, where only weights are
ROUNDINGS = 2.0  # times the largest error of float32 in NumPy that a result may be off, if that is more
READING_TOLERANCE = 1e-6  # how far a scaled reading of a board may be from NumPy's, of the larger of itself and 1
TIE = 1e-4  # a hash activation nearer to zero may change its sign between arithmetics
TOKENS = 10_000  # of every so many, begun, one may have another hash code


@dataclass(frozen=True)
class Tolerance:
    """The rule of float32 for results in one unit: the target's standard deviation, its unit and center in it.

    `rounding` is the largest error that float32 makes in NumPy, against double precision, on the model's own windows.
    """

    deviation: float
    unit: float
    center: float = 0.0
    rounding: float = 0.0

    def strict(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Which results [n], so far off, are within 10⁻⁵."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.shares(results, differences) <= FLOAT32_TOLERANCE)

    def met(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Those, and the ones that are within what float32 rounds in NumPy, [n]."""
        with np.errstate(invalid="ignore"):
            return self.strict(results, differences) | (differences <= ROUNDINGS * self.rounding)

    def shares(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Differences [n], each as a share of what it is judged by."""
        with np.errstate(invalid="ignore"):
            return differences / magnitudes(results, results - self.center, self.deviation)


def magnitudes(results: np.ndarray, from_center: np.ndarray, deviation: float) -> np.ndarray:
    """What differences are judged by [n]: the largest of a result, its distance from the center, the deviation."""
    return np.maximum(np.abs(results), np.abs(from_center)).clip(min=deviation)


def most_unlike(tokens: int) -> int:
    """How many of so many tokens may have another hash code.

    >>> most_unlike(0), most_unlike(1), most_unlike(10_001)
    (0, 1, 2)
    """
    return -(-tokens // TOKENS)


def deviation(calibrator: Calibrator) -> float:
    """The target's standard deviation, scaled: 1 where it is scaled by it, or where it is not known."""
    scaling, numbers = calibrator.inputs.scaling, calibrator.validation.numbers
    if scaling.method == "standard" or len(numbers) < 2:
        return 1.0
    return float(np.std(numbers) / scaling.target.scale[0]) or 1.0


def rounding(calibrator: Calibrator) -> float:
    """The largest error of float32 in NumPy on the model's own windows, scaled, where hash codes agree."""
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
    """The steps of a plan that take signs."""
    return [step for step in plan.steps if step.kernel in ACTIVATIONS]


def distances_to_ties(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> Iterator[np.ndarray]:
    """How far what each hash step takes the signs of is from zero, [n, tokens, bits]."""
    steps = list(steps)
    if not steps:
        return
    sources = values(plan, windows, {step.inputs[0] for step in steps})
    for step in steps:
        yield np.abs(ACTIVATIONS[step.kernel](sources[step.inputs[0]], step.weights, step.settings))


def nearest_to_tie(plan: Plan, windows: np.ndarray) -> np.ndarray:
    """How far the hash activation nearest to zero is from it, or a choice from its threshold, [n]; else infinity."""
    if plan.branches is not None:
        return np.abs(run(plan.branches[0], windows) - THRESHOLD)
    nearest = np.full(len(windows), np.inf)
    for distances in distances_to_ties(plan, windows, hash_steps(plan)):
        nearest = np.minimum(nearest, distances.min(axis=(1, 2)))
    return nearest


def share_of_ties(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> float | None:
    """The share of the hash activations that another arithmetic might give the other sign; None without any."""
    near = [(distances < TIE).ravel() for distances in distances_to_ties(plan, windows, steps)]
    return float(np.mean(np.concatenate(near))) if near and len(windows) else None
