"""Dual embedding: each reading for itself (local) and the window as a whole (global); paper, overview section.

With x [T, C], token t is x_t E + b_local + (b_global + Gᵀ vec x). The bracket is the same for every token, so
`lens` never needs the tokens themselves: see `SequenceLensProjector.fused`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.steps import dense, numbers


class DualEmbedding(eqx.Module):
    """Readings [batch, rows, channels] to tokens [batch, rows, width]."""

    local: Array  # [channels, width]
    local_bias: Array  # [width]
    overall: Array | None  # [rows·channels, width]; None: local embedding only
    overall_bias: Array | None  # [width]

    @staticmethod
    def create(rows: int, channels: int, width: int, overall: bool, key: Array) -> "DualEmbedding":
        """Random weights: a reading keeps its size (variance 1/channels), the window's part is Glorot."""
        first, second = jax.random.split(key)
        local = jax.random.normal(first, (channels, width)) / jnp.sqrt(channels)
        if not overall:
            return DualEmbedding(local, jnp.zeros(width), None, None)
        glorot = jax.nn.initializers.glorot_uniform()(second, (rows * channels, width))
        return DualEmbedding(local, jnp.zeros(width), glorot, jnp.zeros(width))

    def shared(self, x: Array) -> Array:
        """What all tokens of a window have in common, [batch, width]."""
        if self.overall is None or self.overall_bias is None:
            return jnp.broadcast_to(self.local_bias, (len(x), self.local_bias.shape[0]))
        return x.reshape(len(x), -1) @ self.overall + (self.overall_bias + self.local_bias)

    def __call__(self, x: Array) -> Array:
        """One token a reading: the paper's form."""
        return x @ self.local + self.shared(x)[:, None, :]

    def steps(self, source: str, output: str, scale: np.ndarray) -> list[Step]:
        """`__call__` as kernel calls, for features that are themselves the source (scale all ones)."""
        if self.overall is None:
            return [dense(source, output, self.local, self.local_bias)]
        rows = np.ones(len(scale), numbers(self.local).dtype)
        return self.token_steps(source, source, output, rows, np.zeros((1, 1), rows.dtype), scale)

    def token_steps(
        self, seen: str, source: str, output: str, share: np.ndarray, bias: np.ndarray, scale: np.ndarray
    ) -> list[Step]:
        """seen · local + share ⊗ shared(source) + bias, where rows of source are 1/scale of the features."""
        local, constant = numbers(self.local), numbers(self.local_bias)
        if self.overall is None or self.overall_bias is None:
            return [Step("dense", (seen,), output, {"weight": local, "bias": bias + np.outer(share, constant)})]
        overall = numbers(self.overall) * np.repeat(scale, len(local))[:, None].astype(local.dtype)
        rows = {"weight": local} | ({"bias": bias} if bias.any() else {})
        return [
            Step("flatten", (source,), "flat"),
            Step("dense", ("flat",), "shared", {"weight": overall, "bias": constant + numbers(self.overall_bias)}),
            Step("dense", (seen,), "rows", rows),
            Step("add_outer", ("rows", "shared"), output, {"share": share}),
        ]
