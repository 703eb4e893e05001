"""Mamba: one Mamba-2 block of which only the newest output is read (Dao and Gu 2024).

    x [N, C] ─ embed ─ u [N, D] ─ norm ─ mixer at row N ─ + ─ norm ─ head ─ y
                       └────────── newest row ─────────── +

The mixer's newest output is a weighted sum over the window (layers/state_space.py), exact and without recurrence.

Differs from the published code: one block, a linear embedding of the readings in place of word vectors, one
value as the output, and sizes for a sensor (the published width starts at 768).
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations
from scare.layers.linear import Linear
from scare.layers.state_space import RootMeanSquareNorm, StateSpaceMixer, root_mean_square
from scare.layers.steps import add, dense
from scare.models.contract import Network
from scare.records import Count

TOGETHER = 256  # windows computed at once in use


@dataclass(frozen=True)
class Mamba:
    """The architecture of one Mamba-2 block.

    >>> Mamba.default().parameters(360, 1)
    8013
    """

    width: Count = 32  # D
    expand: Count = 2  # inner width a width
    head_width: Count = 16  # P
    state: Count = 16  # S
    taps: Count = 4  # k, of the causal convolution

    citation: ClassVar[str] = (
        "Dao, Gu: Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space"
        " Duality, ICML 2024"
    )
    complexity: ClassVar[str] = "O(N)"

    def __post_init__(self) -> None:
        if min(self.width, self.expand, self.head_width, self.state, self.taps) < 1:
            raise UsageError("every size of Mamba must be at least 1")
        if self.inner % self.head_width:
            raise UsageError(f"Mamba's inner width {self.inner} is not a multiple of its head width {self.head_width}")

    @staticmethod
    def default() -> "Mamba":
        """The size of the comparison at a window of 360."""
        return Mamba()

    @property
    def inner(self) -> int:
        """Features inside the block."""
        return self.expand * self.width

    @property
    def heads(self) -> int:
        """How many heads share the inner features."""
        return self.inner // self.head_width

    def build(self, window: int, channels: int, key: Array) -> "MambaNetwork":
        """Random parameters; the window's length does not matter."""
        keys = jax.random.split(key, 3)
        return MambaNetwork(
            window=window,
            channels=channels,
            embedding=Linear.create(channels, self.width, keys[0]),
            norm=RootMeanSquareNorm.create(self.width),
            mixer=StateSpaceMixer.create(self.width, self.inner, self.heads, self.state, self.taps, keys[1]),
            last_norm=RootMeanSquareNorm.create(self.width),
            head=Linear.create(self.width, 1, keys[2]),
        )

    def parameters(self, window: int, channels: int) -> int:
        """How many numbers training moves."""
        width, inner, state, heads = self.width, self.inner, self.state, self.heads
        projections = width * (2 * inner + 2 * state + heads) + inner * width
        convolutions = (self.taps + 1) * (inner + 2 * state)
        return (channels + 1) * width + projections + convolutions + 3 * heads + inner + 2 * width + width + 1

    def operations(self, window: int, channels: int) -> Operations:
        """What one inference of the folded plan takes: rows first, then what the newest row alone needs."""
        width, inner, state, few = self.width, self.inner, self.state, min(channels + 1, self.width)
        mixed, steps, reached = window * (inner + state), window * self.heads, min(self.taps, window)
        rows = Operations(
            multiply_adds=window * few * (channels + 2) + (few + self.taps) * mixed + few * steps,
            additions=mixed,
            exponentials=mixed,
            divisions=2 * window + mixed,
        )
        summed = Operations(
            multiply_adds=window * (state + inner) + 3 * steps + inner, additions=3 * steps, exponentials=3 * steps
        )
        newest = Operations(
            multiply_adds=reached * (few + self.taps) * state + (few + width + 3) * inner + (channels + 3) * width,
            additions=state + inner + width,
            exponentials=state + inner,
            divisions=state + inner + 4,
        )
        return rows + summed + newest


class MambaNetwork(Network):
    """The parameters of Mamba."""

    embedding: Linear
    norm: RootMeanSquareNorm
    mixer: StateSpaceMixer
    last_norm: RootMeanSquareNorm
    head: Linear

    undecayed = frozenset({"bias", "step_bias", "log_decay", "direct", "gain"})

    def __call__(self, features: Array) -> Array:
        """Scaled targets [batch]."""
        if len(features) <= TOGETHER:
            return self._read(features)
        return jax.lax.map(lambda one: self._read(one[None])[0], features, batch_size=TOGETHER)

    def _read(self, features: Array) -> Array:
        """Outputs [batch] of few windows.

        A normed token is [x_t, 1] / rms times a matrix, so the mixer reads channels + 1 numbers a row, not `width`.
        """
        tokens, ones = self.embedding(features), jnp.ones_like(features[:, :, :1])
        rows = jnp.concatenate([features, ones], axis=-1) / root_mean_square(tokens)
        basis = jnp.concatenate([self.embedding.weight, self.embedding.bias[None]]) * self.norm.gain
        newest = tokens[:, -1] + self.mixer(rows, basis)
        return self.head(self.last_norm(newest))[:, 0]

    def plan(self) -> Plan:
        """The network as kernel calls: channels + 1 numbers a row; every gain moves into the matrix after it."""
        normed, basis = self.norm.few_steps(INPUT, self.embedding, "rows")
        steps = [
            *normed,
            *self.mixer.steps("rows", basis, "mixed", self.window),
            Step("newest", (INPUT,), "now"),
            *self.embedding.steps("now", "token"),
            add("token", "mixed", "block"),
            *self.last_norm.steps("block", "block.norm"),
            dense("block.norm", "y", self.last_norm.into(self.head.weight), self.head.bias),
        ]
        return Plan(self.window, self.channels, tuple(steps))
