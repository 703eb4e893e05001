"""Tuning searches a preset's knobs for less error on forward folds, within a budget of a board and of time.

`proposing` proposes, `trials` examines, plain files remember: a search that is run again goes on from them. The two
objectives are the means over the folds of RMSE and of top-5 % RMSE. All candidates are scored on the same rows, those
that every window length has a value for.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.archive.executor import LOCAL, Executor, open_executor
from scare.archive.sending import keep, pack
from scare.data.readings import REFERENCE, Readings
from scare.data.split import Split
from scare.errors import DataError
from scare.experiments.compiling import keep_compiled
from scare.experiments.study import prepare
from scare.experiments.tuning.budget import Cost
from scare.experiments.tuning.folds import forward_folds
from scare.experiments.tuning.knobs import WINDOW, Knobs, architecture, preset_values
from scare.experiments.tuning.proposing import Proposer
from scare.experiments.tuning.trials import (
    Score,
    Terms,
    Trial,
    read_trials,
    recipe_of,
    run_sent_trial,
    run_trial,
    trial_file,
    write_trial,
)
from scare.training.preparation import common_step, prepare_inputs
from scare.training.presets import Recipe
from scare.windowing.feeding import Feed

HOPELESS = 1.05  # times the worst on the front, on the first fold and in both objectives: not examined further
UNFIT = 1e9  # stands for the error of what has no score
Progress = Callable[[Sequence[Trial]], None]


@dataclass(frozen=True)
class Effort:
    """How long to search: seconds from now, trials in all, processes at a time, and where they are."""

    seconds: float
    trials: int | None = None
    processes: int = 2
    where: str = LOCAL


@dataclass(frozen=True)
class Search:
    """Knobs, the preset's own values of them, every trial's terms, the folder that remembers, the devices left out."""

    folder: Path
    knobs: Knobs
    preset: Mapping[str, int | float]
    terms: Terms
    left_out: tuple[str, ...] = ()

    def trials(self) -> list[Trial]:
        """What is finished."""
        return read_trials(self.folder)

    def fits(self, trial: Trial) -> bool:
        """Whether a trial is within the budget, or there is none."""
        return not (self.terms.budget and trial.cost and self.terms.budget.reasons(trial.cost))

    def finished(self, trial: Trial) -> bool:
        """Whether a trial has a score on every fold."""
        return trial.failed is None and len(trial.scores) == self.terms.folds

    def front(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials within the budget that no other beats in both objectives, the least RMSE first."""
        rivals = [trial for trial in trials if self.finished(trial) and self.fits(trial)]
        return sorted((one for one in rivals if not any(_beats(other, one) for other in rivals)), key=lambda t: t.mean)

    def errors(self, trial: Trial, done: Sequence[Trial]) -> Score:
        """What the search makes smaller; after the first fold only, the preset's errors times the ratio there.

        Beyond any error is what has no score or is over the budget, the further the more it is over.
        """
        if not (self.fits(trial) and trial.failed is None and trial.scores):
            return UNFIT * self.times_over(trial), UNFIT * self.times_over(trial)
        if self.finished(trial):
            return trial.mean
        preset = next((one for one in done if one.number == 0), trial)
        rmse, top5 = (np.array(preset.mean) * trial.scores[0] / np.array(preset.scores[0])).tolist()
        return rmse, top5

    def times_over(self, trial: Trial) -> float:
        """How many times over the budget a trial is, at least 1."""
        over = self.terms.budget.excess(trial.cost).values() if self.terms.budget and trial.cost else ()
        return max([1.0, *(need / most for need, most in over)])


def prepare_search(folder: Path, readings: Sequence[Readings], knobs: Knobs, terms: Terms) -> Search:
    """A search that begins at the preset, new or to be resumed; a folder with another is refused."""
    preset, windows = preset_values(knobs, recipe_of({}, terms)), [int(length) for length in knobs[WINDOW]]
    splits = forward_folds(readings, terms.folds, max(windows) * common_step(readings))
    listed = {name: list(values) for name, values in knobs.items()}
    settings = {"knobs": listed, "preset": preset, "terms": asdict(terms)}
    for number, split in enumerate(splits, start=1):
        prepare(folder / f"fold-{number}", on_shared_rows(split, windows, recipe_of({}, terms)), [], settings)
    left_out = dict.fromkeys(sentence for split in splits for sentence in split.left_out)
    return Search(folder, knobs, preset, terms, tuple(left_out))


def on_shared_rows(split: Split, windows: Sequence[int], recipe: Recipe) -> Split:
    """The split with test references only where every window length has a value."""
    tests = list(split.test)
    for window in windows:
        inputs, _ = prepare_inputs(split.train, split.validation, replace(recipe, window=window))
        for index, one in enumerate(tests):
            segments, _ = Feed(inputs, one.device).take(one.times, inputs.select(one))
            rows = np.concatenate([np.empty(0, int), *(segment.rows for segment in segments)])
            kept = np.full(len(one), np.nan)
            kept[rows] = one.targets[rows]
            tests[index] = replace(one, frame=one.frame.with_columns(pl.Series(REFERENCE, kept)))
    if not any(np.isfinite(one.targets).any() for one in tests):
        raise DataError(f"no test row has a value for every window length ({windows}); {split.how}")
    return replace(split, test=tuple(tests))


def run_search(search: Search, effort: Effort, progress: Progress) -> None:
    """Examine candidates until the time or the trials are used up; Ctrl-C ends those that run, finished ones stay.

    The preset is the first and is always finished. Nothing begins that would, by the mean so far, end too late, and
    what runs when the time is over is ended without a result.
    """
    _forget_failed_preset(search)
    keep_compiled()
    with open_executor(effort.where, effort.processes, search.folder) as executor:
        _search(search, effort, executor, progress)


def _search(search: Search, effort: Effort, executor: Executor, progress: Progress) -> None:
    proposer, begun = Proposer(search.knobs, search.preset, search.errors, search.terms.seed), time.monotonic()
    running: dict[Future[Any], tuple[Trial, float]] = {}  # what each runs, and since when
    while True:
        done, left = search.trials(), effort.seconds - (time.monotonic() - begun)
        _check_preset(done)
        usual = float(np.mean([trial.seconds for trial in done])) if done else 0.0
        current = [one for one, _ in running.values()]
        wanted = effort.trials is None or len(done) + len(running) < effort.trials
        in_time = left > usual or all(trial.number for trial in (*done, *current))
        if wanted and in_time and len(running) < executor.size:
            trial = proposer.propose(done, current)
            if trial is not None:
                running[_start(search, trial, done, executor)] = trial, time.monotonic()
                continue
        if not running or (left <= 0 and any(trial.number == 0 for trial in done)):
            return
        wait(running, max(0.1, left) if done else None, FIRST_COMPLETED)
        for future in [one for one in running if one.done()]:
            _collect(search, executor, future, *running.pop(future))
            progress(search.trials())


def _beats(one: Trial, other: Trial) -> bool:
    return one.mean != other.mean and all(np.less_equal(one.mean, other.mean))


def _forget_failed_preset(search: Search) -> None:
    """Without the preset there is no search: one that failed before is tried again."""
    for trial in search.trials():
        if trial.number == 0 and trial.failed is not None:
            trial_file(search.folder, 0).unlink()


def _check_preset(done: Sequence[Trial]) -> None:
    for trial in done:
        if trial.number == 0 and trial.failed is not None:
            raise DataError(f"the preset itself cannot be examined: {trial.failed}")


def _start(search: Search, trial: Trial, done: Sequence[Trial], executor: Executor) -> "Future[Any]":
    terms = asdict(replace(search.terms, hopeless=_hopeless(search, done)))
    told = asdict(replace(trial, cost=_known_cost(trial, done)))
    if executor.shared:
        folds = [path for path in search.folder.glob("fold-*/**/*") if path.is_file()]
        return executor.submit(run_sent_trial, pack(search.folder, folds), told, terms)
    return executor.submit(run_trial, str(search.folder), told, terms)


def _collect(search: Search, executor: Executor, future: "Future[Any]", trial: Trial, begun: float) -> None:
    """Note the end of a trial that could not do so itself, and keep what was sent back."""
    if reason := executor.lost(future):
        write_trial(search.folder, replace(trial, failed=reason, seconds=time.monotonic() - begun))
    elif executor.shared:
        keep(future.result(), trial_file(search.folder, trial.number).parent)


def _hopeless(search: Search, done: Sequence[Trial]) -> Score | None:
    """Errors on the first fold beyond which a candidate is not examined further, once there is a front."""
    front = search.front(done)
    if not front or not any(trial.number == 0 for trial in done):
        return None
    rmse, top5 = (HOPELESS * np.max([trial.scores[0] for trial in front], axis=0)).tolist()
    return rmse, top5


def _known_cost(trial: Trial, done: Sequence[Trial]) -> Cost | None:
    """What an equal architecture took."""
    same = architecture(trial.values)
    return next((one.cost for one in done if one.cost and architecture(one.values) == same), None)
