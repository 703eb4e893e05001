"""What a visit taught is the end of a plan: y ← y + a y + c · (newest scaled inputs) + b, in steps that can be dropped.

Every way a calibrator goes (predict, live, each export) reads the plan, so all of them have it. Comes from `upkeep`.
"""

from dataclasses import replace

import numpy as np

from scare.calibrator.plan import INPUT, SELECT, Plan, Step

PREFIX = "learned."  # of the names of its values
LEARNED, STATE = "learned", "learned_state"  # facts of it: for people, for the next visit


def with_learned(plan: Plan, numbers: np.ndarray) -> Plan:
    """The plan with `numbers` at its end: of the value, of the first inputs, of 1; instead of any that were there.

    >>> plan = Plan(3, 2, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": np.ones((2, 1))})))
    >>> [step.kernel for step in with_learned(plan, np.array([0.1, 0.0, 0.2, 0.5])).steps]
    ['newest', 'dense', 'newest', 'dense', 'dense', 'add']
    """
    plan = as_shipped(plan)
    if not np.any(numbers):
        return plan
    last = plan.steps[-1]
    if last.kernel != SELECT:
        return replace(plan, steps=(*plan.steps, *_steps(plan, last.output, numbers)))
    decision, *branches = last.inputs
    added = [_steps(plan, name, numbers) for name in branches]
    chosen = replace(last, inputs=(decision, *(steps[-1].output for steps in added)))
    return replace(plan, steps=(*plan.steps[:-1], *added[0], *added[1], chosen))


def as_shipped(plan: Plan) -> Plan:
    """The plan without what was learned since."""
    kept = tuple(step for step in plan.steps if not step.output.startswith(PREFIX))
    last = kept[-1]
    if last.kernel == SELECT:
        origins = tuple(name.removeprefix(PREFIX).removesuffix(".sum") for name in last.inputs)
        kept = (*kept[:-1], replace(last, inputs=origins))
    return replace(plan, steps=kept)


def _steps(plan: Plan, value: str, numbers: np.ndarray) -> tuple[Step, ...]:
    """The steps after one value."""
    skip = np.zeros((plan.channels, 1), np.float32)
    skip[: len(numbers) - 2, 0] = numbers[1:-1]
    own = {"weight": np.array([[1 + numbers[0]]], np.float32), "bias": numbers[-1:].astype(np.float32)}
    name = PREFIX + value
    return (
        Step("newest", (INPUT,), f"{name}.now"),
        Step("dense", (f"{name}.now",), f"{name}.skip", {"weight": skip}),
        Step("dense", (value,), f"{name}.own", own),
        Step("add", (f"{name}.own", f"{name}.skip"), f"{name}.sum"),
    )
