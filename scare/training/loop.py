"""The training loop: rounds of steps, a checkpoint after each, the best on validation kept.

A round (an epoch, or the steps between two checkpoints) is one `lax.scan`; batches are gathered by index inside
it, and no window is cut out that a step does not need.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from scare.errors import DataError
from scare.layers.buffers import split_trainable
from scare.models import Network
from scare.training.examples import Examples, Gather, known, make_gather
from scare.training.settings import Recipe, Settings

SUPPORT_POOL = 1024  # training windows a support set is drawn from at a checkpoint
SCORED = 4096  # validation windows scored at once


@dataclass(frozen=True)
class Progress:
    """What training says after each round; errors are in the target's unit."""

    round: int
    rounds: int
    windows_per_second: float
    train_rmse: float
    validation_rmse: float
    best_rmse: float
    seconds_left: float


Report = Callable[[Progress], None]


class State(eqx.Module):
    """What a step changes."""

    network: Network
    optimiser: Any
    average: Any  # running mean of the trainable part
    key: Array


class Trainer:
    """One training run: rounds of steps, a checkpoint after each, the best kept."""

    def __init__(self, recipe: Recipe, examples: Examples, held: Examples, unit: float) -> None:
        self.settings, self.unit = recipe.settings, unit
        self.rounds = self.settings.rounds(len(examples))
        self.order = np.random.default_rng(self.settings.seed)
        build_key, self.key = jax.random.split(jax.random.key(self.settings.seed))
        network = recipe.model.build(recipe.window, examples.series.shape[1], build_key)
        self.gather, self.targets = make_gather(examples, network), jnp.asarray(examples.targets)
        self.held_gather, self.held_targets = make_gather(held, network), held.targets
        self.pool = self.gather(jnp.asarray(examples.spread(SUPPORT_POOL)))
        self.network = network.start(lambda: known(examples, network.basis), lambda: known(held, network.basis))
        self.started = self.network is not network  # then the start is itself worth a checkpoint
        self.optimiser = make_optimiser(network, self.settings, sum(self.rounds))
        self.left = np.empty(0, np.int64)  # example numbers not yet used in this pass
        self.best: Network | None = None
        self.best_rmse, self.frozen = float("inf"), False

    def run(self, report: Report | None) -> tuple[Network, bool]:
        """The best network, and whether training was interrupted."""
        try:
            self._run(report)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return self.best, True
        assert self.best is not None  # a round without a finite error has been refused
        return self.best, False

    def _run(self, report: Report | None) -> None:
        trainable, _ = split_trainable(self.network)
        state = State(self.network, self.optimiser.init(trainable), trainable, self.key)
        done, started = 0, time.perf_counter()
        if self.started:
            self._checkpoint(state, done=0)
        for index, steps in enumerate(self.rounds):
            key, refresh_key = jax.random.split(state.key)
            state = State(state.network.refresh(self.pool, refresh_key), state.optimiser, state.average, key)
            batches = jnp.asarray(self._next_batches(steps))
            begun = time.perf_counter()
            state, losses = run_round(state, self.gather, self.targets, batches, self.optimiser, self.settings.average)
            train_rmse = float(np.sqrt(losses.mean())) * self.unit
            seconds = time.perf_counter() - begun
            done += steps
            state, rmse = self._checkpoint(state, done=done)
            if not np.isfinite(train_rmse + rmse):
                raise DataError(
                    f"training diverged in round {index + 1}: the loss is not a number; lower the learning rate"
                    " (--rate), and look for extreme values in the channels with 'scare inspect'"
                )
            left = (time.perf_counter() - started) / done * (sum(self.rounds) - done)
            speed = steps * self.settings.batch / seconds
            if report is not None:
                report(Progress(index + 1, len(self.rounds), speed, train_rmse, rmse, self.best_rmse, left))

    def _checkpoint(self, state: State, done: int) -> tuple[State, float]:
        """Score the running mean with candidate support sets, keep it if best; freeze the set when it is time."""
        shipped = averaged(state) if self.settings.average else state.network
        candidates = shipped.candidates(self.pool, jax.random.fold_in(state.key, 1), self.settings.candidates)
        errors = [self._validate(candidate) for candidate in candidates]
        chosen, rmse = candidates[int(np.argmin(errors))], min(errors)
        if rmse < self.best_rmse:
            self.best, self.best_rmse = chosen, rmse
        if not self.frozen and done >= max(1, self.settings.freeze_at * sum(self.rounds)):
            self.frozen = True
            state = eqx.tree_at(lambda s: s.network, state, state.network.freeze(chosen))
        return state, rmse

    def _validate(self, network: Network) -> float:
        """RMSE on all validation windows, in the target's unit; infinite if any output is not a number."""
        count, total = len(self.held_targets), 0.0
        for start in range(0, count, SCORED):
            which = np.arange(start, min(start + SCORED, count))
            outputs = np.asarray(predict(network, self.held_gather, jnp.asarray(which)), np.float64)
            total += float(np.square(outputs - self.held_targets[which]).sum())
        return float(np.sqrt(total / count)) * self.unit if np.isfinite(total) else float("inf")

    def _next_batches(self, steps: int) -> np.ndarray:
        """Example numbers [steps, batch]: every example once before any comes again."""
        wanted = steps * self.settings.batch
        while len(self.left) < wanted:
            self.left = np.concatenate([self.left, self.order.permutation(len(self.targets))])
        taken, self.left = self.left[:wanted], self.left[wanted:]
        return taken.reshape(steps, self.settings.batch).astype(np.int32)


@eqx.filter_jit
def run_round(
    state: State,
    gather: Gather,
    targets: Array,
    batches: Array,
    optimiser: optax.GradientTransformation,
    average: float,
) -> tuple[State, Array]:
    """All steps of a round in one scan; batches [steps, batch]. Losses [steps]."""
    moving, fixed = eqx.partition(state, eqx.is_array)

    def step(moving: Any, batch: Array) -> tuple[Any, Array]:
        state, loss = take_step(eqx.combine(moving, fixed), gather(batch), targets[batch], optimiser, average)
        return eqx.filter(state, eqx.is_array), loss

    moving, losses = jax.lax.scan(step, moving, batches)
    return eqx.combine(moving, fixed), losses


def take_step(
    state: State, inputs: Array, targets: Array, optimiser: optax.GradientTransformation, average: float
) -> tuple[State, Array]:
    """One step of gradient descent on the mean squared error."""
    trainable, rest = split_trainable(state.network)
    key, learn_key = jax.random.split(state.key)

    def loss(part: Network) -> tuple[Array, Network]:
        outputs, network = eqx.combine(part, rest).learn(inputs, learn_key)
        return jnp.square(outputs - targets).mean(), network

    (error, network), gradient = jax.value_and_grad(loss, has_aux=True)(trainable)
    updates, memory = optimiser.update(gradient, state.optimiser, trainable)
    trainable = optax.apply_updates(trainable, updates)
    mean = jax.tree.map(lambda old, new: average * old + (1 - average) * new, state.average, trainable)
    _, buffers = split_trainable(network)
    return State(eqx.combine(trainable, buffers), memory, mean, key), error


@eqx.filter_jit
def predict(network: Network, gather: Gather, which: Array) -> Array:
    """Scaled outputs of examples by number."""
    return network(gather(which))


def averaged(state: State) -> Network:
    """The network with the running mean of its weights."""
    _, rest = split_trainable(state.network)
    return eqx.combine(state.average, rest)


def make_optimiser(network: Network, settings: Settings, steps: int) -> optax.GradientTransformation:
    """Adam with decoupled weight decay; the network says which parameters are not decayed, which move slowly."""
    trainable, _ = split_trainable(network)
    decayed = _named(trainable, lambda name: name not in network.undecayed)
    slow = _named(trainable, lambda name: name in network.slow)
    return optax.chain(
        optax.clip_by_global_norm(settings.clip) if settings.clip else optax.identity(),
        optax.scale_by_adam(),
        optax.add_decayed_weights(settings.weight_decay, decayed),
        optax.masked(optax.scale(0.1), slow),
        optax.scale_by_learning_rate(_schedule(settings, steps)),
    )


def _schedule(settings: Settings, steps: int) -> optax.Schedule:
    rise = int(settings.warm_up * steps)
    if not settings.cosine:
        return optax.linear_schedule(0.0, settings.rate, rise) if rise else optax.constant_schedule(settings.rate)
    start = 0.0 if rise else settings.rate
    return optax.warmup_cosine_decay_schedule(start, settings.rate, rise, max(steps, rise + 1))


def _named(tree: Any, wanted: Callable[[str], bool]) -> Any:
    """For each parameter, whether its field's name is wanted."""
    return jax.tree_util.tree_map_with_path(lambda path, _: wanted(getattr(path[-1], "name", "")), tree)
