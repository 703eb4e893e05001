"""PatchTST's encoder layer (Nie et al. 2023): attention that adds its scores to those of the layer before.

    tokens ─ attention ─ + ─ batch norm ─ feed-forward (GELU) ─ + ─ batch norm ─ tokens

Queries and keys meet in scores before softmax; those of the previous layer are added (residual attention).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.batch_norm import BatchNorm, drop
from scare.layers.linear import Linear
from scare.layers.steps import add, dense


class ResidualAttention(eqx.Module):
    """Tokens [batch, tokens, width] to mixed values of the same shape, and scores [batch, heads, tokens, tokens]."""

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    @staticmethod
    def create(width: int, heads: int, key: Array) -> "ResidualAttention":
        """Four projections with biases."""
        query, keys, value, out = (Linear.create(width, width, k) for k in jax.random.split(key, 4))
        return ResidualAttention(query, keys, value, out, heads)

    def __call__(self, tokens: Array, before: Array | None) -> tuple[Array, Array]:
        """Scaled dot products plus the scores `before` them, softmax, mixed values."""
        query, key, value = (self._split(part(tokens)) for part in (self.query, self.key, self.value))
        scores = jnp.einsum("bihw,bjhw->bhij", query, key) / jnp.sqrt(query.shape[-1])
        scores = scores if before is None else scores + before
        mixed = jnp.einsum("bhij,bjhw->bihw", jax.nn.softmax(scores, axis=-1), value)
        return self.out(mixed.reshape(tokens.shape)), scores

    def _split(self, x: Array) -> Array:
        return x.reshape(*x.shape[:2], self.heads, -1)

    def steps(self, source: str, name: str, before: str | None) -> list[Step]:
        """The same as kernel calls; the scores are `name`.scores, the output is `name`.

        The scale goes into the query. A key's bias moves all scores of a query alike, so softmax does not see it; and
        as weights sum to one, the value's bias goes straight to the output.
        """
        query, key, value, scores, mixed = (f"{name}.{part}" for part in ("query", "key", "value", "scores", "mixed"))
        scale = (self.query.weight.shape[1] // self.heads) ** -0.5
        own = scores if before is None else f"{name}.own"
        return [
            dense(source, query, self.query.weight * scale, self.query.bias * scale),
            dense(source, key, self.key.weight),
            dense(source, value, self.value.weight),
            Step("attention_scores", (query, key), own, settings={"heads": self.heads}),
            *([] if before is None else [add(own, before, scores)]),
            Step("softmax_mix", (scores, value), mixed),
            dense(mixed, name, self.out.weight, self.value.bias @ self.out.weight + self.out.bias),
        ]


class EncoderLayer(eqx.Module):
    """Tokens [batch, tokens, width] to tokens of the same shape, and the scores for the next layer."""

    attention: ResidualAttention
    first_norm: BatchNorm
    inner: Linear
    outer: Linear
    second_norm: BatchNorm

    @staticmethod
    def create(width: int, heads: int, hidden: int, key: Array) -> "EncoderLayer":
        """Random projections, fresh norms."""
        keys = jax.random.split(key, 3)
        return EncoderLayer(
            ResidualAttention.create(width, heads, keys[0]),
            BatchNorm.create(width),
            Linear.create(width, hidden, keys[1]),
            Linear.create(hidden, width, keys[2]),
            BatchNorm.create(width),
        )

    def __call__(self, tokens: Array, before: Array | None) -> tuple[Array, Array]:
        """The layer in use."""
        mixed, scores = self.attention(tokens, before)
        tokens = self.first_norm(tokens + mixed)
        return self.second_norm(tokens + self.outer(jax.nn.gelu(self.inner(tokens)))), scores

    def learn(
        self, tokens: Array, before: Array | None, dropout: float, key: Array
    ) -> "tuple[Array, Array, EncoderLayer]":
        """The layer in training: with dropout and the batch's statistics, and the layer that has learnt them.

        The published layer drops what attention gives twice, after its projection and before the sum: here at once.
        """
        keys = jax.random.split(key, 3)
        mixed, scores = self.attention(tokens, before)
        tokens, first = self.first_norm.learn(tokens + drop(mixed, 1 - (1 - dropout) ** 2, keys[0]))
        hidden = drop(jax.nn.gelu(self.inner(tokens)), dropout, keys[1])
        tokens, second = self.second_norm.learn(tokens + drop(self.outer(hidden), dropout, keys[2]))
        return tokens, scores, EncoderLayer(self.attention, first, self.inner, self.outer, second)

    def steps(self, source: str, name: str, before: str | None) -> list[Step]:
        """The same as kernel calls up to the last norm, whose affine map `second_norm` leaves to the caller."""
        attended, block, hidden = f"{name}.attended", f"{name}.block", f"{name}.hidden"
        return [
            *self.attention.steps(source, attended, before),
            add(source, attended, f"{name}.first"),
            *self.first_norm.steps(f"{name}.first", block),
            *self.inner.steps(block, hidden),
            Step("gelu", (hidden,), f"{name}.active"),
            *self.outer.steps(f"{name}.active", f"{name}.fed"),
            add(block, f"{name}.fed", f"{name}.second"),
        ]

    @staticmethod
    def scores(name: str) -> str:
        """What `steps` call the scores of a layer."""
        return f"{name}.attended.scores"
