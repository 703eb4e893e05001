"""The sign is ±1 and passes gradients."""

import jax
import jax.numpy as jnp
import numpy as np

from scare.layers.bitwise_attention import sign


def test_a_sign_is_exactly_plus_or_minus_one_and_plus_at_zero() -> None:
    a = jnp.asarray([-3e38, -1.0000001, -1.0, -1e-30, -0.0, 0.0, 1e-30, 0.3, 1.0, 7.7, 3e38], jnp.float32)
    assert sign(a).dtype == np.float32
    assert sign(a).tolist() == [-1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1]
    many = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    assert set(np.unique(sign(jnp.asarray(many)))) == {-1.0, 1.0}


def test_the_gradient_of_a_sign_is_one_up_to_one_and_zero_beyond() -> None:
    a = jnp.asarray([-2.0, -1.0001, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0001, 2.0], jnp.float32)
    assert jax.grad(lambda a: sign(a).sum())(a).tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 0]
