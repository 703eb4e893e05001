"""Calls: the steps of a plan as calls of C functions, in the same way for both arithmetics.

Comes from `float32` and `int8`, which bring the C forms of their kernels; goes to a `Program`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import INPUT, Plan
from scare.errors import NotApplicableError, UsageError
from scare.export.runtime import declared_functions
from scare.kernels import C_FIXED, C_FLOAT32, FULL, PERIODS, KernelTable, Shape, Step
from scare.kernels.c_arguments import WINDOW_NAME, Branch, CCall, CForm, CValue, CView, MakeForm, PlacedStep, Program
from scare.kernels.contract import FIXED_SUFFIX
from scare.kernels.fixed_point import WINDOW as STEPS


@dataclass(frozen=True)
class Lowering:
    """One arithmetic: the C forms of its kernels, the kind of its values, how its functions' names end."""

    forms: KernelTable[MakeForm]
    kind: str
    type: str

    def calls(
        self, steps: Iterable[Step], shapes: Mapping[str, Shape], given: Mapping[str, CValue]
    ) -> tuple[tuple[CCall, ...], CValue]:
        """The calls of steps without branches that read values as given, and the value of the last step."""
        values, calls, last = dict(given), [], ""
        for step in steps:
            inputs = tuple(values[name] for name in step.inputs)
            placed = PlacedStep(step, inputs, tuple(shapes[name] for name in step.inputs), shapes[step.output])
            call, values[step.output] = self.call(placed)
            calls += [call] if call is not None else []
            last = step.output
        return tuple(calls), values[last]

    def call(self, placed: PlacedStep) -> tuple[CCall | None, CValue]:
        """The call of a step, None for a view, and the step's value: what is written, without the work after it."""
        form, name = self.forms[placed.step.kernel](placed), placed.step.output
        if isinstance(form, CView):
            source = placed.inputs[0]
            start = source.start + form.start
            return None, CValue(name, source.kind, placed.out, view_of=source.view_of or source.name, start=start)
        kind, size = form.kind or self.kind, prod(placed.out)
        inputs = [placed.inputs[index] for index in form.in_place if not placed.inputs[index].view_of]
        over = tuple(value.name for value in inputs if value.name != WINDOW_NAME and prod(value.shape) == size)
        value = written = CValue(name, kind, placed.out, over=over, kept=form.kept)
        if form.work:
            written = CValue(f"{name}.work", kind, (size + form.work,))
            value = CValue(name, kind, placed.out, view_of=written.name)
        function = self._function(placed.step.kernel, form)
        return CCall(function, (written, *placed.inputs, *form.arguments), written), value

    def _function(self, kernel: str, form: CForm) -> str:
        """The name of the C function, which the runtime must have."""
        function = f"scare_{form.function or kernel.removesuffix(FIXED_SUFFIX)}_{self.type}"
        if function not in declared_functions():
            header = "scare_fixed.h" if self.type == "q" else "scare_kernels.h"
            file = f"runtime/src/kernels/{self.forms.family_of(kernel)}_{self.type}.c"
            raise NotApplicableError(
                f"the kernel '{kernel}' has no C function {function}: add it to {file} and runtime/src/{header}"
            )
        return function


# Float32: a plan as a program of `_f32` kernels, their C forms in `kernels/<family>/float32.py`.
#
# Comes from `calibrator.fuse`, goes to `memory` and `c_source`.


FLOAT32_LOWERING = Lowering(C_FLOAT32, "float", "f32")


def lower_float32(plan: Plan) -> Program:
    """The program of a plan, fused or not.

    >>> import numpy as np
    >>> from scare.calibrator.plan import Step
    >>> dot = Step("dense", ("flat",), "y", {"weight": np.ones((3, 1), np.float32)})
    >>> program = lower_float32(Plan(3, 1, (Step("flatten", ("x",), "flat"), dot)))
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
    return FLOAT32_LOWERING.calls(plan.steps, plan.shapes, {INPUT: window})


# Int8: a quantized plan as a program of `_q` kernels, their C forms in `kernels/<family>/int8.py`.
#
# Comes from `calibrator.quantise`, goes to `memory` and `c_source`.


FIXED_LOWERING = Lowering(C_FIXED, "int32_t", "q")


def lower_fixed(plan: Plan) -> Program:
    """A plan made by `quantise` as a program; its first step, the window in steps, is what the program reads."""
    first, *steps = plan.steps
    window = CValue(WINDOW_NAME, "int16_t", (plan.channels, plan.window))
    calls, result = FIXED_LOWERING.calls(steps, plan.shapes, {INPUT: window, STEPS: window})
    quanta = tuple(float(number) for number in first.weights["quantum"])
    return Program("int16_t", plan.window, plan.channels, calls, result, quanta)


# The arithmetics a calibrator can be exported in, and how fine a window of whole numbers is.


class Arithmetic(StrEnum):
    """Number format of the exported C; a FlatBuffer in `FIXED` has int8 weights.

    >>> Arithmetic("int8"), Arithmetic.FIXED.label
    (<Arithmetic.FIXED: 'fixed'>, 'fixed point')
    """

    FLOAT32 = "float32"
    FIXED = "fixed"

    @property
    def label(self) -> str:
        """As a sentence names it."""
        return "fixed point" if self is Arithmetic.FIXED else str(self)

    @classmethod
    def _missing_(cls, value: object) -> "Arithmetic | None":
        return cls.FIXED if value == "int8" else None  # its former name


HEADROOM, FARTHEST = 8.0, 64.0  # times the largest number seen: how far an int16 window reaches; to a known limit


def find_arithmetic(name: str, *others: str) -> Arithmetic:
    """The arithmetic of this name, where `int8` is an alias of `fixed`; `others` are listed in the error as well."""
    try:
        return Arithmetic(name)
    except ValueError:
        *names, last = [*map(str, Arithmetic), *others]
        raise UsageError(f"no arithmetic is called '{name[:40]}'; use {', '.join(names)} or {last}") from None


def window_quanta(calibrator: Calibrator) -> np.ndarray:
    """Steps of an int16 window for a scaled value of 1, [channels]: fine enough, and wide enough for valid readings.

    Where readings are held, because training is known, the window reaches as far.
    """
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    seen = np.maximum(np.abs(windows).max(axis=(0, 1), initial=0.0), 1e-3)
    scaling, training_range = calibrator.inputs.scaling, calibrator.inputs.training_range
    held = np.abs([training_range.clamp_low, training_range.clamp_high]).max(axis=0) if training_range else 0.0
    limits = np.array([(channel.low, channel.high) for channel in calibrator.inputs.channels]).T
    ends = [np.abs(affine.apply(limits)).max(axis=0) for affine in (scaling.fleet, *scaling.devices.values())]
    limit = np.max(ends, axis=0)
    reach = np.where(np.isfinite(limit), np.minimum(limit, FARTHEST * seen), HEADROOM * seen)
    return FULL / np.maximum(reach, held)
