"""The front of SCARE: from readings to tokens (paper, overview and section SLP).

    x [N, C] ─(hat basis Φ)─ u [K, C] ─ dual embedding E, G ─ tokens ─ lens projector W, B ─ Z [L, D]

The dual embedding embeds each reading for itself (local) and the window as a whole (global). Token t is
x_t E + b_local + (b_global + Gᵀ vec x): vec x is the window as one vector, and the bracket is the same for every token.
The Sequence Lens Projector Z = Wᵀ X + B makes L = ⌈log2 N⌉ tokens that each see the whole window. Both are linear, so
tokens of single readings are never needed (`SequenceLensProjector.fused`).

Hats are a triangular basis in log time (not in the paper: preset `default`, docs/decisions/default.md). W = ΦΘ makes
the projector smooth in time with nothing of size N to train, and the window is touched only by u = Φᵀx.
"""

from dataclasses import dataclass
from functools import cached_property
from math import log2

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.kernels import dense_step, hat_fractions, hat_matrix


class DualEmbedding(eqx.Module):
    """Embeds readings [batch, rows, channels] as tokens [batch, rows, width].

    A token is the sum of a local part, from its own reading, and a part that all tokens of a window share.
    """

    local: Array  # [channels, width]
    local_bias: Array  # [width]
    overall: Array | None  # [rows·channels, width]; None: local embedding only
    overall_bias: Array | None  # [width]

    @staticmethod
    def create(rows: int, channels: int, width: int, overall: bool, key: Array) -> "DualEmbedding":
        """Draw local weights of variance 1/channels, which keep a reading's size, and Glorot weights for the window.

        Without `overall` there is a local embedding only.
        """
        first, second = jax.random.split(key)
        local = jax.random.normal(first, (channels, width)) / jnp.sqrt(channels)
        if not overall:
            return DualEmbedding(local, jnp.zeros(width), None, None)
        glorot = jax.nn.initializers.glorot_uniform()(second, (rows * channels, width))
        return DualEmbedding(local, jnp.zeros(width), glorot, jnp.zeros(width))

    def shared(self, x: Array) -> Array:
        """Return the part that all tokens of a window share, [batch, width]."""
        if self.overall is None or self.overall_bias is None:
            return jnp.broadcast_to(self.local_bias, (len(x), self.local_bias.shape[0]))
        return x.reshape(len(x), -1) @ self.overall + (self.overall_bias + self.local_bias)

    def __call__(self, x: Array) -> Array:
        """Compute one token per reading [batch, rows, width], as the paper writes it."""
        return x @ self.local + self.shared(x)[:, None, :]

    def steps(self, source: str, output: str, scale: np.ndarray) -> list[Step]:
        """Return `__call__` as steps of a plan, from the value `source` to the value `output`.

        `scale` [rows] is what to multiply the rows of `source` by to get the features; here it is always 1, because
        tokens are embedded one by one only if `source` is the window itself.
        """
        if self.overall is None:
            return [dense_step(source, output, self.local, self.local_bias)]
        shares = np.ones(len(scale), np.asarray(self.local).dtype)  # a token is its own reading, once
        return self.token_steps(source, source, output, shares, np.zeros((1, 1), shares.dtype), scale)

    def token_steps(
        self, sums: str, source: str, output: str, share: np.ndarray, bias: np.ndarray, scale: np.ndarray
    ) -> list[Step]:
        """Return the plan steps that embed L tokens, sums · local + share ⊗ shared(source) + bias: [L, width].

        The value `sums` [L, channels] is each token's weighted sum of readings, `share` [L] the sum of those weights,
        `bias` [L, width]. Row t of the value `source` is row t of the features divided by scale[t], so the weights that
        read it are multiplied by scale[t].
        """
        local, local_bias = np.asarray(self.local), np.asarray(self.local_bias)
        if self.overall is None or self.overall_bias is None:
            return [Step("dense", (sums,), output, {"weight": local, "bias": bias + np.outer(share, local_bias)})]
        overall = np.asarray(self.overall) * np.repeat(scale, len(local))[:, None].astype(local.dtype)
        row_weights = {"weight": local} | ({"bias": bias} if bias.any() else {})
        return [
            Step("flatten", (source,), "flat"),
            Step("dense", ("flat",), "shared", {"weight": overall, "bias": local_bias + np.asarray(self.overall_bias)}),
            Step("dense", (sums,), "rows", row_weights),
            Step("add_outer", ("rows", "shared"), output, {"share": share}),
        ]


class SequenceLensProjector(eqx.Module):
    """Mixes tokens [batch, rows, width] into lens tokens [batch, lenses, width], each a learned mixture of all rows."""

    weight: Array  # W [rows, lenses]
    bias: Array  # B [lenses, width]

    @staticmethod
    def create(weight: Array, width: int, key: Array) -> "SequenceLensProjector":
        """Make a projector with this W, and draw B with a standard deviation of 0.1.

        Paper gap: the initial B is not given; with B = 0 all tokens lie in one plane and share few hash codes.
        """
        return SequenceLensProjector(weight, 0.1 * jax.random.normal(key, (weight.shape[1], width)))

    def __call__(self, tokens: Array) -> Array:
        """Return Z = Wᵀ X + B from the tokens X [batch, rows, width] of all readings, as the paper writes it."""
        return jnp.einsum("tl,btd->bld", self.weight, tokens) + self.bias

    def fused(self, x: Array, embedding: DualEmbedding) -> Array:
        """Compute `self(embedding(x))` without a token per reading.

        Both are linear, so Z = (Wᵀx) E + s ⊗ shared(x) + B with s = Wᵀ1: exact, gradients included.
        """
        sums = jnp.einsum("tl,btc->blc", self.weight, x)  # Wᵀx [batch, lenses, channels]
        outer = self.weight.sum(axis=0)[None, :, None] * embedding.shared(x)[:, None, :]  # s ⊗ shared(x)
        return sums @ embedding.local + outer + self.bias

    def steps(self, source: str, embedding: DualEmbedding, output: str, scale: np.ndarray) -> list[Step]:
        """Return `fused` as steps of a plan.

        Row t of `source` is row t of the features divided by scale[t], so the weights are multiplied by it.
        """
        weight = np.asarray(self.weight)
        share = weight.sum(axis=0)
        lens_sums = Step("lens", (source,), "seen", {"weight": weight * scale[:, None].astype(weight.dtype)})
        return [lens_sums, *embedding.token_steps("seen", source, output, share, np.asarray(self.bias), scale)]


def logarithmic_bins(rows: int) -> list[int]:
    """Return the bin lengths oldest to newest: powers of two from the newest reading back, the rest in the oldest bin.

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
    """Make a lens matrix [window, lenses] whose lenses average logarithmic bins, oldest first.

    If there are more bins than lenses, the last lens averages the rest.
    """
    lengths = logarithmic_bins(window)
    matrix = np.zeros((window, lenses))
    for bin_index, (start, length) in enumerate(zip(np.cumsum([0, *lengths[:-1]]), lengths, strict=True)):
        matrix[start : start + length, min(bin_index, lenses - 1)] = 1.0
    return matrix / matrix.sum(axis=0)


@dataclass(frozen=True)
class HatBasis:
    """Overlapping triangles (hats) over a window, oldest row first; column 0 of the matrix is the newest reading.

    Lag l has position log2(l + 1); knots lie evenly on that axis, two per doubling of time, and each row is shared
    between the two knots around it.

    >>> [HatBasis(window).size for window in (24, 48, 60, 360)]
    [9, 11, 12, 17]
    """

    window: int

    @cached_property
    def knots(self) -> np.ndarray:
        """Positions of the hats' peaks on the log2(lag + 1) axis, without those that have no lag close to them."""
        even_knots = np.linspace(0.0, log2(self.window), round(2 * log2(self.window)) + 1)
        spacing = even_knots[1]
        lag_positions = np.log2(np.arange(self.window) + 1.0)
        nearest_lag = np.abs(even_knots[:, None] - lag_positions).min(axis=1)  # distance of each knot's nearest lag
        knots = even_knots[nearest_lag / spacing <= 0.5]  # at such a lag the knot's hat has half its height or more
        knots[1] = min(knots[1], lag_positions[1])  # the hat of the newest reading must not reach the one before
        return knots

    @property
    def size(self) -> int:
        """Number of hats."""
        return len(self.knots)

    @cached_property
    def knot_shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower knot of each row, oldest first, and the row's share of the knot above it: [window] each."""
        lower, share = hat_fractions(self.window, self.knots)
        return lower[::-1].copy(), share[::-1].copy()

    @cached_property
    def scale(self) -> np.ndarray:
        """Factors that make each hat's weights sum to one, [size]."""
        return 1 / hat_matrix(*self.knot_shares, self.size).sum(axis=0)

    @cached_property
    def matrix(self) -> np.ndarray:
        """Φ [window, size]; every column sums to one."""
        return hat_matrix(*self.knot_shares, self.size) * self.scale
