"""Firmware: an exported model, the runtime and a start for one board, linked to an ELF with only what is used.

`build` makes the smallest program that uses a model, so that what it takes is what the model takes. `link` makes one
from any C, for looking at a kernel. Goes to `emulator`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scare.board.boards import Board
from scare.board.exported import Exported
from scare.board.image import Image, read_image
from scare.board.toolchain import compile_each, compile_once
from scare.extras import require

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


def build(exported: Exported, board: Board) -> Firmware:
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
