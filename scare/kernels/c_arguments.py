"""Calls of C kernels: the program that a plan becomes, and the arguments that each kernel's C function takes.

    a step of a plan → PlacedStep → MakeForm of its kernel → CForm or CView → CCall in a Program

The families of `kernels` make the `CForm`s; `export/lowering.py` joins them into a `Program`, `export/memory_layout.py`
gives each value its place in scratch memory, `export/c_source.py` prints it. How arguments lie in memory is described
in `runtime/src/scare_kernels.h` and `scare_fixed.h`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from scare.errors import NotApplicableError
from scare.kernels.contract import Shape, Step

WINDOW_NAME = "window"  # the name of the input, which is not in scratch memory
BLOCK = 4  # columns that a float32 kernel computes side by side
CHUNK = 16  # supports, or numbers of a hidden layer, that a float32 kernel computes at a time
SPECIALISED_WIDTH = 8  # width of a token for which kernels have a specialised function
# Largest sizes that the fixed-point kernels take, checked by `checked_size`: the lengths of their arrays in
# scare_fixed.h.
LARGEST_SIZES = {"width": 32, "supports": 64, "hidden": 128, "tokens": 32, "bits": 16}
# Size of a number by C type.
BYTES = {"float": 4, "int32_t": 4, "uint32_t": 4, "int16_t": 2, "uint16_t": 2, "int8_t": 1, "uint8_t": 1}


@dataclass(frozen=True)
class CTable:
    """A constant table, `static const` in C. Two tables with the same numbers are printed once."""

    values: np.ndarray  # float32, int8, int16, int32, uint8, uint16 or uint32
    about: str  # what the numbers are, for the comment


@dataclass(frozen=True)
class CValue:
    """An array in scratch memory.

    A view has no memory of its own: it is the value `view_of` from element `start` on. `over` names inputs whose memory
    the value may reuse, if no later call reads them. A `kept` value stays readable after the run.
    """

    name: str
    kind: str  # a key of BYTES
    shape: tuple[int, ...]
    view_of: str = ""
    start: int = 0
    over: tuple[str, ...] = ()
    kept: bool = False

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return prod(self.shape) * BYTES[self.kind]


def codes_name(output: str) -> str:
    """Return the name of the byte array that follows `output` in memory: the kernel's decisions, which tests read."""
    return f"{output}.codes"


Argument = CValue | CTable | int | float  # an int prints as a whole number, a float as a float literal


@dataclass(frozen=True)
class CCall:
    """One C call, `function(arguments…)`: the output is among the arguments, every other value is read.

    `codes` is a view of the output's memory with the kernel's decisions; no call reads it, tests do.
    """

    function: str
    arguments: tuple[Argument, ...]
    output: CValue
    codes: CValue | None = None

    @property
    def reads(self) -> tuple[CValue, ...]:
        """The values that must be computed before the call."""
        values = (argument for argument in self.arguments if isinstance(argument, CValue))
        return tuple(value for value in values if value.name != self.output.name)


@dataclass(frozen=True)
class Branch:
    """Calls for a model with two branches: `decision` chooses `simple` or `deep`, and only that one runs.

    A decision holds for `simple_period` or `deep_period` windows. Both branches write their result, one number, to
    `output`.
    """

    decision: tuple[CCall, ...]
    simple: tuple[CCall, ...]
    deep: tuple[CCall, ...]
    simple_period: int
    deep_period: int
    output: CValue


@dataclass(frozen=True)
class Program:
    """A plan lowered to C calls, from a window to `result`, one float: the scaled target."""

    kind: str  # C type of the window: float, row after row; or int16_t, channel after channel
    window: int
    channels: int
    calls: tuple[CCall | Branch, ...]
    result: CValue
    quanta: tuple[float, ...] = ()  # steps of an int16_t window for a scaled value of 1, one for each channel

    def every_call(self) -> Iterator[CCall]:
        """Iterate over all calls in the order in which memory is planned: decision, simple, deep."""
        for call in self.calls:
            if isinstance(call, Branch):
                yield from (*call.decision, *call.simple, *call.deep)
            else:
                yield call


@dataclass(frozen=True)
class PlacedStep:
    """A step of a plan, the C values that it reads, and the shapes of its inputs and its output."""

    step: Step
    inputs: tuple[CValue, ...]
    shapes: tuple[Shape, ...]
    out: Shape

    @property
    def rows_and_width(self) -> tuple[int, int]:
        """Rows of the first input, and numbers in a row; all axes but the last count as rows."""
        return prod(self.shapes[0][:-1]), self.shapes[0][-1]

    def weight(self, name: str) -> np.ndarray:
        """Return a weight in double precision."""
        return self.step.weights[name].astype(np.float64)

    def bias(self, *shape: int) -> np.ndarray:
        """Return the bias in double precision, broadcast to this shape; zeros if the step has none."""
        return np.broadcast_to(self.weight("bias") if "bias" in self.step.weights else 0.0, shape)


@dataclass(frozen=True)
class CForm:
    """The arguments of a C function after the output and the inputs: tables, sizes, numbers, in this order.

    `in_place` are the indices of the inputs whose memory the output may reuse. After its output the function needs
    `work` elements of scratch memory, and writes its decisions as `codes` bytes, readable after a run.
    """

    arguments: tuple[CTable | int | float, ...]
    in_place: tuple[int, ...] = ()
    work: int = 0
    function: str = ""  # empty: the kernel's name
    kind: str = ""  # C type of the output's numbers; empty: float or int32_t
    kept: bool = False  # whether the output stays readable after a run
    codes: int = 0


@dataclass(frozen=True)
class CView:
    """A step without a call: the output is the first input's memory from element `start` on."""

    start: int = 0


MakeForm = Callable[[PlacedStep], CForm | CView]  # makes a kernel's C form for one step


def view_form(placed: PlacedStep) -> CView:
    """Make the C form of a kernel that reads the same numbers in another shape."""
    return CView(placed.step.settings.get("start", 0))


def elementwise_form(placed: PlacedStep) -> CForm:
    """Make the C form of an elementwise kernel: its only argument is the size, and it may overwrite any input."""
    return CForm((prod(placed.out),), in_place=tuple(range(len(placed.inputs))))


def table_f32(values: np.ndarray, about: str) -> CTable:
    """Make a float32 table of an array, flattened row by row."""
    return CTable(np.ascontiguousarray(values, np.float32).ravel(), about)


def tables_f32(placed: PlacedStep, *names: str) -> tuple[CTable, ...]:
    """Make a float32 table of each of these weights of a step."""
    return tuple(table_f32(placed.weight(name), name) for name in names)


def table_q(array: np.ndarray, about: str, kind: type[np.integer] | None = None) -> CTable:
    """Make an integer table of an array, flattened row by row; `kind` is its type, by default that of the array."""
    return CTable(np.ascontiguousarray(array if kind is None else array.astype(kind)).reshape(-1), about)


def checked_size(what: str, size: int) -> int:
    """Return the size; raise NotApplicableError if it is too large for the fixed-point kernels."""
    if size > LARGEST_SIZES[what]:
        raise NotApplicableError(
            f"float32 only: {what} of {size}; the fixed-point kernels have room for {LARGEST_SIZES[what]}"
        )
    return size


def even(count: int) -> int:
    """Round up to an even number: so many half-words lie between two channels of an int16 window."""
    return count + count % 2


def pad_axis(array: np.ndarray, axis: int, multiple: int, value: float = 0.0) -> np.ndarray:
    """Pad an axis at its end to a length that is a multiple of `multiple`."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths, constant_values=value)


def blocks_f32(*matrices: np.ndarray) -> np.ndarray:
    """Stack matrices on top of each other and lay out their columns in blocks of four; flat, as C reads them.

    A block [rows, 4] is stored row by row; columns left over are stored one at a time.
    """
    matrix = np.concatenate(matrices)
    in_blocks = matrix.shape[1] // BLOCK * BLOCK  # columns
    blocks = [matrix[:, column : column + BLOCK] for column in range(0, in_blocks, BLOCK)]
    blocks += [matrix[:, column : column + 1] for column in range(in_blocks, matrix.shape[1])]
    return np.concatenate([block.ravel() for block in blocks])


def chunks_f32(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Lay out the weights of a kernel that computes 16 hidden numbers at a time, in the order in which it reads them.

    That is 16 columns of `inner`, then the 16 rows of `outer` that read them, and so on, each in blocks of four.
    """
    parts = []
    for start in range(0, len(outer), CHUNK):
        chunk = slice(start, start + CHUNK)
        parts += [blocks_f32(inner[:, chunk]), blocks_f32(outer[chunk])]
    return np.concatenate(parts)


def blocks_q(weight: np.ndarray) -> np.ndarray:
    """Lay out weights [I, O] in blocks of four outputs and two inputs: [O / 4, I / 2, 2, 4]."""
    filled = pad_axis(pad_axis(weight, -1, 4), 0, 2)
    return filled.reshape(len(filled) // 2, 2, -1, 4).transpose(2, 0, 1, 3)


def bias_then_weights(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Lay out, for each output of int16 weights [I, O], its int32 bias as two int16, then its weights: [O, 2 + I].

    The weights are padded with zeros to a multiple of eight.
    """
    split_bias = bias.astype("<i4").view("<i2").reshape(-1, 2)
    return np.concatenate([split_bias, pad_axis(weight.T, -1, 8)], axis=1)
