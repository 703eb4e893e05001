"""Fit makes a calibrator from readings: prepare, train (`loop`), fold, describe."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.fold import fold
from scare.calibrator.members import average
from scare.calibrator.parity import hash_steps, share_of_ties
from scare.calibrator.plan import Plan, run
from scare.data.dead_channels import TRAINING, leave_out_dead
from scare.data.flags import without_unusable_references
from scare.data.readings import Readings
from scare.layers.buffers import split_trainable
from scare.models import Network
from scare.training.examples import Examples, make_examples
from scare.training.loop import SCORED, Progress, Report, Trainer
from scare.training.preparation import check_examples, hold_out, prepare_inputs
from scare.training.presets import Recipe

GOLDEN, KEPT = 64, 512  # windows stored with their outputs, and with their references


def fit(
    readings: Readings | Sequence[Readings],
    validation: Sequence[Readings] = (),
    recipe: Recipe | None = None,
    report: Report | None = None,
) -> Calibrator:
    """Train a calibrator on readings with a reference.

    Without `validation`, the last 15 % of the readings in time are held out for it. A device with a dead channel is
    left out (`facts["left_out"]`). Ctrl-C ends training early and keeps the best so far (`facts["interrupted"]`).
    """
    recipe = recipe or Recipe()
    train, validation, left_out = _usable(
        [readings] if isinstance(readings, Readings) else readings, validation, recipe
    )
    inputs, target = prepare_inputs(train, validation, recipe)
    examples, held = make_examples(train, inputs), make_examples(validation, inputs)
    check_examples(examples, train, inputs, "training")
    check_examples(held, validation, inputs, "validation")
    unit = float(inputs.scaling.target.scale[0])
    networks, best_rmse, interrupted = train_members(recipe, examples, held, unit, report)
    plan = fold(average([network.plan() for network in networks])).astype(np.float32)
    rmse = best_rmse if len(networks) == 1 else unit * _rmse(plan, held)
    facts = _facts(recipe, train, examples, networks, plan, held)
    facts["validation"] = {"devices": [one.device for one in validation], "period": _period(validation)}
    facts |= {"left_out": list(left_out)} if left_out else {}
    facts |= {"validation_rmse": round(rmse, 6)} | ({"interrupted": True} if interrupted else {})
    none = Sample(np.empty((0, inputs.window, len(inputs.channels)), np.float32), np.empty(0))
    calibrator = Calibrator(plan, inputs, target, none, none, facts)
    return _with_samples(calibrator, held)


def train_members(
    recipe: Recipe, examples: Examples, held: Examples, unit: float, report: Report | None
) -> tuple[list[Network], float, bool]:
    """The best network of each member, the last one's error, and whether training was interrupted.

    After an interruption later members are missing.
    """
    networks: list[Network] = []
    count, interrupted, rmse = recipe.settings.members, False, float("inf")
    for member in range(count):
        if interrupted:
            break
        settings = replace(recipe.settings, seed=recipe.settings.seed + member)
        trainer = Trainer(replace(recipe, settings=settings), examples, held, unit)
        network, interrupted = trainer.run(_as_part(report, member, count))
        networks.append(network)
        rmse = trainer.best_rmse
    return networks, rmse, interrupted


def _as_part(report: Report | None, member: int, count: int) -> Report | None:
    """Progress of one member as progress of all."""
    if report is None or count == 1:
        return report

    def whole(state: Progress) -> None:
        later = (count - 1 - member) * state.seconds_left * state.rounds / max(1, state.rounds - state.round)
        seconds = state.seconds_left + later
        number, rounds = state.round + member * state.rounds, state.rounds * count
        report(replace(state, round=number, rounds=rounds, seconds_left=seconds))

    return whole


def _rmse(plan: Plan, held: Examples) -> float:
    """The error on all held examples, scaled."""
    squares = 0.0
    for start in range(0, len(held), SCORED):
        part = np.arange(start, min(start + SCORED, len(held)))
        squares += float(np.square(run(plan, held.windows(part)) - held.targets[part]).sum())
    return float(np.sqrt(squares / len(held)))


def _usable(
    readings: Sequence[Readings], validation: Sequence[Readings], recipe: Recipe
) -> tuple[tuple[Readings, ...], tuple[Readings, ...], tuple[str, ...]]:
    """Training and validation without unusable references and dead devices, and a sentence about each of these."""
    train, held = (tuple(map(without_unusable_references, part)) for part in (readings, validation))
    if not held:
        train, held = hold_out(train, recipe)
    kept, left_out = leave_out_dead({TRAINING: train, "validation": held})
    return kept[TRAINING], kept["validation"], left_out


def _with_samples(calibrator: Calibrator, held: Examples) -> Calibrator:
    """With golden windows and their outputs, and validation windows and their references."""
    golden = held.windows(held.spread(GOLDEN))
    kept = held.spread(KEPT)
    references = calibrator.inputs.scaling.target.invert(held.targets[kept].astype(np.float64)[:, None])[:, 0]
    return replace(
        calibrator,
        golden=Sample(golden, calibrator.compute(golden)),
        validation=Sample(held.windows(kept), references),
    )


def _facts(
    recipe: Recipe,
    train: Sequence[Readings],
    examples: Examples,
    networks: Sequence[Network],
    plan: Plan,
    held: Examples,
) -> dict[str, Any]:
    """Where the calibrator came from; nothing that differs between two runs with one seed."""
    trainable = [split_trainable(network)[0] for network in networks]
    facts = {
        "model": type(recipe.model).__name__.lower(),
        "preset": recipe.name,
        "architecture": asdict(recipe.model),  # type: ignore[call-overload]
        "settings": asdict(recipe.settings),
        "devices": [one.device for one in train],
        "period": _period(train),
        "training_windows": len(examples),
        "validation_windows": len(held),
        "training_data_sha256": examples.fingerprint(),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(trainable)),
    }
    ties = share_of_ties(plan, held.windows(held.spread(SCORED)), hash_steps(plan))
    return facts if ties is None else facts | {"hash_ties": ties}


def _period(readings: Sequence[Readings]) -> list[str]:
    return [_iso(min(one.times[0] for one in readings)), _iso(max(one.times[-1] for one in readings))]


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
