"""The C runtime's sources: beside the package in a source tree, inside it once installed."""

from pathlib import Path

INSTALLED = Path(__file__).with_name("runtime_src")
IN_TREE = Path(__file__).parents[2] / "runtime"


def runtime_sources() -> dict[str, str]:
    """The text of every source and header by its file's name.

    All go into one folder, where each finds the others by name alone.

    >>> {"scare.c", "scare.h", "linear_f32.c"} <= runtime_sources().keys()
    True
    """
    source = (INSTALLED if INSTALLED.is_dir() else IN_TREE) / "src"
    paths = sorted(source.rglob("*.[ch]"), key=lambda path: path.name)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}
