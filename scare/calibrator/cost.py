"""Cost of one inference of a plan: operations, bytes alive at once, bytes of all values, weights.

Counted from the plan that runs, so what we report is what we ship. Models declare their operations as a formula
in the window length; a test compares the two exactly. A plan that chooses between two branches does not cost the same
for every reading: the most expensive reading is counted, and the mean over a stream.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod

from scare.calibrator.plan import INPUT, Plan, Step
from scare.kernels import KERNELS, PERIODS, Operations
from scare.words import listed

BYTES = 4  # size of a float32, or of a hash code's word
# Kinds of cost: what a calibrator takes on a board or, if no board is given, its weights; in a sentence, as a heading.
COST_UNITS = {
    "instructions": "instructions",
    "ram_bytes": "B of RAM",
    "flash_bytes": "B of flash",
    "weight_bytes": "B of weights",
}
COST_HEADINGS = {
    "instructions": "instructions",
    "ram_bytes": "RAM [B]",
    "flash_bytes": "flash [B]",
    "weight_bytes": "weights [B]",
}


@dataclass(frozen=True)
class Cost:
    """What one inference takes.

    `operations` are those of the most expensive reading, `mean_operations` the mean over a stream, rounded; they
    differ only where the plan chooses a branch.
    """

    operations: Operations
    mean_operations: Operations
    peak_bytes: int  # largest sum of the values alive at once
    retained_bytes: int  # bytes of all values together
    weight_bytes: int
    weights: int  # how many numbers


def spell_cost(cost: Mapping[str, int]) -> str:
    """Return a cost, by the names of `COST_UNITS`, in words for a sentence.

    >>> spell_cost({"instructions": 20_775, "flash_bytes": 12_022})
    '20,775 instructions and 12,022 B of flash'
    """
    return listed([f"{number:,} {COST_UNITS[name]}" for name, number in cost.items()])


def count(plan: Plan, deep_share: float = 1.0) -> Cost:
    """Count one inference of a plan; `deep_share` is the share of decisions for the deep branch, if it has one.

    >>> import numpy as np
    >>> from scare.calibrator.plan import Step
    >>> dot = Step("dense", ("flat",), "y", {"weight": np.zeros((360, 1), np.float32)})
    >>> cost = count(Plan(360, 1, (Step("flatten", ("x",), "flat"), dot)))
    >>> cost.operations.multiply_adds, cost.peak_bytes, cost.weight_bytes
    (360, 1444, 1440)
    """
    if plan.branches is None:
        worst = mean = all_operations(plan)
    else:
        worst, mean = _branch_operations(plan, deep_share)
    owners = _memory_owners(plan)
    weights = [weight for step in plan.steps for weight in step.weights.values()]
    return Cost(
        worst,
        mean,
        peak_bytes=_peak_bytes(plan, owners),
        retained_bytes=sum(BYTES * prod(plan.shapes[name]) for name in set(owners.values())),
        weight_bytes=sum(weight.nbytes for weight in weights),
        weights=sum(weight.size for weight in weights),
    )


def all_operations(plan: Plan, steps: Sequence[Step] | None = None) -> Operations:
    """Sum the operations of these steps of a plan (default: all), even if no single reading runs them all."""
    total = Operations()
    for step in plan.steps if steps is None else steps:
        inputs = [plan.shapes[name] for name in step.inputs]
        total += KERNELS[step.kernel].cost(*inputs, step.weight_shapes, step.settings)
    return total


def _branch_operations(plan: Plan, deep_share: float) -> tuple[Operations, Operations]:
    """Count the most expensive reading and the mean reading of a plan that ends in `select`.

    A branch stays in use for a period of readings. The first reading of a period runs the decision and the branch
    chosen, the others run only the branch.
    """
    select = plan.steps[-1]
    decision, *branches = select.inputs  # simple, deep
    shares = (1 - deep_share, deep_share)  # shares of the periods
    first = [all_operations(plan, plan.leading_to(decision, branch)) for branch in branches]
    others = [all_operations(plan, plan.leading_to(branch)) for branch in branches]
    # A period of n readings has one first reading and n - 1 others.
    other_weights = [share * (select.settings[name] - 1) for share, name in zip(shares, PERIODS, strict=True)]
    costs, weights = [*first, *others], [*shares, *other_weights]
    total = sum(weights)

    def weighted_mean(kind: str) -> int:
        return round(sum(weight * getattr(cost, kind) for cost, weight in zip(costs, weights, strict=True)) / total)

    mean = Operations(*(weighted_mean(field.name) for field in fields(Operations)))
    return max(first, key=lambda operations: operations.multiply_adds), mean


def _memory_owners(plan: Plan) -> dict[str, str]:
    """Find the owner of each value's memory: the value itself, or the one that it is a view of."""
    owners = {INPUT: INPUT}
    for step in plan.steps:
        owners[step.output] = step.output if KERNELS[step.kernel].copies else owners[step.inputs[0]]
    return owners


def _peak_bytes(plan: Plan, owners: dict[str, str]) -> int:
    """Find the most bytes alive at once: a value lives from the step that makes it to the last step that reads it."""
    last_read = {owners[name]: index for index, step in enumerate(plan.steps) for name in step.inputs}
    alive, peak = {INPUT}, 0
    for index, step in enumerate(plan.steps):
        alive.add(owners[step.output])
        peak = max(peak, sum(BYTES * prod(plan.shapes[name]) for name in alive))
        # A value that no step reads, such as the output, is never freed.
        alive = {name for name in alive if last_read.get(name, len(plan.steps)) > index}
    return peak
