"""EcoFormer against its equations for all tokens, of which the network computes the newest one's only."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.baselines import ecoformer
from scare.baselines.ecoformer import EcoFormer, EcoFormerNetwork
from scare.calibrator.cost import count
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.errors import UsageError
from scare.layers.buffers import Buffer, is_buffer, split_trainable
from scare.layers.ecoformer_attention import Bias

pytestmark = pytest.mark.usefixtures("double")
SMALL = {"width": 4, "expansion": 2, "bits": 9, "supports": 5}
both_forms = pytest.mark.parametrize("bias", list(Bias))


def random_network(model: EcoFormer, window: int, channels: int) -> EcoFormerNetwork:
    rng = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(model.build, window, channels, jax.random.key(0))
    network = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape) / 2, shapes)
    anchors = network.attention.supports.array
    anchors = Buffer(anchors / np.linalg.norm(anchors, axis=1, keepdims=True))
    return eqx.tree_at(
        lambda n: (n.attention.bandwidth, n.attention.supports), network, (Buffer(np.array(0.8)), anchors)
    )


def random_windows(count: int, window: int, channels: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, window, channels)).cumsum(axis=1) / 3


def normalise(tokens: np.ndarray, norm: Any) -> np.ndarray:
    spread = np.sqrt(tokens.var(axis=1, keepdims=True) + 1e-6)
    return (tokens - tokens.mean(axis=1, keepdims=True)) / spread * norm.gain + norm.bias


def attend(attention: Any, tokens: np.ndarray, own: bool) -> np.ndarray:
    """Every token with every token: weights h·h' plus β, on all pairs or on the diagonal."""
    unit = tokens @ attention.query_key + attention.query_key_bias
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    distance = np.square(unit[:, None] - attention.supports.array).sum(axis=2)
    kernel = np.exp(-distance / (2 * float(attention.bandwidth.array)))
    codes = np.where((kernel - attention.centre.array) @ attention.projection.array >= 0, 1.0, -1.0)
    beta = codes.shape[1] + 1
    weights = codes @ codes.T + beta * (np.eye(len(tokens)) if own else 1.0)
    total = codes @ codes.sum(axis=0) + len(tokens) * beta
    values = tokens @ attention.value + attention.value_bias
    return weights / total[:, None] @ values @ attention.out + attention.out_bias


def transcribed(network: Any, x: np.ndarray, own: bool) -> float:
    """The whole pre-norm block for one window x [N, C], then the newest token."""
    tokens = x @ network.embedding.weight + network.embedding.bias
    tokens = tokens if network.position is None else tokens + network.position
    tokens = tokens + attend(network.attention, normalise(tokens, network.norms[0]), own)
    feed = network.feed_forward
    inner = normalise(tokens, network.norms[1]) @ feed.inner + feed.inner_bias
    bent = inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))) / 2
    tokens = tokens + bent @ feed.outer + feed.outer_bias
    return float(tokens[-1] @ network.head.weight[:, 0] + network.head.bias[0])


@both_forms
@pytest.mark.parametrize(("window", "channels"), [(7, 1), (12, 3)])
def test_the_network_is_its_equations(bias: Bias, window: int, channels: int) -> None:
    network, x = random_network(EcoFormer(**SMALL, bias=bias), window, channels), random_windows(4, window, channels)
    expected = [transcribed(network, one, bias is Bias.TOKEN) for one in x]
    np.testing.assert_allclose(eqx.filter_jit(network)(x), expected, rtol=1e-9)
    np.testing.assert_allclose(run(network.plan(), x), expected, rtol=1e-9)
    np.testing.assert_allclose(run(fold(network.plan()), x), expected, rtol=1e-9)
    assert run(network.plan(), x[:0]).shape == (0,)


@pytest.mark.parametrize("positions", [True, False])
def test_only_with_positions_does_the_order_of_older_readings_matter(positions: bool) -> None:
    network, x = random_network(EcoFormer(**SMALL, positions=positions), 12, 1), random_windows(4, 12, 1)
    turned = np.concatenate([x[:, -2::-1], x[:, -1:]], axis=1)
    expected = [transcribed(network, one, own=False) for one in turned]
    np.testing.assert_allclose(run(network.plan(), turned), expected, rtol=1e-9)
    assert np.allclose(run(network.plan(), x), expected) != positions


@both_forms
@pytest.mark.parametrize("window", [15, 360])
@pytest.mark.parametrize("channels", [1, 4])
def test_the_declared_operations_are_those_of_both_forms(bias: Bias, window: int, channels: int) -> None:
    model = EcoFormer(bias=bias)
    counted = count(fold(random_network(model, window, channels).plan())).operations
    assert model.operations(window, channels) == counted


def test_sizes_at_the_published_window() -> None:
    network = random_network(EcoFormer(), 360, 1)
    assert EcoFormer().parameters(360, 1) == sum(leaf.size for leaf in jax.tree.leaves(split_trainable(network)[0]))
    assert EcoFormer(positions=False).parameters(360, 1) == 825
    assert EcoFormer(width=16, positions=False).parameters(360, 1) == 3057
    assert EcoFormer().parameters(360, 1) == 825 + 360 * 8
    buffers = [node.array for node in jax.tree.leaves(network, is_leaf=is_buffer) if is_buffer(node)]
    assert sum(buffer.size for buffer in buffers) == 625 + 1  # and the bandwidth
    assert EcoFormer().operations(360, 1).multiply_adds < 472_000 / 1.8  # published: every token to the end


def test_the_form_of_the_published_code_may_be_named_by_a_word() -> None:
    network = random_network(EcoFormer(bias="token"), 6, 1)  # type: ignore[arg-type]
    assert network.attention.form is Bias.TOKEN


def test_many_windows_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = random_network(EcoFormer(**SMALL), 7, 1), random_windows(11, 7, 1)
    monkeypatch.setattr(ecoformer, "INFERENCE_BATCH", 4)
    np.testing.assert_allclose(eqx.filter_jit(network)(x), run(network.plan(), x), rtol=1e-9)


def test_a_refresh_fits_the_hash_to_a_few_windows_and_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    fit = ecoformer._fit_hash
    monkeypatch.setattr(ecoformer, "FITTED_PAIRS", 3 * 12 * 12)
    monkeypatch.setattr(ecoformer, "_fit_hash", lambda n, x, key: seen.append(x.shape) or fit(n, x, key))
    network = random_network(EcoFormer(**SMALL), 12, 1)
    fitted = network.refresh(random_windows(20, 12, 1), jax.random.key(0))
    assert seen == [(3, 12, 1)]
    assert not np.array_equal(fitted.attention.supports.array, network.attention.supports.array)
    np.testing.assert_allclose(np.linalg.norm(fitted.attention.supports.array, axis=1), 1.0)
    for before, after in zip(*(jax.tree.leaves(split_trainable(n)[0]) for n in (network, fitted)), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_code_of_more_than_a_word_is_refused() -> None:
    with pytest.raises(UsageError, match="1 to 32 bits, one word, not 33"):
        EcoFormer(bits=33)
