"""Multi-head softmax attention, head by head."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.layers.embedding import DualEmbedding
from scare.layers.softmax_attention import SoftmaxAttention
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

BATCH, TOKENS, WIDTH, HEADS, KEY_WIDTH = 3, 5, 4, 2, 3
pytestmark = pytest.mark.usefixtures("double")


def random_attention() -> SoftmaxAttention:
    return random_layer(SoftmaxAttention.create, WIDTH, HEADS, KEY_WIDTH)


def head_weights(attention: SoftmaxAttention, tokens: np.ndarray, head: int) -> np.ndarray:
    """softmax(q kᵀ / √d) of one window and head."""
    part = slice(head * KEY_WIDTH, (head + 1) * KEY_WIDTH)
    query = tokens @ attention.query[:, part] + attention.query_bias[part]
    key = tokens @ attention.key[:, part] + attention.key_bias[part]
    scores = np.exp(query @ key.T / np.sqrt(KEY_WIDTH))
    return scores / scores.sum(axis=1, keepdims=True)


def test_heads_attend_apart_and_are_joined_by_the_output_projection() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    for window, out in zip(tokens, np.asarray(attention(tokens)), strict=True):
        expected = np.tile(attention.out_bias, (TOKENS, 1))
        for head in range(HEADS):
            part, weights = slice(head * KEY_WIDTH, (head + 1) * KEY_WIDTH), head_weights(attention, window, head)
            assert weights.min() > 0
            np.testing.assert_allclose(weights.sum(axis=1), 1.0)
            value = window @ attention.value[:, part] + attention.value_bias[part]
            expected = expected + weights @ value @ attention.out[part]
        np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3])
def test_fused_with_a_local_embedding_it_is_the_same_with_the_same_gradients(channels: int) -> None:
    attention, x = random_attention(), random_tokens(BATCH, TOKENS, channels)
    embedding = random_layer(DualEmbedding.create, TOKENS, channels, WIDTH, False)

    def direct(layers: tuple[SoftmaxAttention, DualEmbedding]) -> tuple[jax.Array, jax.Array]:
        out = layers[0](layers[1](x))
        return (out**3).sum(), out

    def fused(layers: tuple[SoftmaxAttention, DualEmbedding]) -> tuple[jax.Array, jax.Array]:
        out = layers[0].fused(x, layers[1])
        return (out**3).sum(), out

    (slopes, out), (fused_slopes, fused_out) = (
        eqx.filter_jit(eqx.filter_grad(function, has_aux=True))((attention, embedding)) for function in (direct, fused)
    )
    np.testing.assert_allclose(fused_out, out, rtol=1e-10, atol=1e-12)
    for one, other in zip(jax.tree.leaves(fused_slopes), jax.tree.leaves(slopes), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10 * np.abs(np.asarray(out)).max() ** 3)


@pytest.mark.parametrize("channels", [1, 2])
def test_its_kernel_calls_give_the_same_with_a_row_as_key_and_value(channels: int) -> None:
    attention, x = random_attention(), random_tokens(BATCH, TOKENS, channels)
    embedding = random_layer(DualEmbedding.create, TOKENS, channels, WIDTH, False)
    steps = [*embedding.steps("x", "tokens", np.ones(TOKENS)), *attention.fused_steps("x", "tokens", embedding, "out")]
    assert {step.output: step.inputs for step in steps}["means"] == ("slopes", "rows", "rows")
    mixed = compute(steps, "out", (TOKENS, WIDTH), x)
    np.testing.assert_allclose(mixed, attention(embedding(x)), rtol=1e-9, atol=1e-9)


def test_the_kernel_calls_give_the_same() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    mixed = compute(attention.steps("x", "attended"), "attended", (TOKENS, WIDTH), tokens)
    np.testing.assert_allclose(mixed, attention(tokens), rtol=1e-9, atol=1e-9)
