"""Fuse regroups a folded plan for a machine with little memory: the same operations, fewer and smaller values.

Each rule looks at one step and returns steps that replace it, and with it every step whose output they name, or None.
A rewrite is kept only when the plan's operations stay the same. At last the steps are put in the order that needs the
least memory at once. Comes from `fold`, goes to `export`.
"""

from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product
from math import prod

import numpy as np

from scare.calibrator.cost import all_operations
from scare.calibrator.plan import INPUT, Plan, Step
from scare.kernels import KERNELS
from scare.kernels.fused import ACTIVATIONS

Rule = Callable[[Plan, Step], list[Step] | None]

MOST = 5000  # sets of steps looked at for the best order; models need up to a thousand


def fuse(plan: Plan) -> Plan:
    """The plan after all rules, its steps in the order that needs the least memory.

    >>> few = Step("lens", ("x",), "few", {"weight": np.ones((5, 2))})
    >>> all_ = Step("dense", ("flat",), "all", {"weight": np.ones((5, 2))})
    >>> steps = [few, Step("flatten", ("x",), "flat"), all_, Step("flatten", ("few",), "own")]
    >>> steps += [Step("add", ("own", "all"), "sum"), Step("dense", ("sum",), "y", {"weight": np.ones((2, 1))})]
    >>> [step.kernel for step in fuse(Plan(5, 1, tuple(steps))).steps]
    ['flatten', 'dense', 'part', 'part', 'flatten', 'add', 'dense']
    """
    plan = _without_unread(plan)
    while (fewer := _fuse_once(plan)) is not None:
        plan = fewer
    if plan.branches is None:
        return _in_best_order(plan)
    ordered = {step.output: step for branch in plan.branches for step in _in_best_order(branch).steps}
    return replace(plan, steps=(*ordered.values(), plan.steps[-1]))


def _fuse_once(plan: Plan) -> Plan | None:
    for rule, step in product(RULES, plan.steps):
        new = rule(plan, step)
        if new is not None and all_operations(candidate := _with(plan, step, new)) == all_operations(plan):
            return candidate
    return None


def _with(plan: Plan, step: Step, new: list[Step]) -> Plan:
    """The plan with `new` in place of `step` and of all steps with an output among theirs; nothing unread."""
    named = {one.output for one in new}
    at = plan.steps.index(step)
    kept = [[one for one in part if one.output not in named] for part in (plan.steps[:at], plan.steps[at:])]
    return _without_unread(replace(plan, steps=(*kept[0], *new, *kept[1])))


def _without_unread(plan: Plan) -> Plan:
    return replace(plan, steps=plan.leading_to(plan.steps[-1].output))


def _maker(plan: Plan, name: str, *kernels: str) -> Step | None:
    """The step that makes a value, if it is of one of these kernels."""
    return next((step for step in plan.steps if step.output == name and step.kernel in kernels), None)


def _bias(step: Step, *shape: int) -> np.ndarray:
    """A step's bias, zero if it has none."""
    return np.broadcast_to(step.weights.get("bias", np.zeros((), step.weights["weight"].dtype)), shape)


def _stacked(plan: Plan, step: Step) -> list[Step] | None:
    """Linear steps that read the same numbers are one, their weights side by side: each number is touched once."""
    if (source := _linear_source(plan, step)) is None or plan.branches is not None:
        return None
    group = [one for one in plan.steps if _linear_source(plan, one) == source]
    if len(group) < 2:
        return None
    flat, stacked = f"{step.output}.flat", f"{step.output}.stacked"
    widths = [one.weights["weight"].shape[1] for one in group]
    weights = {
        "weight": np.concatenate([one.weights["weight"] for one in group], axis=1),
        "bias": np.concatenate([_bias(one, width) for one, width in zip(group, widths, strict=True)]),
    }
    starts = np.cumsum([0, *widths]).tolist()
    parts = [
        Step("part", (stacked,), one.output, settings={"start": start, "shape": list(plan.shapes[one.output])})
        for one, start in zip(group, starts, strict=False)
    ]
    return [Step("flatten", (source,), flat), Step("dense", (flat,), stacked, weights), *parts]


def _linear_source(plan: Plan, step: Step) -> str | None:
    """The value of which a step is a linear function into one vector, or None."""
    shape = plan.shapes[step.inputs[0]]
    if not (step.kernel == "dense" and len(shape) == 1) and not (step.kernel == "lens" and shape[1:] == (1,)):
        return None
    flat = _maker(plan, step.inputs[0], "flatten")
    return step.inputs[0] if flat is None else flat.inputs[0]


def _tokens(plan: Plan, step: Step) -> list[Step] | None:
    """(seen V + b) + s ⊗ (shared M): the two summands are never held."""
    if step.kernel != "add_outer" or (rows := _maker(plan, step.inputs[0], "dense")) is None:
        return None
    shape = plan.shapes[step.output]
    weights = {"local": rows.weights["weight"], "bias": _bias(rows, *shape), "share": step.weights["share"]}
    shared = step.inputs[1]
    mix = _maker(plan, shared, "dense")
    if mix is not None and "bias" not in mix.weights and len(plan.readers(shared)) == 1:
        shared, weights["mix"] = mix.inputs[0], mix.weights["weight"]
    return [Step("token_rows", (rows.inputs[0], shared), step.output, weights)]


def _feed_forward(plan: Plan, step: Step) -> list[Step] | None:
    """dense, activation, dense: the wide layer between them is never held."""
    if step.kernel != "dense" or (active := _maker(plan, step.inputs[0], *ACTIVATIONS)) is None:
        return None
    inner = _maker(plan, active.inputs[0], "dense")
    if inner is None or any(one.weights.get("bias", np.empty(0)).ndim > 1 for one in (inner, step)):
        return None
    weights = {}
    for name, one in (("inner", inner), ("outer", step)):
        weights[name] = one.weights["weight"]
        weights[f"{name}_bias"] = _bias(one, one.weights["weight"].shape[1])
    return [Step("feed_forward", inner.inputs, step.output, weights, {"activation": active.kernel})]


RULES: tuple[Rule, ...] = (_tokens, _feed_forward, _stacked)


def _in_best_order(plan: Plan) -> Plan:
    """The order with the smallest peak of live numbers; among equals that which holds less, then the plan's own.

    A search, smallest peak first, over the sets of steps that may be done already: few, since plans are almost chains.
    A plan that has too many keeps its order.
    """
    names = [step.output for step in plan.steps]
    needs = [{names.index(name) for name in step.inputs if name != INPUT} for step in plan.steps]
    sizes = [prod(plan.shapes[step.output]) * KERNELS[step.kernel].copies for step in plan.steps]
    queue: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    seen: set[frozenset[int]] = set()
    while len(queue[0][2]) < len(names) and len(seen) < MOST:
        peak, total, order = heappop(queue)
        done = frozenset(order)
        if done in seen:
            continue
        seen.add(done)
        held = _held(plan, done)
        for index in set(range(len(names))) - done:
            if needs[index] <= done:
                heappush(queue, (max(peak, held + sizes[index]), total + held, (*order, index)))
    found = queue[0][2]
    return replace(plan, steps=tuple(plan.steps[index] for index in found)) if len(found) == len(names) else plan


def _held(plan: Plan, done: frozenset[int]) -> int:
    """How many numbers must be kept once these steps are done: what the others read, through views too."""
    kept: set[str] = set()
    for index in reversed(range(len(plan.steps))):
        step = plan.steps[index]
        if index not in done or (step.output in kept and not KERNELS[step.kernel].copies):
            kept |= set(step.inputs)
    owned = {plan.steps[index].output for index in done if KERNELS[plan.steps[index].kernel].copies}
    return sum(prod(plan.shapes[name]) for name in kept & owned)
