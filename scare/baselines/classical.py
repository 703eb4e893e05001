"""Classical baselines: what practitioners use today, each fitted by one call (training, validation, inputs, target).

`BASELINES` lists them: the raw reading, linear and multiple regression on the newest reading, ridge regression on the
window, gradient boosting, persistence and published corrections. Each returns a `Predictor`. Linear ones and published
corrections are calibrators, so they are saved and exported like any model. A baseline that the data do not allow raises
`NotApplicableError` with the reason. Regressions see channels scaled as for the rivals. What is chosen on validation,
such as a penalty, is then fitted to training and validation together, as our own calibrators are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.corrections import CORRECTIONS, Correction, bind, find_channels
from scare.calibrator.cost import BYTES, count
from scare.calibrator.linear import linear_calibrator, newest_inputs, raw_reading, to_unit
from scare.calibrator.moments import PENALTIES, Moments
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.quantities import is_called
from scare.data.readings import CALIBRATED, FLAGS, Channel, Readings
from scare.errors import DataError, NotApplicableError
from scare.executor import one_thread
from scare.layers.embedding import HatBasis
from scare.models.linear_families import choose_ridge, squared_errors
from scare.windowing.inputs import Inputs, WindowStream
from scare.windowing.training_examples import Examples, check_examples, design_matrix, make_examples
from scare.windowing.windows import ANY

GOLDEN = 64  # windows stored with their outputs in a calibrator, to check exports
PART_BYTES = 1 << 26  # most memory for windows in float64 at once
MOST_PRODUCTS = 4e11  # most multiplications in the normal equations; if there were more, examples are thinned evenly
ROUNDS, RATE, SEED = 200, 0.08, 0  # gradient boosting: trees, learning rate, random seed
ROWS = 8192  # windows predicted at once


class Predictor(Protocol):
    """A calibrator or a baseline, as a comparison uses it."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Description of the method, with `parameters` and `bytes`."""
        ...

    def predict(self, readings: Readings) -> pl.DataFrame:
        """Return the rows of one device with `calibrated`, null where there is no value."""
        ...


class Baseline(Protocol):
    """Fits a method; with `refit`, what was chosen on validation is fitted to training and validation together."""

    def __call__(
        self,
        train: Sequence[Readings],
        validation: Sequence[Readings],
        inputs: Inputs,
        target: Channel,
        refit: bool = True,
    ) -> Predictor:
        """Fit the method to these readings."""
        ...


def _raw(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Calibrator:
    """Return the reading of the first channel as it is; needs the unit of the reference."""
    first = inputs.channels[0]
    if to_unit(first, target) is None:
        raise NotApplicableError(f"needs a reading in {target.unit}; {first.name} is in {first.unit}")
    return raw_reading(inputs, target)


def _linear(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Calibrator:
    """Fit linear regression on the newest reading of the first channel."""
    return linear_regression((*train, *validation) if refit else train, inputs, target)


def _multiple(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Calibrator:
    """Fit multiple linear regression on the newest reading of all channels."""
    if len(inputs.channels) < 2:
        raise NotApplicableError(f"needs a second channel, such as T or RH; there is only {inputs.channels[0].name}")
    calibrator = linear_regression((*train, *validation) if refit else train, inputs, target, len(inputs.channels))
    return calibrator.with_facts(model="multiple-linear")


def linear_regression(readings: Sequence[Readings], inputs: Inputs, target: Channel, channels: int = 1) -> Calibrator:
    """Fit linear regression on the newest readings of the first `channels` channels, by least squares."""
    inputs = newest_inputs(inputs, range(channels))
    rows, targets = [], []
    for box in readings:
        affine = inputs.scaling.known(box.device) or inputs.scaling.fleet
        rows.append(affine.apply(inputs.usable(box)))
        targets.append(inputs.scaling.target.apply(box.targets[:, None])[:, 0])
    design, references = np.concatenate(rows), np.concatenate(targets)
    complete = np.isfinite(design).all(axis=1) & np.isfinite(references)
    if not complete.any():
        raise DataError("no row has both a reading and a reference")
    design, references = design[complete], references[complete]
    solution, *_ = np.linalg.lstsq(np.column_stack([design, np.ones(len(design))]), references, rcond=None)
    line = linear_calibrator(inputs, target, solution[:-1], float(solution[-1]), "linear")
    golden = design[:GOLDEN, None].astype(np.float32)
    return replace(line, golden=Sample(golden, line.compute(golden)))


def window_ridge(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Calibrator:
    """Fit ridge regression on all readings of the window, its penalty chosen on validation.

    It is solved in closed form, so no linear network should score better on the same rows.
    """
    examples, held_out, everything = make_all(train, validation, inputs, refit)
    size = inputs.window * len(inputs.channels)  # weights; the normal equations take size² products a window
    most_windows = int(MOST_PRODUCTS / size**2)

    def moments(part: Examples) -> Moments:
        return Moments.from_batches(_batches(part, part.spread(most_windows)), size)

    training_moments = moments(examples)
    solutions = [training_moments.solve(penalty) for penalty in PENALTIES]
    errors = squared_errors(_batches(held_out, np.arange(len(held_out))), solutions)
    best = int(np.argmin(errors))
    weight, bias = moments(everything).solve(PENALTIES[best])
    weights = {"weight": weight[:, None].astype(np.float32), "bias": np.array([bias], np.float32)}
    steps = Step("flatten", (INPUT,), "flat"), Step("dense", ("flat",), "y", weights)
    plan = Plan(inputs.window, len(inputs.channels), steps)
    cost = count(plan)
    facts = {"model": "ridge", "penalty": PENALTIES[best], "parameters": cost.weights, "bytes": cost.weight_bytes}
    golden = held_out.windows(held_out.spread(GOLDEN))
    empty = Sample(golden[:0], np.empty(0))
    calibrator = Calibrator(plan, inputs, target, empty, empty, facts)
    return replace(calibrator, golden=Sample(golden, calibrator.compute(golden)))


@dataclass(frozen=True)
class Boosted:
    """Gradient-boosted trees on features of the window, plus ridge regression on the same features (or zero).

    The features are hats (`layers.embedding.HatBasis`): the newest value, then weighted means of earlier ones over
    spans that double in length every second feature. Trees cannot be saved: scikit-learn stores them as pickles only,
    and loading a pickle can run code.
    """

    inputs: Inputs
    basis: np.ndarray | None  # [window, features per channel]; None: the window itself
    line: tuple[np.ndarray, float]  # of the ridge regression: weights [features], bias
    trees: Any  # a fitted HistGradientBoostingRegressor
    facts: Mapping[str, Any]

    def predict(self, readings: Readings) -> pl.DataFrame:
        """Return the rows of one device with `calibrated` (null where there is none) and `flags`."""
        segments, flags = WindowStream(self.inputs, readings.device).take(readings.times, self.inputs.select(readings))
        calibrated = np.full(len(readings), np.nan)
        for segment in segments:
            for start in range(0, len(segment.ends), ROWS):
                part = slice(start, start + ROWS)
                calibrated[segment.rows[part]] = self.compute(segment.grid.windows(segment.ends[part]))
        return readings.frame.with_columns(
            pl.Series(CALIBRATED, calibrated).fill_nan(None), pl.Series(FLAGS, readings.flags | flags)
        )

    def compute(self, windows: np.ndarray) -> np.ndarray:
        """Return the values in the target's unit of scaled windows [n, window, channels]: [n]."""
        features = windows if self.basis is None else self.basis.T.astype(np.float32) @ windows
        flat = features.reshape(len(windows), -1)
        weights, bias = self.line
        with one_thread():
            scaled = flat @ weights + bias + self.trees.predict(flat)
        return self.inputs.scaling.target.invert(scaled[:, None])[:, 0]


def boosted(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Boosted:
    """Fit gradient-boosted trees to the window's hat features: weighted means over spans that grow with their age."""
    return _fit_boosted(train, validation, inputs, refit, with_ridge=False)


def ridge_and_boosted(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Boosted:
    """Fit ridge regression to the features, chosen on validation, and gradient-boosted trees to its residuals."""
    return _fit_boosted(train, validation, inputs, refit, with_ridge=True)


def _fit_boosted(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, refit: bool, with_ridge: bool
) -> Boosted:
    """Fit trees to the residuals of a ridge regression or, without `with_ridge`, to the targets themselves."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    examples, held_out, everything = make_all(train, validation, inputs, refit)
    basis = HatBasis(inputs.window).matrix if inputs.window > 1 else None
    data = design_matrix(everything, basis)
    flat = data.features.reshape(len(data.targets), -1)
    weights, bias = np.zeros(flat.shape[1]), 0.0
    if with_ridge:
        # Hat 0 is the newest reading.
        ridge = choose_ridge(design_matrix(examples, basis), design_matrix(held_out, basis), newest=0)
        weights, bias = ridge.fit(data)
    trees = HistGradientBoostingRegressor(max_iter=ROUNDS, learning_rate=RATE, early_stopping=False, random_state=SEED)
    with one_thread():
        trees.fit(flat, data.targets - flat @ weights - bias)
    is_leaf = np.concatenate([tree.nodes["is_leaf"] for stage in trees._predictors for tree in stage])
    leaves = int(is_leaf.sum())  # a number each
    splits = len(is_leaf) - leaves  # a feature and a threshold each
    parameters = 2 * splits + leaves + (len(weights) + 1 if with_ridge else 0)
    name = "ridge-boosting" if with_ridge else "boosting"
    facts = {"model": name, "parameters": parameters, "bytes": BYTES * parameters}
    return Boosted(inputs, basis, (weights, bias), trees, facts)


@dataclass(frozen=True)
class Persistence:
    """Predict the newest reference that is at least `lag_seconds` old and at most twice that, without any sensor.

    Stations publish late, so a calibration no better than the station's last published value is not worth its sensor.
    A slow pollutant makes every score look good: persistence shows how much of that is the air's own memory. It needs
    a reference when it predicts, so it is a baseline only, never a calibrator.
    """

    lag_seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, readings: Readings) -> pl.DataFrame:
        """Return the rows of one device with `calibrated`, null where no reference is old and new enough."""
        if readings.reference is None:
            raise NotApplicableError(f"needs the reference when it predicts; {readings.device} has none")
        known = np.isfinite(readings.targets)
        reference_times, references = readings.times[known], readings.targets[known]
        published_by = readings.times - self.lag_seconds  # a newer reference is not published yet
        newest = np.searchsorted(reference_times, published_by, side="right") - 1  # index of the newest one, or −1
        calibrated = np.full(len(readings), np.nan)
        has_any = newest >= 0
        # At most a lag older than the newest that could be published, so at most two lags old.
        is_recent = published_by[has_any] - reference_times[newest[has_any]] <= self.lag_seconds
        calibrated[has_any] = np.where(is_recent, references[newest[has_any]], np.nan)
        return readings.frame.with_columns(pl.Series(CALIBRATED, calibrated).fill_nan(None))


def persistence(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel, refit: bool = True
) -> Persistence:
    """Return the baseline that predicts the reference of one window ago; nothing is fitted."""
    baseline = Persistence(inputs.window * inputs.step_seconds, {"model": "persistence", "parameters": 0, "bytes": 0})
    for box in (*train, *validation):
        if np.isfinite(box.targets).any() and baseline.predict(box)[CALIBRATED].is_not_null().any():
            return baseline
    hours = baseline.lag_seconds / 3600
    raise NotApplicableError(f"needs a reference one window ({hours:.3g} hours) earlier; no row has one")


def _published(
    correction: Correction,
    train: Sequence[Readings],
    validation: Sequence[Readings],
    inputs: Inputs,
    target: Channel,
    refit: bool = True,
) -> Calibrator:
    """Use a published correction as a baseline: nothing is fitted, channels are recognised by name."""
    if not is_called(target.name, correction.quantity):
        raise NotApplicableError(f"is for {correction.quantity}, not for {target.name}")
    calibrator = bind(correction, find_channels(correction, inputs.channels), inputs.step_seconds, target)
    # Readings are flagged by the rules of the comparison, so that all methods see the same unusable ones.
    return replace(calibrator, inputs=replace(calibrator.inputs, quality=inputs.quality))


def make_all(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, refit: bool = True
) -> tuple[Examples, Examples, Examples]:
    """Make examples of training, of validation, and of both together (without `refit`, of training again).

    Raises if training or validation has none. Windows with gaps are included (policy `ANY`), except in validation.
    """
    learning = replace(inputs, policy=ANY)
    examples, held_out = make_examples(train, learning), make_examples(validation, inputs)
    check_examples(examples, train, learning, "training")
    check_examples(held_out, validation, inputs, "validation")
    return examples, held_out, make_examples((*train, *validation), learning) if refit else examples


def _batches(examples: Examples, which: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield flat windows [n, window·channels] and targets [n] of the examples `which`, at most `PART_BYTES` at once."""
    bytes_of_window = 8 * examples.window * examples.series.shape[1]
    rows = max(1, PART_BYTES // bytes_of_window)
    for start in range(0, len(which), rows):
        batch = which[start : start + rows]
        yield examples.windows(batch).reshape(len(batch), -1), examples.targets[batch]


BASELINES: dict[str, Baseline] = {
    "raw": _raw,
    "linear": _linear,
    "multiple-linear": _multiple,
    "ridge": window_ridge,
    "boosting": boosted,
    "ridge-boosting": ridge_and_boosted,
    "persistence": persistence,
    **{name: partial(_published, correction) for name, correction in CORRECTIONS.items()},
}
# Baselines that learn nothing from training data.
UNFITTED = frozenset({"raw", "persistence", *CORRECTIONS})
