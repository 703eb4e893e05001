"""Bitwise attention in its three forms: explicit weights, the paper's memory map, and counted bits."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.kernels import bitwise_attention
from scare.layers.bitwise_attention import EfficientBitwiseAttention
from scare.layers.buffers import split_trainable
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens

BATCH, TOKENS, WIDTH, SUPPORTS, BITS = 3, 5, 4, 6, 16
pytestmark = pytest.mark.usefixtures("double")


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


def test_weights_are_positive_and_sum_to_one() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    query, key, value = codes_and_values(attention, tokens)
    weights = BITS + 1 + query @ key.swapaxes(1, 2)
    assert weights.min() >= 1
    weights = weights / weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(attend(attention, tokens), weights @ value, rtol=1e-12, atol=1e-12)


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


def test_counted_bits_give_the_same() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    mixed = compute(attention.steps("x", "mixed"), "mixed", (TOKENS, WIDTH), tokens)
    np.testing.assert_allclose(mixed, attend(attention, tokens), rtol=1e-9, atol=1e-9)


def test_even_opposite_codes_leave_every_weight_positive() -> None:
    codes, value = np.array([[0x0000, 0xFFFF]], np.uint32), np.array([[[1.0], [3.0]]])
    mixed = bitwise_attention(codes, codes, value, {}, {"bits": BITS, "bias": BITS + 1})
    np.testing.assert_allclose(mixed[0, :, 0], [(33 * 1 + 1 * 3) / 34, (1 * 1 + 33 * 3) / 34])


def test_a_mixed_value_lies_between_the_values() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    value, mixed = tokens @ attention.value, np.asarray(attend(attention, tokens))
    assert (mixed >= value.min(axis=1, keepdims=True)).all()
    assert (mixed <= value.max(axis=1, keepdims=True)).all()


def test_the_task_trains_query_key_value_and_a() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    trainable, rest = split_trainable(attention)
    slopes = jax.jit(jax.grad(lambda part: (eqx.combine(part, rest)(tokens) ** 2).sum()))(trainable)
    assert len(jax.tree.leaves(slopes)) == 4
    for slope in jax.tree.leaves(slopes):
        assert np.isfinite(slope).all()
        assert np.abs(slope).max() > 0


def test_resampling_takes_the_drawn_tokens_as_supports() -> None:
    attention, tokens = random_attention(), random_tokens(BATCH, TOKENS, WIDTH)
    drawn = tokens.reshape(-1, WIDTH)[:SUPPORTS]
    renewed = eqx.filter_jit(attention.resampled)(tokens, drawn)
    expected = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    np.testing.assert_allclose(renewed.hashing.supports.array, expected, rtol=1e-9)
    np.testing.assert_array_equal(renewed.hashing.projection, attention.hashing.projection)
