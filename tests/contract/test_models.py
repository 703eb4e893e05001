"""What every model promises: shapes, seeds, gradients, formulas, and a plan that is the network."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.baselines import MODELS
from scare.calibrator.cost import count
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.layers.buffers import Buffer, is_buffer, split_trainable
from scare.models import ABLATION, Architecture, Network, Scare
from tests.contract import test_learning

WINDOWS = (15, 60, 360, 720, 1440)
BATCH, WINDOW = 6, 16


def _cases() -> dict[str, Architecture]:
    presets = {
        f"{name}-{preset}": getattr(model, preset)()
        for name, model in MODELS.items()
        for preset in ("default", "paper")
        if hasattr(model, preset)
    }
    ablation = {f"ablation-{number}": model for number, model in ABLATION.items()}
    return presets | {name: model for name, model in ablation.items() if model not in presets.values()}


CASES = _cases()
every_model = pytest.mark.parametrize("model", CASES.values(), ids=CASES)
every_channels = pytest.mark.parametrize("channels", [1, 4])


@pytest.fixture(autouse=True)
def _not_exempt(request: pytest.FixtureRequest) -> None:
    """Skips a check that the model's file names, with its reason, as one that cannot hold."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    reasons = getattr(parameters.get("model"), "exempt", {})
    if (reason := reasons.get(request.function.__name__.removeprefix("test_"))) is not None:
        pytest.skip(reason)


def test_a_model_is_exempt_only_from_checks_that_exist_and_gives_a_reason() -> None:
    checks = {*globals(), *vars(test_learning)}
    for name, model in MODELS.items():
        for check, reason in getattr(model, "exempt", {}).items():
            assert f"test_{check}" in checks, f"{name} is exempt from '{check}', which is no check"
            assert reason


@cache
def random_network(model: Architecture, window: int, channels: int) -> Network:
    """The network with all numbers drawn anew in float64, biases and heads too; nothing is compiled."""
    return draw_network(model, window, channels, seed=0)


def draw_network(model: Architecture, window: int, channels: int, seed: int) -> Network:
    """One of the random networks of a model."""
    rng = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(model.build, window, channels, jax.random.key(0))

    def draw(path: Any, node: Any) -> Any:
        if is_buffer(node) and (node.array.ndim == 0 or path[-1].name == "variance"):  # a bandwidth is positive too
            return Buffer(rng.uniform(0.5, 1.5, node.array.shape))
        if is_buffer(node) and path[-1].name == "supports":  # of a hash: unit vectors
            supports = rng.normal(size=node.array.shape)
            return Buffer(supports / np.linalg.norm(supports, axis=-1, keepdims=True))
        return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape) / max(1.0, leaf.size) ** 0.25, node)

    return jax.tree_util.tree_map_with_path(draw, shapes, is_leaf=is_buffer)


def random_windows(channels: int, window: int = WINDOW) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(BATCH, window, channels))


def features(network: Network, windows: np.ndarray) -> np.ndarray:
    """What the network reads of windows."""
    return windows if network.basis is None else np.einsum("tk,btc->bkc", network.basis, windows)


@cache
def compiled(model: Architecture, channels: int) -> Callable[[np.ndarray], tuple[np.ndarray, list[np.ndarray]]]:
    """Windows to outputs and, with more than one channel, the gradient of every parameter."""
    network = random_network(model, WINDOW, channels)
    trainable, rest = split_trainable(network)

    def loss(part: Network, read: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs = eqx.combine(part, rest)(read)
        return (outputs**2).mean(), outputs

    @jax.jit
    def evaluate(part: Network, read: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        if channels == 1:
            return loss(part, read)[1], []
        slopes, outputs = jax.grad(loss, has_aux=True)(part, read)
        return outputs, jax.tree.leaves(slopes)

    return lambda windows: jax.tree.map(np.asarray, evaluate(trainable, features(network, windows)))


def trainable_leaves(network: Network) -> list[np.ndarray]:
    return jax.tree.leaves(split_trainable(network)[0])


def test_every_model_of_the_paper_is_among_the_cases() -> None:
    assert CASES["scare-default"] == Scare.default()
    assert CASES["scare-paper"] == Scare.paper() == ABLATION[6]
    assert sorted(ABLATION) == [1, 2, 3, 4, 5, 6]
    assert set(ABLATION.values()) <= set(CASES.values())


@every_model
def test_an_architecture_is_a_record_of_at_most_eight_fields(model: Architecture) -> None:
    records = [model, *(getattr(model, field.name) for field in fields(model))]  # type: ignore[arg-type]
    for record in filter(is_dataclass, records):
        assert len(fields(record)) <= 8
        assert hash(record) == hash(record)


@every_model
def test_a_model_names_its_source_and_its_complexity(model: Architecture) -> None:
    assert model.citation
    assert "N" in model.complexity


@every_model
def test_the_same_key_gives_the_same_parameters(model: Architecture) -> None:
    first, again = (trainable_leaves(model.build(WINDOW, 1, jax.random.key(3))) for _ in range(2))
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, same)
    assert all(np.isfinite(leaf).all() for leaf in first)


@every_model
def test_another_key_gives_other_parameters(model: Architecture) -> None:
    first, other = (trainable_leaves(model.build(WINDOW, 1, jax.random.key(seed))) for seed in (3, 4))
    assert any((one != another).any() for one, another in zip(first, other, strict=True))


@every_model
@every_channels
def test_outputs_are_one_number_a_window(model: Architecture, channels: int) -> None:
    network = random_network(model, WINDOW, channels)
    read = features(network, random_windows(channels))
    assert eqx.filter_eval_shape(network, read).shape == (BATCH,)
    assert (network.window, network.channels) == (WINDOW, channels)


@every_model
def test_a_training_step_gives_back_a_network_of_the_same_form(model: Architecture) -> None:
    network = random_network(model, WINDOW, 4)
    read = features(network, random_windows(4))
    outputs, learned = eqx.filter_eval_shape(network.learn, read, jax.random.key(0))
    assert outputs.shape == (BATCH,)
    assert jax.tree.structure(learned) == jax.tree.structure(network)
    assert [leaf.shape for leaf in jax.tree.leaves(learned)] == [np.shape(leaf) for leaf in jax.tree.leaves(network)]


@every_model
@pytest.mark.usefixtures("double")
def test_every_parameter_has_a_finite_gradient(model: Architecture) -> None:
    _, found = compiled(model, 4)(random_windows(4))
    assert len(found) == len(trainable_leaves(random_network(model, WINDOW, 4)))
    assert all(np.isfinite(slope).all() for slope in found)
    assert sum(bool(np.any(slope)) for slope in found) >= len(found) - 1  # softmax does not see a bias of all keys


@every_model
@every_channels
@pytest.mark.usefixtures("double")
def test_the_plan_computes_what_the_network_computes(model: Architecture, channels: int) -> None:
    windows, plan = random_windows(channels), random_network(model, WINDOW, channels).plan()
    outputs, _ = compiled(model, channels)(windows)
    assert outputs.dtype == np.float64
    assert np.std(outputs) > 1e-3
    np.testing.assert_allclose(run(plan, windows), outputs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(run(fold(plan), windows), outputs, rtol=1e-9, atol=1e-9)


@every_model
@pytest.mark.usefixtures("double")
def test_an_output_depends_on_its_own_window_only(model: Architecture) -> None:
    windows, plan = random_windows(4), random_network(model, WINDOW, 4).plan()
    others = windows.copy()
    others[1:] += 1.0
    together, apart = (compiled(model, 4)(batch)[0] for batch in (windows, others))
    np.testing.assert_allclose(apart[0], together[0], rtol=1e-12)
    one_by_one = [run(plan, window[None])[0] for window in windows]
    np.testing.assert_allclose(one_by_one, together, rtol=1e-9, atol=1e-9)


@every_model
@every_channels
@pytest.mark.parametrize("window", WINDOWS)
def test_the_declared_formulas_are_what_is_counted(model: Architecture, channels: int, window: int) -> None:
    network = random_network(model, window, channels)
    assert model.parameters(window, channels) == sum(leaf.size for leaf in trainable_leaves(network))
    assert model.operations(window, channels) == count(fold(network.plan())).operations


@every_model
@every_channels
def test_folding_never_costs_and_never_changes_the_function(model: Architecture, channels: int) -> None:
    windows, plan = random_windows(channels, 60), random_network(model, 60, channels).plan()
    folded = fold(plan)
    assert count(folded).operations.multiply_adds <= count(plan).operations.multiply_adds
    np.testing.assert_allclose(run(folded, windows), run(plan, windows), rtol=1e-9, atol=1e-9)


@every_model
@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_windows_that_never_change_divide_by_nothing(model: Architecture, number: type[np.floating[Any]]) -> None:
    plan = fold(random_network(model, WINDOW, 2).plan()).astype(number)
    windows = np.stack([np.full((WINDOW, 2), level, number) for level in (0.0, 1.5, -40.0, 1e4)])
    with np.errstate(divide="raise", invalid="raise"):
        assert np.isfinite(run(plan, windows)).all()


@every_model
def test_a_network_names_only_parameters_that_exist(model: Architecture) -> None:
    paths = jax.tree_util.tree_leaves_with_path(split_trainable(random_network(model, WINDOW, 1))[0])
    names = {path[-1].name for path, _ in paths}
    network = random_network(model, WINDOW, 1)
    assert network.slow & names == ({"skip", "curve"} & names)
    assert {name for name in names if "bias" in name} <= network.undecayed
