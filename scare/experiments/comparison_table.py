"""The table of a study: one row per method and window, all on the same test rows, with bootstrap intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from scare.data.readings import Channel
from scare.experiments.study import Job, SharedRows, Study
from scare.scorecard.accuracy import FULL, Accuracy, RmseDifference, compare_errors, measure
from scare.scorecard.assessment import BELOW_ALL, TargetResult, assess
from scare.scorecard.series import DeviceSeries
from scare.scorecard.targets import TargetSet

OURS = "scare"  # the method that differences are to
NOT_JUDGED = "not judged"  # of a device with too few averages
FACTS = ("parameters", "bytes", "fit_seconds", "windows_per_second")  # of a result, averaged over seeds


@dataclass(frozen=True)
class Row:
    """One method at one window: its accuracy over seeds, and its RMSE minus ours; `failed` is why it has no score."""

    method: str
    window: int
    seeds: int
    accuracy: Accuracy | None = None  # mean over seeds
    spread: Accuracy | None = None  # standard deviation over seeds
    to_ours: RmseDifference | None = None
    winner: bool = False
    facts: Mapping[str, float] = field(default_factory=dict)
    failed: str | None = None

    @property
    def partial(self) -> bool:
        """Whether it has values for far fewer rows than the other methods."""
        return self.facts.get("coverage", 1.0) < FULL

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain values, for JSON and CSV; None for a number that is not known."""
        plain = {"method": self.method, "window": self.window, "seeds": self.seeds, "failed": self.failed or ""}
        if self.accuracy is not None and self.spread is not None:
            plain |= asdict(self.accuracy)
            plain |= {f"{name}_sd": value for name, value in asdict(self.spread).items() if name != "rows"}
        interval = self.to_ours or RmseDifference(np.nan, np.nan, np.nan)
        plain |= {f"to_ours_{name}": value for name, value in asdict(interval).items()}
        plain |= {"winner": self.winner, **self.facts}
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in plain.items()}


def make_table(study: Study, ours: str = OURS) -> list[Row]:
    """Make the rows of a study, best first within a window, failed ones last; differences are to `ours`.

    Every method is scored on the same rows (`SharedRows`).
    """
    rows = SharedRows.load(study)
    table = []
    for window in sorted({job.window for job in study.jobs}):
        groups: dict[str, list[Job]] = {}
        for job in study.jobs:
            if job.window == window:
                groups.setdefault(job.method, []).append(job)
        # Squared errors [rows], mean over seeds, of the methods with a value for every row.
        compared: dict[str, np.ndarray] = {}
        for name, jobs in groups.items():
            errors = [np.square(rows.scored(job) - rows.reference) for job in jobs if job in rows.estimates]
            if errors and np.isfinite(errors).all():
                compared[name] = np.mean(errors, axis=0)
        ranked = sorted(compared, key=lambda name: float(compared[name].mean()))
        winner = ""  # the method with the least error, if the interval to the next one excludes zero
        if len(ranked) > 1 and compare_errors(compared[ranked[0]], compared[ranked[1]], rows.times).decided:
            winner = ranked[0]
        for name, jobs in groups.items():
            to_ours = None
            if name != ours and {name, ours} <= compared.keys():
                to_ours = compare_errors(compared[name], compared[ours], rows.times)
            table.append(replace(_row(study, rows, jobs), to_ours=to_ours, winner=name == winner))
    return sorted(table, key=lambda row: (row.window, row.accuracy.rmse if row.accuracy else np.inf))


def _row(study: Study, rows: SharedRows, jobs: Sequence[Job]) -> Row:
    """Score the jobs of one method and window, which differ in their seeds; `failed` is why there is no score."""
    name, window = jobs[0].method, jobs[0].window
    finished = [job for job in jobs if job in rows.estimates]
    if not finished:
        reasons = [result["failed"] for job in jobs if (result := study.result(job))]
        return Row(name, window, 0, failed=reasons[0] if reasons else "not run yet")
    scores = []
    for job in finished:
        values = rows.scored(job)
        known = np.isfinite(values)
        scores.append(asdict(measure(values[known], rows.reference[known], rows.changes[known])))
    by_field = {field: [score[field] for score in scores] for field in scores[0]}  # one number per seed
    means = {field: float(np.mean(values)) for field, values in by_field.items()}
    mean = Accuracy(**{**means, "rows": int(means["rows"])})  # type: ignore[arg-type]
    spread = Accuracy(**{field: float(np.std(values)) for field, values in by_field.items()})  # type: ignore[arg-type]
    recorded = [study.result(job) or {} for job in finished]
    facts = {key: float(np.mean([result.get(key) or 0 for result in recorded])) for key in FACTS}
    facts["coverage"] = float(np.mean([rows.coverage[job] for job in finished]))
    return Row(name, window, len(finished), mean, spread, facts=facts)


@dataclass(frozen=True)
class MethodGrade:
    """The classes of data quality that a method reaches, and its expanded uncertainty.

    Every device is graded once for each seed. `classes` says how many reach each class, best class first; `uncertainty`
    is the median over them and `worst` the largest, as shares of the concentration, if the targets limit it.
    """

    method: str
    window: int
    classes: Mapping[str, int]
    uncertainty: float | None
    worst: float | None


def grade_methods(study: Study, targets: TargetSet, reference: str = "") -> list[MethodGrade]:
    """Grade every method against a set of targets, in the order of the jobs; empty if it has none for the reference.

    `reference` is the uncertainty of the reference analyser or its name, as for `assess`.
    """
    rows = SharedRows.load(study)
    results: dict[tuple[str, int], list[TargetResult]] = {}
    order: tuple[str, ...] = ()
    for job, estimates in rows.estimates.items():
        series = _series(rows, estimates)
        assessment = assess(series, rows.readings[0].reference or Channel(""), targets, reference)
        if assessment is not None:
            results.setdefault((job.method, job.window), []).extend(assessment.devices)
            order = (*assessment.classes, BELOW_ALL, NOT_JUDGED)
    grades = []
    for (method, window), devices in results.items():
        reached = [result.reached or NOT_JUDGED for result in devices]
        classes = {name: reached.count(name) for name in order if name in reached}
        values = [value for result in devices if (value := result.values.get("uncertainty")) is not None]
        median, worst = (float(np.median(values)), max(values)) if values else (None, None)
        grades.append(MethodGrade(method, window, classes, median, worst))
    return grades


def _series(rows: SharedRows, estimates: np.ndarray) -> list[DeviceSeries]:
    """Cut a job's estimates of all test rows into one series for each device."""
    borders = np.cumsum([len(box) for box in rows.readings])[:-1]
    parts = zip(rows.readings, np.split(estimates, borders), np.split(rows.shared, borders), strict=True)
    return [DeviceSeries.of_estimates(*part) for part in parts]


@dataclass(frozen=True)
class MethodOverTasks:
    """A method on several tasks: its row of each, by the task's name; and its RMSE relative to the best.

    `ratio` is the geometric mean over tasks of its RMSE divided by the lowest of any method, NaN unless it has a score
    on all of them.
    """

    label: str
    rows: Mapping[str, Mapping[str, Any]]
    ratio: float


def join_tables(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[MethodOverTasks]:
    """Join the tables of several tasks, whose rows are as `Row.as_dict` makes them; returns methods, the best first.

    A method is known by its name, and by its window if some task has several.

    >>> tables = {"no2": [{"method": "a", "window": 8, "rmse": 2.0}, {"method": "b", "window": 8, "rmse": 4.0}]}
    >>> tables["pm"] = [{"method": "a", "window": 60, "rmse": 9.0}, {"method": "b", "window": 60, "rmse": 3.0}]
    >>> [(method.label, round(method.ratio, 2)) for method in join_tables(tables)]
    [('b', 1.41), ('a', 1.73)]
    """
    has_several_windows = any(len({row["window"] for row in rows}) > 1 for rows in tables.values())
    methods: dict[str, dict[str, Mapping[str, Any]]] = {}
    for task, rows in tables.items():
        for row in rows:
            if row.get("rmse") is not None:
                label = f"{row['method']}, window {row['window']}" if has_several_windows else row["method"]
                methods.setdefault(label, {})[task] = row
    lowest: dict[str, float] = {}  # RMSE of any method, by task
    for task_rows in methods.values():
        for task, row in task_rows.items():
            lowest[task] = min(row["rmse"], lowest.get(task, np.inf))
    joined = []
    for label, task_rows in methods.items():
        # An error cannot be divided by that of a method without any: such a task leaves every method without a ratio.
        ratios = [row["rmse"] / lowest[task] for task, row in task_rows.items() if lowest[task] > 0]
        is_on_all_tasks = len(ratios) == len(tables)
        geometric_mean = float(np.exp(np.log(ratios).mean())) if is_on_all_tasks else np.nan
        joined.append(MethodOverTasks(label, task_rows, geometric_mean))
    return sorted(joined, key=lambda method: (np.isnan(method.ratio), method.ratio, method.label))
