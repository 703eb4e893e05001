"""The recipe "Add a model", walked: a new model listed, trained, saved, and exported."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from scare.baselines import MODELS
from scare.board.build import read_export
from scare.board.host import HostModel
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.calibrator.plan import INPUT, Plan, Step, run
from scare.calibrator.plan_passes import fold
from scare.export.package import export_calibrator
from scare.kernels import Operations, dense_step
from scare.layers.buffers import split_trainable
from scare.models import Network
from scare.training.fit import fit
from scare.training.recipe import Recipe
from tests.contract.test_models import draw_network
from tests.recipes.pages import ROOT, files, recipe
from tests.training.small_fits import make_readings

WINDOW = 4


class LatestNetwork(Network):
    """weight · newest row + bias."""

    weight: Array  # [channels, 1]
    bias: Array  # [1]

    def __call__(self, features: Array) -> Array:
        return (features[:, -1] @ self.weight + self.bias)[:, 0]

    def plan(self) -> Plan:
        steps = Step("newest", (INPUT,), "now"), dense_step("now", "y", self.weight, self.bias)
        return Plan(self.window, self.channels, steps)


@dataclass(frozen=True)
class Latest:
    """A line of the newest reading."""

    citation: ClassVar[str] = "Legendre 1805"
    complexity: ClassVar[str] = "O(1)"

    @staticmethod
    def default() -> "Latest":
        return Latest()

    def build(self, window: int, channels: int, key: Array) -> LatestNetwork:
        return LatestNetwork(window, channels, jnp.zeros((channels, 1)), jnp.zeros(1))

    def parameters(self, window: int, channels: int) -> int:
        return channels + 1

    def operations(self, window: int, channels: int) -> Operations:
        return Operations(multiply_adds=channels)


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "latest", Latest)


def trained() -> Calibrator:
    return fit(make_readings(), recipe=Recipe.preset("default", WINDOW, "latest", steps=60, checkpoints=3, rate=0.1))


def test_the_recipe_names_files_that_are_there() -> None:
    named = files(recipe("Add a model"))
    assert len(named) >= 2
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.usefixtures("double")
def test_it_keeps_the_contract() -> None:
    network, windows = draw_network(Latest(), WINDOW, 3, seed=0), np.random.default_rng(0).normal(size=(5, WINDOW, 3))
    np.testing.assert_allclose(run(network.plan(), windows), network(windows), rtol=1e-12)
    assert sum(leaf.size for leaf in jax.tree.leaves(split_trainable(network)[0])) == Latest().parameters(WINDOW, 3)
    assert count(fold(network.plan())).operations == Latest().operations(WINDOW, 3)


def test_it_is_trained_by_its_name_and_exported(tmp_path: Path) -> None:
    calibrator = trained()
    assert calibrator.facts["validation_rmse"] < 0.2 * np.std(2 * make_readings().values)
    calibrator.save(tmp_path / "latest.scare")
    loaded = Calibrator.load(tmp_path / "latest.scare")
    export_calibrator(loaded, "c", "float32", tmp_path / "latest")
    outputs, _ = HostModel(read_export(tmp_path / "latest")).run(loaded.golden.windows)
    np.testing.assert_allclose(outputs, run(loaded.plan, loaded.golden.windows), rtol=1e-5, atol=1e-6)
