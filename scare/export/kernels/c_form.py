"""The C form of a kernel: a function that says for a step what its C twin is called with.

`runtime/src/scare_kernels.h` and `scare_integer.h` say how the arguments lie in memory. Comes from the families'
`float32.py` and `int8.py`, goes to `export.calls`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from scare.calibrator.kernels import Shape, Step
from scare.export.program import Table, Value


@dataclass(frozen=True)
class PlacedStep:
    """A step of a plan, the values in memory that it reads, and the shapes of its inputs and its output."""

    step: Step
    inputs: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    out: Shape

    @property
    def rows_and_width(self) -> tuple[int, int]:
        """Rows of the first input, and numbers in a row."""
        return prod(self.shapes[0][:-1]), self.shapes[0][-1]

    def weight(self, name: str) -> np.ndarray:
        """A weight in double precision."""
        return self.step.weights[name].astype(np.float64)

    def bias(self, *shape: int) -> np.ndarray:
        """The bias in double precision, zero if there is none."""
        return np.broadcast_to(self.weight("bias") if "bias" in self.step.weights else 0.0, shape)


@dataclass(frozen=True)
class CForm:
    """What a C function takes after the output and the inputs: tables, sizes, numbers, in this order.

    `in_place` are the inputs whose memory the output may take; `work` numbers follow the output.
    """

    arguments: tuple[Table | int | float, ...]
    in_place: tuple[int, ...] = ()
    work: int = 0
    function: str = ""  # where it is not the kernel's name
    kind: str = ""  # of the output's numbers, where it is not the usual one
    kept: bool = False  # whether the output stays readable after a run


@dataclass(frozen=True)
class View:
    """No function: the output is the first input's memory from element `start` on."""

    start: int = 0


MakeForm = Callable[[PlacedStep], CForm | View]


def view(placed: PlacedStep) -> View:
    """The form of kernels that read the same numbers in another shape."""
    return View(placed.step.settings.get("start", 0))


def every_number(placed: PlacedStep) -> CForm:
    """The form of kernels that go number by number, in place."""
    return CForm((prod(placed.out),), in_place=tuple(range(len(placed.inputs))))
