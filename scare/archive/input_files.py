"""The files of an archive: find them, summarise each, and group them into series of files that share devices.

Files are on a disk or behind a URL that fsspec knows (s3://, gs://), read with your credentials; a remote file is
copied to a temporary one while it is read. A folder `device=…` names the device of its files.

A window reaches back into the file before, so a file's result depends on the earlier files of its series. Its
`fingerprint` is a hash of all that: the contents of the files up to it and the models of their devices. A file whose
fingerprint is in the journal is done. Called by `calibrate`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

from scare.calibrator.calibrator import Calibrator
from scare.data.alignment import DeviceSpan, find_device_spans
from scare.data.column_mapping import LabelColumns
from scare.data.readings import DEVICE
from scare.data.sites import Sites
from scare.data.tables import SUFFIXES, read_table, stem
from scare.errors import DataError, ScareError, UnreachableError, UsageError
from scare.extras import require
from scare.files import sha256_of
from scare.live.fleet import DEFAULT, Route, choose_route

FORMAT = "scare archive 2"  # part of every fingerprint: a new version calibrates everything again
GONE, CHANGED = "it is no longer there", "it was changed while it was read; run again"  # messages about a file
MODEL_COLUMNS = ["device", "model"]
Stamp = tuple[int, int]  # size in bytes, and a number that changes when the file is written to


@dataclass(frozen=True)
class ArchiveFile:
    """A file of the archive: its path, its name under the archive's root, and the device that its folder names."""

    path: str
    name: str
    device: str = ""

    @property
    def output(self) -> str:
        """Name of the result under the root of the results.

        >>> ArchiveFile("/a/device=x/may.csv.gz", "device=x/may.csv.gz").output
        'device=x/may.parquet'
        """
        return str(PurePosixPath(self.name).with_name(f"{stem(PurePosixPath(self.name))}.parquet"))


@dataclass(frozen=True)
class FileSummary:
    """What is known of a file once it was read: its size and time (`stamp`), content hash, and devices (`spans`).

    `error` says why it cannot be read, if it cannot.
    """

    name: str
    stamp: Stamp = (0, 0)
    sha256: str = ""
    spans: tuple[DeviceSpan, ...] = ()
    error: str = ""

    @property
    def first(self) -> float:
        """The earliest time, in seconds."""
        return min(span.first for span in self.spans)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of its devices."""
        return tuple(span.device for span in self.spans)


@dataclass(frozen=True)
class Model:
    """A `.scare` file: its path and content hash."""

    path: str
    sha256: str


@dataclass(frozen=True)
class SeriesFile:
    """A file of a series with its summary, and the hash of all that its result depends on."""

    file: ArchiveFile
    summary: FileSummary
    fingerprint: str


@dataclass(frozen=True)
class Series:
    """Files that share devices, read one after the other; `key` names their journal."""

    key: str
    files: tuple[SeriesFile, ...]

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(member.summary.stamp[0] for member in self.files)


def find_files(places: Sequence[str], device_key: str = "") -> list[ArchiveFile]:
    """List the table files of folders, globs and file names; names that begin with . or _ are skipped.

    A file in a hive folder `device=…`, or `device_key=…`, belongs to the device that the folder names.
    """
    root = common_root(list(places)).rstrip("/\\")
    # Paths by name: the part below the root, with slashes on every system.
    paths = {path[len(root) + 1 :].replace("\\", "/"): path for place in places for path in list_files(place)}
    files = []
    for name in sorted(paths):
        *folders, last = parts = PurePosixPath(name).parts
        is_skipped = any(part[0] in "._" for part in parts)
        if last.lower().endswith(SUFFIXES) and not is_skipped:
            hive_values = dict(folder.split("=", 1) for folder in folders if "=" in folder)
            device = unquote(hive_values.get(device_key or DEVICE, ""))
            files.append(ArchiveFile(paths[name], name, device))
    if not files:
        raise DataError(f"{', '.join(places)}: no file there ends in {', '.join(SUFFIXES)}")
    outputs: dict[str, ArchiveFile] = {}
    for file in files:
        other = outputs.setdefault(file.output, file)
        if other is not file:
            raise UsageError(f"{other.name} and {file.name} would both become {file.output}; rename one of them")
    return files


def is_url(place: str) -> bool:
    """Whether a place is behind a URL rather than on a disk.

    >>> is_url("s3://network/2026"), is_url("network/2026")
    (True, False)
    """
    return "://" in place


def common_root(places: list[str]) -> str:
    """Find the folder that contains the files of all places."""
    folders = [_folder(PurePosixPath(place) if is_url(place) else Path(place).absolute()) for place in places]
    root = commonpath(folders)
    return root.replace(":/", "://", 1) if is_url(places[0]) else root  # a path has lost one of the slashes


def _folder(path: Path | PurePosixPath) -> str:
    """Return a folder itself, the folder of a file, or the part of a glob before its first wildcard.

    A URL is taken for a file if it ends as tables do: asking the server would cost a request for each place.
    """
    if has_magic(str(path)):
        wildcard = next(number for number, part in enumerate(path.parts) if has_magic(part))
        return str(type(path)(*path.parts[:wildcard]))
    is_file = not path.is_dir() if isinstance(path, Path) else path.name.lower().endswith(SUFFIXES)
    return str(path.parent if is_file else path)


def list_files(place: str) -> list[str]:
    """List all files of a folder or a glob, or the file itself."""
    if is_url(place):
        try:
            system, name = _file_system(place)
            paths_found = filter(system.isfile, system.glob(name)) if has_magic(place) else system.find(name)
            return [f"{place.partition('://')[0]}://{path.lstrip('/')}" for path in paths_found]
        except (OSError, ImportError, ValueError) as error:
            raise UnreachableError(f"could not list {place}: {' '.join(str(error).split())[:200]}") from error
    if Path(place).is_file():
        return [str(Path(place).absolute())]
    if not (has_magic(place) or Path(place).exists()):
        raise DataError(f"{place}: there is no such file or folder")
    paths = Path(place).rglob("*") if Path(place).is_dir() else map(Path, glob(place, recursive=True))
    return [str(path.absolute()) for path in paths if path.is_file()]


def stamp(path: str) -> Stamp:
    """Return the size and modification time of a file; for a URL, fsspec's key of its version."""
    try:
        if is_url(path):
            system, name = _file_system(path)
            key = hashlib.sha256(str(system.ukey(name)).encode()).hexdigest()
            return int(system.info(name)["size"]), int(key[:12], 16)  # 48 bits, which JSON keeps exactly
        status = Path(path).stat()
    except OSError as error:
        raise DataError(GONE) from error
    return status.st_size, status.st_mtime_ns


@contextmanager
def local_copy(path: str) -> Iterator[Path]:
    """Yield the file itself, or a temporary copy of a remote one."""
    if not is_url(path):
        yield Path(path)
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / PurePosixPath(path).name
        try:
            system, name = _file_system(path)
            system.get_file(name, str(copy))
        except OSError as error:
            raise DataError(GONE) from error
        yield copy


def _file_system(place: str) -> tuple[Any, str]:
    """Open the fsspec file system of a URL; returns it and the name in it."""
    require("cluster", "fsspec")
    from fsspec.core import url_to_fs

    system, name = url_to_fs(place)
    return system, str(name)


def summarise_files(files: Sequence[Sequence[Any]], labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Summarise files in a worker: like `summarise_file`, for several files and in plain values."""
    return [asdict(summarise_file(ArchiveFile(*file), LabelColumns(**labels))) for file in files]


def summarise_file(file: ArchiveFile, labels: LabelColumns) -> FileSummary:
    """Hash a file and find its devices; a file that cannot be read gets an `error`."""
    try:
        before = stamp(file.path)
        with local_copy(file.path) as path:
            sha256 = content_hash(path)
            spans = find_device_spans(path, labels, file.device)
        if stamp(file.path) != before:
            raise DataError(CHANGED)
    except ScareError as error:
        return FileSummary(file.name, error=str(error))
    return FileSummary(file.name, before, sha256, tuple(spans))


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise DataError(GONE) from error


def group_into_series(
    files: Iterable[tuple[ArchiveFile, FileSummary]],
    models: Mapping[str, Model | None],
    settings: Sequence[object],
    sites: Sites,
) -> list[Series]:
    """Group files that share a device into series, each in order of time.

    Results depend on the files, the `models` by device, the `sites` at which devices stood, and the `settings`. Each
    fingerprint hashes the one before it, like a chain, so a change in a file changes those of all later ones.
    """

    def time_order(pair: tuple[ArchiveFile, FileSummary]) -> tuple[float, str]:
        file, summary = pair
        return summary.first, file.name

    files = sorted(files, key=time_order)
    groups: dict[str, set[str]] = {}  # the devices of a group, by each of them
    for _, summary in files:
        if not groups.get(summary.devices[0], set()).issuperset(summary.devices):
            merged = {*summary.devices}.union(*(groups.get(device, ()) for device in summary.devices))
            groups |= dict.fromkeys(merged, merged)
    by_group: dict[str, list[tuple[ArchiveFile, FileSummary]]] = {}  # by the alphabetically first device of a group
    for file, summary in files:
        by_group.setdefault(min(groups[summary.devices[0]]), []).append((file, summary))
    series = []
    for first_device, group in sorted(by_group.items()):
        members, fingerprint = [], _hash(FORMAT, list(settings))
        for file, summary in group:
            depends_on: list[object] = [
                (device, model.sha256) for device in summary.devices if (model := models.get(device))
            ]
            depends_on += [astuple(stay) for device in summary.devices for stay in sites.of_device(device)]
            fingerprint = _hash(fingerprint, file.name, summary.sha256, depends_on)
            members.append(SeriesFile(file, summary, fingerprint))
        series.append(Series(_hash(first_device)[:20], tuple(members)))
    return series


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Models:
    """Finds the model of each device by routes; every model is loaded at once, so a bad file fails early."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._models: dict[str, Model] = {}
        for path in dict.fromkeys(route.calibrator for route in routes):
            Calibrator.load(path)  # raises if the file is bad; workers load it again
            self._models[path] = Model(str(Path(path).absolute()), content_hash(Path(path)))

    def find(self, device: str) -> Model | None:
        """Find the model of a device; None if no route matches."""
        path = choose_route(self._routes, device)
        return None if path is None else self._models[path]

    def by_device(self, devices: Iterable[str]) -> dict[str, Model]:
        """Find the models of devices; devices without a model are left out."""
        return {device: model for device in dict.fromkeys(devices) if (model := self.find(device)) is not None}


def single_model(path: Path) -> Models:
    """Return `Models` that use one calibrator for every device."""
    return Models([Route(DEFAULT, str(path))])


def read_model_table(
    path: Path, find_model: Callable[[str, Path], Path] = lambda name, folder: folder / name
) -> Models:
    """Read which model each device has; devices may be patterns (`roof-*`).

    `find_model` gives the file of a model that the table names; paths are relative to the table's folder.
    """
    table = read_table(path)
    if not {*MODEL_COLUMNS} <= {*table.columns}:
        there = ", ".join(table.columns)
        raise UsageError(f"{path}: a table of models has the columns {' and '.join(MODEL_COLUMNS)}, not {there}")
    rows = table.select(MODEL_COLUMNS).drop_nulls().rows()
    files = {model: str(find_model(model, path.parent)) for model in dict.fromkeys(str(model) for _, model in rows)}
    return Models([Route(str(device), files[str(model)]) for device, model in rows])
