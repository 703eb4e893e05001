"""Compiler passes over plans.

    fold          the same function with fewer multiply-adds, by exact algebra
    fuse          the same operations with fewer and smaller values, in the order that needs the least memory at once
    average       the mean of several plans (an ensemble) as one plan, shared steps done once
    add_plans     the sum of several plans
    with_effect   the plan plus what one device adds to its output
    narrow        the plan without history and channels that it does not use
    with_learned  a learned correction at the end: y ← y + a y + c · (newest scaled inputs) + b

`training` averages, adds, folds and narrows the plans of `models`; `upkeep` adds corrections; `export` fuses.

A rule of `fold` or `fuse` looks at one step and returns the steps that replace it, or None if it does not apply.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product
from math import prod

import numpy as np

from scare.calibrator.cost import all_operations
from scare.calibrator.plan import INPUT, SELECT, Plan, Step
from scare.kernels import KERNELS
from scare.kernels.fused import ACTIVATIONS

Rewrite = Callable[[Plan, Step], list[Step] | None]

MAX_SEARCHED = 5000  # sets of steps searched for the best order; our models need up to a thousand
NEGLIGIBLE = 1e-6  # share of the largest weight: smaller weights are rounding
PREFIX = "learned."  # begins the names of a learned correction's values
LEARNED, STATE = "learned", "learned_state"  # facts about it: for people, and for the next co-location session
SHIPPED_INTERVALS = "shipped_intervals"  # fact: intervals before the first co-location session


def fold(plan: Plan) -> Plan:
    """Shorten a plan by exact algebra until no rule shortens it further; steps whose value is never read are dropped.

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
    """Apply the first rule that lowers the multiply-adds, or keeps them and saves a step; None if no rule does."""

    def cost(plan: Plan) -> tuple[int, int]:
        return all_operations(plan).multiply_adds, len(plan.steps)

    before = cost(plan)
    for index, step in enumerate(plan.steps):
        for rule in FOLD_RULES:
            new = rule(plan, step)
            if new is None:
                continue
            candidate = _without_unread(replace(plan, steps=(*plan.steps[:index], *new, *plan.steps[index + 1 :])))
            if cost(candidate) < before:
                return candidate
    return None


def _without_unread(plan: Plan) -> Plan:
    """Drop the steps that the output does not depend on."""
    return replace(plan, steps=plan.leading_to(plan.steps[-1].output))


def _maker(plan: Plan, name: str, *kernels: str) -> Step | None:
    """Find the step that computes a value, provided that it calls one of these kernels."""
    return next((step for step in plan.steps if step.output == name and step.kernel in kernels), None)


def _dense_of_dense(plan: Plan, step: Step) -> list[Step] | None:
    """Join two dense steps: (x W + b) V + c = x (W V) + (b V + c)."""
    if step.kernel != "dense" or (inner := _maker(plan, step.inputs[0], "dense")) is None:
        return None
    weights = {"weight": inner.weights["weight"] @ step.weights["weight"]}
    _add_bias(weights, inner.weights.get("bias"), step)
    return [replace(step, inputs=inner.inputs, weights=weights)]


def _dense_of_outer(plan: Plan, step: Step) -> list[Step] | None:
    """Move a dense step before an `add_outer`: ((t E + B) + s ⊗ g) V + c = (t (E V) + (B V + c)) + s ⊗ (g V).

    The wide product with V is then done once for g instead of once for every token.
    """
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
    """Fold a lens into the dense step that reads its flattened output: vec(Wᵀ x + b) V + c = vec(x) V' + c'.

    With V [L·D, O] seen as [L, D, O], V'[t, d, o] = Σ_l W[t, l] V[l, d, o] and c' = Σ_ld b[l] V[l, d] + c.
    """
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


def _dense_of_flat_sum(plan: Plan, step: Step) -> list[Step] | None:
    """Move a dense step before the flattened sum that it reads, if part of the sum comes from another dense step.

    The sum is a + b V + c, with a [L, D], b [L, H] and the inner dense step's weight V [H, D] and bias c. The step with
    weight U and bias d reads it flattened (vec): vec(a + b V + c) U + d = vec(a) U + vec(b) V' + c'. With U [L·D, O]
    seen as [L, D, O], V'[l, h, o] = Σ_d V[h, d] U[l, d, o] and c' = Σ_ld c[l, d] U[l, d] + d.
    """
    if step.kernel != "dense" or (flat := _maker(plan, step.inputs[0], "flatten")) is None:
        return None
    if (total := _maker(plan, flat.inputs[0], "add")) is None:
        return None
    other, made = total.inputs  # models add a residual in this order: the value first, then what a layer made of it
    if (inner := _maker(plan, made, "dense")) is None:
        return None
    weight = step.weights["weight"]
    shape = plan.shapes[made]  # [L, D]
    split = weight.reshape(-1, shape[-1], weight.shape[1])  # [L, D, O]
    joint = np.einsum("hd,ldo->lho", inner.weights["weight"], split).reshape(-1, weight.shape[1])
    bias = np.einsum("ld,ldo->o", _bias(inner, *shape).reshape(split.shape[:2]), split) + step.weights.get("bias", 0)
    out = step.output
    return [
        Step("flatten", (other,), f"{out}.flat"),
        Step("dense", (f"{out}.flat",), f"{out}.straight", {"weight": weight}),
        Step("flatten", inner.inputs, f"{out}.wide"),
        Step("dense", (f"{out}.wide",), f"{out}.deep", {"weight": joint, "bias": bias}),
        Step("add", (f"{out}.straight", f"{out}.deep"), out),
    ]


def _add_bias(weights: dict[str, np.ndarray], inner: np.ndarray | None, step: Step) -> None:
    """Put the joint bias of two dense steps into `weights`: the inner one times the outer weights, plus the outer."""
    if inner is not None:
        weights["bias"] = inner @ step.weights["weight"] + step.weights.get("bias", 0)
    elif "bias" in step.weights:
        weights["bias"] = step.weights["bias"]


FOLD_RULES: tuple[Rewrite, ...] = (_dense_of_dense, _dense_of_outer, _dense_of_flat_lens, _dense_of_flat_sum)


def fuse(plan: Plan) -> Plan:
    """Regroup a folded plan for a machine with little memory.

    It has the same operations, with fewer and smaller stored intermediate results (`flatten` and `part` store nothing).

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
    # A step that several branches share is done once, with the first of them.
    ordered = {step.output: step for branch in plan.branches for step in _in_best_order(branch).steps}
    return replace(plan, steps=(*ordered.values(), plan.steps[-1]))


def _fuse_once(plan: Plan) -> Plan | None:
    """Apply the first rule that keeps the operations; None if there is none.

    The new steps replace the step and every other one whose output they make, too: a rule may join several steps.
    """
    for rule, step in product(FUSE_RULES, plan.steps):
        new = rule(plan, step)
        if new is None:
            continue
        position = plan.steps.index(step)
        outputs = {new_step.output for new_step in new}
        before = [other for other in plan.steps[:position] if other.output not in outputs]
        after = [other for other in plan.steps[position:] if other.output not in outputs]
        candidate = _without_unread(replace(plan, steps=(*before, *new, *after)))
        if all_operations(candidate) == all_operations(plan):
            return candidate
    return None


def _bias(step: Step, *shape: int) -> np.ndarray:
    """Return a step's bias broadcast to this shape; zeros if it has none."""
    return np.broadcast_to(step.weights.get("bias", np.zeros((), step.weights["weight"].dtype)), shape)


def _has_bias_per_row(step: Step) -> bool:
    """Whether a dense step has another bias for each row, which the joint kernels do not take."""
    return "bias" in step.weights and step.weights["bias"].ndim > 1


def _stacked(plan: Plan, step: Step) -> list[Step] | None:
    """Join linear steps that read the same value into one, with their weights side by side, so it is read once."""
    if (source := _linear_source(plan, step)) is None or plan.branches is not None:
        return None
    group = [other for other in plan.steps if _linear_source(plan, other) == source]
    if len(group) < 2:
        return None
    flat, stacked = f"{step.output}.flat", f"{step.output}.stacked"
    widths = [member.weights["weight"].shape[1] for member in group]
    weights = {
        "weight": np.concatenate([member.weights["weight"] for member in group], axis=1),
        "bias": np.concatenate([_bias(member, width) for member, width in zip(group, widths, strict=True)]),
    }
    starts = np.cumsum([0, *widths[:-1]]).tolist()  # of each member in the stacked vector
    parts = [
        Step("part", (stacked,), member.output, settings={"start": start, "shape": list(plan.shapes[member.output])})
        for member, start in zip(group, starts, strict=True)
    ]
    return [Step("flatten", (source,), flat), Step("dense", (flat,), stacked, weights), *parts]


def _linear_source(plan: Plan, step: Step) -> str | None:
    """Name the value that a step maps linearly to a single vector, looking through `flatten`; None if it does not."""
    shape = plan.shapes[step.inputs[0]]
    is_dense = step.kernel == "dense" and len(shape) == 1
    is_lens = step.kernel == "lens" and shape[1:] == (1,)  # over a single channel, so that its output is a vector
    if not (is_dense or is_lens):
        return None
    flat = _maker(plan, step.inputs[0], "flatten")
    return step.inputs[0] if flat is None else flat.inputs[0]


def _tokens(plan: Plan, step: Step) -> list[Step] | None:
    """Join (seen V + b) + s ⊗ (shared M) into one step, `token_rows`: the two summands are never stored.

    `seen` has a row for each token, and `shared` is one vector, of which token t gets the share s[t].
    """
    if step.kernel != "add_outer" or (rows := _maker(plan, step.inputs[0], "dense")) is None:
        return None
    shape = plan.shapes[step.output]
    weights = {"local": rows.weights["weight"], "bias": _bias(rows, *shape), "share": step.weights["share"]}
    shared = step.inputs[1]
    mix = _maker(plan, shared, "dense")
    # The step computes the product with M, too, if nothing else reads it.
    if mix is not None and "bias" not in mix.weights and len(plan.readers(shared)) == 1:
        shared, weights["mix"] = mix.inputs[0], mix.weights["weight"]
    return [Step("token_rows", (rows.inputs[0], shared), step.output, weights)]


def _feed_forward(plan: Plan, step: Step) -> list[Step] | None:
    """Join dense, activation, dense into one step, `feed_forward`: the wide layer between them is never stored."""
    if step.kernel != "dense" or (active := _maker(plan, step.inputs[0], *ACTIVATIONS)) is None:
        return None
    inner = _maker(plan, active.inputs[0], "dense")
    if inner is None or _has_bias_per_row(inner) or _has_bias_per_row(step):
        return None
    weights = {}
    for name, dense in (("inner", inner), ("outer", step)):
        weights[name] = dense.weights["weight"]
        weights[f"{name}_bias"] = _bias(dense, dense.weights["weight"].shape[1])
    return [Step("feed_forward", inner.inputs, step.output, weights, {"activation": active.kernel})]


def _read_out(plan: Plan, step: Step) -> list[Step] | None:
    """Join vec(x) u + vec(active(x V + b)) w + c into one step, `read_out`: the wide layer is never stored.

    `vec` is a step `flatten`, and `active` one of the activations.
    """
    if step.kernel != "add" or plan.shapes[step.output] != (1,):
        return None
    straight, deep = (_maker(plan, name, "dense") for name in step.inputs)  # `_dense_of_flat_sum` adds in this order
    if straight is None or deep is None or "bias" in straight.weights:
        return None
    flat_input, flat_hidden = (_maker(plan, dense.inputs[0], "flatten") for dense in (straight, deep))
    if flat_input is None or flat_hidden is None:
        return None
    if (active := _maker(plan, flat_hidden.inputs[0], *ACTIVATIONS)) is None:
        return None
    inner = _maker(plan, active.inputs[0], "dense")
    if inner is None or inner.inputs != flat_input.inputs or _has_bias_per_row(inner):
        return None
    weights = {
        "inner": inner.weights["weight"],
        "inner_bias": _bias(inner, inner.weights["weight"].shape[1]),
        "straight": straight.weights["weight"].reshape(plan.shapes[inner.inputs[0]]),
        "outer": deep.weights["weight"].reshape(plan.shapes[inner.output]),
        "bias": _bias(deep, 1),
    }
    return [Step("read_out", inner.inputs, step.output, weights, {"activation": active.kernel})]


FUSE_RULES: tuple[Rewrite, ...] = (_tokens, _feed_forward, _read_out, _stacked)


def _in_best_order(plan: Plan) -> Plan:
    """Order steps so that as few numbers as possible have to be kept in memory at once.

    Ties go to the order that stores less, then to the plan's own. Best-first search over the sets of steps that can be
    done at some point. These are few, since plans are almost chains; a plan with too many of them keeps its order.
    """
    names = [step.output for step in plan.steps]
    # For each step: the indices of the steps that it reads, and the numbers that it stores (none for a view).
    needs = [{names.index(name) for name in step.inputs if name != INPUT} for step in plan.steps]
    sizes = [prod(plan.shapes[step.output]) * KERNELS[step.kernel].copies for step in plan.steps]
    # Beginnings of orders, the best one first: peak, sum of live numbers, indices of the steps done.
    queue: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    seen: set[frozenset[int]] = set()
    while len(seen) < MAX_SEARCHED:
        peak, total, order = heappop(queue)
        if len(order) == len(names):
            return replace(plan, steps=tuple(plan.steps[index] for index in order))
        done = frozenset(order)
        if done in seen:
            continue
        seen.add(done)
        live = _live_numbers(plan, done)
        for index in set(range(len(names))) - done:
            if needs[index] <= done:
                heappush(queue, (max(peak, live + sizes[index]), total + live, (*order, index)))
    return plan


def _live_numbers(plan: Plan, done: frozenset[int]) -> int:
    """Count the numbers to keep in memory once the steps with the indices `done` are done.

    These are the results that the remaining steps read, directly or through views.
    """
    needed: set[str] = set()  # values that remaining steps read, or views of them
    for index in reversed(range(len(plan.steps))):
        step = plan.steps[index]
        if index not in done or (step.output in needed and not KERNELS[step.kernel].copies):
            needed |= set(step.inputs)
    stored = {plan.steps[index].output for index in done if KERNELS[plan.steps[index].kernel].copies}
    return sum(prod(plan.shapes[name]) for name in needed & stored)


def narrow(plan: Plan) -> tuple[Plan, tuple[int, ...]]:
    """Drop history and channels that a plan does not use; returns the plan and the indices of the channels kept.

    Only a plan that reads nothing but the newest row is narrowed. Channel 0, the one to calibrate, is always kept.

    >>> weight = np.array([[2.0], [0.0]])
    >>> steps = Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": weight})
    >>> line, channels = narrow(Plan(60, 2, steps))
    >>> line.window, line.channels, channels
    (1, 1, (0,))
    """
    all_channels = tuple(range(plan.channels))
    if any(step.kernel != "newest" for step in plan.readers(INPUT)):
        return plan, all_channels
    newest = {step.output for step in plan.readers(INPUT)}  # names of the newest row
    readers = [step for step in plan.steps if newest & {*step.inputs}]
    if any(step.kernel != "dense" for step in readers):
        return replace(plan, window=1), all_channels
    largest = np.max([np.abs(step.weights["weight"]).max(axis=1) for step in readers], axis=0)  # weight of each channel
    used = (0, *(channel for channel in all_channels[1:] if largest[channel] > NEGLIGIBLE * largest.max()))
    # The weights [channels, outputs] without the rows of channels that are left out.
    weights = {step.output: {**step.weights, "weight": step.weights["weight"][list(used)]} for step in readers}
    steps = tuple(replace(step, weights=weights.get(step.output, step.weights)) for step in plan.steps)
    return Plan(1, len(used), steps), used


def average(plans: Sequence[Plan]) -> Plan:
    """Make one plan whose output is the mean of these plans' outputs; equal steps are done once.

    >>> newest, weight = Step("newest", ("x",), "now"), np.array([[2.0]])
    >>> plans = [Plan(3, 1, (newest, Step("dense", ("now",), "y", {"weight": size * weight}))) for size in (1, 3)]
    >>> [step.kernel for step in average(plans).steps]
    ['newest', 'dense', 'dense', 'dense', 'dense', 'add']
    """
    if len(plans) == 1:
        return plans[0]
    if any(plan.steps[-1].kernel == SELECT for plan in plans):
        raise ValueError("plans that choose a branch cannot be averaged")
    steps: list[Step] = []
    # How many of the plans have each output: equal plans are joined to one.
    outputs = Counter(_join(steps, plan, index) for index, plan in enumerate(plans))
    if len(outputs) == 1:
        return Plan(plans[0].window, plans[0].channels, tuple(steps))
    weights = (weight for step in plans[0].steps for weight in step.weights.values())
    number_type = next((weight.dtype.type for weight in weights if weight.dtype.kind == "f"), np.float32)
    for index, (output, times) in enumerate(outputs.items()):
        share = np.full((1, 1), times / len(plans), number_type)
        steps.append(Step("dense", (output,), f"share.{index}", {"weight": share}))
    return _summed(plans[0], steps, [f"share.{index}" for index in range(len(outputs))])


def add_plans(plans: Sequence[Plan]) -> Plan:
    """Return the plan whose output is the sum of these plans' outputs; steps that are the same are done once."""
    steps: list[Step] = []
    outputs = [_join(steps, plan, index) for index, plan in enumerate(plans)]
    return _summed(plans[0], steps, outputs)


def _summed(plan: Plan, steps: Sequence[Step], outputs: Sequence[str]) -> Plan:
    """Make a plan for the input of `plan`: these steps, then the sum of the values named `outputs`."""
    total, added = outputs[0], []
    for index, output in enumerate(outputs[1:], start=1):
        added.append(Step("add", (total, output), f"sum.{index}"))
        total = f"sum.{index}"
    return Plan(plan.window, plan.channels, (*steps, *added))


def _join(steps: list[Step], plan: Plan, index: int) -> str:
    """Append a plan's steps to `steps`, unless equal ones are there already; returns its output's name.

    `index` is added to the names of the values, so that those of several plans differ.
    """
    names = {INPUT: INPUT}  # names in `steps`, by the name in `plan`
    for step in plan.steps:
        inputs = tuple(names[name] for name in step.inputs)
        renamed = replace(step, inputs=inputs, output=f"{step.output}.{index}")
        known = next((other for other in steps if _same(other, renamed)), None)
        if known is None:
            steps.append(renamed)
        names[step.output] = (known or renamed).output
    return names[plan.steps[-1].output]


def _same(step: Step, other: Step) -> bool:
    """Whether two steps compute the same value: same kernel, inputs, settings and weights."""
    if (step.kernel, step.inputs, dict(step.settings)) != (other.kernel, other.inputs, dict(other.settings)):
        return False
    return step.weights.keys() == other.weights.keys() and all(
        np.array_equal(weight, other.weights[name]) for name, weight in step.weights.items()
    )


def with_learned(plan: Plan, numbers: np.ndarray) -> Plan:
    """Append a learned correction, which replaces an earlier one; zeros give the plan as shipped.

    `numbers` are a, the coefficient of the output; c, those of the newest readings of the first channels; and b, the
    offset: y ← y + a y + c · readings + b.

    >>> plan = Plan(3, 2, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": np.ones((2, 1))})))
    >>> [step.kernel for step in with_learned(plan, np.array([0.1, 0.0, 0.2, 0.5])).steps]
    ['newest', 'dense', 'newest', 'dense', 'dense', 'add']
    """
    plan = as_shipped(plan)
    if not np.any(numbers):
        return plan
    last = plan.steps[-1]
    if last.kernel != SELECT:
        return replace(plan, steps=(*plan.steps, *_correction_steps(plan, last.output, numbers)))
    decision, simple, deep = last.inputs
    of_simple, of_deep = _correction_steps(plan, simple, numbers), _correction_steps(plan, deep, numbers)
    select = replace(last, inputs=(decision, of_simple[-1].output, of_deep[-1].output))
    return replace(plan, steps=(*plan.steps[:-1], *of_simple, *of_deep, select))


def with_effect(plan: Plan, offset: float, slope: float) -> Plan:
    """Add a device's effect to a plan's output: offset + slope · newest scaled reading of channel 0.

    >>> plan = Plan(3, 1, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": np.ones((1, 1))})))
    >>> [step.kernel for step in with_effect(plan, 0.5, 0.1).steps]
    ['newest', 'dense', 'newest', 'dense', 'add']
    """
    weight, bias = np.zeros((plan.channels, 1), np.float32), np.array([offset], np.float32)
    weight[0] = slope
    newest = Step("newest", (INPUT,), "device.now")
    effect = Step("dense", ("device.now",), "device.own", {"weight": weight, "bias": bias})
    last = plan.steps[-1]
    if last.kernel != SELECT:
        total = Step("add", (last.output, effect.output), "device.sum")
        return replace(plan, steps=(*plan.steps, newest, effect, total))
    decision, *branches = last.inputs
    sums = [Step("add", (branch, effect.output), f"device.{branch}") for branch in branches]
    select = replace(last, inputs=(decision, *(branch_sum.output for branch_sum in sums)))
    return replace(plan, steps=(*plan.steps[:-1], newest, effect, *sums, select))


def as_shipped(plan: Plan) -> Plan:
    """Remove the correction learned in co-location sessions after shipping, if there is one."""
    *steps, last = (step for step in plan.steps if not step.output.startswith(PREFIX))
    if last.kernel == SELECT:  # it reads the corrected branches, "learned.NAME.sum"; now "NAME" again
        branches = tuple(name.removeprefix(PREFIX).removesuffix(".sum") for name in last.inputs)
        last = replace(last, inputs=branches)
    return replace(plan, steps=(*steps, last))


def _correction_steps(plan: Plan, value: str, numbers: np.ndarray) -> tuple[Step, ...]:
    """Return the steps that correct `value`, the output of the plan or of a branch; `numbers` as in `with_learned`."""
    of_output, of_inputs, offset = numbers[0], numbers[1:-1], numbers[-1:]
    of_channels = np.zeros((plan.channels, 1), np.float32)  # zero for channels without a coefficient
    of_channels[: len(of_inputs), 0] = of_inputs
    line = {"weight": np.array([[1 + of_output]], np.float32), "bias": offset.astype(np.float32)}
    name = PREFIX + value
    return (
        Step("newest", (INPUT,), f"{name}.now"),
        Step("dense", (f"{name}.now",), f"{name}.skip", {"weight": of_channels}),
        Step("dense", (value,), f"{name}.own", line),
        Step("add", (f"{name}.own", f"{name}.skip"), f"{name}.sum"),
    )
