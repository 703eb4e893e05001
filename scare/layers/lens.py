"""Sequence Lens Projector: Z = Wᵀ X + B, log2 N tokens that each see the whole window (paper, section SLP)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.layers.embedding import DualEmbedding
from scare.layers.steps import numbers


class SequenceLensProjector(eqx.Module):
    """Tokens [batch, rows, width] to lens tokens [batch, lenses, width]."""

    weight: Array  # W [rows, lenses]
    bias: Array  # B [lenses, width]

    @staticmethod
    def create(weight: Array, width: int, key: Array) -> "SequenceLensProjector":
        """A projector with this W and B ~ N(0, 0.1).

        Paper gap: the initial B is not given; with B = 0 all tokens lie in one plane and share few hash codes.
        """
        return SequenceLensProjector(weight, 0.1 * jax.random.normal(key, (weight.shape[1], width)))

    def __call__(self, tokens: Array) -> Array:
        """The paper's form."""
        return jnp.einsum("tl,btd->bld", self.weight, tokens) + self.bias

    def fused(self, x: Array, embedding: DualEmbedding) -> Array:
        """The same as `self(embedding(x))` without a token per reading.

        Both are linear, so Z = (Wᵀx) E + s ⊗ shared(x) + B with s = Wᵀ1: exact, gradients included.
        """
        seen = jnp.einsum("tl,btc->blc", self.weight, x)
        outer = self.weight.sum(axis=0)[None, :, None] * embedding.shared(x)[:, None, :]
        return seen @ embedding.local + outer + self.bias

    def steps(self, source: str, embedding: DualEmbedding, output: str, scale: np.ndarray) -> list[Step]:
        """`fused` as kernel calls for a source whose rows are 1/scale of the features."""
        weight = numbers(self.weight)
        share = weight.sum(axis=0)
        seen = Step("lens", (source,), "seen", {"weight": weight * scale[:, None].astype(weight.dtype)})
        return [seen, *embedding.token_steps("seen", source, output, share, numbers(self.bias), scale)]


def logarithmic_bins(rows: int) -> list[int]:
    """Bin lengths oldest to newest: powers of two from the newest reading back, the rest in the oldest bin.

    >>> logarithmic_bins(60)
    [29, 16, 8, 4, 2, 1]
    """
    lengths: list[int] = []
    length = 1
    while sum(lengths) + length <= rows:
        lengths.append(length)
        length *= 2
    rest = rows - sum(lengths)
    return [rest, *lengths[::-1]] if rest else lengths[::-1]


def bin_averages(window: int, lenses: int) -> np.ndarray:
    """A lens matrix [window, lenses] that averages logarithmic bins, oldest bin first."""
    lengths = logarithmic_bins(window)
    matrix = np.zeros((window, lenses))
    for bin_index, (start, length) in enumerate(zip(np.cumsum([0, *lengths[:-1]]), lengths, strict=True)):
        matrix[start : start + length, min(bin_index, lenses - 1)] = 1.0
    return matrix / matrix.sum(axis=0)
