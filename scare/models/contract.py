"""The model contract: the interface between a model and training.

An `Architecture` is a frozen record of hyper-parameters (at most eight fields); `build` makes its `Network`, the
parameters for one window length and number of channels. A network reads features [batch, rows, channels]: the scaled
windows, or the windows in its fixed `basis`. Everything but `__call__` and `plan` has a default for networks that need
nothing special.

Training has one phase unless the network names more. A phase has its own loss, targets, trained parameters and a new
optimiser; it starts from the weights that the phase before would have shipped.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from scare.calibrator.moments import Solution
from scare.calibrator.plan import Plan, Step
from scare.kernels import Operations
from scare.models.linear_families import Design
from scare.windowing.scaling import Scaling
from scare.windowing.training_examples import DesignMatrix

# Evaluates a function of features [batch, rows, channels] at all training examples, in their order: [n, ...].
EvaluateAll = Callable[[Callable[[Array], Array]], np.ndarray]


class Network(eqx.Module):
    """The parameters of a model for one window length and number of channels."""

    window: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    undecayed: ClassVar[frozenset[str]] = frozenset()  # names of fields without weight decay
    slow: ClassVar[frozenset[str]] = frozenset()  # names of fields with a tenth of the learning rate
    phases: ClassVar[tuple[float, ...]] = (1.0,)  # length of each phase of training, as a share of the rounds

    @property
    def basis(self) -> np.ndarray | None:
        """Fixed matrix [window, rows] that turns each channel of a window into features; None: the window itself."""
        return None

    def __call__(self, features: Array) -> Array:
        """Predict the scaled targets [batch] of features [batch, rows, channels]."""
        raise NotImplementedError

    def learn(self, features: Array, key: Array) -> tuple[Array, Self]:
        """Like `__call__`, but in training; returns the outputs, and the network with its buffers updated."""
        return self(features), self

    def loss(self, features: Array, targets: Array, key: Array) -> tuple[Array, Self]:
        """Return the loss of a training step (mean squared error) and the network with its buffers updated."""
        outputs, network = self.learn(features, key)
        return jnp.square(outputs - targets).mean(), network

    @property
    def has_linear_start(self) -> bool:
        """Whether the network starts at a linear model, not at random."""
        return False

    def design(self, data: DesignMatrix, scaling: Scaling) -> Design:
        """Return the columns of the linear regression whose solution the network starts at."""
        raise NotImplementedError

    def start(self, solution: Solution) -> Self:
        """Set the parameters so that the network computes this linear model: weights and bias for the `design`."""
        raise NotImplementedError

    def start_plan(self) -> Plan:
        """Return a plan of the linear model alone that the network starts at and adds to."""
        raise NotImplementedError

    def feature_steps(self) -> tuple[tuple[Step, ...], np.ndarray]:
        """Return the plan steps that compute the value "features" [rows·channels] of a window.

        Also returns factors [rows·channels]: the true features are "features" times these. A step that reads the value
        has the factors in its own weights, so they cost nothing.
        """
        raise NotImplementedError

    def added_to(self, linear: Self, start: Self, share: float) -> Self:
        """Return a network that computes `linear` plus `share` times what training added to this one.

        All three have the same parameters. `start` is this network before training, when it was a linear model;
        `linear` is another linear model, such as one that was fitted to more rows.
        """
        raise NotImplementedError

    def enter(self, phase: int, targets: np.ndarray, evaluate_all: EvaluateAll) -> tuple[Self, np.ndarray | None]:
        """Begin a phase; returns the network and, if the phase has targets of its own, those [n], else None.

        `evaluate_all(function)` evaluates a function of features at every training example; examples of one device are
        in time order.
        """
        return self, None

    def moving(self) -> Any:
        """Return which parameters this phase trains: a prefix pytree of booleans; None means all."""
        return None

    def refresh(self, features: Array, key: Array) -> Self:
        """Update buffers at the beginning of a round, given features of some training windows."""
        return self

    def candidates(self, features: Array, key: Array, count: int) -> list[Self]:
        """Return the networks to score at a checkpoint, at most `count`, of which the best is kept.

        They differ in what is drawn at random, such as a support set, here from the features of some training windows.
        """
        return [self]

    def freeze(self, chosen: Self) -> Self:
        """Freeze the buffers at those of a chosen candidate."""
        return self

    def plan(self) -> Plan:
        """Return the network as a plan of kernel calls."""
        raise NotImplementedError


class Architecture(Protocol):
    """The hyper-parameters of a model."""

    citation: ClassVar[str]
    complexity: ClassVar[str]  # the leading term of `operations` in the window length N

    @staticmethod
    def default() -> "Architecture":
        """Return the architecture of the model's own paper; for SCARE the one that users get."""
        ...

    def build(self, window: int, channels: int, key: Array) -> Network:
        """Return a network with random parameters for this window length and number of channels."""
        ...

    def parameters(self, window: int, channels: int) -> int:
        """Return the number of trained parameters, by a formula."""
        ...

    def operations(self, window: int, channels: int) -> Operations:
        """Return the operations of one inference of the folded plan, by a formula, without building the plan."""
        ...
