"""PatchTST against its equations in plain NumPy, what training does otherwise, and what it costs."""

from dataclasses import replace
from math import erf, sqrt
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.baselines import PatchTST
from scare.baselines.patchtst import INFERENCE_BATCH, BatchNorm, PatchTSTNetwork, drop
from scare.calibrator.cost import count
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.errors import UsageError
from scare.layers.buffers import Buffer, is_buffer

SMALL = PatchTST(patch=4, stride=2, width=6, heads=2, hidden=5, layers=3)


def random_network(model: PatchTST, window: int, channels: int, seed: int = 0) -> PatchTSTNetwork:
    """Every number drawn anew in float64, running statistics too."""
    rng = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(model.build, window, channels, jax.random.key(0))

    def draw(node: Any) -> Any:
        if is_buffer(node):
            return Buffer(rng.uniform(0.5, 1.5, node.array.shape))
        return 0.3 * rng.normal(size=node.shape)  # scores of a few units, so that no softmax saturates

    return jax.tree.map(draw, shapes, is_leaf=is_buffer)


@eqx.filter_jit
def compute(network: PatchTSTNetwork, windows: np.ndarray) -> jax.Array:
    return network(windows)


@eqx.filter_jit
def learn(network: PatchTSTNetwork, windows: np.ndarray, key: jax.Array) -> tuple[jax.Array, PatchTSTNetwork]:
    return network.learn(windows, key)


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores)
    return shares / shares.sum(axis=-1, keepdims=True)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def normed(x: np.ndarray, norm: BatchNorm) -> np.ndarray:
    return (x - norm.mean.array) / np.sqrt(norm.variance.array + 1e-5) * norm.gain + norm.bias


def transcribe(network: PatchTSTNetwork, window: np.ndarray, model: PatchTST) -> float:
    """The card's equations on one window [rows, channels]."""
    level, spread = 0.0, 1.0
    if model.instance_norm:
        level, spread = window.mean(axis=0), np.sqrt(window.var(axis=0) + 1e-5)
        window, level, spread = (window - level) / spread, level[0], spread[0]
    padded = np.concatenate([window, np.repeat(window[-1:], model.stride, axis=0)])
    starts = range(0, len(padded) - model.patch + 1, model.stride)
    cut = np.array([padded[start : start + model.patch].ravel() for start in starts])
    tokens = cut @ network.embedding.linear.weight + network.embedding.linear.bias + network.embedding.position
    scores, size = np.zeros((model.heads, len(cut), len(cut))), model.width // model.heads
    for layer in network.layers:
        attention, parts = layer.attention, []
        query, key, value = (
            tokens @ part.weight + part.bias for part in (attention.query, attention.key, attention.value)
        )
        for head in range(model.heads):
            part = slice(head * size, (head + 1) * size)
            scores[head] += query[:, part] @ key[:, part].T / np.sqrt(size)
            parts.append(softmax(scores[head]) @ value[:, part])
        tokens = tokens + np.concatenate(parts, axis=1) @ attention.out.weight + attention.out.bias
        tokens = normed(tokens, layer.first_norm)
        hidden = gelu(tokens @ layer.inner.weight + layer.inner.bias)
        tokens = normed(tokens + hidden @ layer.outer.weight + layer.outer.bias, layer.second_norm)
    return float(tokens.ravel() @ network.head.weight[:, 0] + network.head.bias[0]) * spread + level


@pytest.mark.parametrize(
    ("window", "channels", "instance_norm"), [(2, 1, False), (9, 1, True), (12, 3, False), (12, 3, True)]
)
@pytest.mark.usefixtures("double")
def test_the_network_is_its_equations(window: int, channels: int, instance_norm: bool) -> None:
    model = replace(SMALL, instance_norm=instance_norm)
    network = random_network(model, window, channels)
    windows = np.random.default_rng(1).normal(size=(3, window, channels))
    expected = [transcribe(network, one, model) for one in windows]
    np.testing.assert_allclose(compute(network, windows), expected, rtol=1e-10, atol=1e-12)
    plan = network.plan()
    np.testing.assert_allclose(run(plan, windows), expected, rtol=1e-10, atol=1e-12)
    assert model.operations(window, channels) == count(fold(plan)).operations


@pytest.mark.parametrize(("window", "patches"), [(15, 1), (60, 7), (360, 45), (720, 90), (1440, 180)])
def test_the_number_of_patches(window: int, patches: int) -> None:
    assert PatchTST.default().tokens(window) == patches == np.floor((window - 16) / 8 + 1) + 1


def test_sizes_and_cost_are_those_of_the_comparison() -> None:
    assert PatchTST.default().parameters(360, 1) == 17889
    assert PatchTST(width=8, hidden=32, layers=1).parameters(360, 1) == 1729
    assert PatchTST(width=128, heads=16, hidden=256).parameters(360, 1) == 411137
    total = PatchTST.default().operations(360, 1).multiply_adds
    bends, norms = 3 * 3 * 45 * 128, 5 * 45 * 16  # the published count has neither GELU nor norms
    absorbed = 45 * 128 * (16 - 1)  # it has the outer layer of the last block, which the folded plan's head absorbs
    assert total - bends - norms + absorbed == 897_840


@pytest.mark.parametrize("layers", [1, 2])
def test_a_patch_narrower_than_a_token_is_projected_directly(layers: int) -> None:
    model = replace(SMALL, width=16, layers=layers)
    assert model.operations(12, 1) == count(fold(random_network(model, 12, 1).plan())).operations


@pytest.mark.usefixtures("double")
def test_many_windows_are_computed_in_groups() -> None:
    network = random_network(SMALL, 9, 1)
    windows = np.random.default_rng(1).normal(size=(INFERENCE_BATCH + 3, 9, 1))
    np.testing.assert_allclose(compute(network, windows), run(network.plan(), windows), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("double")
def test_training_uses_the_batch_and_moves_the_statistics_by_a_tenth() -> None:
    network = random_network(replace(SMALL, dropout=0.0, layers=1), 9, 2)
    windows = np.random.default_rng(1).normal(size=(5, 9, 2))
    outputs, learnt = learn(network, windows, jax.random.key(0))
    old, new = network.layers[0].first_norm, learnt.layers[0].first_norm
    tokens = np.asarray(network.embedding(windows))
    summed = tokens + np.asarray(network.layers[0].attention(tokens, None)[0])
    mean, variance = summed.mean(axis=(0, 1)), summed.var(axis=(0, 1), ddof=1)
    np.testing.assert_allclose(new.mean.array, 0.9 * old.mean.array + 0.1 * mean, rtol=1e-9)
    np.testing.assert_allclose(new.variance.array, 0.9 * old.variance.array + 0.1 * variance, rtol=1e-9)
    assert not np.allclose(outputs, compute(network, windows))
    again, _ = learn(network, windows, jax.random.key(7))
    np.testing.assert_array_equal(outputs, again)  # without dropout the key does not matter


@pytest.mark.usefixtures("double")
def test_use_agrees_with_training_once_the_statistics_have_settled() -> None:
    network = random_network(replace(SMALL, dropout=0.0, layers=2, instance_norm=True), 9, 1)
    windows = np.random.default_rng(1).normal(size=(400, 9, 1))
    for _ in range(150):
        outputs, network = learn(network, windows, jax.random.key(0))
    np.testing.assert_allclose(compute(network, windows), outputs, rtol=5e-3, atol=5e-3)


def test_dropout_keeps_the_mean_and_is_for_training_only() -> None:
    dropped = np.asarray(jax.jit(drop, static_argnums=1)(np.ones((100, 200), np.float32), 0.1, jax.random.key(0)))
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.9)}
    assert dropped.mean() == pytest.approx(1.0, abs=0.01)
    network = random_network(replace(SMALL, layers=1), 9, 1)
    windows = np.random.default_rng(1).normal(size=(5, 9, 1)).astype(np.float32)
    first, second = (learn(network, windows, jax.random.key(seed))[0] for seed in (0, 1))
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(compute(network, windows), compute(network, windows))


def test_a_layer_drops_what_attention_gives_twice_and_what_the_feed_forward_network_gives_once() -> None:
    layer = random_network(replace(SMALL, layers=1), 9, 1).layers[0]
    still = jax.tree.map(lambda leaf: Buffer(np.zeros(6)) if is_buffer(leaf) else 0 * leaf, layer, is_leaf=is_buffer)
    ones = eqx.tree_at(lambda one: (one.attention.out.bias, one.outer.bias), still, (np.ones(6), np.ones(6)))
    learnt = ones.learn(np.zeros((1000, 20, 6)), None, 0.1, jax.random.key(0))[2]  # of ones: 0 or 1 / kept
    for norm, kept in ((learnt.first_norm, 0.9**2), (learnt.second_norm, 0.9)):
        np.testing.assert_allclose(norm.mean.array, 0.1, rtol=0.03)
        np.testing.assert_allclose(norm.variance.array, 0.1 * (1 - kept) / kept, rtol=0.05)


def test_one_patch_of_one_window_trains_without_dividing_by_zero() -> None:
    network = random_network(replace(SMALL, layers=1), 2, 1)
    outputs, learnt = learn(network, np.ones((1, 2, 1), np.float32), jax.random.key(0))
    leaves = jax.tree.leaves((outputs, learnt))
    assert all(np.isfinite(leaf).all() for leaf in leaves)


def test_the_tanh_form_of_gelu_is_near_the_published_one() -> None:
    x = np.linspace(-6, 6, 1001)
    exact = [0.5 * number * (1 + erf(number / sqrt(2))) for number in x]
    assert np.abs(gelu(x) - exact).max() < 5e-4


def test_a_new_network_starts_as_published() -> None:
    network = eqx.filter_jit(PatchTST(layers=1).build)(360, 1, jax.random.key(0))
    assert 0.019 < np.abs(network.embedding.position).max() <= 0.02
    layer = network.layers[0]
    for linear, inputs in ((network.embedding.linear, 16), (layer.outer, 128), (network.head, 720)):
        assert 0.9 * inputs**-0.5 < np.abs(linear.weight).max() <= inputs**-0.5
        assert np.abs(linear.bias).max() <= inputs**-0.5
    np.testing.assert_array_equal(layer.first_norm.gain, 1.0)
    np.testing.assert_array_equal(layer.first_norm.bias, 0.0)


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(UsageError, match="not a multiple of its 4 heads"):
        PatchTST(width=18)
    with pytest.raises(UsageError, match="at least 1"):
        PatchTST(layers=0)
    with pytest.raises(UsageError, match="dropout is a share"):
        PatchTST(dropout=1.0)
    with pytest.raises(UsageError, match="at least 8 readings"):
        PatchTST.default().build(7, 1, jax.random.key(0))
