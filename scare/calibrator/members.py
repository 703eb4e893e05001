"""Members: several plans become one whose output is the mean of theirs. What is the same in them is done once.

Plans of one model that read the window through the same hats share that pass; `fold` and `fuse` join the rest as far as
it goes. Comes from `training`, goes to `fold`.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scare.calibrator.plan import INPUT, SELECT, Plan, Step


def average(plans: Sequence[Plan]) -> Plan:
    """The plan that gives the mean of what these give for the same window.

    >>> newest, weight = Step("newest", ("x",), "now"), np.array([[2.0]])
    >>> plans = [Plan(3, 1, (newest, Step("dense", ("now",), "y", {"weight": size * weight}))) for size in (1, 3)]
    >>> [step.kernel for step in average(plans).steps]
    ['newest', 'dense', 'dense', 'dense', 'dense', 'add']
    """
    if len(plans) == 1:
        return plans[0]
    if any(plan.steps[-1].kernel == SELECT for plan in plans):
        raise ValueError("plans that choose a branch have no mean")
    steps: list[Step] = []
    outputs = Counter(_join(steps, plan, index) for index, plan in enumerate(plans))
    if len(outputs) == 1:
        return Plan(plans[0].window, plans[0].channels, tuple(steps))
    mean = ""
    for index, (output, count) in enumerate(outputs.items()):
        share = np.full((1, 1), count / len(plans), _number(plans[0]))
        steps.append(Step("dense", (output,), f"share.{index}", {"weight": share}))
        if index:
            steps.append(Step("add", (mean, f"share.{index}"), f"mean.{index}"))
        mean = steps[-1].output
    return Plan(plans[0].window, plans[0].channels, tuple(steps))


def _join(steps: list[Step], plan: Plan, index: int) -> str:
    """Add the steps of a plan that are not there yet; the name of its output."""
    names = {INPUT: INPUT}
    for step in plan.steps:
        inputs = tuple(names[name] for name in step.inputs)
        own = Step(step.kernel, inputs, f"{step.output}.{index}", step.weights, step.settings)
        known = next((other for other in steps if _same(other, own)), None)
        names[step.output] = known.output if known is not None else own.output
        if known is None:
            steps.append(own)
    return names[plan.steps[-1].output]


def _same(one: Step, other: Step) -> bool:
    """Whether two steps compute the same."""
    if (one.kernel, one.inputs, dict(one.settings)) != (other.kernel, other.inputs, dict(other.settings)):
        return False
    return one.weights.keys() == other.weights.keys() and all(
        np.array_equal(weight, other.weights[name]) for name, weight in one.weights.items()
    )


def _number(plan: Plan) -> type[np.floating]:
    """The number type of the real weights."""
    kinds = [weight.dtype.type for step in plan.steps for weight in step.weights.values() if weight.dtype.kind == "f"]
    return kinds[0] if kinds else np.float32
