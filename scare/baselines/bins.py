"""The logarithmic binner of TESLA: each bin of the window becomes one token, a learned weighted sum of its readings.

Bins double in length from the newest reading back (`logarithmic_bins`). It is a lens projector whose matrix has
one weight a row, so what `lens` proves holds here: tokens of single readings are never needed.

Differs from the published code: bins of equal length stay apart, so every window length works (there it fails
when the oldest bin is as long as another).
"""

from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.front import DualEmbedding, SequenceLensProjector, logarithmic_bins
from scare.layers.plan_steps import numbers


class LogarithmicBinner(eqx.Module):
    """Tokens [batch, rows, width] to bin tokens [batch, bins, width]."""

    weight: Array  # [rows], shared by the features
    bias: Array  # [bins, width]

    @staticmethod
    def create(rows: int, width: int, key: Array) -> "LogarithmicBinner":
        """Glorot weights, each bin a dense layer of one output; zero bias."""
        lengths = logarithmic_bins(rows)
        limit = np.repeat([sqrt(6 / (length + 1)) for length in lengths], lengths)
        weight = jax.random.uniform(key, (rows,), minval=-1.0) * limit
        return LogarithmicBinner(weight, jnp.zeros((len(lengths), width)))

    @property
    def starts(self) -> np.ndarray:
        """The first row of each bin, oldest bin first, [bins]."""
        return np.cumsum([0, *logarithmic_bins(self.weight.shape[0])[:-1]])

    @property
    def projector(self) -> SequenceLensProjector:
        """The same as a lens projector: row t of its matrix [rows, bins] has weight t at its bin and zeros."""
        rows = np.arange(self.weight.shape[0])
        members = np.searchsorted(self.starts, rows, side="right")[:, None] == np.arange(1, len(self.starts) + 1)
        return SequenceLensProjector(self.weight[:, None] * members, self.bias)

    def __call__(self, tokens: Array) -> Array:
        """The published form."""
        return self.projector(tokens)

    def fused(self, x: Array, embedding: DualEmbedding) -> Array:
        """The same as `self(embedding(x))` without a token per reading."""
        return self.projector.fused(x, embedding)

    def steps(self, source: str, embedding: DualEmbedding, output: str) -> list[Step]:
        """`fused` as kernel calls."""
        weight, bias = numbers(self.weight), numbers(self.bias)
        share = np.add.reduceat(weight, self.starts)
        seen = Step("bins", (source,), "seen", {"weight": weight, "start": self.starts.astype(np.int32)})
        return [seen, *embedding.token_steps("seen", source, output, share, bias, np.ones(len(weight)))]
