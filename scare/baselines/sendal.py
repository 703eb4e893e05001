"""SenDaL (Ahn, Kim, Lee, Seo): a simple branch for quiet air, a deep one for the rest, and a classifier that chooses.

    x [N, C] ─ classifier ─ mean over the window > ½ ? ─┬─ yes ─ deep: transformer or LSTM on all rows ─ y
                                                        └─ no ── simple: two layers on the newest row ── y

Bottom-up training in three phases: both branches, then the classifier on soft labels that say where the deep branch
pays, then both output layers under the classifier's choice. Top-down inference: a decision for the deep branch holds
for 12 windows, one for the simple branch for 60 (kernel `select` in `kernels.choice`).

As in the published code, the classifier learns a label at the newest row alone and decides by its mean over the window.
Differs from the published code: each window decides for itself in training, where there a batch decides as one; a label
is learnt at its own row, where there the classifier reads one that is 19 rows older; the transformer attends over the
rows of a window, where there it attends over the windows of a batch (docs/decisions/rivals.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import INPUT, SELECT, Plan, Step
from scare.kernels import Operations
from scare.layers.feed_forward import Linear, draw_within
from scare.models.contract import EvaluateAll, Network
from scare.models.scare import ABLATION, Scare, ScareNetwork
from scare.schema import Amount, Count

SLOPE = 0.1  # slope of the leaky ReLU below zero
TINY = 1e-6  # keeps a logarithm finite
BOX = 100  # length, in examples, of the moving window over which labels are smoothed and their changes counted


class Deep(StrEnum):
    """Network of the deep branch."""

    TRANSFORMER = "transformer"  # Exp 1 of SCARE's ablation: one token per reading
    LSTM = "lstm"


@dataclass(frozen=True)
class Sendal:
    """The architecture of SenDaL.

    The published margin is 1 µg/m³. A network sees scaled targets of any pollutant, so here the margin is in standard
    deviations of the targets: 0.05 is 1 µg/m³ for particles with a standard deviation of 20 µg/m³.
    """

    deep: Deep = Deep.TRANSFORMER
    hidden: Count = 16  # width of the simple branch and of the LSTM
    width: Count = 8  # width of the transformer's tokens
    heads: Count = 4  # heads of the transformer, each of key width 8
    feed_forward: Count = 64
    margin: Amount = 0.05  # least gain of the deep branch that pays, in standard deviations of the target
    deep_period: Count = 12  # windows for which a decision holds
    simple_period: Count = 60

    citation: ClassVar[str] = (
        "Ahn, Kim, Lee, Seo: SenDaL: An Effective and Efficient Calibration Framework of Low-Cost Sensors for Daily"
        " Life. IEEE Internet of Things Journal 2024"
    )
    complexity: ClassVar[str] = "O(N²); O(N) with an LSTM"
    exempt: ClassVar[dict[str, str]] = {
        "every_parameter_has_a_finite_gradient": "the output has no gradient through the classifier's choice, nor in"
        " the branch not chosen; each phase has a loss that does, which tests/baselines/test_sendal.py checks"
    }

    @staticmethod
    def default() -> "Sendal":
        """Return SenDaL with a transformer, as SCARE's paper compares it: at O(N²), with the cost of its own Exp 1."""
        return Sendal()

    @property
    def transformer(self) -> Scare:
        """The deep branch as a setting of SCARE: no global embedding, no lenses, softmax, post-norm, two-step head."""
        first = ABLATION[1]
        return replace(
            first,
            front=replace(first.front, width=self.width),
            attention=replace(first.attention, heads=self.heads),
            block=replace(first.block, hidden=self.feed_forward),
        )

    def build(self, window: int, channels: int, key: Array) -> "SendalNetwork":
        """Draw random parameters for this window length and number of channels."""
        keys = jax.random.split(key, 3)
        if self.deep is Deep.LSTM:
            deep: LstmBranch | ScareNetwork = LstmBranch.create(channels, self.hidden, keys[0])
        else:
            deep = self.transformer.build(window, channels, keys[0])
        simple = SimpleBranch.create(channels, self.hidden, keys[1])
        return SendalNetwork(window, channels, self, simple, deep, Linear.create(channels, 1, keys[2]))

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters."""
        simple = (channels + 1) * self.hidden + self.hidden + 1
        classifier = channels + 1
        if self.deep is Deep.LSTM:
            lstm = 4 * self.hidden * (channels + self.hidden + 2)  # 2: it has two biases
            head = self.hidden + 1
            return simple + classifier + lstm + head
        return simple + classifier + self.transformer.parameters(window, channels)

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of the most expensive inference: the classifier and the deep branch."""
        decision = self.classifier_operations(window, channels)
        if self.deep is Deep.TRANSFORMER:
            return decision + self.transformer.operations(window, channels)
        # An LSTM unit has 4 gates and 3 more products per row, 3 sigmoids and 2 tanh (`kernels.recurrent`).
        units = window * self.hidden
        gates = units * (4 * (channels + self.hidden) + 3)
        head = self.hidden
        return decision + Operations(
            multiply_adds=gates + head, additions=7 * units, exponentials=5 * units, divisions=5 * units
        )

    def classifier_operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one decision by the classifier: each row's logit, its sigmoid, and their mean."""
        return Operations(
            multiply_adds=window * channels, additions=2 * window, exponentials=window, divisions=window + 1
        )


class SimpleBranch(eqx.Module):
    """The simple branch: two layers on the newest row."""

    inner: Linear
    head: Linear

    @staticmethod
    def create(channels: int, hidden: int, key: Array) -> "SimpleBranch":
        """Draw both layers, uniform within ±1/√inputs."""
        first, second = jax.random.split(key)
        return SimpleBranch(Linear.create(channels, hidden, first), Linear.create(hidden, 1, second))

    def __call__(self, features: Array) -> Array:
        """Return the outputs [batch] of features [batch, rows, channels]."""
        return self.head(jax.nn.leaky_relu(self.inner(features[:, -1]), SLOPE))[:, 0]

    def steps(self, output: str) -> list[Step]:
        """Return the branch as steps of a plan, from the window to the value `output`."""
        return [
            Step("newest", (INPUT,), "now"),
            *self.inner.steps("now", "few"),
            Step("leaky_relu", ("few",), "bent", settings={"slope": SLOPE}),
            *self.head.steps("bent", output),
        ]


class Lstm(eqx.Module):
    """Long short-term memory with a forget gate (Hochreiter and Schmidhuber 1997), read at its last row.

    It maps rows [batch, rows, channels] to the last hidden state [batch, hidden]; the gates i, f, g, o are side by
    side. There are two bias vectors, as in the frameworks' own layer; only their sum matters, and the plan has the sum.
    """

    input: Array  # [channels, 4·hidden]
    hidden: Array  # [hidden, 4·hidden]
    input_bias: Array  # [4·hidden]
    hidden_bias: Array

    @staticmethod
    def create(channels: int, hidden: int, key: Array) -> "Lstm":
        """Draw weights and biases uniform within ±1/√hidden."""
        shapes = ((channels, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,), (4 * hidden,))
        keys = jax.random.split(key, len(shapes))
        return Lstm(*(draw_within(key, shape, hidden) for key, shape in zip(keys, shapes, strict=True)))

    def __call__(self, x: Array) -> Array:
        """Return the hidden state [batch, hidden] after the last row of x [batch, rows, channels], starting at zero."""
        projected = x @ self.input + (self.input_bias + self.hidden_bias)  # [batch, rows, 4·hidden]
        start = jnp.zeros((len(x), len(self.hidden)), projected.dtype)

        def step(carried: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], None]:
            hidden, cell = carried
            input_gate, forget_gate, new, output_gate = jnp.split(row + hidden @ self.hidden, 4, axis=1)
            cell = jax.nn.sigmoid(forget_gate) * cell + jax.nn.sigmoid(input_gate) * jnp.tanh(new)
            return (jax.nn.sigmoid(output_gate) * jnp.tanh(cell), cell), None

        (hidden, _), _ = jax.lax.scan(step, (start, start), projected.swapaxes(0, 1))
        return hidden

    def steps(self, source: str, output: str) -> list[Step]:
        """Return the layer as steps of a plan, from the value `source` to the value `output`."""
        weights = {"input": self.input, "hidden": self.hidden, "bias": self.input_bias + self.hidden_bias}
        return [Step("lstm", (source,), output, {name: np.asarray(array) for name, array in weights.items()})]


class LstmBranch(eqx.Module):
    """An LSTM over all rows and a layer on its last state."""

    memory: Lstm
    head: Linear

    @staticmethod
    def create(channels: int, hidden: int, key: Array) -> "LstmBranch":
        """Draw the LSTM and the layer."""
        first, second = jax.random.split(key)
        return LstmBranch(Lstm.create(channels, hidden, first), Linear.create(hidden, 1, second))

    def __call__(self, features: Array) -> Array:
        """Return the outputs [batch] of features [batch, rows, channels]."""
        return self.head(self.memory(features))[:, 0]


class SendalNetwork(Network):
    """The parameters of SenDaL, in one of its phases."""

    architecture: Sendal = eqx.field(static=True)
    simple: SimpleBranch
    deep: ScareNetwork | LstmBranch
    classifier: Linear
    phase: int = eqx.field(static=True, default=0)

    phases = (1.0, 0.3, 0.3)
    undecayed = ScareNetwork.undecayed | {"input_bias", "hidden_bias"}

    def __call__(self, features: Array) -> Array:
        """Return the scaled targets [batch], each computed by the branch that its window chooses."""
        simple, deep = self.branches(features).T
        return jnp.where(self.decision(features) > 0.5, deep, simple)

    def decision(self, features: Array) -> Array:
        """Return the classifier's mean probability over the rows [batch]; above a half it chooses the deep branch."""
        return jax.nn.sigmoid(self.classifier(features)).mean(axis=(1, 2))

    def branches(self, features: Array) -> Array:
        """Return the outputs of the simple and the deep branch, [batch, 2]."""
        return jnp.stack([self.simple(features), self.deep(features)], axis=1)

    def enter(self, phase: int, targets: np.ndarray, evaluate_all: EvaluateAll) -> tuple[Self, np.ndarray | None]:
        """Return the network in this phase, and its targets: in phase 1 soft labels from both branches, else None."""
        network = replace(self, phase=phase)
        if phase != 1:
            return network, None
        simple, deep = evaluate_all(self.branches).T
        return network, soft_labels(targets, simple, deep, self.architecture.margin * float(targets.std()))

    def moving(self) -> Any:
        """Mark what this phase trains: first both branches, then the classifier, then both output layers."""
        trained: Callable[[Any], tuple[Any, ...]] = (
            lambda network: (network.simple, network.deep),
            lambda network: (network.classifier,),
            lambda network: (network.simple.head, network.deep.head),
        )[self.phase]
        nothing = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(trained, nothing, (True,) * len(trained(self)))

    def loss(self, features: Array, targets: Array, key: Array) -> tuple[Array, Self]:
        """Return the loss of this phase of training.

        First it is that of both branches, then that of the classifier at the newest row, then that of the branch which
        the classifier chooses.
        """
        if self.phase == 0:  # both branches
            return jnp.square(self.branches(features) - targets[:, None]).mean(), self
        if self.phase == 2:  # the branch that the classifier chooses
            return super().loss(features, targets, key)
        # The classifier: its decision about the newest row alone, against the soft labels.
        probability = jnp.clip(self.decision(features[:, -1:]), TINY, 1 - TINY)
        cross_entropy = -(targets * jnp.log(probability) + (1 - targets) * jnp.log(1 - probability))
        return cross_entropy.mean(), self

    def plan(self) -> Plan:
        """Return the network as kernel calls: decision, simple branch, deep branch, choice."""
        if isinstance(self.deep, ScareNetwork):
            deep = self.deep.plan().steps  # its last value is called `deep`
        else:
            deep = (*self.deep.memory.steps(INPUT, "state"), *self.deep.head.steps("state", "deep"))
        periods = {"deep_period": self.architecture.deep_period, "simple_period": self.architecture.simple_period}
        steps = [
            *self.classifier.steps(INPUT, "doubt"),  # a logit for each row
            Step("sigmoid_mean", ("doubt",), "decision"),
            *self.simple.steps("simple"),
            *deep,
            Step(SELECT, ("decision", "simple", "deep"), "y", settings=periods),
        ]
        return Plan(self.window, self.channels, tuple(steps))


def soft_labels(targets: np.ndarray, simple: np.ndarray, deep: np.ndarray, margin: float) -> np.ndarray:
    """Label each example, in time order, with how much the deep branch pays there, 0 to 1: [n] from three arrays [n].

    It pays where its error is smaller by more than the margin. A label looks at a box of examples: the 50 before, the
    example and the 49 after it, as in the published code. It is 1 if the deep branch pays at more than half of them,
    plus how often paying and not paying alternate among them. It is then scaled to [0, 1], and small values are
    magnified. A box may reach into the rows of another device.

    Differs from the published code: beyond the ends the first and the last label are repeated (there zeros), the range
    of the labels is that of training alone, and constant labels are not scaled (they would always mean the simple
    branch).
    """
    pays = np.abs(targets - simple) - np.abs(targets - deep) > margin
    padded = np.pad(pays, (BOX // 2 + 1, BOX // 2 - 1), mode="edge")  # one more in front, for the first change
    changes = (padded[1:] != padded[:-1]).astype(float)
    in_box = np.ones(BOX)  # convolving with it sums over the box of each example
    pays_mostly = np.convolve(padded[1:], in_box, "valid") > BOX / 2
    label = pays_mostly + np.convolve(changes, in_box, "valid")
    if label.min() == label.max():
        return pays_mostly.astype(np.float32)
    label = (label - label.min()) / (label.max() - label.min() + 1e-4)
    return (4 * label / (3 * label + 1)).astype(np.float32)  # magnifies small values, as 0.2 to 0.5; 0 and 1 stay
