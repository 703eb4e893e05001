"""Lowering writes a plan as tensor operations, kernel by kernel (`export/kernels/<family>/tensors.py`).

A test holds every kernel to its NumPy body. Hash codes are signs here, ±1 for each bit: formats without words of bits
compute with them as numbers.
"""

from scare.calibrator.plan import INPUT, Plan
from scare.kernels import TENSOR_FORMS
from scare.kernels.tensor import Tensor, window


def lower(plan: Plan, scale: float = 1.0, center: float = 0.0) -> Tensor:
    """What the plan gives for a scaled window, times `scale` plus `center`, as a tensor [1].

    Where the plan chooses a branch, both are computed and every window chooses for itself.
    """
    held = {INPUT: window(plan.window, plan.channels)}
    for step in plan.steps:
        inputs = [held[name] for name in step.inputs]
        held[step.output] = TENSOR_FORMS[step.kernel](*inputs, step.weights, step.settings)
    return held[plan.steps[-1].output] * scale + center
