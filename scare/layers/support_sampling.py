"""Support sampling: which tokens of a batch an RBF hash compares with while it is trained."""

import jax
import jax.numpy as jnp
from jax import Array


def draw_uniform(tokens: Array, count: int, key: Array) -> Array:
    """`count` of all tokens [batch, lenses, width], each as likely: the paper's sampling."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    return flat[jax.random.randint(key, (count,), 0, len(flat))]


def draw_distinct(tokens: Array, count: int, key: Array) -> Array:
    """`count` of all tokens [batch, tokens, width], each as likely and none twice while there are others."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    return flat[jnp.resize(jax.random.permutation(key, len(flat)), (count,))]


def draw_stratified(tokens: Array, count: int, key: Array) -> Array:
    """`count` tokens, the j-th from lens j mod L of a random window, so that A can attach to its lens."""
    windows = jax.random.randint(key, (count,), 0, len(tokens))
    return tokens[windows, jnp.arange(count) % tokens.shape[1]]
