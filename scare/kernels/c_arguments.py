"""The C form of a kernel: a function that says for a step what its C twin is called with.

`runtime/src/scare_kernels.h` and `scare_fixed.h` say how the arguments lie in memory. Comes from the families'
`float32.py` and `int8.py`, goes to `export.calls`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from scare.errors import NotApplicableError
from scare.kernels.contract import Shape, Step

# A program is a plan made ready for C: calls in a straight line, the values they share, the constants they read.
#
# `float32` and `int8` make one from a plan, `memory` gives each value its place in scratch memory, `c_source` prints
# it.


WINDOW_NAME = "window"  # the name of the input: not in scratch memory

BYTES = {"float": 4, "int32_t": 4, "uint32_t": 4, "int16_t": 2, "uint16_t": 2, "int8_t": 1}


@dataclass(frozen=True)
class CTable:
    """Constant numbers: `static const` in C. Two tables with the same numbers are printed once."""

    values: np.ndarray  # float32, int8, int16, int32, uint8, uint16 or uint32
    about: str  # what they are, for the comment


@dataclass(frozen=True)
class CValue:
    """Numbers in scratch memory.

    A view (`of` another value) has no memory of its own: it is that value from element `start` on. `over` names inputs
    whose memory the value may take once nobody else reads them. What is `kept` stays readable after the run.
    """

    name: str
    kind: str  # a key of BYTES
    shape: tuple[int, ...]
    of: str = ""
    start: int = 0
    over: tuple[str, ...] = ()
    kept: bool = False

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return prod(self.shape) * BYTES[self.kind]


Argument = CValue | CTable | int | float  # an int prints as a whole number, a float as a float literal


@dataclass(frozen=True)
class CCall:
    """`function(arguments…)`: the output is one of the arguments, every other value among them is read."""

    function: str
    arguments: tuple[Argument, ...]
    output: CValue

    @property
    def reads(self) -> tuple[CValue, ...]:
        """The values that must be there before."""
        values = (argument for argument in self.arguments if isinstance(argument, CValue))
        return tuple(value for value in values if value.name != self.output.name)


@dataclass(frozen=True)
class Branch:
    """`decision` is computed when no earlier one holds any more; then `simple` or `deep`, never both.

    All three end in a value of one number; both branches leave it in `output`.
    """

    decision: tuple[CCall, ...]
    simple: tuple[CCall, ...]
    deep: tuple[CCall, ...]
    simple_period: int
    deep_period: int
    output: CValue


@dataclass(frozen=True)
class Program:
    """From a window to `result`, one float: the scaled target."""

    kind: str  # of the window's numbers: float, row after row; or int16_t, channel after channel
    window: int
    channels: int
    calls: tuple[CCall | Branch, ...]
    result: CValue
    quanta: tuple[float, ...] = ()  # of an int16_t window: its steps for a scaled value of 1, one for each channel

    def every_call(self) -> Iterator[CCall]:
        """All calls in the order in which memory is planned: decision, simple and deep one after the other."""
        for call in self.calls:
            if isinstance(call, Branch):
                yield from (*call.decision, *call.simple, *call.deep)
            else:
                yield call


@dataclass(frozen=True)
class PlacedStep:
    """A step of a plan, the values in memory that it reads, and the shapes of its inputs and its output."""

    step: Step
    inputs: tuple[CValue, ...]
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

    arguments: tuple[CTable | int | float, ...]
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


# Tables of float32 kernels, in the order in which C reads them.


FOUR = 4  # sums side by side
CHUNK = 16  # supports or hidden numbers at a time
USUAL = 8  # numbers in a token for which kernels are compiled anew


def table_f32(values: np.ndarray, about: str) -> CTable:
    """Numbers as they are, one after the other."""
    return CTable(np.ascontiguousarray(values, np.float32).ravel(), about)


def tables_f32(placed: PlacedStep, *names: str) -> tuple[CTable, ...]:
    """Weights of a step as they are."""
    return tuple(table_f32(placed.weight(name), name) for name in names)


def in_fours(*matrices: np.ndarray) -> np.ndarray:
    """The columns of matrices on top of each other, four at a time, those left over one at a time: [...]."""
    matrix = np.concatenate(matrices)
    whole = matrix.shape[1] // FOUR * FOUR
    blocks = [matrix[:, o : o + FOUR] for o in range(0, whole, FOUR)]
    blocks += [matrix[:, o : o + 1] for o in range(whole, matrix.shape[1])]
    return np.concatenate([block.ravel() for block in blocks])


def pad_axis(array: np.ndarray, axis: int, multiple: int, value: float = 0.0) -> np.ndarray:
    """The array with its axis as long as the next multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths, constant_values=value)


def chunked(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Columns of `inner`, then rows of `outer`, 16 at a time."""
    starts = range(0, len(outer), CHUNK)
    pieces = [(in_fours(inner[:, at : at + CHUNK]), in_fours(outer[at : at + CHUNK])) for at in starts]
    return np.concatenate([part for piece in pieces for part in piece])


# Tables of integer kernels, in the order in which C reads them, and the sizes C has room for.


LARGEST = {"width": 32, "supports": 64, "hidden": 128, "value pairs": 128, "tokens": 32, "bits": 16}  # scare_fixed.h
USUAL_Q = 8  # numbers in a token for which kernels are compiled anew


def fits(what: str, size: int) -> int:
    """A size that the kernels have room for."""
    if size > LARGEST[what]:
        raise NotApplicableError(f"float32 only: {what} of {size}; the integer kernels have room for {LARGEST[what]}")
    return size


def table_q(array: np.ndarray, about: str, kind: type[np.integer] | None = None) -> CTable:
    """Numbers as they are, one after the other."""
    return CTable(np.ascontiguousarray(array if kind is None else array.astype(kind)).reshape(-1), about)


def pad_last_axis(array: np.ndarray, multiple: int) -> np.ndarray:
    """The last axis filled up with zeros."""
    missing = -array.shape[-1] % multiple
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def by_four(weight: np.ndarray) -> np.ndarray:
    """Weights [I, O] in blocks of four outputs and two inputs: [O / 4, I / 2, 2, 4]."""
    filled = pad_last_axis(pad_last_axis(weight, 4).T, 2).T
    return filled.reshape(len(filled) // 2, 2, -1, 4).transpose(2, 0, 1, 3)


def after_bias(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each output of weights [I, O] the two halves of a word, its bias, then its weights, padded to eight."""
    return np.concatenate([bias.astype("<i4").view("<i2").reshape(-1, 2), pad_last_axis(weight.T, 8)], axis=1)
