"""The tasks of accuracy.toml: their readings, from files or simulated, and their splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.column_mapping import ColumnMapping, read_labels, read_readings
from scare.data.flags import drop_unusable_references, flag
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.data.simulate import Simulation, simulate
from scare.data.split import Split, split_by_device, split_by_label, split_by_time
from scare.experiments.tuning import forward_folds
from scare.records import Count, read_toml


@dataclass(frozen=True)
class AccuracyTask:
    """A task of accuracy.toml (its header explains every key)."""

    name: str
    window: Count
    set: str = "other"
    simulate: Simulation | None = None
    files: str = ""
    without: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reference: str = ""
    device_column: str = ""
    borders: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    validation: str = ""
    test: str = ""
    split_column: str = ""
    every: int = 0  # minutes


def load_tasks(words: str = "") -> list[AccuracyTask]:
    """All tasks, or those with one of these words, comma-separated, in their names."""
    tasks = read_toml(Path(__file__).with_name("accuracy.toml"), dict[str, tuple[AccuracyTask, ...]])["task"]
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    return [task for task in tasks if not wanted or any(word in task.name for word in wanted)]


def read_task(task: AccuracyTask, folder: Path | None) -> list[Readings]:
    """Read or simulate the readings of a task, flagged; none if its files are not there."""
    readings = simulate(task.simulate) if task.simulate else _read_files(task, folder) if folder else []
    return [flag(drop_unusable_references(one)) for one in readings if np.isfinite(one.targets).any()]


def _read_files(task: AccuracyTask, folder: Path) -> list[Readings]:
    """Read the task's files, without the devices that it leaves out."""
    mapping = _mapping(task)
    readings = [one for file in sorted(folder.glob(task.files)) for one in read_readings(file, mapping)]
    return [one for one in readings if not any(one.device.startswith(name) for name in task.without)]


def _mapping(task: AccuracyTask) -> ColumnMapping:
    channels = tuple(Channel(name, "", *task.limits.get(name, (-np.inf, np.inf))) for name in task.channels)
    return ColumnMapping(task.time, channels, Channel(task.reference), task.device_column, sort=True)


def split_task(task: AccuracyTask, readings: Sequence[Readings], folder: Path | None = None) -> Split:
    """Split a task into training, validation and test; its files are in `folder`.

    By a column of the files, by named devices, or by time; a test device split by time is not in training.
    """
    if task.split_column and folder:
        files = sorted(folder.glob(task.files))
        parts = [read_labels(file, _mapping(task), task.split_column) for file in files]
        return split_by_label(readings, {device: labels for part in parts for device, labels in part.items()})
    prefixes = {"validation": task.validation, "test": task.test}
    named = {part: _device(readings, prefix) for part, prefix in prefixes.items() if prefix}
    if "validation" in named:
        return _scored(task, split_by_device(readings, **named))
    if task.shares:
        times = readings[0].times
        moments = [datetime.fromtimestamp(times[int(share * len(times))], UTC) for share in task.shares]
    else:
        moments = [datetime.fromisoformat(text) for text in task.borders]
    split = split_by_time(readings, _gap_seconds(task, readings), borders=(moments[0], moments[1]))
    if "test" not in named:
        return _scored(task, split)
    others = {part: tuple(one for one in split.parts[part] if one.device != named["test"]) for part in split.parts}
    how = f"{split.description}; {named['test']} only in the test, its readings before without a reference"
    box = _new_box(readings, split, named["test"])
    return _scored(task, Split(others["train"], others["validation"], (box,), how))


def fold_task(task: AccuracyTask, readings: Sequence[Readings], folds: int) -> list[Split]:
    """Forward folds of a task that is split by time only; none for other tasks."""
    if not folds or task.test or task.split_column:
        return []
    return [_scored(task, fold) for fold in forward_folds(readings, folds, _gap_seconds(task, readings))]


def _gap_seconds(task: AccuracyTask, readings: Sequence[Readings]) -> float:
    """The duration of a window, after a border: rows there are not scored, as their windows reach across it."""
    return task.window * float(np.median([one.step_seconds for one in readings]))


def _new_box(readings: Sequence[Readings], split: Split, device: str) -> Readings:
    """All readings of a device that was not in training; references only where the test has them."""
    box, scored = (next(one for one in part if one.device == device) for part in (readings, split.test))
    known = scored.frame.select(TIME, REFERENCE)
    return replace(box, frame=box.frame.drop(REFERENCE).join(known, on=TIME, how="left", maintain_order="left"))


def _device(readings: Sequence[Readings], prefix: str) -> str:
    """Find the first device whose name begins with a prefix."""
    return next(one.device for one in readings if one.device.startswith(prefix))


def _scored(task: AccuracyTask, split: Split) -> Split:
    """Keep test references only every `task.every` minutes (0: all), since only rows with a reference are scored."""
    if not task.every:
        return split

    def thin(one: Readings) -> Readings:
        kept = np.where(one.times % (60 * task.every) == 0, one.targets, np.nan)
        return replace(one, frame=one.frame.with_columns(pl.Series(REFERENCE, kept)))

    return replace(split, test=tuple(map(thin, split.test)))
