"""Fold shortens a plan by exact algebra: fewer operations, the same function.

Each rule looks at one step and returns the steps that replace it, or None. A rewrite is kept only when the
plan's multiply-adds do not grow; steps whose value nobody reads any more are dropped. Comes from `models.plan()`,
goes to the calibrator.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scare.calibrator.cost import all_operations
from scare.calibrator.plan import Plan, Step

Rule = Callable[[Plan, Step], list[Step] | None]


def fold(plan: Plan) -> Plan:
    """The plan after all rules, applied until none shortens it.

    >>> narrow = Step("dense", ("flat",), "h", {"weight": np.full((3, 1), 2.0)})
    >>> wide = Step("dense", ("h",), "y", {"weight": np.full((1, 1), 5.0)})
    >>> folded = fold(Plan(3, 1, (Step("flatten", ("x",), "flat"), narrow, wide)))
    >>> [step.kernel for step in folded.steps], folded.steps[-1].weights["weight"].ravel()
    (['flatten', 'dense'], array([10., 10., 10.]))
    """
    plan = _without_unread(plan)
    while (shorter := _fold_once(plan)) is not None:
        plan = shorter
    return plan


def _fold_once(plan: Plan) -> Plan | None:
    price = _price(plan)
    for index, step in enumerate(plan.steps):
        for rule in RULES:
            new = rule(plan, step)
            if new is None:
                continue
            candidate = _without_unread(replace(plan, steps=(*plan.steps[:index], *new, *plan.steps[index + 1 :])))
            if _price(candidate) < price:
                return candidate
    return None


def _price(plan: Plan) -> tuple[int, int]:
    return all_operations(plan).multiply_adds, len(plan.steps)


def _without_unread(plan: Plan) -> Plan:
    """Drop steps that do not lead to the output."""
    needed, kept = {plan.steps[-1].output}, []
    for step in reversed(plan.steps):
        if step.output in needed:
            needed |= set(step.inputs)
            kept.append(step)
    return replace(plan, steps=tuple(reversed(kept)))


def _maker(plan: Plan, name: str, kernel: str) -> Step | None:
    """The step that makes a value, if it is of that kernel."""
    return next((step for step in plan.steps if step.output == name and step.kernel == kernel), None)


def _dense_of_dense(plan: Plan, step: Step) -> list[Step] | None:
    """(x W + b) V + c = x (W V) + (b V + c)."""
    if step.kernel != "dense" or (inner := _maker(plan, step.inputs[0], "dense")) is None:
        return None
    weights = {"weight": inner.weights["weight"] @ step.weights["weight"]}
    _add_bias(weights, inner.weights.get("bias"), step)
    return [replace(step, inputs=inner.inputs, weights=weights)]


def _dense_of_outer(plan: Plan, step: Step) -> list[Step] | None:
    """((t E + B) + s ⊗ g) V + c = (t (E V) + (B V + c)) + s ⊗ (g V): a token costs a few multiplications."""
    if step.kernel != "dense" or (outer := _maker(plan, step.inputs[0], "add_outer")) is None:
        return None
    if (inner := _maker(plan, outer.inputs[0], "dense")) is None:
        return None
    weights = {"weight": inner.weights["weight"] @ step.weights["weight"]}
    _add_bias(weights, inner.weights.get("bias"), step)
    rows, shared = f"{step.output}.rows", f"{step.output}.shared"
    return [
        Step("dense", inner.inputs, rows, weights),
        Step("dense", (outer.inputs[1],), shared, {"weight": step.weights["weight"]}),
        Step("add_outer", (rows, shared), step.output, outer.weights),
    ]


def _dense_of_flat_lens(plan: Plan, step: Step) -> list[Step] | None:
    """vec(Wᵀ x + b) V + c = vec(x) (W applied to V) + (b applied to V + c)."""
    if step.kernel != "dense" or (flat := _maker(plan, step.inputs[0], "flatten")) is None:
        return None
    if (lens := _maker(plan, flat.inputs[0], "lens")) is None:
        return None
    mix = lens.weights["weight"]  # [T, L]
    split = step.weights["weight"].reshape(mix.shape[1], -1, step.weights["weight"].shape[1])  # [L, D, O]
    weights = {"weight": np.einsum("tl,ldo->tdo", mix, split).reshape(-1, split.shape[2])}
    bias = step.weights.get("bias", np.zeros(split.shape[2], mix.dtype))
    weights["bias"] = bias + np.einsum("l,ldo->o", lens.weights.get("bias", np.zeros(mix.shape[1], mix.dtype)), split)
    flattened = f"{step.output}.{flat.output}"  # a new name each time: a lens may be folded onto a lens
    return [Step("flatten", lens.inputs, flattened), replace(step, inputs=(flattened,), weights=weights)]


def _add_bias(weights: dict[str, np.ndarray], inner: np.ndarray | None, step: Step) -> None:
    """Carry an inner bias through the outer step into `weights`."""
    if inner is not None:
        weights["bias"] = inner @ step.weights["weight"] + step.weights.get("bias", 0)
    elif "bias" in step.weights:
        weights["bias"] = step.weights["bias"]


RULES: tuple[Rule, ...] = (_dense_of_dense, _dense_of_outer, _dense_of_flat_lens)
