"""Heads: from the tokens of a block to the calibrated value."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.plan_steps import dense, numbers


class FlatHead(eqx.Module):
    """One dense layer over all tokens; starts at zero so that the skip speaks first."""

    weight: Array  # [tokens·width]
    bias: Array  # []

    @staticmethod
    def create(tokens: int, width: int) -> "FlatHead":
        """All zero."""
        return FlatHead(jnp.zeros(tokens * width), jnp.zeros(()))

    def __call__(self, tokens: Array) -> Array:
        """Outputs [batch]."""
        return tokens.reshape(len(tokens), -1) @ self.weight + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        return [Step("flatten", (source,), "read"), dense("read", output, self.weight[:, None], self.bias[None])]


class TwoStepHead(eqx.Module):
    """Over lenses for each feature, then over features."""

    over_tokens: Array  # [tokens]
    token_bias: Array  # []
    over_width: Array  # [width]
    bias: Array  # []

    @staticmethod
    def create(tokens: int, width: int, key: Array) -> "TwoStepHead":
        """Glorot weights, zero biases."""
        first, second = jax.random.split(key)
        glorot = jax.nn.initializers.glorot_uniform()
        return TwoStepHead(
            glorot(first, (tokens, 1))[:, 0], jnp.zeros(()), glorot(second, (width, 1))[:, 0], jnp.zeros(())
        )

    def __call__(self, tokens: Array) -> Array:
        """Outputs [batch]."""
        features = jnp.einsum("bld,l->bd", tokens, self.over_tokens) + self.token_bias
        return features @ self.over_width + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        weights = {"weight": numbers(self.over_tokens[:, None]), "bias": numbers(self.token_bias[None])}
        return [
            Step("lens", (source,), "pooled", weights),
            Step("flatten", ("pooled",), "read"),
            dense("read", output, self.over_width[:, None], self.bias[None]),
        ]
