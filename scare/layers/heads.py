"""Heads: from the tokens of a block to the scaled target, and the interactions of readings that are added to it.

Interactions are products of every two newest readings, which a linear map cannot express: a cell's sensitivity changes
with temperature, a particle's size with humidity. Readings are clamped first (`PRODUCT_LIMIT`), so that the
square of an extreme reading stays bounded.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.linear import PRODUCT_LIMIT
from scare.calibrator.plan import Step
from scare.kernels import dense_step

Numbers = TypeVar("Numbers", np.ndarray, Array)


class FlatHead(eqx.Module):
    """One dense layer over all tokens.

    It starts at zero, so that at first a network's output is that of the linear model that the head is added to.
    """

    weight: Array  # [tokens·width]
    bias: Array  # []

    @staticmethod
    def create(tokens: int, width: int) -> "FlatHead":
        """Start with zero weights and bias."""
        return FlatHead(jnp.zeros(tokens * width), jnp.zeros(()))

    def __call__(self, tokens: Array) -> Array:
        """Map tokens [batch, tokens, width] to outputs [batch]."""
        return tokens.reshape(len(tokens), -1) @ self.weight + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        return [Step("flatten", (source,), "read"), dense_step("read", output, self.weight[:, None], self.bias[None])]


class TwoStepHead(eqx.Module):
    """A dense layer over the tokens, shared by all features, then one over the features."""

    over_tokens: Array  # [tokens]
    token_bias: Array  # []
    over_width: Array  # [width]
    bias: Array  # []

    @staticmethod
    def create(tokens: int, width: int, key: Array) -> "TwoStepHead":
        """Draw Glorot weights; biases are zero."""
        first, second = jax.random.split(key)
        glorot = jax.nn.initializers.glorot_uniform()
        return TwoStepHead(
            glorot(first, (tokens, 1))[:, 0], jnp.zeros(()), glorot(second, (width, 1))[:, 0], jnp.zeros(())
        )

    def __call__(self, tokens: Array) -> Array:
        """Map tokens [batch, tokens, width] to outputs [batch]."""
        features = jnp.einsum("bld,l->bd", tokens, self.over_tokens) + self.token_bias
        return features @ self.over_width + self.bias

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        weights = {"weight": np.asarray(self.over_tokens[:, None]), "bias": np.asarray(self.token_bias[None])}
        return [
            Step("lens", (source,), "pooled", weights),
            Step("flatten", ("pooled",), "read"),
            dense_step("read", output, self.over_width[:, None], self.bias[None]),
        ]


def count_products(channels: int) -> int:
    """Return the number of products of two channels, squares among them."""
    return channels * (channels + 1) // 2


def products(readings: Numbers) -> Numbers:
    """Return the products of every two of the scaled readings [batch, channels], squares included: [batch, pairs].

    Readings are first clamped to ± `PRODUCT_LIMIT`, which is 3.

    >>> products(np.array([[2.0, -5.0]]))
    array([[ 4., -6.,  9.]])
    """
    first, second = np.triu_indices(readings.shape[1])  # channels of each pair, i ≤ j
    library = np if isinstance(readings, np.ndarray) else jnp
    clamped = library.clip(readings, -PRODUCT_LIMIT, PRODUCT_LIMIT)
    return clamped[:, first] * clamped[:, second]


def product_steps(source: str, output: str, weight: Array, scale: float) -> list[Step]:
    """Return the plan steps of `products(readings) @ weight`.

    The value `source` [channels] has the readings divided by `scale`. The product of two of its numbers is therefore
    scale² times too small, and the limit to which readings are clamped is divided by `scale`, too.
    """
    scaled = (np.asarray(weight) * scale**2).astype(weight.dtype)[:, None]
    return [
        Step("products", (source,), f"{output}.pairs", settings={"limit": PRODUCT_LIMIT / scale}),
        Step("dense", (f"{output}.pairs",), output, {"weight": scaled}),
    ]
