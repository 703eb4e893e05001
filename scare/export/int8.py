"""Int8: a quantized plan as a program of `_s8` kernels, their C forms in `kernels/<family>/int8.py`.

Comes from `calibrator.quantize`, goes to `memory` and `c_source`.
"""

from scare.calibrator.kernels.integer_rule import WINDOW as STEPS
from scare.calibrator.plan import INPUT, Plan
from scare.export.calls import Lowering
from scare.export.kernels import INT8
from scare.export.program import WINDOW, Program, Value

LOWERING = Lowering(INT8, "int32_t", "s8")


def lower(plan: Plan) -> Program:
    """A plan made by `quantize` as a program; its first step, the window in steps, is what the program reads."""
    first, *steps = plan.steps
    window = Value(WINDOW, "int16_t", (plan.channels, plan.window))
    calls, result = LOWERING.calls(steps, plan.shapes, {INPUT: window, STEPS: window})
    quanta = tuple(float(number) for number in first.weights["quantum"])
    return Program("int16_t", plan.window, plan.channels, calls, result, quanta)
