"""The rows that everyone is scored on: those with a reference and a value from each, the same for all.

Only what is not fitted to the readings (a formula that ends at 95 % humidity, persistence after a gap) takes no rows
from others: if it has values for much fewer of theirs, it is scored on what it has, and its coverage says so.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from scare.data.readings import Readings
from scare.errors import DataError
from scare.experiments.contenders import Job
from scare.experiments.study import Study, read_parts
from scare.experiments.yardsticks import UNFITTED
from scare.scorecard.accuracy import reading_changes

FULL = 0.95  # of the others' rows: what has less takes no row from them
Key = TypeVar("Key", bound=Hashable)


def share_rows(
    reference: np.ndarray, estimates: Mapping[Key, np.ndarray], spared: Collection[Key] = ()
) -> tuple[np.ndarray, dict[Key, float]]:
    """Which rows to score all estimates on, bool [rows], and the share of the others' rows that each has.

    NaN is no value. An estimate in `spared` takes no rows from the others unless it has nearly all of theirs.

    >>> reference, full, half = np.arange(4.0), np.ones(4), np.array([1.0, 1.0, np.nan, np.nan])
    >>> share_rows(reference, {"full": full, "half": half}, spared=["half"])
    (array([ True, True, True, True]), {'full': 1.0, 'half': 0.5})
    """
    needed = [values for key, values in estimates.items() if key not in spared]
    rows = np.isfinite([reference, *needed]).all(axis=0)
    if not rows.any():
        raise DataError("no test row has a reference and a value from everyone compared")
    coverage = {key: float(np.isfinite(values[rows]).mean()) for key, values in estimates.items()}
    full = [values for key, values in estimates.items() if coverage[key] >= FULL]
    return np.asarray(np.isfinite([reference, *needed, *full]).all(axis=0)), coverage


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
