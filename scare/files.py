"""Write files atomically: to a temporary name in the same folder, then rename.

Temporary files of a killed process are removed by the next process that writes into the folder. They carry the
computer's name and the process's id, so that those of other writers in a shared folder are left alone.
"""

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from secrets import token_hex

from scare.errors import UsageError

COMPUTER = sha256(platform.node().encode()).hexdigest()[:6]  # hash of the host name, a part of temporary file names
TEMPORARY = f".*.{COMPUTER}-*"  # glob of names from `temporary_path`
UPLOT = Path(__file__).parent / "vendored" / "uplot"  # the chart library of our web pages
PAGES = Path(__file__).parent / "pages"  # styles and texts that these pages share


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` if the block succeeds and is removed if it fails.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    temporary = temporary_path(path)
    with _write_errors(path):
        if path.is_dir() or path.parent.is_file():
            raise OSError(0, "it is a folder" if path.is_dir() else f"{path.parent} is not a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _write_errors(path):  # inside the try, so that no Ctrl-C leaves the file behind
            temporary.touch(exist_ok=False)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        with suppress(OSError):  # the error of an unwritable folder has been raised
            temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as handle:
        return file_digest(handle, "sha256").hexdigest()


def temporary_path(path: Path) -> Path:
    """Make a hidden name in the same folder, with this computer and process in it.

    The first call for a folder also removes temporary files that killed processes left there.
    """
    _remove_leftovers_once(path.parent.absolute())
    return path.parent / f".{path.stem}.{COMPUTER}-{os.getpid()}-{token_hex(4)}{''.join(path.suffixes)}"


@cache
def _remove_leftovers_once(folder: Path) -> None:
    """Remove leftovers in a folder; cached, so that each folder is searched once per process."""
    remove_leftovers(folder.glob(TEMPORARY))


def remove_leftovers(paths: Iterable[Path]) -> None:
    """Remove the temporary files and folders among `paths` whose process ran on this computer and has ended."""
    for path in list(paths):
        process = re.search(rf"\.{COMPUTER}-(\d+)-[0-9a-f]{{8}}", path.name)
        if process and not _is_running(int(process[1])):
            with suppress(OSError):  # another process was faster
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_running(process: int) -> bool:
    """Whether a process with this id exists; always True on Windows, where signal 0 would send it Ctrl-C."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        pass
    return True


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into a UsageError that names the file."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def lock_file(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock. Always True on Windows."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return True
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    return True
