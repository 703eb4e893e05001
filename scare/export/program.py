"""A program is a plan made ready for C: calls in a straight line, the values they share, the constants they read.

`float32` and `int8` make one from a plan, `memory` gives each value its place in scratch memory, `c_source` prints it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

WINDOW = "window"  # the name of the input: not in scratch memory

BYTES = {"float": 4, "int32_t": 4, "uint32_t": 4, "int16_t": 2, "uint16_t": 2, "int8_t": 1}


@dataclass(frozen=True)
class Table:
    """Constant numbers: `static const` in C. Two tables with the same numbers are printed once."""

    values: np.ndarray  # float32, int8, int16, int32, uint8, uint16 or uint32
    about: str  # what they are, for the comment


@dataclass(frozen=True)
class Value:
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


Argument = Value | Table | int | float  # an int prints as a whole number, a float as a float literal


@dataclass(frozen=True)
class Call:
    """`function(arguments…)`: the output is one of the arguments, every other value among them is read."""

    function: str
    arguments: tuple[Argument, ...]
    output: Value

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that must be there before."""
        values = (argument for argument in self.arguments if isinstance(argument, Value))
        return tuple(value for value in values if value.name != self.output.name)


@dataclass(frozen=True)
class Branch:
    """`decision` is computed when no earlier one holds any more; then `simple` or `deep`, never both.

    All three end in a value of one number; both branches leave it in `output`.
    """

    decision: tuple[Call, ...]
    simple: tuple[Call, ...]
    deep: tuple[Call, ...]
    simple_period: int
    deep_period: int
    output: Value


@dataclass(frozen=True)
class Program:
    """From a window to `result`, one float: the scaled target."""

    kind: str  # of the window's numbers: float, row after row; or int16_t, channel after channel
    window: int
    channels: int
    calls: tuple[Call | Branch, ...]
    result: Value
    quanta: tuple[float, ...] = ()  # of an int16_t window: its steps for a scaled value of 1, one for each channel

    def every_call(self) -> Iterator[Call]:
        """All calls in the order in which memory is planned: decision, simple and deep one after the other."""
        for call in self.calls:
            if isinstance(call, Branch):
                yield from (*call.decision, *call.simple, *call.deep)
            else:
                yield call
