"""The binner sums each logarithmic bin with weights of its own, for every window length."""

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.baselines.bins import LogarithmicBinner
from scare.layers.front import DualEmbedding, logarithmic_bins
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

WIDTH = 3
BROKEN_UPSTREAM = [4, 5, 8, 9, 11, 16, 256, 257, 259]  # the oldest bin is as long as another


def random_front(rows: int, channels: int) -> tuple[LogarithmicBinner, DualEmbedding]:
    binner = random_layer(LogarithmicBinner.create, rows, WIDTH, seed=2)
    return binner, random_layer(DualEmbedding.create, rows, channels, WIDTH, True)


def bin_by_hand(binner: LogarithmicBinner, tokens: np.ndarray) -> np.ndarray:
    """One bin after another, oldest first."""
    lengths, out, first = logarithmic_bins(len(binner.weight)), [], 0
    for number, length in enumerate(lengths):
        rows = range(first, first + length)
        total = sum(binner.weight[row] * tokens[:, row] for row in rows)
        out.append(total + binner.bias[number])
        first += length
    return np.stack(out, axis=1)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("rows", [15, 60, *BROKEN_UPSTREAM])
def test_each_bin_is_a_weighted_sum_of_its_own_rows(rows: int) -> None:
    binner, tokens = random_front(rows, 1)[0], random_tokens(2, rows, WIDTH)
    np.testing.assert_allclose(binner(tokens), bin_by_hand(binner, tokens), rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("channels", [1, 4])
def test_fused_equals_the_bins_of_all_tokens_with_its_gradients(channels: int) -> None:
    x, probe = random_tokens(4, 11, channels), random_tokens(4, 4, WIDTH, seed=9)

    def fused(binner: Any, embedding: Any, x: Any) -> Any:
        return binner.fused(x, embedding)

    def unfused(binner: Any, embedding: Any, x: Any) -> Any:
        return binner(embedding(x))

    @jax.jit
    def both(*parts: Any) -> Any:
        forms = [jax.vjp(form, *parts) for form in (fused, unfused)]
        return [(binned, jax.tree.leaves(back(probe))) for binned, back in forms]

    (short, short_slopes), (long, long_slopes) = both(*random_front(11, channels), x)
    np.testing.assert_allclose(short, long, rtol=1e-10, atol=1e-10)
    for one, other in zip(short_slopes, long_slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        assert np.abs(one).max() > 0


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("rows", "channels"), [(15, 1), (16, 4), (60, 4)])
def test_the_kernel_calls_give_the_same_bin_tokens(rows: int, channels: int) -> None:
    binner, embedding = random_front(rows, channels)
    x = random_tokens(4, rows, channels)
    binned = compute(binner.steps("x", embedding, "binned"), "binned", binner.bias.shape, x)
    np.testing.assert_allclose(binned, binner.fused(x, embedding), rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.integers(4, 1500))
def test_every_row_belongs_to_one_bin_whatever_the_window(rows: int) -> None:
    bins = len(logarithmic_bins(rows))
    matrix = LogarithmicBinner(np.ones(rows), np.zeros((bins, WIDTH))).projector.weight
    assert matrix.shape == (rows, bins)
    assert (matrix.sum(axis=1) == 1).all()
    assert matrix.sum(axis=0).tolist() == logarithmic_bins(rows)


def test_a_new_binner_has_glorot_weights_and_no_bias() -> None:
    binner = LogarithmicBinner.create(1023, WIDTH, jax.random.key(0))
    bins = np.split(np.asarray(binner.weight), binner.starts[1:])
    for weights in bins[:4]:
        limit = (6 / (len(weights) + 1)) ** 0.5
        assert 0.9 * limit < np.abs(weights).max() <= limit
    assert not np.any(binner.bias)
