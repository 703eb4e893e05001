"""Quantise a fused plan: fixed point, integers only, from an int16 window to one word.

How a kernel becomes integers is its `QuantisationRule` in `kernels`; units and the rounding of weights are in
`kernels/fixed_point`. Comes from `calibrator/passes.fuse`, goes to `lowering`.
"""

from dataclasses import replace

import numpy as np

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import NotApplicableError
from scare.kernels import FIXED_KERNELS, FULL, KERNELS, QUANTISATION
from scare.kernels.fixed_point import WINDOW, QuantisationState


def quantise(plan: Plan, quanta: np.ndarray) -> Plan:
    """Make the fixed-point version of a fused plan; `quanta` [channels] are steps of the int16 window per scaled unit.

    The first pass over the steps finds bounds and units of all values, the second writes the integer steps.
    """
    lacking = {
        QUANTISATION[step.kernel].lacks(step) if step.kernel in QUANTISATION else step.kernel for step in plan.steps
    } - {""}
    if lacking:
        raise NotApplicableError(f"float32 only: there is no fixed-point form of {', '.join(sorted(lacking))}")
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            exact, quanta = plan.astype(np.float64), np.asarray(quanta, float)
            window = np.broadcast_to(1 / quanta, exact.shapes[INPUT])
            q = QuantisationState(exact.steps, exact.shapes, quanta, {INPUT: FULL * window}, {INPUT: window})
            for step in exact.steps:
                rule, shape = QUANTISATION[step.kernel], exact.shapes[step.output]
                q.bounds[step.output] = np.broadcast_to(rule.bound(q, step), shape)
                q.units[step.output] = np.broadcast_to(rule.unit(q, step), shape)
            made = [QUANTISATION[step.kernel].emit(q, step) for step in q.steps]
    except ArithmeticError as error:
        raise NotApplicableError("float32 only: its numbers are too large or too small for fixed point") from error
    last = plan.steps[-1].output
    first = Step("window_q", (INPUT,), WINDOW, {"quantum": q.quanta.astype(np.float32)})
    result = Step("result_q", (last,), f"{last}.real", settings={"unit": q.unit(last)})
    steps = (first, *(step for step in made if step is not None), result)
    for step in steps:
        if step.kernel not in KERNELS:
            raise FIXED_KERNELS.missing(step.kernel)
    return replace(plan, steps=steps)
