"""Files appear whole or not at all: write beside the destination, then rename.

What a killed process has left beside it is removed by the next one that writes into the folder.
"""

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from scare.errors import UsageError

COMPUTER = sha256(platform.node().encode()).hexdigest()[:6]
HIDDEN = f".*.{COMPUTER}-*"  # names of `beside`
UPLOT = Path(__file__).parent / "vendored" / "uplot"  # draws the charts of our pages
PAGES = Path(__file__).parent / "pages"  # colours and words that they share


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends well, and vanishes when it does not.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    temporary = temporary_path(path)
    with _refusing(path):
        if path.is_dir() or path.parent.is_file():
            raise OSError(0, "it is a folder" if path.is_dir() else f"{path.parent} is not a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _refusing(path):  # in here, so that no Ctrl-C comes between making the file and minding it
            temporary.touch(exist_ok=False)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        with suppress(OSError):  # a folder that cannot be written has said so already
            temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """A name for what is to become `path`: hidden, in the same folder, and known as this process's."""
    _clean(path.parent.absolute())
    return path.parent / f".{path.stem}.{COMPUTER}-{os.getpid()}-{token_hex(4)}{''.join(path.suffixes)}"


@cache
def _clean(folder: Path) -> None:
    """Remove, once, what is left in a folder."""
    remove_leftovers(folder.glob(HIDDEN))


def remove_leftovers(paths: Iterable[Path]) -> None:
    """Remove those of these `HIDDEN` files and folders whose process on this computer is no more."""
    for path in list(paths):
        process = re.search(rf"\.{COMPUTER}-(\d+)-[0-9a-f]{{8}}", path.name)
        if process and not _is_running(int(process[1])):
            with suppress(OSError):  # another has been quicker
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_running(process: int) -> bool:
    """Whether there is such a process, or no way to ask."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def lock_file(descriptor: int) -> bool:
    """Lock an open file until it is closed, where the system can; False if another process has it."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return True
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    return True
