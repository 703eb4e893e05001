"""A reproduction: the paper's experiments on one set of studies, in one folder, resumed when run again.

    folder/protocol.json            what is run, with which versions
    folder/tasks/PLACE-POLLUTANT/   a study (`study`) of every method that an experiment asks for
    folder/measured/KEY.json        one measurement that is not a fit

Experiments read what they need from the studies; what one has fitted, another does not fit again. `choice` says which
rate a network is trained with, `running` in which order the fits are made.
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
from benchmarks.reproduce.protocol import TRAINED, Protocol, chosen, jobs_of, model_of, seeds_of, trials
from benchmarks.reproduce.tasks import Source
from scare.executor import Executor
from scare.experiments.study import NETWORKS, PARTS, Job, Progress, Study, Work, prepare, recipe_of, run_jobs
from scare.experiments.table import Row, make_table
from scare.experiments.task import read_task
from scare.files import replacing
from scare.records import read_json

Cell = tuple[str, str]
PACKAGES = ("jax", "numpy", "equinox", "optax")


@dataclass(frozen=True)
class Reproduction:
    """A protocol, the readings it runs on and the folder of what it finds."""

    folder: Path
    protocol: Protocol
    source: Source

    @property
    def cells(self) -> list[Cell]:
        """Place and pollutant of every task."""
        return list(product(self.source.places, self.source.pollutants))

    @property
    def notes(self) -> list[str]:
        """What every output says first: whose readings these are, and how much they mean."""
        cells = f"places {len(self.source.places)}, pollutants {len(self.source.pollutants)}"
        lines = [f"Data: {self.source.note}.", f"Training: {cells}, {self.protocol.training}."]
        quick = "Quick: a try of the machinery; the numbers mean nothing about accuracy."
        return [*lines, quick] if self.protocol.quick else lines

    @cached_property
    def studies(self) -> dict[Cell, Study]:
        """A study without jobs for every task; readings are made or read here, once."""
        return {cell: self._prepare(cell) for cell in self.cells}

    def study(self, cell: Cell, methods: Sequence[str]) -> Study:
        """The study of a task with these methods alone, each with the rate that is decided."""
        study, protocol = self.studies[cell], self.protocol
        jobs = [job for name in dict.fromkeys(methods) for job in jobs_of(study, name, protocol)]
        return replace(study, jobs=tuple(jobs))

    def first_job(self, method: str) -> tuple[Study, Job]:
        """The first seed on the first task."""
        study = self.studies[self.cells[0]]
        return study, jobs_of(study, method, self.protocol)[0]

    def tables(self, methods: Sequence[str]) -> dict[Cell, dict[str, Row]]:
        """The scores of these methods on each task, on the same rows."""
        found = {cell: make_table(self.study(cell, methods)) for cell in self.cells}
        return {cell: {row.method: row for row in rows} for cell, rows in found.items()}

    def failures(self, methods: Sequence[str]) -> list[str]:
        """A sentence for every fit that failed."""
        studies = {cell: self.study(cell, methods) for cell in self.cells}
        found = [(cell, job, study.result(job)) for cell, study in studies.items() for job in study.jobs]
        return [
            f"No score: {'-'.join(cell)} {job.key}: {result['failed']}"
            for cell, job, result in found
            if result and result["failed"] is not None
        ]

    def unfinished(self, methods: Sequence[str]) -> dict[str, list[str]]:
        """The tasks on which a method has fits to be made, of each that has any."""
        missing: dict[str, list[str]] = {}
        for cell in self.cells:
            study = self.study(cell, methods)
            for name in dict.fromkeys(job.method for job in study.jobs if study.result(job) is None):
                missing.setdefault(name, []).append("-".join(cell))
        return missing

    def remember(self, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was measured under this name, now or before."""
        path = self.folder / "measured" / f"{key}.json"
        if not path.exists():
            found = measure()
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return read_json(path, dict[str, Any])

    @property
    def origin(self) -> dict[str, Any]:
        """What is run, on which places and pollutants, and with what, for JSON."""
        asked = {name: value for name, value in self.protocol.as_dict().items() if name != "cities"}
        own = {"places": self.source.places, "pollutants": self.source.pollutants}
        return {"notes": self.notes, "protocol": asked | own, "versions": versions()}

    def write_protocol(self) -> None:
        """Keep what is run beside what is found."""
        with replacing(self.folder / "protocol.json") as temporary:
            temporary.write_text(json.dumps(self.origin, indent=1), encoding="utf-8")

    def _prepare(self, cell: Cell) -> Study:
        name = "-".join(cell).replace(" ", "-")
        facts = dict(self.source.facts)
        return prepare(self.folder / "tasks" / name, self.source.split(*cell), [], dict(self.protocol.settings), facts)


def wanted(protocol: Protocol, experiments: Iterable[str]) -> list[str]:
    """The methods that these experiments need fitted."""
    lists: Mapping[str, Sequence[str]] = {
        **{name: getattr(protocol, name) for name in TRAINED},
        "checklist": graded(protocol),
        "board": (),
    }
    return list(dict.fromkeys(name for experiment in experiments for name in lists[experiment]))


def graded(protocol: Protocol) -> list[str]:
    """The methods of the checklist: the networks of the main table."""
    return [name for name in protocol.main if name in NETWORKS]


def versions() -> dict[str, str]:
    """The versions of what was at work."""
    return {"scare": scare.__version__, **{name: version(name) for name in PACKAGES}}


# The fits of a reproduction in an order in which a night that ends early leaves whole rows: cheap methods first.
#
# A method's rates are tried on every task, then its further seeds are fitted. The expected duration goes by what fits
# of the same method have taken in this folder or, before there are any, by the protocol's speeds.


START_SECONDS = 8.0  # of a process, and compiling
SLOW = 1000.0  # windows a second where the protocol says nothing
FORWARD = 3  # windows scored in the time in which one is learned from


def fit_all(reproduction: Reproduction, methods: Sequence[str], executor: Executor, progress: Progress) -> None:
    """Make every fit that is missing, the cheapest method first."""
    total, numbers = len(list(missing(reproduction, methods))), count(1)
    names = sorted(dict.fromkeys(methods), key=lambda one: expected_seconds(reproduction, one))
    undecided = list(names)
    for work in (_as_decided(reproduction, names, undecided), _seeds(reproduction, undecided)):
        for study, job in run_jobs((one for one in work if not _done(*one)), executor):
            progress(next(numbers), total, f"{study.folder.name} {job.key}")


def _as_decided(reproduction: Reproduction, names: Sequence[str], undecided: list[str]) -> Iterator[Work]:
    """The rates of each method, and the further seeds of those before it once its rates are decided everywhere.

    Nobody waits for the last trials of one method before those of the next begin. A method leaves `undecided`
    when its seeds are told.
    """
    protocol, studies = reproduction.protocol, reproduction.studies.values()
    for number, name in enumerate(names, start=1):
        yield from ((study, job) for study in studies for job in trials(name, protocol))
        for one in [one for one in names[:number] if one in undecided]:
            if all(chosen(study, one, protocol) for study in studies):
                undecided.remove(one)
                yield from _seeds(reproduction, [one])


def _seeds(reproduction: Reproduction, names: Iterable[str]) -> Iterator[Work]:
    """Every seed at the rate that was decided, where one was."""
    for name, study in product(names, reproduction.studies.values()):
        if trial := chosen(study, name, reproduction.protocol):
            yield from ((study, job) for job in seeds_of(trial, reproduction.protocol))


def missing(reproduction: Reproduction, methods: Sequence[str]) -> Iterator[Work]:
    """Every fit still to be made; one whose rate is not chosen yet stands at the first rate."""
    protocol = reproduction.protocol
    for name in dict.fromkeys(methods):
        for study in reproduction.studies.values():
            trial = chosen(study, name, protocol)
            later = seeds_of(trial or trials(name, protocol)[0], protocol)[1:]
            yield from ((study, job) for job in (*trials(name, protocol), *later) if not _done(study, job))


def expected_minutes(reproduction: Reproduction, methods: Sequence[str]) -> float:
    """How long the missing fits may take, one after the other on one core."""
    return sum(expected_seconds(reproduction, job.method) for _, job in missing(reproduction, methods)) / 60


def expected_seconds(reproduction: Reproduction, method: str) -> float:
    """How long a fit takes: the median of those made, or by the protocol's speeds."""
    tried = trials(method, reproduction.protocol)
    made = [study.result(job) for study in reproduction.studies.values() for job in tried]
    seconds = [found["fit_seconds"] for found in made if found and not found["failed"]]
    return float(np.median(seconds)) if seconds else _by_speed(reproduction, method)


def _done(study: Study, job: Job) -> bool:
    return (study.result(job) or {"failed": ""})["failed"] is None


def _by_speed(reproduction: Reproduction, method: str) -> float:
    if method not in NETWORKS:
        return START_SECONDS
    protocol = reproduction.protocol
    settings = recipe_of(method, protocol.window, 0, protocol.settings).settings
    readings = read_task(next(iter(reproduction.studies.values())).folder).readings
    rows = {part: sum(one.rows for one in readings[part]) for part in PARTS}
    rounds = settings.rounds(rows["train"])
    scored = len(rounds) * rows["validation"] + rows["test"]
    return START_SECONDS + (sum(rounds) * settings.batch + scored / FORWARD) / _speed(reproduction, method)


def _speed(reproduction: Reproduction, method: str) -> float:
    """Windows a second in training, at the length nearest to the protocol's."""
    speeds, window = reproduction.protocol.speeds, reproduction.protocol.window
    nearest = speeds[min(speeds, key=lambda length: abs(log(length / window)))] if speeds else {}
    return nearest.get(model_of(method), nearest.get("scare", SLOW))


# The paper's tables and figures by name: a reproduction in, a result out.
