"""Parity tolerance: how far the results of two runtimes (NumPy, C, TFLite …) may differ on the same window.

The rules of the certificate (docs/certificate.md):

    float32        within 10⁻⁵ of the larger of the result and the target's standard deviation; or, where rounding
                   inside the model is larger, within twice the error that NumPy itself makes in float32; windows with
                   larger numbers than the model's own have proportionally larger rounding
    fixed point    every bit is equal, except for the conversion to the target's unit, which is in float
    int8 weights   (TFLite) within 2 % of the target's standard deviation

A model also makes yes-or-no decisions: the sign of a hash activation, the side of a tree's threshold, the branch of a
choice. A number very close to such a limit is a tie: rounding may put it on either side, and the results then differ
by more than any tolerance. The decisions of hashes and trees are known as codes (`kernels.CODES`), one for each token
or tree. Results are compared where all codes are equal, and only one code in 10,000 may differ.

Used by `export/scare_json` (golden vectors) and `board/certificate`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step, run, values
from scare.kernels import ACTIVATIONS, CODES, THRESHOLD

FLOAT32_TOLERANCE = 1e-5  # as a share of the larger of a result and the target's standard deviation
INTEGER_TOLERANCE = 1e-6  # as above, where all but the conversion to the target's unit is integer
INTEGER_WEIGHTS_TOLERANCE = 0.02  # as a share of the standard deviation, where only the weights are integer
ROUNDINGS = 2.0  # times the largest error of float32 in NumPy: allowed where that is more
READING_TOLERANCE = 1e-6  # how far a board's scaled reading may be from NumPy's, as a share of the larger of it and 1
TIE = 1e-4  # a hash activation closer to zero, or a number closer to a threshold, may be decided either way
TOKENS = 10_000  # one code may differ per this many tokens, rounded up


@dataclass(frozen=True)
class Tolerance:
    """How far the float32 results of two runtimes may differ.

    All numbers are in the unit of the results, which may be scaled or physical.
    """

    deviation: float  # the target's standard deviation
    unit: float  # the size of one physical unit: 1 for physical results
    center: float = 0.0  # center of the target's scaling
    rounding: float = 0.0  # largest error of float32 in NumPy, against float64, on the model's own windows
    sizes: np.ndarray | float = 1.0  # how many times larger than in those the numbers of each result's window are, [n]

    def strict(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Whether the differences [n] of two runtimes are at most 10⁻⁵ of `magnitudes`, bool [n]."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.shares(results, differences) <= FLOAT32_TOLERANCE)

    def met(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Whether `strict` holds, or differences are within twice the rounding error of float32 in NumPy, bool [n].

        The rounding error of a sum grows with its terms: where large numbers cancel, it is large beside the result.
        """
        with np.errstate(invalid="ignore"):
            return self.strict(results, differences) | (differences <= ROUNDINGS * self.rounding * self.sizes)

    def shares(self, results: np.ndarray, differences: np.ndarray) -> np.ndarray:
        """Return the differences [n] relative to `magnitudes`."""
        with np.errstate(invalid="ignore"):
            return differences / magnitudes(results, results - self.center, self.deviation)


def magnitudes(results: np.ndarray, from_center: np.ndarray, deviation: float) -> np.ndarray:
    """Return what to divide the differences of two runtimes by: the largest of three sizes, for each result [n].

    They are the result, its distance to the center of the target's scaling (`from_center`) and the target's standard
    deviation.
    """
    return np.maximum(np.abs(results), np.abs(from_center)).clip(min=deviation)


def max_code_mismatches(tokens: int) -> int:
    """Return how many of these tokens may have different codes in two runtimes.

    >>> max_code_mismatches(0), max_code_mismatches(1), max_code_mismatches(10_001)
    (0, 1, 2)
    """
    return -(-tokens // TOKENS)  # rounded up


def deviation(calibrator: Calibrator) -> float:
    """Return the target's standard deviation in scaled units; 1 if the scaling divides by it, or if it is unknown."""
    scaling, numbers = calibrator.inputs.scaling, calibrator.validation.numbers
    if scaling.method == "standard" or len(numbers) < 2:
        return 1.0
    return float(np.std(numbers) / scaling.target.scale[0]) or 1.0  # 0: all references are equal


def rounding(calibrator: Calibrator) -> float:
    """Return the largest error of float32 against float64 in NumPy on the model's own windows, in scaled units.

    Left out are windows whose hash codes or tree paths differ between the two, as they take another way through the
    model. For the same reason it is 0 for a plan with branches.
    """
    plan, windows = calibrator.plan, np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    if not len(windows) or plan.branches is not None:
        return 0.0
    steps = coded_steps(plan)
    single, codes = outputs_and_codes(plan, windows, steps)
    double, precise_codes = outputs_and_codes(plan.astype(np.float64), windows.astype(np.float64), steps)
    equal_codes = (codes == precise_codes).all(axis=1)
    return float(np.abs(single - double)[equal_codes].max(initial=0.0))


def relative_sizes(calibrator: Calibrator, windows: np.ndarray) -> np.ndarray:
    """Return how many times larger the largest number of each window [n, …] is than in the model's own; at least 1."""
    own = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    largest = float(np.abs(own).max(initial=0.0)) or 1.0
    return np.asarray(np.abs(windows.astype(float)).max(axis=(1, 2)) / largest).clip(min=1.0)


def coded_steps(plan: Plan) -> list[Step]:
    """Return the steps of a plan whose results depend on codes: hashes, and the paths through trees."""
    return [step for step in plan.steps if step.kernel in CODES]


def outputs_and_codes(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> tuple[np.ndarray, np.ndarray]:
    """Compute a plan's outputs [n], and the hash codes or tree paths of these steps, side by side [n, tokens].

    The steps are found by the names of their outputs, because they may be of the same plan in another number type.
    """
    last, names = plan.steps[-1].output, {step.output for step in steps}
    coded = [step for step in plan.steps if step.output in names]
    computed = values(plan, windows, {last, *(step.inputs[0] for step in coded)})
    codes = [CODES[step.kernel].read(computed[step.inputs[0]], step.weights, step.settings) for step in coded]
    no_codes = np.empty((len(windows), 0), np.uint32)  # for a plan without such steps
    return computed[last][:, 0], np.concatenate([no_codes, *codes], axis=1)


def hash_steps(plan: Plan) -> list[Step]:
    """Return the steps of a plan that make hash codes, whose bits are the signs of activations."""
    return [step for step in plan.steps if step.kernel in ACTIVATIONS]


def distances_to_ties(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> Iterator[np.ndarray]:
    """Yield, for each step with codes, how far each of their bits is from a tie [n, tokens, bits].

    A tie is where the bit changes: at a hash activation of 0, or at a tree's threshold.
    """
    steps = list(steps)
    if not steps:
        return
    sources = values(plan, windows, {step.inputs[0] for step in steps})
    for step in steps:
        yield np.abs(CODES[step.kernel].margins(sources[step.inputs[0]], step.weights, step.settings))


def nearest_to_tie(plan: Plan, windows: np.ndarray) -> np.ndarray:
    """Return how far each window's closest yes-or-no decision is from its limit, where rounding may change it [n].

    That is the choice of a branch or, without branches, a bit of a hash code or the side of a tree's threshold.
    Infinite for a plan without decisions.
    """
    if plan.branches is not None:
        return np.abs(run(plan.branches[0], windows) - THRESHOLD)
    nearest = np.full(len(windows), np.inf)
    for distances in distances_to_ties(plan, windows, coded_steps(plan)):
        nearest = np.minimum(nearest, distances.min(axis=(1, 2)))
    return nearest


def share_of_ties(plan: Plan, windows: np.ndarray, steps: Iterable[Step]) -> float | None:
    """Return the share of code bits that are so close to a tie that another arithmetic may decide them differently.

    None if there are no codes or no windows.
    """
    # A comparison that a tree does not use is infinitely far from a tie, and is not counted.
    is_near = [distances[np.isfinite(distances)] < TIE for distances in distances_to_ties(plan, windows, steps)]
    return float(np.mean(np.concatenate(is_near))) if is_near and len(windows) else None
