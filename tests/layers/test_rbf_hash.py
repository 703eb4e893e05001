"""The RBF hash is the paper's formula, and its support set is only carried along."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.layers.bitwise_attention import RbfHash
from scare.layers.buffers import Buffer, split_trainable
from tests.layers.numbers_for_layers import random_tokens

WIDTH, SUPPORTS, BITS = 5, 6, 16
BANDWIDTH = 0.9


@jax.jit
def activations(hashing: RbfHash, x: np.ndarray) -> jax.Array:
    return hashing.activations(x)


@jax.jit
def resampled(hashing: RbfHash, drawn: np.ndarray, vectors: np.ndarray) -> RbfHash:
    return hashing.resampled(drawn, vectors)


def random_hash(frozen: float = 0.0, bandwidth: float = BANDWIDTH) -> RbfHash:
    supports = random_tokens(SUPPORTS, WIDTH, seed=4)
    supports /= np.linalg.norm(supports, axis=1, keepdims=True)
    buffers = (Buffer(np.asarray(number)) for number in (supports, bandwidth, frozen))
    return RbfHash(random_tokens(SUPPORTS, BITS, seed=5), *buffers)


def paper_activations(hashing: RbfHash, x: np.ndarray) -> np.ndarray:
    """(κ(x) − μ1)ᵀ A for one vector, κ from distances of unit vectors."""
    unit = x / np.linalg.norm(x)
    distance = [np.square(unit - support).sum() for support in hashing.supports.array]
    kernel = np.exp(-np.array(distance) / (2 * hashing.bandwidth.array))
    return (kernel - kernel.mean()) @ hashing.projection


@pytest.mark.usefixtures("double")
def test_activations_are_the_papers_formula() -> None:
    hashing, x = random_hash(), random_tokens(8, WIDTH)
    expected = np.stack([paper_activations(hashing, one) for one in x])
    np.testing.assert_allclose(activations(hashing, x), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("double")
def test_raw_vectors_are_compared_as_they_are() -> None:
    hashing, x, drawn = (
        replace(random_hash(bandwidth=0.0), raw=True),
        random_tokens(8, WIDTH),
        random_tokens(6, WIDTH, seed=7),
    )
    after = resampled(hashing, drawn, x)
    distance = np.square(x[:, None] - drawn).sum(axis=-1)
    assert float(after.bandwidth.array) == pytest.approx(distance.mean())
    kernel = np.exp(-distance / (2 * distance.mean()))
    expected = (kernel - kernel.mean(axis=1, keepdims=True)) @ hashing.projection
    np.testing.assert_allclose(activations(after, x), expected, rtol=1e-9, atol=1e-11)
    far = np.abs(activations(after, 40 * x)) < 1e-4  # no support is near: every activation is as good as zero
    assert far.mean() > 0.9


@pytest.mark.usefixtures("double")
def test_a_constant_added_to_a_column_of_a_changes_nothing() -> None:
    hashing, x = random_hash(), random_tokens(8, WIDTH)
    shifted = eqx.tree_at(lambda h: h.projection, hashing, hashing.projection + random_tokens(1, BITS, seed=6))
    np.testing.assert_allclose(activations(shifted, x), activations(hashing, x), rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_the_length_of_a_vector_does_not_matter() -> None:
    hashing, x = random_hash(), random_tokens(8, WIDTH)
    np.testing.assert_allclose(activations(hashing, 40 * x), activations(hashing, x), rtol=1e-8, atol=1e-10)


def test_a_zero_vector_has_a_code_and_a_gradient() -> None:
    total = jax.jit(jax.value_and_grad(lambda x, hashing: hashing(x).sum()))
    number, slope = total(np.zeros((1, WIDTH), np.float32), random_hash())
    assert abs(number) <= BITS
    assert np.isfinite(slope).all()


def test_no_gradient_reaches_supports_or_bandwidth() -> None:
    hashing, x, drawn = random_hash(), random_tokens(8, WIDTH), random_tokens(SUPPORTS, WIDTH, seed=7)
    trainable, _ = split_trainable(hashing)
    assert [leaf.shape for leaf in jax.tree.leaves(trainable)] == [(SUPPORTS, BITS)]

    def total(hashing: RbfHash, drawn: jax.Array, vectors: jax.Array) -> jax.Array:
        return hashing.resampled(drawn, vectors).activations(x).sum()

    slopes, drawn_slope, vector_slope = jax.jit(jax.grad(total, (0, 1, 2)))(hashing, drawn, x)
    assert np.any(slopes.projection)
    for slope in (slopes.supports.array, slopes.bandwidth.array, drawn_slope, vector_slope):
        assert not np.any(slope)


def test_the_first_batch_sets_the_bandwidth_and_later_ones_move_it_a_hundredth() -> None:
    drawn, vectors = random_tokens(SUPPORTS, WIDTH, seed=7), random_tokens(8, WIDTH)
    units = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (vectors, drawn)]
    spread = np.mean([np.square(x - s).sum() for x in units[0] for s in units[1]])
    first = resampled(random_hash(bandwidth=0.0), drawn, vectors)
    later = resampled(random_hash(), drawn, vectors)
    assert float(first.bandwidth.array) == pytest.approx(spread, rel=1e-5)
    assert float(later.bandwidth.array) == pytest.approx(0.99 * BANDWIDTH + 0.01 * spread, rel=1e-5)
    np.testing.assert_allclose(later.supports.array, units[1], rtol=1e-5, atol=1e-6)


def test_a_frozen_hash_keeps_its_supports_and_bandwidth() -> None:
    hashing = random_hash(frozen=1.0)
    after = resampled(hashing, random_tokens(SUPPORTS, WIDTH, seed=7), random_tokens(8, WIDTH))
    np.testing.assert_array_equal(after.supports.array, hashing.supports.array.astype(np.float32))
    assert float(after.bandwidth.array) == np.float32(BANDWIDTH)
    assert after.frozen.array > 0
