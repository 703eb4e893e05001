"""PatchTST: patches of a window are the tokens of a transformer encoder (Nie et al. 2023).

    x [N, C] ─ patches of 16, every 8 ─ embed + position ─ n tokens ─ 3 encoder layers ─ flatten ─ head ─ y

    encoder layer: tokens ─ attention ─ + ─ batch norm ─ feed-forward (GELU) ─ + ─ batch norm ─ tokens

Differs from the published code: a patch holds all channels, because calibration has one target (there each
channel is a series of its own; with one channel the two are the same), GELU in its tanh form, and instance
normalisation off unless asked for: it gives the input's level back to the output and so hides a gain error.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations, add_step, count_patches, dense_step, patch_rows
from scare.layers.buffers import Buffer
from scare.layers.feed_forward import Linear
from scare.models.contract import Network
from scare.schema import Amount, Count

EPSILON = 1e-5  # added to a window's variance before its root
NORM_EPSILON = 1e-5  # added to a batch's variance before its root
MOMENTUM = 0.1  # weight of the newest batch in the running statistics
INFERENCE_BATCH = 256  # windows computed at once in inference: their scores are patches² numbers per head


@dataclass(frozen=True)
class PatchTST:
    """The architecture of PatchTST.

    >>> PatchTST.default().parameters(360, 1)
    17889
    """

    patch: Count = 16  # P
    stride: Count = 8
    width: Count = 16  # d
    heads: Count = 4
    hidden: Count = 128  # F
    layers: Count = 3
    dropout: Amount = 0.1  # in training
    instance_norm: bool = False

    citation: ClassVar[str] = (
        "Nie, Nguyen, Sinthong, Kalagnanam: A Time Series is Worth 64 Words: Long-term Forecasting with Transformers,"
        " ICLR 2023"
    )
    complexity: ClassVar[str] = "O(N²)"

    def __post_init__(self) -> None:
        if min(self.patch, self.stride, self.width, self.heads, self.hidden, self.layers) < 1:
            raise UsageError("every size of PatchTST must be at least 1")
        if self.width % self.heads:
            raise UsageError(f"PatchTST's width {self.width} is not a multiple of its {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout is a share from 0 to below 1, not {self.dropout:g}")

    @staticmethod
    def default() -> "PatchTST":
        """Return the published size for small data."""
        return PatchTST()

    def tokens(self, window: int) -> int:
        """Return the number of patches, one token each."""
        if window < self.patch - self.stride:
            raise UsageError(
                f"PatchTST needs a window of at least {self.patch - self.stride} readings for one patch, not {window}"
            )
        return count_patches(window, self.patch, self.stride)

    def build(self, window: int, channels: int, key: Array) -> "PatchTSTNetwork":
        """Draw random parameters for this window length and number of channels."""
        tokens = self.tokens(window)
        keys = jax.random.split(key, self.layers + 2)
        return PatchTSTNetwork(
            window=window,
            channels=channels,
            architecture=self,
            embedding=PatchEmbedding.create((window, channels), self.patch, self.stride, self.width, keys[0]),
            layers=tuple(EncoderLayer.create(self.width, self.heads, self.hidden, k) for k in keys[2:]),
            head=Linear.create(tokens * self.width, 1, keys[1]),
        )

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters."""
        tokens, width, hidden = self.tokens(window), self.width, self.hidden
        embedding = (self.patch * channels + 1) * width
        positions = tokens * width
        attention = 4 * (width**2 + width)  # query, key, value, output
        norms = 2 * (2 * width)  # two, each with a gain and a bias
        feed_forward = (width + 1) * hidden + (hidden + 1) * width
        head = tokens * width + 1
        return embedding + positions + self.layers * (attention + feed_forward + norms) + head

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one inference of the folded plan.

        The last layer's norm and the outer part of its feed-forward network, both linear, are part of the head.
        """
        tokens, width = self.tokens(window), self.width
        size = window * channels
        patch = self.patch * channels
        # If a patch has fewer numbers than a token, the first layer's query, key and value are computed from the patch.
        saved = 3 * tokens * width * (width - min(patch, width))
        total = Operations(multiply_adds=tokens * patch * width - saved)
        for layer in range(self.layers):
            total += self._layer_operations(tokens, added=layer > 0, last=layer == self.layers - 1)
        total += Operations(multiply_adds=tokens * width)  # the head
        if self.instance_norm:  # moments of the window, its standardisation, and its inverse for the output
            total += Operations(multiply_adds=2 * size + 1, additions=3 * size, divisions=2 * channels)
        return total

    def _layer_operations(self, tokens: int, added: bool, last: bool) -> Operations:
        """Return the operations of one layer.

        If `added`, the scores of the layer before are added to its own. If `last`, all that follows its hidden layer is
        linear, so the head absorbs it.
        """
        numbers = tokens * self.width  # of all tokens
        hidden = tokens * self.hidden  # numbers of the hidden layer
        pairs = tokens**2
        scores = pairs * self.heads
        # Query, key, value and output of the attention; then the inner and the outer part of the feed-forward network.
        projections = 4 * numbers * self.width + numbers * self.hidden + hidden * (1 if last else self.width)
        attention = 2 * pairs * self.width  # scores, and values mixed by them
        gelu = 3 * hidden
        norms = (1 if last else 2) * numbers  # folded into a scale and a shift
        residual_sums = numbers + 1 if last else 2 * numbers
        return Operations(
            multiply_adds=projections + attention + gelu + norms,
            # For each score two in softmax (difference to the largest, sum), a third to add that of the layer before.
            additions=(3 if added else 2) * scores + hidden + residual_sums,
            exponentials=scores + hidden,  # softmax; GELU
            divisions=tokens * self.heads + hidden,  # likewise
        )


class PatchEmbedding(eqx.Module):
    """Embeds windows [batch, rows, channels] as one token per patch, [batch, patches, width]."""

    linear: Linear  # [patch·channels, width]
    position: Array  # [patches, width]
    patch: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    @staticmethod
    def create(shape: tuple[int, int], patch: int, stride: int, width: int, key: Array) -> "PatchEmbedding":
        """Draw an embedding for windows of this shape (rows, channels), with positions uniform within ±0.02."""
        first, second = jax.random.split(key)
        patches = count_patches(shape[0], patch, stride)
        position = jax.random.uniform(second, (patches, width), minval=-0.02, maxval=0.02)
        return PatchEmbedding(Linear.create(patch * shape[1], width, first), position, patch, stride)

    def __call__(self, x: Array) -> Array:
        """Embed overlapping patches; the newest row is repeated until the last patch is full."""
        rows = patch_rows(x.shape[1], self.patch, self.stride)  # of the window, for each patch [patches, patch]
        patches = x[:, rows].reshape(len(x), len(rows), self.patch * x.shape[2])
        return self.linear(patches) + self.position

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as kernel calls; the positions become biases."""
        settings = {"patch": self.patch, "stride": self.stride}
        return [
            Step("patches", (source,), f"{output}.patches", settings=settings),
            dense_step(f"{output}.patches", output, self.linear.weight, self.linear.bias + self.position),
        ]


class BatchNorm(eqx.Module):
    """Normalise each feature to mean 0 and variance 1 over tokens and windows, then apply gain and bias."""

    gain: Array
    bias: Array
    mean: Buffer  # running statistics [width]
    variance: Buffer

    @staticmethod
    def create(width: int) -> "BatchNorm":
        """Start with gain 1, bias 0, and running statistics of mean 0 and variance 1."""
        return BatchNorm(jnp.ones(width), jnp.zeros(width), Buffer(jnp.zeros(width)), Buffer(jnp.ones(width)))

    def __call__(self, tokens: Array) -> Array:
        """Normalise tokens [batch, tokens, width] with the running statistics: same shape."""
        return (tokens - self.mean()) / jnp.sqrt(self.variance() + NORM_EPSILON) * self.gain + self.bias

    def learn(self, tokens: Array) -> "tuple[Array, BatchNorm]":
        """Like `__call__`, with the statistics of the batch; also returns the norm with updated running statistics."""
        rows = tokens.reshape(-1, tokens.shape[-1])
        mean = rows.mean(axis=0)
        centred = rows - mean
        variance = jnp.square(centred).mean(axis=0)
        out = (centred * (self.gain / jnp.sqrt(variance + NORM_EPSILON)) + self.bias).reshape(tokens.shape)
        unbiased = variance * (len(rows) / max(len(rows) - 1, 1))
        running = [
            Buffer((1 - MOMENTUM) * old() + MOMENTUM * jax.lax.stop_gradient(new))
            for old, new in ((self.mean, mean), (self.variance, unbiased))
        ]
        return out, BatchNorm(self.gain, self.bias, *running)

    def folded(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scale and shift for a plan: with its running statistics the norm is x · scale + shift."""
        scale = np.asarray(self.gain) / np.sqrt(np.asarray(self.variance.array) + NORM_EPSILON)
        return scale, np.asarray(self.bias) - np.asarray(self.mean.array) * scale

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        scale, shift = self.folded()
        return [Step("affine", (source,), output, {"scale": scale, "shift": shift})]


class ResidualAttention(eqx.Module):
    """Attention that adds the scores of the layer before to its own, before softmax (residual attention).

    It maps tokens [batch, tokens, width] to mixed values of the same shape, and to scores [batch, heads, tokens,
    tokens].
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    @staticmethod
    def create(width: int, heads: int, key: Array) -> "ResidualAttention":
        """Draw four projections with biases."""
        query, keys, value, out = (Linear.create(width, width, k) for k in jax.random.split(key, 4))
        return ResidualAttention(query, keys, value, out, heads)

    def __call__(self, tokens: Array, before: Array | None) -> tuple[Array, Array]:
        """Return mixed values and scores; `before` are the scores of the preceding layer, None in the first layer."""
        # Axes of the sums: b batch, i and j tokens, h heads, w width of a head.
        by_head = (*tokens.shape[:2], self.heads, -1)
        query, key, value = (part(tokens).reshape(by_head) for part in (self.query, self.key, self.value))
        scores = jnp.einsum("bihw,bjhw->bhij", query, key) / jnp.sqrt(query.shape[-1])
        scores = scores if before is None else scores + before
        mixed = jnp.einsum("bhij,bjhw->bihw", jax.nn.softmax(scores, axis=-1), value)
        return self.out(mixed.reshape(tokens.shape)), scores

    def steps(self, source: str, name: str, before: str | None) -> list[Step]:
        """Return the layer as kernel calls, which make the values `name`.scores and `name`, the output.

        `before` names the scores of the layer before; None in the first layer. The scale of the scores is folded into
        the query. A key's bias moves all scores of a query alike, so softmax cancels it. As weights sum to one, the
        value's bias is folded into the output's.
        """
        query, key, value, scores, mixed = (f"{name}.{part}" for part in ("query", "key", "value", "scores", "mixed"))
        scale = (self.query.weight.shape[1] // self.heads) ** -0.5
        own_scores = scores if before is None else f"{name}.own"
        return [
            dense_step(source, query, self.query.weight * scale, self.query.bias * scale),
            dense_step(source, key, self.key.weight),
            dense_step(source, value, self.value.weight),
            Step("attention_scores", (query, key), own_scores, settings={"heads": self.heads}),
            *([] if before is None else [add_step(own_scores, before, scores)]),
            Step("softmax_mix", (scores, value), mixed),
            dense_step(mixed, name, self.out.weight, self.value.bias @ self.out.weight + self.out.bias),
        ]


class EncoderLayer(eqx.Module):
    """Maps tokens [batch, tokens, width] to tokens of the same shape, and to the scores for the next layer."""

    attention: ResidualAttention
    first_norm: BatchNorm
    inner: Linear
    outer: Linear
    second_norm: BatchNorm

    @staticmethod
    def create(width: int, heads: int, hidden: int, key: Array) -> "EncoderLayer":
        """Draw the projections; the norms start as in `BatchNorm.create`."""
        keys = jax.random.split(key, 3)
        return EncoderLayer(
            ResidualAttention.create(width, heads, keys[0]),
            BatchNorm.create(width),
            Linear.create(width, hidden, keys[1]),
            Linear.create(hidden, width, keys[2]),
            BatchNorm.create(width),
        )

    def __call__(self, tokens: Array, before: Array | None) -> tuple[Array, Array]:
        """Return tokens, and scores for the next layer; `before` are the scores of the preceding layer."""
        mixed, scores = self.attention(tokens, before)
        tokens = self.first_norm(tokens + mixed)
        return self.second_norm(tokens + self.outer(jax.nn.gelu(self.inner(tokens)))), scores

    def learn(
        self, tokens: Array, before: Array | None, dropout: float, key: Array
    ) -> "tuple[Array, Array, EncoderLayer]":
        """Like `__call__`, but in training, with dropout and the statistics of the batch; also returns the new layer.

        The published layer applies dropout to attention's output twice in a row: here once, at the combined rate.
        """
        keys = jax.random.split(key, 3)
        mixed, scores = self.attention(tokens, before)
        tokens, first = self.first_norm.learn(tokens + drop(mixed, 1 - (1 - dropout) ** 2, keys[0]))
        hidden = drop(jax.nn.gelu(self.inner(tokens)), dropout, keys[1])
        tokens, second = self.second_norm.learn(tokens + drop(self.outer(hidden), dropout, keys[2]))
        return tokens, scores, EncoderLayer(self.attention, first, self.inner, self.outer, second)

    def steps(self, source: str, name: str, before: str | None) -> list[Step]:
        """Return the layer as kernel calls up to the value `name`.second.

        `second_norm` would come next: the caller adds it, or folds it into the head. `before` names the scores of the
        layer before, None in the first layer; those of this layer are named by `scores`.
        """
        attended, block, hidden = f"{name}.attended", f"{name}.block", f"{name}.hidden"
        return [
            *self.attention.steps(source, attended, before),
            add_step(source, attended, f"{name}.first"),
            *self.first_norm.steps(f"{name}.first", block),
            *self.inner.steps(block, hidden),
            Step("gelu", (hidden,), f"{name}.active"),
            *self.outer.steps(f"{name}.active", f"{name}.fed"),
            add_step(block, f"{name}.fed", f"{name}.second"),
        ]

    @staticmethod
    def scores(name: str) -> str:
        """Return the name of a layer's scores in `steps`."""
        return f"{name}.attended.scores"


class PatchTSTNetwork(Network):
    """The parameters of PatchTST."""

    architecture: PatchTST = eqx.field(static=True)
    embedding: PatchEmbedding
    layers: tuple[EncoderLayer, ...]
    head: Linear

    undecayed = frozenset({"bias", "gain", "position"})

    def __call__(self, features: Array) -> Array:
        """Return scaled targets [batch], with the norms' running statistics; large batches are computed in parts."""
        if len(features) <= INFERENCE_BATCH:
            return self._forward(features)
        return jax.lax.map(lambda window: self._forward(window[None])[0], features, batch_size=INFERENCE_BATCH)

    def _forward(self, features: Array) -> Array:
        """Return the outputs [batch] of at most INFERENCE_BATCH windows."""
        windows, moments = self._standardized(features)
        tokens, scores = self.embedding(windows), None
        for layer in self.layers:
            tokens, scores = layer(tokens, scores)
        return self._finish(tokens, moments)

    def learn(self, features: Array, key: Array) -> tuple[Array, Self]:
        """Return outputs [batch], with dropout and the statistics of the batch, and the network with updated norms."""
        rate = self.architecture.dropout
        keys = jax.random.split(key, len(self.layers) + 1)
        windows, moments = self._standardized(features)
        tokens = drop(self.embedding(windows), rate, keys[0])
        scores, updated = None, []
        for layer, layer_key in zip(self.layers, keys[1:], strict=True):
            tokens, scores, layer = layer.learn(tokens, scores, rate, layer_key)
            updated.append(layer)
        return self._finish(tokens, moments), eqx.tree_at(lambda n: n.layers, self, tuple(updated))

    def _standardized(self, features: Array) -> tuple[Array, Array | None]:
        """Return the windows that the embedding reads, and their moments if there is instance normalisation."""
        return standardize(features) if self.architecture.instance_norm else (features, None)

    def _finish(self, tokens: Array, moments: Array | None) -> Array:
        """Apply the head, and undo `_standardized`: outputs [batch]."""
        outputs = self.head(tokens.reshape(len(tokens), -1))[:, 0]
        return outputs if moments is None else restore(outputs, moments)

    def plan(self) -> Plan:
        """Return the network as a plan of kernel calls, from the window to the scaled target."""
        normed = self.architecture.instance_norm
        steps = []
        if normed:  # as `standardize` does
            steps.append(Step("window_moments", (INPUT,), "moments", settings={"epsilon": EPSILON}))
            steps.append(Step("standardize", (INPUT, "moments"), "windows"))
        steps += self.embedding.steps("windows" if normed else INPUT, "tokens")
        source, before = "tokens", None  # what a layer reads; the scores of the layer before, which it adds to its own
        for index, layer in enumerate(self.layers):
            name = f"layer{index}"
            steps += layer.steps(source, name, before)  # they end with the value {name}.second, not normed yet
            if index < len(self.layers) - 1:  # the last norm is folded into the head, which reads {name}.second itself
                steps += layer.second_norm.steps(f"{name}.second", name)
            source, before = name, layer.scores(name)
        steps += self._head_steps(f"{source}.second", "deep" if normed else "y")
        steps += [Step("restore", ("deep", "moments"), "y")] if normed else []
        return Plan(self.window, self.channels, tuple(steps))

    def _head_steps(self, source: str, output: str) -> list[Step]:
        """Return the head as plan steps, with the last norm folded in.

        With tokens t, flat(t · scale + shift) W = flat(t) (scale · W) + shift · W.
        """
        scale, shift = self.layers[-1].second_norm.folded()
        weight = np.asarray(self.head.weight).reshape(-1, len(scale))  # [tokens, width]
        bias = np.asarray(self.head.bias) + (weight @ shift).sum()
        return [
            Step("flatten", (source,), "read"),
            dense_step("read", output, (weight * scale).reshape(-1, 1), bias),
        ]


def standardize(x: Array) -> tuple[Array, Array]:
    """Apply reversible instance normalisation (Kim et al. 2022) without its affine part.

    Returns windows [batch, rows, channels] with mean 0 and deviation 1 in each channel, and their moments [batch, 2,
    channels], mean and deviation.
    """
    mean = x.mean(axis=1, keepdims=True)
    deviation = jnp.sqrt(jnp.square(x - mean).mean(axis=1, keepdims=True) + EPSILON)
    return (x - mean) / deviation, jnp.concatenate([mean, deviation], axis=1)


def restore(outputs: Array, moments: Array) -> Array:
    """Undo `standardize` for outputs [batch], with the moments of the first channel.

    Differs from the published code: there each channel forecasts itself; here the first is the sensor's own.
    """
    return outputs * moments[:, 1, 0] + moments[:, 0, 0]


def drop(x: Array, rate: float, key: Array) -> Array:
    """Apply dropout: set a share `rate` of the numbers to zero and enlarge the others, so that their mean stays."""
    if rate == 0:
        return x
    # 16 random bits are enough for a rate, and half as many as a float takes.
    is_kept = jax.random.bits(key, x.shape, jnp.uint16) < round((1 - rate) * 2**16)
    return jnp.where(is_kept, x / (1 - rate), 0)
