"""Build exported C with zig from pip or a GCC: shared libraries for this computer, firmware for every board.

    a folder of `scare export` -> read_export -> CExport (sources, flags) -> compile_once -> host.py
    CExport + Board -> build (model, runtime, main.c, start.c, link.ld) -> Firmware (ELF) -> Image -> virtual.py

Builds are cached in the user's cache folder under a hash of sources and flags, so they are never out of date.
"""

import atexit
import hashlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scare.board.boards import Board
from scare.errors import DataError, UsageError
from scare.export.scare_json import ExportFolder, KeptValue, find_exports
from scare.extras import require
from scare.files import replacing

logger = logging.getLogger(__name__)
STANDARD = ("-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno")
STRICT = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-Werror")
RAM = 0x20000000  # where RAM begins on every Cortex-M; flash is below
CONSTANTS, STACK = ".rodata", ".stack"  # names of sections; link.ld reserves the second
TAKES_MEMORY, IS_CODE = 2, 4  # flags of an ELF section: SHF_ALLOC, SHF_EXECINSTR
HERE = Path(__file__).parent
BLOB = "blob"  # the export target whose model is interpreted
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
class Compiler:
    """A compiler: its command, the flags that follow `STANDARD`, and the libraries that follow the sources."""

    command: tuple[str, ...]
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def is_zig(self) -> bool:
        """Whether it is zig, which pip installs."""
        return self == ZIG

    @cached_property
    def version(self) -> str:
        """Version, which is part of the cache key; empty for zig, which is pinned."""
        if self.is_zig:
            return ""
        return subprocess.run([*self.command, "-dumpversion"], capture_output=True, text=True).stdout.strip()


ZIG = Compiler((sys.executable, "-m", "ziglang", "cc"))
USUAL = "zig"  # the name of the compiler whose counts we publish
OPTIMISATION = {USUAL: "-O2", "gcc-Os": "-Os", "gcc-O2": "-O2", "gcc-O3": "-O3"}  # of each compiler, by name


def find_compiler(name: str, board: Board) -> Compiler:
    """Return the compiler of this name (a key of `OPTIMISATION`) for a board; `UsageError` if there is none."""
    if name not in OPTIMISATION:
        raise UsageError(f"no compiler is called '{name[:40]}'; use {', '.join(OPTIMISATION)}")
    if name == USUAL:
        return ZIG
    if not board.gcc:
        raise UsageError(f"no GCC is known for {board.name}; use {USUAL}")
    command, *flags = board.gcc.split()
    if shutil.which(command) is None:
        raise UsageError(f"{command} is not installed; install it, or use {USUAL}")
    return Compiler((command,), (*flags, OPTIMISATION[name], "-nostdlib"), ("-lgcc",))


@dataclass(frozen=True)
class CExport:
    """An exported model in C: its source, the folder of the runtime, and the values that can be read after a run.

    `is_blob`: the source holds a file that the runtime interprets.
    """

    source: Path
    runtime_headers: Path
    kept: Mapping[str, KeptValue]
    is_blob: bool = False

    @property
    def name(self) -> str:
        """Name of the model in C, also of its files."""
        return self.source.stem

    @property
    def symbol(self) -> str:
        """The C variable that begins with a `scare_model`: the model itself, or the blob after main.c has opened it."""
        return "board_blob" if self.is_blob else self.name

    @property
    def runtime(self) -> list[Path]:
        """Sources of the runtime, the same for every model."""
        paths = [*sorted(self.runtime_headers.glob("*.c")), *sorted(self.runtime_headers.glob("kernels/*.c"))]
        return [path for path in paths if path != self.source]  # the model may be in the same folder

    @property
    def includes(self) -> list[Path]:
        """Folders of all headers."""
        return [self.source.parent, self.runtime_headers]

    @property
    def defines(self) -> tuple[str, ...]:
        """Compiler flags that tell main.c and host.c, which work with any model, about this one."""
        prefix = self.name.upper()
        return (
            f'-DMODEL_HEADER="{self.name}.h"',
            f"-DMODEL_CONTENT={self.name}_content" if self.is_blob else f"-DMODEL={self.name}",
            f"-DMODEL_MEMORY={prefix}_BYTES",
            f"-DMODEL_READING={prefix}_CHANNELS",
        )


def read_export(folder: Path) -> CExport:
    """Find the first exported model in a folder; `DataError` if it is not in C."""
    return read_c_export(find_exports(folder)[0])


def read_c_export(export: ExportFolder) -> CExport:
    """Like `read_export`, for an export that was found already."""
    if not export.description.runtime:
        raise DataError(f"{export.folder} holds no C, because it was exported to {export.description.target}")
    is_blob = export.description.target == BLOB
    return CExport(export.model, export.runtime, export.description.kept, is_blob)


@dataclass(frozen=True)
class Section:
    """A section of memory and its initial content, which is empty for zero-initialised RAM."""

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
    """Content of an ELF file: sections by name, addresses and sizes of symbols, and address ranges of instructions."""

    sections: dict[str, Section]
    symbols: dict[str, int]
    sizes: dict[str, int]
    code: list[tuple[int, int]]

    @property
    def flash_end(self) -> int:
        """First address after code and constants in flash; the initial values of variables are not counted."""
        return max(section.end for section in self.sections.values() if section.address < RAM)

    @property
    def ram_end(self) -> int:
        """First address after RAM."""
        return max(section.end for section in self.sections.values() if section.address >= RAM)

    @property
    def flash_bytes(self) -> int:
        """Bytes of flash in use: code, constants, and initial values of variables."""
        return sum(len(section.content) for section in self.sections.values())

    @property
    def constant_bytes(self) -> int:
        """Bytes of constants outside the code."""
        return self.sections[CONSTANTS].size if CONSTANTS in self.sections else 0

    @property
    def static_bytes(self) -> int:
        """Bytes of variables: RAM without the stack."""
        return self.ram_end - RAM - self.sections[STACK].size


@dataclass(frozen=True)
class Firmware:
    """A program for a board, as an ELF file."""

    path: Path
    board: Board

    @cached_property
    def image(self) -> Image:
        """Content of the file."""
        return read_image(self.path)


def build(exported: CExport, board: Board, compiler: Compiler | None = None) -> Firmware:
    """Build the smallest program that uses a model (main.c), so that its size is about the model's."""
    compiler = compiler or ZIG
    flags = (*(board.flags if compiler.is_zig else ()), *FREESTANDING)
    runtime = compile_each(exported.runtime, flags, [exported.runtime_headers], compiler)
    sources = [exported.source, HERE / "main.c", *runtime]
    return link(sources, board, exported.includes, exported.defines, compiler=compiler)


def link(
    sources: Sequence[Path],
    board: Board,
    includes: Sequence[Path] = (),
    flags: Sequence[str] = (),
    keep: Sequence[str] = (),
    compiler: Compiler | None = None,
) -> Firmware:
    """Link sources with a reset handler; unused functions are dropped, except those in `keep`."""
    require("board", "ziglang", "elftools")
    script = HERE / "link.ld"
    linking = [f"-Wl,-T,{script}", "-Wl,--gc-sections", "-Wl,-e,Reset_Handler"]
    linking += [f"-Wl,-u,{name}" for name in keep]
    compiler = compiler or ZIG
    all_sources = [*sources, HERE / "start.c"]
    if compiler.is_zig:
        flags = (*board.flags, *flags)
    else:  # -nostdlib leaves out memcpy and the like
        all_sources.append(HERE / "memory.c")
    all_flags = (*flags, *FREESTANDING, *linking)
    return Firmware(compile_once(all_sources, "firmware.elf", all_flags, includes, [script], compiler), board)


class BuildError(RuntimeError):
    """The compiler failed; the message is its output."""


def compile_c(
    sources: Sequence[Path],
    out: Path,
    flags: Sequence[str],
    includes: Sequence[Path] = (),
    compiler: Compiler = ZIG,
) -> Path:
    """Compile and link; flags decide whether `out` is a program, a shared library or an object."""
    require("board", "ziglang")
    command = [*compiler.command, *STANDARD, *compiler.flags, *flags]
    command += [f"-I{folder}" for folder in includes] + [str(source) for source in sources]
    command += [*compiler.libraries, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(done.stderr)
    return out


def compile_once(
    sources: Sequence[Path],
    name: str,
    flags: Sequence[str],
    includes: Sequence[Path] = (),
    other: Iterable[Path] = (),
    compiler: Compiler = ZIG,
) -> Path:
    """Like `compile_c`, to a cached file `name`; the content of `other` files is part of the cache key."""
    headers = [header for folder in includes for header in sorted(folder.rglob("*.h"))]
    of_compiler = () if compiler.is_zig else (*compiler.command, *compiler.flags, compiler.version)
    digest = hashlib.sha256(repr((STANDARD, (*flags, *of_compiler))).encode())
    for path in (*sources, *headers, *other):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    out = cache_folder() / digest.hexdigest()[:32] / name
    if not out.exists():
        with replacing(out) as temporary:
            compile_c(sources, temporary, flags, includes, compiler)
    return out


def compile_each(
    sources: Sequence[Path], flags: Sequence[str], includes: Sequence[Path] = (), compiler: Compiler = ZIG
) -> list[Path]:
    """Like `compile_once`, to one object per source, in parallel."""

    def compile_one(path: Path) -> Path:
        return compile_once([path], f"{path.stem}.o", (*flags, "-c"), includes, compiler=compiler)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compile_one, sources))


def library_name(stem: str) -> str:
    """Return the file name of a shared library on this system."""
    return stem + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def cache_folder() -> Path:
    """Return the folder of cached builds: SCARE_CACHE, else the system's cache; a temporary one if not writable."""
    system_cache = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    default = Path(system_cache) / "scare" if system_cache else Path.home() / ".cache" / "scare"
    folder = Path(os.environ.get("SCARE_CACHE") or default)
    return folder if _can_write(folder) else _temporary_folder(folder)


def read_image(path: Path) -> Image:
    """Read the sections, symbols and code ranges of an ELF file."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    with path.open("rb") as file:
        elf = ELFFile(file)
        loaded = [section for section in elf.iter_sections() if section["sh_flags"] & TAKES_MEMORY]
        sections = {section.name: _section(section) for section in loaded}
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)  # firmware is never stripped
        symbols = [symbol for symbol in table.iter_symbols() if symbol.name]
    named = [symbol for symbol in symbols if symbol.name[0] != "$"]
    marks = (  # mapping symbols, such as "$t.12"
        (symbol["st_value"], symbol.name[:2]) for symbol in symbols if symbol.name[0] == "$"
    )
    code_end = max(section.end for section in sections.values() if section.is_code)
    return Image(
        sections,
        {symbol.name: symbol["st_value"] for symbol in named},
        {symbol.name: symbol["st_size"] for symbol in named},
        _code_ranges(marks, code_end),
    )


@cache
def _can_write(folder: Path) -> bool:
    """Whether the folder exists, or can be made, and is writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@cache
def _temporary_folder(instead_of: Path) -> Path:
    """Make a folder that only this process uses, because its files will be executed; warns once."""
    logger.warning("%s is not writable, so compiled code is not cached; set SCARE_CACHE to another folder", instead_of)
    folder = TemporaryDirectory(prefix="scare-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _section(section: Any) -> Section:
    """Convert a section of elftools."""
    content = section.data() if section["sh_type"] == "SHT_PROGBITS" else b""
    return Section(section["sh_addr"], section["sh_size"], content, bool(section["sh_flags"] & IS_CODE))


def _code_ranges(marks: Iterable[tuple[int, str]], end: int) -> list[tuple[int, int]]:
    """Find the address ranges (begin, end) of instructions, from marks (address, kind) below `end`.

    The marks are mapping symbols: `$t` begins Thumb instructions, `$x` those of RISC-V, and `$d` data within the code.
    """
    changes = [*sorted((address, kind) for address, kind in marks if address < end), (end, "$d")]
    return [(begin, next_begin) for (begin, kind), (next_begin, _) in pairwise(changes) if kind in ("$t", "$x")]
