"""PatchTST: patches of a window are the tokens of a transformer encoder (Nie et al. 2023).

    x [N, C] ─ patches of 16, every 8 ─ embed + position ─ n tokens ─ 3 encoder layers ─ flatten ─ head ─ y

Differs from the published code: a patch holds all channels, because calibration has one target (there each
channel is a series of its own; with one channel the two are the same), GELU in its tanh form, and instance
normalisation off unless asked for: it gives the input's level back to the output and so hides a gain error.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import equinox as eqx
import jax
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations, count_patches
from scare.layers.batch_norm import drop
from scare.layers.linear import Linear
from scare.layers.patch_encoder import EncoderLayer
from scare.layers.patches import PatchEmbedding, restore, standardize, standardize_steps
from scare.layers.steps import dense, numbers
from scare.models.contract import Network
from scare.records import Amount, Count

TOGETHER = 256  # windows computed at once in use: their scores are patches² numbers a head


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
        """The published size for small data."""
        return PatchTST()

    def tokens(self, window: int) -> int:
        """How many patches a window gives."""
        if window < self.patch - self.stride:
            raise UsageError(
                f"PatchTST needs a window of at least {self.patch - self.stride} readings for one patch, not {window}"
            )
        return count_patches(window, self.patch, self.stride)

    def build(self, window: int, channels: int, key: Array) -> "PatchTSTNetwork":
        """Random parameters."""
        tokens, keys = self.tokens(window), jax.random.split(key, self.layers + 2)
        return PatchTSTNetwork(
            window=window,
            channels=channels,
            architecture=self,
            embedding=PatchEmbedding.create((window, channels), self.patch, self.stride, self.width, keys[0]),
            layers=tuple(EncoderLayer.create(self.width, self.heads, self.hidden, k) for k in keys[2:]),
            head=Linear.create(tokens * self.width, 1, keys[1]),
        )

    def parameters(self, window: int, channels: int) -> int:
        """How many numbers training moves."""
        tokens, width, hidden = self.tokens(window), self.width, self.hidden
        embedding = (self.patch * channels + 1) * width + tokens * width
        layer = 4 * (width**2 + width) + 2 * width * hidden + hidden + width + 4 * width
        return embedding + self.layers * layer + tokens * width + 1

    def operations(self, window: int, channels: int) -> Operations:
        """What one inference of the folded plan takes; the last norm is part of the head."""
        tokens, width, size = self.tokens(window), self.width, window * channels
        seen = self.patch * channels
        first = 3 * tokens * width * (min(seen, width) - width)  # projections of a patch narrower than a token
        total = Operations(multiply_adds=tokens * seen * width + first)
        for layer in range(self.layers):
            total += self._layer_operations(tokens, added=layer > 0, normed=layer < self.layers - 1)
        total += Operations(multiply_adds=tokens * width)
        if self.instance_norm:
            total += Operations(multiply_adds=2 * size + 1, additions=3 * size, divisions=2 * channels)
        return total

    def _layer_operations(self, tokens: int, added: bool, normed: bool) -> Operations:
        """A layer, to whose scores others are added or not, with its last norm or without."""
        numbers, hidden, pairs = tokens * self.width, tokens * self.hidden, tokens**2
        scores = pairs * self.heads
        projections = 4 * numbers * self.width + 2 * numbers * self.hidden
        return Operations(
            multiply_adds=projections + 2 * pairs * self.width + 3 * hidden + (2 if normed else 1) * numbers,
            additions=(3 if added else 2) * scores + hidden + 2 * numbers,
            exponentials=scores + hidden,
            divisions=tokens * self.heads + hidden,
        )


class PatchTSTNetwork(Network):
    """The parameters of PatchTST."""

    architecture: PatchTST = eqx.field(static=True)
    embedding: PatchEmbedding
    layers: tuple[EncoderLayer, ...]
    head: Linear

    undecayed = frozenset({"bias", "gain", "position"})

    def __call__(self, features: Array) -> Array:
        """Scaled targets [batch], with the statistics of the norms held."""
        if len(features) <= TOGETHER:
            return self._read(features)
        return jax.lax.map(lambda one: self._read(one[None])[0], features, batch_size=TOGETHER)

    def _read(self, features: Array) -> Array:
        windows, moments = self._standardized(features)
        tokens, scores = self.embedding(windows), None
        for layer in self.layers:
            tokens, scores = layer(tokens, scores)
        return self._finish(tokens, moments)

    def learn(self, features: Array, key: Array) -> tuple[Array, Self]:
        """Outputs with dropout and the batch's statistics, and the network whose statistics have moved."""
        rate, keys = self.architecture.dropout, jax.random.split(key, len(self.layers) + 1)
        windows, moments = self._standardized(features)
        tokens, scores, learnt = drop(self.embedding(windows), rate, keys[0]), None, []
        for layer, layer_key in zip(self.layers, keys[1:], strict=True):
            tokens, scores, layer = layer.learn(tokens, scores, rate, layer_key)
            learnt.append(layer)
        return self._finish(tokens, moments), eqx.tree_at(lambda n: n.layers, self, tuple(learnt))

    def _standardized(self, features: Array) -> tuple[Array, Array | None]:
        return standardize(features) if self.architecture.instance_norm else (features, None)

    def _finish(self, tokens: Array, moments: Array | None) -> Array:
        outputs = self.head(tokens.reshape(len(tokens), -1))[:, 0]
        return outputs if moments is None else restore(outputs, moments)

    def plan(self) -> Plan:
        """The network as kernel calls."""
        normed = self.architecture.instance_norm
        steps = standardize_steps(INPUT, "windows", "moments") if normed else []
        steps += self.embedding.steps("windows" if normed else INPUT, "tokens")
        source, before = "tokens", None
        for index, layer in enumerate(self.layers):
            name = f"layer{index}"
            steps += layer.steps(source, name, before)
            if index < len(self.layers) - 1:
                steps += layer.second_norm.steps(f"{name}.second", name)
            source, before = name, layer.scores(name)
        steps += self._head_steps(f"{source}.second", "deep" if normed else "y")
        steps += [Step("restore", ("deep", "moments"), "y")] if normed else []
        return Plan(self.window, self.channels, tuple(steps))

    def _head_steps(self, source: str, output: str) -> list[Step]:
        """The head, and in it the last layer's norm: flat(t·scale + shift) W = flat(t) (scale·W) + shift·W."""
        scale, shift = self.layers[-1].second_norm.folded()
        weight = numbers(self.head.weight).reshape(-1, len(scale))  # [tokens, width]
        bias = numbers(self.head.bias) + (weight @ shift).sum()
        return [
            Step("flatten", (source,), "read"),
            dense("read", output, (weight * scale).reshape(-1, 1), bias),
        ]
