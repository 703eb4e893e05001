"""A plan is a short straight list of kernel calls with their weights: the one form of a trained model.

`models` write it, `fold` shortens it, `cost` counts it, `bundle` stores it, and `run` computes it. It reads a
scaled window `x` [window, channels] and its last step gives the scaled target [1].

A plan may end in one `select` of two branches. `run` then computes the branch that is chosen and not the other; in a
stream the choice is carried from window to window.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from scare.kernels import FLOAT_KERNELS, INPUT, KERNELS, BatchChoice, Choice, Shape, Step, choose, expect

SELECT = "select"
AT_ONCE = 1 << 25  # numbers that windows computed at once may become


@dataclass(frozen=True)
class Plan:
    """Steps from a window [window, channels] to one number; checked when made.

    >>> weight = np.array([[2.0], [0.5]])
    >>> plan = Plan(3, 2, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": weight})))
    >>> run(plan, np.ones((4, 3, 2)))
    array([2.5, 2.5, 2.5, 2.5])
    """

    window: int
    channels: int
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        expect(self.window >= 1 and self.channels >= 1, "the window")
        expect(bool(self.steps) and self.shapes[self.steps[-1].output] == (1,), "the last step")
        if any(step.kernel == SELECT for step in self.steps[:-1]):
            raise ValueError("select is not the last step")

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Shape of every value by name, without the batch."""
        shapes: dict[str, Shape] = {INPUT: (self.window, self.channels)}
        for step in self.steps:
            if step.kernel not in KERNELS:
                raise ValueError(f"no kernel called '{step.kernel}'") from FLOAT_KERNELS.missing(step.kernel)
            unknown = [name for name in step.inputs if name not in shapes]
            if unknown or step.output in shapes:
                raise ValueError(f"{step.kernel} reads {unknown} or writes '{step.output}' twice")
            inputs = [shapes[name] for name in step.inputs]
            shapes[step.output] = KERNELS[step.kernel].shape(*inputs, step.weight_shapes, step.settings)
        return shapes

    @cached_property
    def numbers(self) -> int:
        """How many numbers one window becomes: all values, and the most that a kernel holds besides."""
        scratch = [
            KERNELS[step.kernel].scratch(
                *(self.shapes[name] for name in step.inputs), step.weight_shapes, step.settings
            )
            for step in self.steps
        ]
        return sum(map(prod, self.shapes.values())) + max(scratch)

    def readers(self, name: str) -> list[Step]:
        """The steps that read a value."""
        return [step for step in self.steps if name in step.inputs]

    def leading_to(self, *names: str) -> tuple[Step, ...]:
        """The steps that these values need."""
        needed, kept = set(names), []
        for step in reversed(self.steps):
            if step.output in needed:
                needed |= set(step.inputs)
                kept.append(step)
        return tuple(reversed(kept))

    @cached_property
    def branches(self) -> "tuple[Plan, Plan, Plan] | None":
        """Decision, simple branch and deep branch of a plan that ends in `select`, each a plan; else None."""
        last = self.steps[-1]
        if last.kernel != SELECT:
            return None
        decision, simple, deep = (replace(self, steps=self.leading_to(name)) for name in last.inputs)
        return decision, simple, deep

    def astype(self, number: type[np.floating]) -> "Plan":
        """The same plan with its real weights in another number type."""
        return replace(self, steps=tuple(_astype(step, number) for step in self.steps))


def run(plan: Plan, windows: np.ndarray, choice: Choice | BatchChoice | None = None) -> np.ndarray:
    """The plan's output for scaled windows [batch, window, channels]: [batch].

    Where the plan chooses a branch, each window chooses for itself, unless the windows are those of a stream, oldest
    first, or one of each of many streams: then `choice` is what the streams carry.
    """
    if plan.branches is None:
        return values(plan, windows, {plan.steps[-1].output})[plan.steps[-1].output][:, 0]
    decision, simple, deep = plan.branches
    chosen = choose(run(decision, windows), plan.steps[-1].settings, choice)
    outputs = run(simple, windows[~chosen])
    everything = np.empty(len(windows), outputs.dtype)
    everything[~chosen], everything[chosen] = outputs, run(deep, windows[chosen])
    return everything


def deep_share(plan: Plan, windows: np.ndarray) -> float:
    """The share of windows, each asked for itself, that choose the deep branch; 1 where there is nothing to choose."""
    if plan.branches is None or not len(windows):
        return 1.0
    return float(choose(run(plan.branches[0], windows), plan.steps[-1].settings).mean())


def values(plan: Plan, windows: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
    """The values named in `wanted`, each with the batch in front; others are dropped once read."""
    batch = max(1, AT_ONCE // plan.numbers)
    if len(windows) > batch:
        parts = [_values(plan, windows[start : start + batch], wanted) for start in range(0, len(windows), batch)]
        return {name: np.concatenate([part[name] for part in parts]) for name in wanted}
    return _values(plan, windows, wanted)


def _values(plan: Plan, windows: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
    """Like `values`, for windows that are computed at once."""
    last_reader = {name: index for index, step in enumerate(plan.steps) for name in step.inputs}
    computed = {INPUT: windows}
    for index, step in enumerate(plan.steps):
        inputs = [computed[name] for name in step.inputs]
        computed[step.output] = KERNELS[step.kernel].run(*inputs, step.weights, step.settings)
        for name in set(step.inputs) - wanted:
            if last_reader[name] == index:
                del computed[name]
    return {name: computed[name] for name in wanted}


def _astype(step: Step, number: type[np.floating]) -> Step:
    def convert(weight: np.ndarray) -> np.ndarray:
        return weight.astype(number) if weight.dtype.kind == "f" else weight

    return replace(step, weights={name: convert(weight) for name, weight in step.weights.items()})
