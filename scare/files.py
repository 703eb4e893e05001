"""Files appear whole or not at all: write beside the destination, then rename."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from scare.errors import UsageError

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
    temporary = path.parent / f".{path.stem}.{token_hex(4)}{''.join(path.suffixes)}"
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


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
