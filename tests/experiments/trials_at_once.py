"""Trials without processes: each runs here, as soon as it is started."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from scare.executor import Executor
from scare.experiments import tuning as tuning
from scare.experiments.trials import Trial, TrialSettings, examine, write_trial
from scare.experiments.tuning import Search


def ended(error: Exception | None = None) -> "Future[None]":
    """A job that has ended, well unless there is an error."""
    future: Future[None] = Future()
    future.set_exception(error) if error else future.set_result(None)
    return future


Examine = Callable[[Path, Trial, TrialSettings], Trial]


def run_at_once(monkeypatch: pytest.MonkeyPatch, examine: Examine = examine) -> list[int]:
    """Run trials in this process from now on; returns the list to which their numbers are added."""
    started: list[int] = []

    def start(search: Search, trial: Trial, done: Sequence[Trial], executor: Executor) -> "Future[None]":
        started.append(trial.number)
        settings = replace(search.settings, hopeless=tuning._hopeless(search, done))
        write_trial(search.folder, examine(search.folder, trial, settings))
        return ended()

    monkeypatch.setattr(tuning, "_start", start)
    return started
