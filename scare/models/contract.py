"""The model contract: what every model gives to training and takes from it.

An `Architecture` is a frozen record of architecture (at most eight fields); `build` makes its `Network`, the parameters
for one window length and number of channels. A network reads features [batch, rows, channels]: the scaled
windows themselves, or what its fixed `basis` makes of them. Everything but `__call__` and `plan` has a default
for networks that need nothing special.

Training has one phase unless the network names more. A phase has its own loss, its own targets, the parameters it
moves, and an optimiser that starts anew; it goes on from the weights that the phase before would have shipped.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.plan import Plan
from scare.kernels import Operations
from scare.models.selection import Selection, SelectionRules, Solution
from scare.windowing.examples import DesignMatrix

LazyDesignMatrix = Callable[[], DesignMatrix]  # examples, made when they are asked for

EvaluateAll = Callable[[Callable[[Array], Array]], np.ndarray]  # a function's values at all training examples, in order


class Network(eqx.Module):
    """The parameters of a model for one window length and number of channels."""

    window: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    # parameters by field name: no weight decay; a tenth of the learning rate
    undecayed: ClassVar[frozenset[str]] = frozenset()
    slow: ClassVar[frozenset[str]] = frozenset()
    # how long each phase of training is, as a share of the rounds that are asked for
    phases: ClassVar[tuple[float, ...]] = (1.0,)

    @property
    def basis(self) -> np.ndarray | None:
        """A fixed matrix [window, rows] applied to each channel before any parameter, or None."""
        return None

    def __call__(self, features: Array) -> Array:
        """Scaled targets [batch] of features [batch, rows, channels]."""
        raise NotImplementedError

    def learn(self, features: Array, key: Array) -> tuple[Array, Self]:
        """The same in training: outputs, and the network with its buffers updated."""
        return self(features), self

    def loss(self, features: Array, targets: Array, key: Array) -> tuple[Array, Self]:
        """What a step makes smaller, and the network with its buffers updated: the mean squared error."""
        outputs, network = self.learn(features, key)
        return jnp.square(outputs - targets).mean(), network

    def select_linear(
        self, train: LazyDesignMatrix, validation: LazyDesignMatrix, rules: SelectionRules
    ) -> Selection | None:
        """Select the linear model that the network starts at; None if it starts at random."""
        return None

    def start(self, solution: Solution) -> Self:
        """The network that computes this linear solution."""
        raise NotImplementedError

    def start_plan(self) -> Plan:
        """What it gave at its start, as a list of kernel calls without the network."""
        raise NotImplementedError

    def blend(self, start: Self, share: float) -> Self:
        """The network that gives (1 − share) of its start's output plus share of its own."""
        raise NotImplementedError

    def enter(self, phase: int, targets: np.ndarray, evaluate_all: EvaluateAll) -> tuple[Self, np.ndarray | None]:
        """The network in a phase, and the phase's targets [n] if they are not the reference's scaled `targets` [n].

        `evaluate_all(function)` is what a function of features gives for every training example; examples of one
        device are in time order.
        """
        return self, None

    def moving(self) -> Any:
        """Which parameters this phase moves: a tree of True and False that begins as the network does; None: all."""
        return None

    def refresh(self, features: Array, key: Array) -> Self:
        """The network at the beginning of a round, given features of some training windows."""
        return self

    def candidates(self, features: Array, key: Array, count: int) -> list[Self]:
        """Networks to score at a checkpoint, given features of some training windows."""
        return [self]

    def freeze(self, chosen: Self) -> Self:
        """This network with the buffers of a chosen candidate, from now on unchanged."""
        return self

    def plan(self) -> Plan:
        """The network as a list of kernel calls."""
        raise NotImplementedError


class Architecture(Protocol):
    """The architecture of a model."""

    citation: ClassVar[str]
    complexity: ClassVar[str]  # the leading term of `operations` in the window length N

    @staticmethod
    def default() -> "Architecture":
        """The architecture of the model's own paper or, where ours differs, what users get."""
        ...

    def build(self, window: int, channels: int, key: Array) -> Network:
        """Random parameters for this window length and number of channels."""
        ...

    def parameters(self, window: int, channels: int) -> int:
        """How many numbers training moves, as a formula."""
        ...

    def operations(self, window: int, channels: int) -> Operations:
        """What one inference of the folded plan takes, as a formula in the window length."""
        ...


# Soft labels: where in time a deep branch pays (SenDaL, second stage of training).
#
# A box is the 50 examples before, the example itself and the 49 after it, as in the published code. Boxes run over
# the border between two devices. Differs from the published code: beyond the ends the first and the last label go on
# (there zeros), the range of the labels is that of training alone, and a label that is the same evaluate_all is not
# scaled (it would always mean the simple branch).


BOX = 100  # windows over which labels are smoothed and their changes counted


def soft_labels(targets: np.ndarray, simple: np.ndarray, deep: np.ndarray, margin: float) -> np.ndarray:
    """How much the deep branch pays at each example in time order, 0 to 1: [n] from targets and both outputs [n].

    It pays where its error is smaller by more than the margin. Added are whether it mostly pays within the box around
    an example, and how often that changes in the box; the sum is scaled to [0, 1] and small values are magnified.
    """
    pays = np.abs(targets - simple) - np.abs(targets - deep) > margin
    around = np.pad(pays, (BOX // 2 + 1, BOX // 2 - 1), mode="edge")
    changes = (around[1:] != around[:-1]).astype(float)
    mostly = np.convolve(around[1:], np.ones(BOX), "valid") > BOX / 2
    label = mostly + np.convolve(changes, np.ones(BOX), "valid")
    if label.min() == label.max():
        return mostly.astype(np.float32)
    label = (label - label.min()) / (label.max() - label.min() + 1e-4)
    return (4 * label / (3 * label + 1)).astype(np.float32)
