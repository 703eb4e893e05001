"""Trials without processes: each runs here, as soon as it is started."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scare.experiments.tuning import search as search_module
from scare.experiments.tuning.search import Search
from scare.experiments.tuning.trials import Terms, Trial, examine, write_trial


class Done:
    """A process that has ended."""

    sentinel = 0

    def __init__(self, exitcode: int) -> None:
        self.exitcode = exitcode

    def terminate(self) -> None: ...

    def join(self) -> None: ...


Examine = Callable[[Path, Trial, Terms], Trial]


def run_at_once(monkeypatch: pytest.MonkeyPatch, examine: Examine = examine) -> list[int]:
    """From now on; the list gets the numbers of the trials that are started."""
    started: list[int] = []

    def start(search: Search, trial: Trial, done: Sequence[Trial]) -> Done:
        started.append(trial.number)
        terms = replace(search.terms, hopeless=search_module._hopeless(search, done))
        write_trial(search.folder, examine(search.folder, trial, terms))
        return Done(0)

    monkeypatch.setattr(search_module, "_start", start)
    monkeypatch.setattr(search_module, "wait", lambda *_, **__: None)
    return started
