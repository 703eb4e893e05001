"""Real tasks of drift.py and drift_oracle.py: boxes beside a reference that `scare watch` does not see.

A line with intervals is fitted to the training rows of each task. Boxes are watched from the beginning of training on,
and judged on the days after training: by what `scare watch` shows, and by how much larger their errors became.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.accuracy_tasks import load_tasks
from benchmarks.drift_fleets import begins, fit_line
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import derive_intervals
from scare.data.readings import CALIBRATED, Readings
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.upkeep.drift import (
    Assessment,
    DriftState,
    Hours,
    align_boxes,
    assess,
    box_hours,
    drift_meter,
    lasting,
    median,
    periods,
    split_days,
)

DAY, MONTH = 86400.0, 30  # a month in days
SETS = ("JRC", "Denver", "Antwerp", "Beijing", "QUANT", "Toucan", "miniDOT")
TRACKS = ("same box later", "after a year")
MOST_ROWS = 20_000  # that intervals are fitted to
SILENT = "silent"  # a measure


@dataclass(frozen=True)
class WatchedTask:
    """What `scare watch` shows of the boxes of a task on each day after training, and their loss of accuracy.

    `assessed` has a member for each of `days`, which count from the first of `hours`. `states` are those that lasted.
    `loss` is the logarithm of the RMSE of the last days over that of the first, NaN where it is not known. All are
    [boxes, days].
    """

    task: str
    set: str
    hours: Hours
    lengths: tuple[int, int]  # numbers of first and of last days
    trained_until: float  # seconds since 1970
    days: range
    assessed: Sequence[Assessment]
    states: np.ndarray
    loss: np.ndarray

    @property
    def boxes(self) -> int:
        """The number of boxes."""
        return len(self.hours.devices)

    @property
    def months(self) -> float:
        """The number of months of single boxes in which the loss is known."""
        return float(np.isfinite(self.loss).sum() / MONTH)

    @property
    def expected(self) -> np.ndarray:
        """The logarithm of the expected error [boxes, days]."""
        return np.log(np.stack([one.expected for one in self.assessed], axis=1))

    @property
    def units(self) -> np.ndarray:
        """The change in alarm units [boxes, days]."""
        return np.stack([one.scores for one in self.assessed], axis=1)

    @property
    def drift_units(self) -> np.ndarray:
        """The same without silence, which is a fact and no sign of drift."""
        known = [name != SILENT for name in self.assessed[0].measures]
        return np.stack([np.nan_to_num(one.units)[:, known].max(axis=1) for one in self.assessed], axis=1)

    @property
    def beyond(self) -> np.ndarray:
        """How much more a box has lost than the fleet's median on that day."""
        return self.loss - median(self.loss, 0)

    @property
    def order(self) -> np.ndarray:
        """The order in which `scare watch` shows boxes, as a number that is larger nearer to the top [boxes, days]."""
        return 1e3 * self.states + np.nan_to_num(self.expected)

    def measure(self, kind: str) -> np.ndarray:
        """Return the largest change in alarm units of the measures of a kind, 0 where not known [boxes, days]."""
        columns = [name.startswith(kind) for name in self.assessed[0].measures]
        return np.stack([np.nan_to_num(one.units)[:, columns].max(axis=1) for one in self.assessed], axis=1)


def watch_tasks(data: Path) -> Iterator[WatchedTask]:
    """Watch all tasks whose readings are available."""
    for task in load_tasks():
        if task.set in SETS and task.track in TRACKS and (readings := read_task(task, data)):
            print(f"{task.name}: watching", file=sys.stderr)
            yield watch_task(task, readings, data)


def watch_task(task: SuiteTask, readings: list[Readings], data: Path) -> WatchedTask:
    """Fit a line to the training rows, watch the boxes, and compare with the true change of their errors."""
    split = split_task(task, readings, data)
    calibrator = with_intervals(fit_line(split.train), split.train)
    first, last = (pick(one.times[end] for one in split.train) for pick, end in ((min, 0), (max, -1)))
    watched = [one.rows(one.times >= first) for one in readings]
    hours = align_boxes([(one.device, *box_hours(calibrator, one)) for one in watched])
    count = hours.values.shape[1]
    lengths, meter = split_days(count), drift_meter(calibrator)
    sums = np.stack([meter.sum_day(hours.values[:, day]) for day in range(count)], axis=1)
    begin = sum(lengths) - 1  # the first day with enough days before it
    assessed = [assess(periods(sums[:, : day + 1], meter, *lengths), meter) for day in range(begin, count)]
    states = lasting(np.stack([one.states for one in assessed], axis=1))
    days = range(max(begin, int(last // DAY) - hours.first + 1), count)
    counts, squares = error_sums(calibrator, watched, hours, task.every)
    with np.errstate(divide="ignore", invalid="ignore"):
        usual = np.log(mean_of_days(squares, counts, slice(0, lengths[0])))
        recent = [np.log(mean_of_days(squares, counts, slice(day + 1 - lengths[1], day + 1))) for day in days]
        loss = (np.stack(recent, axis=1) - usual[:, None]) / 2  # of squares
    after = slice(days.start - begin, None)
    known = np.where(np.isfinite(loss), loss, np.nan)
    return WatchedTask(task.name, task.set, hours, lengths, last, days, assessed[after], states[:, after], known)


def with_intervals(calibrator: Calibrator, train: Sequence[Readings]) -> Calibrator:
    """Give a line intervals, as any trained calibrator has; from training, as many rows as are needed."""
    pairs = [(calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy(), one.targets) for one in train]
    values, references = (np.concatenate(column) for column in zip(*pairs, strict=True))
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(references))
    known = known[:: max(1, len(known) // MOST_ROWS)]
    return replace(calibrator, intervals=derive_intervals(values[known], references[known]))


def error_sums(calibrator: Calibrator, readings: Sequence[Readings], hours: Hours, every: int) -> np.ndarray:
    """Compute counts and sums of squares of the errors [2, boxes, days], scored every `every` minutes."""
    sums = np.zeros((2, len(readings), hours.values.shape[1]))
    for box, one in enumerate(readings):
        error = calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() - one.targets
        scored = np.isfinite(error) & ((one.times % (60 * every) == 0) if every else True)
        day = (one.times[scored] // DAY).astype(int) - hours.first
        for part, power in zip(sums, (0, 2), strict=True):  # error⁰ counts rows
            np.add.at(part[box], day, error[scored] ** power)
    return sums


def mean_of_days(totals: np.ndarray, counts: np.ndarray, days: slice) -> np.ndarray:
    """Compute the mean over days [boxes] from totals and counts [boxes, days]; NaN where there is no row."""
    total, count = totals[:, days].sum(axis=1), counts[:, days].sum(axis=1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def count_alarms(one: WatchedTask, is_alarm: np.ndarray | None = None) -> dict[str, int]:
    """Count alarms (look or re-collocate, or `is_alarm` [boxes, days]) by the loss of the box when they begin.

    An alarm is false if the RMSE of the box is not larger than in its first days, or no more so than the median of its
    fleet. Looks at silent boxes are counted by themselves.
    """
    is_silent = lasting((one.measure(SILENT) >= 1).astype(int)) > 0
    usual = np.fmax(0.0, median(one.loss, 0)) if one.boxes > 2 else 0.0  # the median of one or two boxes is no fleet
    drifts = begins((one.states > DriftState.FINE) & ~is_silent if is_alarm is None else is_alarm)
    collected = begins(one.states == DriftState.RECOLLOCATE)
    is_false = one.loss <= usual
    return {
        "alarms": int(drifts.sum()),
        "false": int((drifts & is_false).sum()),
        "re-collocate": int(collected.sum()),
        "false re-collocate": int((collected & is_false).sum()),
        "silent": int(begins((one.states > DriftState.FINE) & is_silent).sum()),
    }


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Compute Spearman's rank correlation over all known pairs; NaN if one of the two is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 9.0]))
    1.0
    """
    known = np.isfinite(one) & np.isfinite(other)
    ranks = [rankdata(values[known]) for values in (one, other)]
    if known.sum() < 3 or np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        return float("nan")
    return float(np.corrcoef(*ranks)[0, 1])
