"""Sources of the C runtime: `runtime/` in a source tree, `scare/export/runtime_src` once installed."""

import re
from functools import cache
from pathlib import Path

INSTALLED = Path(__file__).with_name("runtime_src")
IN_TREE = Path(__file__).parents[2] / "runtime"
KERNEL_HEADERS = "scare_kernels.h", "scare_fixed.h"
LEARNING = "scare_learn"  # prefix of the on-board learner's files, exported with --learn only


def runtime_sources() -> dict[str, str]:
    """Text of every source and header that a model needs, by file name.

    All go into one folder and include each other by name alone.

    >>> {"scare.c", "scare.h", "window_q.c"} <= runtime_sources().keys()
    True
    """
    return {name: text for name, text in _sources().items() if not name.startswith(LEARNING)}


def learning_sources() -> dict[str, str]:
    """Like `runtime_sources`, for the on-board learner."""
    return {name: text for name, text in _sources().items() if name.startswith(LEARNING)}


def _sources() -> dict[str, str]:
    paths = sorted(_folder().rglob("*.[ch]"), key=lambda path: path.name)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def declared_functions() -> frozenset[str]:
    """Names of the kernels that generated code may call."""
    return _declared_in(_folder())


@cache
def _declared_in(folder: Path) -> frozenset[str]:
    headers = "".join((folder / name).read_text(encoding="utf-8") for name in KERNEL_HEADERS)
    return frozenset(re.findall(r"^void (scare_\w+)\(", headers, re.MULTILINE))


def _folder() -> Path:
    return (INSTALLED if INSTALLED.is_dir() else IN_TREE) / "src"
