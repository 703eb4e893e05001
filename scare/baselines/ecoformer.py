"""EcoFormer (Liu et al. 2022): one token per reading, hash attention of linear complexity, read at the newest token.

    x [N, C] ─ embed ─ T [N, D] ─ norm ─ hash attention ─ + ─ norm ─ feed-forward ─ + ─ newest token ─ dense ─ y
                           └─────────────────────────────┘└──────────────────────────┘

Only the newest token is read, so everything after the hash codes is computed for it alone: exact, and linear in N
in training too. The hash is fitted to the tokens at the beginning of each round (`layers.ecoformer_attention`).

Attention sees a set: without positions the order of all readings but the newest is lost.

Differs from the published code: trained from the start with Glorot and He weights (there a softmax model is
fine-tuned, its weights started at 0.02), the hash is refitted each round (there once), and order enters by learned
positions (there by convolutions between the layers).
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import equinox as eqx
import jax
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations, add_step, dense_step
from scare.layers.ecoformer_attention import Bias, HashAttention
from scare.layers.feed_forward import Activation, FeedForward, LayerNorm, Linear, project
from scare.models.contract import Network
from scare.schema import Count

FITTED_PAIRS = 1 << 21  # most pairs of tokens in a fit of the hash: those of 16 windows of 360 readings, one of 1440
FITTED_WINDOWS = 64  # most windows in a fit of the hash
START = 0.02  # standard deviation of the initial positions
INFERENCE_BATCH = 128  # windows computed at once, so that scoring thousands of long windows fits in memory


@dataclass(frozen=True)
class EcoFormer:
    """The architecture of EcoFormer."""

    width: Count = 8  # D
    expansion: Count = 4  # hidden width of the feed-forward network, in widths
    bits: Count = 16  # c
    supports: Count = 25  # m
    bias: Bias = Bias.SUM
    positions: bool = True  # a learned vector for each row

    citation: ClassVar[str] = (
        "Liu, Pan, He, Cai, Zhuang: EcoFormer: Energy-Saving Attention with Linear Complexity. NeurIPS 2022"
    )
    complexity: ClassVar[str] = "O(N)"

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 32:
            raise UsageError(f"a hash code has 1 to 32 bits, one word, not {self.bits}")

    @staticmethod
    def default() -> "EcoFormer":
        """Return the published hash, in one block of width 8."""
        return EcoFormer()

    def build(self, window: int, channels: int, key: Array) -> "EcoFormerNetwork":
        """Draw the parameters; the hash is random until the first round of training fits it."""
        keys, width = jax.random.split(key, 5), self.width
        return EcoFormerNetwork(
            window=window,
            channels=channels,
            embedding=Linear.create(channels, width, keys[0]),
            position=START * jax.random.normal(keys[4], (window, width)) if self.positions else None,
            attention=HashAttention.create(width, self.supports, self.bits, keys[1], Bias(self.bias)),
            feed_forward=FeedForward.create(width, self.expansion * width, keys[2], Activation.GELU),
            norms=(LayerNorm.create(width), LayerNorm.create(width)),
            head=Linear.create(width, 1, keys[3]),
        )

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters; the hash is not among them."""
        width, hidden = self.width, self.expansion * self.width
        embedding = (channels + 1) * width
        positions = window * width if self.positions else 0
        attention = 3 * (width**2 + width)  # one projection of queries and keys, value, output
        norms = 2 * (2 * width)  # two, each with a gain and a bias
        feed_forward = (width + 1) * hidden + (hidden + 1) * width
        head = width + 1
        return embedding + positions + attention + norms + feed_forward + head

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one inference: tokens and codes for every reading, the rest once."""
        width, hidden = self.width, self.expansion * self.width
        hashing = 2 * width + self.supports * (width + self.bits)  # of a token: unit vector, kernel, projection to bits
        token = channels * width + 3 * width + width**2 + hashing  # embed, norm, project, hash
        # The value of each token with `Bias.TOKEN`; with `Bias.SUM`, the sum of the tokens.
        value = width**2 if self.bias == Bias.TOKEN else 0
        summed = width if self.bias == Bias.SUM else 0
        # Of the newest token alone: bias, projection, norm, feed-forward network, GELU, head.
        once = width + width**2 + 3 * width + 2 * width * hidden + 3 * hidden + width
        memory = self.bits * (width + 1)  # signed additions: into it for each token, out of it once
        return Operations(
            multiply_adds=window * (token + value) + once,
            # For each token: norm, kernel, memory, sum. Once: memory, norm and two residual sums, GELU.
            additions=window * (2 * width + self.supports + memory + summed) + memory + 4 * width + hidden,
            exponentials=window * self.supports + hidden,  # kernel; GELU
            # Two for the norm and two for the unit vector of each token. Once: two for a norm, one for attention; GELU.
            divisions=4 * window + 3 + hidden,
        )


class EcoFormerNetwork(Network):
    """The parameters of EcoFormer."""

    embedding: Linear
    position: Array | None  # [rows, width]
    attention: HashAttention
    feed_forward: FeedForward
    norms: tuple[LayerNorm, LayerNorm]
    head: Linear

    undecayed = frozenset(
        {"position", "bias", "gain", "query_key_bias", "value_bias", "out_bias", "inner_bias", "outer_bias"}
    )

    def __call__(self, features: Array) -> Array:
        """Return the scaled targets [batch]; large batches are computed in parts, which take less memory."""
        if len(features) <= INFERENCE_BATCH:
            return self._forward(features)
        return jax.lax.map(lambda window: self._forward(window[None])[0], features, batch_size=INFERENCE_BATCH)

    def _forward(self, features: Array) -> Array:
        """Return the outputs [batch] of at most INFERENCE_BATCH windows."""
        tokens = self.tokens(features)
        mixed = tokens[:, -1] + self.attention.newest(self.norms[0](tokens))
        return self.head(mixed + self.feed_forward(self.norms[1](mixed)))[:, 0]

    def tokens(self, features: Array) -> Array:
        """Return one token per reading, [batch, rows, width]."""
        return project(features, self.embedding.weight) + self._constant

    @property
    def _constant(self) -> Array:
        """The part of a token that no reading changes: [width], or with positions [rows, width]."""
        return self.embedding.bias if self.position is None else self.embedding.bias + self.position

    def refresh(self, features: Array, key: Array) -> Self:
        """Return the network with its hash fitted to some of these windows, drawn at random."""
        count = min(FITTED_WINDOWS, max(1, FITTED_PAIRS // self.window**2))
        draw_key, fit_key = jax.random.split(key)
        windows = features[jax.random.permutation(draw_key, len(features))[:count]]
        return eqx.tree_at(lambda n: n.attention, self, _fit_hash(self, windows, fit_key))

    def plan(self) -> Plan:
        """Return the network as a plan of kernel calls, from the window to the scaled target."""
        steps = [
            dense_step(INPUT, "tokens", self.embedding.weight, self._constant),
            *self.norms[0].steps("tokens", "normed"),
            *self.attention.newest_steps("normed", "attended"),
            Step("newest", ("tokens",), "token"),
            add_step("token", "attended", "first"),
            *self.norms[1].steps("first", "block"),
            *self.feed_forward.steps("block", "fed"),
            add_step("first", "fed", "second"),
            *self.head.steps("second", "y"),
        ]
        return Plan(self.window, self.channels, tuple(steps))


@eqx.filter_jit
def _fit_hash(network: EcoFormerNetwork, features: Array, key: Array) -> HashAttention:
    """Fit the network's attention to the normalised tokens of these windows."""
    return network.attention.fitted(network.norms[0](network.tokens(features)), key)
