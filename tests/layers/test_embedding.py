"""A token is its own reading plus what the whole window has in common."""

import numpy as np
import pytest

from scare.layers.front import DualEmbedding
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

ROWS, WIDTH = 7, 5
pytestmark = pytest.mark.usefixtures("double")


def random_embedding(channels: int, overall: bool) -> DualEmbedding:
    return random_layer(DualEmbedding.create, ROWS, channels, WIDTH, overall)


@pytest.mark.parametrize("channels", [1, 4])
def test_a_token_is_local_plus_global_embedding(channels: int) -> None:
    embedding, x = random_embedding(channels, overall=True), random_tokens(3, ROWS, channels)
    for window, tokens in zip(x, np.asarray(embedding(x)), strict=True):
        whole = embedding.overall.T @ window.reshape(-1) + embedding.overall_bias
        for reading, token in zip(window, tokens, strict=True):
            expected = reading @ embedding.local + embedding.local_bias + whole
            np.testing.assert_allclose(token, expected, rtol=1e-12, atol=1e-12)


def test_without_the_global_part_a_token_sees_only_its_own_reading() -> None:
    embedding, x = random_embedding(1, overall=False), random_tokens(2, ROWS, 1)
    other = x.copy()
    other[:, 1:] += 1.0
    np.testing.assert_array_equal(embedding(x)[:, 0], embedding(other)[:, 0])
    np.testing.assert_allclose(embedding(x), x @ embedding.local + embedding.local_bias, rtol=1e-12)


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("overall", [True, False])
def test_the_kernel_calls_give_the_same_tokens(channels: int, overall: bool) -> None:
    embedding, x = random_embedding(channels, overall), random_tokens(3, ROWS, channels)
    tokens = compute(embedding.steps("x", "tokens", np.ones(ROWS)), "tokens", (ROWS, WIDTH), x)
    np.testing.assert_allclose(tokens, embedding(x), rtol=1e-9, atol=1e-9)
