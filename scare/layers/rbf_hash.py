"""RBF hash: h(x) = sign[(κ(x) − μ1)ᵀ A], trained through the sign (paper, sections EBA and optimisation).

κ_j(x) = exp(−‖x̂ − ŝ_j‖² / 2σ) against m support samples, μ their mean, A [m, bits].

Paper gap: unit vectors (q, k and supports are L2-normalised, so codes do not collapse), the bandwidth rule
(σ = running mean of ‖x̂ − ŝ‖²) and h(0) = +1 are ours; docs/decisions/paper.md says why. `raw` takes vectors as they
are, the paper's literal form.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.layers.buffers import Buffer
from scare.layers.straight_through import sign

EPSILON = 1e-12  # under the square root of a length
MEMORY = 0.99  # share of the old bandwidth kept at each step


def unit(x: Array) -> Array:
    """Rows of length one."""
    return x / jnp.sqrt(jnp.square(x).sum(axis=-1, keepdims=True) + EPSILON)


class RbfHash(eqx.Module):
    """Vectors [..., width] to codes of ±1 [..., bits]."""

    projection: Array  # A [supports, bits]
    supports: Buffer  # S [supports, width], unit vectors unless raw
    bandwidth: Buffer  # σ []; 0 until the first batch
    frozen: Buffer  # [] 1 once the support set no longer changes
    raw: bool = eqx.field(static=True, default=False)

    @staticmethod
    def create(width: int, supports: int, bits: int, key: Array, raw: bool = False) -> "RbfHash":
        """A ~ N(0, 1), supports random until the first batch."""
        first, second = jax.random.split(key)
        drawn = unit(jax.random.normal(second, (supports, width)))
        projection = jax.random.normal(first, (supports, bits))
        return RbfHash(projection, Buffer(drawn), Buffer(jnp.zeros(())), Buffer(jnp.zeros(())), raw)

    def _half_distances(self, x: Array, supports: Array) -> Array:
        """−‖x̂ − ŝ‖² / 2 of vectors [..., width] and supports, [..., supports]."""
        if not self.raw:
            return unit(x) @ supports.T - 1.0
        lengths = jnp.square(x).sum(axis=-1, keepdims=True) + jnp.square(supports).sum(axis=-1)
        return x @ supports.T - lengths / 2

    def activations(self, x: Array) -> Array:
        """What the sign is taken of, [..., bits]."""
        kernel = jnp.exp(self._half_distances(x, self.supports()) / self.bandwidth())
        return (kernel - kernel.mean(axis=-1, keepdims=True)) @ self.projection

    def __call__(self, x: Array) -> Array:
        """The codes."""
        return sign(self.activations(x))

    def folded(self) -> dict[str, Any]:
        """The hash for a plan: (κ − mean κ)ᵀA = κᵀ(A − column means of A), so centring costs nothing."""
        return {
            "supports": self.supports.array,
            "bandwidth": self.bandwidth.array,
            "projection": self.projection - self.projection.mean(axis=0),
            "epsilon": EPSILON,
            "raw": self.raw,
        }

    def resampled(self, drawn: Array, vectors: Array) -> "RbfHash":
        """With a support set drawn from this batch and the bandwidth moved towards it; unchanged when frozen."""
        supports = jnp.where(self.frozen() > 0, self.supports(), drawn if self.raw else unit(drawn))
        spread = -2.0 * self._half_distances(vectors, supports).mean()
        old = self.bandwidth()
        moved = jnp.where(old > 0, MEMORY * old + (1 - MEMORY) * spread, spread)
        bandwidth = jnp.where((self.frozen() > 0) & (old > 0), old, moved)
        return self.with_supports(jax.lax.stop_gradient(supports), jax.lax.stop_gradient(bandwidth))

    def with_supports(self, supports: Array, bandwidth: Array, frozen: Array | None = None) -> "RbfHash":
        """The same projection with another support set."""
        held = self.frozen if frozen is None else Buffer(frozen)
        return RbfHash(self.projection, Buffer(supports), Buffer(bandwidth), held, self.raw)
