"""Fit a calibrator to readings with a reference: prepare, train the members (`loop`), select, fold, describe.

Intervals come from conformal prediction on the errors in training and on validation.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

from scare.calibrator.calibrator import CHUNK, Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.intervals import CalibrationErrors, Intervals, fit_intervals
from scare.calibrator.linear import raw_reading, same_unit
from scare.calibrator.parity import hash_steps, share_of_ties
from scare.calibrator.passes import average, fold
from scare.data.flags import TRAINING, Flag, drop_dead_devices, drop_unusable_references
from scare.data.readings import Channel, Readings
from scare.layers.buffers import split_trainable
from scare.models.selection import NETWORK, OFFSET, BlendWeight, RawBaseline, SelectionRules, describe_outcome
from scare.training.data import hold_out, prepare_inputs
from scare.training.extrapolation import flagged_outside, with_training_range
from scare.training.loop import SCORED, Progress, Report, Trained, Trainer
from scare.training.recipe import Recipe
from scare.upkeep.drift import training_hours
from scare.windowing.inputs import Inputs
from scare.windowing.training_examples import Examples, check_examples, make_examples

GOLDEN = 64  # windows stored with their outputs
STORED_VALIDATION = 512  # windows stored with their references
MOST_ERRORS = 20_000  # training windows that intervals are learned from, evenly spread
NEW_DEVICE = ""  # a name that no device has


def fit(
    readings: Readings | Sequence[Readings],
    validation: Sequence[Readings] = (),
    recipe: Recipe | None = None,
    report: Report | None = None,
) -> Calibrator:
    """Train a calibrator on readings with a reference.

    Parameters
    ----------
    readings
        Readings of one device, or of several with the same channels.
    validation
        Readings to select on. Without any, the last 15 % of `readings` in time are held out.
    recipe
        Model, window and settings of training; the preset `default` if not given.
    report
        Called with a `Progress` after each round.

    Returns
    -------
    Calibrator
        The model that validation supports. A device with a dead channel is left out (`facts["left_out"]`). Ctrl-C ends
        training early and keeps the best model so far (`facts["interrupted"]`).

    Raises
    ------
    DataError
        If nothing can be learned from the readings, or training diverges.

    Examples
    --------
    >>> from scare.data.simulate import Simulation, simulate
    >>> boxes = simulate(Simulation(boxes=1, days=2, step_seconds=600))
    >>> calibrator = fit(boxes, recipe=Recipe.preset("default", window=8, steps=10))
    >>> calibrator.window, calibrator.facts["training_windows"]
    (8, 237)
    """
    recipe = recipe or Recipe()
    train, validation, left_out = _drop_unusable(
        [readings] if isinstance(readings, Readings) else readings, validation, recipe
    )
    inputs, target = prepare_inputs(train, validation, recipe)
    learning = replace(inputs, policy=recipe.learned_from)
    examples, held_out = make_examples(train, learning), make_examples(validation, inputs)
    check_examples(examples, train, learning, "training")
    check_examples(held_out, validation, inputs, "validation")
    members = train_members(recipe, examples, held_out, float(inputs.scaling.target.scale[0]), report)
    selected, rmse, outcome = _select(members, inputs, target, examples, held_out, recipe.rules)

    learned, shown = examples, held_out
    if selected.inputs is not inputs:  # the raw reading has a window of its own
        learned, shown = (make_examples(part, selected.inputs) for part in (train, validation))
    calibrator = with_training_range(replace(selected, floor=recipe.floor), train, learned)

    facts = _describe_data(recipe, train, examples, held_out)
    ties = share_of_ties(calibrator.plan, shown.windows(shown.spread(SCORED)), hash_steps(calibrator.plan))
    facts |= {} if ties is None else {"hash_ties": ties}
    facts["validation"] = {"devices": [one.device for one in validation], "period": _period(validation)}
    facts |= {"left_out": list(left_out)} if left_out else {}
    facts["validation_rmse"] = round(rmse, 6)
    facts |= {"interrupted": True} if members[-1].interrupted else {}
    facts |= {"averaged": [member.averaged for member in members]} if recipe.settings.either else {}
    facts["flagged_outside"] = flagged_outside(calibrator.inputs, training=train, validation=validation)
    if outcome.get("outcome", NETWORK) == NETWORK:
        trainable = [split_trainable(member.network)[0] for member in members]
        facts["parameters"] = sum(leaf.size for leaf in jax.tree.leaves(trainable))
    else:  # a simpler model is named after what it is, and has the parameters of its plan
        facts |= {"model": outcome["outcome"], "parameters": count(calibrator.plan).weights}
    golden, stored = _make_samples(calibrator, shown)
    return replace(
        calibrator,
        golden=golden,
        validation=stored,
        facts=facts | outcome,
        intervals=learn_intervals(calibrator, learned, validation, recipe.settings.level),
        training_hours=training_hours(calibrator.inputs, train),
    )


def train_members(
    recipe: Recipe, examples: Examples, held_out: Examples, unit: float, report: Report | None
) -> list[Trained]:
    """Train each member of the ensemble with a seed of its own; an interruption leaves the later ones out."""
    members: list[Trained] = []
    count = recipe.settings.members
    while len(members) < count and not (members and members[-1].interrupted):
        settings = replace(recipe.settings, seed=recipe.settings.seed + len(members))
        trainer = Trainer(replace(recipe, settings=settings), examples, held_out, unit)
        members.append(trainer.run(_report_member(report, len(members), count)))
    return members


def learn_intervals(
    calibrator: Calibrator, examples: Examples, validation: Sequence[Readings], level: float
) -> Intervals | None:
    """Intervals that cover `level` of training and of all of validation.

    How much wider they are for a new device is learned on validation, read as if its devices were new.
    """
    parts = [_training_errors(calibrator, examples)]
    if calibrator.inputs.scaling.known(NEW_DEVICE) is None:
        as_new = _join([_errors(calibrator, one, NEW_DEVICE) for one in validation])
        parts.append(as_new.rows((as_new.flags & Flag.UNSETTLED) > 0))
    return fit_intervals([*parts, _join([_errors(calibrator, one, one.device) for one in validation])], level)


def _drop_unusable(
    readings: Sequence[Readings], validation: Sequence[Readings], recipe: Recipe
) -> tuple[tuple[Readings, ...], tuple[Readings, ...], tuple[str, ...]]:
    """Training and validation without unusable references and dead devices, and a message for each such device."""
    train, held_out = (tuple(map(drop_unusable_references, part)) for part in (readings, validation))
    if not held_out:
        train, held_out = hold_out(train, recipe)
    kept, left_out = drop_dead_devices({TRAINING: train, "validation": held_out})
    return kept[TRAINING], kept["validation"], left_out


def _select(
    members: Sequence[Trained],
    inputs: Inputs,
    target: Channel,
    examples: Examples,
    held_out: Examples,
    rules: SelectionRules,
) -> tuple[Calibrator, float, dict[str, Any]]:
    """The blended members, or the raw reading if that is no worse; its validation RMSE, and the selection's facts."""
    unit, start = float(inputs.scaling.target.scale[0]), members[0].start
    outputs = np.mean([member.outputs for member in members], axis=0)
    weight = BlendWeight.fit(outputs, start.outputs if start else None, held_out.targets, rules)
    plan = fold(average([member.plan(weight.share) for member in members])).astype(np.float32)
    empty = Sample(np.empty((0, inputs.window, len(inputs.channels)), np.float32), np.empty(0))
    calibrator, rmse = Calibrator(plan, inputs, target, empty, empty), unit * weight.rmse
    if start is None:
        return calibrator, rmse, {}
    raw = None
    if same_unit(inputs.channels[0], target):
        raw = RawBaseline.fit(examples.reference_minus_reading(inputs), held_out.reference_minus_reading(inputs))
    facts = describe_outcome(start.selection, weight, plan, raw, unit, rules)
    if raw is None or facts["outcome"] not in raw.errors:
        return calibrator, rmse, facts
    offset = raw.offset if facts["outcome"] == OFFSET else 0.0
    return raw_reading(inputs, target, offset), raw.errors[facts["outcome"]], facts


def _report_member(report: Report | None, member: int, count: int) -> Report | None:
    """Report the progress of one member as progress of all."""
    if report is None or count == 1:
        return report

    def report_all(state: Progress) -> None:
        later = (count - 1 - member) * state.seconds_left * state.rounds / max(1, state.rounds - state.round)
        seconds = state.seconds_left + later
        number, rounds = state.round + member * state.rounds, state.rounds * count
        report(replace(state, round=number, rounds=rounds, seconds_left=seconds))

    return report_all


def _make_samples(calibrator: Calibrator, held_out: Examples) -> tuple[Sample, Sample]:
    """Golden windows with their outputs, and validation windows with their references, as the plan reads them."""
    kept = held_out.spread(STORED_VALIDATION)
    golden, windows = held_out.windows(held_out.spread(GOLDEN)), held_out.windows(kept)
    if (training_range := calibrator.inputs.training_range) is not None:
        golden, windows = training_range.clamp(golden), training_range.clamp(windows)
    return Sample(golden, calibrator.compute(golden)), Sample(windows, _references(calibrator, held_out, kept))


def _describe_data(recipe: Recipe, train: Sequence[Readings], examples: Examples, held_out: Examples) -> dict[str, Any]:
    """Facts of recipe and data; nothing that differs between two runs with one seed."""
    return {
        "model": type(recipe.model).__name__.lower(),
        "preset": recipe.name,
        "architecture": asdict(recipe.model),  # type: ignore[call-overload]
        "settings": asdict(recipe.settings),
        "devices": [one.device for one in train],
        "period": _period(train),
        "training_windows": len(examples),
        "validation_windows": len(held_out),
        "training_data_sha256": examples.fingerprint(),
    }


def _period(readings: Sequence[Readings]) -> list[str]:
    ends = min(one.times[0] for one in readings), max(one.times[-1] for one in readings)
    return [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) for seconds in ends]


def _training_errors(calibrator: Calibrator, examples: Examples) -> CalibrationErrors:
    which = examples.spread(MOST_ERRORS)
    parts = [which[start : start + CHUNK] for start in range(0, len(which), CHUNK)]
    values = np.concatenate([calibrator.compute(examples.windows(part)) for part in parts])
    references = _references(calibrator, examples, which)
    return CalibrationErrors(values, references, examples.times[which], np.zeros(len(which), np.uint32))


def _references(calibrator: Calibrator, examples: Examples, which: np.ndarray) -> np.ndarray:
    """References of examples in the target's unit, [len(which)]."""
    return calibrator.inputs.scaling.target.invert(examples.targets[which].astype(np.float64)[:, None])[:, 0]


def _errors(calibrator: Calibrator, readings: Readings, device: str) -> CalibrationErrors:
    """Errors on rows with a reference, read as rows of a device of this name."""
    rows = calibrator.stream(device).push(readings.times, calibrator.inputs.select(readings))
    errors = CalibrationErrors(rows.values, readings.targets, readings.times, rows.flags)
    return errors.rows(np.isfinite(errors.references) & np.isfinite(errors.values))


def _join(parts: Sequence[CalibrationErrors]) -> CalibrationErrors:
    columns = ("values", "references", "times", "flags")
    return CalibrationErrors(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))
