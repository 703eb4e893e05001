"""The two families of processors that a virtual board can have: registers, calls, and how code is decoded.

`Machine` of virtual.py is the same for both; `Arm` is a Cortex-M, `RiscV` a 32-bit RISC-V without floating point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

REGISTER = 1  # Capstone's operand type of a register
NO_REGISTERS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. The registers it reads and writes are known on a Cortex-M only."""

    address: int
    size: int
    name: str
    reads: frozenset[str]
    writes: frozenset[str]
    words: int  # in its register operands: as many as `push`, `ldm` and the like move
    lowers_stack: bool  # whether it may lower the stack pointer


class Processor(Protocol):
    """What differs between the families: register numbers in Unicorn, how arguments are passed, decoding of code."""

    program_counter: int
    stack_pointer: int
    return_address: int
    result: int  # the register of a function's result
    odd: int  # bit that a jump to an address must have set: on Arm it stands for Thumb code
    idle_code: bytes  # of a `run` that sets its result to 0

    def engine(self) -> Any:
        """Make the emulator."""

    def place_arguments(self, arguments: Sequence[int | float]) -> tuple[dict[int, int], list[int]]:
        """Assign words to registers as C does, and list the words that go on the stack."""

    def decode(self, content: bytes, address: int) -> list[Instruction]:
        """Disassemble code."""


def processor(core: str, hard_float: bool) -> Processor:
    """Find the processor of a board by its `core`."""
    return RiscV() if core == RiscV.CORE else Arm(core, hard_float)


class Arm:
    """A Cortex-M. With hard float, floats are passed in registers of their own (AAPCS)."""

    odd = 1  # Thumb
    idle_code = bytes.fromhex("0020 1860 7047")  # *scaled = 0; return

    def __init__(self, core: str, hard_float: bool) -> None:
        from unicorn import arm_const as names

        self.core, self.hard_float = getattr(names, f"UC_CPU_ARM_{core}"), hard_float
        self.program_counter, self.stack_pointer = names.UC_ARM_REG_PC, names.UC_ARM_REG_SP
        self.return_address, self.result, self.first_float = (
            names.UC_ARM_REG_LR,
            names.UC_ARM_REG_R0,
            names.UC_ARM_REG_S0,
        )

    def engine(self) -> Any:
        """Make the emulator."""
        import unicorn

        return unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS, self.core)

    def place_arguments(self, arguments: Sequence[int | float]) -> tuple[dict[int, int], list[int]]:
        """Pass four words in registers and the rest on the stack."""
        words, floats = list[int](), list[int]()
        for argument in arguments:
            in_float_register = isinstance(argument, float) and self.hard_float
            (floats if in_float_register else words).append(word_of(argument))
        in_registers = {self.first_float + index: word for index, word in enumerate(floats)}
        # The first argument is passed in the register that later holds the result.
        in_registers |= {self.result + index: word for index, word in enumerate(words[:4])}
        return in_registers, words[4:]

    def decode(self, content: bytes, address: int) -> list[Instruction]:
        """Disassemble Thumb code."""
        return [self._instruction(decoded) for decoded in self._decoder.disasm(content, address)]

    def _instruction(self, decoded: Any) -> Instruction:
        """Convert an instruction that Capstone decoded."""
        address, size, name = decoded.address, decoded.size, decoded.mnemonic
        if not decoded.id:  # bytes that are no instruction
            return Instruction(address, size, name, NO_REGISTERS, NO_REGISTERS, 0, False)
        read, written = (frozenset(map(decoded.reg_name, registers)) for registers in decoded.regs_access())
        registers = [decoded.reg_name(operand.reg) for operand in decoded.operands if operand.type == REGISTER]
        if name.startswith(("ldm", "stm", "vldm", "vstm")):  # the first register holds the address
            registers = registers[1:]
        words = sum(2 if register.startswith("d") else 1 for register in registers)  # d: a double-word register
        lowers_stack = "sp" in written and not name.startswith(("pop", "vpop", "ldm", "add"))
        return Instruction(address, size, name, read, written, words, lowers_stack)

    @cached_property
    def _decoder(self) -> Any:
        import capstone

        mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
        decoder = capstone.Cs(capstone.CS_ARCH_ARM, mode)
        decoder.detail = decoder.skipdata = True
        return decoder


class RiscV:
    """A 32-bit RISC-V with multiplication and compressed instructions, without floating point (ABI ilp32)."""

    CORE = "RISCV32"
    odd = 0
    idle_code = bytes.fromhex("23a00600 8280")  # *scaled = 0; return

    def __init__(self) -> None:
        from unicorn import riscv_const as names

        self.program_counter, self.stack_pointer = names.UC_RISCV_REG_PC, names.UC_RISCV_REG_SP
        self.return_address, self.result = names.UC_RISCV_REG_RA, names.UC_RISCV_REG_A0

    def engine(self) -> Any:
        """Make the emulator."""
        import unicorn

        return unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)

    def place_arguments(self, arguments: Sequence[int | float]) -> tuple[dict[int, int], list[int]]:
        """Pass eight words in registers and the rest on the stack."""
        words = [word_of(argument) for argument in arguments]
        # The first argument is passed in the register that later holds the result.
        return {self.result + index: word for index, word in enumerate(words[:8])}, words[8:]

    def decode(self, content: bytes, address: int) -> list[Instruction]:
        """Disassemble code; Capstone does not say which registers it reads and writes."""
        instructions = []
        for decoded in self._decoder.disasm(content, address):
            is_move = decoded.mnemonic.removeprefix("c.").startswith(("add", "sub", "mv"))
            lowers_stack = is_move and decoded.op_str.startswith("sp,")
            facts = decoded.address, decoded.size, decoded.mnemonic
            instructions.append(Instruction(*facts, NO_REGISTERS, NO_REGISTERS, 0, lowers_stack))
        return instructions

    @cached_property
    def _decoder(self) -> Any:
        import capstone

        decoder = capstone.Cs(capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC)
        decoder.detail = decoder.skipdata = True
        return decoder


def word_of(argument: int | float) -> int:
    """Return the 32 bits that stand for an argument in C: those of a float32, or of an integer.

    >>> hex(word_of(1.0)), hex(word_of(-1))
    ('0x3f800000', '0xffffffff')
    """
    return int(np.float32(argument).view(np.uint32)) if isinstance(argument, float) else int(argument) & 0xFFFFFFFF
