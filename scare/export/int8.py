"""Int8: a quantized plan as a program of `_q` kernels, their C forms in `kernels/<family>/int8.py`.

Comes from `calibrator.quantize`, goes to `memory` and `c_source`.
"""

from scare.calibrator.plan import INPUT, Plan
from scare.export.calls import Lowering
from scare.kernels import C_FIXED
from scare.kernels.c_arguments import WINDOW_NAME, CValue, Program
from scare.kernels.fixed_point import WINDOW as STEPS

LOWERING = Lowering(C_FIXED, "int32_t", "q")


def lower(plan: Plan) -> Program:
    """A plan made by `quantize` as a program; its first step, the window in steps, is what the program reads."""
    first, *steps = plan.steps
    window = CValue(WINDOW_NAME, "int16_t", (plan.channels, plan.window))
    calls, result = LOWERING.calls(steps, plan.shapes, {INPUT: window, STEPS: window})
    quanta = tuple(float(number) for number in first.weights["quantum"])
    return Program("int16_t", plan.window, plan.channels, calls, result, quanta)
