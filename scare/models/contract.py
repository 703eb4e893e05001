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
from scare.models.ladder import Ladder, Rules
from scare.models.ridge import Known, Solution

Given = Callable[[], Known]  # examples, made when they are asked for

Everywhere = Callable[[Callable[[Array], Array]], np.ndarray]  # a function's values at all training examples, in order


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

    def climb(self, train: Given, validation: Given, rules: Rules) -> Ladder | None:
        """The ladder in whose place the network could start, given examples; None if it starts at random."""
        return None

    def start(self, line: Solution) -> Self:
        """The network that gives what a ladder's solution gives."""
        raise NotImplementedError

    def start_plan(self) -> Plan:
        """What it gave at its start, as a list of kernel calls without the network."""
        raise NotImplementedError

    def blend(self, start: Self, share: float) -> Self:
        """The network that gives (1 − share) of its start's output plus share of its own."""
        raise NotImplementedError

    def enter(self, phase: int, targets: np.ndarray, everywhere: Everywhere) -> tuple[Self, np.ndarray | None]:
        """The network in a phase, and the phase's targets [n] if they are not the reference's scaled `targets` [n].

        `everywhere(function)` is what a function of features gives for every training example; examples of one
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
