"""The vectors of `scare_self_test`: windows made from seeds, and what the exported plan gives for them.

    Plan -> make_self_test -> SelfTest -> c_source.py

A board makes the same windows (runtime/src/scare_self_test.c), so only seeds and results take flash.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from scare.calibrator.plan import Plan, run
from scare.errors import DataError
from scare.export.c_source import SelfTest

VECTORS = 4
MOST_SEEDS = 100  # tried, until enough give a result that does not depend on rounding
DECAY, UNIT, FULL = 16, 65536, 32767  # of the walk in scare_self_test.c; largest number of steps
FLOAT_TOLERANCE, INTEGER_TOLERANCE = 1e-4, 1e-6  # of scaled results, relative to those above 1
ROUNDING_SHARE = 0.1  # of the tolerance: largest difference between float32 and double precision


def make_self_test(plan: Plan, quanta: Sequence[float]) -> SelfTest:
    """Choose seeds and compute the plan's scaled results.

    `quanta` are the steps of an int16 window per scaled unit, by channel; empty in float32.
    """
    tolerance = INTEGER_TOLERANCE if quanta else FLOAT_TOLERANCE
    by_seed = dict(islice(_stable_results(plan, quanta, ROUNDING_SHARE * tolerance), VECTORS))
    if not by_seed:
        raise DataError("the model's results are infinite or NaN; only finite ones can be exported")
    largest = max(1.0, *map(abs, by_seed.values()))
    return SelfTest(tuple(by_seed), tuple(by_seed.values()), tolerance * largest)


def seeded_window(seed: int, plan: Plan, quanta: Sequence[float]) -> np.ndarray:
    """Make the scaled window [window, channels] of a seed: a random walk that keeps returning to zero."""
    numbers, walk = np.empty((plan.window, plan.channels), np.float32), 0
    for row in range(plan.window):
        for channel in range(plan.channels):
            seed = (seed * 1664525 + 1013904223) % 2**32  # a linear congruential generator (Numerical Recipes)
            walk += (seed >> 16) - 32768 - int(walk / DECAY)  # the upper 16 bits, centred: the lower ones are poor
            if quanta:  # walk · quantum / UNIT in integers, as in C: every division rounds towards zero
                steps = int(int(walk / 256) * int(quanta[channel]) / 256)  # in two parts, to stay within 32 bits
                numbers[row, channel] = np.float32(np.clip(steps, -FULL, FULL)) / np.float32(quanta[channel])
            else:
                numbers[row, channel] = walk / UNIT
    return numbers


def _stable_results(plan: Plan, quanta: Sequence[float], rounding: float) -> Iterator[tuple[int, float]]:
    """Yield seeds with their results, without those that are not finite or depend on rounding, such as hash ties."""
    precise_plan = plan if quanta else plan.astype(np.float64)
    for seed in range(1, MOST_SEEDS):
        window = seeded_window(seed, plan, quanta)[None]
        with np.errstate(all="ignore"):
            result = float(run(plan, window)[0])
            precise = float(run(precise_plan, window if quanta else window.astype(np.float64))[0])
        if abs(result - precise) <= rounding * max(1.0, abs(precise)):  # false if one is NaN
            yield seed, result
