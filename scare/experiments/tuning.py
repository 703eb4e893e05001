"""Tuning: search a preset's hyperparameters for less error on forward folds, within a budget of a board and of time.

    rows with a reference   |------- train -------|  v  |  t  |           fold 1
                            |---------- train ----------|  v  |  t  |     fold 2

The two objectives are the means over the folds of RMSE and of top-5 % RMSE; the candidates that no other beats in both
are the Pareto front. The first candidates are drawn around the preset, later ones by Optuna's tree-structured Parzen
estimator (TPE). All are scored on the same rows, those that every window length has a value for. `trials` examines a
candidate; plain files keep the results, so a search that is run again continues.

The folds chose the front, so its scores on them are optimistic; only rows that the search never saw show by how much.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import optuna
import polars as pl
import tomli_w

from scare.board.measure import Cost
from scare.data.readings import REFERENCE, Readings
from scare.data.split import Split, reference_times, split_by_time
from scare.errors import DataError, UsageError
from scare.executor import LOCAL, Executor, open_executor, pack, write_files
from scare.experiments.jax_cache import keep_compiled
from scare.experiments.study import prepare
from scare.experiments.trials import (
    WINDOW,
    Score,
    SearchSpace,
    Trial,
    TrialSettings,
    architecture,
    preset_values,
    read_trials,
    run_sent_trial,
    run_trial,
    trial_file,
    write_trial,
)
from scare.files import replacing
from scare.schema import merge
from scare.training.data import common_step, prepare_inputs
from scare.training.recipe import Recipe, nested
from scare.windowing.inputs import WindowStream

FIRST = 0.4  # share of the rows with a reference that the first fold trains on
DRAWN = 10  # candidates drawn at random around the preset before Optuna knows enough
CHANGED = 1 / 3  # share of the preset's hyperparameters that these change
ATTEMPTS = 5  # after this many proposals of known candidates in a row, a candidate is drawn at random
HOPELESS = 1.05  # a candidate with more than 1.05 times the front's worst errors on the first fold ends there
UNFIT = 1e9  # error of a candidate without a score, larger than any other
OBJECTIVES = ("rmse", "top5_rmse")
CONFIG = "best-{}.toml"  # config file of a member of the front, by its place
Progress = Callable[[Sequence[Trial]], None]  # called with all finished trials
Errors = Callable[[Trial, Sequence[Trial]], Score]  # the errors of a trial, given all finished trials


def forward_folds(readings: Sequence[Readings], folds: int, gap_seconds: float) -> list[Split]:
    """Split by time into folds whose training part grows; a fold's test part is the next fold's validation part.

    The rows with a reference after the first 40 % are cut into `folds` + 1 equal parts: fold k validates on part k and
    is scored on part k + 1. As in `split_by_time`, rows less than `gap_seconds` after a border lose their reference.

    >>> import polars as pl
    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1, hour) for hour in range(20)], "reference": 7.0})
    >>> folds = forward_folds([Readings("box-1", frame, (), Channel("no2", "ppb"))], 3, gap_seconds=0)
    >>> [[len(part[0]) for part in fold.parts.values()] for fold in folds]
    [[8, 3, 3], [11, 3, 3], [14, 3, 3]]
    """
    if folds < 1:
        raise UsageError(f"there must be at least one fold, not {folds}")
    times = reference_times(readings)
    begins = np.rint(len(times) * np.linspace(FIRST, 1.0, folds + 2)[:-1]).astype(int)  # first row of each part
    borders = [*times[np.minimum(begins, len(times) - 1)].tolist(), np.inf]  # seconds
    splits = []
    for fold in range(folds):
        validation_begin, test_begin, test_end = borders[fold : fold + 3]
        rows = [box.rows(box.times < test_end) for box in readings]
        begins_at = datetime.fromtimestamp(validation_begin, UTC), datetime.fromtimestamp(test_begin, UTC)
        split = split_by_time([box for box in rows if len(box)], gap_seconds, borders=begins_at)
        splits.append(replace(split, description=f"fold {fold + 1} {split.description}"))
    return splits


@dataclass(frozen=True)
class Effort:
    """How long to search (in seconds or trials), with how many processes, and on which executor."""

    seconds: float
    trials: int | None = None
    processes: int = 2
    where: str = LOCAL


@dataclass(frozen=True)
class Search:
    """A search and the folder of its trials: the values to try, the preset's values, and what all trials share."""

    folder: Path
    space: SearchSpace
    preset: Mapping[str, int | float]
    settings: TrialSettings
    left_out: tuple[str, ...] = ()  # a message for each device that the folds leave out

    def trials(self) -> list[Trial]:
        """Return the finished trials."""
        return read_trials(self.folder)

    def fits(self, trial: Trial) -> bool:
        """Whether a trial is within the budget, or there is none."""
        budget = self.settings.budget
        return not (budget and trial.cost and budget.reasons(trial.cost))

    def finished(self, trial: Trial) -> bool:
        """Whether a trial has a score on every fold."""
        return trial.failed is None and len(trial.scores) == self.settings.folds

    def front(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the Pareto front: trials within the budget that none beats in both objectives, least RMSE first."""
        candidates = [trial for trial in trials if self.finished(trial) and self.fits(trial)]

        def is_dominated(trial: Trial) -> bool:
            return any(other.mean != trial.mean and np.less_equal(other.mean, trial.mean).all() for other in candidates)

        return sorted((trial for trial in candidates if not is_dominated(trial)), key=lambda trial: trial.mean)

    def errors(self, trial: Trial, done: Sequence[Trial]) -> Score:
        """Compute the errors that the search minimises: the means over the folds.

        For a trial that ended after one fold they are estimated: the preset's means times the ratio of their errors on
        that fold. A trial without a score or over the budget gets larger errors than all others, growing with its cost.
        """
        if not (self.fits(trial) and trial.failed is None and trial.scores):
            return UNFIT * self.times_over(trial), UNFIT * self.times_over(trial)
        if self.finished(trial):
            return trial.mean
        # Until the preset has ended, the trial is compared with itself, which gives its own mean.
        preset = next((other for other in done if other.number == 0), trial)
        first, preset_first = np.array(trial.scores[0]), np.array(preset.scores[0])  # errors on the first fold
        rmse, top5 = (np.array(preset.mean) * first / preset_first).tolist()
        return rmse, top5

    def times_over(self, trial: Trial) -> float:
        """Return the largest ratio of a trial's cost to its limit, at least 1."""
        if not (self.settings.budget and trial.cost):
            return 1.0
        return max(1.0, self.settings.budget.share(trial.cost))


def prepare_search(folder: Path, readings: Sequence[Readings], space: SearchSpace, settings: TrialSettings) -> Search:
    """Write the folds of a search to a folder, or resume it; a folder with another search is an error."""
    recipe = settings.recipe({})
    preset = preset_values(space, recipe)
    windows = [int(length) for length in space[WINDOW]]
    splits = forward_folds(readings, settings.folds, max(windows) * common_step(readings))
    knobs = {name: list(values) for name, values in space.items()}
    described = {"knobs": knobs, "preset": preset, "terms": asdict(settings)}
    for number, split in enumerate(splits, start=1):
        prepare(folder / f"fold-{number}", on_shared_rows(split, windows, recipe), [], described)
    left_out = dict.fromkeys(message for split in splits for message in split.left_out)
    return Search(folder, space, preset, settings, tuple(left_out))


def on_shared_rows(split: Split, windows: Sequence[int], recipe: Recipe) -> Split:
    """Remove test references at rows where a window length has no value, so that all are scored on the same rows."""
    tests = list(split.test)
    for window in windows:
        inputs, _ = prepare_inputs(split.train, split.validation, replace(recipe, window=window))
        for index, box in enumerate(tests):
            segments, _ = WindowStream(inputs, box.device).take(box.times, inputs.select(box))
            rows = np.concatenate([np.empty(0, int), *(segment.rows for segment in segments)])
            targets = np.full(len(box), np.nan)
            targets[rows] = box.targets[rows]
            tests[index] = replace(box, frame=box.frame.with_columns(pl.Series(REFERENCE, targets)))
    if not any(np.isfinite(box.targets).any() for box in tests):
        raise DataError(f"no test row has a value for every window length ({windows}); {split.description}")
    return replace(split, test=tuple(tests))


def run_search(search: Search, effort: Effort, progress: Progress) -> None:
    """Examine candidates until the time or the trials are used up; Ctrl-C stops running trials, finished ones stay.

    The preset is the first and is always finished. A trial is started only if, with the mean duration so far, it would
    end in time; trials that still run when the time is over are stopped without a result.
    """
    for trial in search.trials():
        if trial.number == 0 and trial.failed is not None:  # there is no search without the preset: try it again
            trial_file(search.folder, 0).unlink()
    keep_compiled()
    with open_executor(effort.where, effort.processes, search.folder) as executor:
        _search(search, effort, executor, progress)


def _search(search: Search, effort: Effort, executor: Executor, progress: Progress) -> None:
    """Start trials while workers are free and time is left, and write the results of those that end."""
    begun = time.monotonic()
    proposer = Proposer(search.space, search.preset, search.errors, search.settings.seed)
    running: dict[Future[Any], tuple[Trial, float]] = {}  # each trial, and when it was started
    while True:
        done = search.trials()
        seconds_left = effort.seconds - (time.monotonic() - begun)
        for trial in done:
            if trial.number == 0 and trial.failed is not None:
                raise DataError(f"the preset itself cannot be examined: {trial.failed}")
        mean_seconds = float(np.mean([trial.seconds for trial in done])) if done else 0.0
        current = [trial for trial, _ in running.values()]
        more_trials = effort.trials is None or len(done) + len(running) < effort.trials
        has_preset = any(trial.number == 0 for trial in (*done, *current))
        has_time = seconds_left > mean_seconds or not has_preset  # the preset is started in any case
        if more_trials and has_time and len(running) < executor.size:
            candidate = proposer.propose(done, current)
            if candidate is not None:
                running[_start(search, candidate, done, executor)] = candidate, time.monotonic()
                continue  # there may be another free worker
        if not running or (seconds_left <= 0 and any(trial.number == 0 for trial in done)):
            return
        # The first result is waited for however long it takes: without one the search has nothing to show.
        wait(running, max(0.1, seconds_left) if done else None, FIRST_COMPLETED)
        for future in [future for future in running if future.done()]:
            trial, started = running.pop(future)
            if reason := executor.lost(future):  # its process died
                write_trial(search.folder, replace(trial, failed=reason, seconds=time.monotonic() - started))
            elif executor.shared:
                write_files(future.result(), trial_file(search.folder, trial.number).parent)
            progress(search.trials())


def _start(search: Search, trial: Trial, done: Sequence[Trial], executor: Executor) -> "Future[Any]":
    """Submit a trial as plain values; a cluster is sent the folds as well."""
    settings = asdict(replace(search.settings, hopeless=_hopeless(search, done)))
    described = asdict(replace(trial, cost=_known_cost(trial, done)))
    if executor.shared:
        folds = [path for path in search.folder.glob("fold-*/**/*") if path.is_file()]
        return executor.submit(run_sent_trial, pack(search.folder, folds), described, settings)
    return executor.submit(run_trial, str(search.folder), described, settings)


def _hopeless(search: Search, done: Sequence[Trial]) -> Score | None:
    """Compute the errors on the first fold above which a candidate is not examined further.

    None until there is a front and the preset is finished.
    """
    front = search.front(done)
    if not front or not any(trial.number == 0 for trial in done):
        return None
    rmse, top5 = (HOPELESS * np.max([trial.scores[0] for trial in front], axis=0)).tolist()
    return rmse, top5


def _known_cost(trial: Trial, done: Sequence[Trial]) -> Cost | None:
    """Look up the cost of a finished trial of the same architecture, which need not be measured again."""
    same = architecture(trial.values)
    return next((other.cost for other in done if other.cost and architecture(other.values) == same), None)


class Proposer:
    """Proposes candidates that may have small errors, beginning with the preset.

    A hyperparameter is an ordered list of values, and Optuna sees their indices. Optuna's study is in memory only: all
    finished trials are reported to it, also those of an earlier run.
    """

    def __init__(self, space: SearchSpace, preset: Mapping[str, int | float], errors: Errors, seed: int) -> None:
        self._space, self._preset, self._errors, self._seed = space, dict(preset), errors, seed
        self._indices: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in space.items()
        }
        self._study: optuna.Study | None = None
        self._running: dict[int, optuna.Trial] = {}  # by number of our trial
        self._reported: set[int] = set()  # numbers of our trials

    def propose(self, done: Sequence[Trial], running: Sequence[Trial]) -> Trial | None:
        """Propose a candidate that is neither finished nor running, the preset first; None if all have been tried."""
        study = self._report(done)
        known = [dict(trial.values) for trial in (*done, *running)]
        if self._preset not in known:
            study.enqueue_trial(self._index(self._preset))
        if len(known) >= prod(map(len, self._space.values())):
            return None
        proposal = self._ask(study, known)
        values = self._values(proposal)
        last = max((trial.number for trial in (*done, *running)), default=0)
        number = 0 if values == self._preset else last + 1
        self._running[number] = proposal
        return Trial(number, values)

    def _ask(self, study: optuna.Study, known: Sequence[Mapping[str, int | float]]) -> optuna.Trial:
        """Ask Optuna for a new candidate.

        At first, and when Optuna only repeats known ones, a candidate is drawn around the preset and handed to Optuna.
        If the preset itself is still to come, `propose` has enqueued it, so Optuna returns it.
        """
        asks_optuna = self._preset not in known or len(known) > DRAWN
        for _ in range(ATTEMPTS if asks_optuna else 0):
            proposal = study.ask(self._indices)
            if self._values(proposal) not in known:
                return proposal
            study.tell(proposal, state=optuna.trial.TrialState.FAIL)  # known already: it ends without a result
        generator = Random(self._seed + len(known))
        values = self._preset
        while values in known:
            values = dict(self._preset)
            for name, choices in self._space.items():
                if generator.random() < CHANGED:
                    values[name] = generator.choice(choices)
        study.enqueue_trial(self._index(values))
        return study.ask(self._indices)

    def _report(self, done: Sequence[Trial]) -> optuna.Study:
        """Report all finished trials to Optuna's study, which the first call creates.

        The seed depends on how many there are, so that a resumed search does not draw the same candidates again.
        """
        if self._study is None:
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            # The constant liar keeps proposals away from trials that still run.
            sampler = optuna.samplers.TPESampler(n_startup_trials=0, seed=self._seed + len(done), constant_liar=True)
            self._study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        for trial in (trial for trial in done if trial.number not in self._reported):
            self._reported.add(trial.number)
            errors = self._errors(trial, done)
            if trial.number in self._running:
                self._study.tell(self._running.pop(trial.number), errors)
            else:
                indices = self._index(trial.values)
                known = optuna.trial.create_trial(params=indices, distributions=self._indices, values=errors)
                self._study.add_trial(known)
        return self._study

    def _values(self, proposal: optuna.Trial) -> dict[str, int | float]:
        """Look up the values at the indices that Optuna chose."""
        return {name: values[proposal.params[name]] for name, values in self._space.items()}

    def _index(self, values: Mapping[str, int | float]) -> dict[str, int]:
        """Find the index of each value in its list."""
        return {name: self._space[name].index(value) for name, value in values.items()}


def make_outcome(search: Search) -> dict[str, Any]:
    """Sum up a search as plain values: the Pareto front, the preset, candidates that do not fit or failed, counts."""
    trials = search.trials()
    preset = next((trial for trial in trials if trial.number == 0 and search.finished(trial)), None)
    front = search.front(trials)
    over_budget = sorted((trial for trial in trials if not search.fits(trial)), key=search.times_over)
    failed = [trial for trial in trials if trial.failed is not None]
    scored = [trial for trial in trials if search.finished(trial)]
    ended = [trial for trial in trials if 0 < len(trial.scores) < search.settings.folds and trial.failed is None]
    return {
        "front": [describe_trial(search, trial, preset) for trial in front],
        "preset": describe_trial(search, preset, preset) if preset else None,
        "does_not_fit": [describe_trial(search, trial, preset) for trial in over_budget],
        "failed": [{**describe_trial(search, trial, None), "reason": trial.failed} for trial in failed],
        "candidates": {
            "examined": len(trials),
            "scored_on_all_folds": len(scored),
            "ended_after_one_fold": len(ended),
            "over_budget": len(over_budget),
            "failed": len(failed),
        },
        **({"left_out": list(search.left_out)} if search.left_out else {}),
    }


def describe_trial(search: Search, trial: Trial, preset: Trial | None) -> dict[str, Any]:
    """Describe a candidate: values, cost and reasons, means over the folds, and paired differences to the preset.

    Keys that end in `_sd` are standard deviations over the folds (n - 1); one fold has none.
    """
    budget = search.settings.budget
    changes = {name: value for name, value in trial.values.items() if value != search.preset[name]}
    facts: dict[str, Any] = {"trial": trial.number, "values": dict(trial.values), "changes": changes}
    facts["cost"] = dict(trial.cost) if trial.cost else None
    facts["does_not_fit"] = budget.reasons(trial.cost) if budget and trial.cost else []
    if search.finished(trial):
        facts |= dict(zip(OBJECTIVES, trial.mean, strict=True)) | {"folds": [list(score) for score in trial.scores]}
    if search.finished(trial) and preset:
        differences = np.array(trial.scores) - np.array(preset.scores)  # [folds, objectives]
        means = differences.mean(axis=0).tolist()
        spread = differences.std(axis=0, ddof=1).tolist() if len(differences) > 1 else [None, None]
        for name, mean, deviation in zip(OBJECTIVES, means, spread, strict=True):
            facts |= {f"{name}_to_preset": mean, f"{name}_to_preset_sd": deviation}
    return facts


def write_configs(search: Search, front: Sequence[Mapping[str, Any]], tables: Mapping[str, Any]) -> list[Path]:
    """Write a config file for each member of the front, best-1.toml for the least RMSE; older ones are deleted.

    A file has the user's `tables`, then the recipe that the search began at, then what the trial changed in it; where
    two have the same key, the later one wins.
    """
    for old in search.folder.glob(CONFIG.format("*")):
        old.unlink()
    paths = [search.folder / CONFIG.format(rank) for rank in range(1, len(front) + 1)]
    start = merge(tables, search.settings.start)
    for path, member in zip(paths, front, strict=True):
        text = tomli_w.dumps(merge(start, nested(member["values"])))
        with replacing(path) as temporary:
            temporary.write_text(f"# trial {member['trial']}\n{text}", encoding="utf-8")
    return paths
