"""Cost counts what one inference of a plan takes: operations, live and retained bytes, weights.

Counted from the plan that runs, so what we report is what we ship. Models declare their operations as a formula
in the window length; a test compares the two exactly.
"""

from dataclasses import dataclass
from math import prod

from scare.calibrator.kernels import KERNELS, Operations
from scare.calibrator.plan import INPUT, Plan

BYTES = 4  # a float32 or a word of hash bits


@dataclass(frozen=True)
class Cost:
    """One inference: operations, most bytes alive at once, bytes of all values, bytes of weights, their number."""

    operations: Operations
    peak_bytes: int
    retained_bytes: int
    weight_bytes: int
    weights: int


def count(plan: Plan) -> Cost:
    """Count one inference of a plan.

    >>> import numpy as np
    >>> from scare.calibrator.plan import Step
    >>> dot = Step("dense", ("flat",), "y", {"weight": np.zeros((360, 1), np.float32)})
    >>> cost = count(Plan(360, 1, (Step("flatten", ("x",), "flat"), dot)))
    >>> cost.operations.multiply_adds, cost.peak_bytes, cost.weight_bytes
    (360, 1444, 1440)
    """
    operations = Operations()
    for step in plan.steps:
        inputs = [plan.shapes[name] for name in step.inputs]
        operations += KERNELS[step.kernel].cost(*inputs, step.weight_shapes, step.settings)
    arrays = [weight for step in plan.steps for weight in step.weights.values()]
    return Cost(
        operations,
        peak_bytes=_peak(plan),
        retained_bytes=sum(_bytes(plan, name) for name in plan.shapes if not _is_view(plan, name)),
        weight_bytes=sum(array.nbytes for array in arrays),
        weights=sum(array.size for array in arrays),
    )


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
