"""Efficient Bitwise Attention: its hash, support sampling and straight-through sign."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scare.kernels import bitwise_attention
from scare.layers.bitwise_attention import (
    EfficientBitwiseAttention,
    RbfHash,
    draw_distinct,
    draw_stratified,
    draw_uniform,
    sign,
)
from scare.layers.buffers import Buffer, split_trainable
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

BATCH, TOKENS, WIDTH, SUPPORTS, BITS = 3, 5, 4, 6, 16


@jax.jit
def attend(attention: EfficientBitwiseAttention, tokens: np.ndarray) -> jax.Array:
    return attention(tokens)


@jax.jit
def hash_both(attention: EfficientBitwiseAttention, tokens: np.ndarray) -> tuple[jax.Array, jax.Array]:
    return attention.hashing(tokens @ attention.query), attention.hashing(tokens @ attention.key)


def random_attention() -> EfficientBitwiseAttention:
    attention = random_layer(EfficientBitwiseAttention.create, WIDTH, SUPPORTS, BITS)
    supports = random_tokens(SUPPORTS, WIDTH, seed=4)
    supports /= np.linalg.norm(supports, axis=1, keepdims=True)
    hashing = attention.hashing.with_supports(supports, np.asarray(0.9), np.asarray(0.0))
    return eqx.tree_at(lambda a: a.hashing, attention, hashing)


def codes_and_values(attention: EfficientBitwiseAttention, tokens: np.ndarray) -> tuple[np.ndarray, ...]:
    query, key = map(np.asarray, hash_both(attention, tokens))
    return query, key, tokens @ attention.value


@pytest.mark.usefixtures("double")
def test_weights_are_positive_and_sum_to_one() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    query, key, value = codes_and_values(attention, tokens)
    weights = BITS + 1 + query @ key.swapaxes(1, 2)
    assert weights.min() >= 1
    weights = weights / weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(attend(attention, tokens), weights @ value, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_the_memory_map_of_the_paper_with_its_bias_gives_the_same() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    mixed = np.asarray(attend(attention, tokens))
    for query, key, value, out in zip(*codes_and_values(attention, tokens), mixed, strict=True):
        memory = sum(np.outer(k, v) for k, v in zip(key, value, strict=True))
        for q, o in zip(query, out, strict=True):
            numerator = q @ memory + attention.bias * value.sum(axis=0)
            denominator = q @ key.sum(axis=0) + TOKENS * attention.bias
            assert denominator > 0
            np.testing.assert_allclose(o, numerator / denominator, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_counted_bits_give_the_same() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    mixed = compute(attention.steps("x", "mixed"), "mixed", (TOKENS, WIDTH), tokens)
    np.testing.assert_allclose(mixed, attend(attention, tokens), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("double")
def test_even_opposite_codes_leave_every_weight_positive() -> None:
    codes, value = np.array([[0x0000, 0xFFFF]], np.uint32), np.array([[[1.0], [3.0]]])
    mixed = bitwise_attention(codes, codes, value, {}, {"bits": BITS, "bias": BITS + 1})
    np.testing.assert_allclose(mixed[0, :, 0], [(33 * 1 + 1 * 3) / 34, (1 * 1 + 33 * 3) / 34])


@pytest.mark.usefixtures("double")
def test_a_mixed_value_lies_between_the_values() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    value, mixed = tokens @ attention.value, np.asarray(attend(attention, tokens))
    assert (mixed >= value.min(axis=1, keepdims=True)).all()
    assert (mixed <= value.max(axis=1, keepdims=True)).all()


@pytest.mark.usefixtures("double")
def test_the_task_trains_query_key_value_and_a() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    trainable, rest = split_trainable(attention)
    slopes = jax.jit(jax.grad(lambda part: (eqx.combine(part, rest)(tokens) ** 2).sum()))(trainable)
    assert len(jax.tree.leaves(slopes)) == 4
    for slope in jax.tree.leaves(slopes):
        assert np.isfinite(slope).all()
        assert np.abs(slope).max() > 0


@pytest.mark.usefixtures("double")
def test_resampling_takes_the_drawn_tokens_as_supports() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    drawn = tokens.reshape(-1, WIDTH)[:SUPPORTS]
    renewed = eqx.filter_jit(attention.resampled)(tokens, drawn)
    expected = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    np.testing.assert_allclose(renewed.hashing.supports.array, expected, rtol=1e-9)
    np.testing.assert_array_equal(renewed.hashing.projection, attention.hashing.projection)


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


def test_a_sign_is_exactly_plus_or_minus_one_and_plus_at_zero() -> None:
    a = jnp.asarray([-3e38, -1.0000001, -1.0, -1e-30, -0.0, 0.0, 1e-30, 0.3, 1.0, 7.7, 3e38], jnp.float32)
    assert sign(a).dtype == np.float32
    assert sign(a).tolist() == [-1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1]
    many = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    assert set(np.unique(sign(jnp.asarray(many)))) == {-1.0, 1.0}


def test_the_gradient_of_a_sign_is_one_up_to_one_and_zero_beyond() -> None:
    a = jnp.asarray([-2.0, -1.0001, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0001, 2.0], jnp.float32)
    assert jax.grad(lambda a: sign(a).sum())(a).tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 0]


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


def test_a_distinct_draw_takes_no_token_twice_while_there_are_others() -> None:
    tokens = jnp.arange(20.0).reshape(5, 4, 1)
    drawn = np.asarray(draw_distinct(tokens, 50, jax.random.key(0)))[:, 0]
    assert np.bincount(drawn[:20].astype(int)).tolist() == [1] * 20
    np.testing.assert_array_equal(drawn[20:40], drawn[:20])
    assert not np.array_equal(drawn[:20], np.arange(20))
