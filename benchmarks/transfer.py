"""Transfer of a calibrator to a new box after hours of co-location (part of continual.py)."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.accuracy_tasks import AccuracyTask, load_tasks, read_task, split_task
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, REFERENCE, Readings
from scare.errors import DataError
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.upkeep.update import adopt

HOURS = (2, 4, 8, 24, 48, 96)
NEW_BOX = "new box"  # prefix of the names of the tasks


def run_transfer(data: Path, work: Path, words: Sequence[str]) -> dict[str, Any]:
    """The errors of each task whose files are there."""
    tasks = [task for task in load_tasks() if task.name.startswith(NEW_BOX)]
    wanted = [task for task in tasks if not words or any(word in task.name for word in words)]
    return {task.name: _run(task, data, work / task.name) for task in wanted if read_task(task, data)}


def _run(task: AccuracyTask, data: Path, work: Path) -> dict[str, Any]:
    """Errors in the test: of known boxes, of the new one settled and unsettled, and after hours of co-location."""
    readings = read_task(task, data)
    split = split_task(task, readings, data)
    calibrator = _fitted(task, split.train, split.validation, work / "fleet.scare")
    scored = split.test[0]
    start = float(scored.times[np.isfinite(scored.targets)][0])
    box = next(one for one in readings if one.device == scored.device)
    known = [_rmse(calibrator, one, start) for one in readings if one.device != box.device]
    as_fleet = replace(calibrator.inputs.scaling, devices={box.device: calibrator.inputs.scaling.fleet})
    unsettled = replace(calibrator, inputs=replace(calibrator.inputs, scaling=as_fleet))
    return {
        "fleet": float(np.mean(known)),
        "settled": _rmse(calibrator, box, start),
        "unsettled": _rmse(unsettled, box, start),
        "hours": {str(hours): _after(calibrator, box, start, hours, hours) for hours in HOURS},
        "all rows": {str(hours): _after(calibrator, box, start, hours, np.inf) for hours in HOURS},
    }


def _fitted(task: AccuracyTask, train: Sequence[Readings], validation: Sequence[Readings], path: Path) -> Calibrator:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fit(train, validation, Recipe.preset("default", window=task.window)).save(path)
    return Calibrator.load(path)


def _after(calibrator: Calibrator, box: Readings, start: float, hours: float, rows: float) -> float | None:
    """The error after `hours` with a reference among the last `rows` hours before the test; None if rejected."""
    session = box.rows((box.times >= start - 3600 * rows) & (box.times < start))
    references = np.where(session.times >= start - 3600 * hours, session.targets, np.nan)
    frame = session.frame.with_columns(pl.Series(REFERENCE, references).fill_nan(None))
    try:
        return _rmse(adopt(calibrator, replace(session, frame=frame)).calibrator, box, start)
    except DataError as error:
        print(f"{hours} h: {error}", file=sys.stderr)
        return None


def _rmse(calibrator: Calibrator, readings: Readings, start: float) -> float:
    values = calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    rows = np.isfinite(values) & np.isfinite(readings.targets) & (readings.times >= start)
    return float(np.sqrt(np.square(values - readings.targets)[rows].mean()))
