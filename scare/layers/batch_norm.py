"""Batch normalisation and dropout: what a network does in training and not, or otherwise, in use."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.buffers import Buffer
from scare.layers.steps import numbers

EPSILON = 1e-5
MOMENTUM = 0.1  # share of the batch in the running statistics


class BatchNorm(eqx.Module):
    """Each feature to mean 0 and variance 1 over tokens and windows, then gain and bias."""

    gain: Array
    bias: Array
    mean: Buffer  # running statistics [width]
    variance: Buffer

    @staticmethod
    def create(width: int) -> "BatchNorm":
        """Gain 1, bias 0, the statistics of a standard normal."""
        return BatchNorm(jnp.ones(width), jnp.zeros(width), Buffer(jnp.zeros(width)), Buffer(jnp.ones(width)))

    def __call__(self, tokens: Array) -> Array:
        """Apply to tokens [batch, tokens, width] with the statistics held."""
        return (tokens - self.mean()) / jnp.sqrt(self.variance() + EPSILON) * self.gain + self.bias

    def learn(self, tokens: Array) -> "tuple[Array, BatchNorm]":
        """The same with the batch's own statistics, and the norm whose statistics have moved towards them."""
        rows = tokens.reshape(-1, tokens.shape[-1])
        mean = rows.mean(axis=0)
        apart = rows - mean
        variance = jnp.square(apart).mean(axis=0)
        out = (apart * (self.gain / jnp.sqrt(variance + EPSILON)) + self.bias).reshape(tokens.shape)
        unbiased = variance * (len(rows) / max(len(rows) - 1, 1))
        moved = [
            Buffer((1 - MOMENTUM) * old() + MOMENTUM * jax.lax.stop_gradient(new))
            for old, new in ((self.mean, mean), (self.variance, unbiased))
        ]
        return out, BatchNorm(self.gain, self.bias, *moved)

    def folded(self) -> tuple[np.ndarray, np.ndarray]:
        """For a plan: with the statistics held, the norm is x · scale + shift."""
        scale = numbers(self.gain) / np.sqrt(numbers(self.variance.array) + EPSILON)
        return scale, numbers(self.bias) - numbers(self.mean.array) * scale

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        scale, shift = self.folded()
        return [Step("affine", (source,), output, {"scale": scale, "shift": shift})]


def drop(x: Array, rate: float, key: Array) -> Array:
    """x with a share `rate` of its numbers set to zero and the others enlarged, so that their mean stays."""
    if rate == 0:
        return x
    kept = jax.random.bits(key, x.shape, jnp.uint16) < round((1 - rate) * 2**16)
    return jnp.where(kept, x / (1 - rate), 0)
