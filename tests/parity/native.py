"""The runtime's kernels compiled for this computer, and programs run on them call by call."""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from scare.board.build import STRICT, compile_once, library_name
from scare.board.host import HOST_FLAGS
from scare.export.blob_kernels import blob_kernels
from scare.kernels.c_arguments import WINDOW_NAME, Branch, CCall, CTable, CValue, Program
from scare.kernels.c_extents import evaluate

RUNTIME = Path(__file__).parents[2] / "runtime" / "src"
FLOAT32 = sorted((RUNTIME / "kernels").glob("*_f32.c"))
FIXED = sorted((RUNTIME / "kernels").glob("*_q.c"))
NUMBERS = {"float": np.float32, "uint32_t": np.uint32, "int32_t": np.int32}
GUARD, UNWRITTEN = 8, 0x7FC0ABCD  # words after an output; a NaN


def library(sources: Sequence[Path]) -> ctypes.CDLL:
    """Compile sources that may include the runtime's headers."""
    flags = ("-shared", *STRICT, *HOST_FLAGS)
    return ctypes.CDLL(str(compile_once(sources, library_name("kernels"), flags, [RUNTIME])))


@cache
def kernels() -> ctypes.CDLL:
    """Compile all kernels."""
    return library([*FLOAT32, *FIXED])


class ProgramRunner:
    """Run a program, each value in an array of its own; views are views."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.arrays: dict[str, np.ndarray] = {}

    def run(self, window: np.ndarray) -> float:
        """Run the program on a window in its own number type; its arrays stay until the next run."""
        kind = np.float32 if self.program.kind == "float" else np.int16
        self.arrays = {WINDOW_NAME: np.append(np.ascontiguousarray(window, kind).ravel(), np.zeros(1, kind))}
        for call in self.program.calls:
            if isinstance(call, Branch):
                self._branch(call)
            else:
                call_on_new_memory(call, self.arrays)
        return float(array_of(self.program.result, self.arrays)[0])

    def _branch(self, branch: Branch) -> None:
        for call in branch.decision:
            call_on_new_memory(call, self.arrays)
        deep = array_of(branch.decision[-1].output, self.arrays)[0] > 0.5
        for call in branch.deep if deep else branch.simple:
            call_on_new_memory(call, self.arrays)


def call_on_new_memory(call: CCall, arrays: dict[str, np.ndarray]) -> None:
    """Call with new memory for the output; check what the call reaches and that nothing after the output is written."""
    size = int(np.prod(call.output.shape))
    check_extents(call)
    memory = np.full(size + GUARD, UNWRITTEN, np.uint32)
    arrays[call.output.name] = memory[:size].view(NUMBERS[call.output.kind])
    call_on(call, arrays)
    assert (memory[size:] == UNWRITTEN).all(), f"{call.function} writes beyond its output"


def check_extents(call: CCall) -> None:
    """Check that the call keeps the rules of an interpreter, whose formulas are exact for tables and outputs."""
    kernel = blob_kernels()[call.function]
    numbers = [argument if isinstance(argument, int) else 0 for argument in call.arguments]
    tables = {i: table.values for i, table in enumerate(call.arguments) if isinstance(table, CTable)}
    for code, pointer in kernel.rules:
        found = evaluate(code, numbers, tables)
        if pointer is None:
            assert found, call.function
            continue
        argument = call.arguments[pointer]
        what = f"{call.function} {kernel.parameters[pointer].name}"
        if isinstance(argument, CTable):
            assert found in (argument.values.size, 0), what  # 0: no table will be read
            continue
        assert isinstance(argument, CValue)
        shortest = argument.name in (WINDOW_NAME, call.output.name) and "_trees" not in call.function
        assert found is not None
        spare = argument.name == WINDOW_NAME  # an odd window has a number after each channel
        assert found <= np.prod(argument.shape), what
        assert not shortest or found >= np.prod(argument.shape) - spare, what


def call_on(call: CCall, arrays: dict[str, np.ndarray]) -> None:
    """Call with the memory that the values have."""
    getattr(kernels(), call.function)(*(_argument(argument, arrays) for argument in call.arguments))


def array_of(value: CValue, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The numbers of a value."""
    return arrays[value.view_of or value.name][value.start : value.start + int(np.prod(value.shape))]


def _argument(argument: CValue | CTable | int | float, arrays: dict[str, np.ndarray]) -> object:
    if isinstance(argument, CValue):
        return ctypes.c_void_p(array_of(argument, arrays).ctypes.data)
    if isinstance(argument, CTable):
        return ctypes.c_void_p(argument.values.ctypes.data)
    return ctypes.c_uint32(argument & 0xFFFFFFFF) if isinstance(argument, int) else ctypes.c_float(argument)
