"""A study is a grid of jobs on one task: each job fits one contender once, each result is a file, runs resume.

    folder/task.json        what is compared on which readings
    folder/data/*.parquet   the split readings, as every job reads them
    folder/rows/KEY.json    one finished job: facts, or the reason why not
    folder/rows/KEY.npy     its estimates for all test rows, NaN where it has none
    folder/rows/KEY.scare   what it fitted, if that is a calibrator

Jobs run in this process, or at the same time in processes of their own: each is told names, never objects, and is
deaf to Ctrl-C. Every comparison, tuning and reproduction is a grid handed to `run_study` and a table made by `table`.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, Readings
from scare.data.split import Split
from scare.errors import DataError, ScareError, UsageError
from scare.experiments.contenders import Job, fit_contender
from scare.experiments.processes import death, end, forget_compiled, keep_compiled, start
from scare.experiments.task import TASK, Described, describe, read_task
from scare.files import replacing
from scare.records import load_json, read_json

PARTS = ("train", "validation", "test")
COMPILED_FOR = 20  # jobs, before this process forgets what it has compiled for them
Progress = Callable[[int, int, str], None]  # done, total, what was done


@dataclass(frozen=True)
class Study:
    """Jobs on a task, and the folder their results are in. `settings` change the training of every network."""

    folder: Path
    jobs: tuple[Job, ...]
    settings: tuple[tuple[str, Any], ...] = ()

    def result(self, job: Job) -> dict[str, Any] | None:
        """What a finished job found, or None."""
        path = self.folder / "rows" / f"{job.key}.json"
        return read_json(path, dict[str, Any]) if path.exists() else None

    def estimates(self, job: Job) -> np.ndarray:
        """A finished job's values for all test rows, NaN where it has none."""
        return np.load(self.folder / "rows" / f"{job.key}.npy", allow_pickle=False)

    def calibrator(self, job: Job) -> Calibrator:
        """What a finished job fitted."""
        return Calibrator.load(self.folder / "rows" / f"{job.key}.scare")

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


def run_study(study: Study, processes: int, progress: Progress) -> None:
    """Run the open jobs, `processes` at a time; Ctrl-C ends those that run and keeps what is finished."""
    todo, total = study.open(), len(study.jobs)
    finished = run_jobs([(study, job) for job in todo], processes)
    for done, (_, job) in enumerate(finished, start=total - len(todo) + 1):
        progress(done, total, job.key)


def run_jobs(todo: Sequence[Work], processes: int) -> Iterator[Work]:
    """Run jobs of one study or several, in this order, `processes` at a time; each is told when it is done."""
    keep_compiled()
    return _run_together(todo, processes) if processes > 1 else _run_alone(todo)


def _run_alone(todo: Sequence[Work]) -> Iterator[Work]:
    for number, (study, job) in enumerate(todo, start=1):
        run_job(str(study.folder), asdict(job), dict(study.settings))
        if number % COMPILED_FOR == 0:
            forget_compiled()
        yield study, job


def _run_together(todo: Sequence[Work], processes: int) -> Iterator[Work]:
    """A process for each job, a new one as soon as one ends; none is left when the caller leaves."""
    waiting, running = list(reversed(todo)), list[tuple[Work, SpawnProcess]]()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                study, job = waiting.pop()
                process = start(run_job, str(study.folder), asdict(job), dict(study.settings))
                running.append(((study, job), process))
            wait([process.sentinel for _, process in running])
            for ended in [one for one in running if one[1].exitcode is not None]:
                running.remove(ended)
                (study, job), process = ended
                if reason := death(process):
                    _write_row(study.folder, job, {"failed": reason})
                yield study, job
    finally:
        end(process for _, process in running)


def run_job(folder: str, described: dict[str, Any], settings: dict[str, Any]) -> None:
    """Fit one contender and write what it found; whatever stops it becomes its row."""
    job, begun = Job(**described), time.perf_counter()
    try:
        parts = read_parts(Path(folder))
        predictor, facts = fit_contender(job, parts["train"], parts["validation"], settings)
        fitted = time.perf_counter() - begun
        columns = [predictor.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in parts["test"]]
        if not np.isfinite(np.concatenate(columns)).any():
            raise DataError("it gives no value for any test row: no whole window, or all readings outside its range")
        with replacing(Path(folder) / "rows" / f"{job.key}.npy") as temporary:
            np.save(temporary, np.concatenate(columns).astype(np.float64), allow_pickle=False)
        if isinstance(predictor, Calibrator):
            predictor.with_facts(**read_task(Path(folder)).facts).save(Path(folder) / "rows" / f"{job.key}.scare")
        result = {**facts, "fit_seconds": fitted, "failed": None}
    except ScareError as error:
        result = {"failed": str(error)}
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    _write_row(Path(folder), job, result)


def _write_row(folder: Path, job: Job, result: dict[str, Any]) -> None:
    with replacing(folder / "rows" / f"{job.key}.json") as temporary:
        said = {name: value for name, value in asdict(job).items() if value is not None}
        temporary.write_text(json.dumps({**said, **result}, indent=1, default=str), encoding="utf-8")


def read_parts(folder: Path) -> dict[str, list[Readings]]:
    """The split readings of a study."""
    readings = read_task(folder).readings
    return {part: [_read(folder, part, number, one) for number, one in enumerate(readings[part])] for part in PARTS}


def _read(folder: Path, part: str, number: int, found: Described) -> Readings:
    frame = pl.read_parquet(folder / "data" / f"{part}-{number}.parquet")
    return Readings(found.device, frame, found.channels, found.reference, found.site)
