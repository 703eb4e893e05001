"""Mamba: one Mamba-2 block of which only the newest output is read (Dao and Gu 2024).

    x [N, C] ─ embed ─ u [N, D] ─ norm ─ mixer at row N ─ + ─ norm ─ head ─ y
                       └────────── newest row ─────────── +

A state h_t = exp(Δ_t A) h_{t−1} + Δ_t x_t ⊗ B_t per head, read as y_t = h_t C_t + D x_t, gives at the newest row N

    y_N = Σ_s exp(A Σ_{r>s} Δ_r) (C_N·B_s) Δ_s x_s + D x_N,

a weighted sum without recurrence: x, B and Δ are needed at every row; C, the gate, the norm and the output projection
at the newest row only. Differs from the published code: one block, a linear embedding of the readings in place of word
vectors, one value as the output, and sizes for a sensor (the published width starts at 768).
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations, add_step, dense_step
from scare.layers.feed_forward import Linear, draw_within, project
from scare.models.contract import Network
from scare.schema import Count

EPSILON = 1e-5  # added to a mean square before its root
SHORTEST, LONGEST, FLOOR = 1e-3, 1e-1, 1e-4  # the initial Δ is drawn from SHORTEST to LONGEST, and is at least FLOOR
INFERENCE_BATCH = 256  # windows computed at once in inference, so that thousands of long windows fit in memory


@dataclass(frozen=True)
class Mamba:
    """The architecture of one Mamba-2 block.

    >>> Mamba.default().parameters(360, 1)
    8013
    """

    width: Count = 32  # D
    expand: Count = 2  # inner width = expand × width
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
        """Return the size used in the comparison with other models at a window of 360."""
        return Mamba()

    @property
    def inner(self) -> int:
        """Features inside the block: expand × width."""
        return self.expand * self.width

    @property
    def heads(self) -> int:
        """Heads that the inner features are divided into."""
        return self.inner // self.head_width

    def build(self, window: int, channels: int, key: Array) -> "MambaNetwork":
        """Draw the parameters, whose number does not depend on the window."""
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
        """Return the number of trained parameters."""
        width, inner, state, heads = self.width, self.inner, self.state, self.heads
        projections = width * (2 * inner + 2 * state + heads) + inner * width
        convolutions = (self.taps + 1) * (inner + 2 * state)
        norms = inner + 2 * width  # gains for the mixer's output, its input, and the block's output
        embedding = (channels + 1) * width
        head = width + 1
        return embedding + projections + convolutions + 3 * heads + norms + head  # 3: Δ's bias, A and D

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one inference: every row, the weighted sum, then the newest row alone.

        An RMS norm takes two multiply-adds per number and two divisions per row; a SiLU takes an addition, an
        exponential and a division per number.
        """
        width, inner, state = self.width, self.inner, self.state
        narrow = min(channels + 1, width)  # numbers of a token after `narrow_steps`
        convolved = window * (inner + state)  # numbers of x and B: each is projected, convolved and goes through a SiLU
        steps = window * self.heads  # numbers of Δ, one for each row and head
        reached = min(self.taps, window)  # rows that the newest row's convolution reads
        every_row = Operations(
            multiply_adds=window * narrow * (channels + 2)  # embedding of the readings, norm
            + (narrow + self.taps) * convolved  # projection and convolution to x and B
            + narrow * steps,  # projection to Δ
            additions=convolved,  # SiLU
            exponentials=convolved,
            divisions=2 * window + convolved,  # norm; SiLU
        )
        weighted_sum = Operations(
            multiply_adds=window * (state + inner)  # C·B_s, and x_s times its weight, for each row s
            + 3 * steps  # the weights
            + inner,  # D x
            additions=3 * steps,
            exponentials=3 * steps,  # softplus takes an exponential and a logarithm, the decay an exponential
        )
        newest_row = Operations(
            multiply_adds=reached * (narrow + self.taps) * state  # projection and convolution to C
            + (narrow + 1 + 2 + width) * inner  # gate, product with it, norm, output projection
            + (channels + 2 + 1) * width,  # embedding, norm, head
            additions=state + inner + width,  # SiLU of C and of the gate; residual sum
            exponentials=state + inner,  # SiLU
            divisions=state + inner + 2 * 2,  # SiLU; two norms
        )
        return every_row + weighted_sum + newest_row


class RootMeanSquareNorm(eqx.Module):
    """RMS norm: each vector divided by its root mean square, times a gain."""

    gain: Array

    @staticmethod
    def create(width: int) -> "RootMeanSquareNorm":
        """Start with gain 1."""
        return RootMeanSquareNorm(jnp.ones(width))

    def __call__(self, x: Array) -> Array:
        """Divide each vector of x [..., width] by its root mean square, times the gain: same shape."""
        return x / root_mean_square(x) * self.gain

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the norm as plan steps, without its gain: `folded_into` moves that to the matrices that read it."""
        return [Step("rms_norm", (source,), output, settings={"epsilon": EPSILON})]

    def folded_into(self, weight: Array) -> Array:
        """Fold the gain into a matrix [width, outputs] that reads the norm."""
        return self.gain[:, None] * weight

    def narrow_steps(self, source: str, embedding: Linear, output: str) -> tuple[list[Step], np.ndarray]:
        """Return plan steps that norm the tokens x W + b of the readings x, the value `source`, in few numbers per row.

        A token has `width` numbers but is made of channels + 1: it is [x, 1] times the matrix [W; b]. QR decomposition
        gives [W; b] = R Q, where the rows of Q are orthonormal. So a token is ([x, 1] R) Q and has the length of the
        short row [x, 1] R: norming the short row is enough. Also returns the basis [channels + 1, width], which is Q
        times the gain: output · basis are the normed tokens.
        """
        joint = np.vstack([np.asarray(embedding.weight), np.asarray(embedding.bias)])  # [W; b]
        # NumPy decomposes the transpose, so both parts are transposed back.
        q, r = (part.T.astype(joint.dtype) for part in np.linalg.qr(joint.T.astype(np.float64)))
        # The norm divides by the root of the mean square, here over channels + 1 numbers instead of `width`: that mean
        # is larger by 1 / share. The basis, and the EPSILON that the kernel adds to the mean, make up for that.
        share = len(q) / q.shape[1]
        steps = [
            dense_step(source, f"{output}.few", r[:-1], r[-1]),
            Step("rms_norm", (f"{output}.few",), output, settings={"epsilon": EPSILON / share}),
        ]
        return steps, q * np.asarray(self.gain) * share**-0.5


class CausalConvolution(eqx.Module):
    """Depthwise convolution: each feature is mixed over its last k rows, the current one among them."""

    taps: Array  # [k, features], the last for the row itself
    bias: Array  # [features]

    @staticmethod
    def create(taps: int, features: int, key: Array) -> "CausalConvolution":
        """Draw taps and bias uniform within ±1/√k."""
        first, second = jax.random.split(key)
        return CausalConvolution(draw_within(first, (taps, features), taps), draw_within(second, (features,), taps))

    def __call__(self, rows: Array, weight: Array) -> Array:
        """Convolve rows · weight, for rows [batch, rows, r] and weight [r, features], padded with zeros at the start.

        Weight and the k taps are multiplied first, so that a row and its k − 1 predecessors, k·r numbers, take a single
        product. For small r this is less work than a convolution, and its gradient takes a fifth of the time.
        """
        padded = jnp.pad(rows, ((0, 0), (len(self.taps) - 1, 0), (0, 0)))
        recent = [padded[:, start : start + rows.shape[1]] for start in range(len(self.taps))]  # oldest first
        joined = (self.taps[:, None, :] * weight).reshape(-1, weight.shape[1])  # taps ⊗ weight [k·r, features]
        return project(jnp.concatenate(recent, axis=-1), joined) + self.bias

    def newest(self, rows: Array, weight: Array) -> Array:
        """Like `__call__`, for the newest row alone: [batch, features]."""
        return self(rows[:, -len(self.taps) :], weight)[:, -1]

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the convolution of a source [rows, features] as kernel calls."""
        weights = {"taps": np.asarray(self.taps), "bias": np.asarray(self.bias)}
        return [Step("causal_convolution", (source,), output, weights)]

    def newest_steps(self, source: str, weight: np.ndarray, rows: int, output: str) -> list[Step]:
        """Return `newest` as plan steps, for the rows of source [rows, r] that the newest row's taps reach."""
        return [
            Step("newest_rows", (source,), f"{output}.rows", settings={"rows": min(rows, len(self.taps))}),
            dense_step(f"{output}.rows", f"{output}.part", weight),
            *self.steps(f"{output}.part", f"{output}.mixed"),
            Step("newest", (f"{output}.mixed",), output),
        ]


class StateSpaceMixer(eqx.Module):
    """Mixer of a Mamba-2 block: from the tokens of a window to the newest row's output [batch, width].

    Tokens are given as a product, rows · basis, because rows have fewer numbers than tokens. The comments beside the
    parameters have the letters of the module's formulas.
    """

    gate: Array  # z [width, inner]
    value: Array  # x [width, inner]
    write: Array  # B [width, state]
    read: Array  # C [width, state]
    step: Array  # Δ [width, heads]
    step_bias: Array  # [heads]
    value_convolution: CausalConvolution
    write_convolution: CausalConvolution
    read_convolution: CausalConvolution
    log_decay: Array  # log −A [heads]
    direct: Array  # D [heads]
    norm: RootMeanSquareNorm
    out: Array  # [inner, width]

    @staticmethod
    def create(width: int, inner: int, heads: int, state: int, taps: int, key: Array) -> "StateSpaceMixer":
        """Draw the step Δ log-uniform in [1e-3, 1e-1], the decay A uniform in [−16, −1]; the direct weight D is 1.

        All other weights are uniform within ±1/√inputs.
        """
        keys = jax.random.split(key, 11)
        gate, value, write, read, step = (
            draw_within(k, (width, outputs), width)
            for k, outputs in zip(keys[:5], (inner, inner, state, state, heads), strict=True)
        )
        value_convolution, write_convolution, read_convolution = (
            CausalConvolution.create(taps, features, k)
            for k, features in zip(keys[5:8], (inner, state, state), strict=True)
        )
        log_decay = jnp.log(jax.random.uniform(keys[8], (heads,), minval=1.0, maxval=16.0))
        return StateSpaceMixer(
            gate=gate,
            value=value,
            write=write,
            read=read,
            step=step,
            step_bias=draw_step_bias(heads, keys[9]),
            value_convolution=value_convolution,
            write_convolution=write_convolution,
            read_convolution=read_convolution,
            log_decay=log_decay,
            direct=jnp.ones(heads),
            norm=RootMeanSquareNorm.create(inner),
            out=draw_within(keys[10], (inner, width), inner),
        )

    def __call__(self, rows: Array, basis: Array) -> Array:
        """Return the newest output for tokens rows · basis, with rows [batch, rows, r] and basis [r, width]."""
        value = jax.nn.silu(self.value_convolution(rows, basis @ self.value))  # x [batch, rows, inner]
        write = jax.nn.silu(self.write_convolution(rows, basis @ self.write))  # B [batch, rows, state]
        read = jax.nn.silu(self.read_convolution.newest(rows, basis @ self.read))  # C [batch, state]
        step = jax.nn.softplus(project(rows, basis @ self.step) + self.step_bias)  # Δ [batch, rows, heads]
        mixed = newest_output(value, write, read, step, -jnp.exp(self.log_decay))
        direct = jnp.repeat(self.direct, mixed.shape[1] // len(self.direct))  # D of each feature's head [inner]
        gate = jax.nn.silu(rows[:, -1] @ (basis @ self.gate))
        return self.norm((mixed + direct * value[:, -1]) * gate) @ self.out

    def steps(self, source: str, basis: np.ndarray, output: str, rows: int) -> list[Step]:
        """Return the layer as kernel calls, for tokens source · basis with `rows` rows."""
        weights = {"decay": -np.exp(np.asarray(self.log_decay)), "direct": np.asarray(self.direct)}
        return [
            dense_step(source, "value", basis @ np.asarray(self.value)),
            *self.value_convolution.steps("value", "value.mixed"),
            Step("silu", ("value.mixed",), "value.active"),
            dense_step(source, "write", basis @ np.asarray(self.write)),
            *self.write_convolution.steps("write", "write.mixed"),
            Step("silu", ("write.mixed",), "write.active"),
            *self.read_convolution.newest_steps(source, basis @ np.asarray(self.read), rows, "read"),
            Step("silu", ("read",), "read.active"),
            dense_step(source, "step", basis @ np.asarray(self.step), self.step_bias),
            Step("state_space", ("value.active", "write.active", "read.active", "step"), "state", weights),
            Step("newest", (source,), "gate.row"),
            dense_step("gate.row", "gate", basis @ np.asarray(self.gate)),
            Step("silu", ("gate",), "gate.active"),
            Step("multiply", ("state", "gate.active"), "gated"),
            *self.norm.steps("gated", "gated.norm"),
            dense_step("gated.norm", output, self.norm.folded_into(self.out)),
        ]


class MambaNetwork(Network):
    """The parameters of Mamba."""

    embedding: Linear
    norm: RootMeanSquareNorm
    mixer: StateSpaceMixer
    last_norm: RootMeanSquareNorm
    head: Linear

    undecayed = frozenset({"bias", "step_bias", "log_decay", "direct", "gain"})

    def __call__(self, features: Array) -> Array:
        """Return the scaled targets [batch]; large batches are computed in parts, which take less memory."""
        if len(features) <= INFERENCE_BATCH:
            return self._forward(features)
        return jax.lax.map(lambda window: self._forward(window[None])[0], features, batch_size=INFERENCE_BATCH)

    def _forward(self, features: Array) -> Array:
        """Return the outputs [batch] of at most INFERENCE_BATCH windows.

        A normed token is [x_t, 1] / rms times a matrix, so the mixer reads channels + 1 numbers per row, not `width`.
        """
        tokens, ones = self.embedding(features), jnp.ones_like(features[:, :, :1])
        rows = jnp.concatenate([features, ones], axis=-1) / root_mean_square(tokens)
        basis = jnp.concatenate([self.embedding.weight, self.embedding.bias[None]]) * self.norm.gain
        newest = tokens[:, -1] + self.mixer(rows, basis)
        return self.head(self.last_norm(newest))[:, 0]

    def plan(self) -> Plan:
        """Return the network as kernel calls.

        The mixer reads channels + 1 numbers per row, as in `_forward`; every gain moves into the matrix after it.
        """
        normed, basis = self.norm.narrow_steps(INPUT, self.embedding, "rows")
        steps = [
            *normed,
            *self.mixer.steps("rows", basis, "mixed", self.window),
            Step("newest", (INPUT,), "now"),
            *self.embedding.steps("now", "token"),
            add_step("token", "mixed", "block"),
            *self.last_norm.steps("block", "block.norm"),
            dense_step("block.norm", "y", self.last_norm.folded_into(self.head.weight), self.head.bias),
        ]
        return Plan(self.window, self.channels, tuple(steps))


def root_mean_square(x: Array) -> Array:
    """Return the root mean square of each vector of x [..., width], [..., 1]."""
    return jnp.sqrt(jnp.square(x).mean(axis=-1, keepdims=True) + EPSILON)


def newest_output(value: Array, write: Array, read: Array, step: Array, decay: Array) -> Array:
    """Return the newest row's output without D x: Σ_s exp(A Σ_{r>s} Δ_r) (C·B_s) Δ_s x_s, [batch, inner].

    `value` x [batch, rows, inner], `write` B [batch, rows, state], `read` C [batch, state], `step` Δ [batch, rows,
    heads], `decay` A [heads]. Sums run from the newest row back, so no exponent is a difference of long sums.
    """
    from_row_on = jax.lax.cumsum(step, axis=1, reverse=True)
    after_row = jnp.pad(from_row_on[:, 1:], ((0, 0), (0, 1), (0, 0)))  # Σ_{r>s} Δ_r
    weight = jnp.exp(decay * after_row) * step * jnp.einsum("bts,bs->bt", write, read)[:, :, None]
    by_head = value.reshape(*value.shape[:2], step.shape[2], -1)  # [batch, rows, heads, inner / heads]
    return jnp.einsum("bth,bthp->bhp", weight, by_head).reshape(len(value), -1)


def draw_step_bias(heads: int, key: Array) -> Array:
    """Draw each head's initial step Δ, log-uniform in [1e-3, 1e-1], and return the bias that softplus turns into it.

    The bias is softplus⁻¹(Δ) = Δ + log(1 − exp(−Δ)), [heads].
    """
    share = jax.random.uniform(key, (heads,))
    step = jnp.maximum(SHORTEST * (LONGEST / SHORTEST) ** share, FLOOR)
    return step + jnp.log(-jnp.expm1(-step))
