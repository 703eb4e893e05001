"""Efficient Bitwise Attention: one head whose weights come from hash codes (paper, section EBA).

Weight of key i for query j: β + h(q_j)·h(k_i) with β = bits + 1, always positive. In bits, with q and k packed
in words: β + bits − 2·popcount(q XOR k); that is the kernel `bitwise_attention` of the plan.

h(x) = sign[(κ(x) − μ1)ᵀ A] is the RBF hash (paper, sections EBA and optimisation): κ_j(x) = exp(−‖x̂ − ŝ_j‖² / 2σ)
against m support samples ŝ_j, μ the mean of κ, A [m, bits], trained through the sign.

Paper gap: the bias β is "omitted for clarity" in print but mandatory (half of all denominators would be ≤ 0). Unit
vectors (q, k and supports are L2-normalised, so codes do not collapse), the bandwidth rule (σ = running mean of
‖x̂ − ŝ‖²) and h(0) = +1 are ours; docs/decisions/paper.md says why. With `raw`, vectors are not normalised, exactly as
the paper's formula reads.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Step
from scare.kernels import dense_step
from scare.layers.buffers import Buffer

EPSILON = 1e-12  # under the square root of a norm
MEMORY = 0.99  # weight of the old bandwidth in its running mean


class RbfHash(eqx.Module):
    """The RBF hash, from vectors [..., width] to codes of ±1 [..., bits]; the module's docstring has its formula.

    It divides vectors by their length first, unless it is `raw`.
    """

    projection: Array  # A [supports, bits]
    supports: Buffer  # S [supports, width], unit vectors unless raw
    bandwidth: Buffer  # σ []; 0 until the first batch
    frozen: Buffer  # [] 1 once the support set no longer changes
    raw: bool = eqx.field(static=True, default=False)

    @staticmethod
    def create(width: int, supports: int, bits: int, key: Array, raw: bool = False) -> "RbfHash":
        """Draw the projection A from N(0, 1), and random supports, which the first batch replaces.

        With `raw`, vectors are hashed as they are, otherwise divided by their length.
        """
        first, second = jax.random.split(key)
        random_supports = unit(jax.random.normal(second, (supports, width)))
        projection = jax.random.normal(first, (supports, bits))
        return RbfHash(projection, Buffer(random_supports), Buffer(jnp.zeros(())), Buffer(jnp.zeros(())), raw)

    def _exponents(self, x: Array, supports: Array) -> Array:
        """Return −‖x̂ − ŝ‖² / 2 for vectors x [..., width] and each support s: [..., supports].

        x̂ and ŝ are unit vectors, unless the hash is raw. The kernel κ is the exponential of this over the bandwidth σ.
        """
        if not self.raw:
            return unit(x) @ supports.T - 1.0  # of unit vectors, half the squared distance is 1 − x̂·ŝ
        squares = jnp.square(x).sum(axis=-1, keepdims=True) + jnp.square(supports).sum(axis=-1)
        return x @ supports.T - squares / 2

    def activations(self, x: Array) -> Array:
        """Return the numbers whose signs are the codes of vectors x [..., width]: [..., bits].

        They are (κ(x) − μ1)ᵀ A, with κ(x) the kernel values of x at the supports, and μ their mean.
        """
        kernel = jnp.exp(self._exponents(x, self.supports()) / self.bandwidth())
        return (kernel - kernel.mean(axis=-1, keepdims=True)) @ self.projection

    def __call__(self, x: Array) -> Array:
        """Hash vectors x [..., width] to codes of ±1: [..., bits]."""
        return sign(self.activations(x))

    def folded(self) -> dict[str, Any]:
        """Return the hash as the argument `hashing` of `hash_codes_step`.

        A code is the sign of (κ − μ1)ᵀA, for the kernel values κ at the supports and their mean μ. Here the column
        means of A are subtracted from it, so that μ need not be computed: (κ − μ1)ᵀA = κᵀ(A − column means of A).
        """
        return {
            "supports": self.supports.array,
            "bandwidth": self.bandwidth.array,
            "projection": self.projection - self.projection.mean(axis=0),
            "epsilon": EPSILON,
            "raw": self.raw,
        }

    def resampled(self, new_supports: Array, vectors: Array) -> "RbfHash":
        """Return the hash with `new_supports` [supports, width] and a bandwidth updated for `vectors` [..., width].

        The bandwidth is a running mean of the mean squared distance of vectors to supports. A frozen hash keeps its
        supports, and its bandwidth if it has one.
        """
        is_frozen = self.frozen() > 0
        supports = jnp.where(is_frozen, self.supports(), new_supports if self.raw else unit(new_supports))
        mean_distance = -2.0 * self._exponents(vectors, supports).mean()  # squared
        old = self.bandwidth()
        is_set = old > 0  # false at the first batch
        updated = jnp.where(is_set, MEMORY * old + (1 - MEMORY) * mean_distance, mean_distance)
        bandwidth = jnp.where(is_frozen & is_set, old, updated)
        return self.with_supports(jax.lax.stop_gradient(supports), jax.lax.stop_gradient(bandwidth))

    def with_supports(self, supports: Array, bandwidth: Array, frozen: Array | None = None) -> "RbfHash":
        """Return the hash with another support set; `frozen` stays as it is unless given."""
        frozen_buffer = self.frozen if frozen is None else Buffer(frozen)
        return RbfHash(self.projection, Buffer(supports), Buffer(bandwidth), frozen_buffer, self.raw)


class EfficientBitwiseAttention(eqx.Module):
    """Single-head attention by hash codes, from tokens [batch, lenses, width] to mixed values of the same shape."""

    query: Array  # [width, width]
    key: Array  # [width, width]
    value: Array  # [width, width]
    hashing: RbfHash

    @staticmethod
    def create(width: int, supports: int, bits: int, key: Array, raw: bool = False) -> "EfficientBitwiseAttention":
        """Draw Glorot projections and a random hash.

        With `raw`, vectors are hashed as they are, otherwise divided by their length.
        """
        keys = jax.random.split(key, 4)
        query, key, value = (jax.nn.initializers.glorot_uniform()(k, (width, width)) for k in keys[:3])
        return EfficientBitwiseAttention(query, key, value, RbfHash.create(width, supports, bits, keys[3], raw))

    @property
    def bias(self) -> int:
        """β = bits + 1: added to the product of two codes of ±1, at least −bits, it makes every weight positive."""
        return self.bits + 1

    @property
    def bits(self) -> int:
        """Bits of a hash code."""
        return self.hashing.projection.shape[1]

    def __call__(self, tokens: Array) -> Array:
        """Mix the values of tokens [batch, lenses, width].

        The weights are β + h(q)·h(k), divided by their sum, for the codes h of a query q and of the keys k.
        """
        query_codes, key_codes = self.hashing(tokens @ self.query), self.hashing(tokens @ self.key)
        weights = self.bias + query_codes @ key_codes.swapaxes(1, 2)
        return weights @ (tokens @ self.value) / weights.sum(axis=-1, keepdims=True)

    def resampled(self, tokens: Array, new_supports: Array) -> "EfficientBitwiseAttention":
        """Return the attention with another support set, and a bandwidth updated for these tokens."""
        vectors = jnp.concatenate([tokens @ self.query, tokens @ self.key], axis=1)
        return eqx.tree_at(lambda attention: attention.hashing, self, self.hashing.resampled(new_supports, vectors))

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        hashing = self.hashing.folded()
        return [
            dense_step(source, "query", self.query),
            dense_step(source, "key", self.key),
            dense_step(source, "value", self.value),
            hash_codes_step("query", "query_codes", hashing),
            hash_codes_step("key", "key_codes", hashing),
            Step(
                "bitwise_attention",
                ("query_codes", "key_codes", "value"),
                output,
                settings={"bits": self.bits, "bias": self.bias},
            ),
        ]


def hash_codes_step(source: str, output: str, hashing: Mapping[str, Any]) -> Step:
    """Make the plan step that hashes the rows of the value `source` to codes.

    `hashing` has the keys supports, bandwidth, projection and, depending on the hash, bias, epsilon and raw (vectors
    are hashed as they are, not divided by their length). The projection or the bias must already subtract the mean
    kernel value. To divide by the bandwidth, the kernel multiplies by `sharpness`, its reciprocal; without `raw`,
    supports are divided by the bandwidth beforehand, too.
    """
    sharpness = 1 / float(hashing["bandwidth"])
    weights = {"projection": np.asarray(hashing["projection"])}
    if hashing.get("raw"):
        weights["supports"] = np.asarray(hashing["supports"])
        return Step("raw_hash_codes", (source,), output, weights, {"sharpness": sharpness})
    weights["supports"] = np.asarray(hashing["supports"] / hashing["bandwidth"])
    if hashing.get("bias") is not None:
        weights["bias"] = np.asarray(hashing["bias"])
    return Step("hash_codes", (source,), output, weights, {"sharpness": sharpness, "epsilon": hashing["epsilon"]})


def unit(x: Array) -> Array:
    """Divide vectors x [..., width] by their Euclidean length."""
    return x / jnp.sqrt(jnp.square(x).sum(axis=-1, keepdims=True) + EPSILON)


def sign(x: Array) -> Array:
    """Return the sign ±1, with sign(0) = +1 and a straight-through gradient.

    The gradient is that of the identity where |x| ≤ 1, else zero.
    """
    passing = jnp.where(jnp.abs(x) <= 1, x, 0.0)  # not jnp.clip: it halves the gradient at ±1
    hard = jnp.where(x >= 0, 1.0, -1.0).astype(x.dtype)
    # The bracket is zero, but has the gradient of `passing`.
    return jax.lax.stop_gradient(hard) + (passing - jax.lax.stop_gradient(passing))


def draw_uniform(tokens: Array, count: int, key: Array) -> Array:
    """Draw `count` of all tokens [batch, lenses, width] with equal probability: the paper's support sampling."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    return flat[jax.random.randint(key, (count,), 0, len(flat))]


def draw_distinct(tokens: Array, count: int, key: Array) -> Array:
    """Draw `count` of all tokens [batch, tokens, width] without replacement, repeating only if there are too few."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    order = jax.random.permutation(key, len(flat))
    return flat[jnp.resize(order, (count,))]  # `resize` begins the order again if it is too short


def draw_stratified(tokens: Array, count: int, key: Array) -> Array:
    """Draw `count` of the tokens [batch, lenses, width]: token j is lens j mod lenses of a random window.

    Support j, and with it row j of the projection A, then always belongs to the same lens.
    """
    windows = jax.random.randint(key, (count,), 0, len(tokens))
    return tokens[windows, jnp.arange(count) % tokens.shape[1]]
