"""Multi-head softmax attention, with which the paper's ablation begins."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import block_diag

from scare.calibrator.plan import Step
from scare.kernels import dense_step
from scare.layers.embedding import DualEmbedding


class SoftmaxAttention(eqx.Module):
    """Multi-head attention with biases: tokens [batch, lenses, width] to mixed values of the same shape."""

    query: Array  # [width, heads·key_width]
    key: Array
    value: Array
    out: Array  # [heads·key_width, width]
    query_bias: Array
    key_bias: Array
    value_bias: Array
    out_bias: Array
    heads: int = eqx.field(static=True)

    @staticmethod
    def create(width: int, heads: int, key_width: int, key: Array) -> "SoftmaxAttention":
        """Draw Glorot projections; biases are zero."""
        keys = jax.random.split(key, 4)
        inner = heads * key_width
        glorot = jax.nn.initializers.glorot_uniform()
        query, key, value = (glorot(k, (width, inner)) for k in keys[:3])
        out = glorot(keys[3], (inner, width))
        zeros = jnp.zeros(inner)
        return SoftmaxAttention(query, key, value, out, zeros, zeros, zeros, jnp.zeros(width), heads)

    def __call__(self, tokens: Array) -> Array:
        """Return the scaled dot-product attention of every token over all tokens [batch, tokens, width]: same shape."""
        query = self._heads(tokens @ self.query + self.query_bias)  # [batch, heads, tokens, key_width]
        key = self._heads(tokens @ self.key + self.key_bias)
        value = self._heads(tokens @ self.value + self.value_bias)
        weights = jax.nn.softmax(query @ key.swapaxes(2, 3) / jnp.sqrt(query.shape[-1]), axis=-1)
        mixed = (weights @ value).swapaxes(1, 2).reshape(*tokens.shape[:2], -1)
        return mixed @ self.out + self.out_bias

    def fused(self, x: Array, embedding: DualEmbedding) -> Array:
        """Compute `self(embedding(x))` for a local embedding by mixing rows of x [batch, rows, C], which is cheaper.

        A token is x E + b. As a key, its score is linear in x, up to a constant that softmax cancels; and the mean of
        values is the value of the mean row. This is exact, also for gradients, but x gets none: readings need none.
        """
        # Axes of the sums: b batch, t rows, h heads, k key width, c channels.
        batch, rows, channels = x.shape
        local, bias = embedding.local, embedding.local_bias
        query = (x @ (local @ self.query) + (bias @ self.query + self.query_bias)).reshape(batch, rows, self.heads, -1)
        key, value = ((local @ part).reshape(channels, self.heads, -1) for part in (self.key, self.value))
        # The score of a row for a query is the query's slope times the row; `means` are the rows averaged by softmax.
        slopes = jnp.einsum("bthk,chk->bhtc", query, key) / jnp.sqrt(query.shape[-1])
        means = mean_rows(slopes.reshape(batch, -1, channels), x).reshape(slopes.shape)
        mixed = jnp.einsum("bhtc,chk->bthk", means, value).reshape(batch, rows, -1)
        return (mixed + (bias @ self.value + self.value_bias)) @ self.out + self.out_bias

    def fused_steps(self, source: str, tokens: str, embedding: DualEmbedding, output: str) -> list[Step]:
        """Return `fused` as steps of a plan; `source` names the rows of x, `tokens` their tokens.

        A row of x serves as key and value of every head: the key projection is applied to the queries instead, and the
        value projection to the mean row. Both are block-diagonal over the heads.
        """
        channels, bias = len(embedding.local), embedding.local_bias
        # From readings to keys and to values, one block a head, [heads·key_width, heads·C].
        keys, values = (
            block_diag(*(head.T for head in np.split(np.asarray(embedding.local @ part), self.heads, axis=1)))
            for part in (self.key, self.value)
        )
        # The kernel divides scores by √C, the width of its rows; attention divides them by √key_width.
        scale = (channels * self.heads / len(keys)) ** 0.5
        each_head = np.tile(np.eye(channels, dtype=keys.dtype), self.heads)  # copies a row for every head
        return [
            dense_step(tokens, "query", self.query, self.query_bias),
            dense_step("query", "slopes", keys * scale),
            dense_step(source, "rows", each_head),
            Step("softmax_attention", ("slopes", "rows", "rows"), "means", settings={"heads": self.heads}),
            dense_step("means", "mixed", values.T, bias @ self.value + self.value_bias),
            dense_step("mixed", output, self.out, self.out_bias),
        ]

    def _heads(self, x: Array) -> Array:
        """Split heads: [batch, tokens, heads·key_width] to [batch, heads, tokens, key_width]."""
        return x.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2)

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        return [
            dense_step(source, "query", self.query, self.query_bias),
            dense_step(source, "key", self.key, self.key_bias),
            dense_step(source, "value", self.value, self.value_bias),
            Step("softmax_attention", ("query", "key", "value"), "mixed", settings={"heads": self.heads}),
            dense_step("mixed", output, self.out, self.out_bias),
        ]


@jax.custom_vjp
def mean_rows(slopes: Array, rows: Array) -> Array:
    """Return the mean of `rows` [batch, rows, C] weighted by exp(slope · row), for each slope [batch, slopes, C].

    A slope is a vector with a number for each of the C channels of a row. The gradient needs the weighted covariance of
    the rows, which the forward pass sums too, so that no weight has to be stored or computed twice.
    """
    return _moments(slopes, rows)[0]


def _moments(slopes: Array, rows: Array) -> tuple[Array, Array]:
    """Return means [batch, slopes, C] and covariances [batch, slopes, C, C] of `rows` with weights exp(slope · row).

    Every slope, a vector like a row, weights the rows in its own way. Windows are computed one by one, so that the
    weights of one stay in the CPU cache.
    """
    means, covariances = jax.lax.map(_window_moments, (slopes, rows))
    return means, covariances


def _window_moments(window: tuple[Array, Array]) -> tuple[Array, Array]:
    """Like `_moments`, for one window, given as (slopes, rows): means [slopes, C] and covariances [slopes, C, C]."""
    slopes, rows = window
    count, channels = rows.shape
    centre = rows.mean(axis=0)
    centred = rows - centre  # leaves the weights unchanged, and keeps the covariance precise
    scores = slopes @ centred.T
    weights = jnp.exp(scores - scores.max(axis=1, keepdims=True))  # [slopes, rows]; the maximum prevents overflow
    products = (centred[:, :, None] * centred[:, None]).reshape(count, -1)  # [rows, C²]
    # One product gives the sums of weights, of weighted rows and of weighted products: [slopes, 1 + C + C²].
    sums = weights @ jnp.concatenate([jnp.ones_like(centred[:, :1]), centred, products], axis=1)
    means, mean_products = jnp.split(sums[:, 1:] / sums[:, :1], [channels], axis=1)
    covariances = mean_products.reshape(-1, channels, channels) - means[:, :, None] * means[:, None]
    return centre + means, covariances


def _forward(slopes: Array, rows: Array) -> tuple[Array, tuple[Array, Array]]:
    """Run the forward pass of `mean_rows`; returns its result and what `_backward` needs."""
    means, covariances = _moments(slopes, rows)
    return means, (covariances, rows)


def _backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    """Return the gradients of slopes and rows; that of rows is zero, because readings need none."""
    covariances, rows = residuals
    return jnp.einsum("bsc,bscd->bsd", gradient, covariances), jnp.zeros_like(rows)


mean_rows.defvjp(_forward, _backward)
