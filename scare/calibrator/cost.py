"""Cost counts what one inference of a plan takes: operations, live and retained bytes, weights.

Counted from the plan that runs, so what we report is what we ship. Models declare their operations as a formula
in the window length; a test compares the two exactly. A plan that chooses between two branches costs one reading
more than another: counted are the dearest reading and the mean of many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod

from scare.calibrator.plan import INPUT, Plan, Step
from scare.kernels import KERNELS, PERIODS, Operations

BYTES = 4  # a float32 or a word of hash bits


@dataclass(frozen=True)
class Cost:
    """One inference: operations, most bytes alive at once, bytes of all values, bytes of weights, their number.

    `operations` are those of the dearest reading, `mean_operations` the mean over a stream, to the nearest whole
    number; they differ only where the plan chooses a branch.
    """

    operations: Operations
    mean_operations: Operations
    peak_bytes: int
    retained_bytes: int
    weight_bytes: int
    weights: int


def count(plan: Plan, deep_share: float = 1.0) -> Cost:
    """Count one inference of a plan; of its decisions, `deep_share` are for the deep branch (all, unless measured).

    >>> import numpy as np
    >>> from scare.calibrator.plan import Step
    >>> dot = Step("dense", ("flat",), "y", {"weight": np.zeros((360, 1), np.float32)})
    >>> cost = count(Plan(360, 1, (Step("flatten", ("x",), "flat"), dot)))
    >>> cost.operations.multiply_adds, cost.peak_bytes, cost.weight_bytes
    (360, 1444, 1440)
    """
    worst, mean = _worst_and_mean(plan, deep_share)
    arrays = [weight for step in plan.steps for weight in step.weights.values()]
    return Cost(
        worst,
        mean,
        peak_bytes=_peak(plan),
        retained_bytes=sum(_bytes(plan, name) for name in plan.shapes if not _is_view(plan, name)),
        weight_bytes=sum(array.nbytes for array in arrays),
        weights=sum(array.size for array in arrays),
    )


def all_operations(plan: Plan, steps: Sequence[Step] | None = None) -> Operations:
    """What these steps of a plan take together, or all of them, whether or not one reading runs them all."""
    total = Operations()
    for step in plan.steps if steps is None else steps:
        inputs = [plan.shapes[name] for name in step.inputs]
        total += KERNELS[step.kernel].cost(*inputs, step.weight_shapes, step.settings)
    return total


def _worst_and_mean(plan: Plan, deep_share: float) -> tuple[Operations, Operations]:
    """The dearest reading and the mean: a decision costs its steps once and holds for its branch's period."""
    if plan.branches is None:
        return all_operations(plan), all_operations(plan)
    decision, *branches = plan.steps[-1].inputs
    asked = [all_operations(plan, plan.leading_to(decision, branch)) for branch in branches]
    carried = [all_operations(plan, plan.leading_to(branch)) for branch in branches]
    shares = (1 - deep_share, deep_share)
    later = [share * (plan.steps[-1].settings[name] - 1) for share, name in zip(shares, PERIODS, strict=True)]
    return max(asked, key=lambda path: path.multiply_adds), _mean([*asked, *carried], [*shares, *later])


def _mean(paths: list[Operations], weights: list[float]) -> Operations:
    """The weighted mean, in whole numbers."""
    total = sum(weights)
    sums = (sum(w * getattr(p, f.name) for p, w in zip(paths, weights, strict=True)) for f in fields(Operations))
    return Operations(*(round(one / total) for one in sums))


def _peak(plan: Plan) -> int:
    """The most bytes alive at once when each value lives from its step to its last reader's."""
    owner = _owners(plan)
    last_read = {owner[name]: index for index, step in enumerate(plan.steps) for name in step.inputs}
    alive, peak = {INPUT}, 0
    for index, step in enumerate(plan.steps):
        alive.add(owner[step.output])
        peak = max(peak, sum(_bytes(plan, name) for name in alive))
        alive = {name for name in alive if last_read.get(name, len(plan.steps)) > index}
    return peak


def _owners(plan: Plan) -> dict[str, str]:
    """The value whose memory each value uses: itself, or what it is a view of."""
    owner = {INPUT: INPUT}
    for step in plan.steps:
        owner[step.output] = step.output if KERNELS[step.kernel].copies else owner[step.inputs[0]]
    return owner


def _is_view(plan: Plan, name: str) -> bool:
    return _owners(plan)[name] != name


def _bytes(plan: Plan, name: str) -> int:
    return BYTES * prod(plan.shapes[name])
