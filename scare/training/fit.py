"""Fit makes a calibrator from readings: prepare, train (`loop`), fold, describe."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from scare.calibrator.calibrator import CHUNK, Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.intervals import Errors, learn
from scare.calibrator.linear import raw_reading, same_unit
from scare.calibrator.parity import hash_steps, share_of_ties
from scare.calibrator.passes import average, fold
from scare.calibrator.plan import Plan
from scare.data.flags import TRAINING, Flag, drop_dead_devices, drop_unusable_references
from scare.data.readings import Channel, Readings
from scare.layers.buffers import split_trainable
from scare.models.selection import NETWORK, OFFSET, BlendWeight, RawBaseline, SelectionRules, describe_outcome
from scare.training.data import hold_out, prepare_inputs
from scare.training.extrapolation import flagged_outside, with_training_range
from scare.training.loop import SCORED, Progress, Report, Trained, Trainer
from scare.training.recipe import Recipe
from scare.upkeep.drift import training_hours
from scare.windowing.examples import Examples, check_examples, make_examples
from scare.windowing.inputs import Inputs

# How sure a calibrator is: its intervals, from the errors it makes on what it learned from and on what it did not.


LOOKED_AT = 20_000  # windows of training, evenly spread
STRANGER = ""  # the name of no device


def with_intervals(
    calibrator: Calibrator, examples: Examples, validation: Sequence[Readings], level: float
) -> Calibrator:
    """The same calibrator with intervals that cover `level` of training and of all of validation.

    How much less sure the readings of a new device are is seen on validation, read as if its devices were new.
    """
    parts = [_learned(calibrator, examples)]
    if calibrator.inputs.scaling.known(STRANGER) is None:
        strangers = _joined([_errors(calibrator, one, STRANGER) for one in validation])
        parts.append(strangers.those((strangers.flags & Flag.UNSETTLED) > 0))
    seen = _joined([_errors(calibrator, one, one.device) for one in validation])
    return replace(calibrator, intervals=learn([*parts, seen], level))


def _learned(calibrator: Calibrator, examples: Examples) -> Errors:
    """Errors on windows of training."""
    which = examples.spread(LOOKED_AT)
    parts = [which[start : start + CHUNK] for start in range(0, len(which), CHUNK)]
    values = np.concatenate([calibrator.compute(examples.windows(part)) for part in parts])
    targets = calibrator.inputs.scaling.target.invert(examples.targets[which].astype(np.float64)[:, None])[:, 0]
    return Errors(values, targets, examples.times[which], np.zeros(len(which), np.uint32))


def _errors(calibrator: Calibrator, readings: Readings, device: str) -> Errors:
    """Errors on rows with a reference, read as those of a device of this name."""
    answers = calibrator.stream(device).push(readings.times, calibrator.inputs.select(readings))
    rows = Errors(answers.values, readings.targets, readings.times, answers.flags)
    return rows.those(np.isfinite(rows.references) & np.isfinite(rows.values))


def _joined(parts: Sequence[Errors]) -> Errors:
    columns = ("values", "references", "times", "flags")
    return Errors(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


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
    learning = replace(inputs, policy=recipe.learned_from)
    examples, held = make_examples(train, learning), make_examples(validation, inputs)
    check_examples(examples, train, learning, "training")
    check_examples(held, validation, inputs, "validation")
    members = train_members(recipe, examples, held, float(inputs.scaling.target.scale[0]), report)
    calibrator, rmse, found = _ship(members, inputs, target, examples, held, recipe.rules)
    learned, shown = examples, held
    if calibrator.inputs is not inputs:  # the plain reading
        learned, shown = (make_examples(part, calibrator.inputs) for part in (train, validation))
    calibrator = with_training_range(replace(calibrator, floor=recipe.floor), train, learned)
    facts = _facts(recipe, train, examples, held) | _ties(calibrator.plan, shown)
    facts["validation"] = {"devices": [one.device for one in validation], "period": _period(validation)}
    facts |= {"left_out": list(left_out)} if left_out else {}
    facts |= {"validation_rmse": round(rmse, 6)} | ({"interrupted": True} if members[-1].interrupted else {})
    facts |= {"averaged": [member.averaged for member in members]} if recipe.settings.either else {}
    facts["flagged_outside"] = flagged_outside(calibrator.inputs, training=train, validation=validation)
    facts |= _what_it_is(members, calibrator.plan, found)
    calibrator = _with_samples(replace(calibrator, facts=facts), shown)
    calibrator = replace(calibrator, training_hours=training_hours(calibrator.inputs, train))
    return with_intervals(calibrator, learned, validation, recipe.settings.level)


def _ship(
    members: Sequence[Trained],
    inputs: Inputs,
    target: Channel,
    examples: Examples,
    held: Examples,
    rules: SelectionRules,
) -> tuple[Calibrator, float, dict[str, Any]]:
    """What the members come to, or the plain reading if that is no worse; its error on validation, and the verdict."""
    unit, start = float(inputs.scaling.target.scale[0]), members[0].start
    outputs = np.mean([member.outputs for member in members], axis=0)
    weight = BlendWeight.fit(outputs, start.outputs if start else None, held.targets, rules)
    plan = fold(average([member.plan(weight.share) for member in members])).astype(np.float32)
    none = Sample(np.empty((0, inputs.window, len(inputs.channels)), np.float32), np.empty(0))
    calibrator, rmse = Calibrator(plan, inputs, target, none, none), unit * weight.rmse
    if start is None:
        return calibrator, rmse, {}
    plain = None
    if same_unit(inputs.channels[0], target):
        plain = RawBaseline.fit(examples.reference_minus_reading(inputs), held.reference_minus_reading(inputs))
    found = describe_outcome(start.selection, weight, plan, plain, unit, rules)
    if plain is None or found["outcome"] not in plain.errors:
        return calibrator, rmse, found
    offset = plain.offset if found["outcome"] == OFFSET else 0.0
    return raw_reading(inputs, target, offset), plain.errors[found["outcome"]], found


def train_members(
    recipe: Recipe, examples: Examples, held: Examples, unit: float, report: Report | None
) -> list[Trained]:
    """What training finds for each member; after an interruption later ones are missing."""
    members: list[Trained] = []
    count = recipe.settings.members
    while len(members) < count and not (members and members[-1].interrupted):
        settings = replace(recipe.settings, seed=recipe.settings.seed + len(members))
        trainer = Trainer(replace(recipe, settings=settings), examples, held, unit)
        members.append(trainer.run(_as_part(report, len(members), count)))
    return members


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


def _usable(
    readings: Sequence[Readings], validation: Sequence[Readings], recipe: Recipe
) -> tuple[tuple[Readings, ...], tuple[Readings, ...], tuple[str, ...]]:
    """Training and validation without unusable references and dead devices, and a sentence about each of these."""
    train, held = (tuple(map(drop_unusable_references, part)) for part in (readings, validation))
    if not held:
        train, held = hold_out(train, recipe)
    kept, left_out = drop_dead_devices({TRAINING: train, "validation": held})
    return kept[TRAINING], kept["validation"], left_out


def _with_samples(calibrator: Calibrator, held: Examples) -> Calibrator:
    """With golden windows and their outputs, and validation windows and their references, as the plan sees them."""
    training_range, kept = calibrator.inputs.training_range, held.spread(KEPT)
    golden, windows = (held.windows(which) for which in (held.spread(GOLDEN), kept))
    if training_range is not None:
        golden, windows = training_range.clamp(golden), training_range.clamp(windows)
    references = calibrator.inputs.scaling.target.invert(held.targets[kept].astype(np.float64)[:, None])[:, 0]
    return replace(
        calibrator,
        golden=Sample(golden, calibrator.compute(golden)),
        validation=Sample(windows, references),
    )


def _facts(
    recipe: Recipe,
    train: Sequence[Readings],
    examples: Examples,
    held: Examples,
) -> dict[str, Any]:
    """Where the calibrator came from; nothing that differs between two runs with one seed."""
    return {
        "model": type(recipe.model).__name__.lower(),
        "preset": recipe.name,
        "architecture": asdict(recipe.model),  # type: ignore[call-overload]
        "settings": asdict(recipe.settings),
        "devices": [one.device for one in train],
        "period": _period(train),
        "training_windows": len(examples),
        "validation_windows": len(held),
        "training_data_sha256": examples.fingerprint(),
    }


def _ties(plan: Plan, shown: Examples) -> dict[str, float]:
    ties = share_of_ties(plan, shown.windows(shown.spread(SCORED)), hash_steps(plan))
    return {} if ties is None else {"hash_ties": ties}


def _what_it_is(members: Sequence[Trained], plan: Plan, found: dict[str, Any]) -> dict[str, Any]:
    """The facts of a verdict; what is no network is called what it is, and has the numbers of its plan."""
    if found.get("outcome", NETWORK) != NETWORK:
        return {"model": found["outcome"], "parameters": count(plan).weights, **found}
    trainable = [split_trainable(member.network)[0] for member in members]
    return {"parameters": sum(leaf.size for leaf in jax.tree.leaves(trainable)), **found}


def _period(readings: Sequence[Readings]) -> list[str]:
    return [_iso(min(one.times[0] for one in readings)), _iso(max(one.times[-1] for one in readings))]


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
