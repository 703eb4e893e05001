"""Ridge regression on the whole window: a closed form, and the least any linear network should reach."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.readings import Channel, Readings
from scare.models.ridge import PENALTIES, Moments, squared_errors
from scare.training.examples import Examples, make_examples
from scare.training.preparation import check_examples
from scare.windowing.feeding import Inputs
from scare.windowing.slicing import ANY

GOLDEN = 64  # windows stored with their outputs
PART_BYTES = 1 << 26  # of windows in float64, held at once
MOST_PRODUCTS = 4e11  # multiplications in the normal equations: more examples are thinned evenly


def window_ridge(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel
) -> Calibrator:
    """Ridge on all readings of the window, its penalty chosen on validation: flatten and one dense step."""
    examples, held = make_both(train, validation, inputs)
    size = inputs.window * len(inputs.channels)
    moments = Moments.of(_parts(examples, examples.spread(int(MOST_PRODUCTS / size**2))), size)
    solutions = [moments.solve(penalty) for penalty in PENALTIES]
    best = int(np.argmin(squared_errors(_parts(held, np.arange(len(held))), solutions)))
    weights, bias = solutions[best]
    parts = {"weight": weights[:, None].astype(np.float32), "bias": np.array([bias], np.float32)}
    steps = Step("flatten", (INPUT,), "flat"), Step("dense", ("flat",), "y", parts)
    plan = Plan(inputs.window, len(inputs.channels), steps)
    cost, golden = count(plan), held.windows(held.spread(GOLDEN))
    facts = {"model": "ridge", "penalty": PENALTIES[best], "parameters": cost.weights, "bytes": cost.weight_bytes}
    none = Sample(golden[:0], np.empty(0))
    outputs = Calibrator(plan, inputs, target, none, none).compute(golden)
    return Calibrator(plan, inputs, target, Sample(golden, outputs), none, facts)


def make_both(train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs) -> tuple[Examples, Examples]:
    """The examples of training, short windows among them, and of validation; refused where one of them has none."""
    learning = replace(inputs, policy=ANY)
    examples, held = make_examples(train, learning), make_examples(validation, inputs)
    check_examples(examples, train, learning, "training")
    check_examples(held, validation, inputs, "validation")
    return examples, held


def _parts(examples: Examples, which: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Flat windows [n, window·channels] and targets [n], few enough at a time."""
    rows = max(1, PART_BYTES // (8 * examples.window * examples.series.shape[1]))
    for start in range(0, len(which), rows):
        chosen = which[start : start + rows]
        yield examples.windows(chosen).reshape(len(chosen), -1), examples.targets[chosen]
