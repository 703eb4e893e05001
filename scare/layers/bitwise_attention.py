"""Efficient Bitwise Attention: one head whose weights come from hash codes (paper, section EBA).

Weight of key i for query j: β + h(q_j)·h(k_i) with β = bits + 1, always positive. In bits, with q and k packed
in words: β + bits − 2·popcount(q XOR k); that is the kernel `bitwise_attention` of the plan.

Paper gap: the bias is "omitted for clarity" in print but mandatory (half of all denominators would be ≤ 0).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.rbf_hash import RbfHash
from scare.layers.steps import dense, hash_codes


class EfficientBitwiseAttention(eqx.Module):
    """Tokens [batch, lenses, width] to mixed values of the same shape."""

    query: Array  # [width, width]
    key: Array  # [width, width]
    value: Array  # [width, width]
    hashing: RbfHash

    @staticmethod
    def create(width: int, supports: int, bits: int, key: Array, raw: bool = False) -> "EfficientBitwiseAttention":
        """Glorot projections and a random hash, of unit vectors or of raw ones."""
        keys = jax.random.split(key, 4)
        query, key, value = (jax.nn.initializers.glorot_uniform()(k, (width, width)) for k in keys[:3])
        return EfficientBitwiseAttention(query, key, value, RbfHash.create(width, supports, bits, keys[3], raw))

    @property
    def bias(self) -> int:
        """β: one more than the largest possible disagreement."""
        return self.hashing.projection.shape[1] + 1

    def __call__(self, tokens: Array) -> Array:
        """Attention with the support set held."""
        query_codes, key_codes = self.hashing(tokens @ self.query), self.hashing(tokens @ self.key)
        weights = self.bias + query_codes @ key_codes.swapaxes(1, 2)
        return weights @ (tokens @ self.value) / weights.sum(axis=-1, keepdims=True)

    def resampled(self, tokens: Array, drawn: Array) -> "EfficientBitwiseAttention":
        """The same attention with a support set drawn from these tokens."""
        vectors = jnp.concatenate([tokens @ self.query, tokens @ self.key], axis=1)
        return eqx.tree_at(lambda a: a.hashing, self, self.hashing.resampled(drawn, vectors))

    def steps(self, source: str, output: str) -> list[Step]:
        """The same as kernel calls."""
        hashing = self.hashing.folded()
        return [
            dense(source, "query", self.query),
            dense(source, "key", self.key),
            dense(source, "value", self.value),
            hash_codes("query", "query_codes", hashing),
            hash_codes("key", "key_codes", hashing),
            Step(
                "bitwise_attention",
                ("query_codes", "key_codes", "value"),
                output,
                settings={"bits": self.bias - 1, "bias": self.bias},
            ),
        ]
