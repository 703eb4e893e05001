"""Quantize turns a fused float plan into one that computes with integers only, from an int16 window to one word.

It goes through the steps twice: for bounds and units, then for the integer steps. How a kernel becomes integers is its
rule (`kernels/<family>/rules.py`), what a unit is says `kernels/integer_rule.py`, how weights are rounded
`kernels/rounding.py`.
"""

from dataclasses import replace

import numpy as np

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import NotApplicableError
from scare.kernels import FIXED_KERNELS, FULL, KERNELS, QUANTISATION
from scare.kernels.fixed_point import WINDOW, Quantized


def quantize(plan: Plan, quanta: np.ndarray) -> Plan:
    """The integer twin of a fused plan; `quanta` are the steps of the int16 window for 1, one for each channel."""
    lacking = {
        QUANTISATION[step.kernel].lacks(step) if step.kernel in QUANTISATION else step.kernel for step in plan.steps
    } - {""}
    if lacking:
        raise NotApplicableError(f"float32 only: there is no integer form of {', '.join(sorted(lacking))}")
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            q = _with_units(plan.astype(np.float64), np.asarray(quanta, float))
            made = [QUANTISATION[step.kernel].emit(q, step) for step in q.steps]
    except ArithmeticError as error:
        raise NotApplicableError("float32 only: its numbers are too large or too small for integers") from error
    last = plan.steps[-1].output
    first = Step("window_q", (INPUT,), WINDOW, {"quantum": q.quanta.astype(np.float32)})
    result = Step("result_q", (last,), f"{last}.real", settings={"unit": q.unit(last)})
    steps = (first, *(step for step in made if step is not None), result)
    for step in steps:
        if step.kernel not in KERNELS:
            raise FIXED_KERNELS.missing(step.kernel)
    return replace(plan, steps=steps)


def _with_units(plan: Plan, quanta: np.ndarray) -> Quantized:
    """Bounds and units of all values, in the order of the steps."""
    window = np.broadcast_to(1 / quanta, plan.shapes[INPUT])
    q = Quantized(plan.steps, plan.shapes, quanta, {INPUT: FULL * window}, {INPUT: window})
    for step in plan.steps:
        rule, shape = QUANTISATION[step.kernel], plan.shapes[step.output]
        q.bounds[step.output] = np.broadcast_to(rule.bound(q, step), shape)
        q.units[step.output] = np.broadcast_to(rule.unit(q, step), shape)
    return q
