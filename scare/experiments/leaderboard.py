"""The leaderboard of a suite: every method's predictions scored on the same rows, and checked again from the files.

    folder/tasks/NAME/              the study of a task: `task.json`, its readings, what our own methods gave
    folder/predictions/METHOD.csv   predictions, which any program can write
    folder/predictions/METHOD.json  costs, if known: for each task `bytes` and `instructions`, or why it `failed`
    folder/leaderboard.json         scores, with the sha256 of everything that they depend on

A table of predictions has the following columns; `low` and `high`, a 90 % interval, may be left out.

    task,device,time,value,low,high
    UCI CO,AirQualityUCI,2005-01-01T00:00:00Z,1.43,0.92,2.10

A task is scored on its test rows that have a reference and a value of each simple baseline, so the rows do not depend
on which methods take part. A method without a value for one of these rows has no score on that task. An RMSE is divided
by that of the best simple baseline; all six are fitted to training and validation. Imports no JAX.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from scare.calibrator.intervals import LEVEL
from scare.data.readings import DEVICE, HIGH, LOW, REFERENCE, TIME, Readings
from scare.data.tables import LINE, Tally, open_table, read_numbers, write_table
from scare.data.times import find_time_format, parse_times
from scare.errors import DataError
from scare.experiments.study_task import TASK as TASK_FILE
from scare.experiments.study_task import ReadingsFingerprint, fingerprint, read_parts
from scare.experiments.study_task import read_task as read_study
from scare.experiments.suite_tasks import Suite, Track, read_task, split_task
from scare.files import replacing, sha256_of
from scare.schema import convert, read_json
from scare.scorecard.accuracy import cover, rmse, share_rows
from scare.words import plural

SIMPLE = ("raw", "linear", "multiple-linear", "ridge", "boosting", "ridge-boosting")
# Has a value only where the newest reading is usable; rows without one are still scored for the others.
SPARED = {"raw"}  # takes no row from the others
TASKS, PREDICTIONS, LEADERBOARD = "tasks", "predictions", "leaderboard.json"
Fingerprints = dict[str, tuple[ReadingsFingerprint, ...]]  # by part of the split
SAME = 1e-9  # relative difference of two scores below which they are equal: sums in another order
TASK, VALUE = "task", "value"
KEY = (TASK, DEVICE, TIME)


@dataclass(frozen=True)
class MethodCost:
    """What a method costs on one task, or why it has no value there.

    `bytes` are those of the numbers that it learned (weights, thresholds), `instructions` those of one value.
    """

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
    number_columns = [VALUE, *([LOW, HIGH] if {LOW, HIGH} <= {*table.columns} else [])]
    time_format = find_time_format(table, (TIME,))
    tally = Tally(table)
    parts = []
    for batch in table.batches([*KEY, *number_columns]):
        rows, times = parse_times(batch, time_format, table, tally)
        values = [read_numbers(rows, name, table, tally) for name in number_columns]
        parts.append(rows.select(LINE, pl.col(TASK, DEVICE).cast(pl.String)).with_columns(times, *values))
    problems = tally.notes()  # cells that are no times or numbers
    if problems:
        raise DataError(f"{path}: {problems[0]}")
    if not parts:
        raise DataError(f"{path} has no row")
    frame = pl.concat(parts)
    wrong_rows = {
        "the task or the device is missing": frame.filter(pl.any_horizontal(pl.col(TASK, DEVICE).is_null())),
        "an earlier row has the same task, device and time": frame.filter(~pl.struct(KEY).is_first_distinct()),
        "low is above high": frame.filter(pl.col(LOW) > pl.col(HIGH)) if LOW in number_columns else frame.clear(),
    }
    for problem, rows in wrong_rows.items():
        if rows.height:
            raise DataError(f"{table.place(rows[LINE][0])}: {problem}")
    left_out = [pl.lit(None, pl.Float64).alias(name) for name in (LOW, HIGH) if name not in number_columns]
    return frame.drop(LINE).with_columns(*left_out)


def write_predictions(path: Path, frame: pl.DataFrame, costs: Mapping[str, MethodCost]) -> None:
    """Write a table of predictions, and the costs by task beside it."""
    write_table(frame.select(*KEY, VALUE, LOW, HIGH), path)
    with replacing(path.with_suffix(".json")) as temporary:
        plain_costs = {task: asdict(cost) for task, cost in costs.items()}
        temporary.write_text(json.dumps(plain_costs, indent=1), encoding="utf-8")


def test_rows(test: Sequence[Readings]) -> pl.DataFrame:
    """Return the test rows of a task: `device`, `time` and `reference`, NaN where there is none."""
    return pl.concat(
        [box.frame.select(pl.lit(box.device).alias(DEVICE), TIME, pl.Series(REFERENCE, box.targets)) for box in test]
    )


def read_costs(path: Path) -> dict[str, MethodCost]:
    """Read the costs beside a table of predictions; none if there is no such file."""
    beside = path.with_suffix(".json")
    return read_json(beside, dict[str, MethodCost]) if beside.exists() else {}


@dataclass(frozen=True)
class TaskFacts:
    """What the study of a task records in `task.json`, under `suite`: `files` are paths, each with its sha256."""

    task: str
    set: str
    track: Track
    window: int
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Score:
    """The score of a method on a task; `ratio` is its RMSE divided by that of the best simple baseline.

    `width` is the mean width of its intervals divided by the same RMSE; it and `coverage` are None unless every row has
    an interval.
    """

    rmse: float
    ratio: float
    coverage: float | None = None
    width: float | None = None
    bytes: float | None = None
    instructions: float | None = None


@dataclass(frozen=True)
class TaskScores:
    """A task, the rows scored (their number, and the sha256 of a CSV of device, time and reference), and the scores.

    `best` is the simple baseline with the lowest RMSE; `failed` says of other methods why they have no score.
    """

    facts: TaskFacts
    rows: int
    sha256: str
    best: str
    scores: Mapping[str, Score]
    failed: Mapping[str, str]


@dataclass(frozen=True)
class Leaderboard:
    """All tasks, and the sha256 of the predictions of each method."""

    tasks: tuple[TaskScores, ...]
    predictions: Mapping[str, str]


def make_leaderboard(folder: Path) -> Leaderboard:
    """Score all predictions in a folder, on the readings that it keeps."""
    tests = {facts.task: read_parts(path)["test"] for facts, path in task_folders(folder).items()}
    return _score_all(folder, tests)


def write_leaderboard(folder: Path, board: Leaderboard) -> Path:
    """Write `leaderboard.json` and return its path."""
    with replacing(folder / LEADERBOARD) as temporary:
        temporary.write_text(json.dumps(asdict(board), indent=1), encoding="utf-8")
    return folder / LEADERBOARD


def read_leaderboard(folder: Path) -> Leaderboard:
    """Read `leaderboard.json`."""
    return read_json(folder / LEADERBOARD, Leaderboard)


def find_problems(folder: Path, suite: Suite, files: Path) -> Iterator[str]:
    """Check a leaderboard against the files of the data sets; yields every difference.

    Files must have the recorded sha256, and that of the suite; their split must be the one that methods were trained
    on; predictions must be the files that were scored; and scoring them again must give the same scores.
    """
    published = read_leaderboard(folder)
    folders = {facts.task: path for facts, path in task_folders(folder).items()}
    tests: dict[str, Sequence[Readings]] = {}
    for scored in published.tasks:
        task = suite.find_task(scored.facts.task)
        changed = [name for name, digest in scored.facts.files if not _is_unchanged(files / name, digest)]
        if changed or task.name not in folders:
            yield f"{task.name}: {', '.join(changed) or 'its study'} is missing or was changed"
            continue
        suite.check_files(task, files)
        split = split_task(task, read_task(task, files), files)
        tests[task.name] = split.test
        if convert(fingerprint(split), Fingerprints, task.name) != read_study(folders[task.name]).readings:
            yield f"{task.name}: the methods were trained on readings that differ from those in the files"
    for name, digest in published.predictions.items():
        path = folder / PREDICTIONS / f"{name}.csv"
        if not _is_unchanged(path, digest):
            yield f"{name}: {path} is missing or was changed"
    scored_again = {scored.facts.task: scored for scored in _score_all(folder, tests).tasks}
    for scored in published.tasks:
        if scored.facts.task in scored_again:
            yield from _differences(scored, scored_again[scored.facts.task])


def _is_unchanged(path: Path, digest: str) -> bool:
    return path.is_file() and sha256_of(path) == digest


def _differences(published: TaskScores, again: TaskScores) -> Iterator[str]:
    """Yield a sentence for each difference between the published scores of a task and those computed again."""
    name = published.facts.task
    if published.rows != again.rows:
        yield f"{name}: the scored rows differ ({published.rows:,} published, {again.rows:,} now)"
    elif published.sha256 != again.sha256:
        yield f"{name}: the scored rows differ ({published.rows:,} rows as published, but with other content)"
    if published.failed != again.failed or published.scores.keys() != again.scores.keys():
        yield f"{name}: the scored or failed methods differ from those in {LEADERBOARD}"
    for method in published.scores.keys() & again.scores.keys():
        old, new = asdict(published.scores[method]), asdict(again.scores[method])
        for key, number in old.items():
            is_known = number is not None and new[key] is not None
            is_same = np.isclose(number, new[key], SAME, 0) if is_known else number == new[key]
            if not is_same:
                yield f"{name}, {method}: {key} is {number} in {LEADERBOARD}, {new[key]} from its predictions"


def task_folders(folder: Path) -> dict[TaskFacts, Path]:
    """Return the folder of each task, by what its study records about it."""
    paths = sorted(path.parent for path in (folder / TASKS).glob(f"*/{TASK_FILE}"))
    if not paths:
        raise DataError(f"{folder} has no results of a suite; make them with scare suite run --out {folder}")
    return {convert(read_study(path).facts["suite"], TaskFacts, path / TASK_FILE, DataError): path for path in paths}


def _score_all(folder: Path, tests: Mapping[str, Sequence[Readings]]) -> Leaderboard:
    """Score all predictions of a folder; `tests` are the test readings of each task."""
    paths = {path.stem: path for path in sorted((folder / PREDICTIONS).glob("*.csv"))}
    # Predictions by method, then by the key of Polars for a task, a tuple of one name.
    tables = {name: read_predictions(path).partition_by(TASK, as_dict=True) for name, path in paths.items()}
    costs = {name: read_costs(path) for name, path in paths.items()}
    tasks = []
    for facts in task_folders(folder):
        if facts.task in tests:
            key = (facts.task,)
            predictions = {name: parts[key] for name, parts in tables.items() if key in parts}
            task_costs = {name: cost[facts.task] for name, cost in costs.items() if facts.task in cost}
            tasks.append(_score_task(facts, tests[facts.task], predictions, task_costs))
    return Leaderboard(tuple(tasks), {name: sha256_of(path) for name, path in paths.items()})


def _score_task(
    facts: TaskFacts,
    test: Sequence[Readings],
    predictions: Mapping[str, pl.DataFrame],
    costs: Mapping[str, MethodCost],
) -> TaskScores:
    """Score the predictions of a task; `predictions` and `costs` are by method."""
    rows = test_rows(test)
    values: dict[str, np.ndarray] = {}  # predictions at the test rows [rows, 3]: value, low, high; NaN where none
    for name, frame in predictions.items():
        at_rows = rows.join(frame, on=(DEVICE, TIME), how="left", maintain_order="left")
        values[name] = at_rows.select(VALUE, LOW, HIGH).fill_null(np.nan).to_numpy()
    reference = rows[REFERENCE].to_numpy()
    simple = {name: values[name][:, 0] for name in SIMPLE if name in values}
    if not simple.keys() - SPARED:
        raise DataError(f"{facts.task}: no simple baseline has predictions; run scare suite run for this task")
    # The rows where every simple baseline has a value, whichever methods take part.
    scored, _ = share_rows(reference, simple, SPARED & simple.keys())
    errors = {name: rmse(column[scored] - reference[scored]) for name, column in simple.items()}
    best = min((name for name in errors if np.isfinite(errors[name])), key=lambda name: errors[name])
    digest = hashlib.sha256(rows.filter(scored).write_csv().encode()).hexdigest()
    scores, failed = {}, {name: cost.failed for name, cost in costs.items() if cost.failed}
    for name, all_rows in values.items():
        scored_rows = all_rows[scored]
        missing = int((~np.isfinite(scored_rows[:, 0])).sum())
        if missing:
            failed[name] = f"no value for {missing:,} of {plural(len(scored_rows), 'row')}"
        else:
            scores[name] = _score(scored_rows, reference[scored], errors[best], costs.get(name, MethodCost()))
    return TaskScores(facts, int(scored.sum()), digest, best, scores, failed)


def _score(values: np.ndarray, reference: np.ndarray, best: float, cost: MethodCost) -> Score:
    """Score the predictions of one method, value, low and high [rows, 3]; `best` is the best baseline's RMSE."""
    estimates, low, high = values.T
    error = rmse(estimates - reference)
    score = Score(error, error / best, bytes=cost.bytes, instructions=cost.instructions)
    interval = cover(low, high, reference, LEVEL)
    if interval is None or interval.rows < len(reference):
        return score
    return replace(score, coverage=interval.share, width=interval.width / best)
