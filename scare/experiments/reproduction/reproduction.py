"""A reproduction: the paper's experiments on one set of studies, in one folder, resumed when run again.

    folder/protocol.json            what is run, with which versions
    folder/tasks/CITY-POLLUTANT/    a study (`study`) of every contender that an experiment asks for
    folder/measured/KEY.json        one measurement that is not a fit

Experiments read what they need from the studies; what one has fitted, another does not fit again.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import scare
from scare.data.senseurcity import City, Pollutant
from scare.experiments.contenders import NETWORKS, Job, grid, recipe_of
from scare.experiments.reproduction.protocol import TRAINED, Protocol, model_of
from scare.experiments.reproduction.tasks import make_split
from scare.experiments.study import Progress, Study, prepare, run_study
from scare.experiments.table import Row, make_table
from scare.experiments.task import read_task
from scare.files import replacing
from scare.records import read_json

Cell = tuple[City, Pollutant]
PACKAGES = ("jax", "numpy", "equinox", "optax")
STAND_IN = "simulated stand-in, not SensEURCity"  # of every task and calibrator made without --data
START_SECONDS = 8.0  # of a process, and compiling
FORWARD = 3  # windows scored in the time in which one is learned from


@dataclass(frozen=True)
class Reproduction:
    """A protocol, the readings it runs on (None: simulated) and the folder of what it finds."""

    folder: Path
    protocol: Protocol
    data: Path | None = None

    @property
    def cells(self) -> list[Cell]:
        """City and pollutant of every task."""
        return list(product(self.protocol.cities, self.protocol.pollutants))

    @cached_property
    def studies(self) -> dict[Cell, Study]:
        """A study without jobs for every task; readings are made or read here, once."""
        return {cell: self._prepare(cell) for cell in self.cells}

    def jobs(self, contenders: Sequence[str]) -> list[Job]:
        """The jobs of these contenders on each task, the longest first."""
        jobs = grid(list(dict.fromkeys(contenders)), [self.protocol.window], self.protocol.seeds)
        return sorted(jobs, key=lambda job: self._speed(job.contender))

    def study(self, cell: Cell, contenders: Sequence[str]) -> Study:
        """The study of a task with these contenders alone."""
        return replace(self.studies[cell], jobs=tuple(self.jobs(contenders)))

    def open(self, contenders: Sequence[str]) -> int:
        """How many fits there are still to be made."""
        return sum(len(self.study(cell, contenders).open()) for cell in self.cells)

    def fit(self, contenders: Sequence[str], processes: int, progress: Progress) -> None:
        """Make every fit that is missing."""
        each = len(self.jobs(contenders))
        for index, cell in enumerate(self.cells):
            part = partial(_tell, progress, index * each, len(self.cells) * each, "-".join(cell))
            run_study(self.study(cell, contenders), processes, part)

    def tables(self, contenders: Sequence[str]) -> dict[Cell, dict[str, Row]]:
        """The scores of these contenders on each task, on the same rows."""
        found = {cell: make_table(self.study(cell, contenders)) for cell in self.cells}
        return {cell: {row.contender: row for row in rows} for cell, rows in found.items()}

    def failures(self, contenders: Sequence[str]) -> list[str]:
        """A sentence for every fit of these contenders that gave nothing to score."""
        found = [(cell, job, self.studies[cell].result(job)) for cell in self.cells for job in self.jobs(contenders)]
        reasons = [(cell, job, result["failed"] if result else "not run yet") for cell, job, result in found]
        return [f"No score: {'-'.join(cell)} {job.key}: {reason}" for cell, job, reason in reasons if reason]

    def expected_seconds(self, contenders: Sequence[str]) -> float:
        """How long the open fits may take on two cores, by the protocol's speeds: not measured on this machine."""
        return sum(self._seconds(cell, job) for cell in self.cells for job in self.study(cell, contenders).open())

    def remember(self, key: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was measured under this name, now or before."""
        path = self.folder / "measured" / f"{key}.json"
        if not path.exists():
            found = measure()
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return read_json(path, dict[str, Any])

    def write_protocol(self) -> None:
        """Write what is run, and with what."""
        facts = {"protocol": self.protocol.as_dict(), "notes": self.protocol.notes, "versions": versions()}
        with replacing(self.folder / "protocol.json") as temporary:
            temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")

    def _prepare(self, cell: Cell) -> Study:
        split = make_split(self.protocol, self.data, *cell)
        facts = {"data": STAND_IN} if self.protocol.simulated else {}
        return prepare(self.folder / "tasks" / "-".join(cell), split, [], dict(self.protocol.settings), facts)

    def _speed(self, contender: str) -> float:
        speeds = self.protocol.speeds
        return speeds.get(model_of(contender), speeds.get("scare", 1.0)) if contender in NETWORKS else float("inf")

    def _seconds(self, cell: Cell, job: Job) -> float:
        if job.contender not in NETWORKS:
            return 0.0
        settings = recipe_of(job.contender, job.window, job.seed, self.protocol.settings).settings
        task = read_task(self.studies[cell].folder)
        rows = {part: sum(one.rows for one in readings) for part, readings in task.readings.items()}
        rounds = settings.rounds(rows["train"])
        scored = len(rounds) * rows["validation"] + rows["test"]
        return START_SECONDS + (sum(rounds) * settings.batch + scored / FORWARD) / self._speed(job.contender)


def _tell(progress: Progress, before: int, total: int, task: str, done: int, _: int, key: str) -> None:
    """Progress of one task as progress of all."""
    progress(before + done, total, f"{task} {key}")


def wanted(protocol: Protocol, experiments: Iterable[str]) -> list[str]:
    """The contenders that these experiments need fitted."""
    lists: Mapping[str, Sequence[str]] = {
        **{name: getattr(protocol, name) for name in TRAINED},
        "checklist": protocol.main,
        "board": (),
    }
    return list(dict.fromkeys(name for experiment in experiments for name in lists[experiment]))


def versions() -> dict[str, str]:
    """The versions of what was at work."""
    return {"scare": scare.__version__, **{name: version(name) for name in PACKAGES}}
