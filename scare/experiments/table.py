"""The table of a study: one row a method and window, on the same test rows, with honest intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from scare.experiments.bootstrap import Interval, compare_errors
from scare.experiments.study import Job, SharedRows, Study
from scare.scorecard.accuracy import FULL, Accuracy, measure

# Paired block bootstrap: is one estimate better than another, or did the weather favour it?
#
# Errors of neighbouring minutes are one event, so whole blocks of time are drawn anew, for all devices and both
# estimates together. Less than a day of blocks says nothing about other days: then there is no interval.


OURS = "scare"
FACTS = ("parameters", "bytes", "fit_seconds", "windows_per_second")


@dataclass(frozen=True)
class Row:
    """One method at one window: mean and spread over seeds, and the difference of RMSE to ours."""

    method: str
    window: int
    seeds: int
    accuracy: Accuracy | None = None  # mean over seeds
    spread: Accuracy | None = None  # standard deviation over seeds
    to_ours: Interval | None = None
    winner: bool = False
    facts: Mapping[str, float] = field(default_factory=dict)
    failed: str | None = None

    @property
    def partial(self) -> bool:
        """Whether it has values for much fewer rows than others."""
        return self.facts.get("coverage", 1.0) < FULL

    def as_dict(self) -> dict[str, Any]:
        """The row as plain values, for JSON and CSV; None for a number that there is not."""
        plain = {"method": self.method, "window": self.window, "seeds": self.seeds, "failed": self.failed or ""}
        if self.accuracy is not None and self.spread is not None:
            plain |= asdict(self.accuracy)
            plain |= {f"{name}_sd": value for name, value in asdict(self.spread).items() if name != "rows"}
        interval = self.to_ours or Interval(np.nan, np.nan, np.nan)
        plain |= {f"to_ours_{name}": value for name, value in asdict(interval).items()}
        plain |= {"winner": self.winner, **self.facts}
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in plain.items()}


def make_table(study: Study, ours: str = OURS) -> list[Row]:
    """The rows of a study, best first within a window; failed ones last. Differences are to `ours`.

    Everyone is scored on the same rows (`scored_rows`).
    """
    found = SharedRows.of(study)
    results = {job: _score(found, job) for job in found.estimates}
    facts = {job: study.result(job) or {} for job in results}
    rows = []
    for window in sorted({job.window for job in study.jobs}):
        groups = _groups(study.jobs, window)
        squared = {name: _mean([results[j].errors for j in jobs if j in results]) for name, jobs in groups.items()}
        compared = {
            name: errors for name, errors in squared.items() if errors is not None and np.isfinite(errors).all()
        }
        winner = _winner(compared, found.times)
        for name, jobs in groups.items():
            to_ours = None
            if name != ours and {name, ours} <= compared.keys():
                to_ours = compare_errors(compared[name], compared[ours], found.times)
            row = _row(name, window, [(results[job], facts[job]) for job in jobs if job in results], study, jobs)
            rows.append(replace(row, to_ours=to_ours, winner=name == winner))
    return sorted(rows, key=lambda row: (row.window, row.accuracy.rmse if row.accuracy else np.inf))


@dataclass(frozen=True)
class _Result:
    """One job scored: its accuracy, squared errors on the shared rows (NaN where it has none), and coverage."""

    accuracy: Accuracy
    errors: np.ndarray
    coverage: float


def _score(rows: SharedRows, job: Job) -> _Result:
    values = rows.scored(job)
    own = np.isfinite(values)
    accuracy = measure(values[own], rows.reference[own], rows.changes[own])
    return _Result(accuracy, np.square(values - rows.reference), rows.coverage[job])


def _groups(jobs: Sequence[Job], window: int) -> dict[str, list[Job]]:
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if job.window == window:
            groups.setdefault(job.method, []).append(job)
    return groups


def _mean(arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    return np.mean(arrays, axis=0) if arrays else None


def _winner(squared: Mapping[str, np.ndarray], times: np.ndarray) -> str:
    """The method with the least error, if the interval to the next one leaves out zero."""
    ranked = sorted(squared, key=lambda name: float(squared[name].mean()))
    if len(ranked) < 2:
        return ""
    best, second = ranked[:2]
    return best if compare_errors(squared[best], squared[second], times).decided else ""


def _row(
    name: str, window: int, found: Sequence[tuple[_Result, Mapping[str, Any]]], study: Study, jobs: Sequence[Job]
) -> Row:
    """Mean and spread over seeds, or the reason why there is nothing."""
    if not found:
        reasons = [result["failed"] for job in jobs if (result := study.result(job))]
        return Row(name, window, 0, failed=reasons[0] if reasons else "not run yet")
    scores = [asdict(result.accuracy) for result, _ in found]
    mean = Accuracy(**{field: type(value)(np.mean([s[field] for s in scores])) for field, value in scores[0].items()})
    spread = Accuracy(**{field: float(np.std([s[field] for s in scores])) for field in scores[0]})  # type: ignore[arg-type]
    facts = {key: float(np.mean([facts.get(key) or 0 for _, facts in found])) for key in FACTS}
    facts["coverage"] = float(np.mean([result.coverage for result, _ in found]))
    return Row(name, window, len(found), mean, spread, facts=facts)
