"""Fit a calibrator to readings with a reference: prepare, train the members (`loop`), select, fold, describe.

Intervals are learned by conformal prediction from the errors in training and on validation.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from scare.baselines import MODELS
from scare.baselines.classical import BASELINES, Predictor
from scare.calibrator.calibrator import CHUNK, Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.equation import line_weights
from scare.calibrator.intervals import CalibrationErrors, Intervals, fit_intervals
from scare.calibrator.linear import newest_inputs, raw_reading, same_unit
from scare.calibrator.parity_tolerance import hash_steps, share_of_ties
from scare.calibrator.plan_passes import narrow
from scare.calibrator.renamed_devices import keep_rows
from scare.data.colocation_check import check_colocation
from scare.data.column_kind import with_limits
from scare.data.dataframes import read_frame
from scare.data.flags import TRAINING, Flag, drop_dead_devices, drop_unusable_references
from scare.data.readings import TIME, Channel, Readings
from scare.errors import DataError, UsageError
from scare.executor import one_thread
from scare.layers.buffers import split_trainable
from scare.models.linear_families import AS_IS, OFFSET
from scare.training.budget import Weighed, choose_by_cost, describe_cost
from scare.training.combination import Combination, combine
from scare.training.data import hold_out, prepare_inputs, usable_rows
from scare.training.extrapolation import flagged_outside, is_better_free, with_training_range
from scare.training.loop import SCORED, Report
from scare.training.recipe import Recipe
from scare.training.selection import NETWORK, describe_selection
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import add_devices
from scare.windowing.training_examples import Examples, check_examples, make_examples
from scare.words import listed, suggestion

GOLDEN = 64  # windows stored with their outputs
STORED_VALIDATION = 512  # windows stored with their references
MOST_ERRORS = 20_000  # training windows that intervals are learned from, evenly spread
# A forward block is a block of time after all rows that the combination was fitted to, to learn intervals from.
FORWARD_CUTS = (0.6, 0.75)  # shares of the rows with a reference before a block
FORWARD_WINDOWS = 50, 10_000  # fewest and most windows before a block that the combination is fitted to again
NEW_DEVICE = ""  # a name that no device has


def fit(
    readings: Readings | Sequence[Readings] | Any,
    validation: Sequence[Readings] | Any = (),
    recipe: Recipe | str | None = None,
    report: Report | None = None,
    *,
    reference: Channel | str | None = None,
    channels: Sequence[Channel | str] = (),
    time: str = TIME,
    device_column: str = "",
) -> Calibrator:
    """Train a calibrator on readings with a reference.

    Parameters
    ----------
    readings
        Readings of one device, or of several with the same channels; or a table of pandas or Polars, or a dict of
        columns.
    validation
        Readings, or a table, to select on. Without any, the last 15 % of `readings` in time are held out.
    recipe
        Model, window and settings of training; the preset `default` if not given. Or the name of a model (`scare`,
        `tesla` …) or of a baseline (`linear`, `ridge`, `barkjohn-2021` …).
    report
        Called with a `Progress` after each round.
    reference
        Column of the reference instrument in a table.
    channels
        Columns that the model reads, first the one to calibrate; without any, all columns of numbers.
    time
        Column of times: datetimes, text or seconds since 1970, UTC if they have no zone. The index of a pandas table
        if it has no such column.
    device_column
        Column that names the device of each row, for a table of several.

    Returns
    -------
    Calibrator
        The model that validation supports, fitted to `readings` and `validation` together unless the recipe's
        `rules.refit` is off. A device with a dead channel is left out (`facts["left_out"]`). Ctrl-C ends
        training early and keeps the best model so far (`facts["interrupted"]`).

    Raises
    ------
    UsageError
        If a table has no times or its reference is not named, or no model has the given name.
    DataError
        If nothing can be learned from the readings, or training diverges.

    Examples
    --------
    >>> from scare.data.simulate import Simulation, simulate
    >>> boxes = simulate(Simulation(boxes=1, days=2, step_seconds=600))
    >>> calibrator = fit(boxes, recipe=Recipe.preset("default", window=8, steps=10))
    >>> calibrator.window, calibrator.facts["training_windows"]
    (8, 237)

    A table, and a straight line:

    >>> raw = np.arange(300) % 31.0
    >>> table = {"when": 1.8e9 + 600 * np.arange(300), "raw": raw, "truth": 2 * raw + np.sin(raw)}
    >>> fit(table, recipe="linear", reference="truth", time="when")
    Calibrator of truth by linear
      from raw
      a reading every 10 minutes, 1 in a window
    """

    def as_readings(source: Any) -> Sequence[Readings]:
        if isinstance(source, Readings):
            return [source]
        if isinstance(source, Sequence) and all(isinstance(item, Readings) for item in source):
            return source
        if reference is None:
            raise UsageError("name the column of the reference in the table: reference='…'")
        return [table.readings for table in read_frame(source, channels, reference, time, device_column)]

    train, held_out = as_readings(readings), as_readings(validation)
    if reference is not None:  # from tables, whose columns have no limits
        limited = with_limits([*train, *held_out], lambda line: warnings.warn(line, stacklevel=3))
        train, held_out = limited[: len(train)], limited[len(train) :]
        for doubt in check_colocation(limited):
            if doubt.fatal:
                raise DataError(doubt.text)
            warnings.warn(doubt.text, stacklevel=2)
    if not isinstance(recipe, str) or recipe in MODELS:
        chosen = Recipe.preset("default", model=recipe) if isinstance(recipe, str) else recipe
        return evaluate(train, held_out, chosen, report).fitted(report)
    baseline = fit_baseline(recipe, train, held_out)
    if not isinstance(baseline, Calibrator):
        raise UsageError(f"'{recipe}' gives no calibrator that can be saved; use SensorCalibrator(model='{recipe}')")
    return baseline


@one_thread()
def fit_baseline(
    name: str, readings: Sequence[Readings], validation: Sequence[Readings] = (), recipe: Recipe | None = None
) -> Predictor:
    """Fit a baseline by name; the window is the recipe's."""
    if name not in BASELINES:
        raise UsageError(f"no model called '{name}'{suggestion(name, [*MODELS, *BASELINES])}")
    recipe = (recipe or Recipe()).for_readings(readings)
    train, held_out, _ = _drop_unusable(readings, validation, recipe)
    inputs, target = prepare_inputs(train, held_out, recipe, with_effects=False)
    return BASELINES[name](train, held_out, inputs, target)


@dataclass(frozen=True)
class Evaluation:
    """The choice made on validation: a calibrator fitted to training alone, and how to fit it to other rows.

    `free` says that every channel is clamped only far out, because that had the lower error on validation.
    """

    recipe: Recipe
    train: tuple[Readings, ...]
    validation: tuple[Readings, ...]
    inputs: Inputs
    combination: Combination
    calibrator: Calibrator
    free: bool

    @property
    def is_refitted(self) -> bool:
        """Whether the result is fitted again to more rows: its linear families and trees are, a network never is.

        So it is False if the network is the whole result (no `families`), or if the rules turn refitting off.
        """
        return self.recipe.rules.refit and bool(self.combination.families)

    def fitted(self, report: Report | None = None) -> Calibrator:
        """Return the calibrator to score on test rows: refitted to training and validation if `is_refitted`."""
        return self.refit((*self.train, *self.validation), report) if self.is_refitted else self.calibrator

    @one_thread()
    def refit(self, readings: Sequence[Readings], report: Report | None = None) -> Calibrator:
        """Fit the chosen combination to these readings, with the same choices and intervals."""
        evaluated = self.calibrator
        usable = [box for box in map(drop_unusable_references, readings) if np.isfinite(box.targets).any()]
        inputs = replace(self.inputs, scaling=add_devices(self.inputs.scaling, usable_rows(usable)))
        examples = make_examples(usable, replace(inputs, policy=self.recipe.learned_from))
        combination = self.combination.trained_again(self.recipe, examples, inputs.scaling, report)
        fitted, windows = _fit_without_range(combination, inputs, evaluated.target, usable, examples)
        fitted = with_training_range(replace(fitted, floor=evaluated.floor), usable, windows, self.free)
        refitted = {
            "devices": list(dict.fromkeys(box.device for box in usable)),
            "period": period_of(usable),
            "windows": len(examples),
            "data_sha256": examples.fingerprint(),
        }
        held_out = _validation_windows(fitted, self.validation)
        fitted = replace(
            fitted,
            golden=_golden_sample(fitted, held_out),
            validation=_validation_sample(fitted, held_out),
            facts={**evaluated.facts, "refitted": refitted},
            intervals=evaluated.intervals,
            known_rows=keep_rows(fitted.inputs, usable),
        )
        if over := Weighed.of(self.combination, fitted, self.recipe.budget).over:
            raise UsageError(f"fitted again to more rows, the result takes {listed(over)}; raise the limit a little")
        return fitted

    def forward_errors(self) -> list[CalibrationErrors]:
        """Collect errors on rows later than all that the combination was fitted to.

        It is fitted again to the rows before each of `FORWARD_CUTS`, and its errors after that moment are one part. If
        validation is later than training, the rows are those of both, and a part is as long as validation. Otherwise
        they are those of training, and a part goes on to their end.
        """
        if not self.combination.families:
            return []  # a network that starts at random would have to be trained again
        end_of_training = max(box.times[-1] for box in self.train)
        first, last = _first_and_last_time(self.validation)
        if first >= end_of_training:
            readings, horizon = (*self.train, *self.validation), last - first
        else:
            readings, horizon = self.train, np.inf
        times = np.sort(np.concatenate([box.times[np.isfinite(box.targets)] for box in readings]))
        blocks = [self._forward_block(readings, times[int(share * len(times))], horizon) for share in FORWARD_CUTS]
        return [errors for errors in blocks if errors is not None]

    def _forward_block(self, readings: Sequence[Readings], cut: float, horizon: float) -> CalibrationErrors | None:
        """Fit the combination to rows before `cut`, and collect its errors for `horizon` seconds after it.

        None if there are too few rows before the cut, or none after it.
        """
        before = [box.rows(box.times < cut) for box in readings]
        before = [box for box in before if np.isfinite(box.targets).any()]
        after = [box.rows((box.times >= cut) & (box.times <= cut + horizon)) for box in readings]
        after = [box for box in after if np.isfinite(box.targets).any()]
        fewest, most = FORWARD_WINDOWS
        examples = make_examples(before, replace(self.inputs, policy=self.recipe.learned_from))
        if len(examples) < fewest or not after:
            return None
        examples = examples.take(examples.spread(most))
        fitted, windows = _fit_without_range(self.combination, self.inputs, self.calibrator.target, before, examples)
        fitted = with_training_range(replace(fitted, floor=self.recipe.floor), before, windows, self.free)
        return _join([_collect_errors(fitted, box, box.device) for box in after])


@one_thread()
def evaluate(
    readings: Readings | Sequence[Readings],
    validation: Sequence[Readings] = (),
    recipe: Recipe | None = None,
    report: Report | None = None,
) -> Evaluation:
    """Fit all candidates to training, choose on validation, and describe what was chosen; arguments as for `fit`."""
    readings = [readings] if isinstance(readings, Readings) else readings
    recipe = (recipe or Recipe()).for_readings((*readings, *validation))
    train, validation, left_out = _drop_unusable(readings, validation, recipe)
    inputs, target = prepare_inputs(train, validation, recipe)
    learning = replace(inputs, policy=recipe.learned_from)
    examples, held_out = make_examples(train, learning), make_examples(validation, inputs)
    check_examples(examples, train, learning, "training")
    check_examples(held_out, validation, inputs, "validation")
    is_same_unit = same_unit(inputs.channels[0], target)
    combination = combine(recipe, examples, held_out, inputs.scaling, is_same_unit, report)

    def evaluate_combination(combination: Combination) -> tuple[Evaluation, Examples]:
        """Evaluate a combination, without facts; also returns the validation windows as its plan reads them."""
        fitted, training_windows = _fit_without_range(combination, inputs, target, train, examples)
        fitted = replace(fitted, floor=recipe.floor)
        windows = _validation_windows(fitted, validation)
        clamped = with_training_range(fitted, train, training_windows)
        clamped_far_out = with_training_range(fitted, train, training_windows, free=True)
        free = is_better_free(clamped, clamped_far_out, windows)
        calibrator = clamped_far_out if free else clamped
        calibrator = replace(
            calibrator,
            golden=_golden_sample(calibrator, windows),
            validation=_validation_sample(calibrator, windows),
            known_rows=keep_rows(calibrator.inputs, train),
        )
        evaluation = Evaluation(recipe, train, validation, inputs, combination, calibrator, free)
        forward = evaluation.forward_errors()
        intervals = learn_intervals(calibrator, training_windows, validation, recipe.settings.level, forward)
        return replace(evaluation, calibrator=replace(calibrator, intervals=intervals)), windows

    evaluation, windows = evaluate_combination(combination)
    cost: dict[str, Any] = {}
    if recipe.weighs_cost:
        evaluated = [(evaluation, windows), *map(evaluate_combination, combination.smaller(recipe.rules))]
        weighed = [Weighed.of(each.combination, each.calibrator, recipe.budget) for each, _ in evaluated]
        chosen = choose_by_cost(weighed, recipe)
        evaluation, windows = evaluated[chosen]
        cost = describe_cost(weighed, chosen, recipe, float(inputs.scaling.target.scale[0]))
    facts = _describe(evaluation, (examples, held_out), windows) | cost
    facts |= {"left_out": list(left_out)} if left_out else {}
    return replace(evaluation, calibrator=evaluation.calibrator.with_facts(**facts))


def _fit_without_range(
    combination: Combination,
    inputs: Inputs,
    target: Channel,
    readings: Sequence[Readings],
    examples: Examples,
) -> tuple[Calibrator, Examples]:
    """Fit the combination to readings; returns a calibrator without a training range.

    `examples` are the windows of the readings. Also returns their windows as the calibrator reads them (it may need
    fewer rows or channels), with device effects subtracted from the targets.
    """
    if list(combination.used) == [AS_IS]:
        variant = next(family.variant for family in combination.families if family.family == AS_IS)
        calibrator = raw_reading(inputs, target)
        windows = make_examples(readings, calibrator.inputs)
        if variant == OFFSET:
            references = _references(calibrator, windows, np.arange(len(windows)))
            newest = windows.series[windows.ends, 0]  # in the target's unit: the raw reading is not scaled
            calibrator = raw_reading(inputs, target, float((references - newest).mean()))
        return calibrator, windows
    plan, effects = combination.plan(examples, inputs.scaling)
    plan, channels = narrow(plan)
    if plan.window < inputs.window:
        inputs = newest_inputs(inputs, channels)
        examples = make_examples(readings, inputs)
    empty = Sample(np.empty((0, plan.window, plan.channels), np.float32), np.empty(0))
    scaling = replace(inputs.scaling, effects=effects)
    calibrator = Calibrator(plan, replace(inputs, scaling=scaling), target, empty, empty)
    return calibrator, examples.without_effects(effects)


def _validation_windows(calibrator: Calibrator, validation: Sequence[Readings]) -> Examples:
    """Cut validation into windows as a calibrator reads them; device effects are subtracted from the targets."""
    return make_examples(validation, calibrator.inputs).without_effects(calibrator.inputs.scaling.effects)


def _describe(evaluation: Evaluation, examples: tuple[Examples, Examples], as_read: Examples) -> dict[str, Any]:
    """Collect facts of recipe, data and selection; two runs with the same seed give the same facts.

    `examples` are the windows of training and of validation. `as_read` are those of validation as the chosen plan reads
    them: it may need fewer rows or channels.
    """
    training_examples, validation_examples = examples
    recipe, combination, calibrator = evaluation.recipe, evaluation.combination, evaluation.calibrator
    train, validation = evaluation.train, evaluation.validation
    members, unit = combination.members, float(calibrator.inputs.scaling.target.scale[0])
    facts = {
        "model": type(recipe.model).__name__.lower(),
        "preset": recipe.name,
        "architecture": asdict(recipe.model),  # type: ignore[call-overload]
        "settings": asdict(recipe.settings),
        "devices": [box.device for box in train],
        "period": period_of(train),
        "training_window": recipe.window,
        "training_windows": len(training_examples),
        "validation_windows": len(validation_examples),
        "training_data_sha256": training_examples.fingerprint(),
        "validation": {"devices": [box.device for box in validation], "period": period_of(validation)},
        "flagged_outside": flagged_outside(calibrator.inputs, training=train, validation=validation),
    }
    ties = share_of_ties(calibrator.plan, as_read.windows(as_read.spread(SCORED)), hash_steps(calibrator.plan))
    facts |= {} if ties is None else {"hash_ties": ties}
    errors = _join([_collect_errors(calibrator, box, box.device) for box in validation])
    facts["validation_rmse"] = round(float(np.sqrt(np.square(errors.values - errors.references).mean())), 6)
    expected = combination.error_on_new_devices((*train, *validation), evaluation.inputs)
    facts |= {} if expected is None else {"new_device_rmse": float(f"{expected:.4g}")}
    facts |= {"interrupted": True} if members[-1].interrupted else {}
    if recipe.settings.either:  # validation chose between the weights and their running mean
        facts["averaged"] = [member.averaged for member in members]
    if combination.families:
        is_line = line_weights(calibrator.plan) is not None
        facts |= describe_selection(
            combination.families, combination.shares, combination.targets, unit, calibrator.target.unit, is_line
        )
    if facts.get("outcome", NETWORK) == NETWORK:
        trainable = [split_trainable(member.network)[0] for member in members]
        facts["parameters"] = sum(leaf.size for leaf in jax.tree.leaves(trainable))
    else:  # a simpler model has the name of its outcome and the parameters of its plan
        facts |= {"model": facts["outcome"], "parameters": count(calibrator.plan).weights}
    return facts


def learn_intervals(
    calibrator: Calibrator,
    examples: Examples,
    validation: Sequence[Readings],
    level: float,
    forward: Sequence[CalibrationErrors] = (),
) -> Intervals | None:
    """Fit intervals to the errors in training, in `Evaluation.forward_errors` and on all of validation.

    How much wider they are for a new device is learned from validation, treating its devices as new.
    """
    parts = [_training_errors(calibrator, examples), *forward]
    if calibrator.inputs.scaling.known(NEW_DEVICE) is None:  # its first rows are UNSETTLED: scaled as the fleet
        as_new = _join([_collect_errors(calibrator, box, NEW_DEVICE) for box in validation])
        parts.append(as_new.rows((as_new.flags & Flag.UNSETTLED) > 0))
    parts.append(_join([_collect_errors(calibrator, box, box.device) for box in validation]))
    return fit_intervals(parts, level)


def _drop_unusable(
    readings: Sequence[Readings], validation: Sequence[Readings], recipe: Recipe
) -> tuple[tuple[Readings, ...], tuple[Readings, ...], tuple[str, ...]]:
    """Drop unusable references and devices with a dead channel.

    Returns training, validation and a message for each device left out. Without validation, the last rows of training
    are held out for it.
    """
    train, held_out = (tuple(map(drop_unusable_references, part)) for part in (readings, validation))
    if not held_out:
        train, held_out = hold_out(train, recipe)
    alive, left_out = drop_dead_devices({TRAINING: train, "validation": held_out})
    return alive[TRAINING], alive["validation"], left_out


def _golden_sample(calibrator: Calibrator, examples: Examples) -> Sample:
    """Sample windows as the plan reads them, with their outputs."""
    windows = _clamped_windows(calibrator, examples, examples.spread(GOLDEN))
    return Sample(windows, calibrator.compute(windows))


def _validation_sample(calibrator: Calibrator, held_out: Examples) -> Sample:
    """Sample windows as the plan reads them, with their references."""
    which = held_out.spread(STORED_VALIDATION)
    return Sample(_clamped_windows(calibrator, held_out, which), _references(calibrator, held_out, which))


def _clamped_windows(calibrator: Calibrator, examples: Examples, which: np.ndarray) -> np.ndarray:
    """Return the windows of some examples, clamped as for the plan [len(which), window, channels]."""
    training_range = calibrator.inputs.training_range
    windows = examples.windows(which)
    return windows if training_range is None else training_range.clamp(windows)


def period_of(readings: Sequence[Readings]) -> list[str]:
    """Return the first and last time of readings, ISO 8601 in UTC."""
    return [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) for seconds in _first_and_last_time(readings)]


def _first_and_last_time(readings: Sequence[Readings]) -> tuple[float, float]:
    """Return the first and last time of readings, in seconds."""
    return min(box.times[0] for box in readings), max(box.times[-1] for box in readings)


def _training_errors(calibrator: Calibrator, examples: Examples) -> CalibrationErrors:
    """Collect the errors on up to `MOST_ERRORS` training windows, with no flags."""
    which = examples.spread(MOST_ERRORS)
    parts = [which[start : start + CHUNK] for start in range(0, len(which), CHUNK)]
    values = np.concatenate([calibrator.compute(examples.windows(part)) for part in parts])
    references = _references(calibrator, examples, which)
    return CalibrationErrors(values, references, examples.times[which], np.zeros(len(which), np.uint32))


def _references(calibrator: Calibrator, examples: Examples, which: np.ndarray) -> np.ndarray:
    """Return the references of some examples, in the target's unit [len(which)]."""
    return calibrator.inputs.scaling.target.invert(examples.targets[which].astype(np.float64)[:, None])[:, 0]


def _collect_errors(calibrator: Calibrator, readings: Readings, device: str) -> CalibrationErrors:
    """Calibrate readings as if they were of `device`, and collect the rows that have a value and a reference."""
    rows = calibrator.stream(device).push(readings.times, calibrator.inputs.select(readings))
    errors = CalibrationErrors(rows.values, readings.targets, readings.times, rows.flags)
    return errors.rows(np.isfinite(errors.references) & np.isfinite(errors.values))


def _join(parts: Sequence[CalibrationErrors]) -> CalibrationErrors:
    """Concatenate the rows of several devices."""
    columns = ("values", "references", "times", "flags")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return CalibrationErrors(**joined)
