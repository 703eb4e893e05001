"""Contenders by name: every network with its recipe, every yardstick, every published correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scare.calibrator.cost import count
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.experiments.yardsticks import YARDSTICKS, Predictor
from scare.models import ABLATION, MODELS
from scare.training.fit import fit
from scare.training.preparation import prepare_inputs
from scare.training.presets import Recipe
from scare.words import suggestion

PAPER, THREE = "scare-paper", "scare-3"  # ours by the paper's preset; the mean of three of ours
BY_PAPER = "-paper"  # of any network's name: by the paper's preset
EXPERIMENTS = {f"exp-{number}": model for number, model in ABLATION.items()}  # the paper's ablation, by its preset
USUAL = (*MODELS, PAPER, THREE)
NETWORKS = (*USUAL, *(f"{name}{BY_PAPER}" for name in MODELS if name != "scare"), *EXPERIMENTS)


@dataclass(frozen=True)
class Job:
    """One contender with one window and one seed; `rate`, if given, takes the place of its recipe's."""

    contender: str
    window: int
    seed: int
    rate: float | None = None

    @property
    def key(self) -> str:
        """The name of the job's files.

        >>> Job("tesla", 60, 0).key, Job("tesla", 60, 0, 0.003).key
        ('tesla-w60-s0', 'tesla-w60-s0-r0.003')
        """
        return f"{self.contender}-w{self.window}-s{self.seed}" + (f"-r{self.rate:g}" if self.rate else "")


def choose(names: Sequence[str]) -> list[str]:
    """The contenders meant by these names; `all` is everyone, but by the paper's preset only ours.

    >>> choose(["scare", "linear"])
    ['scare', 'linear']
    """
    known = [*NETWORKS, *YARDSTICKS]
    for name in names:
        if name not in (*known, "all"):
            raise UsageError(f"no model called '{name}'{suggestion(name, known)}")
    return [*USUAL, *YARDSTICKS] if "all" in names else list(dict.fromkeys(names))


def grid(names: Sequence[str], windows: Sequence[int], seeds: int) -> list[Job]:
    """A job for every name and window, and for a network every seed.

    What has no chance in it runs once, and so does what has several seeds in it.
    """
    return [
        Job(name, window, seed)
        for window in windows
        for name in names
        for seed in range(seeds if name in NETWORKS and name != THREE else 1)
    ]


def fit_contender(
    job: Job, train: Sequence[Readings], validation: Sequence[Readings], settings: Mapping[str, Any]
) -> tuple[Predictor, dict[str, Any]]:
    """A fitted contender, and its parameters, bytes and (of a network) speed in training."""
    if job.contender in NETWORKS:
        return _fit_network(job, train, validation, {**settings, **({"rate": job.rate} if job.rate else {})})
    inputs, target = prepare_inputs(train, validation, Recipe.preset("default", job.window))
    predictor = YARDSTICKS[job.contender](train, validation, inputs, target)
    return predictor, {name: predictor.facts.get(name) for name in ("parameters", "bytes")}


def recipe_of(name: str, window: int, seed: int, settings: Mapping[str, Any]) -> Recipe:
    """The recipe of a network: the default preset or, as its name says, the paper's; three members; an ablation.

    >>> recipe_of("tesla-paper", 360, 0, {}).scaling, recipe_of("exp-2", 360, 0, {}).model == ABLATION[2]
    ('constant', True)
    """
    preset = "paper" if name in EXPERIMENTS or name.endswith(BY_PAPER) else "default"
    model = "scare" if name in EXPERIMENTS or name == THREE else name.removesuffix(BY_PAPER)
    members = {"members": 3} if name == THREE else {}
    recipe = Recipe.preset(preset, window, model, **{**settings, **members, "seed": seed})
    return replace(recipe, name=preset, model=EXPERIMENTS.get(name, recipe.model))


def _fit_network(
    job: Job, train: Sequence[Readings], validation: Sequence[Readings], settings: Mapping[str, Any]
) -> tuple[Predictor, dict[str, Any]]:
    speeds: list[float] = []
    recipe = recipe_of(job.contender, job.window, job.seed, settings)
    calibrator = fit(train, validation, recipe, lambda state: speeds.append(state.windows_per_second))
    if calibrator.facts.get("interrupted"):
        raise KeyboardInterrupt  # half a training is no result
    facts = {
        "parameters": calibrator.facts["parameters"],
        "bytes": count(calibrator.plan).weight_bytes,
        "windows_per_second": float(np.median(speeds)),
        **{name: calibrator.facts[name] for name in ("validation_rmse", "averaged") if name in calibrator.facts},
    }
    return calibrator, facts
