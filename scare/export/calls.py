"""Calls: the steps of a plan as calls of C functions, in the same way for both arithmetics.

Comes from `float32` and `int8`, which bring the C forms of their kernels; goes to a `Program`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from scare.errors import NotApplicableError
from scare.export.runtime import declared_functions
from scare.kernels import KernelTable, Shape, Step
from scare.kernels.c_arguments import WINDOW_NAME, CCall, CForm, CValue, MakeForm, PlacedStep, View
from scare.kernels.contract import FIXED_SUFFIX


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
        if isinstance(form, View):
            source = placed.inputs[0]
            start = source.start + form.start
            return None, CValue(name, source.kind, placed.out, of=source.of or source.name, start=start)
        kind, size = form.kind or self.kind, prod(placed.out)
        inputs = [placed.inputs[index] for index in form.in_place if not placed.inputs[index].of]
        over = tuple(value.name for value in inputs if value.name != WINDOW_NAME and prod(value.shape) == size)
        value = written = CValue(name, kind, placed.out, over=over, kept=form.kept)
        if form.work:
            written = CValue(f"{name}.work", kind, (size + form.work,))
            value = CValue(name, kind, placed.out, of=written.name)
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
