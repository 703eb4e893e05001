"""Predictions of a method on the test rows of a suite, as a table that any program can write.

    task,device,time,value,low,high
    UCI CO,AirQualityUCI,2005-01-01T00:00:00Z,1.43,0.92,2.10

`low` and `high`, a 90 % interval, may be left out. What the method costs may stand beside `ridge.csv` in `ridge.json`:
for each task its `bytes` and `instructions`, or why it has no prediction (`failed`). Goes to `leaderboard`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from scare.data.readings import DEVICE, HIGH, LOW, REFERENCE, TIME, Readings
from scare.data.tables import LINE, Tally, open_table, read_numbers, write_table
from scare.data.times import find_time_format, timed
from scare.errors import DataError
from scare.files import replacing
from scare.records import read_json

TASK, VALUE = "task", "value"
KEY = (TASK, DEVICE, TIME)


@dataclass(frozen=True)
class MethodCost:
    """What a method costs on one task: bytes of its numbers, instructions of one value; or why it has no value."""

    bytes: float | None = None
    instructions: float | None = None
    failed: str = ""


def read_predictions(path: Path) -> pl.DataFrame:
    """Read a table of predictions: `task`, `device`, `time`, `value`, `low` and `high`, the last two null if left out.

    Raises
    ------
    DataError
        If a column is missing, a cell is not what it should be, or two rows are about the same time of a device.
    """
    table = open_table(path)
    table.require([*KEY, VALUE])
    numbers = [VALUE, *([LOW, HIGH] if {LOW, HIGH} <= {*table.columns} else [])]
    form, tally, parts = find_time_format(table, (TIME,)), Tally(table), []
    for batch in table.batches([*KEY, *numbers]):
        rows, times = timed(batch, form, table, tally)
        values = [read_numbers(rows, name, table, tally) for name in numbers]
        parts.append(rows.select(LINE, pl.col(TASK, DEVICE).cast(pl.String)).with_columns(times, *values))
    if problems := tally.notes():
        raise DataError(f"{path}: {problems[0]}")
    if not parts:
        raise DataError(f"{path} has no row")
    frame = pl.concat(parts)
    for problem, rows in (
        ("the task or the device is missing", frame.filter(pl.any_horizontal(pl.col(TASK, DEVICE).is_null()))),
        ("an earlier row has the same task, device and time", frame.filter(~pl.struct(KEY).is_first_distinct())),
        ("low is above high", frame.filter(pl.col(LOW) > pl.col(HIGH)) if LOW in numbers else frame.clear()),
    ):
        if rows.height:
            raise DataError(f"{table.place(rows[LINE][0])}: {problem}")
    absent = [pl.lit(None, pl.Float64).alias(name) for name in (LOW, HIGH) if name not in numbers]
    return frame.drop(LINE).with_columns(*absent)


def write_predictions(path: Path, frame: pl.DataFrame, costs: Mapping[str, MethodCost]) -> None:
    """Write a table of predictions, and the costs by task beside it."""
    write_table(frame.select(*KEY, VALUE, LOW, HIGH), path)
    with replacing(path.with_suffix(".json")) as temporary:
        found = {task: asdict(cost) for task, cost in costs.items()}
        temporary.write_text(json.dumps(found, indent=1), encoding="utf-8")


def test_rows(test: Sequence[Readings]) -> pl.DataFrame:
    """The test rows of a task: `device`, `time` and `reference`, NaN where there is none."""
    return pl.concat(
        [one.frame.select(pl.lit(one.device).alias(DEVICE), TIME, pl.Series(REFERENCE, one.targets)) for one in test]
    )


def read_costs(path: Path) -> dict[str, MethodCost]:
    """Read the costs beside a table of predictions; none if there is no such file."""
    beside = path.with_suffix(".json")
    return read_json(beside, dict[str, MethodCost]) if beside.exists() else {}
