"""Proposing the next candidate: some around the preset, then Optuna's Parzen estimator for two objectives.

A knob is an ordered list of values, of which Optuna sees the places. It is told of finished trials and keeps nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random

import optuna

from scare.experiments.tuning.knobs import Knobs
from scare.experiments.tuning.trials import Score, Trial

DRAWN = 10  # candidates drawn at random around the preset before Optuna knows enough
TURNED = 1 / 3  # share of the knobs that are turned in these
ATTEMPTS = 5  # proposals in a row of candidates already known
Errors = Callable[[Trial, Sequence[Trial]], Score]  # of a trial, given all that are finished


class Proposer:
    """A search for small errors over knobs, beginning at the preset's own values."""

    def __init__(self, knobs: Knobs, preset: Mapping[str, int | float], errors: Errors, seed: int) -> None:
        self._knobs, self._preset, self._errors, self._seed = knobs, dict(preset), errors, seed
        self._places: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in knobs.items()
        }
        self._study: optuna.Study | None = None
        self._open: dict[int, optuna.Trial] = {}
        self._told: set[int] = set()

    def propose(self, done: Sequence[Trial], running: Sequence[Trial]) -> Trial | None:
        """A candidate that is neither finished nor running, the preset first; None when there is nothing new."""
        study = self._tell(done)
        known = [dict(trial.values) for trial in (*done, *running)]
        if self._preset not in known:
            study.enqueue_trial(self._places_of(self._preset))
        if len(known) >= prod(map(len, self._knobs.values())):
            return None
        asked = self._ask(study, known)
        values = self._values_of(asked)
        last = max((trial.number for trial in (*done, *running)), default=0)
        number = 0 if values == self._preset else last + 1
        self._open[number] = asked
        return Trial(number, values)

    def _ask(self, study: optuna.Study, known: Sequence[Mapping[str, int | float]]) -> optuna.Trial:
        """The next candidate that is not known: drawn around the preset at first, and when Optuna repeats itself."""
        for _ in range(ATTEMPTS if self._preset not in known or len(known) > DRAWN else 0):
            asked = study.ask(self._places)
            if self._values_of(asked) not in known:
                return asked
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(self._places_of(self._draw(known)))
        return study.ask(self._places)

    def _draw(self, known: Sequence[Mapping[str, int | float]]) -> dict[str, int | float]:
        """The preset with some knobs turned at random, not known."""
        draw, values = Random(self._seed + len(known)), self._preset
        while values in known:
            turned = {name: draw.choice(choices) for name, choices in self._knobs.items() if draw.random() < TURNED}
            values = {**self._preset, **turned}
        return values

    def _tell(self, done: Sequence[Trial]) -> optuna.Study:
        """The study, which knows all finished trials; one that is resumed draws other numbers than before."""
        if self._study is None:
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            sampler = optuna.samplers.TPESampler(n_startup_trials=0, seed=self._seed + len(done), constant_liar=True)
            self._study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        for trial in (trial for trial in done if trial.number not in self._told):
            self._told.add(trial.number)
            errors = self._errors(trial, done)
            if trial.number in self._open:
                self._study.tell(self._open.pop(trial.number), errors)
            else:
                places = self._places_of(trial.values)
                known = optuna.trial.create_trial(params=places, distributions=self._places, values=errors)
                self._study.add_trial(known)
        return self._study

    def _values_of(self, asked: optuna.Trial) -> dict[str, int | float]:
        return {name: values[asked.params[name]] for name, values in self._knobs.items()}

    def _places_of(self, values: Mapping[str, int | float]) -> dict[str, int]:
        return {name: self._knobs[name].index(value) for name, value in values.items()}
