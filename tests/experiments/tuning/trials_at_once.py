"""Trials without processes: each runs here, as soon as it is started."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from scare.executor import Executor
from scare.experiments import tuning as search_module
from scare.experiments.tuning import Search, Terms, Trial, examine, write_trial


def ended(error: Exception | None = None) -> "Future[None]":
    """A job that has ended, well unless there is an error."""
    future: Future[None] = Future()
    future.set_exception(error) if error else future.set_result(None)
    return future


Examine = Callable[[Path, Trial, Terms], Trial]


def run_at_once(monkeypatch: pytest.MonkeyPatch, examine: Examine = examine) -> list[int]:
    """From now on; the list gets the numbers of the trials that are started."""
    started: list[int] = []

    def start(search: Search, trial: Trial, done: Sequence[Trial], executor: Executor) -> "Future[None]":
        started.append(trial.number)
        terms = replace(search.terms, hopeless=search_module._hopeless(search, done))
        write_trial(search.folder, examine(search.folder, trial, terms))
        return ended()

    monkeypatch.setattr(search_module, "_start", start)
    return started
