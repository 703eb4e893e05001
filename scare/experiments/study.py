"""A study is a grid of jobs on one task: each job fits one method once, each result is a file, runs resume.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.baselines import MODELS
from scare.baselines.classical import BASELINES, UNFITTED, Predictor
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.data.readings import CALIBRATED, Readings
from scare.data.split import Split
from scare.errors import DataError, ScareError, UsageError
from scare.executor import LOCAL, Arguments, Executor, Here, keep, open_executor, pack, run_all, work_on_sent
from scare.experiments.jax_cache import forget_compiled, keep_compiled
from scare.experiments.task import TASK, Described, describe, read_task
from scare.files import replacing
from scare.models import ABLATION
from scare.records import load_json, read_json
from scare.scorecard.accuracy import Accuracy, measure, reading_changes, share_rows
from scare.training.data import prepare_inputs
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.words import suggestion

# The task of a study, `task.json`: which readings are compared, how they were split, what is told of the results.


# Methods by name: every network with its recipe, every baseline, every published correction.


PAPER, THREE = "scare-paper", "scare-3"  # ours by the paper's preset; the mean of three of ours
BY_PAPER = "-paper"  # of any network's name: by the paper's preset
EXPERIMENTS = {f"exp-{number}": model for number, model in ABLATION.items()}  # the paper's ablation, by its preset
USUAL = (*MODELS, PAPER, THREE)
NETWORKS = (*USUAL, *(f"{name}{BY_PAPER}" for name in MODELS if name != "scare"), *EXPERIMENTS)


@dataclass(frozen=True)
class Job:
    """One method with one window and one seed; `rate`, if given, takes the place of its recipe's."""

    method: str
    window: int
    seed: int
    rate: float | None = None

    @property
    def key(self) -> str:
        """The name of the job's files.

        >>> Job("tesla", 60, 0).key, Job("tesla", 60, 0, 0.003).key
        ('tesla-w60-s0', 'tesla-w60-s0-r0.003')
        """
        return f"{self.method}-w{self.window}-s{self.seed}" + (f"-r{self.rate:g}" if self.rate else "")


def choose(names: Sequence[str]) -> list[str]:
    """The methods meant by these names; `all` is everyone, but by the paper's preset only ours.

    >>> choose(["scare", "linear"])
    ['scare', 'linear']
    """
    known = [*NETWORKS, *BASELINES]
    for name in names:
        if name not in (*known, "all"):
            raise UsageError(f"no model called '{name}'{suggestion(name, known)}")
    return [*USUAL, *BASELINES] if "all" in names else list(dict.fromkeys(names))


def grid(names: Sequence[str], windows: Sequence[int], seeds: int) -> list[Job]:
    """A job for every name and window, and for a network every seed.

    What has no chance in it runs once, and so does what has several seeds in it.
    """
    return [
        Job(name, window, seed)
        for window in windows
        for name in names
        for seed in range(seeds if name in NETWORKS and name != THREE else 1)
    ]


def fit_method(
    job: Job, train: Sequence[Readings], validation: Sequence[Readings], settings: Mapping[str, Any]
) -> tuple[Predictor, dict[str, Any]]:
    """A fitted method, and its parameters, bytes and (of a network) speed in training."""
    if job.method in NETWORKS:
        return _fit_network(job, train, validation, {**settings, **({"rate": job.rate} if job.rate else {})})
    inputs, target = prepare_inputs(train, validation, Recipe.preset("default", job.window))
    predictor = BASELINES[job.method](train, validation, inputs, target)
    return predictor, {name: predictor.facts.get(name) for name in ("parameters", "bytes")}


def recipe_of(name: str, window: int, seed: int, settings: Mapping[str, Any]) -> Recipe:
    """The recipe of a network: the default preset or, as its name says, the paper's; three members; an ablation.

    >>> recipe_of("tesla-paper", 360, 0, {}).scaling, recipe_of("exp-2", 360, 0, {}).model == ABLATION[2]
    ('constant', True)
    """
    preset = "paper" if name in EXPERIMENTS or name.endswith(BY_PAPER) else "default"
    model = "scare" if name in EXPERIMENTS or name == THREE else name.removesuffix(BY_PAPER)
    members = {"members": 3} if name == THREE else {}
    recipe = Recipe.preset(preset, window, model, **{**settings, **members, "seed": seed})
    return replace(recipe, name=preset, model=EXPERIMENTS.get(name, recipe.model))


def _fit_network(
    job: Job, train: Sequence[Readings], validation: Sequence[Readings], settings: Mapping[str, Any]
) -> tuple[Predictor, dict[str, Any]]:
    speeds: list[float] = []
    recipe = recipe_of(job.method, job.window, job.seed, settings)
    calibrator = fit(train, validation, recipe, lambda state: speeds.append(state.windows_per_second))
    if calibrator.facts.get("interrupted"):
        raise KeyboardInterrupt  # half a training is no result
    facts = {
        "parameters": calibrator.facts["parameters"],
        "bytes": count(calibrator.plan).weight_bytes,
        "windows_per_second": float(np.median(speeds)),
        **{name: calibrator.facts[name] for name in ("validation_rmse", "averaged") if name in calibrator.facts},
    }
    return calibrator, facts


# A comparison scores calibrators on the same rows of the same readings.


def compare(calibrators: Mapping[str, Predictor], readings: Sequence[Readings]) -> dict[str, Accuracy]:
    """Accuracy of each calibrator over the rows where all of them, and the reference, have a value."""
    reference = np.concatenate([one.targets for one in readings])
    changes = np.concatenate([reading_changes(one) for one in readings])
    estimates = {name: _estimates(calibrator, readings) for name, calibrator in calibrators.items()}
    shared, _ = share_rows(reference, estimates)
    return {name: measure(values[shared], reference[shared], changes[shared]) for name, values in estimates.items()}


def _estimates(calibrator: Predictor, readings: Sequence[Readings]) -> np.ndarray:
    columns = [calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy() for one in readings]
    return np.concatenate(columns)


# What JAX compiles: kept for the next process that trains the same shapes, dropped where there is too much of it.


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
    """Fit one method and write what it found to `results`; whatever stops it becomes its row."""
    job, begun, rows = Job(**described), time.perf_counter(), Path(results or Path(folder) / ROWS)
    try:
        parts = read_parts(Path(folder))
        predictor, facts = fit_method(job, parts["train"], parts["validation"], settings)
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


# The test rows of a study that all of its methods are scored on (`scored_rows` says which they are).


@dataclass(frozen=True)
class SharedRows:
    """The test rows of a study, with the estimates [rows] of every finished job.

    `shared` says which rows are scored [rows], `coverage` what share of the fitted methods' rows each job has.
    """

    readings: tuple[Readings, ...]
    estimates: Mapping[Job, np.ndarray]
    shared: np.ndarray
    coverage: Mapping[Job, float]

    @staticmethod
    def of(study: Study) -> "SharedRows":
        """The rows of a study as far as it is finished."""
        test = tuple(read_parts(study.folder)["test"])
        finished = [job for job in study.jobs if (study.result(job) or {"failed": ""})["failed"] is None]
        estimates = {job: study.estimates(job) for job in finished}
        reference = np.concatenate([one.targets for one in test])
        spared = {job for job in finished if job.method in UNFITTED}
        return SharedRows(test, estimates, *share_rows(reference, estimates, spared))

    @cached_property
    def reference(self) -> np.ndarray:
        """The reference at the rows scored."""
        return np.concatenate([one.targets for one in self.readings])[self.shared]

    @cached_property
    def times(self) -> np.ndarray:
        """Seconds since 1970 of the rows scored."""
        return np.concatenate([one.times for one in self.readings])[self.shared]

    @cached_property
    def changes(self) -> np.ndarray:
        """The change of the raw reading since the row before, at the rows scored; NaN if unknown."""
        return np.concatenate([reading_changes(one) for one in self.readings])[self.shared]

    def scored(self, job: Job) -> np.ndarray:
        """A job's estimates at the rows scored, NaN where it has none."""
        return self.estimates[job][self.shared]

    def of_method(self, name: str) -> list[np.ndarray]:
        """The same of every finished job of a method, one array a seed."""
        return [self.scored(job) for job in self.estimates if job.method == name]
