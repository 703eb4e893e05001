"""A study is a grid of jobs on one task: each job fits one method once, each result is a file, runs resume.

    folder/task.json        what is compared on which readings
    folder/data/*.parquet   the split readings, as every job reads them
    folder/rows/KEY.json    one finished job: facts, or the reason why it failed
    folder/rows/KEY.npy     its estimates for all test rows, NaN where it has none
    folder/rows/KEY.interval.npy   low and high of these rows, if it gives them
    folder/rows/KEY.scare   the calibrator that it fitted, if it is one

A method is a network with its recipe, a baseline, a published correction, or a function that an installed package
offers as an entry point of the group `scare.methods`: it takes training and validation readings and the window, and
returns a `Predictor`. Jobs run on a `scare.executor`: in this process, in processes of their own, or on a cluster that
is sent the readings; each is given plain values, never objects. Every comparison and reproduction is a grid for
`run_study` and a table made by `comparison_table`.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.baselines import MODELS
from scare.baselines.classical import BASELINES, UNFITTED, Predictor
from scare.board.measure import BoardBudget
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.data.readings import CALIBRATED, HIGH, LOW, REFERENCE, Readings
from scare.data.split import Split
from scare.errors import DataError, ScareError, UsageError
from scare.executor import (
    LOCAL,
    Arguments,
    Executor,
    InProcess,
    open_executor,
    pack,
    run_all,
    run_on_packed,
    write_files,
)
from scare.experiments.jax_cache import forget_compiled, keep_compiled
from scare.experiments.study_task import TASK, fingerprint, read_parts, read_task, upgrade_row
from scare.files import replacing
from scare.models import ABLATION
from scare.schema import load_json, read_json
from scare.scorecard.accuracy import Accuracy, measure, reading_changes, share_rows
from scare.training.data import prepare_inputs
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.words import suggestion

PAPER, THREE = "scare-paper", "scare-3"  # SCARE with the paper's preset; the mean of three SCARE networks
BY_PAPER = "-paper"  # suffix of the name of a network that is trained with the paper's preset
NO_REFIT = "-no-refit"  # suffix of the name of a baseline that is fitted to training alone
EXPERIMENTS = {f"exp-{number}": model for number, model in ABLATION.items()}  # the paper's ablation, with its preset
USUAL = (*MODELS, PAPER, THREE)  # the networks in `all`
NETWORKS = (*USUAL, *(f"{name}{BY_PAPER}" for name in MODELS if name != "scare"), *EXPERIMENTS)
METHODS = "scare.methods"  # the group of entry points
ROWS = "rows"  # the folder of results
Progress = Callable[[int, int, str], None]  # done, total, key of the job


@dataclass(frozen=True)
class Job:
    """One method with one window and one seed; `rate`, if given, replaces its recipe's learning rate."""

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


@dataclass(frozen=True)
class Study:
    """Jobs on a task, and the folder of their results. `settings` change every network, as `recipe_of` says."""

    folder: Path
    jobs: tuple[Job, ...]
    settings: tuple[tuple[str, Any], ...] = ()

    def result(self, job: Job) -> dict[str, Any] | None:
        """Return the row of a finished job, or None."""
        path = self.folder / ROWS / f"{job.key}.json"
        return upgrade_row(read_json(path, dict[str, Any])) if path.exists() else None

    def estimates(self, job: Job) -> np.ndarray:
        """Return a finished job's values for all test rows, NaN where it has none."""
        return np.load(self.folder / ROWS / f"{job.key}.npy", allow_pickle=False)

    def interval(self, job: Job) -> np.ndarray | None:
        """Return low and high of a finished job's values [rows, 2], NaN where there is none; None without intervals."""
        path = self.folder / ROWS / f"{job.key}.interval.npy"
        return np.load(path, allow_pickle=False) if path.exists() else None

    def calibrator(self, job: Job) -> Calibrator | None:
        """Return a finished job's calibrator; None if it failed or fitted trees, which a `.scare` file cannot hold."""
        path = self.folder / ROWS / f"{job.key}.scare"
        return Calibrator.load(path) if path.exists() else None

    def unfinished(self) -> list[Job]:
        """Return the jobs without a result, and those that failed, which are tried again."""
        finished = set(self.finished())
        return [job for job in self.jobs if job not in finished]

    def finished(self) -> list[Job]:
        """Return the jobs that have a result and did not fail."""
        results = ((job, self.result(job)) for job in self.jobs)
        return [job for job, result in results if result is not None and result.get("failed") is None]


Work = tuple[Study, Job]  # a job, and the study that it belongs to


def installed_methods() -> dict[str, EntryPoint]:
    """Find the entry points of the methods that other packages offer, by name."""
    return {entry.name: entry for entry in entry_points(group=METHODS)}


def known_methods() -> list[str]:
    """Return the names of all methods, those of other packages last."""
    fitted = [f"{name}{NO_REFIT}" for name in BASELINES if name not in UNFITTED]
    return [*NETWORKS, *BASELINES, *fitted, *installed_methods()]


def choose(names: Sequence[str]) -> list[str]:
    """Check the names of methods; `all` stands for every method in its usual form.

    `all` leaves out the rivals with the paper's preset, and the paper's ablation.

    >>> choose(["scare", "linear"])
    ['scare', 'linear']
    """
    known = known_methods()
    for name in names:
        if name not in (*known, "all"):
            raise UsageError(f"no model called '{name}'{suggestion(name, known)}")
    return [*USUAL, *BASELINES] if "all" in names else list(dict.fromkeys(names))


def grid(names: Sequence[str], windows: Sequence[int], seeds: int) -> list[Job]:
    """List a job for every name and window, and for every seed of a network.

    Methods without randomness run once, and so does the mean of three networks, which uses several seeds by itself.
    """
    jobs = []
    for window in windows:
        for name in names:
            runs = seeds if name in NETWORKS and name != THREE else 1
            jobs += [Job(name, window, seed) for seed in range(runs)]
    return jobs


def recipe_of(name: str, window: int, seed: int, settings: Mapping[str, Any]) -> Recipe:
    """Make a network's recipe: the default preset or, as its name says, the paper's, three members, or an ablation.

    `settings` are those of training; its `selection` are rules of model selection, its `budget` limits of a board.

    >>> recipe_of("tesla-paper", 360, 0, {}).scaling, recipe_of("exp-2", 360, 0, {}).model == ABLATION[2]
    ('constant', True)
    """
    preset = "paper" if name in EXPERIMENTS or name.endswith(BY_PAPER) else "default"
    model = "scare" if name in EXPERIMENTS or name == THREE else name.removesuffix(BY_PAPER)
    members = {"members": 3} if name == THREE else {}
    training = {key: value for key, value in settings.items() if key not in ("selection", "budget")}
    recipe = Recipe.preset(preset, window, model, **{**training, **members, "seed": seed})
    rules = replace(recipe.rules, **settings.get("selection", {}))
    budget = BoardBudget(**settings["budget"]) if "budget" in settings else None
    return replace(recipe, name=preset, model=EXPERIMENTS.get(name, recipe.model), rules=rules, budget=budget)


def fit_method(
    job: Job, train: Sequence[Readings], validation: Sequence[Readings], settings: Mapping[str, Any]
) -> tuple[Predictor, dict[str, Any]]:
    """Fit the method of a job; returns it with facts: parameters, bytes and, for a network, training speed."""
    if job.method in installed_methods():
        fit_installed = installed_methods()[job.method].load()
        method: Predictor = fit_installed(train, validation, job.window)
        return method, {name: method.facts.get(name) for name in ("parameters", "bytes")}
    if job.method not in NETWORKS:
        inputs, target = prepare_inputs(train, validation, Recipe.preset("default", job.window), with_effects=False)
        baseline = job.method.removesuffix(NO_REFIT)
        predictor = BASELINES[baseline](train, validation, inputs, target, refit=baseline == job.method)
        return predictor, {name: predictor.facts.get(name) for name in ("parameters", "bytes")}
    speeds: list[float] = []  # windows per second, as training reports its progress
    job_settings = {**settings, "rate": job.rate} if job.rate else settings
    recipe = recipe_of(job.method, job.window, job.seed, job_settings)
    calibrator = fit(train, validation, recipe, lambda state: speeds.append(state.windows_per_second))
    if calibrator.facts.get("interrupted"):
        raise KeyboardInterrupt  # an interrupted training is not a result
    facts = {
        "parameters": calibrator.facts["parameters"],
        "bytes": count(calibrator.plan).weight_bytes,
        "windows_per_second": float(np.median(speeds)),
        **{name: calibrator.facts[name] for name in ("validation_rmse", "averaged") if name in calibrator.facts},
    }
    return calibrator, facts


def compare(calibrators: Mapping[str, Predictor], readings: Sequence[Readings]) -> dict[str, Accuracy]:
    """Compute the accuracy of each calibrator over the rows for which all of them and the reference have a value."""
    reference = np.concatenate([box.targets for box in readings])
    changes = np.concatenate([reading_changes(box) for box in readings])
    estimates = {
        name: _column([calibrator.predict(box) for box in readings], CALIBRATED)
        for name, calibrator in calibrators.items()
    }
    shared, _ = share_rows(reference, estimates)
    return {name: measure(values[shared], reference[shared], changes[shared]) for name, values in estimates.items()}


def _column(tables: Sequence[pl.DataFrame], name: str) -> np.ndarray:
    """Return a column of the predicted tables, one after the other [rows], NaN where there is no value."""
    return np.concatenate([table[name].fill_null(np.nan).to_numpy() for table in tables])


def prepare(
    folder: Path, split: Split, jobs: Sequence[Job], settings: dict[str, Any], facts: dict[str, Any] | None = None
) -> Study:
    """Begin a study on a split, or resume it; a folder with another task is an error.

    `facts`, and which devices the split left out, are recorded in the task and in every calibrator fitted to it.
    """
    task = {"how": split.description, "notes": list(split.notes), "settings": settings, "readings": fingerprint(split)}
    recorded = (facts or {}) | ({"left_out": list(split.left_out)} if split.left_out else {})
    task |= {"facts": recorded} if recorded else {}
    path = folder / TASK
    as_in_a_file = json.loads(json.dumps(task))  # tuples become lists
    if path.exists() and load_json(path) != as_in_a_file:
        raise UsageError(f"{folder} holds a study of other data or settings; choose another --out")
    for part, readings in split.parts.items():
        for index, box in enumerate(readings):
            with replacing(folder / "data" / f"{part}-{index}.parquet") as temporary:
                box.frame.write_parquet(temporary)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(task, indent=1), encoding="utf-8")
    return Study(folder, tuple(jobs), tuple(settings.items()))


def run_study(study: Study, processes: int, progress: Progress, where: str = LOCAL) -> None:
    """Run the unfinished jobs, `processes` at a time; Ctrl-C stops running jobs and keeps finished ones."""
    unfinished, total = study.unfinished(), len(study.jobs)
    with open_workers(where, processes, study.folder) as executor:
        ended = run_jobs([(study, job) for job in unfinished], executor)
        for done, (_, job) in enumerate(ended, start=total - len(unfinished) + 1):
            progress(done, total, job.key)


@contextmanager
def open_workers(where: str, processes: int, out: Path) -> Iterator[Executor]:
    """Open the executor named `where` for fits whose results are kept in `out`.

    One fit at a time on this computer needs no process of its own.
    """
    keep_compiled()
    if where == LOCAL and processes == 1:
        yield InProcess()
        return
    with open_executor(where, processes, out) as executor:
        yield executor


def run_jobs(todo: Iterable[Work], executor: Executor) -> Iterator[Work]:
    """Run jobs of one study or several, started in this order; yields each after its result is written.

    The next job is taken from `todo` when a worker is free, so it may depend on the results of others.
    """
    running: dict[int, Work] = {}  # by id of the arguments, which are not hashable
    # A cluster is sent the task and the readings of a study, which are packed once.
    packed = cache(lambda folder: pack(folder, [folder / TASK, *(folder / "data").iterdir()]))

    def calls() -> Iterator[Arguments]:
        for study, job in todo:
            source = packed(study.folder) if executor.shared else str(study.folder)
            arguments = (source, asdict(job), dict(study.settings))
            running[id(arguments)] = study, job  # `run_all` yields the same object when the call has ended
            yield arguments

    for ended in run_all(executor, _run_sent_job if executor.shared else run_job, calls()):
        study, job = running.pop(id(ended.arguments))
        if ended.lost:
            _write_row(study.folder / ROWS, job, {"failed": ended.lost})
        elif executor.shared:
            write_files(ended.result, study.folder / ROWS)
        yield study, job


def _run_sent_job(packed: bytes, job: dict[str, Any], settings: dict[str, Any]) -> dict[str, bytes]:
    """Like `run_job`, on a cluster: the readings are sent along, the files of the row are sent back."""
    keep_compiled()
    return run_on_packed(packed, run_job, job, settings)


def run_job(folder: str, job: dict[str, Any], settings: dict[str, Any], results: str = "") -> None:
    """Fit one method of the study in `folder` and write the files of its result; an exception becomes its `failed`.

    The files are written to the folder `results`, by default the study's own.
    """
    begun = time.perf_counter()
    current = Job(**job)
    row_folder = Path(results or Path(folder) / ROWS)
    try:
        parts = read_parts(Path(folder))
        predictor, facts = fit_method(current, parts["train"], parts["validation"], settings)
        fit_seconds = time.perf_counter() - begun
        test = parts["test"]
        # Another package's method must not see the references it is scored on.
        if current.method in installed_methods():
            test = [replace(box, frame=box.frame.drop(REFERENCE), reference=None) for box in test]
        tables = [predictor.predict(box) for box in test]
        estimates = _column(tables, CALIBRATED)
        if not np.isfinite(estimates).any():
            raise DataError(
                "it has no value for any test row, because there is no whole window or all readings are out of range"
            )
        with replacing(row_folder / f"{current.key}.npy") as temporary:
            np.save(temporary, estimates.astype(np.float64), allow_pickle=False)
        if all({LOW, HIGH} <= {*table.columns} and table[LOW].count() for table in tables):
            interval = np.column_stack([_column(tables, LOW), _column(tables, HIGH)])
            with replacing(row_folder / f"{current.key}.interval.npy") as temporary:
                np.save(temporary, interval.astype(np.float64), allow_pickle=False)
        if isinstance(predictor, Calibrator):
            predictor.with_facts(**read_task(Path(folder)).facts).save(row_folder / f"{current.key}.scare")
        result = {**facts, "fit_seconds": fit_seconds, "failed": None}
    except ScareError as error:
        result = {"failed": str(error)}
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    _write_row(row_folder, current, result)
    forget_compiled()  # what JAX compiled for a few hundred jobs would fill the memory of this process


def _write_row(row_folder: Path, job: Job, result: dict[str, Any]) -> None:
    """Write a job and its result to the folder of rows; the job is then done."""
    with replacing(row_folder / f"{job.key}.json") as temporary:
        known = {name: value for name, value in asdict(job).items() if value is not None}
        temporary.write_text(json.dumps({**known, **result}, indent=1, default=str), encoding="utf-8")


@dataclass(frozen=True)
class SharedRows:
    """The test rows of a study that all of its methods are scored on, with the estimates of every finished job.

    `estimates` are of all test rows [rows]; `shared`, bool [rows], says which are scored. `coverage` is the share of
    the fitted methods' rows that each job has a value for.
    """

    readings: tuple[Readings, ...]
    estimates: Mapping[Job, np.ndarray]
    shared: np.ndarray
    coverage: Mapping[Job, float]

    @staticmethod
    def load(study: Study) -> "SharedRows":
        """Load the rows and estimates of a study, as far as it is finished.

        A row is scored if every fitted method has a value for it; one that is not fitted, such as a published
        correction, takes rows away only if it has nearly all of them.
        """
        test = tuple(read_parts(study.folder)["test"])
        finished = study.finished()
        estimates = {job: study.estimates(job) for job in finished}
        reference = np.concatenate([box.targets for box in test])
        unfitted = {job for job in finished if job.method in UNFITTED}
        return SharedRows(test, estimates, *share_rows(reference, estimates, unfitted))

    @cached_property
    def reference(self) -> np.ndarray:
        """The reference at the rows scored."""
        return np.concatenate([box.targets for box in self.readings])[self.shared]

    @cached_property
    def times(self) -> np.ndarray:
        """Seconds since 1970 of the rows scored."""
        return np.concatenate([box.times for box in self.readings])[self.shared]

    @cached_property
    def changes(self) -> np.ndarray:
        """The change of the raw reading since the row before, at the rows scored; NaN if unknown."""
        return np.concatenate([reading_changes(box) for box in self.readings])[self.shared]

    def scored(self, job: Job) -> np.ndarray:
        """Return a job's estimates at the rows scored, NaN where it has none."""
        return self.estimates[job][self.shared]

    def of_method(self, name: str) -> list[np.ndarray]:
        """Like `scored`, for every finished job of a method: one array per seed."""
        return [self.scored(job) for job in self.estimates if job.method == name]
