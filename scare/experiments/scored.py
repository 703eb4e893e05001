"""The test rows of a task: readings, reference and everyone's estimates, on the rows that all have."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scare.data.readings import Readings
from scare.experiments.study import Study, read_parts


@dataclass(frozen=True)
class Scored:
    """Readings of the test, which of their rows are scored [rows], and estimates of all rows by contender and seed."""

    readings: list[Readings]
    rows: np.ndarray
    estimates: dict[str, list[np.ndarray]]

    @property
    def reference(self) -> np.ndarray:
        """The reference at the rows scored."""
        return np.concatenate([one.targets for one in self.readings])[self.rows]

    def of(self, contender: str) -> list[np.ndarray]:
        """A contender's estimates at the rows scored, one array a seed that has any."""
        return [values[self.rows] for values in self.estimates.get(contender, [])]


def score_rows(study: Study) -> Scored:
    """The finished jobs of a study; scored is a row with a reference and a value from each of them."""
    readings = read_parts(study.folder)["test"]
    estimates: dict[str, list[np.ndarray]] = {}
    for job in study.jobs:
        if (study.result(job) or {"failed": ""})["failed"] is None:
            estimates.setdefault(job.contender, []).append(study.estimates(job))
    every: Sequence[np.ndarray] = [values for several in estimates.values() for values in several]
    rows = np.isfinite([np.concatenate([one.targets for one in readings]), *every]).all(axis=0)
    return Scored(readings, np.asarray(rows), estimates)
