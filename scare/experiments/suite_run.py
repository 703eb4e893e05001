"""Run methods on the tasks of a suite: each task is a study, and each method's results become a table of predictions.

Input: the tasks of `suite_tasks`; output: what `leaderboard` scores. A method is a name that `study` knows, which may
be that of an installed package, or a table of predictions that some program has made.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

from scare.board.boards import board as find_board
from scare.board.measure import measure_once
from scare.data.readings import DEVICE, HIGH, LOW, REFERENCE, TIME
from scare.data.tables import stem
from scare.errors import DataError, ScareError, UsageError
from scare.executor import LOCAL
from scare.experiments.leaderboard import (
    KEY,
    PREDICTIONS,
    TASK,
    TASKS,
    VALUE,
    MethodCost,
    TaskFacts,
    read_costs,
    read_predictions,
    task_folders,
    test_rows,
    write_predictions,
)
from scare.experiments.study import (
    ROWS,
    Job,
    Progress,
    Study,
    known_methods,
    open_workers,
    prepare,
    run_jobs,
)
from scare.experiments.study_task import read_parts
from scare.experiments.suite_tasks import Suite, SuiteTask, read_task, split_task
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.files import replacing, sha256_of
from scare.schema import load_json
from scare.words import plural

Notify = Callable[[str], object]


def prepare_tasks(
    suite: Suite, tasks: Sequence[SuiteTask], files: Path, out: Path, methods: Sequence[str], notify: Notify
) -> list[Study]:
    """Read, check and split the readings of each task for its study; tasks without files are left out."""
    studies = []
    for task in tasks:
        suite.check_files(task, files)
        readings = read_task(task, files)
        if not readings:
            notify(f"{task.name} is left out: there is no {task.files} in {files}")
            continue
        digests = tuple((path.relative_to(files).as_posix(), sha256_of(path)) for path in task.find(files))
        facts = TaskFacts(task.name, task.set, task.track, task.window, digests)
        jobs = [Job(name, task.window, 0) for name in methods]
        split = split_task(task, readings, files)
        studies.append(prepare(out / TASKS / task.folder, split, jobs, {}, {"suite": asdict(facts)}))
    if not studies:
        raise DataError(f"no task has its files in {files}; name their folder with --files, or try --fetch")
    return studies


def run_tasks(studies: Sequence[Study], processes: int, out: Path, progress: Progress) -> None:
    """Run the unfinished jobs of all studies; a later call resumes."""
    todo = [(study, job) for study in studies for job in study.unfinished()]
    total = sum(len(study.jobs) for study in studies)
    with open_workers(LOCAL, processes, out) as executor:
        ended = run_jobs(todo, executor)
        for done, (study, job) in enumerate(ended, start=total - len(todo) + 1):
            progress(done, total, f"{study.folder.name} {job.method}")


def collect_predictions(method: str, out: Path, board: str, notify: Notify) -> None:
    """Write a method's predictions on all tasks in `out` as one table, with its costs.

    With the name of a board, the instructions of every model that can be exported are counted there, in fixed point.
    """
    tables, costs = [], {}
    for facts, path in task_folders(out).items():
        job = Job(method, facts.window, 0)
        study = Study(path, (job,))
        result = study.result(job)
        if result is None:
            continue
        if result["failed"] is not None:
            notify(f"{facts.task}: {method} has no score: {result['failed']}")
            costs[facts.task] = MethodCost(failed=result["failed"])
            continue
        tables.append(_make_predictions(facts.task, study, job))
        costs[facts.task] = MethodCost(result.get("bytes"), _count_instructions(study, job, board) if board else None)
    if tables:
        write_predictions(out / PREDICTIONS / f"{method}.csv", pl.concat(tables), costs)


def import_predictions(file: Path, suite: Suite, out: Path, notify: Notify) -> None:
    """Copy a table of predictions, and the costs beside it, into `out`; the method is named after the file."""
    method, frame = stem(file), read_predictions(file)
    if method in known_methods():
        raise UsageError(f"{file}: '{method}' is already the name of a method; rename the file")
    tables = []
    folders = {facts.task: path for facts, path in task_folders(out).items()}
    for name in frame[TASK].unique(maintain_order=True):
        suite.find_task(name)  # raises if there is none
        if name not in folders:
            notify(f"{file}: {name} was not run here, so it is skipped")
            continue
        predictions = frame.filter(pl.col(TASK) == name)
        rows = test_rows(read_parts(folders[name])["test"])
        tables.append(predictions.join(rows, on=(DEVICE, TIME), how="semi", maintain_order="left"))
        if skipped := predictions.height - tables[-1].height:
            rows_skipped = f"{plural(skipped, 'row')} of {predictions.height:,}"
            notify(f"{file}: {name}: {rows_skipped} are no test rows, so they are skipped")
    if not any(table.height for table in tables):
        raise DataError(f"{file} has no test rows for these tasks; devices and times (UTC) must match the tasks' files")
    write_predictions(out / PREDICTIONS / f"{method}.csv", pl.concat(tables), read_costs(file))


def _make_predictions(task: str, study: Study, job: Job) -> pl.DataFrame:
    """Return a job's values and intervals at the test rows with a reference, as a table of predictions."""
    values, interval = study.estimates(job), study.interval(job)
    low, high = np.full((2, len(values)), np.nan) if interval is None else interval.T
    columns = [pl.Series(VALUE, values), pl.Series(LOW, low), pl.Series(HIGH, high)]
    rows = test_rows(read_parts(study.folder)["test"]).with_columns(pl.lit(task).alias(TASK), *columns).fill_nan(None)
    return rows.drop_nulls([REFERENCE, VALUE]).select(*KEY, VALUE, LOW, HIGH)


def _count_instructions(study: Study, job: Job, board: str) -> float | None:
    """Count the instructions of one value on a board, in fixed point, and store them beside the job's result.

    None where they cannot be counted: a model without a fixed-point version, or a raw reading, which runs no model.
    """
    file = study.folder / ROWS / f"{job.key}.{board}.json"
    if not file.exists():
        instructions, calibrator = None, study.calibrator(job)
        if calibrator is not None and len(calibrator.golden.windows):
            try:
                report = measure_once(compile_calibrator(calibrator, Arithmetic.FIXED), find_board(board))
                instructions = report.instructions and report.instructions["max"]
            except ScareError:
                instructions = None
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(instructions), encoding="utf-8")
    return cast(float | None, load_json(file))
