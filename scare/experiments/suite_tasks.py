"""The tasks of a suite: which files of which open data sets, and how their readings are split.

A suite is a TOML file (`configs/suite.toml`). Its sets say where files come from and what they must contain:

    [[set]]
    name = "PurpleAir"
    address = "https://github.com/mawhal/purpleair_deq"    # the home of the set
    licence = "CC0-1.0"
    about = "what it is, and what could not be checked"
    download = "https://example.org/suite/"                # a folder on the web with the files below, if there is one
    [set.files]                                            # sha256 by path, under the folder of the files
    "colocations/purpleair_va_pm25.csv.gz" = "…"

Its tasks say what is read and what keeps the test apart:

    [[task]]
    name = "PurpleAir PM2.5"
    set = "PurpleAir"                      # tasks of one set are no independent evidence
    track = "same box later"               # or "new box", "new site", "after a year"
    files = "colocations/purpleair*.gz"    # a glob under the folder of the files
    without = ["box-7"]                    # devices, by how their names begin, that are not used
    time = ["date"]                        # columns, as in a `--config` file
    channels = ["pm25", "T", "RH"]
    limits = { pm25 = [0, 300] }           # readings outside are not usable
    reference = "Ref.PM2.5"
    device_column = "device"
    window = 30
    split_column = "split"                 # says train, validate or test; or one of the following
    borders = ["2020-01-24", "2020-01-25"] # when validation and test begin; or when validation begins and ends, and
                                           # the test begins: what is between is in no part
    shares = [0.6, 0.75]                   # the borders as shares of the first device's rows
    validation = "box-2"                   # devices, by how their names begin; `test` alone: this device is only in
    test = "box-1"                         # the test, after the second border
    every = 10                             # only such minutes are scored
    simulate = { kind = "gas", boxes = 4 } # a simulated fleet instead of files

Called by `suite_run` and the benchmarks, which make a study of each task. Imports no JAX.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from annotated_types import MaxLen

from scare.data.column_mapping import ColumnMapping, read_labels, read_readings
from scare.data.download import Progress, RecordFile, download_file
from scare.data.flags import drop_unusable_references, flag
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.data.simulate import Simulation, simulate
from scare.data.split import Split, split_by_device, split_by_label, split_by_time
from scare.errors import DataError, UsageError
from scare.schema import Count, read_toml
from scare.words import suggestion

INSTALLED = Path(__file__).with_name("suite.toml")
IN_TREE = Path(__file__).parents[2] / "configs" / "suite.toml"
SUITE = INSTALLED if INSTALLED.exists() else IN_TREE


class Track(StrEnum):
    """What separates the test of a task from its training."""

    LATER = "same box later"
    NEW_BOX = "new box"
    NEW_SITE = "new site"
    AFTER_A_YEAR = "after a year"


@dataclass(frozen=True)
class OpenSet:
    """A publicly available data set: its home, its licence, and the sha256 of each file that tasks read."""

    name: str
    address: str
    licence: str
    files: Mapping[str, str]
    about: str = ""
    download: str = ""

    def record(self, path: str) -> RecordFile:
        """Return the record by which one of the files is downloaded and checked: its sha256, and no size (0)."""
        return RecordFile(Path(path).name, 0, f"sha256:{self.files[path]}", f"{self.download}{path}")


@dataclass(frozen=True)
class SuiteTask:
    """A task of a suite; the module docstring explains every key."""

    name: str
    window: Count
    set: str = "other"
    track: Track = Track.LATER
    simulate: Simulation | None = None
    files: str = ""
    without: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reference: str = ""
    device_column: str = ""
    borders: Annotated[tuple[str, ...], MaxLen(3)] = ()
    shares: tuple[float, ...] = ()
    validation: str = ""
    test: str = ""
    split_column: str = ""
    every: int = 0  # minutes

    @property
    def folder(self) -> str:
        """The name of the folder of its results.

        >>> SuiteTask("UCI CO, a year later", 24).folder
        'UCI-CO--a-year-later'
        """
        return "".join(letter if letter.isalnum() else "-" for letter in self.name)

    @property
    def mapping(self) -> ColumnMapping:
        """Which columns of its files are read."""
        channels = tuple(Channel(name, "", *self.limits.get(name, (-np.inf, np.inf))) for name in self.channels)
        return ColumnMapping(self.time, channels, Channel(self.reference), self.device_column, sort=True)

    def find(self, folder: Path | None) -> list[Path]:
        """Return its files under a folder, sorted; none without a folder."""
        return sorted(folder.glob(self.files)) if folder and self.files else []


@dataclass(frozen=True)
class Suite:
    """Data sets and tasks; the names of the fields are those of the TOML's tables."""

    set: tuple[OpenSet, ...] = ()
    task: tuple[SuiteTask, ...] = ()

    def choose(self, words: str) -> tuple[SuiteTask, ...]:
        """Return all tasks, or those with one of these words, comma-separated, in their names.

        >>> Suite(task=(SuiteTask("UCI CO", 24), SuiteTask("Captor O3", 24))).choose("CO,NO2")[0].name
        'UCI CO'
        """
        wanted = [word.strip() for word in words.split(",") if word.strip()]
        return tuple(task for task in self.task if not wanted or any(word in task.name for word in wanted))

    def find_task(self, name: str) -> SuiteTask:
        """Return the task of this name."""
        known = {task.name: task for task in self.task}
        if name not in known:
            raise DataError(f"no task is called '{name}'{suggestion(name, known)}")
        return known[name]

    def check_files(self, task: SuiteTask, folder: Path) -> None:
        """Raise a DataError unless each file of a task has the sha256 that its set gives.

        A task whose set the suite does not describe is not checked.
        """
        data_set = next((each for each in self.set if each.name == task.set), None)
        if data_set is None:
            return
        for path in task.find(folder):
            name = path.relative_to(folder).as_posix()
            if name not in data_set.files:
                raise DataError(f"{path} is not a file of the set {data_set.name}; move it elsewhere")
            if not data_set.record(name).is_at(path):
                raise DataError(
                    f"{path} does not match the file in the set {data_set.name}: its sha256 should be"
                    f" {data_set.files[name][:12]}…; get it from {data_set.address}"
                )


def read_suite(files: Sequence[Path] = (SUITE,)) -> Suite:
    """Read a suite, which may be in several files.

    Raises a UsageError if two sets have the same name, or two tasks the same folder: different names may give the same.
    """
    parts = [read_toml(file, Suite) for file in files]
    sets = tuple(data_set for part in parts for data_set in part.set)
    tasks = tuple(task for part in parts for task in part.task)
    for names in ([data_set.name for data_set in sets], [task.folder for task in tasks]):
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"{', '.join(map(str, files))}: '{name}' is defined twice")
    return Suite(sets, tasks)


def download_sets(suite: Suite, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Download the files that are missing in a folder, checked by sha256; returns the paths of all files.

    Sets that name no folder on the web to download from are left out.
    """
    paths = []
    for data_set in suite.set:
        if data_set.download:
            records = {path: data_set.record(path) for path in data_set.files}
            paths += [download_file(record, (folder / path).parent, progress) for path, record in records.items()]
    return paths


def read_task(task: SuiteTask, folder: Path | None) -> list[Readings]:
    """Read or simulate the readings of a task, flagged; none if its files are not there."""
    if task.simulate:
        readings = simulate(task.simulate)
    else:
        readings = [box for file in task.find(folder) for box in read_readings(file, task.mapping)]
        readings = [box for box in readings if not any(box.device.startswith(name) for name in task.without)]
    return [flag(drop_unusable_references(box)) for box in readings if np.isfinite(box.targets).any()]


def split_task(task: SuiteTask, readings: Sequence[Readings], folder: Path | None = None) -> Split:
    """Split a task into training, validation and test; its files are in `folder`.

    It is split by a column of the files, by named devices, or by time. If a split by time also names a test device,
    that device is in the test alone, and its readings before the test have no reference.
    """
    if task.split_column and folder:
        parts = [read_labels(file, task.mapping, task.split_column) for file in task.find(folder)]
        return split_by_label(readings, {device: labels for part in parts for device, labels in part.items()})
    prefixes = {"validation": task.validation, "test": task.test}
    named = {part: _find_device(readings, prefix) for part, prefix in prefixes.items() if prefix}
    if "validation" in named:
        return score_every(task, split_by_device(readings, **named))
    if task.shares:
        times = readings[0].times
        borders = [datetime.fromtimestamp(times[int(share * len(times))], UTC) for share in task.shares]
    else:
        borders = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in task.borders]
    if len(borders) not in (2, 3):
        raise UsageError(f"{task.name}: give a split_column, test devices, or two or three borders")
    validation_begins, *validation_ends, test_begins = borders
    for end in validation_ends:  # the middle one of three borders: references from there to the test are left out
        readings = [_without_reference(box, end, test_begins) for box in readings]
    split = split_by_time(readings, gap_seconds(task, readings), borders=(validation_begins, test_begins))
    if "test" not in named:
        return score_every(task, split)
    test_device = named["test"]
    train, validation = (
        tuple(box for box in part if box.device != test_device) for part in (split.train, split.validation)
    )
    how = f"{split.description}; {test_device} only in the test, its readings before without a reference"
    test = _with_references_of_test(readings, split, test_device)
    return score_every(task, Split(train, validation, (test,), how))


def gap_seconds(task: SuiteTask, readings: Sequence[Readings]) -> float:
    """Return the duration of a window; rows this soon after a border are not scored, as their windows reach across."""
    return task.window * float(np.median([box.step_seconds for box in readings]))


def score_every(task: SuiteTask, split: Split) -> Split:
    """Keep test references only every `task.every` minutes (0: all), since only rows with a reference are scored."""
    if not task.every:
        return split

    def thin(box: Readings) -> Readings:
        return _with_targets(box, np.where(box.times % (60 * task.every) == 0, box.targets, np.nan))

    return replace(split, test=tuple(map(thin, split.test)))


def _without_reference(box: Readings, first: datetime, last: datetime) -> Readings:
    """Return the readings without their references from `first` to before `last`."""
    in_span = (box.times >= first.timestamp()) & (box.times < last.timestamp())
    return _with_targets(box, np.where(in_span, np.nan, box.targets))


def _with_targets(box: Readings, targets: np.ndarray) -> Readings:
    return replace(box, frame=box.frame.with_columns(pl.Series(REFERENCE, targets)))


def _with_references_of_test(readings: Sequence[Readings], split: Split, device: str) -> Readings:
    """Return all readings of a device, with references only where the test of the split has them."""
    all_readings = next(box for box in readings if box.device == device)
    test_readings = next(box for box in split.test if box.device == device)
    references = test_readings.frame.select(TIME, REFERENCE)
    frame = all_readings.frame.drop(REFERENCE).join(references, on=TIME, how="left", maintain_order="left")
    return replace(all_readings, frame=frame)


def _find_device(readings: Sequence[Readings], prefix: str) -> str:
    """Return the name of the first device that begins with a prefix."""
    device = next((box.device for box in readings if box.device.startswith(prefix)), "")
    if not device:
        raise DataError(f"no device '{prefix}' has a reference{suggestion(prefix, [box.device for box in readings])}")
    return device
