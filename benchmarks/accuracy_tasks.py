"""The tasks of the benchmarks: those of the public suite and those of accuracy.toml; forward folds of a task."""

from collections.abc import Sequence
from pathlib import Path

from scare.data.readings import Readings
from scare.data.split import Split
from scare.experiments.suite_tasks import SUITE, SuiteTask, gap_seconds, read_suite, score_every
from scare.experiments.tuning import forward_folds

ACCURACY = Path(__file__).with_name("accuracy.toml")


def load_tasks(words: str = "") -> list[SuiteTask]:
    """All tasks, or those with one of these words, comma-separated, in their names."""
    return list(read_suite([SUITE, ACCURACY]).choose(words))


def fold_task(task: SuiteTask, readings: Sequence[Readings], folds: int) -> list[Split]:
    """Forward folds of a task that is split by time only; none for other tasks."""
    if not folds or task.test or task.split_column:
        return []
    return [score_every(task, fold) for fold in forward_folds(readings, folds, gap_seconds(task, readings))]
