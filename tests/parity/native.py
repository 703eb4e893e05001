"""The runtime's kernels compiled for this computer, and programs run on them call by call."""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from scare.board.build import STRICT, compile_once, library_name
from scare.board.host import HOST_FLAGS
from scare.kernels.c_arguments import WINDOW_NAME, Branch, CCall, CTable, CValue, Program

RUNTIME = Path(__file__).parents[2] / "runtime" / "src"
FLOAT32 = sorted((RUNTIME / "kernels").glob("*_f32.c"))
INTEGER = sorted((RUNTIME / "kernels").glob("*_q.c"))
NUMBERS = {"float": np.float32, "uint32_t": np.uint32, "int32_t": np.int32}
GUARD, UNWRITTEN = 8, 0x7FC0ABCD  # words after an output; a NaN


def library(sources: Sequence[Path]) -> ctypes.CDLL:
    """Sources that may include the runtime's headers."""
    flags = ("-shared", *STRICT, *HOST_FLAGS)
    return ctypes.CDLL(str(compile_once(sources, library_name("kernels"), flags, [RUNTIME])))


@cache
def kernels() -> ctypes.CDLL:
    """All kernels."""
    return library([*FLOAT32, *INTEGER])


class Machine:
    """Runs a program, each value in an array of its own; views are views."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.held: dict[str, np.ndarray] = {}

    def run(self, window: np.ndarray) -> float:
        """What the program gives for a window as it reads it; its values are held until the next run."""
        kind = np.float32 if self.program.kind == "float" else np.int16
        self.held = {WINDOW_NAME: np.append(np.ascontiguousarray(window, kind).ravel(), np.zeros(1, kind))}
        for call in self.program.calls:
            if isinstance(call, Branch):
                self._branch(call)
            else:
                call_on_new_memory(call, self.held)
        return float(array_of(self.program.result, self.held)[0])

    def _branch(self, branch: Branch) -> None:
        for call in branch.decision:
            call_on_new_memory(call, self.held)
        deep = array_of(branch.decision[-1].output, self.held)[0] > 0.5
        for call in branch.deep if deep else branch.simple:
            call_on_new_memory(call, self.held)


def call_on_new_memory(call: CCall, held: dict[str, np.ndarray]) -> None:
    """Call with new memory for the output, and see that nothing after it is written."""
    size = int(np.prod(call.output.shape))
    memory = np.full(size + GUARD, UNWRITTEN, np.uint32)
    held[call.output.name] = memory[:size].view(NUMBERS[call.output.kind])
    call_on(call, held)
    assert (memory[size:] == UNWRITTEN).all(), f"{call.function} writes beyond its output"


def call_on(call: CCall, held: dict[str, np.ndarray]) -> None:
    """Call with the memory that the values have."""
    getattr(kernels(), call.function)(*(_argument(argument, held) for argument in call.arguments))


def array_of(value: CValue, held: dict[str, np.ndarray]) -> np.ndarray:
    """A value's numbers."""
    return held[value.view_of or value.name][value.start : value.start + int(np.prod(value.shape))]


def _argument(argument: CValue | CTable | int | float, held: dict[str, np.ndarray]) -> object:
    if isinstance(argument, CValue):
        return ctypes.c_void_p(array_of(argument, held).ctypes.data)
    if isinstance(argument, CTable):
        return ctypes.c_void_p(argument.values.ctypes.data)
    return ctypes.c_uint32(argument & 0xFFFFFFFF) if isinstance(argument, int) else ctypes.c_float(argument)
