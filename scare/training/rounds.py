"""A network of sites that may not share readings: trained at each, averaged over rounds (McMahan et al. 2017).

    design   moments of the columns that the network's linear start is fitted to ─ pooled, solved ─ the start
    round    parameters ─ some steps at each site ─ changes ─ robust mean ─ parameters of the next round

Before a site trains, it scores the parameters on its latest rows, which no site trains on; the best round is kept, or
the federation's regression if no round is better. The support set of bitwise attention is drawn from the normal
distribution with the summed moments: those of a training window would give readings away. The transport is that of
`federated`, whose sites and server call this file.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import cos, pi, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.model_card import SHARED_FACT
from scare.calibrator.moments import PENALTIES, Moments
from scare.calibrator.plan_passes import fold
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.readings import Readings
from scare.errors import DataError
from scare.federated.agreement import AgreedNetwork, Agreement
from scare.federated.pooled import (
    FEWEST_SITES,
    FEWEST_TO_LEAVE_OUT,
    GOLDEN,
    Ask,
    Federation,
    Structure,
    as_task,
    draw_rows,
    intervals_from,
    left_out_error,
)
from scare.federated.robust import robust_mean
from scare.federated.site import (
    Values,
    calibrator_from,
    moments_as_values,
    moments_from_values,
    numbers,
    validation_start,
)
from scare.layers.buffers import split_trainable
from scare.layers.heads import count_products
from scare.models import Network, Scare
from scare.training.data import make_gather
from scare.training.loop import TrainingState, evaluate_all, make_optimiser, run_round, split_moving
from scare.training.recipe import TrainingSettings
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_examples import Examples, design_matrix, make_examples
from scare.windowing.windows import ANY, RECENT

POOL = 512  # drawn windows' features, from which support sets are taken
USUAL_PENALTY = PENALTIES[2]  # of the start, with too few sites to choose it by leaving one out
RATE = 2e-3  # learning rate at a site; constant, because every round starts a new optimiser
WINDOW_MEMORY = 0.9  # correlation of neighbouring rows of golden windows
Report = Callable[[int, float], object]  # of a round: its number and the error on held-out rows


class NetworkSite:
    """Answers a network's tasks from the readings of one site."""

    def __init__(self, readings: Sequence[Readings], agreement: Agreement) -> None:
        start = validation_start(readings)
        self._agreement, self._network = agreement, agreed_network(agreement)
        self._earlier = [box.rows(box.times < start) for box in readings]
        self._later = [box.rows(box.times >= start) for box in readings]

    def answer(self, task: Mapping[str, Any]) -> Values:
        """Answer a task of the server, with the error on held-out rows among the values.

        A "design" is answered with moments of the columns of the network's linear start and the regression's error; a
        "round" with the change of the parameters by training here, and their error before it.
        """
        inputs = window_inputs(self._agreement, task)
        examples = make_examples(self._earlier, replace(inputs, policy=ANY))
        held_out = make_examples(self._later, inputs)
        if min(len(examples), len(held_out)) < TrainingSettings.batch:
            raise DataError(
                f"too few windows of {inputs.window} readings: {len(examples)} to train on and {len(held_out)} held out"
            )
        network = build(self._agreement, self._network)
        if task["kind"] == "design":
            design = network.design(design_matrix(examples, network.basis), inputs.scaling)
            moments = Moments.from_rows(design.columns.astype(np.float64), examples.targets.astype(np.float64))
            return {**moments_as_values(moments), "validation_error": self._error(calibrator_from(task), inputs)}
        # A round: take over the server's parameters, score them, and train them further.
        arrays, fixed = eqx.partition(network, eqx.is_inexact_array)
        flat, unravel = ravel_pytree(arrays)
        received = numbers(task.get("parameters"), flat.shape, "parameters")
        network = eqx.combine(unravel(jnp.asarray(received, flat.dtype)), fixed)
        outputs = evaluate_all(network, make_gather(held_out, network), len(held_out))
        error = float(np.square(outputs - held_out.targets, dtype=np.float64).mean())
        if task.get("is_last"):
            return {"validation_error": error}
        trained = self._train(network, examples, int(task["number"]))
        before, after = (ravel_pytree(split_trainable(each)[0])[0] for each in (network, trained))
        return {"update": np.asarray(after - before, np.float64).tolist(), "validation_error": error}

    def _train(self, network: Network, examples: Examples, number: int) -> Network:
        """Train a network for the agreed steps of round `number`, on batches that are drawn at random."""
        settings = TrainingSettings(steps=self._network.steps, rate=RATE, warm_up=0.0, cosine=False, average=0.0)
        generator = np.random.default_rng([self._network.seed, number])
        batches = generator.integers(0, len(examples), (settings.steps, settings.batch)).astype(np.int32)
        moving, _ = split_moving(network)
        optimiser = make_optimiser(network, settings, settings.steps)
        state = TrainingState(network, optimiser.init(moving), average=moving, key=jax.random.key(number))
        state, _ = run_round(state, make_gather(examples, network), examples.targets, batches, settings, settings.steps)
        return state.network

    def _error(self, calibrator: Calibrator, inputs: Inputs) -> float:
        """Return the mean squared error of a calibrator on the held-out rows, scaled."""
        scaled = []
        for box in self._later:
            rows = calibrator.stream(box.device).push(box.times, calibrator.inputs.select(box))
            errors = (rows.values - box.targets) / float(inputs.scaling.target.scale[0])
            scaled.append(errors[np.isfinite(errors)])
        return float(np.square(np.concatenate(scaled)).mean())


def train_rounds(ask: Ask, agreement: Agreement, federation: Federation, report: Report | None = None) -> Calibrator:
    """Train a network at all sites of a federation; returns its calibrator, or the regression's if that is better."""
    settings = agreed_network(agreement)
    scaling = federation.calibrator.inputs.scaling
    shared = {  # sent with every task
        "center": scaling.fleet.center.tolist(),
        "scale": scaling.fleet.scale.tolist(),
        "target": [*scaling.target.center.tolist(), *scaling.target.scale.tolist()],
    }
    inputs = window_inputs(agreement, shared)
    network = build(agreement, settings)
    # Design: the network starts at a regression, solved from the moments of all sites.
    with TemporaryDirectory() as folder:
        content = federation.calibrator.save(Path(folder) / "sent.scare").read_bytes()
    task = {"kind": "design", "calibrator": b64encode(content).decode(), **shared}
    replies = _enough(ask(dict.fromkeys(federation.moments, task)))
    rows = 1 if network.basis is None else network.basis.shape[1]
    columns = rows * network.channels + count_products(network.channels)  # of the start: features, and products
    moments = {site: moments_from_values(reply, columns, site) for site, reply in replies.items()}
    network = network.start(_solve_start(moments))
    # Support sets are taken from features that are drawn with these moments: no site gives its own away.
    drawn = draw_rows(Moments.pooled(list(moments.values())), rows * network.channels, POOL)
    pool = jnp.asarray(drawn.reshape(POOL, rows, network.channels), jnp.float32)
    regression_error = _median_error(replies)
    # Rounds: sites score the parameters, then train them.
    best, best_error, best_round = network, np.inf, 0
    for number in range(settings.rounds + 1):  # in the last one sites only score what they trained before
        (shipped,) = network.candidates(pool, jax.random.key(settings.seed + number), 1)  # with a new support set
        parameters, _ = ravel_pytree(eqx.filter(shipped, eqx.is_inexact_array))
        task = {"kind": "round", "number": number, "is_last": number == settings.rounds, **shared}
        task["parameters"] = np.asarray(parameters, np.float64).tolist()
        replies = _enough(ask(dict.fromkeys(replies, task)))
        error = _median_error(replies)
        if error < best_error:
            best, best_error, best_round = shipped, error, number
        if report is not None:
            report(number, sqrt(error) * float(scaling.target.scale[0]))
        if number < settings.rounds:
            share = (1 + cos(pi * number / settings.rounds)) / 2  # falls to 0, as a learning rate does
            network = _move(network, replies, agreement.rules.tolerated, share)
    # Result: the better one of the best round and the federation's regression.
    errors = {"regression": sqrt(regression_error), "network": sqrt(best_error)}
    facts = {name: round(float(scaling.target.scale[0]) * error, 6) for name, error in errors.items()}
    if not best_error < regression_error:
        return federation.calibrator.with_facts(rmse_of_rounds=facts)
    calibrator = _make_calibrator(best, inputs, agreement, federation.calibrator)
    calibrator = calibrator.with_facts(rmse_of_rounds=facts, rounds=best_round)
    unit = facts["network"]  # the width of ten bins of the histograms: as large as a typical error
    histograms = ask({site: as_task(calibrator, unit, held_out=True) for site in replies})
    return replace(calibrator, intervals=intervals_from(histograms, unit, scaling.target) if histograms else None)


def agreed_network(agreement: Agreement) -> AgreedNetwork:
    """Return the table [network] of an agreement that has one."""
    if agreement.network is None:
        raise DataError("no network is agreed on: the server's file has no table [network]")
    return agreement.network


def build(agreement: Agreement, settings: AgreedNetwork) -> Network:
    """Build the network with the same random parameters at every site and at the server."""
    return Scare.default().build(settings.window, len(agreement.data.channels), jax.random.key(settings.seed))


def window_inputs(agreement: Agreement, task: Mapping[str, Any]) -> Inputs:
    """Make the inputs of the network, with the scaling that the server sends with a task."""
    channels = len(agreement.data.channels)
    center, scale = (numbers(task.get(name), (channels,), name) for name in ("center", "scale"))
    target = numbers(task.get("target"), (2,), "target")
    target_scaling = Affine(center=target[:1], scale=target[1:])
    scaling = Scaling("standard", Affine(center, scale), target_scaling)
    window = agreed_network(agreement).window
    return Inputs(agreement.data.channels, scaling, agreement.data.step, window, RECENT, DEFAULT_SETTINGS)


def _solve_start(moments: Mapping[str, Moments]) -> tuple[np.ndarray, float]:
    """Solve the ridge regression that the network starts at, from the moments of each site.

    Its penalty is chosen by leaving sites out, if there are enough of them.
    """
    inputs = np.arange(len(next(iter(moments.values())).mean))
    structures = [Structure("start", inputs, penalty) for penalty in PENALTIES]
    structure = Structure("start", inputs, USUAL_PENALTY)
    if len(moments) >= FEWEST_TO_LEAVE_OUT:
        structure = min(structures, key=lambda candidate: left_out_error(moments, candidate, list(moments)))
    return structure.solve(Moments.pooled(list(moments.values())))


def _move(network: Network, replies: Mapping[str, Values], tolerated: int, share: float) -> Network:
    """Move a network's trained parameters by a share of the mean of what the sites changed.

    The mean is robust: up to `tolerated` sites may send any numbers.
    """
    trainable, fixed = split_trainable(network)
    flat, unravel = ravel_pytree(trainable)
    updates = np.stack([numbers(reply.get("update"), flat.shape, f"{site}: update") for site, reply in replies.items()])
    change = jnp.asarray(share * robust_mean(updates, tolerated), flat.dtype)
    moved: Network = eqx.combine(unravel(flat + change), fixed)
    return moved


def _median_error(replies: Mapping[str, Values]) -> float:
    """Return the median over sites of the mean squared error on held-out rows.

    Unlike a mean, it does not let a single site decide which round is best.
    """
    errors = [float(numbers(reply.get("validation_error"), (), site)) for site, reply in replies.items()]
    return float(np.median(errors))


def _enough(replies: Mapping[str, Values]) -> Mapping[str, Values]:
    """Return the replies, or raise a DataError if too few sites are left."""
    if len(replies) < FEWEST_SITES:
        raise DataError("fewer than two sites are left, so training the network ended without a result")
    return replies


def _make_calibrator(network: Network, inputs: Inputs, agreement: Agreement, regression: Calibrator) -> Calibrator:
    """Make the calibrator of a network; its golden windows are drawn, not taken from a site."""
    plan = fold(network.plan()).astype(np.float32)
    windows = np.random.default_rng(0).standard_normal((GOLDEN, inputs.window, len(inputs.channels)))
    for row in range(1, inputs.window):  # neighbouring rows are alike, with a variance of 1 as before
        windows[:, row] = WINDOW_MEMORY * windows[:, row - 1] + sqrt(1 - WINDOW_MEMORY**2) * windows[:, row]
    windows = windows.astype(np.float32)
    empty = Sample(np.empty((0, inputs.window, len(inputs.channels)), np.float32), np.empty(0))
    facts: dict[str, Any] = {"model": "federated network", "parameters": count(plan).weights}
    facts |= {name: regression.facts[name] for name in ("federated", SHARED_FACT) if name in regression.facts}
    calibrator = Calibrator(plan, inputs, agreement.data.reference, empty, empty, facts)
    return replace(calibrator, golden=Sample(windows, calibrator.compute(windows)))
