"""What an export target is: a record of this kind. A new one is a file in `targets`, listed in its `__init__`.

The commands of `scare export`, `scare verify` and the table of formats go through the records.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from scare.export.arithmetic import Arithmetic
from scare.export.compiled import Compiled
from scare.export.golden_vectors import GoldenVectors
from scare.export.naming import check_c_name
from scare.export.scare_json import Kept

TEMPLATES = Path(__file__).parent / "targets" / "templates"
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


def templates(name: str, fields: Mapping[str, str]) -> dict[str, str]:
    """The files of a folder of templates, filled in."""
    folder = TEMPLATES / name
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix().removesuffix(NOT_PYTHON) for path in paths)
    return {name: fill(path, fields) for name, path in zip(names, paths, strict=True)}


def fill(template: Path, fields: Mapping[str, str]) -> str:
    """One of them."""
    return Template(template.read_text(encoding="utf-8")).substitute(fields)
