"""A study is a grid of jobs on one task: each job fits one contender once, each result is a file, runs resume.

    folder/task.json        what is compared on which readings
    folder/data/*.parquet   the split readings, as every job reads them
    folder/rows/KEY.json    one finished job: facts, or the reason why not
    folder/rows/KEY.npy     its estimates for all test rows, NaN where it has none
    folder/rows/KEY.scare   what it fitted, if that is a calibrator

Jobs run where `archive/executor` has them run: here, in processes of their own, on a cluster that is sent the readings;
each is told names, never objects. Every comparison, tuning and reproduction is a grid handed to `run_study` and a table
made by `table`.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.archive.executor import LOCAL, Arguments, Executor, Here, open_executor, run_all
from scare.archive.sending import keep, pack, work_on_sent
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, Readings
from scare.data.split import Split
from scare.errors import DataError, ScareError, UsageError
from scare.experiments.compiling import forget_compiled, keep_compiled
from scare.experiments.contenders import Job, fit_contender
from scare.experiments.task import TASK, Described, describe, read_task
from scare.files import replacing
from scare.records import load_json, read_json

ROWS = "rows"  # the folder of results
PARTS = ("train", "validation", "test")
Progress = Callable[[int, int, str], None]  # done, total, what was done


@dataclass(frozen=True)
class Study:
    """Jobs on a task, and the folder their results are in. `settings` change the training of every network."""

    folder: Path
    jobs: tuple[Job, ...]
    settings: tuple[tuple[str, Any], ...] = ()

    def result(self, job: Job) -> dict[str, Any] | None:
        """What a finished job found, or None."""
        path = self.folder / ROWS / f"{job.key}.json"
        return read_json(path, dict[str, Any]) if path.exists() else None

    def estimates(self, job: Job) -> np.ndarray:
        """A finished job's values for all test rows, NaN where it has none."""
        return np.load(self.folder / ROWS / f"{job.key}.npy", allow_pickle=False)

    def calibrator(self, job: Job) -> Calibrator | None:
        """What a finished job fitted; None if it failed, or fitted trees, which have no file without code in it."""
        path = self.folder / ROWS / f"{job.key}.scare"
        return Calibrator.load(path) if path.exists() else None

    def open(self) -> list[Job]:
        """Jobs without a result; one that failed is tried again."""
        return [job for job in self.jobs if (self.result(job) or {"failed": ""}).get("failed") is not None]


Work = tuple[Study, Job]


def prepare(
    folder: Path, split: Split, jobs: Sequence[Job], settings: dict[str, Any], facts: dict[str, Any] | None = None
) -> Study:
    """A study on a split, new or to be resumed; a folder with another task is refused.

    `facts`, and which devices the split left out, are told by the task and by every calibrator that is fitted to it.
    """
    data = folder / "data"
    task = {"how": split.how, "notes": list(split.notes), "settings": settings, "readings": describe(split)}
    told = (facts or {}) | ({"left_out": list(split.left_out)} if split.left_out else {})
    task |= {"facts": told} if told else {}
    known = folder / TASK
    if known.exists() and load_json(known) != json.loads(json.dumps(task)):
        raise UsageError(f"{folder} holds a study of other data or settings; choose another --out")
    for part, readings in split.parts.items():
        for index, one in enumerate(readings):
            with replacing(data / f"{part}-{index}.parquet") as temporary:
                one.frame.write_parquet(temporary)
    with replacing(known) as temporary:
        temporary.write_text(json.dumps(task, indent=1), encoding="utf-8")
    return Study(folder, tuple(jobs), tuple(settings.items()))


def run_study(study: Study, processes: int, progress: Progress, where: str = LOCAL) -> None:
    """Run the open jobs, `processes` at a time; Ctrl-C ends those that run and keeps what is finished."""
    todo, total = study.open(), len(study.jobs)
    with open_workers(where, processes, study.folder) as executor:
        finished = run_jobs([(study, job) for job in todo], executor)
        for done, (_, job) in enumerate(finished, start=total - len(todo) + 1):
            progress(done, total, job.key)


@contextmanager
def open_workers(where: str, processes: int, out: Path) -> Iterator[Executor]:
    """An executor of fits that are kept in `out`; one at a time on this computer needs no other process."""
    keep_compiled()
    if where == LOCAL and processes == 1:
        yield Here()
        return
    with open_executor(where, processes, out) as executor:
        yield executor


def run_jobs(todo: Iterable[Work], executor: Executor) -> Iterator[Work]:
    """Run jobs of one study or several, begun in this order; each is told when it is done.

    The next job is asked for when there is room for it, so it may depend on what others have found.
    """
    running: dict[int, Work] = {}
    packed = cache(lambda folder: pack(folder, _readings(folder)))

    def calls() -> Iterator[Arguments]:
        for study, job in todo:
            where = packed(study.folder) if executor.shared else str(study.folder)
            call = where, asdict(job), dict(study.settings)
            running[id(call)] = study, job
            yield call

    for ended in run_all(executor, _run_sent if executor.shared else run_job, calls()):
        study, job = running.pop(id(ended.arguments))
        if ended.lost:
            _write_row(study.folder / ROWS, job, {"failed": ended.lost})
        elif executor.shared:
            keep(ended.result, study.folder / ROWS)
        yield study, job


def _readings(folder: Path) -> list[Path]:
    return [folder / TASK, *(folder / "data").iterdir()]


def _run_sent(packed: bytes, described: dict[str, Any], settings: dict[str, Any]) -> dict[str, bytes]:
    """A job on readings that were sent: the files of its row."""
    keep_compiled()
    return work_on_sent(packed, run_job, described, settings)


def run_job(folder: str, described: dict[str, Any], settings: dict[str, Any], results: str = "") -> None:
    """Fit one contender and write what it found to `results`; whatever stops it becomes its row."""
    job, begun, rows = Job(**described), time.perf_counter(), Path(results or Path(folder) / ROWS)
    try:
        parts = read_parts(Path(folder))
        predictor, facts = fit_contender(job, parts["train"], parts["validation"], settings)
        fitted = time.perf_counter() - begun
        columns = [predictor.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in parts["test"]]
        if not np.isfinite(np.concatenate(columns)).any():
            raise DataError("it gives no value for any test row: no whole window, or all readings outside its range")
        with replacing(rows / f"{job.key}.npy") as temporary:
            np.save(temporary, np.concatenate(columns).astype(np.float64), allow_pickle=False)
        if isinstance(predictor, Calibrator):
            predictor.with_facts(**read_task(Path(folder)).facts).save(rows / f"{job.key}.scare")
        result = {**facts, "fit_seconds": fitted, "failed": None}
    except ScareError as error:
        result = {"failed": str(error)}
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    _write_row(rows, job, result)
    forget_compiled()


def _write_row(rows: Path, job: Job, result: dict[str, Any]) -> None:
    with replacing(rows / f"{job.key}.json") as temporary:
        said = {name: value for name, value in asdict(job).items() if value is not None}
        temporary.write_text(json.dumps({**said, **result}, indent=1, default=str), encoding="utf-8")


def read_parts(folder: Path) -> dict[str, list[Readings]]:
    """The split readings of a study."""
    readings = read_task(folder).readings
    return {part: [_read(folder, part, number, one) for number, one in enumerate(readings[part])] for part in PARTS}


def _read(folder: Path, part: str, number: int, found: Described) -> Readings:
    frame = pl.read_parquet(folder / "data" / f"{part}-{number}.parquet")
    return Readings(found.device, frame, found.channels, found.reference, found.site)
