"""The cost of a method on this computer and on a virtual board: a scorecard for each.

Each method is measured once, with the first seed of the first task, in float32: speed and size do not depend on the
weights, except where SenDaL chooses a branch or model selection ends without a network. A network is timed in JAX, C
and NumPy; a calibrator does not contain the JAX network, so that is drawn with random weights.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks.reproduce.protocol import Protocol
from benchmarks.reproduce.run import Reproduction
from scare.board.boards import board
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.experiments.study import NETWORKS, Job, Progress, Study, recipe_of
from scare.experiments.study_task import read_parts
from scare.experiments.untrained import draw_network, operation_growth
from scare.export.lowering import Arithmetic
from scare.models import Network
from scare.scorecard.card import Card
from scare.scorecard.cost import Timer, make_timer, measure_latency
from scare.scorecard.requirements import Entry, RequirementTable
from scare.scorecard.scoring import Subject, score
from scare.scorecard.series import successive_windows
from scare.training.recipe import Recipe

KILOBYTE = 1024
QUICK_BLOCKS = 2  # blocks of requests while utilisation is measured
MORE_ROWS = 60  # rows besides two windows, so that there are enough windows to time


def find_cards(reproduction: Reproduction, methods: Sequence[str], progress: Progress) -> dict[str, Card]:
    """Measure the card of each method, or load it if it was measured before; empty for a method without calibrator."""
    cards, protocol = {}, reproduction.protocol
    for done, name in enumerate(methods, start=1):
        study, job = reproduction.first_job(name)
        calibrator = study.calibrator(job)
        cards[name] = Card({}, {}, (), {}, None, {})
        if calibrator is not None:
            key = f"hardware-{protocol.board_name}-{job.key}-{protocol.board_trials}"
            facts = reproduction.remember(key, partial(_measure, study, job, calibrator, protocol))
            cards[name] = Card.from_dict(facts)
        progress(done, len(methods), f"{name} measured")
    return cards


def _measure(study: Study, job: Job, calibrator: Calibrator, protocol: Protocol) -> dict[str, Any]:
    """Measure the card of a fitted method on the last rows of its test, as plain values."""
    few = 2 * protocol.window + MORE_ROWS
    test = [replace(one, frame=one.frame.tail(few)) for one in read_parts(study.folder)["test"]]
    rules = _rules(protocol)
    card = measure_card(calibrator, test, protocol, rules)
    if job.method in NETWORKS:
        recipe = recipe_of(job.method, job.window, job.seed, {})
        card = replace(card, entries=(*card.entries, *time_in_jax(recipe, calibrator, test, rules)))
    return {name: value for name, value in card.as_dict().items() if name != "schema"}  # as `Card.from_dict` reads it


def board_note(protocol: Protocol) -> str:
    """Say which windows were run on the virtual board."""
    return (
        f"On the virtual board every model ran {protocol.board_trials:,} windows of all kinds: strange, of validation,"
        " random; both branches where it chooses one."
    )


def _rules(protocol: Protocol) -> RequirementTable:
    """Load the requirements, with the protocol's number of windows on the board; a quick run has fewer requests."""
    rules = RequirementTable.load()
    changes: dict[str, Any] = {"board_windows": protocol.board_trials}
    changes |= {"blocks": QUICK_BLOCKS} if protocol.quick else {}
    return replace(rules, protocol=replace(rules.protocol, **changes))


def measure_card(
    calibrator: Calibrator, readings: Sequence[Readings], protocol: Protocol, rules: RequirementTable
) -> Card:
    """Make the card of a calibrator without accuracy, for which these readings are too few."""
    chosen = board(protocol.board_name)
    subject = Subject(calibrator, readings, Arithmetic.FLOAT32, chosen, operation_growth(calibrator))
    found = score(subject, rules)
    entries = tuple(entry for entry in found.entries if entry.dimension != "accuracy")
    return Card(dict(calibrator.facts), {}, entries, {}, found.board, {})


def time_in_jax(
    recipe: Recipe, calibrator: Calibrator, readings: Sequence[Readings], rules: RequirementTable
) -> list[Entry]:
    """Time a network in JAX: mean, maximum and jitter; none for a mean of several, which is not one network."""
    if recipe.settings.members > 1:
        return []
    network = draw_network(recipe, calibrator.plan.channels, 0, np.random.default_rng(0))
    windows = successive_windows(calibrator, readings, rules.protocol.windows)
    timed = measure_latency(jax_timer(network), windows, rules.protocol)
    return [rules.make_entry(one, "") for one in timed.findings(calibrator.inputs.step_seconds * 1e3, "_jax")]


def jax_timer(network: Network) -> Timer:
    """Make a timer of a network compiled by JAX, from a scaled window in NumPy to its value."""
    basis = network.basis

    @jax.jit
    def forward(window: Array) -> Array:
        return network(window if basis is None else jnp.einsum("tk,btc->bkc", jnp.asarray(basis, window.dtype), window))

    return make_timer(lambda window: np.asarray(forward(window)))


def card_columns(card: Card) -> dict[str, Any]:
    """Convert a card to the columns of the paper's tables, and one of JAX: ms, the fitted growth, KB, %."""
    values: dict[str, Any] = {entry.measure: entry.value for entry in card.entries}
    exponent, retained = values.get("exponent"), values.get("retained_bytes")
    return {
        "mean_latency": values.get("latency_mean"),
        "max_latency": values.get("latency_max"),
        "jitter": values.get("latency_jitter"),
        "jax_latency": values.get("latency_mean_jax"),
        "complexity": None if exponent is None else f"N^{exponent:.2f}",
        "activation": None if retained is None else retained / KILOBYTE,
        "cpu": values.get("cpu"),
    }
