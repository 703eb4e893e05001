"""Conventional hash attention: one code for query and key, a hash fitted apart from the task."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.calibrator.plan import Plan, Step, values
from scare.layers.buffers import Buffer, split_trainable
from scare.layers.ecoformer_attention import Bias, HashAttention
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

BATCH, TOKENS, WIDTH, SUPPORTS, BITS = 6, 9, 4, 8, 16
pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture(scope="module")
def start() -> HashAttention:
    """Random numbers, bandwidth 1."""
    attention = random_layer(HashAttention.create, WIDTH, SUPPORTS, BITS)
    return eqx.tree_at(lambda a: a.bandwidth, attention, Buffer(np.ones(())))


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    """Tokens to fit to."""
    return random_tokens(BATCH, TOKENS, WIDTH)


@pytest.fixture(scope="module")
def fitted(start: HashAttention, tokens: np.ndarray) -> HashAttention:
    """The start after one fit."""
    with jax.enable_x64(True):
        return eqx.filter_jit(start.fitted)(tokens, jax.random.key(0))


@pytest.fixture(scope="module")
def attended(fitted: HashAttention, tokens: np.ndarray) -> np.ndarray:
    """What it makes of the tokens."""
    with jax.enable_x64(True):
        return np.asarray(eqx.filter_jit(fitted)(tokens))


def vectors(attention: HashAttention, tokens: np.ndarray) -> np.ndarray:
    projected = tokens @ attention.query_key + attention.query_key_bias
    return projected / np.linalg.norm(projected, axis=-1, keepdims=True)


def wanted_affinity(units: np.ndarray, neighbours: int) -> np.ndarray:
    """+1 for the most similar tokens of each token, −1 for the least similar."""
    similarity = units @ units.swapaxes(1, 2)
    wanted = np.zeros(similarity.shape)
    for row, alike in zip(wanted.reshape(-1, TOKENS), similarity.reshape(-1, TOKENS), strict=True):
        order = np.argsort(alike)
        row[order[-neighbours:]], row[order[:neighbours]] = 1.0, -1.0
    return wanted


def hard_codes(attention: HashAttention, tokens: np.ndarray, column: np.ndarray) -> np.ndarray:
    """One bit of every token [batch, tokens] by this column of A."""
    distance = np.square(vectors(attention, tokens)[:, :, None] - np.asarray(attention.supports.array)).sum(axis=-1)
    kernel = np.exp(-distance / (2 * float(attention.bandwidth.array)))
    return np.where((kernel - kernel.mean(axis=(0, 1))) @ column >= 0, 1.0, -1.0)


def test_the_output_is_weighted_by_positive_weights_that_sum_to_one(
    fitted: HashAttention, tokens: np.ndarray, attended: np.ndarray
) -> None:
    columns = np.asarray(fitted.projection.array).T
    codes = np.stack([hard_codes(fitted, tokens, column) for column in columns], axis=-1)
    weights = BITS + 1 + codes @ codes.swapaxes(1, 2)
    assert weights.min() >= 1
    weights /= weights.sum(axis=-1, keepdims=True)
    expected = weights @ (tokens @ fitted.value + fitted.value_bias) @ fitted.out + fitted.out_bias
    np.testing.assert_allclose(attended, expected, rtol=1e-9, atol=1e-9)


def test_the_kernel_calls_give_the_same(fitted: HashAttention, tokens: np.ndarray, attended: np.ndarray) -> None:
    mixed = compute(fitted.steps("x", "attended"), "attended", (TOKENS, WIDTH), tokens)
    np.testing.assert_allclose(mixed, attended, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", list(Bias))
def test_the_newest_output_alone_is_that_of_all_tokens(fitted: HashAttention, tokens: np.ndarray, form: Bias) -> None:
    attention = replace(fitted, form=form)
    full, newest = eqx.filter_jit(lambda a: (a(tokens), a.newest(tokens)))(attention)
    np.testing.assert_allclose(newest, full[:, -1], rtol=1e-10)
    steps = [*attention.newest_steps("x", "one"), Step("dense", ("one",), "end", {"weight": np.ones((WIDTH, 1))})]
    by_kernels = values(Plan(TOKENS, WIDTH, tuple(steps)), tokens, {"one"})["one"]
    np.testing.assert_allclose(by_kernels, newest, rtol=1e-9)
    of_all = compute(attention.steps("x", "attended"), "attended", (TOKENS, WIDTH), tokens)
    np.testing.assert_allclose(of_all, full, rtol=1e-9, atol=1e-9)


def test_with_the_bias_on_the_token_alone_weights_sum_to_far_less_than_one(
    fitted: HashAttention, tokens: np.ndarray
) -> None:
    constant = eqx.tree_at(
        lambda a: (a.value, a.value_bias, a.out, a.out_bias),
        fitted,
        (np.zeros((WIDTH, WIDTH)), np.ones(WIDTH), np.eye(WIDTH), np.zeros(WIDTH)),
    )  # values of one: an output is its weights' sum
    np.testing.assert_allclose(constant(tokens), 1.0, rtol=1e-12)
    assert float(np.median(replace(constant, form=Bias.TOKEN)(tokens))) < 0.5


def test_a_fit_lowers_the_loss_of_some_bits_and_raises_that_of_none(
    start: HashAttention, fitted: HashAttention, tokens: np.ndarray
) -> None:
    rest = BITS * wanted_affinity(vectors(start, tokens), neighbours=TOKENS // 3)
    losses = []
    for before, after in zip(np.asarray(start.projection.array).T, np.asarray(fitted.projection.array).T, strict=True):
        codes = [hard_codes(fitted, tokens, column) for column in (before, after)]
        losses.append([-np.einsum("bi,bij,bj->b", code, rest, code).mean() / (TOKENS * BITS) for code in codes])
        rest = rest - codes[1][:, :, None] * codes[1][:, None, :]
    losses = np.array(losses)
    assert (losses[:, 1] <= losses[:, 0]).all()
    assert (losses[:, 1] < losses[:, 0]).sum() >= 2


def test_a_fit_draws_supports_from_the_tokens_and_stores_bandwidth_and_centre(
    fitted: HashAttention, tokens: np.ndarray
) -> None:
    units = vectors(fitted, tokens).reshape(-1, WIDTH)
    supports = np.asarray(fitted.supports.array)
    distance = np.square(units[:, None] - supports).sum(axis=-1)
    np.testing.assert_allclose(distance.min(axis=0), 0.0, atol=1e-20)
    assert float(fitted.bandwidth.array) == pytest.approx(distance.mean())
    kernel = np.exp(-distance / (2 * distance.mean()))
    np.testing.assert_allclose(fitted.centre.array, kernel.mean(axis=0), rtol=1e-9)


def test_the_task_never_trains_the_hash(fitted: HashAttention, tokens: np.ndarray) -> None:
    slopes = eqx.filter_jit(eqx.filter_grad(lambda attention: (attention(tokens) ** 2).sum()))(fitted)
    for buffer in (slopes.projection, slopes.supports, slopes.centre, slopes.bandwidth):
        assert not np.any(buffer.array)
    for slope in jax.tree.leaves(split_trainable(slopes)[0]):
        assert np.abs(slope).max() > 0
    assert len(jax.tree.leaves(split_trainable(fitted)[0])) == 6
