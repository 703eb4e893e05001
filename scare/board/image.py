"""An image is what an ELF file holds: sections with their place in memory, symbols, and which parts are code."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

RAM = 0x20000000  # where RAM begins on every Cortex-M; flash is below
CONSTANTS = ".rodata"
STACK = ".stack"  # the room link.ld leaves for it
TAKES_MEMORY, IS_CODE = 2, 4  # flags of a section


@dataclass(frozen=True)
class Section:
    """A piece of memory and what is in it at first; nothing in RAM that only gets its room."""

    address: int
    size: int
    content: bytes
    is_code: bool

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.size


@dataclass(frozen=True)
class Image:
    """Sections by name; of each symbol its value and size; from where to where there are instructions."""

    sections: dict[str, Section]
    symbols: dict[str, int]
    sizes: dict[str, int]
    code: list[tuple[int, int]]

    @property
    def flash_end(self) -> int:
        """The first address after all that is in flash, but for the first values of variables."""
        return max(section.end for section in self.sections.values() if section.address < RAM)

    @property
    def ram_end(self) -> int:
        """The first address after all that is in RAM."""
        return max(section.end for section in self.sections.values() if section.address >= RAM)

    @property
    def flash_bytes(self) -> int:
        """Code, constants, and the first values of variables."""
        return sum(len(section.content) for section in self.sections.values())

    @property
    def constant_bytes(self) -> int:
        """Constants, as far as they are not among the code."""
        return self.sections[CONSTANTS].size if CONSTANTS in self.sections else 0

    @property
    def static_bytes(self) -> int:
        """Variables: RAM without the stack."""
        return self.ram_end - RAM - self.sections[STACK].size


def read_image(path: Path) -> Image:
    """What is in an ELF file."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    with path.open("rb") as file:
        elf = ELFFile(file)
        found = [section for section in elf.iter_sections() if section["sh_flags"] & TAKES_MEMORY]
        sections = {section.name: _section(section) for section in found}
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)  # firmware is never stripped
        symbols = [symbol for symbol in table.iter_symbols() if symbol.name]
    named = [symbol for symbol in symbols if symbol.name[0] != "$"]
    marks = ((symbol["st_value"], symbol.name[:2]) for symbol in symbols if symbol.name[0] == "$")
    code_end = max(section.end for section in sections.values() if section.is_code)
    return Image(
        sections,
        {symbol.name: symbol["st_value"] for symbol in named},
        {symbol.name: symbol["st_size"] for symbol in named},
        _code(marks, code_end),
    )


def _section(section: Any) -> Section:
    content = section.data() if section["sh_type"] == "SHT_PROGBITS" else b""
    return Section(section["sh_addr"], section["sh_size"], content, bool(section["sh_flags"] & IS_CODE))


def _code(marks: Iterable[tuple[int, str]], end: int) -> list[tuple[int, int]]:
    """From where to where: Arm's marks say where Thumb instructions ($t) and data among them ($d) begin."""
    begins = [*sorted(mark for mark in marks if mark[0] < end), (end, "$d")]
    return [(begin, after) for (begin, kind), (after, _) in pairwise(begins) if kind == "$t"]
