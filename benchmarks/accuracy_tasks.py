"""The tasks of accuracy.toml: their readings, from files or simulated, and their splits."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.data.mapping import ColumnMapping
from scare.data.quality import flag, without_unusable_references
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.data.simulate import Kind, Simulation, simulate
from scare.data.split import Split, split_by_device, split_by_time
from scare.data.tables import read_readings
from scare.experiments.tuning.folds import forward_folds

Task = dict[str, Any]


def load_tasks(words: str = "") -> list[Task]:
    """All tasks, or those with one of these words, comma-separated, in their names."""
    tasks = tomllib.loads(Path(__file__).with_name("accuracy.toml").read_text(encoding="utf-8"))["task"]
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    return [task for task in tasks if not wanted or any(word in task["name"] for word in wanted)]


def simulation(task: Task) -> Simulation | None:
    """What is simulated for a task that has no files."""
    facts = task.get("simulate")
    return Simulation(**facts | {"kind": Kind(facts["kind"])}) if facts else None


def read_task(task: Task, folder: Path | None) -> list[Readings]:
    """The readings of a task, flagged; none if its files are not there."""
    simulated = simulation(task)
    readings = simulate(simulated) if simulated else _read_files(task, folder) if folder else []
    return [flag(without_unusable_references(one)) for one in readings if np.isfinite(one.targets).any()]


def _read_files(task: Task, folder: Path) -> list[Readings]:
    limits = task.get("limits", {})
    channels = tuple(Channel(name, "", *limits.get(name, (-np.inf, np.inf))) for name in task["channels"])
    reference = Channel(task["reference"])
    mapping = ColumnMapping(tuple(task["time"]), channels, reference, task.get("device_column", ""), sort=True)
    readings = [one for file in sorted(folder.glob(task["files"])) for one in read_readings(file, mapping)]
    return [one for one in readings if not any(one.device.startswith(name) for name in task.get("without", ()))]


def split_task(task: Task, readings: Sequence[Readings]) -> Split:
    """Training, validation and test of a task."""
    named = {part: _device(readings, task[part]) for part in ("validation", "test") if part in task}
    if "validation" in named:
        return _scored(task, split_by_device(readings, **named))
    if "shares" in task:
        times = readings[0].times
        moments = [datetime.fromtimestamp(times[int(share * len(times))], UTC) for share in task["shares"]]
    else:
        moments = [datetime.fromisoformat(text) for text in task["borders"]]
    split = split_by_time(readings, _gap_seconds(task, readings), borders=(moments[0], moments[1]))
    if "test" not in named:
        return _scored(task, split)
    others = {part: tuple(one for one in split.parts[part] if one.device != named["test"]) for part in split.parts}
    how = f"{split.how}; {named['test']} only in the test, its readings before without a reference"
    box = _new_box(readings, split, named["test"])
    return _scored(task, Split(others["train"], others["validation"], (box,), how))


def fold_task(task: Task, readings: Sequence[Readings], folds: int) -> list[Split]:
    """Forward folds of a task that is split by time alone; of others none."""
    if not folds or "test" in task:
        return []
    return [_scored(task, fold) for fold in forward_folds(readings, folds, _gap_seconds(task, readings))]


def _gap_seconds(task: Task, readings: Sequence[Readings]) -> float:
    return task["window"] * float(np.median([one.step_seconds for one in readings]))


def _new_box(readings: Sequence[Readings], split: Split, device: str) -> Readings:
    """All readings of a device that nobody calibrated; references only where the test has them."""
    box, scored = (next(one for one in part if one.device == device) for part in (readings, split.test))
    known = scored.frame.select(TIME, REFERENCE)
    return replace(box, frame=box.frame.drop(REFERENCE).join(known, on=TIME, how="left", maintain_order="left"))


def _device(readings: Sequence[Readings], name: str) -> str:
    return next(one.device for one in readings if one.device.startswith(name))


def _scored(task: Task, split: Split) -> Split:
    """The split with references in the test only at the minutes the task is scored at."""
    if "every" not in task:
        return split

    def thin(one: Readings) -> Readings:
        kept = np.where(one.times % (60 * task["every"]) == 0, one.targets, np.nan)
        return replace(one, frame=one.frame.with_columns(pl.Series(REFERENCE, kept)))

    return replace(split, test=tuple(map(thin, split.test)))
