"""Small readings and the smallest model that can be trained: a line, compiled in no time."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from jax import Array

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan, Step
from scare.data.readings import Channel, Readings
from scare.kernels import Operations
from scare.models import Network
from scare.training import loop
from scare.training.fit import fit
from scare.training.loop import Progress, TrainingState, run_round
from scare.training.recipe import Recipe, TrainingSettings
from scare.training.selection import SelectionRules

# the network keeps its part in the mean unless it is far worse than the other families; trees have none
NETWORK_STAYS = SelectionRules(tolerance=1.0, trees=False)
LINEAR_ONLY = SelectionRules(smallest_within=1e9, trees=False)
START = datetime(2026, 1, 1, tzinfo=UTC)
REFERENCE = Channel("no2", "ppb")


class LineNetwork(Network):
    """weight · window + bias."""

    weight: Array  # [window·channels]
    bias: Array  # []

    undecayed = frozenset({"bias"})

    def __call__(self, features: Array) -> Array:
        return features.reshape(len(features), -1) @ self.weight + self.bias

    def plan(self) -> Plan:
        weights = {"weight": np.asarray(self.weight)[:, None], "bias": np.asarray(self.bias)[None]}
        steps = Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "y", weights)
        return Plan(self.window, self.channels, steps)


@dataclass(frozen=True)
class Line:
    """The architecture of a line."""

    citation: ClassVar[str] = "Gauss 1809"
    complexity: ClassVar[str] = "O(N)"

    def build(self, window: int, channels: int, key: Array) -> LineNetwork:
        return LineNetwork(window, channels, jnp.zeros(window * channels), jnp.zeros(()))

    def parameters(self, window: int, channels: int) -> int:
        return window * channels + 1

    def operations(self, window: int, channels: int) -> Operations:
        return Operations(window * channels)


def line_recipe(window: int = 4, per_device: bool | None = None, settle_hours: float = 48.0, **settings: Any) -> Recipe:
    """A short training of a line."""
    short = TrainingSettings(**({"steps": 40, "checkpoints": 4, "batch": 16, "rate": 0.05} | settings))
    line = Recipe("default", Line(), window, settings=short)
    return replace(line, per_device=per_device, settle_hours=settle_hours)


def make_readings(
    values: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    device: str = "box-1",
    step_seconds: float = 60.0,
    channels: tuple[str, ...] = ("raw",),
    unit: str = "mV",
) -> Readings:
    """Rows from the start on; unless given, one random channel and a reference that is a line of it.

    Channels in mV are raw: new devices settle. Those in ppb are not.
    """
    if values is None:
        values = 20 + np.random.default_rng(len(device)).normal(size=(200, len(channels))).cumsum(axis=0)
    if targets is None:
        targets = 2 * values[:, 0] + 5
    times = [START + timedelta(seconds=step_seconds * row) for row in range(len(values))]
    columns = {name: values[:, index] for index, name in enumerate(channels)}
    frame = pl.DataFrame({"time": times, **columns, "reference": targets})
    return Readings(device, frame, tuple(Channel(name, unit) for name in channels), REFERENCE)


@dataclass(frozen=True)
class Round:
    """What one round of training was given and what it made of it."""

    given: tuple[Any, ...]  # the arguments of `run_round`
    state: TrainingState
    losses: np.ndarray


@dataclass(frozen=True)
class Trained:
    """A calibrator, what was said while it was trained, and its rounds."""

    recipe: Recipe
    calibrator: Calibrator
    progress: list[Progress]
    rounds: list[Round]


def train(readings: Readings, recipe: Recipe) -> Trained:
    """Fit, listen and watch."""
    progress: list[Progress] = []
    rounds: list[Round] = []

    def watched(*given: Any) -> tuple[TrainingState, Any]:
        state, losses = run_round(*given)
        rounds.append(Round(given, state, np.asarray(losses)))
        return state, losses

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_round", watched)
        return Trained(recipe, fit(readings, recipe=recipe, report=progress.append), progress, rounds)
