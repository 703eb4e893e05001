"""Conventional hash attention (EcoFormer, Liu et al. 2022): its hash is fitted separately from the task.

Queries and keys share one projection and one code. The code of a token is h = sign((k − μ) A): k are its kernel values
at the supports (stored unit vectors), μ the stored means of these values, and A has one column for each bit. A is
fitted bit by bit so that codes agree where tokens are alike (Hamming affinity), never by the task's gradient.

The weight of a token with the code h' is (β + h·h') / Σ (β + h·h') for a query with the code h. With β = bits + 1, all
weights are positive, and they sum to one. The published code adds β times the token's own value only (`Bias.TOKEN`):
its weights may be negative and sum to far less.

Differs from the published code: one bandwidth is computed from all tokens of a fit and kept until the next (there each
window and head has its own, in inference too, and gradients go through it), supports come from all windows of a fit
(there from the first), and fewer neighbours are used when tokens are few. docs/decisions/rivals.md says why.
"""

from enum import StrEnum

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import Step
from scare.kernels import dense_step
from scare.layers.bitwise_attention import EPSILON, draw_distinct, hash_codes_step, sign, unit
from scare.layers.buffers import Buffer

NEIGHBOURS = 10  # nearest tokens that should share a token's code, and farthest that should not
ITERATIONS, RATE, MOMENTUM = 100, 5e-4, 0.9  # fit of one bit: steps, learning rate, Nesterov momentum


class Bias(StrEnum):
    """What the bias β multiplies in the numerator of the attention."""

    SUM = "sum"  # the sum of all values, as in the paper: β on every pair
    TOKEN = "token"  # the token's own value, as in the published code


class HashAttention(eqx.Module):
    """EcoFormer's attention by hash codes, from tokens [batch, tokens, width] to mixed values of the same shape."""

    query_key: Array  # [width, width]
    query_key_bias: Array  # [width]
    value: Array
    value_bias: Array
    out: Array
    out_bias: Array
    projection: Buffer  # A [supports, bits]
    supports: Buffer  # [supports, width], unit vectors
    centre: Buffer  # μ [supports]
    bandwidth: Buffer  # σ []
    form: Bias = eqx.field(static=True, default=Bias.SUM)

    @staticmethod
    def create(width: int, supports: int, bits: int, key: Array, form: Bias = Bias.SUM) -> "HashAttention":
        """Draw Glorot projections and a random hash, which `fitted` replaces; the projections' biases are zero.

        `form` says what the bias β of the attention multiplies.
        """
        keys = jax.random.split(key, 5)
        glorot = jax.nn.initializers.glorot_uniform()
        query_key, value, out = (glorot(k, (width, width)) for k in keys[:3])
        linear = (query_key, jnp.zeros(width), value, jnp.zeros(width), out, jnp.zeros(width))
        random_supports = unit(jax.random.normal(keys[3], (supports, width)))
        projection = jax.random.normal(keys[4], (supports, bits))
        return HashAttention(
            *linear,
            projection=Buffer(projection),
            supports=Buffer(random_supports),
            centre=Buffer(jnp.zeros(supports)),
            bandwidth=Buffer(jnp.ones(())),
            form=form,
        )

    @property
    def bias(self) -> int:
        """β = bits + 1: added to the product of two codes of ±1, at least −bits, it makes every weight positive."""
        return self.bits + 1

    @property
    def bits(self) -> int:
        """Bits of a hash code."""
        return self.projection.array.shape[1]

    def kernel(self, tokens: Array) -> Array:
        """Return kernel values of the tokens' shared query and key and the supports, [batch, tokens, supports]."""
        vectors = unit(tokens @ self.query_key + self.query_key_bias)
        # Of unit vectors, half the squared distance is 1 minus their product.
        return jnp.exp((vectors @ self.supports().T - 1.0) / self.bandwidth())

    def __call__(self, tokens: Array) -> Array:
        """Return the attention of every token over all tokens [batch, tokens, width]: same shape."""
        return self._attend(tokens, slice(None))

    def newest(self, tokens: Array) -> Array:
        """Return the newest token's output alone, [batch, width], in time linear in the tokens."""
        return self._attend(tokens, slice(-1, None))[:, 0]

    def _attend(self, tokens: Array, queries: slice) -> Array:
        """Return the attention of the tokens at the places `queries` over all tokens, [batch, queries, width].

        For a query with the code h it is (Σ h·h' v + β B) / Σ (h·h' + β), projected by `out`. The sums are over all
        tokens, with codes h' and values v; B is the sum of all values, or the query's own value (see `Bias`).
        """
        codes = sign((self.kernel(tokens) - self.centre()) @ self.projection())  # [batch, tokens, bits]
        values = tokens @ self.value + self.value_bias
        products = codes[:, queries] @ codes.swapaxes(1, 2)  # [batch, queries, tokens]
        biased = values[:, queries] if self.form == Bias.TOKEN else values.sum(axis=1, keepdims=True)
        total = products.sum(axis=-1, keepdims=True) + self.bias * tokens.shape[1]
        mixed = (products @ values + self.bias * biased) / total
        return mixed @ self.out + self.out_bias

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan.

        With `Bias.SUM`, codes are compared pair by pair, as in bitwise attention. That kernel does not know
        `Bias.TOKEN`, which is computed through an associative memory.
        """
        by_pairs = Step("bitwise_attention", ("codes", "codes", "value"), "mixed", settings=self._settings)
        return [
            *self._code_steps(source),
            dense_step(source, "value", self.value, self.value_bias),
            by_pairs if self.form == Bias.SUM else self._memory_step("codes", "value", "mixed"),
            dense_step("mixed", output, self.out, self.out_bias),
        ]

    def newest_steps(self, source: str, output: str) -> list[Step]:
        """Return `newest` as steps of a plan, through an associative memory, which takes linear time.

        With Bias.SUM the weights sum to one, so tokens are mixed before the value projection, which then runs once.
        """
        code = [*self._code_steps(source), Step("newest", ("codes",), "code")]
        if self.form == Bias.SUM:
            mix = [self._memory_step("code", source, "seen"), dense_step("seen", "mixed", self.value, self.value_bias)]
        else:
            mix = [
                dense_step(source, "value", self.value, self.value_bias),
                self._memory_step("code", "value", "mixed"),
            ]
        return [*code, *mix, dense_step("mixed", output, self.out, self.out_bias)]

    def _memory_step(self, queries: str, values: str, output: str) -> Step:
        """Return the plan step for attention of these queries over all tokens through an associative memory."""
        settings = self._settings | {"own": self.form == Bias.TOKEN}
        return Step("memory_attention", (queries, "codes", values), output, settings=settings)

    @property
    def _settings(self) -> dict[str, int]:
        """Settings of the attention kernels: bits of a code, and β."""
        return {"bits": self.bits, "bias": self.bias}

    def _code_steps(self, source: str) -> list[Step]:
        """Return the plan steps for the codes of all tokens.

        A code is the sign of (k − μ) A = k A − μ A, for the token's kernel values k, so the centre μ becomes a bias.
        """
        hashing = {
            "supports": self.supports.array,
            "bandwidth": self.bandwidth.array,
            "projection": self.projection.array,
            "bias": -self.centre.array @ self.projection.array,
            "epsilon": EPSILON,
        }
        return [
            dense_step(source, "query_key", self.query_key, self.query_key_bias),
            hash_codes_step("query_key", "codes", hashing),
        ]

    def fitted(self, tokens: Array, key: Array) -> "HashAttention":
        """Fit supports, bandwidth, centre and projection to tokens [batch, tokens, width]; return the new attention."""
        vectors = unit(tokens @ self.query_key + self.query_key_bias)
        supports = draw_distinct(vectors, len(self.supports.array), key)
        bandwidth = (2.0 - 2.0 * vectors @ supports.T).mean()  # mean squared distance of unit vectors
        fitted = eqx.tree_at(
            lambda attention: (attention.supports, attention.bandwidth), self, (Buffer(supports), Buffer(bandwidth))
        )
        kernel = fitted.kernel(tokens)
        centre = kernel.mean(axis=(0, 1))
        projection = _fit_projection(kernel - centre, _affinity(vectors) * self.bits, self.projection.array)
        return eqx.tree_at(
            lambda attention: (attention.centre, attention.projection), fitted, (Buffer(centre), Buffer(projection))
        )


def _affinity(vectors: Array) -> Array:
    """Return the Hamming affinity of unit vectors [batch, tokens, width], [batch, tokens, tokens].

    It is +1 for the `NEIGHBOURS` nearest tokens of a token, −1 for as many farthest, else 0.
    """
    tokens = vectors.shape[1]
    count = max(1, min(NEIGHBOURS, tokens // 3))  # of few tokens, a third are near, a third far
    similarity = vectors @ vectors.swapaxes(1, 2)
    rank = similarity.argsort(axis=-1).argsort(axis=-1)  # of each token among all: 0 for the farthest
    return jnp.where(rank >= tokens - count, 1.0, 0.0) - jnp.where(rank < count, 1.0, 0.0)


def _fit_projection(kernel: Array, affinity: Array, projection: Array) -> Array:
    """Fit a projection [supports, bits] column by column, each to the affinity that the columns before it leave.

    `kernel` [batch, tokens, supports] is centred, `affinity` [batch, tokens, tokens] is multiplied by the bits, and
    `projection` is where the fit starts.
    """

    def fit_next(residual: Array, column: Array) -> tuple[Array, Array]:
        fitted = _fit_bit(kernel, residual, column, projection.shape[1])
        code = jnp.where(kernel @ fitted >= 0, 1.0, -1.0)  # this bit of each token's code [batch, tokens]
        return residual - code[:, :, None] * code[:, None, :], fitted

    _, columns = jax.lax.scan(fit_next, affinity, projection.T)
    return columns.T


def _fit_bit(kernel: Array, residual: Array, column: Array, bits: int) -> Array:
    """Fit one column of the projection [supports] by gradient descent (Nesterov), with tanh in place of the sign.

    The code of this bit should reproduce `residual` [batch, tokens, tokens], the affinity that earlier bits left.
    Returns `column`, the start, unless the fitted column has a smaller loss with the sign itself.
    """

    def loss(code: Array) -> Array:  # low where two tokens have equal bits if they should, and unequal ones if not
        return -jnp.einsum("bi,bij,bj->", code, residual, code) / (code.size * bits)

    def smooth_loss(column: Array) -> Array:
        return loss(jnp.tanh(kernel @ column / 2))  # as the published code has it: 2 sigmoid(x) − 1 = tanh(x / 2)

    def hard_loss(column: Array) -> Array:
        return loss(jnp.where(kernel @ column >= 0, 1.0, -1.0))

    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        column, velocity = state
        gradient = jax.grad(smooth_loss)(column)
        velocity = MOMENTUM * velocity + gradient
        return (column - RATE * (gradient + MOMENTUM * velocity), velocity), None

    (fitted, _), _ = jax.lax.scan(step, (column, jnp.zeros_like(column)), None, ITERATIONS)
    return jnp.where(hard_loss(fitted) < hard_loss(column), fitted, column)
