"""Phases of training: their rounds, what each moves, what it is given, and which checkpoint is kept."""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array

from scare.baselines.sendal import SendalNetwork
from scare.layers.buffers import split_trainable
from scare.models.contract import EvaluateAll, Network
from scare.training.loop import make_optimiser, phase_rounds, split_moving
from tests.training.small_fits import Line, LineNetwork, Trained, line_recipe, make_readings, train

# rounds


@given(
    rounds=st.lists(st.integers(1, 500), min_size=1, max_size=40),
    lengths=st.lists(st.floats(0.01, 1), min_size=1, max_size=5),
)
def test_every_phase_has_its_share_of_the_rounds_and_one_at_least(rounds: list[int], lengths: list[float]) -> None:
    phases = phase_rounds(rounds, tuple(lengths))
    for phase, length in zip(phases, lengths, strict=True):
        assert phase == rounds[: len(phase)]
        assert len(phase) == 1 or abs(len(phase) - length * len(rounds)) <= 0.5


def test_one_phase_keeps_the_rounds_as_they_are() -> None:
    assert phase_rounds([7], (1.0,)) == [[7]]
    assert phase_rounds([2, 3, 2], (1.0,)) == [[2, 3, 2]]


@pytest.mark.parametrize(("rounds", "expected"), [(10, [10, 3, 3]), (3, [3, 1, 1]), (1, [1, 1, 1])])
def test_ten_three_three(rounds: int, expected: list[int]) -> None:
    assert [len(phase) for phase in phase_rounds([5] * rounds, SendalNetwork.phases)] == expected


# a line whose weight learns first, then its bias, from targets of its own


class TwoPhases(LineNetwork):
    """In phase 0 the weight moves; in phase 1 the bias, towards what the line gave at the border plus three."""

    phase: int = eqx.field(static=True, default=0)

    phases = (0.5, 0.5)

    def enter(self, phase: int, targets: np.ndarray, evaluate_all: EvaluateAll) -> tuple[Network, np.ndarray | None]:
        network = replace(self, phase=phase)
        if phase == 0:
            return network, None
        found = evaluate_all(self)
        assert found.shape == targets.shape
        return network, found + 3

    def moving(self) -> "TwoPhases":
        return replace(self, weight=self.phase == 0, bias=self.phase == 1)  # type: ignore[arg-type]

    def loss(self, features: Array, targets: Array, key: Array) -> tuple[Array, Network]:
        return jnp.abs(self(features) - targets).mean(), self


@dataclass(frozen=True)
class TwoPhaseLine(Line):
    """The architecture of that line."""

    def build(self, window: int, channels: int, key: Array) -> TwoPhases:
        return TwoPhases(window, channels, jnp.zeros(window * channels), jnp.ones(()))


@pytest.fixture(scope="module", params=[0.0, 0.9])
def two_phases(request: pytest.FixtureRequest) -> Trained:
    recipe = line_recipe(steps=400, checkpoints=8, average=request.param, weight_decay=0.1)
    return train(make_readings(), replace(recipe, model=TwoPhaseLine()))


def test_what_rests_in_a_phase_does_not_move(two_phases: Trained) -> None:
    before = [one.given[0] for one in two_phases.rounds]
    after = [one.state for one in two_phases.rounds]
    for index, (start, end) in enumerate(zip(before, after, strict=True)):
        moving, resting = ("weight", "bias") if index < 4 else ("bias", "weight")
        assert start.network.phase == index // 4
        assert (getattr(start.network, moving) != getattr(end.network, moving)).any()
        np.testing.assert_array_equal(getattr(start.network, resting), getattr(end.network, resting))
        assert getattr(end.average, resting) is None  # no running mean
        assert all(getattr(part, resting) is None for part in (end.optimiser[1].mu, end.optimiser[1].nu))


def test_a_phase_goes_on_from_what_would_have_shipped(two_phases: Trained) -> None:
    last, first = two_phases.rounds[3].state, two_phases.rounds[4].given[0]
    shipped = last.average if two_phases.recipe.settings.average else last.network
    np.testing.assert_array_equal(first.network.weight, shipped.weight)
    assert int(first.optimiser[1].count) == 0


def test_a_phase_has_its_own_targets(two_phases: Trained) -> None:
    gather, references = two_phases.rounds[0].given[1:3]
    targets, border = two_phases.rounds[4].given[2], two_phases.rounds[4].given[0].network
    every = jnp.arange(len(references))
    np.testing.assert_allclose(targets, border(gather(every)) + 3, rtol=1e-5, atol=1e-5)
    assert float(np.abs(targets - references).mean()) > 1
    assert float(two_phases.rounds[-1].losses[-1]) < 0.5 < float(two_phases.rounds[4].losses[0])
    assert np.isfinite([one.train_rmse for one in two_phases.progress]).tolist() == [True] * 4 + [False] * 4


def test_only_a_checkpoint_of_the_last_phase_is_kept(two_phases: Trained) -> None:
    progress = two_phases.progress
    assert [one.best_rmse for one in progress[:4]] == [float("inf")] * 4
    best = min(one.validation_rmse for one in progress[4:])
    assert progress[-1].best_rmse == best > progress[3].validation_rmse  # the end of the first phase
    assert np.isnan([one.validation_rmse for one in progress[:3]]).all()
    assert two_phases.calibrator.facts["validation_rmse"] == pytest.approx(best, abs=1e-6)
    assert [one.round for one in progress] == list(range(1, 9))


def test_the_rate_starts_anew_in_each_phase(two_phases: Trained) -> None:
    """With a warm-up the first step of a phase does not move anything."""
    given = two_phases.rounds[4].given
    optimiser, (moving, _) = make_optimiser(given[0].network, *given[4:]), split_moving(given[0].network)
    slopes = jax.tree.map(jnp.ones_like, moving)
    updates, _ = optimiser.update(slopes, optimiser.init(moving), moving)
    assert float(jnp.abs(updates.bias)) == 0.0


def test_a_network_that_names_no_parts_moves_altogether() -> None:
    network = Line().build(4, 1, jax.random.key(0))
    moving, rest = split_moving(network)
    trainable, other = split_trainable(network)
    assert jax.tree.structure(moving) == jax.tree.structure(trainable)
    assert jax.tree.structure(rest) == jax.tree.structure(other)
    assert network.phases == (1.0,)
