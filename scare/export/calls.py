"""Calls: the steps of a plan as calls of C functions, in the same way for both arithmetics.

Comes from `float32` and `int8`, which bring the C forms of their kernels; goes to a `Program`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from scare.calibrator.kernels import Forms, Shape, Step
from scare.calibrator.kernels.forms import SUFFIX
from scare.errors import NotApplicableError
from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, View
from scare.export.program import WINDOW, Call, Value
from scare.export.runtime import declared_functions


@dataclass(frozen=True)
class Lowering:
    """One arithmetic: the C forms of its kernels, the kind of its values, how its functions' names end."""

    forms: Forms[MakeForm]
    kind: str
    type: str

    def calls(
        self, steps: Iterable[Step], shapes: Mapping[str, Shape], given: Mapping[str, Value]
    ) -> tuple[tuple[Call, ...], Value]:
        """The calls of steps without branches that read values as given, and the value of the last step."""
        values, calls, last = dict(given), [], ""
        for step in steps:
            inputs = tuple(values[name] for name in step.inputs)
            placed = PlacedStep(step, inputs, tuple(shapes[name] for name in step.inputs), shapes[step.output])
            call, values[step.output] = self.call(placed)
            calls += [call] if call is not None else []
            last = step.output
        return tuple(calls), values[last]

    def call(self, placed: PlacedStep) -> tuple[Call | None, Value]:
        """The call of a step, None for a view, and the step's value: what is written, without the work after it."""
        form, name = self.forms[placed.step.kernel](placed), placed.step.output
        if isinstance(form, View):
            source = placed.inputs[0]
            start = source.start + form.start
            return None, Value(name, source.kind, placed.out, of=source.of or source.name, start=start)
        kind, size = form.kind or self.kind, prod(placed.out)
        inputs = [placed.inputs[index] for index in form.in_place if not placed.inputs[index].of]
        over = tuple(value.name for value in inputs if value.name != WINDOW and prod(value.shape) == size)
        value = written = Value(name, kind, placed.out, over=over, kept=form.kept)
        if form.work:
            written = Value(f"{name}.work", kind, (size + form.work,))
            value = Value(name, kind, placed.out, of=written.name)
        function = self._function(placed.step.kernel, form)
        return Call(function, (written, *placed.inputs, *form.arguments), written), value

    def _function(self, kernel: str, form: CForm) -> str:
        """The name of the C function, which the runtime must have."""
        function = f"scare_{form.function or kernel.removesuffix(SUFFIX)}_{self.type}"
        if function not in declared_functions():
            header = "scare_integer.h" if self.type == "s8" else "scare_kernels.h"
            file = f"runtime/src/kernels/{self.forms.family_of(kernel)}_{self.type}.c"
            raise NotApplicableError(
                f"the kernel '{kernel}' has no C function {function}: add it to {file} and runtime/src/{header}"
            )
        return function
