"""Tasks of a suite: what is between three borders is in no part, and a suite that cannot be meant is refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.readings import Channel, Readings
from scare.errors import DataError, ScareError, UsageError
from scare.experiments.suite_tasks import SuiteTask, read_suite, split_task

START = datetime(2026, 1, 1, tzinfo=UTC)
BORDERS = ("2026-01-05", "2026-01-07", "2026-01-15")


def box(name: str = "box-1", days: int = 20) -> Readings:
    times = [START + timedelta(hours=hour) for hour in range(24 * days)]
    truth = np.random.default_rng(1).normal(size=len(times))
    columns = {"time": times, "raw": truth, "reference": truth}
    return Readings(name, pl.DataFrame(columns), (Channel("raw"),), Channel("reference"))


def test_references_between_validation_and_test_are_in_no_part() -> None:
    split = split_task(SuiteTask("later", 6, borders=BORDERS), [box()])
    days = {
        part: [float(edge) / 86400 - START.timestamp() / 86400 for edge in (known.min(), known.max())]
        for part, (one,) in split.parts.items()
        if len(known := one.times[np.isfinite(one.targets)])
    }
    hour = 1 / 24
    assert days == {
        "train": pytest.approx([0, 4 - hour]),
        "validation": pytest.approx([4 + 6 * hour, 6 - hour]),
        "test": pytest.approx([14 + 6 * hour, 20 - hour]),
    }


@pytest.mark.parametrize(
    ("task", "error", "problem"),
    [
        (SuiteTask("a", 6), UsageError, "a: give a split_column, test devices, or two or three borders"),
        (
            SuiteTask("a", 6, borders=BORDERS, test="box-9"),
            DataError,
            "no device 'box-9' has a reference; did you mean",
        ),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(task: SuiteTask, error: type[ScareError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        split_task(task, [box()])


def test_a_task_is_defined_once(tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    file.write_text('[[task]]\nname = "UCI CO"\nwindow = 24\n')
    assert [task.name for task in read_suite([file]).task] == ["UCI CO"]
    with pytest.raises(UsageError, match="'UCI-CO' is defined twice"):
        read_suite([file, file])
