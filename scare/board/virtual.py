"""The virtual board: exported C in an emulated Cortex-M or RISC-V, with every instruction counted.

    CExport -> build.py (firmware) -> Machine (Unicorn) -> Trace -> CycleModel -> Runs -> measure.py, certificate.py

    model = VirtualModel(read_export(folder), board("nano33ble"))
    runs = model.run(windows)  # runs.outputs, runs.kept, runs.instructions, runs.stack_bytes, runs.cycles

A `Trace` counts how often execution went from each block of code to the next (an edge), and how deep the stack became.
Blocks are decoded once and the cost of a run is the sum over its edges, so counts are exact and cheap. A conditional
instruction that is skipped still counts. Cycles are estimates from Arm's manual, never checked on hardware. `HostModel`
is the counterpart on this computer.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scare.board.boards import Board
from scare.board.build import (
    RAM,
    USUAL,
    CExport,
    Firmware,
    Image,
    build,
    compile_once,
    find_compiler,
    library_name,
)
from scare.board.host import ANSWER_TYPE, CALIBRATION_WORDS, CChannel, model_structure, stored_windows, window_bytes
from scare.board.processors import Instruction, processor
from scare.extras import require

OUTSIDE = 0x10000000  # extra memory that no chip has, for arguments of calls; calls return to its start
OUTSIDE_BYTES = 1 << 20
PAGE = 4096  # bytes; Unicorn maps memory in whole pages
EDGES = 1 << 16  # most edges that can be counted, as in hooks.c
MOST_BLOCKS = 1 << 33  # most blocks of code per call, minutes of emulation; more is taken for an endless loop
EDGE = np.dtype([("from", "<u4"), ("from_size", "<u4"), ("to", "<u4"), ("to_size", "<u4"), ("count", "<u8")])
UNKNOWN = ".byte"  # Capstone's name for undecodable bytes
# Addresses of the arguments of `scare_calibrate` and `run`.
READING, ANSWER, CHOICE, SCALED = (OUTSIDE + offset for offset in (0x1000, 0x2000, 0x2010, 0x2018))
# Addresses of a model whose `run` does nothing, to measure `scare_calibrate` without it.
IDLE_MODEL, IDLE_RUN = OUTSIDE + 0x3000, OUTSIDE + 0x3100
ModelStructure = model_structure(ctypes.c_uint32)


@dataclass(frozen=True)
class Runs:
    """Results of `run` on n windows, [n] each: scaled outputs, kept values (codes) by name, and costs."""

    outputs: np.ndarray
    kept: dict[str, np.ndarray]
    instructions: np.ndarray
    stack_bytes: np.ndarray
    cycles: np.ndarray  # [n, 3]: low, typical, high


@dataclass(frozen=True)
class PushCost:
    """Cost of `scare_calibrate` without `run`: for a reading on time, and for one after a missing row."""

    instructions: int
    gap_instructions: int
    cycles: Cycles
    stack_bytes: int  # with `run`
    run_stack_bytes: int  # stack of this `run` alone


class VirtualModel:
    """An exported model in the flash of a virtual board."""

    def __init__(self, exported: CExport, board: Board, compiler: str = USUAL) -> None:
        self.exported = exported
        self.firmware = build(exported, board, find_compiler(compiler, board))
        self.machine = Machine(self.firmware)
        self._cycles = CycleModel(self.machine)
        # Addresses of the struct `scare` and of the `scare_model`.
        self._calibration = self.machine.symbols["board_calibration"]
        self._model = self.machine.symbols[exported.symbol]
        self.opening = self.machine.call("board_open") if exported.is_blob else None  # cost of opening a blob
        if self.opening and self.machine.result:
            raise MachineError(f"scare_blob_open_unsigned returned {self.machine.result}")
        self.facts = ModelStructure.from_buffer_copy(self.machine.read(self._model, ctypes.sizeof(ModelStructure)))
        channels = CChannel * self.facts.channels
        self.channels = channels.from_buffer_copy(self.machine.read(self.facts.channel, ctypes.sizeof(channels)))

    def run(self, windows: np.ndarray, advance: Callable[[], object] = lambda: None) -> Runs:
        """Run a model on scaled windows [n, window, channels], each independently; `advance` is called after each."""
        self._begin(self._model)
        window, scratch = self._memory()
        kept = self.exported.kept
        outputs, instructions, stacks, cycles = bytearray(), [], [], []
        contents = {name: bytearray() for name in kept}
        for content in stored_windows(windows, self.facts, self.channels):
            self.machine.write(window, content)
            trace = self._run()
            outputs += self.machine.read(SCALED, 4)
            for name, value in kept.items():
                contents[name] += self.machine.read(scratch + value.offset, value.size)
            instructions.append(trace.instructions)
            stacks.append(trace.stack_bytes)
            cycles.append(self._cycles.estimate(trace))
            advance()
        return Runs(
            np.frombuffer(outputs, "<f4"),
            {name: value.decode(contents[name]) for name, value in kept.items()},
            np.array(instructions),
            np.array(stacks),
            np.array(cycles),
        )

    def push(self) -> PushCost:
        """Measure the cost of one more reading after a full window.

        Instructions and cycles are those of a model whose `run` does nothing; the stack is the real model's.
        """
        self.machine.write(IDLE_RUN, self.machine.processor.idle_code)
        idle = bytearray(self.machine.read(self._model, self.machine.sizes[self.exported.symbol]))
        struct.pack_into("<I", idle, ModelStructure.run.offset, IDLE_RUN | self.machine.processor.odd)
        self.machine.write(IDLE_MODEL, bytes(idle))
        self._begin(IDLE_MODEL)
        reading = [min(max(channel.center, channel.valid.low), channel.valid.high) for channel in self.channels]
        self.machine.write(READING, np.array(reading, np.float32))
        step = self.facts.step_ms
        for row in range(self.facts.checked):  # until the history is complete
            self._push(row * step)
        in_order = self._push((row + 1) * step)
        if self.machine.result:
            raise MachineError(
                f"scare_calibrate returned {self.machine.result} for a reading at the center of every channel"
            )
        # The first word of the struct `scare` is the model in use.
        self.machine.write(self._calibration, np.array([self._model], np.uint32))
        complete = self._push((row + 2) * step)
        run_alone = self._run()
        self.machine.write(self._calibration, np.array([IDLE_MODEL], np.uint32))
        after_gap = self._push((row + 4) * step)  # row + 3 is missing
        return PushCost(
            in_order.instructions,
            after_gap.instructions,
            self._cycles.estimate(in_order),
            complete.stack_bytes,
            run_alone.stack_bytes,
        )

    def restart(self) -> None:
        """Forget all readings."""
        self._begin(self._model)

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading [channels]; return the status and the bytes of the answer."""
        self.count(now_ms, numbers)
        return self.machine.result, self.machine.read(ANSWER, ANSWER_TYPE.itemsize)

    def count(self, now_ms: int, numbers: np.ndarray) -> int:
        """Push one reading [channels], and count the instructions, `run` included."""
        self.machine.write(READING, numbers.astype(np.float32))
        return self._push(now_ms).instructions

    def read_memory(self) -> tuple[bytes, bytes]:
        """Read the window, then the scratch memory."""
        window, scratch = self._memory()
        return self.machine.read(window, window_bytes(self.facts)), self.machine.read(scratch, self.facts.scratch_bytes)

    def _memory(self) -> tuple[int, int]:
        """Return the addresses of the window and of scratch memory."""
        _, window, _, scratch = self.machine.words(self._calibration, CALIBRATION_WORDS)
        return window, scratch

    def _run(self) -> Trace:
        """Call `run` on the window in memory, with a new choice of branch."""
        self.machine.write(CHOICE, bytes(8))
        return self.machine.call(self.facts.run, *self._memory(), CHOICE, SCALED, self._model)

    def _begin(self, model: int) -> None:
        """Call `scare_init` for the model at this address, which forgets all readings."""
        size = self.machine.sizes["board_memory"]
        self.machine.call("scare_init", self._calibration, model, self.machine.symbols["board_memory"], size)
        if self.machine.result:
            raise MachineError(f"scare_init returned {self.machine.result}")

    def _push(self, now_ms: int) -> Trace:
        """Call `scare_calibrate` with the reading that is in memory at READING; its clock has 32 bits."""
        return self.machine.call("scare_calibrate", self._calibration, now_ms & 0xFFFFFFFF, READING, ANSWER)


class MachineError(RuntimeError):
    """A fault of the emulated program; the message says what happened and in which function."""


class Record(ctypes.Structure):
    """The struct `record` of hooks.c, in which the hooks count what a call does."""

    _fields_ = (
        ("edges", ctypes.c_void_p),
        ("used", ctypes.c_uint32),
        ("origin", ctypes.c_uint32),
        ("origin_size", ctypes.c_uint32),
        ("lowest", ctypes.c_uint32),
        ("stack_pointer", ctypes.c_uint32),
        ("left", ctypes.c_uint64),
        ("read_register", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Trace:
    """Record of one call: edges between blocks, instructions, and the deepest stack."""

    edges: np.ndarray  # dtype EDGE, each edge once
    instructions: int
    stack_bytes: int


class Machine:
    """An emulated board with firmware in its flash."""

    def __init__(self, firmware: Firmware) -> None:
        """Load the firmware into Unicorn, map memory for arguments, and install the hooks that count edges."""
        require("board", "unicorn", "capstone", "elftools")
        import unicorn

        self.board = firmware.board
        self.processor = processor(self.board.core, self.board.hard_float)
        self._engine = self.processor.engine()
        self.symbols, self.sizes = firmware.image.symbols, firmware.image.sizes
        self._load(firmware.image)
        self._engine.mem_map(OUTSIDE, OUTSIDE_BYTES)
        self._fault = ""
        self._engine.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._note_fault)
        self._edges = np.zeros(EDGES, EDGE)
        self._record = Record(self._edges.ctypes.data, stack_pointer=self.processor.stack_pointer)
        self._add_hooks(firmware.image.code)
        # Number of instructions in the block that each edge leads to; 0 until the block is decoded.
        self._instructions = np.zeros(EDGES, np.int64)

    def call(self, function: str | int, *arguments: int | float) -> Trace:
        """Call a function by name or address; ints and floats are passed as C passes them."""
        import unicorn

        engine, registers = self._engine, self.processor
        odd = self.processor.odd  # the bit that code addresses have set
        address = self.symbols[function] if isinstance(function, str) else function
        top = self.symbols["stack_top"]
        pointer = self._pass_arguments(arguments, top)
        engine.reg_write(registers.stack_pointer, pointer)
        engine.reg_write(registers.return_address, OUTSIDE | odd)
        self._edges["count"] = 0
        self._record.origin, self._record.origin_size, self._record.lowest = 0, 0, pointer
        self._record.left = MOST_BLOCKS
        self._fault = ""
        try:
            engine.emu_start(address | odd, OUTSIDE)
        except unicorn.UcError as error:
            raise MachineError(self._explain(self._fault or str(error))) from error
        if engine.reg_read(registers.program_counter) != OUTSIDE:
            raise MachineError(self._explain("it did not return"))
        return self._trace(pointer)

    @property
    def result(self) -> int:
        """Return value of the last call, as a 32-bit word."""
        return int(self._engine.reg_read(self.processor.result))

    def write(self, address: int, content: bytes | np.ndarray) -> None:
        """Write bytes to memory."""
        self._engine.mem_write(address, content if isinstance(content, bytes) else content.tobytes())

    def read(self, address: int, size: int) -> bytes:
        """Read bytes from memory."""
        return bytes(self._engine.mem_read(address, size))

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Read 32-bit words from memory."""
        return struct.unpack(f"<{count}I", self.read(address, 4 * count))

    def decode(self, address: int, size: int) -> list[Instruction]:
        """Disassemble the instructions in a range of code."""
        return self.processor.decode(self.read(address, size), address)

    def function_at(self, address: int) -> str:
        """Return the name of the function at an address."""
        for name, symbol in self.symbols.items():
            begin = symbol & ~1  # without the bit that marks addresses of code (`Processor.odd`)
            if begin <= address < begin + self.sizes[name]:
                return name
        return "no function"

    def _load(self, image: Image) -> None:
        """Load the firmware: flash is read-only, RAM is not executable."""
        import unicorn

        self._engine.mem_map(0, _whole_pages(image.flash_end), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        self._engine.mem_map(RAM, _whole_pages(image.ram_end - RAM), unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        for section in image.sections.values():
            self._engine.mem_write(section.address, section.content)

    def _add_hooks(self, code: Iterable[tuple[int, int]]) -> None:
        """Install hooks.c: count edges, and check the stack pointer after each instruction that may lower it."""
        import unicorn
        from unicorn.unicorn_py3.unicorn import uclib

        source = Path(__file__).with_name("hooks.c")
        self._hooks = ctypes.CDLL(
            str(compile_once([source], library_name("hooks"), ("-mcpu=baseline", "-shared", "-fPIC")))
        )
        self._record.read_register = ctypes.cast(uclib.uc_reg_read, ctypes.c_void_p)
        self._record.stop = ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p)
        data = ctypes.cast(ctypes.pointer(self._record), ctypes.c_void_p)

        def add(kind: int, function: str, begin: int, end: int) -> None:
            handle = ctypes.c_size_t()
            target = ctypes.cast(getattr(self._hooks, function), ctypes.c_void_p)
            places = ctypes.c_uint64(begin), ctypes.c_uint64(end)
            if uclib.uc_hook_add(self._engine._uch, ctypes.byref(handle), kind, target, data, *places):
                raise MachineError("the emulator does not accept hooks")

        add(unicorn.UC_HOOK_BLOCK, "enter_block", 1, 0)  # an empty range means everywhere
        for begin, end in code:
            for instruction in self.decode(begin, end - begin):
                if instruction.lowers_stack:
                    after = instruction.address + instruction.size
                    add(unicorn.UC_HOOK_CODE, "lower_stack", after, after)

    def _pass_arguments(self, arguments: tuple[int | float, ...], top: int) -> int:
        """Pass arguments in registers and below the `top` of the stack; returns the stack pointer."""
        in_registers, on_stack = self.processor.place_arguments(arguments)
        for register, word in in_registers.items():
            self._engine.reg_write(register, word)
        pointer = (top - 4 * len(on_stack)) & ~15  # aligned to 16 bytes, which every calling convention accepts
        self.write(pointer, struct.pack(f"<{len(on_stack)}I", *on_stack))
        return pointer

    def _trace(self, pointer: int) -> Trace:
        """Read what the hooks recorded of a call that began with this stack pointer."""
        if self._record.used >= EDGES - 1:
            raise MachineError(f"the program has more than {EDGES - 2:,} edges between blocks; they cannot be counted")
        taken = np.flatnonzero(self._edges["count"])
        for index in taken[self._instructions[taken] == 0]:
            block = self.decode(int(self._edges["to"][index]), int(self._edges["to_size"][index]))
            if any(instruction.name == UNKNOWN for instruction in block):
                raise MachineError(f"an instruction cannot be decoded, in {self.function_at(block[0].address)}")
            self._instructions[index] = len(block)
        edges = self._edges[taken]
        instructions = int(edges["count"] @ self._instructions[taken].astype(np.uint64))
        return Trace(edges, instructions, pointer - self._record.lowest)

    def _note_fault(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> bool:
        """Remember what an invalid access did, for the error message; False stops the emulation.

        The stack is at the start of RAM, so it overflows into the addresses below.
        """
        import unicorn

        what = "wrote to" if access in (unicorn.UC_MEM_WRITE_UNMAPPED, unicorn.UC_MEM_WRITE_PROT) else "read"
        if RAM - OUTSIDE_BYTES <= address < RAM:
            self._fault = "the stack overflowed"
        else:
            self._fault = f"it {what} {address:#010x}, where it has no memory"
        return False

    def _explain(self, fault: str) -> str:
        """Add to a fault the function in which it happened."""
        place = self._engine.reg_read(self.processor.program_counter)
        return f"{fault}, in {self.function_at(place)} ({place:#x})"


class Cycles(NamedTuple):
    """Estimated cycles (or milliseconds): lower bound, typical, upper bound.

    Not modelled: flash wait states and caches, unaligned access, and how long a division of given numbers takes.
    """

    low: float
    typical: float
    high: float

    def plus(self, other: Cycles, times: int = 1) -> Cycles:
        """Return self + times × other."""
        return Cycles(*(cycles + times * more for cycles, more in zip(self, other, strict=True)))


REFILL = Cycles(1, 2, 3)  # filling the pipeline again after a taken branch
STALL = Cycles(0, 1, 1)  # if an instruction needs the float result of the one before it
ONE = Cycles(1, 1, 1)
FIRST_LOAD = Cycles(1, 2, 2)
NEXT_LOAD = Cycles(1, 1, 2)  # consecutive loads overlap
COSTS = (  # cycles from Arm's manual; the first pattern that matches the start of the name counts
    (r"[su]div", Cycles(2, 7, 12)),
    (r"v(div|sqrt)", Cycles(14, 14, 14)),
    (r"v(fn?m[as]|n?ml[as])", Cycles(3, 3, 3)),
    (r"v(ldr|str)", Cycles(1, 2, 2)),
    (r"str", Cycles(1, 1, 2)),
    (r"tb[bh]", Cycles(2, 2, 2)),
    (r"it[te]*$", Cycles(0, 1, 1)),
)
SEVERAL = re.compile(r"(push|pop|vpush|vpop|v?ldm|v?stm|ldrd|strd)")  # move several words
LOAD = re.compile(r"ldr(?!d)")  # one word
FLOAT = re.compile(r"v(?!ldr|str|ldm|stm|push|pop|mrs)")  # compute with floats


def cost(instruction: Instruction, before: Instruction | None) -> Cycles:
    """Return the cycles of one instruction, which depend on the one `before` it (None after a branch)."""
    if SEVERAL.match(instruction.name):
        return Cycles(*[1 + instruction.words] * 3)
    if LOAD.match(instruction.name):
        return NEXT_LOAD if before and LOAD.match(before.name) else FIRST_LOAD
    cycles = next((cycles for pattern, cycles in COSTS if re.match(pattern, instruction.name)), ONE)
    if before is None:
        return cycles
    both_float = FLOAT.match(before.name) and FLOAT.match(instruction.name)
    return cycles.plus(STALL) if both_float and before.writes & instruction.reads else cycles


class CycleModel:
    """Estimates the cycles of traces; the cost of each edge is cached."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[int, ...], Cycles] = {}

    def estimate(self, trace: Trace) -> Cycles:
        """Return the cycles of one call, with a refill of the pipeline for its return."""
        total = REFILL
        for *edge, count in trace.edges.tolist():  # fields of EDGE
            total = total.plus(self._edge_cycles(*edge), count)
        return total

    def _edge_cycles(self, origin: int, origin_size: int, block: int, size: int) -> Cycles:
        """Return the cycles of a block entered from another one, by falling through or by a branch.

        An `origin_size` of 0 means that the call began with this block.
        """
        key = (origin, origin_size, block, size)
        if key not in self._known:
            falls_through = origin_size > 0 and origin + origin_size == block
            before = self._machine.decode(origin, origin_size)[-1] if falls_through else None
            is_branch = not falls_through and origin_size > 0
            total = REFILL if is_branch else Cycles(0, 0, 0)
            for instruction in self._machine.decode(block, size):
                total = total.plus(cost(instruction, before))
                before = instruction
            self._known[key] = total
        return self._known[key]


def _whole_pages(size: int) -> int:
    """Round bytes up to whole pages, as Unicorn maps them."""
    return -(-size // PAGE) * PAGE
