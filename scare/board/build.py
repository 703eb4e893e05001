"""The compiler: zig, which pip installs, for this computer and for every board.

The same sources and flags are compiled once: what comes out is kept in the user's cache folder under a name made from
their content, so it is never out of date.
"""

import atexit
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scare.board.boards import Board
from scare.board.exports import CExport
from scare.extras import require
from scare.files import replacing

logger = logging.getLogger(__name__)
STANDARD = ("-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno")
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-Werror")


class BuildError(RuntimeError):
    """The compiler refused; what it said is the message."""


def compile_c(sources: Sequence[Path], out: Path, flags: Sequence[str], includes: Sequence[Path] = ()) -> Path:
    """Compile and link with zig; `out` is what the flags make (a program, a shared library, an object)."""
    require("board", "ziglang")
    command = [sys.executable, "-m", "ziglang", "cc", *STANDARD, *flags]
    command += [f"-I{folder}" for folder in includes] + [str(source) for source in sources] + ["-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(done.stderr)
    return out


def compile_once(
    sources: Sequence[Path], name: str, flags: Sequence[str], includes: Sequence[Path] = (), other: Iterable[Path] = ()
) -> Path:
    """As `compile_c`, to a file called `name` in the cache, unless it is there; `other` files it is made from too."""
    headers = [header for folder in includes for header in sorted(folder.rglob("*.h"))]
    digest = hashlib.sha256(repr((STANDARD, tuple(flags))).encode())
    for path in (*sources, *headers, *other):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    out = cache_folder() / digest.hexdigest()[:32] / name
    if not out.exists():
        with replacing(out) as temporary:
            compile_c(sources, temporary, flags, includes)
    return out


def compile_each(sources: Sequence[Path], flags: Sequence[str], includes: Sequence[Path] = ()) -> list[Path]:
    """As `compile_once`, to an object of each source."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda path: compile_once([path], f"{path.stem}.o", (*flags, "-c"), includes), sources))


def library_name(stem: str) -> str:
    """What a shared library is called here."""
    return stem + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def cache_folder() -> Path:
    """Where builds are kept: the system's place for what can be made again, or where that cannot be, for now only."""
    home = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    usual = Path(home) / "scare" if home else Path.home() / ".cache" / "scare"
    folder = Path(os.environ.get("SCARE_CACHE") or usual)
    return folder if _can_write(folder) else _folder_for_now(folder)


@cache
def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@cache
def _folder_for_now(instead_of: Path) -> Path:
    """A folder of this process alone, since what is in it will be run; said once."""
    logger.warning("%s cannot be written: what is compiled is not kept (SCARE_CACHE names another folder)", instead_of)
    folder = TemporaryDirectory(prefix="scare-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


# An image is what an ELF file holds: sections with their place in memory, symbols, and which parts are code.


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


# Firmware: an exported model, the runtime and a start for one board, linked to an ELF with only what is used.
#
# `build` makes the smallest program that uses a model, so that what it takes is what the model takes. `link` makes one
# from any C, for looking at a kernel. Goes to `emulator`.


HERE = Path(__file__).parent
FREESTANDING = (
    "-ffreestanding",
    "-fno-sanitize=undefined",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fno-exceptions",
    "-fomit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-g",
)


@dataclass(frozen=True)
class Firmware:
    """An ELF for a board."""

    path: Path
    board: Board

    @cached_property
    def image(self) -> Image:
        """What is in it."""
        return read_image(self.path)


def build(exported: CExport, board: Board) -> Firmware:
    """The smallest program with the model."""
    runtime = compile_each(exported.runtime, (*board.flags, *FREESTANDING), [exported.runtime_headers])
    return link([exported.source, HERE / "main.c", *runtime], board, exported.includes, exported.defines)


def link(
    sources: Sequence[Path],
    board: Board,
    includes: Sequence[Path] = (),
    flags: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Firmware:
    """A program of these sources and a start; functions nobody calls go, but for those to `keep`."""
    require("board", "ziglang", "elftools")
    script = HERE / "link.ld"
    linking = [f"-Wl,-T,{script}", "-Wl,--gc-sections", "-Wl,-e,Reset_Handler"]
    linking += [f"-Wl,-u,{name}" for name in keep]
    every = (*board.flags, *FREESTANDING, *flags, *linking)
    return Firmware(compile_once([*sources, HERE / "start.c"], "firmware.elf", every, includes, [script]), board)
