"""The files of an archive: those of a folder, of a glob, or named one by one; a folder `device=…` names the device."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

import polars as pl

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import DEVICE, TIME
from scare.data.table_files import open_table
from scare.data.tables import SUFFIXES, devices_of, read_table, stem
from scare.data.times import Dates, find_time_format, parse_times
from scare.errors import DataError, ScareError, UnreachableError, UsageError
from scare.extras import require
from scare.live.fleet import DEFAULT, Route, choose_route

# Where files of an archive are: on a disk, or behind an address that fsspec knows (s3://, gs://), by your credentials.
#
# What is behind an address is copied to a temporary file while it is read; results go to a disk.


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


@dataclass(frozen=True)
class ArchiveFile:
    """A file: where it is, its name under the archive's root, and the device that its folders name, if they do."""

    path: str
    name: str
    device: str = ""

    @property
    def output(self) -> str:
        """The name under the root of what is written of it.

        >>> ArchiveFile("/a/device=x/may.csv.gz", "device=x/may.csv.gz").output
        'device=x/may.parquet'
        """
        return str(PurePosixPath(self.name).with_name(f"{stem(PurePosixPath(self.name))}.parquet"))


def find_files(places: Sequence[str], device_key: str = "") -> list[ArchiveFile]:
    """The table files of these places, by name; hidden ones and those that begin with an underscore are no data."""
    root = root_of(list(places)).rstrip("/\\")
    found = {path[len(root) + 1 :].replace("\\", "/"): path for place in places for path in files_of(place)}
    sources = [_source(found[name], name, device_key or DEVICE) for name in sorted(found) if _is_data(name)]
    if not sources:
        raise DataError(f"{', '.join(places)}: no file there ends in {', '.join(SUFFIXES)}")
    written: dict[str, ArchiveFile] = {}
    for one in sources:
        other = written.setdefault(one.output, one)
        if other is not one:
            raise UsageError(f"{other.name} and {one.name} would both become {one.output}; rename one of them")
    return sources


def _is_data(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not any(part[0] in "._" for part in PurePosixPath(name).parts)


def _source(path: str, name: str, device_key: str) -> ArchiveFile:
    keys = dict(part.split("=", 1) for part in PurePosixPath(name).parent.parts if "=" in part)
    return ArchiveFile(path, name, unquote(keys.get(device_key, "")))


# A look at a file before it is calibrated: which devices it holds, from when to when, at which step.


CHANGED = "it was changed while it was read; run again"


@dataclass(frozen=True)
class LabelColumns:
    """The columns that hold the time and, in files that do not name it otherwise, the device; how dates are written."""

    time: tuple[str, ...]
    device_column: str = ""
    dates: Dates = ""


@dataclass(frozen=True)
class DeviceSpan:
    """The rows of one device in a file: how many, from when to when in seconds, and their usual distance."""

    device: str
    rows: int
    first: float
    last: float
    step: float


@dataclass(frozen=True)
class FileSummary:
    """What is known of a file: a stamp that changes when it is written to, its content's hash, a piece for each device.

    `why` tells why it cannot be read, where it cannot.
    """

    name: str
    stamp: Stamp = (0, 0)
    sha256: str = ""
    pieces: tuple[DeviceSpan, ...] = ()
    why: str = ""

    @property
    def first(self) -> float:
        """The earliest time, in seconds."""
        return min(piece.first for piece in self.pieces)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of its devices."""
        return tuple(piece.device for piece in self.pieces)


def content_hash(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(GONE) from error


def look_at_all(sources: Sequence[Sequence[Any]], labels: Sequence[Any]) -> list[dict[str, Any]]:
    """Looks at files, as plain values; what a worker does first."""
    return [asdict(look_at(ArchiveFile(*one), LabelColumns(*labels))) for one in sources]


def look_at(source: ArchiveFile, labels: LabelColumns) -> FileSummary:
    """A look at one file; what is wrong with it is part of the look."""
    try:
        before = stamp(source.path)
        with on_disk(source.path) as file:
            sha256, pieces = content_hash(file), look_into(file, source.device, labels)
        if stamp(source.path) != before:
            raise DataError(CHANGED)
    except ScareError as error:
        return FileSummary(source.name, why=str(error))
    return FileSummary(source.name, before, sha256, tuple(pieces))


def look_into(file: Path, device: str, labels: LabelColumns) -> list[DeviceSpan]:
    """The pieces of a file by name of the device, in memory that does not grow with its rows."""
    table = open_table(file)
    column = "" if device else labels.device_column
    columns = [*labels.time, *([column] if column else [])]
    table.require(columns)
    form, device = find_time_format(table, labels.time, labels.dates), device or stem(file)
    parts = []
    for batch in table.batches(columns):
        times = pl.DataFrame([devices_of(batch, column, device, table), parse_times(batch, form, table).dt.epoch("us")])
        parts.append(times.group_by(DEVICE).agg(*_facts(pl.col(TIME))))
    rows = (
        pl.concat(parts)
        .group_by(DEVICE)
        .agg(pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max(), pl.col("step").max())
    )
    return [DeviceSpan(*row) for row in rows.sort(DEVICE).select(DEVICE, "rows", "first", "last", "step").rows()]


def _facts(time: pl.Expr) -> list[pl.Expr]:
    step = time.diff().median().fill_null(0.0) / 1e6
    return [
        pl.len().alias("rows"),
        (time.min() / 1e6).alias("first"),
        (time.max() / 1e6).alias("last"),
        step.alias("step"),
    ]


# Series: files that have a device in common, in the order of their times, and what each file's result depends on.
#
# A window reaches back over the border of a file, so a file's result depends on the files before it. Its `chain` is a
# hash of all that: the contents so far and the models of their devices. What has the same chain need not be done again.


FORMAT = "scare archive 1"


@dataclass(frozen=True)
class Model:
    """A `.scare` file by name and content."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Member:
    """A file of a series, as it was when it was looked at, and what its result depends on."""

    source: ArchiveFile
    look: FileSummary
    chain: str


@dataclass(frozen=True)
class Series:
    """Files that are read one after the other; `key` names what is kept of them."""

    key: str
    members: tuple[Member, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(member.look.stamp[0] for member in self.members)


def arrange(
    sources: Iterable[tuple[ArchiveFile, FileSummary]], models: Mapping[str, Model | None], terms: Sequence[object]
) -> list[Series]:
    """The series of files, each in the order of time; `models` by device, `terms` whatever else a result depends on."""
    groups = _Groups()
    together: dict[str, list[tuple[ArchiveFile, FileSummary]]] = {}
    kept = list(sources)
    for _, look in kept:
        groups.join(look.devices)
    for source, look in kept:
        together.setdefault(groups.of(look.devices[0]), []).append((source, look))
    return [_series(device, files, models, terms) for device, files in sorted(together.items())]


def _series(
    device: str,
    files: list[tuple[ArchiveFile, FileSummary]],
    models: Mapping[str, Model | None],
    terms: Sequence[object],
) -> Series:
    ordered, members = sorted(files, key=lambda one: (one[1].first, one[0].name)), []
    chain = _hash(FORMAT, list(terms))
    for source, look in ordered:
        used = [(one, model.sha256) for one in look.devices if (model := models.get(one))]
        chain = _hash(chain, source.name, look.sha256, used)
        members.append(Member(source, look, chain))
    return Series(_hash(device)[:20], tuple(members))


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Groups:
    """Names that were joined have the same representative: the least of them."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        while (above := self._above.setdefault(name, name)) != name:
            self._above[name] = self._above[above]
            name = above
        return name

    def join(self, names: Sequence[str]) -> None:
        least = min(map(self.of, names))
        for name in names:
            self._above[self.of(name)] = least


# Which model reads which device: one for all, or a table `device,model` whose devices may be patterns (`roof-*`).


COLUMNS = ["device", "model"]


class Models:
    """Models by route, each opened once so that a bad file is refused before the work begins."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._models = {path: _open(path) for path in dict.fromkeys(route.calibrator for route in routes)}

    def of(self, device: str) -> Model | None:
        """The model of a device, None if none is named for it."""
        path = choose_route(self._routes, device)
        return None if path is None else self._models[path]

    def by_device(self, devices: Iterable[str]) -> dict[str, Model]:
        """The models of those devices that have one."""
        found = ((device, self.of(device)) for device in dict.fromkeys(devices))
        return {device: model for device, model in found if model is not None}


def single_model(path: Path) -> Models:
    """The same model for every device."""
    return Models([Route(DEFAULT, str(path))])


def read_model_table(path: Path) -> Models:
    """The models that a table names; a relative path is from the table's folder."""
    table = read_table(path)
    if not {*COLUMNS} <= {*table.columns}:
        there = ", ".join(table.columns)
        raise UsageError(f"{path}: a table of models has the columns {' and '.join(COLUMNS)}, not {there}")
    rows = table.select(COLUMNS).drop_nulls().rows()
    return Models([Route(str(device), str(path.parent / str(model))) for device, model in rows])


def _open(path: str) -> Model:
    Calibrator.load(path)
    return Model(str(Path(path).absolute()), content_hash(Path(path)))
