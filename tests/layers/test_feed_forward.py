"""The feed-forward network and layer normalisation."""

from dataclasses import replace

import numpy as np
import pytest

from scare.layers.feed_forward import Activation, FeedForward, LayerNorm
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

BATCH, TOKENS, WIDTH, HIDDEN = 3, 5, 4, 6
pytestmark = pytest.mark.usefixtures("double")


def random_norm() -> LayerNorm:
    return LayerNorm(random_tokens(WIDTH, seed=2), random_tokens(WIDTH, seed=3))


def test_a_feed_forward_network_is_two_dense_layers_with_a_relu_between() -> None:
    layer, tokens = random_layer(FeedForward.create, WIDTH, HIDDEN), random_tokens(BATCH, TOKENS, WIDTH)
    inner = tokens @ layer.inner + layer.inner_bias
    assert (inner < 0).any()
    assert (inner > 0).any()
    expected = np.maximum(inner, 0) @ layer.outer + layer.outer_bias
    np.testing.assert_allclose(layer(tokens), expected, rtol=1e-12, atol=1e-12)


def random_gelu() -> FeedForward:
    return replace(random_layer(FeedForward.create, WIDTH, HIDDEN), activation=Activation.GELU)


def test_a_feed_forward_network_may_bend_smoothly() -> None:
    layer, tokens = random_gelu(), random_tokens(BATCH, TOKENS, WIDTH)
    inner = tokens @ layer.inner + layer.inner_bias
    bent = inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))) / 2
    np.testing.assert_allclose(layer(tokens), bent @ layer.outer + layer.outer_bias, rtol=1e-12, atol=1e-12)


def test_a_normalised_token_has_mean_zero_and_variance_one_before_gain_and_bias() -> None:
    tokens, norm = 5 * random_tokens(BATCH, TOKENS, WIDTH) + 3, random_norm()
    plain = (np.asarray(norm(tokens)) - norm.bias) / norm.gain
    np.testing.assert_allclose(plain.mean(axis=-1), 0.0, atol=1e-12)
    np.testing.assert_allclose(plain.var(axis=-1), 1.0, atol=1e-5)


def test_a_constant_token_is_normalised_to_the_bias() -> None:
    norm = random_norm()
    np.testing.assert_allclose(norm(np.full((1, 1, WIDTH), 7.0))[0, 0], norm.bias, atol=1e-12)


@pytest.mark.parametrize("layer", [random_layer(FeedForward.create, WIDTH, HIDDEN), random_gelu(), random_norm()])
def test_the_kernel_calls_give_the_same(layer: FeedForward | LayerNorm) -> None:
    tokens = random_tokens(BATCH, TOKENS, WIDTH)
    out = compute(layer.steps("x", "out"), "out", (TOKENS, WIDTH), tokens)
    np.testing.assert_allclose(out, layer(tokens), rtol=1e-9, atol=1e-9)
