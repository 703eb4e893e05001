"""A reproduction: the paper's experiments on one set of studies, in one folder, resumed when run again.

    folder/protocol.json            what is run, with which versions
    folder/tasks/PLACE-POLLUTANT/   a study (`scare.experiments.study`) of all methods of the experiments
    folder/measured/KEY.json        one measurement that is not a fit

Experiments share the studies, so nothing is fitted twice. Fits are made in an order that leaves complete rows when a
run is stopped early: cheap methods first; a method's rates on every task, then its further seeds (`protocol`). The
expected duration is estimated from earlier fits of the same method in the folder or, before there are any, from the
protocol's speeds.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import count, product
from math import log
from pathlib import Path
from typing import Any

import numpy as np

import scare
from benchmarks.reproduce.protocol import TRAINED, Protocol, best_trial, model_of, rate_trials, scored_jobs, seeds_of
from benchmarks.reproduce.tasks import ReadingsSource
from scare.executor import Executor
from scare.experiments.comparison_table import Row, make_table
from scare.experiments.study import NETWORKS, Job, Progress, Study, Work, prepare, recipe_of, run_jobs
from scare.experiments.study_task import PARTS, read_task
from scare.files import replacing
from scare.schema import read_json

TaskKey = tuple[str, str]  # place, pollutant
PACKAGES = ("jax", "numpy", "equinox", "optax")
START_SECONDS = 8.0  # to start a process and to compile
SLOW = 1000.0  # windows per second, where the protocol gives no speed
FORWARD = 3  # windows that are scored in the time of training on one


@dataclass(frozen=True)
class Reproduction:
    """A protocol, the readings it runs on and the folder of its results."""

    folder: Path
    protocol: Protocol
    source: ReadingsSource

    @property
    def cells(self) -> list[TaskKey]:
        """Place and pollutant of every task."""
        return list(product(self.source.places, self.source.pollutants))

    @property
    def notes(self) -> list[str]:
        """The first lines of every output: where the readings come from, and how the networks were trained."""
        cells = f"places {len(self.source.places)}, pollutants {len(self.source.pollutants)}"
        lines = [f"Data: {self.source.note}.", f"Training: {cells}, {self.protocol.training}."]
        quick = "Quick: this only shows that everything runs; the numbers mean nothing about accuracy."
        return [*lines, quick] if self.protocol.quick else lines

    @cached_property
    def studies(self) -> dict[TaskKey, Study]:
        """A study without jobs for every task; the readings are simulated or read here, once."""
        studies = {}
        for cell in self.cells:
            folder = self.folder / "tasks" / "-".join(cell).replace(" ", "-")
            settings, facts = dict(self.protocol.settings), dict(self.source.facts)
            studies[cell] = prepare(folder, self.source.split(*cell), [], settings, facts)
        return studies

    def study(self, cell: TaskKey, methods: Sequence[str]) -> Study:
        """The study of a task with these methods only, each at its best rate."""
        study, protocol = self.studies[cell], self.protocol
        jobs = [job for name in dict.fromkeys(methods) for job in scored_jobs(study, name, protocol)]
        return replace(study, jobs=tuple(jobs))

    def first_job(self, method: str) -> tuple[Study, Job]:
        """Find a method's job with the first seed on the first task, and the study that it belongs to."""
        study = self.studies[self.cells[0]]
        return study, scored_jobs(study, method, self.protocol)[0]

    def tables(self, methods: Sequence[str]) -> dict[TaskKey, dict[str, Row]]:
        """The scores of these methods on each task, on the same rows."""
        found = {cell: make_table(self.study(cell, methods)) for cell in self.cells}
        return {cell: {row.method: row for row in rows} for cell, rows in found.items()}

    def failures(self, methods: Sequence[str]) -> list[str]:
        """A line for every fit that failed."""
        studies = {cell: self.study(cell, methods) for cell in self.cells}
        found = [(cell, job, study.result(job)) for cell, study in studies.items() for job in study.jobs]
        return [
            f"No score: {'-'.join(cell)} {job.key}: {result['failed']}"
            for cell, job, result in found
            if result and result["failed"] is not None
        ]

    def unfinished(self, methods: Sequence[str]) -> dict[str, list[str]]:
        """The tasks on which methods still have fits to be made, by method."""
        missing: dict[str, list[str]] = {}
        for cell in self.cells:
            study = self.study(cell, methods)
            for name in dict.fromkeys(job.method for job in study.jobs if study.result(job) is None):
                missing.setdefault(name, []).append("-".join(cell))
        return missing

    def remember(self, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the measurement of this name; measure it if there is none yet."""
        path = self.folder / "measured" / f"{key}.json"
        if not path.exists():
            found = measure()
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return read_json(path, dict[str, Any])

    @property
    def origin(self) -> dict[str, Any]:
        """Protocol, places, pollutants and versions, for JSON."""
        asked = {name: value for name, value in self.protocol.as_dict().items() if name != "cities"}
        own = {"places": self.source.places, "pollutants": self.source.pollutants}
        return {"notes": self.notes, "protocol": asked | own, "versions": versions()}

    def write_protocol(self) -> None:
        """Write protocol.json next to the results."""
        with replacing(self.folder / "protocol.json") as temporary:
            temporary.write_text(json.dumps(self.origin, indent=1), encoding="utf-8")


def methods_to_fit(protocol: Protocol, experiments: Iterable[str]) -> list[str]:
    """List the methods that must be fitted for these experiments; the board needs none."""
    lists: Mapping[str, Sequence[str]] = {
        **{name: getattr(protocol, name) for name in TRAINED},
        "checklist": checklist_methods(protocol),
        "board": (),
    }
    return list(dict.fromkeys(name for experiment in experiments for name in lists[experiment]))


def checklist_methods(protocol: Protocol) -> list[str]:
    """List the methods of the checklist: the networks of the main table."""
    return [name for name in protocol.main if name in NETWORKS]


def versions() -> dict[str, str]:
    """The versions of this package and of those that its numbers depend on."""
    return {"scare": scare.__version__, **{name: version(name) for name in PACKAGES}}


def fit_all(reproduction: Reproduction, methods: Sequence[str], executor: Executor, progress: Progress) -> None:
    """Make every fit that is missing, the cheapest method first."""
    total, numbers = len(list(missing_fits(reproduction, methods))), count(1)
    names = sorted(dict.fromkeys(methods), key=lambda one: expected_seconds(reproduction, one))
    undecided = list(names)  # methods whose best rate is not known yet: the first generator removes from it
    for work in (_rates_and_seeds(reproduction, names, undecided), _seeds(reproduction, undecided)):
        for study, job in run_jobs((one for one in work if not _done(*one)), executor):
            progress(next(numbers), total, f"{study.folder.name} {job.key}")


def _rates_and_seeds(reproduction: Reproduction, names: Sequence[str], undecided: list[str]) -> Iterator[Work]:
    """Yield the rate trials of each method, and the further seeds of a method once its rate is decided on all tasks.

    No worker waits for the last trials of one method before those of the next begin. A method is removed from
    `undecided` when its seeds are yielded.
    """
    protocol, studies = reproduction.protocol, reproduction.studies.values()
    for number, name in enumerate(names, start=1):
        yield from ((study, job) for study in studies for job in rate_trials(name, protocol))
        for one in [one for one in names[:number] if one in undecided]:
            if all(best_trial(study, one, protocol) for study in studies):
                undecided.remove(one)
                yield from _seeds(reproduction, [one])


def _seeds(reproduction: Reproduction, names: Iterable[str]) -> Iterator[Work]:
    """Yield the jobs of every seed at the best rate, for tasks where that is decided."""
    for name, study in product(names, reproduction.studies.values()):
        if trial := best_trial(study, name, reproduction.protocol):
            yield from ((study, job) for job in seeds_of(trial, reproduction.protocol))


def missing_fits(reproduction: Reproduction, methods: Sequence[str]) -> Iterator[Work]:
    """Yield every fit still to be made; seeds whose rate is not decided yet are listed at the first rate."""
    protocol = reproduction.protocol
    for name in dict.fromkeys(methods):
        for study in reproduction.studies.values():
            trial = best_trial(study, name, protocol)
            later = seeds_of(trial or rate_trials(name, protocol)[0], protocol)[1:]
            yield from ((study, job) for job in (*rate_trials(name, protocol), *later) if not _done(study, job))


def expected_minutes(reproduction: Reproduction, methods: Sequence[str]) -> float:
    """Estimate the minutes of the missing fits, one after the other on one core."""
    return sum(expected_seconds(reproduction, job.method) for _, job in missing_fits(reproduction, methods)) / 60


def expected_seconds(reproduction: Reproduction, method: str) -> float:
    """Estimate the seconds of a fit: the median of those made, or by the protocol's speeds."""
    tried = rate_trials(method, reproduction.protocol)
    made = [study.result(job) for study in reproduction.studies.values() for job in tried]
    seconds = [found["fit_seconds"] for found in made if found and not found["failed"]]
    return float(np.median(seconds)) if seconds else _by_speed(reproduction, method)


def _done(study: Study, job: Job) -> bool:
    """Whether a job has a result and did not fail."""
    return (study.result(job) or {"failed": ""})["failed"] is None


def _by_speed(reproduction: Reproduction, method: str) -> float:
    """Estimate the seconds of a fit from the protocol's speeds, at the window length nearest to its own."""
    if method not in NETWORKS:
        return START_SECONDS
    protocol = reproduction.protocol
    settings = recipe_of(method, protocol.window, 0, protocol.settings).settings
    readings = read_task(next(iter(reproduction.studies.values())).folder).readings
    rows = {part: sum(one.rows for one in readings[part]) for part in PARTS}
    rounds = settings.rounds(rows["train"])  # steps of each; after each, the validation rows are scored
    scored = len(rounds) * rows["validation"] + rows["test"]
    speeds = protocol.speeds
    nearest = speeds[min(speeds, key=lambda length: abs(log(length / protocol.window)))] if speeds else {}
    speed = nearest.get(model_of(method), nearest.get("scare", SLOW))  # windows per second in training
    return START_SECONDS + (sum(rounds) * settings.batch + scored / FORWARD) / speed
