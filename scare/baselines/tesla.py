"""TESLA (Ahn et al. 2025): dual embedding, logarithmic bins, softmax attention, a head without activation.

    x [N, C] ─ embed + bins ─ Z [L, D] ─ attention ─ + ─ norm ─ dense over bins ─ dense over features ─ y
                                 └──────────────────┘

One token per bin: the newest reading has its own bin, the oldest bin holds hundreds. SCARE is its descendant.

Differs from the published code: attention projections start within plain Glorot limits (there the framework took
the fans of a convolution, so limits were 0.25 and 0.31 instead of 0.39); bins of equal length stay apart, so every
window length works (there it fails when the oldest bin is as long as another); and with several channels the embeddings
read all of them.
"""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.kernels import Operations, add_step
from scare.layers.embedding import DualEmbedding, SequenceLensProjector, logarithmic_bins
from scare.layers.feed_forward import LayerNorm
from scare.layers.heads import TwoStepHead
from scare.layers.softmax_attention import SoftmaxAttention
from scare.models.contract import Network
from scare.schema import Count


@dataclass(frozen=True)
class Tesla:
    """The architecture of TESLA."""

    width: Count = 8  # D
    heads: Count = 4  # H
    key_width: Count = 8  # K, of each head

    citation: ClassVar[str] = (
        "Ahn, Kim, Shin, Seo: Real-time Calibration Model for Low-cost Sensor in Fine-grained Time series. AAAI 2025"
    )
    complexity: ClassVar[str] = "O(N); O(log² N) in the attention"

    @staticmethod
    def default() -> "Tesla":
        """Return the published sizes."""
        return Tesla()

    def build(self, window: int, channels: int, key: Array) -> "TeslaNetwork":
        """Draw Glorot weights; biases are zero."""
        keys = jax.random.split(key, 5)
        glorot, zeros = jax.nn.initializers.glorot_uniform(), jnp.zeros(self.width)
        local = glorot(keys[0], (channels, self.width))
        overall = glorot(keys[1], (window * channels, self.width))
        return TeslaNetwork(
            window=window,
            channels=channels,
            embedding=DualEmbedding(local, zeros, overall, zeros),
            binner=LogarithmicBinner.create(window, self.width, keys[2]),
            attention=SoftmaxAttention.create(self.width, self.heads, self.key_width, keys[3]),
            norm=LayerNorm.create(self.width),
            head=TwoStepHead.create(len(logarithmic_bins(window)), self.width, keys[4]),
        )

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters."""
        bins, width, inner = len(logarithmic_bins(window)), self.width, self.heads * self.key_width
        embedding = (channels + 1) * width + (window * channels + 1) * width  # local, global
        binner = window + bins * width  # a weight per reading, a bias per bin
        attention = 3 * (width * inner + inner) + inner * width + width  # query, key and value; output
        norm = 2 * width
        head = (bins + 1) + (width + 1)
        return embedding + binner + attention + norm + head

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one inference of the folded plan."""
        bins, width, inner = len(logarithmic_bins(window)), self.width, self.heads * self.key_width
        # Sums of bins and the global embedding of each reading; the local embedding of each bin, and the shared part.
        front = window * channels * (1 + width) + bins * channels * width + bins * width
        # Queries, keys and values are made of the tokens, or of the parts of tokens if that costs less.
        from_tokens = bins * width * inner
        from_parts = bins * channels * inner + width * inner + bins * inner
        project = 3 * min(from_tokens, from_parts) + bins * inner * width
        pairs = bins * bins
        norm = 3 * bins * width
        head = bins * width
        return Operations(
            multiply_adds=front + project + 2 * pairs * inner + norm + head,  # 2: scores, and values mixed by them
            # Softmax (difference to the largest score, sum of the weights), residual sum, norm.
            additions=2 * pairs * self.heads + bins * width + 2 * bins * width,
            exponentials=pairs * self.heads,
            divisions=bins * self.heads + 2 * bins,  # softmax, norm
        )


class LogarithmicBinner(eqx.Module):
    """Sums tokens [batch, rows, width] into bin tokens [batch, bins, width], each with a learned weight per reading.

    Bins double in length from the newest reading back (`logarithmic_bins`). It is a `SequenceLensProjector` whose
    matrix has one weight per row. Like that, it can sum readings before they are embedded (`fused`), so that the tokens
    of single readings are never computed.
    """

    weight: Array  # [rows], shared by the features
    bias: Array  # [bins, width]

    @staticmethod
    def create(rows: int, width: int, key: Array) -> "LogarithmicBinner":
        """Draw Glorot weights as if each bin were a dense layer with one output; the bias is zero."""
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
        """The binner as a lens projector: row t of its matrix [rows, bins] has weight t at its bin, zeros elsewhere."""
        rows = np.arange(self.weight.shape[0])
        bin_of_row = np.searchsorted(self.starts, rows, side="right") - 1
        is_in_bin = bin_of_row[:, None] == np.arange(len(self.starts))  # [rows, bins]
        return SequenceLensProjector(self.weight[:, None] * is_in_bin, self.bias)

    def __call__(self, tokens: Array) -> Array:
        """Map tokens [batch, rows, width] to bin tokens: the published form, which needs every reading's token."""
        return self.projector(tokens)

    def fused(self, x: Array, embedding: DualEmbedding) -> Array:
        """Compute `self(embedding(x))` without a token per reading."""
        return self.projector.fused(x, embedding)

    def steps(self, source: str, embedding: DualEmbedding, output: str) -> list[Step]:
        """Return `fused` as plan steps: sum the weighted readings of each bin, then embed the sums as tokens."""
        weight, bias = np.asarray(self.weight), np.asarray(self.bias)
        # The token of a reading is its own part plus one that all readings share. A bin is a weighted sum of tokens, so
        # it has the shared part times the sum of the weights.
        weight_sums = np.add.reduceat(weight, self.starts)  # [bins]
        bins = Step("bins", (source,), "seen", {"weight": weight, "start": self.starts.astype(np.int32)})
        row_factors = np.ones(len(weight))  # the rows of `source` are the readings as they are
        return [bins, *embedding.token_steps("seen", source, output, weight_sums, bias, row_factors)]


class TeslaNetwork(Network):
    """The parameters of TESLA."""

    embedding: DualEmbedding
    binner: LogarithmicBinner
    attention: SoftmaxAttention
    norm: LayerNorm
    head: TwoStepHead

    undecayed = frozenset(
        {"local_bias", "overall_bias", "bias", "token_bias", "gain"}
        | {"query_bias", "key_bias", "value_bias", "out_bias"}
    )

    def __call__(self, features: Array) -> Array:
        """Return the scaled targets [batch] of features [batch, rows, channels]."""
        tokens = self.binner.fused(features, self.embedding)
        return self.head(self.norm(tokens + self.attention(tokens)))

    def plan(self) -> Plan:
        """Return the network as a plan of kernel calls, from the window to the scaled target."""
        steps = [
            *self.binner.steps(INPUT, self.embedding, "tokens"),
            *self.attention.steps("tokens", "attended"),
            add_step("tokens", "attended", "both"),
            *self.norm.steps("both", "out"),
            *self.head.steps("out", "y"),
        ]
        return Plan(self.window, self.channels, tuple(steps))
