"""The test rows of a study that all of its contenders are scored on (`scored_rows` says which they are)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scare.data.readings import Readings
from scare.experiments.contenders import Job
from scare.experiments.study import Study, read_parts
from scare.experiments.yardsticks import UNFITTED
from scare.scorecard.accuracy import reading_changes
from scare.scorecard.scored_rows import share_rows


@dataclass(frozen=True)
class SharedRows:
    """The test rows of a study, with the estimates [rows] of every finished job.

    `shared` says which rows are scored [rows], `coverage` what share of the fitted contenders' rows each job has.
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
        spared = {job for job in finished if job.contender in UNFITTED}
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

    def of_contender(self, name: str) -> list[np.ndarray]:
        """The same of every finished job of a contender, one array a seed."""
        return [self.scored(job) for job in self.estimates if job.contender == name]
