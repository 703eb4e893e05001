"""Float32: a plan as a program of `_f32` kernels, their C forms in `kernels/<family>/float32.py`.

Comes from `calibrator.fuse`, goes to `memory` and `c_source`.
"""

from dataclasses import replace

from scare.calibrator.plan import INPUT, Plan
from scare.export.calls import Lowering
from scare.kernels import C_FLOAT32, PERIODS
from scare.kernels.c_arguments import WINDOW_NAME, Branch, CCall, CValue, Program

LOWERING = Lowering(C_FLOAT32, "float", "f32")


def lower(plan: Plan) -> Program:
    """The program of a plan, fused or not.

    >>> import numpy as np
    >>> from scare.calibrator.plan import Step
    >>> dot = Step("dense", ("flat",), "y", {"weight": np.ones((3, 1), np.float32)})
    >>> program = lower(Plan(3, 1, (Step("flatten", ("x",), "flat"), dot)))
    >>> [call.function for call in program.every_call()], program.result.shape
    (['scare_dense_f32'], (1,))
    """
    last = plan.steps[-1]
    result = CValue(last.output, "float", (1,))
    if plan.branches is None:
        calls, result = _calls(plan)
        return Program("float", plan.window, plan.channels, calls, result)
    decision, *branches = plan.branches
    simple, deep = (_calls(_renamed(branch, last.output))[0] for branch in branches)
    simple_period, deep_period = (last.settings[name] for name in PERIODS)
    branch = Branch(_calls(decision)[0], simple, deep, simple_period, deep_period, result)
    return Program("float", plan.window, plan.channels, (branch,), result)


def _renamed(plan: Plan, output: str) -> Plan:
    """The plan with another name for what it gives."""
    return replace(plan, steps=(*plan.steps[:-1], replace(plan.steps[-1], output=output)))


def _calls(plan: Plan) -> tuple[tuple[CCall, ...], CValue]:
    """The calls of a plan without branches, and the value of its last step."""
    window = CValue(WINDOW_NAME, "float", (plan.window, plan.channels))
    return LOWERING.calls(plan.steps, plan.shapes, {INPUT: window})
