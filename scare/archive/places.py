"""Where files of an archive are: on a disk, or behind an address that fsspec knows (s3://, gs://), by your credentials.

What is behind an address is copied to a temporary file while it is read; results go to a disk.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from scare.errors import DataError, UnreachableError
from scare.extras import require

GONE = "it is no longer there"
Stamp = tuple[int, int]  # of a file: its size, and a number that is another when it is written to


def is_address(place: str) -> bool:
    """Whether a place is behind an address.

    >>> is_address("s3://network/2026"), is_address("network/2026")
    (True, False)
    """
    return "://" in place


def root_of(places: list[str]) -> str:
    """The folder that the files of all places are under."""
    folders = [_folder(PurePosixPath(place) if is_address(place) else Path(place).absolute()) for place in places]
    return commonpath(folders).replace(":/", "://", 1) if is_address(places[0]) else commonpath(folders)


def files_of(place: str) -> list[str]:
    """All files of a folder or a glob, or the file itself."""
    if is_address(place):
        return _listed(place)
    if Path(place).is_file():
        return [str(Path(place).absolute())]
    if not (has_magic(place) or Path(place).exists()):
        raise DataError(f"{place}: there is no such file or folder")
    found = Path(place).rglob("*") if Path(place).is_dir() else map(Path, glob(place, recursive=True))
    return [str(path.absolute()) for path in found if path.is_file()]


def stamp(path: str) -> Stamp:
    """Size and the time of the last change, or what an address has for it."""
    try:
        if is_address(path):
            files, name = _opened(path)
            key = hashlib.sha256(str(files.ukey(name)).encode()).hexdigest()
            return int(files.info(name)["size"]), int(key[:12], 16)
        found = Path(path).stat()
    except OSError as error:
        raise DataError(GONE) from error
    return found.st_size, found.st_mtime_ns


@contextmanager
def on_disk(path: str) -> Iterator[Path]:
    """The file, or a copy of it for as long as it is needed."""
    if not is_address(path):
        yield Path(path)
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / PurePosixPath(path).name
        try:
            files, name = _opened(path)
            files.get_file(name, str(copy))
        except OSError as error:
            raise DataError(GONE) from error
        yield copy


def _listed(place: str) -> list[str]:
    try:
        files, name = _opened(place)
        found = filter(files.isfile, files.glob(name)) if has_magic(place) else files.find(name)
        return [f"{place.partition('://')[0]}://{path.lstrip('/')}" for path in found]
    except (OSError, ImportError, ValueError) as error:
        raise UnreachableError(f"could not list {place}: {' '.join(str(error).split())[:200]}") from error


def _opened(place: str) -> tuple[Any, str]:
    """A file system and a name in it."""
    require("cluster", "fsspec")
    from fsspec.core import url_to_fs

    files, name = url_to_fs(place)
    return files, str(name)


def _folder(path: Path | PurePosixPath) -> str:
    """The folder of a place: itself, a file's, or the part of a glob before its first sign."""
    if has_magic(str(path)):
        plain = next(number for number, part in enumerate(path.parts) if has_magic(part))
        return str(type(path)(*path.parts[:plain]))
    return str(path.parent if isinstance(path, Path) and not path.is_dir() else path)
