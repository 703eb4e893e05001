"""SCARE: dual embedding, Sequence Lens Projector, Efficient Bitwise Attention, feed-forward, head (paper, method).

    x [N, C] ─(hats)─ u [K, C] ─ embed + lens ─ Z [L, D] ─ attention ─ + ─ feed-forward ─ + ─ head ─ y
                      └───── skip: a linear map; curve: products of the newest readings ───── +

N window, C channels, K hats, L = ⌈log2 N⌉ lenses (tokens), D width, F hidden units, m supports, c bits of a hash code.
Presets: `paper()` as the paper gives it, its gaps filled as docs/decisions/paper.md says; `default()` what users get.
The six rows of the paper's ablation are six settings of this one model: `ABLATION`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, log2
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.moments import Solution
from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import UsageError
from scare.kernels import Operations, add_step
from scare.layers.bitwise_attention import EfficientBitwiseAttention, RbfHash, draw_stratified, draw_uniform
from scare.layers.ecoformer_attention import HashAttention
from scare.layers.embedding import DualEmbedding, HatBasis, SequenceLensProjector, bin_averages
from scare.layers.feed_forward import FeedForward, LayerNorm
from scare.layers.heads import FlatHead, TwoStepHead, count_products, product_steps, products
from scare.layers.softmax_attention import SoftmaxAttention
from scare.models.contract import Network
from scare.models.linear_families import Design
from scare.schema import Count
from scare.windowing.scaling import Scaling
from scare.windowing.training_examples import DesignMatrix

KEY_WIDTH = 8  # key width of a head of softmax attention


class Mix(StrEnum):
    """How attention mixes tokens."""

    MULTI_HEAD = "multi-head"
    HASH = "hash"
    BITWISE = "bitwise"


class Sampling(StrEnum):
    """Where the support set of the hash comes from in training."""

    OFF = "off"  # drawn once, before the first step
    UNIFORM = "uniform"  # every batch, any token: the paper's
    STRATIFIED = "stratified"  # every batch, slot j from lens j mod L


@dataclass(frozen=True)
class Front:
    """Hyper-parameters of the front: from readings to tokens."""

    width: Count = 8  # D
    overall: bool = True  # with the global embedding, not the local one alone
    patching: bool = True  # lenses; otherwise one token per reading
    hats: bool = True  # lenses over the hat basis, W = ΦΘ, not over single readings

    def __post_init__(self) -> None:
        if self.hats and not self.patching:
            raise UsageError("hats need lenses: turn front.hats off, or front.patching on")


@dataclass(frozen=True)
class Attention:
    """Hyper-parameters of the attention, which mixes tokens."""

    mix: Mix = Mix.BITWISE
    bits: Count = 16  # c
    supports: Count = 16  # m
    sampling: Sampling = Sampling.STRATIFIED
    heads: Count = 4  # heads of multi-head attention
    raw: bool = False  # hash vectors as they are, exactly as the paper's formula reads; otherwise as unit vectors

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 32:
            raise UsageError(f"a hash code has 1 to 32 bits, one word, not {self.bits}")
        if self.raw and self.mix != Mix.BITWISE:
            raise UsageError(f"attention.raw is for bitwise attention, not for {self.mix}: turn it off")


@dataclass(frozen=True)
class Block:
    """Hyper-parameters of the rest of the transformer block."""

    hidden: Count = 32  # F
    norm: bool = False  # layer normalisation, which removes the concentration's level


@dataclass(frozen=True)
class Head:
    """Hyper-parameters of the head: from tokens to the scaled target."""

    flat: bool = True  # one dense layer over all tokens; otherwise over lenses, then over features
    skip: bool = True  # plus a linear map of the features, which starts at a ridge regression
    curve: bool = True  # plus a linear map of the products of every two newest readings, which starts with the skip

    def __post_init__(self) -> None:
        if self.curve and not self.skip:
            raise UsageError("the curve starts together with the skip: turn head.skip on, or head.curve off")
        if self.skip and not self.flat:
            raise UsageError("the skip needs a head that starts at zero: turn head.flat on, or head.skip off")


@dataclass(frozen=True)
class Scare:
    """The hyper-parameters of SCARE in four small records."""

    front: Front = Front()
    attention: Attention = Attention()
    block: Block = Block()
    head: Head = Head()

    citation: ClassVar[str] = (
        "Yun, Kim, Ahn, Lee, Seo: Sensor Calibration Model Balancing Accuracy, Real-time, and Efficiency"
    )
    complexity: ClassVar[str] = "O(N log N); O(N) with hats"

    @staticmethod
    def default() -> "Scare":
        """Return the architecture chosen on real co-locations: with the hat basis, without layer normalisation.

        One dense layer over all tokens is its head. A linear map of the features (the skip) and one of the products of
        the newest readings (the curve) are added to that.
        """
        return Scare()

    @staticmethod
    def paper() -> "Scare":
        """Return the architecture of the paper's method section."""
        return Scare(
            Front(hats=False),
            Attention(sampling=Sampling.UNIFORM),
            Block(hidden=64, norm=True),
            Head(flat=False, skip=False, curve=False),
        )

    def rows(self, window: int) -> int:
        """Return the number of rows of the features: one for each hat, or for each reading of the window."""
        return HatBasis(window).size if self.front.hats else window

    def tokens(self, window: int) -> int:
        """Return the number of tokens in the block: one for each lens, or for each row."""
        return lenses(window) if self.front.patching else self.rows(window)

    def build(self, window: int, channels: int, key: Array) -> "ScareNetwork":
        """Draw the parameters; skip, curve and a flat head start at zero."""
        keys = jax.random.split(key, 6)
        rows, tokens, width = self.rows(window), self.tokens(window), self.front.width
        embedding = DualEmbedding.create(rows, channels, width, self.front.overall, keys[0])
        projector = None
        if self.front.patching:
            projector = SequenceLensProjector.create(self._lens_matrix(window, keys[1]), width, keys[2])
        norms = tuple(LayerNorm.create(width) for _ in range(2)) if self.block.norm else None
        return ScareNetwork(
            window=window,
            channels=channels,
            architecture=self,
            embedding=embedding,
            projector=projector,
            attention=self._build_attention(keys[3]),
            feed_forward=FeedForward.create(width, self.block.hidden, keys[4]),
            norms=norms,
            head=FlatHead.create(tokens, width) if self.head.flat else TwoStepHead.create(tokens, width, keys[5]),
            skip=jnp.zeros((rows * channels,)) if self.head.skip else None,
            curve=jnp.zeros((count_products(channels),)) if self.head.curve else None,
        )

    def _lens_matrix(self, window: int, key: Array) -> Array:
        """Draw the lens matrix W [rows, lenses].

        Rows are readings, or features of the hat basis. For readings it is drawn as Glorot does, as in the paper's
        framework. For hats each lens begins as the mean over a logarithmic bin, plus some noise.
        """
        rows, count = self.rows(window), lenses(window)
        if not self.front.hats:
            return jax.nn.initializers.glorot_uniform()(key, (rows, count))
        shares = HatBasis(window).matrix.T @ (bin_averages(window, count) > 0)  # of each hat in each bin
        return jnp.asarray(shares / shares.sum(axis=0)) + 0.02 / np.sqrt(rows) * jax.random.normal(key, (rows, count))

    def _build_attention(self, key: Array) -> "AttentionLayer":
        """Draw the attention layer that `attention.mix` names."""
        width, choice = self.front.width, self.attention
        if choice.mix is Mix.MULTI_HEAD:
            return SoftmaxAttention.create(width, choice.heads, KEY_WIDTH, key)
        if choice.mix is Mix.HASH:
            return HashAttention.create(width, choice.supports, choice.bits, key)
        return EfficientBitwiseAttention.create(width, choice.supports, choice.bits, key, choice.raw)

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters."""
        rows, tokens, width, hidden = self.rows(window), self.tokens(window), self.front.width, self.block.hidden
        embedding = (channels + 1) * width  # local
        embedding += (rows * channels + 1) * width if self.front.overall else 0  # global
        projector = rows * tokens + tokens * width if self.front.patching else 0  # W and B
        inner = KEY_WIDTH * self.attention.heads
        attention = {
            # Projections of query, key and value, and the hash's.
            Mix.BITWISE: 3 * width**2 + self.attention.supports * self.attention.bits,
            # With biases: one projection of queries and keys, value, output.
            Mix.HASH: 3 * (width**2 + width),
            # With biases: query, key and value; output.
            Mix.MULTI_HEAD: 3 * (width + 1) * inner + (inner + 1) * width,
        }[self.attention.mix]
        norms = 2 * (2 * width) if self.block.norm else 0  # two, each with a gain and a bias
        block = (width + 1) * hidden + (hidden + 1) * width + norms
        head = tokens * width + 1 if self.head.flat else (tokens + 1) + (width + 1)  # over lenses, then over features
        skip = rows * channels if self.head.skip else 0
        curve = count_products(channels) if self.head.curve else 0
        return embedding + projector + attention + block + head + skip + curve

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one inference of the folded plan.

        A lens is a weighted sum of all rows, one for each token. Rows are the readings of the window or, with hats,
        which interpolate linearly, its knots.
        """
        rows, tokens, width, hidden = self.rows(window), self.tokens(window), self.front.width, self.block.hidden
        total = Operations(multiply_adds=tokens * channels * width)  # the local embedding, after the lenses
        if self.front.hats:  # each reading is divided between two knots, and added to both
            total += Operations(multiply_adds=window * channels, additions=2 * window * channels)
        if self.front.patching:  # lenses
            total += Operations(multiply_adds=rows * channels * tokens)
        if self.front.overall:  # the global embedding, and its addition to each token
            total += Operations(multiply_adds=rows * channels * width + tokens * width)
        total += self._attention_operations(tokens, channels)
        # Feed-forward and residuals. The outer layer gives `width` numbers for each token, and both residuals add as
        # many. Without norms the head, a linear map to one number, is multiplied into the outer layer when it is
        # folded: that gives one number (`outer` = 1), and its residual is a single addition to the output.
        outer, additions = (width, 2 * tokens * width) if self.block.norm else (1, tokens * width + 1)
        total += Operations(multiply_adds=tokens * hidden * (width + outer), additions=additions)
        if self.block.norm:
            # Of a number: square, scaling, gain; sum, difference to the mean. Of a token: a root and its inverse.
            norm = Operations(multiply_adds=3 * tokens * width, additions=2 * tokens * width, divisions=2 * tokens)
            total += norm + norm
        total += Operations(multiply_adds=tokens * width)  # head
        if self.head.curve:  # each product is computed and weighted, their sum added to the output
            total += Operations(multiply_adds=2 * count_products(channels), additions=1)
        if self.head.skip:  # a linear map of all features, added to the output
            total += Operations(multiply_adds=rows * channels, additions=1)
        return total

    def _attention_operations(self, tokens: int, channels: int) -> Operations:
        """Return the operations of the attention: to project the tokens, hash them if needed, and mix the values."""
        width, choice = self.front.width, self.attention
        pairs = tokens * tokens

        def project(out: int) -> Operations:
            """Return the operations to project the tokens, directly or fused with the embedding if that takes fewer."""
            direct = tokens * width * out
            # Of each token's local part, which has `channels` numbers, and of the global part that all share.
            fused = tokens * channels * out + (width * out + tokens * out if self.front.overall else 0)
            return Operations(multiply_adds=min(direct, fused))

        if choice.mix is Mix.MULTI_HEAD:
            # With few channels the readings themselves serve as keys and values (`SoftmaxAttention.fused`).
            reads_rows = not self.front.patching and not self.front.overall and channels < KEY_WIDTH
            inner = (channels if reads_rows else KEY_WIDTH) * choice.heads
            keys_and_values = Operations(tokens * channels * inner) if reads_rows else project(inner) + project(inner)
            attend = Operations(
                multiply_adds=2 * pairs * inner,  # scores, and sums of values weighted by them
                additions=2 * pairs * choice.heads,  # softmax: the largest score is subtracted, weights are summed
                exponentials=pairs * choice.heads,
                divisions=tokens * choice.heads,
            )
            return project(inner) + keys_and_values + attend + Operations(tokens * inner * width)
        # To hash all tokens once: normalise them, compute the kernel with every support, and project it.
        kernel = tokens * choice.supports
        code = Operations(
            multiply_adds=2 * tokens * width + kernel * width + kernel * choice.bits,
            additions=kernel,
            exponentials=kernel,
            divisions=2 * tokens,
        )
        if choice.raw:  # squared lengths in place of the normalisation
            code = Operations(
                multiply_adds=tokens * width + kernel * (width + 1 + choice.bits),
                additions=2 * kernel,
                exponentials=kernel,
            )
        # A weight takes an XOR and a count of bits; it is added to the sum of weights, and multiplies a value.
        attend = Operations(multiply_adds=pairs * width, additions=pairs, bit_operations=2 * pairs, divisions=tokens)
        if choice.mix is Mix.HASH:
            # Queries and keys share a projection and a code; the last term is the projection of the output.
            return project(width) + project(width) + code + attend + Operations(tokens * width * width)
        # Queries, keys and values are projected, queries and keys hashed.
        return project(width) + project(width) + project(width) + code + code + attend


AttentionLayer = SoftmaxAttention | HashAttention | EfficientBitwiseAttention


def lenses(window: int) -> int:
    """Return the number of lenses for a window of N rows: L = ⌈log2 N⌉."""
    return ceil(log2(window))


class ScareNetwork(Network):
    """The parameters of SCARE."""

    architecture: Scare = eqx.field(static=True)
    embedding: DualEmbedding
    projector: SequenceLensProjector | None
    attention: AttentionLayer
    feed_forward: FeedForward
    norms: tuple[LayerNorm, ...] | None
    head: FlatHead | TwoStepHead
    skip: Array | None  # [rows·channels]
    curve: Array | None  # [pairs of channels]

    undecayed = frozenset(
        {"local_bias", "overall_bias", "bias", "inner_bias", "outer_bias", "token_bias", "gain", "projection"}
        | {"query_bias", "key_bias", "value_bias", "out_bias", "query_key_bias", "skip", "curve"}
    )
    slow = frozenset({"skip", "curve"})

    @property
    def basis(self) -> np.ndarray | None:
        """The hat basis Φ [window, hats]; None without hats."""
        return HatBasis(self.window).matrix if self.architecture.front.hats else None

    def tokens(self, features: Array) -> Array:
        """Compute the tokens Z [batch, tokens, width] of features [batch, rows, channels]."""
        if self.projector is None:
            return self.embedding(features)
        return self.projector.fused(features, self.embedding)

    def finish(self, features: Array, tokens: Array) -> Array:
        """Compute what follows the tokens: attention, feed-forward network and head, plus skip and curve: [batch].

        The skip is a linear map of the features, the curve one of the products of every two newest readings.
        """
        softmax = self._fused_attention
        attended = self.attention(tokens) if softmax is None else softmax.fused(features, self.embedding)
        mixed = tokens + attended
        mixed = self.norms[0](mixed) if self.norms else mixed
        fed = mixed + self.feed_forward(mixed)
        out = self.head(self.norms[1](fed) if self.norms else fed)
        if self.skip is not None:
            out += features.reshape(len(features), -1) @ self.skip
        return out if self.curve is None else out + products(features[:, self._newest]) @ self.curve

    def __call__(self, features: Array) -> Array:
        """Predict the scaled targets [batch] of features [batch, rows, channels]."""
        return self.finish(features, self.tokens(features))

    def learn(self, features: Array, key: Array) -> tuple[Array, Self]:
        """Draw a support set from this batch; return the outputs with this set, and the network that has it."""
        if self._hashing is None:
            return self(features), self
        tokens = self.tokens(features)
        network = self._resampled(tokens, key)
        return network.finish(features, tokens), network

    @property
    def has_linear_start(self) -> bool:
        """Whether a linear map of the features (the skip) is added to the output; it starts at a regression."""
        return self.skip is not None

    def design(self, data: DesignMatrix, scaling: Scaling) -> Design:
        """Return the columns of the regression that the network starts at.

        They are what the skip weights, the features, and what the curve weights, the products of the newest readings.
        """
        extra = None if self.curve is None else lambda features: products(features[:, self._newest])
        return Design(data, scaling, self._newest, extra)

    def start(self, solution: Solution) -> Self:
        """Set the network to a linear model, given as weights and bias for the columns of `design`.

        The weights become those of skip and curve, the bias that of the head, whose own weights are zero at the start.
        """
        assert self.skip is not None
        weights, bias = solution
        dtype = self.skip.dtype
        skip, curve = (jnp.asarray(part, dtype) for part in np.split(weights, [len(self.skip)]))
        started = eqx.tree_at(lambda n: (n.skip, n.head.bias), self, (skip, jnp.asarray(bias, dtype)))
        return started if self.curve is None else eqx.tree_at(lambda n: n.curve, started, curve)

    def feature_steps(self) -> tuple[tuple[Step, ...], np.ndarray]:
        """Return the plan steps of "features", and the factors to multiply them by [rows·channels]."""
        steps, source, scale = self._feature_steps()
        return (*steps, Step("flatten", (source,), "features")), np.repeat(scale, self.channels)

    def added_to(self, linear: Self, start: Self, share: float) -> Self:
        """Return a blend: `linear` plus `share` times the difference between this network and its `start`.

        The head's weights are zero in `linear` and `start`, so the blend has `share` times this network's.
        """
        assert isinstance(self.head, FlatHead)  # no other starts at zero

        def linear_part(network: ScareNetwork) -> list[Array]:
            return [part for part in (network.skip, network.curve, network.head.bias) if part is not None]

        parts = zip(linear_part(linear), linear_part(start), linear_part(self), strict=True)
        blended = [base + share * (trained - initial) for base, initial, trained in parts]
        return eqx.tree_at(lambda n: [n.head.weight, *linear_part(n)], self, [share * self.head.weight, *blended])

    def refresh(self, features: Array, key: Array) -> Self:
        """Refit the hash of `HashAttention` to these features.

        Of bitwise attention without resampling (`Sampling.OFF`), the support set is drawn from them, but only once.
        """
        tokens = self.tokens(features)
        if isinstance(self.attention, HashAttention):
            return eqx.tree_at(lambda n: n.attention, self, self.attention.fitted(tokens, key))
        if self.architecture.attention.sampling is Sampling.OFF and not self._frozen:
            return self.freeze(self._resampled(tokens, key))
        return self

    def candidates(self, features: Array, key: Array, count: int) -> list[Self]:
        """Return `count` copies of this network, each with a new support set; only itself if the set is frozen.

        The sets are drawn from the tokens of these features.
        """
        if self._hashing is None or self._frozen:
            return [self]
        tokens = self.tokens(features)
        return [self._resampled(tokens, k) for k in jax.random.split(key, count)]

    def freeze(self, chosen: Self) -> Self:
        """Freeze the hash at the support set and bandwidth of the chosen network."""
        hashing, source = self._hashing, chosen._hashing
        if hashing is None or source is None:
            return self
        frozen = hashing.with_supports(source.supports.array, source.bandwidth.array, frozen=jnp.ones(()))
        return eqx.tree_at(lambda n: n.attention.hashing, self, frozen)

    def plan(self) -> Plan:
        """Return the network as a plan of kernel calls, from the window to the scaled target."""
        steps, source, scale = self._feature_steps()
        if self.projector is None:
            steps += self.embedding.steps(source, "tokens", scale)
        else:
            steps += self.projector.steps(source, self.embedding, "tokens", scale)
        if self._fused_attention is None:
            steps += self.attention.steps("tokens", "attended")
        else:
            steps += self._fused_attention.fused_steps(source, "tokens", self.embedding, "attended")
        steps += [add_step("tokens", "attended", "first")]
        # The residual sums are "first" and "second"; the steps after them read these, or their norms if there are any.
        block, out = ("block", "out") if self.norms else ("first", "second")
        steps += self.norms[0].steps("first", block) if self.norms else []
        steps += [*self.feed_forward.steps(block, "fed"), add_step(block, "fed", "second")]
        steps += self.norms[1].steps("second", out) if self.norms else []
        steps += self.head.steps(out, "deep")
        steps += self._skip_steps(source, "deep", scale)
        return Plan(self.window, self.channels, tuple(steps))

    def start_plan(self) -> Plan:
        """Return a plan of the skip (a linear map of the features) and the curve (one of products of readings) alone.

        It reads only the newest readings if no others have a weight.
        """
        assert self.skip is not None
        line = np.asarray(self.skip).reshape(-1, self.channels)
        newest = line[self._newest]
        bias = {"bias": np.asarray(self.head.bias)[None]}
        has_curve = self.curve is not None and bool(np.any(np.asarray(self.curve)))
        if np.count_nonzero(line) > np.count_nonzero(newest):  # older readings have a weight, too
            steps, source, scale = self._feature_steps()
            steps += self._line_steps(source, scale, bias)
            if has_curve:
                steps.append(self._newest_step(scale))
        else:
            scale = np.ones(len(line))
            weights = {"weight": newest[:, None], **bias}
            steps = [Step("newest", (INPUT,), "now"), Step("dense", ("now",), "straight", weights)]
        if has_curve:
            steps += [*self._curve_steps(scale), add_step("straight", "curved", "y")]
        return Plan(self.window, self.channels, tuple(steps))

    def _skip_steps(self, source: str, deep: str, scale: np.ndarray) -> list[Step]:
        """Return the plan steps that add skip and curve to the value `deep`, the output of the head.

        The features are the value `source` times `scale` [rows]. The steps make "straight", the skip of all features;
        "lined", the sum of `deep` and "straight"; "curved", the curve of the newest readings; and "y", the sum of
        "lined" and "curved".
        """
        if self.skip is None:
            return []
        steps = [*self._line_steps(source, scale, {}), add_step(deep, "straight", "lined")]
        if self.curve is None:
            return steps
        return [*steps, self._newest_step(scale), *self._curve_steps(scale), add_step("lined", "curved", "y")]

    def _line_steps(self, source: str, scale: np.ndarray, bias: dict[str, np.ndarray]) -> list[Step]:
        """Return the plan steps of the skip, a linear map of all features, with the result "straight".

        The features are the value `source` times `scale` [rows]; `bias` is empty, or has the map's bias.
        """
        assert self.skip is not None
        line = (np.asarray(self.skip) * np.repeat(scale, self.channels).astype(self.skip.dtype))[:, None]
        straight = Step("dense", ("features",), "straight", {"weight": line, **bias})
        return [Step("flatten", (source,), "features"), straight]

    def _newest_step(self, scale: np.ndarray) -> Step:
        """Return the plan step for "now", a view of the newest row of "features"."""
        start = self._newest % len(scale) * self.channels  # −1 becomes the index of the last row
        return Step("part", ("features",), "now", settings={"start": start, "shape": [self.channels]})

    def _curve_steps(self, scale: np.ndarray) -> list[Step]:
        """Return the plan steps of the curve, a linear map of the products of "now", with the result "curved"."""
        assert self.curve is not None
        return product_steps("now", "curved", self.curve, float(scale[self._newest]))

    def _feature_steps(self) -> tuple[list[Step], str, np.ndarray]:
        """Return steps for the features, the name of their result, and factors [rows].

        Row t of the features is row t of the result times factor t; the steps that read the result apply the factor.
        """
        if not self.architecture.front.hats:
            return [], INPUT, np.ones(self.window)
        basis = HatBasis(self.window)
        knot, fraction = basis.knot_shares
        weights = {"knot": knot.astype(np.int32), "fraction": fraction.astype(self.embedding.local.dtype)}
        return [Step("hat_basis", (INPUT,), "hats", weights, {"knots": basis.size})], "hats", basis.scale

    @property
    def _newest(self) -> int:
        """The index of the features' row that is the newest reading."""
        return 0 if self.architecture.front.hats else -1

    @property
    def _fused_attention(self) -> SoftmaxAttention | None:
        """The softmax attention if fusing it with the embedding is cheaper, else None.

        It is cheaper with one token per reading, no global embedding, and fewer channels than a head's key width.
        """
        local = self.projector is None and self.embedding.overall is None and self.channels < KEY_WIDTH
        return self.attention if local and isinstance(self.attention, SoftmaxAttention) else None

    @property
    def _hashing(self) -> RbfHash | None:
        """The hash whose support set training draws; None if the attention has none."""
        return self.attention.hashing if isinstance(self.attention, EfficientBitwiseAttention) else None

    @property
    def _frozen(self) -> bool:
        """Whether the support set of the hash no longer changes."""
        return self._hashing is not None and bool(self._hashing.frozen.array > 0)

    def _resampled(self, tokens: Array, key: Array) -> Self:
        """Return the network with a support set drawn from these tokens [batch, tokens, width]."""
        if not isinstance(self.attention, EfficientBitwiseAttention):
            return self
        draw = draw_stratified if self.architecture.attention.sampling is Sampling.STRATIFIED else draw_uniform
        supports = jax.lax.stop_gradient(draw(tokens, self.architecture.attention.supports, key))
        return eqx.tree_at(lambda network: network.attention, self, self.attention.resampled(tokens, supports))


def _ablation() -> dict[int, Scare]:
    """Return the architectures of the paper's ablation, by the number of its experiment (Exp 1 to 6)."""
    full = Scare.paper()
    local = replace(full, front=replace(full.front, overall=False))
    multi_head = Attention(Mix.MULTI_HEAD)
    return {
        1: replace(local, front=replace(local.front, patching=False), attention=multi_head),
        2: replace(local, attention=multi_head),
        3: replace(full, attention=multi_head),
        4: replace(full, attention=Attention(Mix.HASH)),
        5: replace(full, attention=Attention(sampling=Sampling.OFF)),
        6: full,
    }


ABLATION = _ablation()
