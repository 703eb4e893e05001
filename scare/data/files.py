"""Files appear whole or not at all: write beside the destination, then rename."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scare.errors import UsageError


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
    try:
        if path.is_dir() or path.parent.is_file():
            raise OSError(0, "it is a folder" if path.is_dir() else f"{path.parent} is not a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix="".join(path.suffixes))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
