"""The kernel hash is the paper's formula, its sign passes gradients, and its support set is only carried along."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scare.layers.buffers import Buffer, split_trainable
from scare.layers.hashing import KernelHash, draw_stratified, draw_uniform, sign
from tests.layers.numbers_for_layers import random_tokens

WIDTH, SUPPORTS, BITS = 5, 6, 16
BANDWIDTH = 0.9


@jax.jit
def activations(hashing: KernelHash, x: np.ndarray) -> jax.Array:
    return hashing.activations(x)


@jax.jit
def resampled(hashing: KernelHash, drawn: np.ndarray, vectors: np.ndarray) -> KernelHash:
    return hashing.resampled(drawn, vectors)


def random_hash(frozen: float = 0.0, bandwidth: float = BANDWIDTH) -> KernelHash:
    supports = random_tokens(SUPPORTS, WIDTH, seed=4)
    supports /= np.linalg.norm(supports, axis=1, keepdims=True)
    buffers = (Buffer(np.asarray(number)) for number in (supports, bandwidth, frozen))
    return KernelHash(random_tokens(SUPPORTS, BITS, seed=5), *buffers)


def paper_activations(hashing: KernelHash, x: np.ndarray) -> np.ndarray:
    """(κ(x) − μ1)ᵀ A for one vector, κ from distances of unit vectors."""
    unit = x / np.linalg.norm(x)
    distance = [np.square(unit - support).sum() for support in hashing.supports.array]
    kernel = np.exp(-np.array(distance) / (2 * hashing.bandwidth.array))
    return (kernel - kernel.mean()) @ hashing.projection


def test_a_sign_is_exactly_plus_or_minus_one_and_plus_at_zero() -> None:
    a = jnp.asarray([-3e38, -1.0000001, -1.0, -1e-30, -0.0, 0.0, 1e-30, 0.3, 1.0, 7.7, 3e38], jnp.float32)
    assert sign(a).dtype == np.float32
    assert sign(a).tolist() == [-1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1]
    many = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    assert set(np.unique(sign(jnp.asarray(many)))) == {-1.0, 1.0}


def test_the_gradient_of_a_sign_is_one_up_to_one_and_zero_beyond() -> None:
    a = jnp.asarray([-2.0, -1.0001, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0001, 2.0], jnp.float32)
    assert jax.grad(lambda a: sign(a).sum())(a).tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 0]


@pytest.mark.usefixtures("double")
def test_activations_are_the_papers_formula() -> None:
    hashing, x = random_hash(), random_tokens(8, WIDTH)
    expected = np.stack([paper_activations(hashing, one) for one in x])
    np.testing.assert_allclose(activations(hashing, x), expected, rtol=1e-9, atol=1e-11)


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


def test_a_stratified_draw_takes_slot_j_from_lens_j_modulo_the_lenses() -> None:
    windows, lenses, count = 50, 4, 11
    tokens = np.stack(np.meshgrid(np.arange(windows), np.arange(lenses), indexing="ij"), axis=-1).astype(float)
    drawn = np.asarray(draw_stratified(jnp.asarray(tokens), count, jax.random.key(0)))
    assert drawn[:, 1].tolist() == [slot % lenses for slot in range(count)]
    assert len(np.unique(drawn[:, 0])) > 5


def test_a_uniform_draw_takes_every_token_as_often() -> None:
    tokens = jnp.arange(20.0).reshape(5, 4, 1)
    drawn = np.asarray(draw_uniform(tokens, 20_000, jax.random.key(0)))[:, 0].astype(int)
    counts = np.bincount(drawn, minlength=20)
    assert np.square(counts - 1000).sum() / 1000 < 50  # chi-square with 19 degrees of freedom: p ≈ 1e-4


def test_no_gradient_reaches_supports_or_bandwidth() -> None:
    hashing, x, drawn = random_hash(), random_tokens(8, WIDTH), random_tokens(SUPPORTS, WIDTH, seed=7)
    trainable, _ = split_trainable(hashing)
    assert [leaf.shape for leaf in jax.tree.leaves(trainable)] == [(SUPPORTS, BITS)]

    def total(hashing: KernelHash, drawn: jax.Array, vectors: jax.Array) -> jax.Array:
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
