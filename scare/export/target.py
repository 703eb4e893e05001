"""What an export target is: a record of this kind. A new one is a file in `targets`, listed in its `__init__`.

The commands of `scare export`, `scare verify` and the table of formats go through the records.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Any
from unicodedata import normalize

import numpy as np

from scare.errors import UsageError
from scare.export.c_source import RESERVED
from scare.export.compiled import Compiled
from scare.export.lowering import Arithmetic
from scare.export.scare_json import GoldenVectors, Kept

# What a model may be called in C, in Python and as a file; and text in letters that every build system reads.


LONGEST_NAME = 31  # what every C compiler tells apart
EXAMPLES = """
begin begun_ms calibrate calibrated calibration delay golden loop millis now_ms number reading row setup status sums
"""
HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar unistd wchar wctype
"""
TAKEN = {*RESERVED, *EXAMPLES.split(), *HEADERS.split()}  # by C, by us, by the examples we write, by C's own headers
ON_BOARDS = {"boot", "esp", "esp32", "framebuf", "machine", "main", "micropython", "network", "rp2", "uasyncio"}


def check_c_name(name: str) -> None:
    """Refuse what cannot name a model in C."""
    if not _is_short_word(name) or name in TAKEN or name.startswith("scare") or name[-2:] == "_t":
        raise UsageError(
            f"'{name}' cannot name a model in C: take up to {LONGEST_NAME} small letters, digits and _, no word of C or"
            " of our examples, no header of C, and no name that begins with scare or ends in _t"
        )


def check_module_name(name: str) -> None:
    """Refuse what cannot name a module of Python."""
    taken = iskeyword(name) or name in sys.stdlib_module_names | ON_BOARDS
    if not _is_short_word(name) or taken or name.startswith("scare"):
        raise UsageError(
            f"'{name}' cannot name a module: take up to {LONGEST_NAME} small letters, digits and _, no word of Python,"
            " no module of Python or MicroPython, and no name that begins with scare"
        )


def check_file_name(name: str) -> None:
    """Refuse what cannot name a file everywhere."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"'{name}' cannot name a file: take letters, digits, _ and -")


def plain(text: str) -> str:
    """The text in letters that every build system reads, without those that end a string or a comment.

    >>> plain('PM₂.₅ "raw" [µg/m³] */')
    'PM2.5 raw [ug/m3] /'
    """
    spelled = normalize("NFKC", " ".join(text.split())).replace("μ", "u").replace("°", "deg ")
    return " ".join(re.sub(r"[^\w .,:;/%()\[\]+-]", "", normalize("NFKD", spelled), flags=re.ASCII).split())


def markdown(text: str) -> str:
    """The text as part of a line of Markdown, in which nothing of it is a tag, code, a block or a cell.

    >>> markdown("PM2.5 <b>`raw`</b> | [µg/m³]")
    'PM2.5 &lt;b&gt;&#96;raw&#96;&lt;/b&gt; &#124; [µg/m³]'
    """
    escaped = escape(" ".join(text.split()), quote=False)
    return escaped.replace("`", "&#96;").replace("|", "&#124;").replace("$(", "&#36;(")


def _is_short_word(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and len(name) <= LONGEST_NAME


TEMPLATES = Path(__file__).with_name("templates")
NOT_PYTHON = ".in"  # ends the names of templates that Python's tools must not take for modules


@dataclass(frozen=True)
class Artefact:
    """What a target makes of a compiled calibrator: files by their paths, and what is to be known of them.

    `model` is the file that is run, `name` what the model is called in it; `sizes` are for machines, `summary` for
    people. `compute` gives what the files give: scaled windows [n, window, channels] in, the target's unit [n] out.
    Golden vectors and `scare.json` go into the folder `beside`. Of C: the folder of its `runtime`, and what can be read
    in scratch memory after a run.
    """

    files: Mapping[str, str | bytes]
    model: str
    name: str
    sizes: Mapping[str, Any]
    summary: tuple[str, ...]
    compute: Callable[[np.ndarray], np.ndarray]
    golden: GoldenVectors
    beside: str = ""
    runtime: str = ""
    kept: Mapping[str, Kept] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """What can be exported to: its help, how its files are made, what runs them, and what it cannot do.

    `runner` is a word of `board.runners`; empty where nothing on this computer runs it. `refuses` says of arithmetics
    why there is none. What is in C can be measured for a board (`in_c`).
    """

    name: str
    about: str
    examples: tuple[str, ...]
    make: Callable[[Compiled], Artefact]
    runner: str = ""
    refuses: Mapping[Arithmetic, str] = field(default_factory=dict)
    in_c: bool = False
    check_name: Callable[[str], None] = check_c_name
    name_help: str = "What the model is called in C."
    arithmetic_help: str = "What it computes in."
    fixed_name: str = str(Arithmetic.FIXED)

    def arithmetic_name(self, arithmetic: Arithmetic) -> str:
        """What an arithmetic is called in this target's files."""
        return self.fixed_name if arithmetic is Arithmetic.FIXED else str(arithmetic)


def templates(name: str, fields: Mapping[str, str]) -> dict[str, str]:
    """The files of a folder of templates, filled in."""
    folder = TEMPLATES / name
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix().removesuffix(NOT_PYTHON) for path in paths)
    return {name: fill(path, fields) for name, path in zip(names, paths, strict=True)}


def fill(template: Path, fields: Mapping[str, str]) -> str:
    """One of them."""
    return Template(template.read_text(encoding="utf-8")).substitute(fields)
