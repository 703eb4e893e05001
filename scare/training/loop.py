"""The training loop: rounds of steps, a checkpoint after each, the best on validation kept.

    examples ─ Gather ─ batch ─ loss ─ Adam ─ network ─(every round)─ checkpoint ─ best network

A round (an epoch, or the steps between two checkpoints) is one `lax.scan`; batches are gathered by index inside it. The
linear solution that a network starts at (`models.linear_families`) is kept, so that the difference to it can be added
to another linear model later.

Without validation rows nothing is chosen: the network is trained for as many rounds as validation chose before.

A model may train in phases (`models.contract`: `enter`, `loss`, `moving`). Only a checkpoint of the last phase can be
kept, because earlier ones have untrained parts; of an earlier phase only the end is scored.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from scare.calibrator.moments import Solution
from scare.errors import DataError
from scare.layers.buffers import split_trainable
from scare.models import Network
from scare.training.data import Gather, make_gather
from scare.training.recipe import Recipe, TrainingSettings
from scare.windowing.training_examples import Examples

SUPPORT_POOL = 1024  # training windows a support set is drawn from at a checkpoint
SCORED = 4096  # windows scored at once
SLOWER = 0.1  # factor of the learning rate of a network's `slow` parameters


@dataclass(frozen=True)
class Progress:
    """Progress after a round; errors are in the target's unit.

    `train_rmse` is the root of the mean loss, or NaN in a phase whose targets are not the reference;
    `validation_rmse` is NaN after a round that is not scored; `best_rmse` is infinite until a checkpoint is kept.
    """

    round: int
    rounds: int
    windows_per_second: float
    train_rmse: float
    validation_rmse: float
    best_rmse: float
    seconds_left: float


Report = Callable[[Progress], None]


class TrainingState(eqx.Module):
    """Everything that a training step updates."""

    network: Network
    optimiser: Any
    average: Any  # running mean of the parameters being trained
    key: Array


@dataclass(frozen=True)
class Trained:
    """The best network of a training run, and the network that it started from.

    `checkpoints` [checkpoints, n] are the scaled validation outputs of every network that could have been kept.
    `rounds` is how many rounds the best one was trained for, `averaged` whether it is a running mean of weights.
    """

    network: Network
    start: Network
    checkpoints: np.ndarray
    interrupted: bool
    rounds: int = 0
    averaged: bool = False

    @property
    def has_learned(self) -> bool:
        """Whether a checkpoint was kept. If not, the network is still its start, whose hash has no bandwidth yet."""
        return self.network is not self.start


class Trainer:
    """One training run: rounds of steps, a checkpoint after each, of which the best on `held_out` is kept.

    Without `held_out` the last one is kept. A scaled error of 1 is `unit` in the target's unit. The network starts at
    the linear `solution`, if there is one. The run ends after `rounds`; up to there it equals a whole run, including
    the learning rate.
    """

    def __init__(
        self,
        recipe: Recipe,
        examples: Examples,
        held_out: Examples | None,
        unit: float,
        solution: Solution | None = None,
        rounds: int | None = None,
    ) -> None:
        self.settings, self.unit = recipe.settings, unit
        self.generator = np.random.default_rng(self.settings.seed)  # of the order of examples
        build_key, self.key = jax.random.split(jax.random.key(self.settings.seed))
        network = recipe.model.build(recipe.window_readings, examples.series.shape[1], build_key)
        self.phases = phase_rounds(self.settings.rounds(len(examples)), network.phases)
        self.steps = sum(map(sum, self.phases))  # of all rounds of all phases
        self.gather = make_gather(examples, network)
        self.references = examples.targets
        self.held_out = None if held_out is None else (make_gather(held_out, network), held_out.targets)
        self.rounds = rounds or sum(map(len, self.phases))
        pool, indices = self.gather.narrowed(examples.spread(SUPPORT_POOL))
        self.pool = pool(jnp.asarray(indices))  # features of the windows that support sets are drawn from
        self.start = network if solution is None else network.start(solution)
        self.remaining = np.empty(0, np.int64)  # example numbers not yet used in this pass
        self.checkpoints: list[np.ndarray] = []
        self.best = None if solution is None else self.start
        self.best_rmse = float("inf")
        self.best_rounds = 0
        self.averaged = False  # whether the best is a running mean
        self.frozen = False  # whether the support set no longer changes

    def run(self, report: Report | None) -> Trained:
        """Train; Ctrl-C ends training and keeps the best network so far."""
        interrupted = False
        try:
            self._run(report)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            interrupted = True
        assert self.best is not None  # `_run` raises an error if an RMSE is not finite
        # If the run was interrupted before a checkpoint, the start is all there is.
        checkpoints = np.stack(self.checkpoints or [self._outputs(self.best)])
        return Trained(self.best, self.start, checkpoints, interrupted, self.best_rounds, self.averaged)

    def _run(self, report: Report | None) -> None:
        """Train phase by phase, each in rounds; validation is scored after rounds whose network may be kept or used."""
        state = self._enter(0, self.start, self.key)
        started = time.perf_counter()
        steps_done = number = 0  # steps and rounds so far, of all phases
        for phase, rounds in enumerate(self.phases):
            if phase:
                state = self._enter(phase, self.latest, state.key)
            is_last_phase = phase == len(self.phases) - 1
            for number_in_phase, steps in enumerate(rounds, start=1):
                if number == self.rounds:
                    return
                state, loss, speed = self._round(state, steps)
                steps_done += steps
                number += 1
                rmse = float("nan")
                if is_last_phase or number_in_phase == len(rounds) or self._freezes_after(steps_done):
                    state, rmse = self._checkpoint(state, steps_done, number, keep=is_last_phase)
                if not np.isfinite(loss) or np.isinf(rmse):
                    raise DataError(
                        f"training diverged in round {number}: the loss is not a number; lower the learning rate"
                        " (training.rate in a --config file) and look for extreme values with 'scare inspect'"
                    )
                seconds_left = (time.perf_counter() - started) / number * (self.rounds - number)
                if report is not None:
                    train_rmse = float(np.sqrt(loss)) * self.unit if self.has_references else float("nan")
                    report(Progress(number, self.rounds, speed, train_rmse, rmse, self.best_rmse, seconds_left))

    def _enter(self, phase: int, network: Network, key: Array) -> TrainingState:
        """Begin a phase: set its targets (the references, or its own) and a new optimiser, and return the state."""
        network, targets = network.enter(phase, self.references, self._evaluate_all)
        self.has_references = targets is None
        self.targets = np.asarray(self.references if targets is None else targets, np.float32)
        self.phase_steps = sum(self.phases[phase])
        moving, _ = split_moving(network)
        optimiser = make_optimiser(network, self.settings, self.phase_steps)
        return TrainingState(network, optimiser.init(moving), average=moving, key=key)

    def _round(self, state: TrainingState, steps: int) -> tuple[TrainingState, float, float]:
        """Train for a round; returns the new state, the mean loss and the speed in windows per second."""
        key, refresh_key = jax.random.split(state.key)
        state = TrainingState(state.network.refresh(self.pool, refresh_key), state.optimiser, state.average, key)
        batches = self._next_batches(steps)
        begun = time.perf_counter()
        state, losses = run_round(state, self.gather, self.targets, batches, self.settings, self.phase_steps)
        loss = float(losses.mean())
        return state, loss, steps * self.settings.batch / (time.perf_counter() - begun)

    def _evaluate_all(self, function: Callable[[Array], Array]) -> np.ndarray:
        """Evaluate a function of features at every training example, in order: [n, ...]."""
        return evaluate_all(function, self.gather, len(self.references))

    def _checkpoint(
        self, state: TrainingState, steps_done: int, rounds_done: int, keep: bool
    ) -> tuple[TrainingState, float]:
        """Score the network's candidates on validation, and freeze the hash's support set when it is time.

        Candidates are the weights or their running mean, or both, each with one support set or several. The best is
        kept if `keep` is true and it is better than those before. Returns the state and the RMSE of the best candidate.
        """
        # A key derived from the state's, which itself is left to the training steps.
        key, settings = jax.random.fold_in(state.key, 1), self.settings
        networks = [(True, averaged(state))] if settings.average else []  # pairs: is it a running mean, and the network
        if settings.either or not settings.average:  # `either`: the better one of mean and weights
            networks.append((False, state.network))
        candidates = [
            (is_mean, candidate)
            for is_mean, network in networks
            for candidate in network.candidates(self.pool, key, settings.candidates)
        ]
        outputs = [self._outputs(candidate) for _, candidate in candidates]
        best = int(np.argmin([self._rmse(output) for output in outputs]))
        is_mean, self.latest = candidates[best]
        rmse = self._rmse(outputs[best])
        if keep:
            self.checkpoints.append(outputs[best])
        if keep and (self.held_out is None or rmse < self.best_rmse):
            self.best = self.latest
            self.best_rmse = rmse
            self.best_rounds = rounds_done
            self.averaged = is_mean
        if self._freezes_after(steps_done):
            self.frozen = True
            state = eqx.tree_at(lambda old: old.network, state, state.network.freeze(self.latest))
        return state, rmse

    def _freezes_after(self, steps_done: int) -> bool:
        return not self.frozen and steps_done >= max(1, self.settings.freeze_at * self.steps)

    def _rmse(self, outputs: np.ndarray) -> float:
        """Return the RMSE on all validation windows in the target's unit; infinite if an output is not finite.

        NaN if there is no validation.
        """
        if self.held_out is None:
            return float("nan")
        rmse = float(np.sqrt(np.square(outputs - self.held_out[1]).mean())) * self.unit
        return rmse if np.isfinite(rmse) else float("inf")

    def _outputs(self, network: Network) -> np.ndarray:
        """Compute the scaled outputs of all validation windows [n]."""
        if self.held_out is None:
            return np.empty(0)
        gather, targets = self.held_out
        return evaluate_all(network, gather, len(targets)).astype(np.float64)

    def _next_batches(self, steps: int) -> np.ndarray:
        """Draw indices of examples [steps, batch]: every example once before any is repeated."""
        count = steps * self.settings.batch
        while len(self.remaining) < count:
            self.remaining = np.concatenate([self.remaining, self.generator.permutation(len(self.targets))])
        taken, self.remaining = self.remaining[:count], self.remaining[count:]
        return taken.reshape(steps, self.settings.batch).astype(np.int32)


def phase_rounds(rounds: list[int], lengths: tuple[float, ...]) -> list[list[int]]:
    """Return the steps of each round, by phase.

    `rounds` are the steps of each round of a phase of length 1; a phase has `length` times as many, at least one.

    >>> phase_rounds([100] * 10, (1.0, 0.3, 0.3)) == [[100] * 10, [100] * 3, [100] * 3]
    True
    """
    return [rounds[: max(1, round(length * len(rounds)))] for length in lengths]


def split_moving(network: Network) -> tuple[Any, Any]:
    """Split a network into the parameters that its phase trains and everything else; `eqx.combine` joins them again.

    The rest has no gradient, optimiser state, weight decay or running mean, so it cannot change.
    """
    trainable, rest = split_trainable(network)
    is_moving = network.moving()
    if is_moving is None:
        return trainable, rest
    moving, resting = eqx.partition(trainable, is_moving)
    return moving, eqx.combine(resting, rest)


def run_round(
    state: TrainingState,
    gather: Gather,
    targets: np.ndarray,
    batches: np.ndarray,
    settings: TrainingSettings,
    phase_steps: int,
) -> tuple[TrainingState, Array]:
    """Run all steps of a round in one scan over `batches` [steps, batch]; returns the state and losses [steps].

    The scan is compiled once for rounds of one length. If features are stored, `narrowed` keeps those of the batches
    alone, so a refit, whose examples are more, reuses what was compiled for the first training.
    """
    examples, indices = gather.narrowed(batches)
    # No step uses the seed; without it, networks that differ only in their seed share the compiled code.
    settings = replace(settings, seed=0)
    scanned = jnp.asarray(indices), jnp.asarray(targets[batches])
    return _scan_round(state, examples, scanned, settings, phase_steps)


@eqx.filter_jit
def _scan_round(
    state: TrainingState,
    gather: Gather,
    batches: tuple[Array, Array],
    settings: TrainingSettings,
    phase_steps: int,
) -> tuple[TrainingState, Array]:
    """Take a step for each of `batches`: indices of examples in `gather`, and their targets, both [steps, batch]."""
    moving, fixed = eqx.partition(state, eqx.is_array)
    # Made here, not passed: an optimiser consists of functions, so each new one would cause another compilation.
    optimiser = make_optimiser(state.network, settings, phase_steps)

    def step(moving: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        indices, targets = batch
        state, loss = take_step(eqx.combine(moving, fixed), gather(indices), targets, optimiser, settings.average)
        return eqx.filter(state, eqx.is_array), loss

    moving, losses = jax.lax.scan(step, moving, batches)
    return eqx.combine(moving, fixed), losses


def take_step(
    state: TrainingState, inputs: Array, targets: Array, optimiser: optax.GradientTransformation, average: float
) -> tuple[TrainingState, Array]:
    """Take one step of gradient descent; `average` is the weight of the old value in the running mean of weights."""
    moving, rest = split_moving(state.network)
    key, learn_key = jax.random.split(state.key)

    def loss_of(moving: Network) -> tuple[Array, Network]:
        return eqx.combine(moving, rest).loss(inputs, targets, learn_key)

    (loss, network), gradient = jax.value_and_grad(loss_of, has_aux=True)(moving)
    updates, optimiser_state = optimiser.update(gradient, state.optimiser, moving)
    moving = optax.apply_updates(moving, updates)
    mean = jax.tree.map(lambda old, new: average * old + (1 - average) * new, state.average, moving)
    _, rest = split_moving(network)  # the loss also updates buffers, such as running statistics
    return TrainingState(eqx.combine(moving, rest), optimiser_state, mean, key), loss


def evaluate_all(function: Callable[[Array], Array], gather: Gather, count: int) -> np.ndarray:
    """Evaluate a network, or any function of features, at all of `count` examples, in order: [count, ...]."""
    size = min(SCORED, count)
    # All parts have one size, so that one compiled function serves them: the last is padded with the last example.
    parts = [np.minimum(np.arange(start, start + size), count - 1) for start in range(0, count, size)]
    return np.concatenate([np.asarray(predict(function, gather, part)) for part in parts])[:count]


def predict(function: Callable[[Array], Array], gather: Gather, which: np.ndarray) -> Array:
    """Apply a network, or any function of features, to the examples with the indices `which`."""
    examples, indices = gather.narrowed(which)
    return _apply(function, examples, jnp.asarray(indices))


@eqx.filter_jit
def _apply(function: Callable[[Array], Array], gather: Gather, which: Array) -> Array:
    return function(gather(which))


def averaged(state: TrainingState) -> Network:
    """Return the network with the running mean of its weights."""
    _, rest = split_moving(state.network)
    return eqx.combine(state.average, rest)


def make_optimiser(network: Network, settings: TrainingSettings, steps: int) -> optax.GradientTransformation:
    """Make AdamW; the network names the parameters without weight decay and those with a slower rate."""
    moving, _ = split_moving(network)
    decayed = _mark_fields(moving, lambda name: name not in network.undecayed)
    slow = _mark_fields(moving, lambda name: name in network.slow)
    return optax.chain(
        optax.clip_by_global_norm(settings.clip) if settings.clip else optax.identity(),
        optax.scale_by_adam(),
        optax.add_decayed_weights(settings.weight_decay, decayed),
        optax.masked(optax.scale(SLOWER), slow),
        optax.scale_by_learning_rate(_schedule(settings, steps)),
    )


def _schedule(settings: TrainingSettings, steps: int) -> optax.Schedule:
    """Make the learning rate by step: it rises during the warm-up, then stays or falls in a half cosine to 0."""
    rise = int(settings.warm_up * steps)
    if not settings.cosine:
        return optax.linear_schedule(0.0, settings.rate, rise) if rise else optax.constant_schedule(settings.rate)
    start = 0.0 if rise else settings.rate
    return optax.warmup_cosine_decay_schedule(start, settings.rate, rise, max(steps, rise + 1))


def _mark_fields(tree: Any, is_marked: Callable[[str], bool]) -> Any:
    """Make a pytree of booleans: whether `is_marked` holds for the name of each parameter's field."""
    return jax.tree_util.tree_map_with_path(lambda path, _: is_marked(getattr(path[-1], "name", "")), tree)
