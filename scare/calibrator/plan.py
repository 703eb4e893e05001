"""A plan is a short straight list of kernel calls with their weights: the one form of a trained model.

`models` write it, `plan_passes` shorten it, `cost` counts it, `bundle` stores it, and `run` computes it. It reads a
scaled window `x` [window, channels], and its last step gives the scaled target [1].

A plan may end in one `select` between a simple and a deep branch. `run` then computes only the branch that is chosen;
in a stream the choice is carried from window to window.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from scare.kernels import FLOAT_KERNELS, INPUT, KERNELS, BatchChoice, Choice, Shape, Step, choose, expect

SELECT = "select"  # kernel that chooses between the outputs of two branches
BATCH_NUMBERS = 1 << 25  # limits memory: most numbers, over all steps, of the windows computed at once


@dataclass(frozen=True)
class Plan:
    """Steps from a window [window, channels] to one number; names and shapes are checked on construction.

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
        """Shape of every value by name, without the batch axis."""
        shapes: dict[str, Shape] = {INPUT: (self.window, self.channels)}
        for step in self.steps:
            if step.kernel not in KERNELS:  # the cause tells a developer where to add it
                raise ValueError(f"no kernel called '{step.kernel}'") from FLOAT_KERNELS.missing(step.kernel)
            unknown = [name for name in step.inputs if name not in shapes]
            if unknown or step.output in shapes:
                raise ValueError(f"{step.kernel} reads {unknown} or writes '{step.output}' twice")
            inputs = [shapes[name] for name in step.inputs]
            shapes[step.output] = KERNELS[step.kernel].shape(*inputs, step.weight_shapes, step.settings)
        return shapes

    @cached_property
    def numbers(self) -> int:
        """Memory for one window, in numbers: the values of all steps, and the largest scratch memory of a kernel."""
        scratch = [
            KERNELS[step.kernel].scratch(
                *(self.shapes[name] for name in step.inputs), step.weight_shapes, step.settings
            )
            for step in self.steps
        ]
        return sum(map(prod, self.shapes.values())) + max(scratch)

    def readers(self, name: str) -> list[Step]:
        """Return the steps that read a value."""
        return [step for step in self.steps if name in step.inputs]

    def leading_to(self, *names: str) -> tuple[Step, ...]:
        """Return the steps that these values depend on, in order."""
        needed = set(names)
        last_first = []
        for step in reversed(self.steps):
            if step.output in needed:
                needed |= set(step.inputs)
                last_first.append(step)
        return tuple(reversed(last_first))

    @cached_property
    def branches(self) -> "tuple[Plan, Plan, Plan] | None":
        """Decision, simple branch and deep branch, each as a plan; None if the plan does not end in `select`."""
        last = self.steps[-1]
        if last.kernel != SELECT:
            return None
        decision, simple, deep = (replace(self, steps=self.leading_to(name)) for name in last.inputs)
        return decision, simple, deep

    def astype(self, number: type[np.floating]) -> "Plan":
        """Convert the real weights to another number type; integer weights stay."""

        def converted(weight: np.ndarray) -> np.ndarray:
            return weight.astype(number) if weight.dtype.kind == "f" else weight

        return replace(
            self,
            steps=tuple(
                replace(step, weights={name: converted(weight) for name, weight in step.weights.items()})
                for step in self.steps
            ),
        )


def run(plan: Plan, windows: np.ndarray, choice: Choice | BatchChoice | None = None) -> np.ndarray:
    """Compute the plan's output [batch] for scaled windows [batch, window, channels].

    Where the plan chooses a branch, each window chooses for itself by default. For windows of one stream, oldest first,
    pass the stream's `Choice`; for one window of each of many streams, their `BatchChoice`. Either is updated.
    """
    if plan.branches is None:
        return values(plan, windows, {plan.steps[-1].output})[plan.steps[-1].output][:, 0]
    decision, simple, deep = plan.branches
    is_deep = choose(run(decision, windows), plan.steps[-1].settings, choice)  # the windows that the deep branch gets
    of_simple = run(simple, windows[~is_deep])
    outputs = np.empty(len(windows), of_simple.dtype)
    outputs[~is_deep], outputs[is_deep] = of_simple, run(deep, windows[is_deep])
    return outputs


def deep_share(plan: Plan, windows: np.ndarray) -> float:
    """Measure the share of windows that choose the deep branch, each for itself; 1 for a plan without branches."""
    if plan.branches is None or not len(windows):
        return 1.0
    return float(choose(run(plan.branches[0], windows), plan.steps[-1].settings).mean())


def values(plan: Plan, windows: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
    """Compute the values named in `wanted`, each with the batch axis first.

    To save memory, other values are dropped after the last step that reads them, and large batches are split.
    """
    batch = max(1, BATCH_NUMBERS // plan.numbers)
    if len(windows) > batch:
        parts = [values(plan, windows[start : start + batch], wanted) for start in range(0, len(windows), batch)]
        return {name: np.concatenate([part[name] for part in parts]) for name in wanted}
    last_reader = {name: index for index, step in enumerate(plan.steps) for name in step.inputs}
    computed = {INPUT: windows}
    for index, step in enumerate(plan.steps):
        inputs = [computed[name] for name in step.inputs]
        computed[step.output] = KERNELS[step.kernel].run(*inputs, step.weights, step.settings)
        for name in set(step.inputs) - wanted:
            if last_reader[name] == index:
                del computed[name]
    return {name: computed[name] for name in wanted}
