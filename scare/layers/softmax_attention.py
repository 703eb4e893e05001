"""Multi-head softmax attention, the form the paper's ablation starts from."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.steps import dense


class SoftmaxAttention(eqx.Module):
    """Tokens [batch, lenses, width] to mixed values of the same shape; biases everywhere."""

    query: Array  # [width, heads·key_width]
    key: Array
    value: Array
    out: Array  # [heads·key_width, width]
    query_bias: Array
    key_bias: Array
    value_bias: Array
    out_bias: Array
    heads: int = eqx.field(static=True)

    @staticmethod
    def create(width: int, heads: int, key_width: int, key: Array) -> "SoftmaxAttention":
        """Glorot projections, zero biases."""
        keys, inner = jax.random.split(key, 4), heads * key_width
        glorot = jax.nn.initializers.glorot_uniform()
        projections = [glorot(k, (width, inner)) for k in keys[:3]]
        zeros = [jnp.zeros(inner)] * 3
        return SoftmaxAttention(*projections, glorot(keys[3], (inner, width)), *zeros, jnp.zeros(width), heads)

    def __call__(self, tokens: Array) -> Array:
        """Scaled dot-product attention over the tokens."""
        query = self._heads(tokens @ self.query + self.query_bias)
        key = self._heads(tokens @ self.key + self.key_bias)
        value = self._heads(tokens @ self.value + self.value_bias)
        weights = jax.nn.softmax(query @ key.swapaxes(2, 3) / jnp.sqrt(query.shape[-1]), axis=-1)
        mixed = (weights @ value).swapaxes(1, 2).reshape(*tokens.shape[:2], -1)
        return mixed @ self.out + self.out_bias

    def _heads(self, x: Array) -> Array:
        return x.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2)

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        return [
            dense(source, "query", self.query, self.query_bias),
            dense(source, "key", self.key, self.key_bias),
            dense(source, "value", self.value, self.value_bias),
            Step("softmax_attention", ("query", "key", "value"), "mixed", settings={"heads": self.heads}),
            dense("mixed", output, self.out, self.out_bias),
        ]
