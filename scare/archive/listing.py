"""The files of an archive: those of a folder, of a glob, or named one by one; a folder `device=…` names the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from scare.data.readings import DEVICE
from scare.data.tables import SUFFIXES, stem
from scare.errors import DataError, UsageError


@dataclass(frozen=True)
class Source:
    """A file: where it is, its name under the archive's root, and the device that its folders name, if they do."""

    path: str
    name: str
    device: str = ""

    @property
    def output(self) -> str:
        """The name under the root of what is written of it.

        >>> Source("/a/device=x/may.csv.gz", "device=x/may.csv.gz").output
        'device=x/may.parquet'
        """
        return str(PurePosixPath(self.name).with_name(f"{stem(PurePosixPath(self.name))}.parquet"))


def find_sources(places: Sequence[str], device_key: str = "") -> list[Source]:
    """The table files of these places, by name; hidden ones and those that begin with an underscore are no data."""
    root = _root(places)
    paths = sorted({path.absolute() for place in places for path in _files(place)})
    sources = [_source(path, path.relative_to(root).as_posix(), device_key or DEVICE) for path in paths]
    if not sources:
        raise DataError(f"{', '.join(places)}: no file there ends in {', '.join(SUFFIXES)}")
    written: dict[str, Source] = {}
    for one in sources:
        other = written.setdefault(one.output, one)
        if other is not one:
            raise UsageError(f"{other.name} and {one.name} would both become {one.output}; rename one of them")
    return sources


def _root(places: Sequence[str]) -> Path:
    """The folder that all files are under."""
    return Path(commonpath([_folder(place) for place in places])).absolute()


def _folder(place: str) -> Path:
    """The folder of a place: itself, a file's, or the part of a glob before its first sign."""
    path = Path(place).absolute()
    if not has_magic(place):
        return path if path.is_dir() else path.parent
    plain = next(number for number, part in enumerate(path.parts) if has_magic(part))
    return Path(*path.parts[:plain])


def _files(place: str) -> list[Path]:
    if Path(place).is_file():
        return [Path(place)]
    if not (has_magic(place) or Path(place).exists()):
        raise DataError(f"{place}: there is no such file or folder")
    found = Path(place).rglob("*") if Path(place).is_dir() else map(Path, glob(place, recursive=True))
    start = len(_folder(place).parts)
    return [path for path in found if path.is_file() and _is_data(path.absolute().parts[start:])]


def _is_data(parts: Sequence[str]) -> bool:
    return parts[-1].lower().endswith(SUFFIXES) and not any(part[0] in "._" for part in parts)


def _source(path: Path, name: str, device_key: str) -> Source:
    keys = dict(part.split("=", 1) for part in PurePosixPath(name).parent.parts if "=" in part)
    return Source(str(path), name, unquote(keys.get(device_key, "")))
