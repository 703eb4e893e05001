"""The virtual board: firmware in Unicorn, its functions called by name, every instruction counted.

Each call of a `Machine` gives the result and a `Trace`: how often execution went along each edge from one block of
code to the next, and how deep the stack became. Blocks are decoded once; what a run costs is a sum over its edges, so
the counts of a run are exact and cost almost no time. A skipped conditional instruction is an instruction.
Comes from `firmware`, goes to `cycles` and `measure`.
"""

import ctypes
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scare.board.firmware import Firmware
from scare.board.image import RAM, Image
from scare.board.toolchain import compile_once, library_name
from scare.extras import require

OUTSIDE = 0x10000000  # memory of ours that no chip has: arguments of calls, and where they return to
OUTSIDE_BYTES = 1 << 20
PAGE = 4096
EDGES = 1 << 16  # as in hooks.c
MOST_BLOCKS = 1 << 33  # that a call may enter, minutes of work: more is a loop without an end
EDGE = np.dtype([("from", "<u4"), ("from_size", "<u4"), ("to", "<u4"), ("to_size", "<u4"), ("count", "<u8")])
REGISTER, UNKNOWN = 1, ".byte"  # Capstone's kind of an operand, and name of what it cannot decode


class MachineError(RuntimeError):
    """The program did what no board forgives: where, and what."""


class Record(ctypes.Structure):
    """`record` of hooks.c."""

    _fields_ = (
        ("edges", ctypes.c_void_p),
        ("used", ctypes.c_uint32),
        ("origin", ctypes.c_uint32),
        ("origin_size", ctypes.c_uint32),
        ("lowest", ctypes.c_uint32),
        ("left", ctypes.c_uint64),
        ("read_register", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction."""

    address: int
    size: int
    name: str
    reads: frozenset[str]
    writes: frozenset[str]
    words: int  # moved from or to memory by those that move several


@dataclass(frozen=True)
class Trace:
    """What one call did: edges taken, and bytes of stack used."""

    edges: np.ndarray  # of EDGE, each once
    instructions: int
    stack_bytes: int


class Machine:
    """A board with firmware in its flash."""

    def __init__(self, firmware: Firmware) -> None:
        require("board", "unicorn", "capstone", "elftools")
        import unicorn
        from unicorn import arm_const

        self.board = firmware.board
        self._names = arm_const
        self._engine = unicorn.Uc(
            unicorn.UC_ARCH_ARM,
            unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS,
            getattr(arm_const, f"UC_CPU_ARM_{self.board.core}"),
        )
        self.symbols, self.sizes = firmware.image.symbols, firmware.image.sizes
        self._load(firmware.image)
        self._engine.mem_map(OUTSIDE, OUTSIDE_BYTES)
        self._fault = ""
        self._engine.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._note_fault)
        self._edges = np.zeros(EDGES, EDGE)
        self._record = Record(self._edges.ctypes.data)
        self._add_hooks(firmware.image.code)
        self._instructions = np.zeros(EDGES, np.int64)  # of the block each edge leads to, once it is decoded

    def call(self, function: str | int, *arguments: int | float) -> Trace:
        """Call a function by name or address; ints and floats are passed as C passes them."""
        import unicorn

        names, engine = self._names, self._engine
        address = self.symbols[function] if isinstance(function, str) else function
        top = self.symbols["stack_top"]
        pointer = self._pass(arguments, top)
        engine.reg_write(names.UC_ARM_REG_SP, pointer)
        engine.reg_write(names.UC_ARM_REG_LR, OUTSIDE | 1)
        self._edges["count"] = 0
        self._record.origin, self._record.origin_size, self._record.lowest = 0, 0, pointer
        self._record.left = MOST_BLOCKS
        self._fault = ""
        try:
            engine.emu_start(address | 1, OUTSIDE)
        except unicorn.UcError as error:
            raise MachineError(self._explain(self._fault or str(error))) from error
        if engine.reg_read(names.UC_ARM_REG_PC) != OUTSIDE:
            raise MachineError(self._explain("it did not return"))
        return self._trace(pointer)

    @property
    def result(self) -> int:
        """What the last call returned, as a word."""
        return int(self._engine.reg_read(self._names.UC_ARM_REG_R0))

    @property
    def float_result(self) -> float:
        """What the last call returned, as a float."""
        register = self._names.UC_ARM_REG_S0 if self.board.hard_float else self._names.UC_ARM_REG_R0
        return float(struct.unpack("<f", struct.pack("<I", self._engine.reg_read(register)))[0])

    def write(self, address: int, content: bytes | np.ndarray) -> None:
        """Put bytes into memory."""
        self._engine.mem_write(address, content if isinstance(content, bytes) else content.tobytes())

    def read(self, address: int, size: int) -> bytes:
        """Bytes of memory."""
        return bytes(self._engine.mem_read(address, size))

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Words of memory."""
        return struct.unpack(f"<{count}I", self.read(address, 4 * count))

    def decode(self, address: int, size: int) -> list[Instruction]:
        """The instructions in a piece of code."""
        found = []
        for one in self._decoder.disasm(self.read(address, size), address):
            reads, writes = one.regs_access() if one.id else ((), ())
            read, written = (frozenset(map(one.reg_name, registers)) for registers in (reads, writes))
            found.append(Instruction(one.address, one.size, one.mnemonic, read, written, _words(one)))
        return found

    def function_at(self, address: int) -> str:
        """The name of the function an address is in."""
        places = ((name, place & ~1, self.sizes[name]) for name, place in self.symbols.items())
        return next((name for name, place, size in places if place <= address < place + size), "no function")

    def profile(self, trace: Trace) -> dict[str, int]:
        """How the instructions of a call are shared among functions, the largest share first."""
        shares: Counter[str] = Counter()
        for _, _, block, size, count in trace.edges.tolist():
            shares[self.function_at(block)] += count * len(self.decode(block, size))
        return dict(shares.most_common())

    def _load(self, image: Image) -> None:
        """Put the firmware into memory: flash can only be read, RAM not be executed."""
        import unicorn

        self._engine.mem_map(0, _whole_pages(image.flash_end), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        self._engine.mem_map(RAM, _whole_pages(image.ram_end - RAM), unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        for section in image.sections.values():
            self._engine.mem_write(section.address, section.content)

    def _add_hooks(self, code: Iterable[tuple[int, int]]) -> None:
        """Count edges, and look at the stack pointer after each instruction that lowers it."""
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
            handle, target = ctypes.c_size_t(), ctypes.cast(getattr(self._hooks, function), ctypes.c_void_p)
            places = ctypes.c_uint64(begin), ctypes.c_uint64(end)
            if uclib.uc_hook_add(self._engine._uch, ctypes.byref(handle), kind, target, data, *places):
                raise MachineError("the emulator takes no hooks")

        add(unicorn.UC_HOOK_BLOCK, "enter_block", 1, 0)
        for begin, end in code:
            for one in self.decode(begin, end - begin):
                if "sp" in one.writes and not one.name.startswith(("pop", "vpop", "ldm", "add")):
                    add(unicorn.UC_HOOK_CODE, "lower_stack", one.address + one.size, one.address + one.size)

    @cached_property
    def _decoder(self) -> Any:
        import capstone

        decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
        decoder.detail = decoder.skipdata = True
        return decoder

    def _pass(self, arguments: tuple[int | float, ...], top: int) -> int:
        """Arguments to registers, the rest to the stack; the stack pointer."""
        names = self._names
        words: list[int] = []
        floats: list[int] = []
        for argument in arguments:
            as_float = isinstance(argument, float)
            word = struct.unpack("<I", struct.pack("<f", argument))[0] if as_float else int(argument) & 0xFFFFFFFF
            (floats if as_float and self.board.hard_float else words).append(word)
        for index, word in enumerate(floats):
            self._engine.reg_write(names.UC_ARM_REG_S0 + index, word)
        for index, word in enumerate(words[:4]):
            self._engine.reg_write(names.UC_ARM_REG_R0 + index, word)
        rest = struct.pack(f"<{len(words[4:])}I", *words[4:])
        pointer = (top - len(rest)) & ~7
        self.write(pointer, rest)
        return pointer

    def _trace(self, pointer: int) -> Trace:
        if self._record.used >= EDGES - 1:
            raise MachineError("the program has more branches than can be counted")
        taken = np.flatnonzero(self._edges["count"])
        for place in taken[self._instructions[taken] == 0]:
            block = self.decode(int(self._edges["to"][place]), int(self._edges["to_size"][place]))
            if any(one.name == UNKNOWN for one in block):
                raise MachineError(f"an instruction is not known, in {self.function_at(block[0].address)}")
            self._instructions[place] = len(block)
        edges = self._edges[taken]
        instructions = int(edges["count"] @ self._instructions[taken].astype(np.uint64))
        return Trace(edges, instructions, pointer - self._record.lowest)

    def _note_fault(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> bool:
        import unicorn

        what = "wrote to" if access in (unicorn.UC_MEM_WRITE_UNMAPPED, unicorn.UC_MEM_WRITE_PROT) else "read"
        if RAM - OUTSIDE_BYTES <= address < RAM:
            self._fault = "the stack overflowed"
        else:
            self._fault = f"it {what} {address:#010x}, where there is nothing of its own"
        return False

    def _explain(self, fault: str) -> str:
        place = self._engine.reg_read(self._names.UC_ARM_REG_PC)
        return f"{fault}, in {self.function_at(place)} ({place:#x})"


def _whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _words(one: Any) -> int:
    """Words in the registers an instruction names, but for the one of `ldm` and `stm` that points to memory."""
    if not one.id:
        return 0
    names = [one.reg_name(operand.reg) for operand in one.operands if operand.type == REGISTER]
    pointer = one.mnemonic.startswith(("ldm", "stm", "vldm", "vstm"))
    return sum(2 if name.startswith("d") else 1 for name in names[pointer:])
