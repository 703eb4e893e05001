"""Trained once, looked at by many tests."""

from dataclasses import replace

import pytest

from scare.data.readings import Readings
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.training.recipe import Recipe
from tests.training.small_fits import NETWORK_STAYS, Trained, train


@pytest.fixture(scope="session")
def linear() -> Readings:
    """One box in the linear world: it reads the truth with an offset, a gain and a lag."""
    return simulate(Simulation(boxes=1, days=1.5, kind=SimulationKind.LINEAR, seed=1))[0]


@pytest.fixture(scope="session")
def trained_default(linear: Readings) -> Trained:
    """A short training of the default preset, whose network is kept, as it was scored on validation."""
    recipe = Recipe.preset("default", window=16, steps=300, checkpoints=5)
    return train(linear, replace(recipe, rules=replace(NETWORK_STAYS, refit=False)))


@pytest.fixture(scope="session")
def trained_paper(linear: Readings) -> Trained:
    """A short training of the paper's preset."""
    return train(linear, Recipe.preset("paper", window=16, steps=1000, checkpoints=4, candidates=2))
