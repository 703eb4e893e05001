"""The feed-forward network and layer normalisation of a transformer block."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.steps import dense, numbers


class FeedForward(eqx.Module):
    """relu(x W1 + b1) W2 + b2 on each token."""

    inner: Array  # [width, hidden]
    inner_bias: Array
    outer: Array  # [hidden, width]
    outer_bias: Array

    @staticmethod
    def create(width: int, hidden: int, key: Array) -> "FeedForward":
        """He weights, zero biases."""
        first, second = jax.random.split(key)
        he = jax.nn.initializers.he_normal()
        return FeedForward(he(first, (width, hidden)), jnp.zeros(hidden), he(second, (hidden, width)), jnp.zeros(width))

    def __call__(self, tokens: Array) -> Array:
        """Apply to each token [batch, tokens, width]."""
        return jax.nn.relu(tokens @ self.inner + self.inner_bias) @ self.outer + self.outer_bias

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        return [
            dense(source, "hidden", self.inner, self.inner_bias),
            Step("relu", ("hidden",), "active"),
            dense("active", output, self.outer, self.outer_bias),
        ]


class LayerNorm(eqx.Module):
    """Each token to mean 0 and variance 1, then gain and bias."""

    gain: Array
    bias: Array
    epsilon: float = eqx.field(static=True, default=1e-6)

    @staticmethod
    def create(width: int) -> "LayerNorm":
        """Gain 1, bias 0."""
        return LayerNorm(jnp.ones(width), jnp.zeros(width))

    def __call__(self, tokens: Array) -> Array:
        """Apply to each token [batch, tokens, width]."""
        centred = tokens - tokens.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + self.epsilon) * self.gain + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        weights = {"gain": numbers(self.gain), "bias": numbers(self.bias)}
        return [Step("layer_norm", (source,), output, weights, {"epsilon": self.epsilon})]
