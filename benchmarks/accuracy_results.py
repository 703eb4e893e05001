"""Summaries over all tasks: ratios to the best other method, ranks, significant losses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from benchmarks.accuracy_tasks import AccuracyTask
from scare.experiments.table import Row

SINGLE = "scare"  # one member of ours: the same method
SAME = 1e-4  # of the RMSE: two that ended at the same ridge start differ by rounding


@dataclass(frozen=True)
class TaskResult:
    """The rows of a task, and of each of its forward folds."""

    task: AccuracyTask
    rows: list[Row]
    folds: list[list[Row]] = field(default_factory=list)

    @property
    def errors(self) -> dict[str, float]:
        """The RMSE of every method that is scored on the shared rows, best first."""
        return {row.method: rmse(row) for row in scored(self.rows)}

    def ratio(self, name: str, ours: str) -> float | None:
        """The RMSE of a method ÷ that of the best other method; None where either is missing."""
        found = self.errors
        same = {ours, SINGLE} if name in (ours, SINGLE) else {name}
        others = [error for other, error in found.items() if other not in same]
        return found[name] / min(others) if name in found and others else None

    def losses(self, ours: str) -> list[str]:
        """The methods to which ours loses significantly, the best first."""
        own, others = self.errors.get(ours, -np.inf), [row for row in scored(self.rows) if row.method != SINGLE]
        return [row.method for row in others if certain(row) and rmse(row) < own]

    def beaten(self, name: str, ours: str) -> bool:
        """Whether a method loses significantly to ours."""
        own = self.errors.get(ours, np.inf)
        return any(row.method == name and certain(row) and rmse(row) > own for row in scored(self.rows))


def by_set(results: Sequence[TaskResult]) -> dict[str, list[TaskResult]]:
    """Results by their sets, in order of their first tasks."""
    order = list(dict.fromkeys(result.task.set for result in results))
    ranked = sorted(results, key=lambda result: order.index(result.task.set))
    return {name: list(found) for name, found in groupby(ranked, lambda result: result.task.set)}


def methods(results: Sequence[TaskResult], ours: str) -> list[str]:
    """All methods, by the mean of their ratios over tasks."""
    names = dict.fromkeys(name for result in results for name in result.errors)
    return sorted(names, key=lambda name: geometric_mean(ratios(results, name, ours)))


def ratios(results: Sequence[TaskResult], name: str, ours: str) -> list[float]:
    """The ratios of a method on the tasks where it has one."""
    return [ratio for result in results if (ratio := result.ratio(name, ours)) is not None]


def geometric_mean(numbers: Sequence[float]) -> float:
    """The geometric mean; NaN of an empty list."""
    return float(np.exp(np.mean(np.log(numbers)))) if numbers else float("nan")


def mean_over_sets(results: Sequence[TaskResult], name: str, ours: str) -> float:
    """The geometric mean of a method's ratios, in which every set counts once."""
    found = [ratios(part, name, ours) for part in by_set(results).values()]
    return geometric_mean([geometric_mean(part) for part in found if part])


def ranks(results: Sequence[TaskResult], name: str) -> list[int]:
    """The rank of a method on the tasks where it is scored."""
    return [list(result.errors).index(name) + 1 for result in results if name in result.errors]


def scored(rows: Sequence[Row]) -> list[Row]:
    """The rows with a score on the shared test rows, best first."""
    return sorted((row for row in rows if row.accuracy is not None and not row.partial), key=rmse)


def certain(row: Row) -> bool:
    """Whether a row's difference to ours is neither chance nor rounding."""
    found = row.to_ours
    return found is not None and found.decided and abs(found.difference) > SAME * rmse(row)


def rmse(row: Row) -> float:
    """The RMSE of a row; NaN if it has no score."""
    return row.accuracy.rmse if row.accuracy else float("nan")
