"""Compile a calibrator for export: fuse and quantise its plan, then lower each step to a call of a C function.

    Calibrator -> Compiled: plan (fused; fixed point: also quantised) -> Program (C calls) -> memory_layout -> c_source

Every target makes its files from a `Compiled`. Kernels say in `kernels/<family>.py` how they become integers (their
`QuantisationRule`) and how they are called in C; the runtime must declare the function.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import prod

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.model_card import describe_first_value, selection_summary
from scare.calibrator.plan import INPUT, Plan, run
from scare.calibrator.plan_passes import fold, fuse
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from scare.export.c_source import CModel, declared_functions
from scare.export.descriptor import Descriptor, choose_device, make_descriptor, scaling_of
from scare.export.memory_layout import plan_memory
from scare.export.quantise import correct_bias, quantise, window_quanta
from scare.export.scare_json import FixedPointError, GoldenVectors, golden_vectors, reference_rmse
from scare.export.self_test import make_self_test
from scare.kernels import (
    C_FIXED,
    C_FLOAT32,
    PERIODS,
    KernelTable,
    Shape,
    Step,
)
from scare.kernels.c_arguments import (
    BYTES,
    WINDOW_NAME,
    Branch,
    CCall,
    CForm,
    CValue,
    CView,
    MakeForm,
    PlacedStep,
    Program,
    codes_name,
    even,
)
from scare.kernels.contract import FIXED_SUFFIX
from scare.kernels.fixed_point import WINDOW as STEPS
from scare.windowing.scaling import NO_EFFECT


class Arithmetic(StrEnum):
    """Number format of the exported C; a FlatBuffer in `FIXED` has int8 weights.

    >>> Arithmetic("int8"), Arithmetic.FIXED.label
    (<Arithmetic.FIXED: 'fixed'>, 'fixed point')
    """

    FLOAT32 = "float32"
    FIXED = "fixed"

    @property
    def label(self) -> str:
        """Name for use in a sentence."""
        return "fixed point" if self is Arithmetic.FIXED else str(self)

    @classmethod
    def _missing_(cls, value: object) -> "Arithmetic | None":
        """Accept int8 as an alias of `fixed`, for older scripts; the enum calls this for unknown values."""
        return cls.FIXED if value == "int8" else None


def find_arithmetic(name: str, *others: str) -> Arithmetic:
    """Find an arithmetic by name; `int8` is an alias of `fixed`. The error message lists `others` as valid too."""
    try:
        return Arithmetic(name)
    except ValueError:
        *names, last = [*map(str, Arithmetic), *others]
        raise UsageError(f"no arithmetic is called '{name[:40]}'; use {', '.join(names)} or {last}") from None


@dataclass(frozen=True)
class Compiled:
    """A calibrator in one arithmetic for a device (empty: a new one, scaled as the fleet), named `name` in the export.

    Its plan includes the device's effect on the output. The parts of an export are computed on first use, because not
    every target needs all of them and not every model has them.
    """

    calibrator: Calibrator
    arithmetic: Arithmetic
    device: str
    name: str

    @cached_property
    def fused(self) -> Plan:
        """The float32 plan regrouped for small memory; folded first, because an older version may have written it."""
        return fuse(fold(self.calibrator.plan))

    @property
    def windows(self) -> np.ndarray:
        """All scaled windows [n, window, channels] that the file keeps."""
        return np.concatenate([self.calibrator.golden.windows, self.calibrator.validation.windows])

    @cached_property
    def plan(self) -> Plan:
        """The plan that the program computes; `NotApplicableError` if it has no fixed-point version."""
        if self.arithmetic is Arithmetic.FLOAT32:
            return self.fused
        return correct_bias(quantise(self.fused, window_quanta(self.calibrator)), self.fused, self.windows)

    @cached_property
    def program(self) -> Program:
        """The plan as C calls."""
        return (lower_float32 if self.arithmetic is Arithmetic.FLOAT32 else lower_fixed)(self.plan)

    @cached_property
    def descriptor(self) -> Descriptor:
        """Channels, scaling and limits by which a board turns readings into windows."""
        quanta = () if self.arithmetic is Arithmetic.FLOAT32 else self.program.quanta  # int16 steps per scaled unit
        return make_descriptor(self.calibrator, self.device, quanta)

    @cached_property
    def c_model(self) -> CModel:
        """The model to be printed as C."""
        layout, test = plan_memory(self.program), make_self_test(self.plan, self.program.quanta)
        target = _label(self.calibrator.target)
        return CModel(self.name, self.title, self.labels, self.program, layout, self.descriptor, test, target)

    @cached_property
    def golden(self) -> GoldenVectors:
        """Golden windows with the results that the program must return."""
        integer_plan = None if self.arithmetic is Arithmetic.FLOAT32 else self.plan
        return golden_vectors(self.calibrator, integer_plan=integer_plan)

    @property
    def labels(self) -> tuple[str, ...]:
        """Name and unit of each channel."""
        return tuple(map(_label, self.calibrator.inputs.channels))

    @property
    def title(self) -> str:
        """A description for people: what the export computes from what, and how the model was selected if known."""
        scaling = self.calibrator.inputs.scaling
        settles = "" if scaling.known(self.device) else f" until a new device has settled ({scaling.settle:,} readings)"
        title = (
            f"{_label(self.calibrator.target)} from {', '.join(self.labels)}, in this order, one reading every"
            f" {self.calibrator.inputs.step_seconds:g} s; scaled for {self.device or 'the fleet'}{settles}, in"
            f" {self.arithmetic.label}. {describe_first_value(self.calibrator.inputs)}"
            f" Made by scare {scare.__version__}: do not edit."
        )
        return f"{title} {selection_summary(self.calibrator.facts)}".rstrip()

    @property
    def reading_ranges(self) -> list[tuple[float, float]]:
        """Smallest and largest valid reading of each channel in the file's windows; (0, 0) if there are none.

        Examples simulate a sensor within these ranges.
        """
        affine = scaling_of(self.calibrator.inputs.scaling, self.device)
        values = affine.invert(self.windows.reshape(-1, self.windows.shape[-1]).astype(np.float64))
        ranges = []
        for readings, channel in zip(values.T, self.descriptor.channels, strict=True):
            valid = np.clip(readings[np.isfinite(readings)], *channel.valid).astype(np.float32)
            ranges.append((float(valid.min()), float(valid.max())) if len(valid) else (0.0, 0.0))
        return ranges

    def compute(self, windows: np.ndarray) -> np.ndarray:
        """Run the program's plan on scaled windows [n, window, channels]: results [n] in the target's unit."""
        return self._in_target_unit(run(self.plan, windows))

    def compute_in_float32(self, windows: np.ndarray) -> np.ndarray:
        """Like `compute`, with the plan before quantisation."""
        return self._in_target_unit(run(self.fused, windows))

    @cached_property
    def fixed_point_error(self) -> FixedPointError | None:
        """How far fixed point is from float32 on the file's windows; None in float32, or without windows."""
        if self.arithmetic is Arithmetic.FLOAT32 or not len(self.windows):
            return None
        return FixedPointError.of(self.calibrator, self.compute(self.windows) - self.compute_in_float32(self.windows))

    def validation_rmse(self) -> float:
        """Return the RMSE to the reference on the file's validation windows, in the target's unit."""
        return reference_rmse(self.calibrator, self.compute(self.calibrator.validation.windows))

    def _in_target_unit(self, scaled: np.ndarray) -> np.ndarray:
        """Undo the scaling of results [n], in double precision."""
        return self.calibrator.inputs.scaling.target.invert(scaled.astype(np.float64)[:, None])[:, 0]


def compile_calibrator(calibrator: Calibrator, arithmetic: str, device: str = "", name: str = "model") -> Compiled:
    """Compile for `device`; by default for the only device that the calibrator knows, or else for the fleet."""
    chosen = choose_device(calibrator.inputs.scaling, device)
    return Compiled(_with_effect(calibrator, chosen), find_arithmetic(arithmetic), chosen, name)


def _with_effect(calibrator: Calibrator, device: str) -> Calibrator:
    """Make a device's effect a part of the plan, and add it to the references of the file's validation windows.

    The file stores those references without the effects of their devices. Adding the same effect to both sides keeps
    the RMSE that an export reports that of the fleet.
    """
    offset, slope = effect = calibrator.inputs.scaling.effect(device)
    if effect == NO_EFFECT:
        return calibrator
    sample = calibrator.validation
    scale = calibrator.inputs.scaling.target.scale[0]
    newest_reading = sample.windows[:, -1, 0].astype(np.float64)  # of channel 0, scaled [n]
    added = scale * (offset + slope * newest_reading)
    of_device = calibrator.for_device(device)
    return replace(of_device, validation=replace(sample, numbers=sample.numbers + added))


def lower_float32(plan: Plan) -> Program:
    """Lower a plan, fused or not, to `_f32` kernels.

    >>> import numpy as np
    >>> from scare.calibrator.plan import Step
    >>> dot = Step("dense", ("flat",), "y", {"weight": np.ones((3, 1), np.float32)})
    >>> program = lower_float32(Plan(3, 1, (Step("flatten", ("x",), "flat"), dot)))
    >>> [call.function for call in program.every_call()], program.result.shape
    (['scare_dense_f32'], (1,))
    """

    def lower(part: Plan) -> tuple[tuple[CCall, ...], CValue]:
        window = CValue(WINDOW_NAME, "float", (part.window, part.channels))
        return FLOAT32_LOWERING.calls(part.steps, part.shapes, {INPUT: window})

    if plan.branches is None:
        return Program("float", plan.window, plan.channels, *lower(plan))
    decision, *branches = plan.branches
    choice = plan.steps[-1]
    # Both branches write to the value of the step that chooses between them.
    simple, deep = (
        replace(branch, steps=(*branch.steps[:-1], replace(branch.steps[-1], output=choice.output)))
        for branch in branches
    )
    (decision_calls, _), (simple_calls, _), (deep_calls, _) = map(lower, (decision, simple, deep))
    simple_period, deep_period = (choice.settings[name] for name in PERIODS)
    result = CValue(choice.output, "float", (1,))
    branch = Branch(decision_calls, simple_calls, deep_calls, simple_period, deep_period, result)
    return Program("float", plan.window, plan.channels, (branch,), result)


def lower_fixed(plan: Plan) -> Program:
    """Lower a quantised plan to `_q` kernels; the output of its first step, an int16 window, is the program's input."""
    window_step, *steps = plan.steps
    window = CValue(WINDOW_NAME, "int16_t", (plan.channels, even(plan.window)))
    calls, result = FIXED_LOWERING.calls(steps, plan.shapes, {INPUT: window, STEPS: window})
    quanta = tuple(float(number) for number in window_step.weights["quantum"])
    return Program("int16_t", plan.window, plan.channels, calls, result, quanta)


@dataclass(frozen=True)
class Lowering:
    """Lowering to C in one arithmetic: the C forms of its kernels, the type of its values, its functions' suffix."""

    forms: KernelTable[MakeForm]
    kind: str
    suffix: str

    def calls(
        self, steps: Iterable[Step], shapes: Mapping[str, Shape], sources: Mapping[str, CValue]
    ) -> tuple[tuple[CCall, ...], CValue]:
        """Lower steps without branches; returns their calls and the value of the last step.

        `sources` are the values that exist before them, `shapes` those of all values by name.
        """
        values, calls, last = dict(sources), [], ""
        for step in steps:
            inputs = tuple(values[name] for name in step.inputs)
            placed = PlacedStep(step, inputs, tuple(shapes[name] for name in step.inputs), shapes[step.output])
            call, values[step.output] = self.call(placed)
            if call is not None:
                calls.append(call)
            last = step.output
        return tuple(calls), values[last]

    def call(self, placed: PlacedStep) -> tuple[CCall | None, CValue]:
        """Lower one step; returns its call (None if it is a view of its input) and its value.

        A kernel may overwrite an input of the same size (`over`). One that needs workspace, or space for codes, writes
        to a longer value (`written`): the step's own numbers, then the workspace or the codes.
        """
        form = self.forms[placed.step.kernel](placed)
        name = placed.step.output
        if isinstance(form, CView):
            source = placed.inputs[0]
            start = source.start + form.start
            return None, CValue(name, source.kind, placed.out, view_of=source.view_of or source.name, start=start)
        kind, size = form.kind or self.kind, prod(placed.out)
        # The kernel could overwrite these; a view does not own its memory, and the window must last.
        candidates = [placed.inputs[index] for index in form.in_place if not placed.inputs[index].view_of]
        over = tuple(value.name for value in candidates if value.name != WINDOW_NAME and prod(value.shape) == size)
        value = written = CValue(name, kind, placed.out, over=over, kept=form.kept)
        codes = None
        code_numbers = -(-form.codes // BYTES[kind])  # codes are bytes; here as numbers of this type, rounded up
        if extra := form.work + code_numbers:
            written = CValue(f"{name}.work", kind, (size + extra,))
            value = CValue(name, kind, placed.out, view_of=written.name)
        if form.codes:
            start = size * BYTES[kind]
            codes = CValue(codes_name(name), "uint8_t", (form.codes,), view_of=written.name, start=start, kept=True)
        function = self._function(placed.step.kernel, form)
        return CCall(function, (written, *placed.inputs, *form.arguments), written, codes), value

    def _function(self, kernel: str, form: CForm) -> str:
        """Name of the C function of a kernel; NotApplicableError, saying where to add it, if it is not declared."""
        function = f"scare_{form.function or kernel.removesuffix(FIXED_SUFFIX)}_{self.suffix}"
        if function not in declared_functions():
            header = "scare_fixed.h" if self.suffix == "q" else "scare_kernels.h"
            file = f"runtime/src/kernels/{self.forms.family_of(kernel)}_{self.suffix}.c"
            raise NotApplicableError(
                f"the kernel '{kernel}' has no C function {function}: add it to {file} and runtime/src/{header}"
            )
        return function


def _label(channel: Channel) -> str:
    """Name and unit of a channel, such as "NO2 [ppb]"."""
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name


FLOAT32_LOWERING = Lowering(C_FLOAT32, "float", "f32")
FIXED_LOWERING = Lowering(C_FIXED, "int32_t", "q")
