"""The files of an archive: those of a folder, of a glob, or named one by one; a folder `device=…` names the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote

from scare.archive.places import files_of, root_of
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
    root = root_of(list(places)).rstrip("/\\")
    found = {path[len(root) + 1 :].replace("\\", "/"): path for place in places for path in files_of(place)}
    sources = [_source(found[name], name, device_key or DEVICE) for name in sorted(found) if _is_data(name)]
    if not sources:
        raise DataError(f"{', '.join(places)}: no file there ends in {', '.join(SUFFIXES)}")
    written: dict[str, Source] = {}
    for one in sources:
        other = written.setdefault(one.output, one)
        if other is not one:
            raise UsageError(f"{other.name} and {one.name} would both become {one.output}; rename one of them")
    return sources


def _is_data(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not any(part[0] in "._" for part in PurePosixPath(name).parts)


def _source(path: str, name: str, device_key: str) -> Source:
    keys = dict(part.split("=", 1) for part in PurePosixPath(name).parent.parts if "=" in part)
    return Source(path, name, unquote(keys.get(device_key, "")))
