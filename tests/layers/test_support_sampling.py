"""Supports are drawn from every token alike, with or without putting back, or each from its own lens."""

import jax
import jax.numpy as jnp
import numpy as np

from scare.layers.bitwise_attention import draw_distinct, draw_stratified, draw_uniform


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
