"""A reproduction: the paper's experiments on one set of studies, in one folder, resumed when run again.

    folder/protocol.json            what is run, with which versions
    folder/tasks/PLACE-POLLUTANT/   a study (`study`) of every contender that an experiment asks for
    folder/measured/KEY.json        one measurement that is not a fit

Experiments read what they need from the studies; what one has fitted, another does not fit again. `choice` says which
rate a network is trained with, `running` in which order the fits are made.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import scare
from scare.experiments.contenders import NETWORKS, Job
from scare.experiments.reproduction.choice import jobs_of
from scare.experiments.reproduction.protocol import TRAINED, Protocol
from scare.experiments.reproduction.tasks import Source
from scare.experiments.study import Study, prepare
from scare.experiments.table import Row, make_table
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

    def study(self, cell: Cell, contenders: Sequence[str]) -> Study:
        """The study of a task with these contenders alone, each with the rate that is decided."""
        study, protocol = self.studies[cell], self.protocol
        jobs = [job for name in dict.fromkeys(contenders) for job in jobs_of(study, name, protocol)]
        return replace(study, jobs=tuple(jobs))

    def first_job(self, contender: str) -> tuple[Study, Job]:
        """The first seed on the first task."""
        study = self.studies[self.cells[0]]
        return study, jobs_of(study, contender, self.protocol)[0]

    def tables(self, contenders: Sequence[str]) -> dict[Cell, dict[str, Row]]:
        """The scores of these contenders on each task, on the same rows."""
        found = {cell: make_table(self.study(cell, contenders)) for cell in self.cells}
        return {cell: {row.contender: row for row in rows} for cell, rows in found.items()}

    def failures(self, contenders: Sequence[str]) -> list[str]:
        """A sentence for every fit that failed."""
        studies = {cell: self.study(cell, contenders) for cell in self.cells}
        found = [(cell, job, study.result(job)) for cell, study in studies.items() for job in study.jobs]
        return [
            f"No score: {'-'.join(cell)} {job.key}: {result['failed']}"
            for cell, job, result in found
            if result and result["failed"] is not None
        ]

    def unfinished(self, contenders: Sequence[str]) -> dict[str, list[str]]:
        """The tasks on which a contender has fits to be made, of each that has any."""
        missing: dict[str, list[str]] = {}
        for cell in self.cells:
            study = self.study(cell, contenders)
            for name in dict.fromkeys(job.contender for job in study.jobs if study.result(job) is None):
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
    """The contenders that these experiments need fitted."""
    lists: Mapping[str, Sequence[str]] = {
        **{name: getattr(protocol, name) for name in TRAINED},
        "checklist": graded(protocol),
        "board": (),
    }
    return list(dict.fromkeys(name for experiment in experiments for name in lists[experiment]))


def graded(protocol: Protocol) -> list[str]:
    """The contenders of the checklist: the networks of the main table."""
    return [name for name in protocol.main if name in NETWORKS]


def versions() -> dict[str, str]:
    """The versions of what was at work."""
    return {"scare": scare.__version__, **{name: version(name) for name in PACKAGES}}
