"""Real later days of drift.py: whether a box with more units has lost more accuracy.

Boxes are watched from the beginning of training on; units and losses are those of the days after training.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.accuracy_tasks import load_tasks
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, Readings
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.upkeep.drift import (
    DriftState,
    Hours,
    align_boxes,
    assess,
    box_hours,
    drift_meter,
    median,
    periods,
    split_days,
)

DAY = 86400.0
TASKS = ("JRC NO2", "JRC O3", "JRC CO", "JRC PM10", "Denver PM2.5", "Antwerp PM2.5")
STEPS = 300  # steps of a fit that is made here: short


@dataclass(frozen=True)
class WatchedTask:
    """Units, states and loss of accuracy of boxes by day, [boxes, days] each, loss NaN where it is not known."""

    name: str
    devices: tuple[str, ...]
    unit: str
    units: np.ndarray
    states: np.ndarray
    usual: np.ndarray  # RMSE of the first days [boxes]
    loss: np.ndarray
    bias: np.ndarray  # by which the mean error has changed

    @property
    def beyond(self) -> np.ndarray:
        """How much more a box has lost than the fleet's median on that day."""
        return self.loss - median(self.loss, 0)

    @property
    def moved(self) -> np.ndarray:
        """How far its bias has moved from the fleet's median change, up or down."""
        return np.abs(self.bias - median(self.bias, 0))


def watch_tasks(data: Path, models: Path, work: Path) -> list[WatchedTask]:
    """Watch all tasks whose readings are available."""
    tasks = [task for task in load_tasks() if task.name in TASKS]
    return [_watch(task, readings, data, models, work) for task in tasks if (readings := read_task(task, data))]


def _watch(task: SuiteTask, readings: list[Readings], data: Path, models: Path, work: Path) -> WatchedTask:
    """Assess the boxes of a task on each day after training, and compare with the true change of their error.

    `loss` and `bias` [boxes, days] are how much RMSE and mean error of the last days exceed those of the first days.
    """
    print(f"{task.name}: watching", file=sys.stderr)
    split = split_task(task, readings, data)
    calibrator = _model(task, split.train, split.validation, models, work)
    first, last = (pick(one.times[end] for one in split.train) for pick, end in ((min, 0), (max, -1)))
    watched = [one.rows(one.times >= first) for one in readings]
    hours = align_boxes([(one.device, *box_hours(calibrator, one)) for one in watched])
    lengths, meter = split_days(hours.values.shape[1]), drift_meter(calibrator)  # lengths: first days, last days
    sums = np.stack([meter.sum_day(hours.values[:, day]) for day in range(hours.values.shape[1])], axis=1)
    # Days that are assessed: after training, and with enough days before them.
    days = range(max(sum(lengths) - 1, int(last // DAY) - hours.first + 1), sums.shape[1])
    assessed = [assess(periods(sums[:, : day + 1], meter, *lengths), meter) for day in days]
    counts, errors, squares = error_sums(calibrator, watched, hours, task.every)
    first_days, last_days = slice(0, lengths[0]), [slice(day + 1 - lengths[1], day + 1) for day in days]
    usual = np.sqrt(mean_of_days(squares, counts, first_days))
    loss = np.stack([np.sqrt(mean_of_days(squares, counts, part)) - usual for part in last_days], axis=1)
    bias = np.stack(
        [mean_of_days(errors, counts, part) - mean_of_days(errors, counts, first_days) for part in last_days], axis=1
    )
    units, states = (np.stack([getattr(one, name) for one in assessed], axis=1) for name in ("scores", "states"))
    return WatchedTask(task.name, hours.devices, calibrator.target.unit, units, states, usual, loss, bias)


def _model(
    task: SuiteTask, train: Sequence[Readings], validation: Sequence[Readings], models: Path, work: Path
) -> Calibrator:
    """Load a model trained for the accuracy page, or make a short fit."""
    name = f"{re.sub(r'[^A-Za-z0-9]+', '-', task.name.replace('.', '_'))}.scare".replace("PM2-5", "PM2_5")
    for folder in (models, work):
        if (folder / name).exists():
            return Calibrator.load(folder / name)
    print(f"{task.name}: fitting", file=sys.stderr)
    calibrator = fit(train, validation, Recipe.preset("default", task.window, steps=STEPS))
    calibrator.save(work / name)
    return calibrator


def error_sums(calibrator: Calibrator, readings: Sequence[Readings], hours: Hours, every: int) -> np.ndarray:
    """Compute counts, sums and sums of squares of the errors [3, boxes, days], scored every `every` minutes."""
    sums = np.zeros((3, len(readings), hours.values.shape[1]))
    for box, one in enumerate(readings):
        error = calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() - one.targets
        scored = np.isfinite(error) & ((one.times % (60 * every) == 0) if every else True)
        day = (one.times[scored] // DAY).astype(int) - hours.first
        for power in range(3):  # error⁰ counts rows
            np.add.at(sums[power, box], day, error[scored] ** power)
    return sums


def mean_of_days(totals: np.ndarray, counts: np.ndarray, days: slice) -> np.ndarray:
    """Compute the mean over days [boxes] from totals and counts [boxes, days]; NaN where there is no row."""
    total, count = totals[:, days].sum(axis=1), counts[:, days].sum(axis=1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def rank_correlation(units: np.ndarray, loss: np.ndarray) -> float:
    """Compute Spearman's rank correlation over all known pairs; NaN if one of the two is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 9.0]))
    1.0
    """
    known = np.isfinite(loss) & np.isfinite(units)
    one, other = rankdata(units[known]), rankdata(loss[known])
    if known.sum() < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def by_day(units: np.ndarray, loss: np.ndarray) -> float:
    """Compute Spearman's rank correlation between the boxes of each day, mean over days."""
    found = [rank_correlation(one, other) for one, other in zip(units.T, loss.T, strict=True)]
    return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")


def mean_loss(one: WatchedTask, state: DriftState) -> tuple[float, int]:
    """Average the loss beyond the fleet's over box-days in a state, as a share of the usual RMSE; counts box-days."""
    share = one.beyond / one.usual[:, None]
    inside = (one.states == state) & np.isfinite(share)
    return (float(share[inside].mean()) if inside.any() else float("nan")), int(inside.sum())
