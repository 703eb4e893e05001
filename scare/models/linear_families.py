"""The linear families that model selection compares: ridge regressions, products, device effects and drift.

    as is          the first channel's newest reading, and that plus an offset
    linear         ridge regression on the newest reading, on all channels, or on the whole window
    interactions   like `linear`, with products of the newest readings
    devices        the newest readings of all channels, with an offset and a slope for each device
    drift          like `devices`, with an offset that changes in steps over the training period; the last one is kept

All of them, `as is` included, are `Linear`: their mean is again one linear model of the same columns, so averaging them
costs nothing on a board. They are fitted in closed form, from the moments of their columns. `training.selection` judges
them and `training.combination` averages them; a network starts at their mean.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from scare.calibrator.moments import PENALTIES, Moments, Solution
from scare.windowing.scaling import NO_EFFECT, DeviceEffect, Scaling
from scare.windowing.training_examples import DesignMatrix

AS_IS, LINEAR, INTERACTIONS, DEVICES, DRIFT = "as is", "linear", "interactions", "devices", "drift"
LINEAR_FAMILIES = (AS_IS, LINEAR, INTERACTIONS, DEVICES, DRIFT)
RAW, OFFSET, LINE, RIDGE = "raw", "offset", "line", "ridge"  # outcomes of selection, besides trees and network
# Regressions with one coefficient a channel: a penalty chosen on validation would only flatten the line.
UNPENALISED = (LINE, "other channels")  # so they have the smallest penalty, which is as good as none
DRIFT_STEPS = 8  # parts of the training period, each with an offset of its own
EVIDENCE_ROUNDS = 30  # updates of the prior variances and the noise
FREE_VARIANCE = 1e6  # prior variance of a coefficient that is not shrunk
START_VARIANCE = 0.1  # prior variance of a shrunk coefficient before the first update
START_NOISE = 0.3  # variance of the noise before the first update, as a share of the target's
FEWEST_EFFECTIVE = 20  # independent rows assumed at least
BATCH_ROWS = 1 << 16  # examples added to the normal equations at once
TINY = 1e-30  # keeps a divisor above zero

Extra = Callable[[np.ndarray], np.ndarray]  # features [n, rows, channels] to further columns [n, extra]


@dataclass(frozen=True)
class Linear:
    """A linear model of the columns, plus an offset and a slope for each known device."""

    weights: np.ndarray  # [columns]
    bias: float
    effects: Mapping[str, DeviceEffect] = field(default_factory=dict)

    @property
    def solution(self) -> Solution:
        """Weights and bias."""
        return self.weights, self.bias

    @staticmethod
    def mean(models: Sequence["Linear"], shares: Sequence[float]) -> "Linear":
        """Add up models, each times its share; a model has no effect for a device that it does not know."""
        effects: dict[str, DeviceEffect] = {}
        for model, share in zip(models, shares, strict=True):
            for device, (offset, slope) in model.effects.items():
                before = effects.get(device, DeviceEffect(0.0, 0.0))
                effects[device] = DeviceEffect(before.offset + share * offset, before.slope + share * slope)
        weights = np.sum([share * model.weights for model, share in zip(models, shares, strict=True)], axis=0)
        return Linear(weights, sum(share * model.bias for model, share in zip(models, shares, strict=True)), effects)


@dataclass(frozen=True)
class Design:
    """Examples as the columns that linear families are fitted to: the features, then `extra` columns made of them."""

    data: DesignMatrix
    scaling: Scaling  # scaling of the features
    newest_row: int  # of the features
    extra: Extra | None = None

    @cached_property
    def columns(self) -> np.ndarray:
        """The columns of all examples: flat features, then the extra ones, [n, rows·channels + extra]."""
        return np.concatenate([columns for columns, _ in batches(self.data, self.extra)])

    @cached_property
    def moments(self) -> Moments:
        """Sums of products of the columns and targets, from which a ridge regression is solved."""
        return Moments.from_batches(batches(self.data, self.extra), self.size)

    @property
    def size(self) -> int:
        """Number of columns."""
        first_example = self.data.features[:1]
        extra_columns = self.extra(first_example).shape[1] if self.extra else 0
        return int(np.prod(first_example.shape[1:])) + extra_columns

    @property
    def newest_columns(self) -> np.ndarray:
        """Indices of the columns with the newest readings [channels]."""
        rows, channels = self.data.features.shape[1:]
        return np.arange(rows * channels).reshape(rows, channels)[self.newest_row]

    @property
    def first(self) -> np.ndarray:
        """The newest reading of the first channel, scaled [n]."""
        return self.data.features[:, self.newest_row, 0].astype(np.float64)

    def predict(self, model: Linear) -> np.ndarray:
        """Return the outputs of a linear model, device effects included [n]."""
        effects = np.array([model.effects.get(device, NO_EFFECT) for device in self.data.names]).reshape(-1, 2)
        offsets, slopes = effects[self.data.devices].T
        return self.columns @ model.weights + model.bias + offsets + slopes * self.first


FitLinear = Callable[[Design], Linear]


def linear_variants(train: Design, same_unit: bool) -> dict[str, dict[str, FitLinear]]:
    """Return the families that the data allow; each has functions that fit its variants, by the variant's name.

    `same_unit` says that the first channel is in the target's unit, so that its reading may be used as it is.
    """
    linear, with_products = _ridge_columns(train)
    variants: dict[str, dict[str, FitLinear]] = {}
    if same_unit:
        variants[AS_IS] = {
            RAW: lambda design: as_is(design, with_offset=False),
            OFFSET: lambda design: as_is(design, with_offset=True),
        }
    variants[LINEAR] = _ridges(linear)
    if with_products:
        variants[INTERACTIONS] = _ridges(with_products)
    if len(np.unique(train.data.devices)) > 1:  # the offset of a single device is the bias
        variants[DEVICES] = {DEVICES: lambda design: fit_effects(design, steps=1)[0]}
    variants[DRIFT] = {DRIFT: lambda design: fit_effects(design, steps=DRIFT_STEPS)[0]}
    return variants


def _ridge_columns(train: Design) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """List the columns that a ridge regression may read, by a name for the card: first without, then with products.

    The columns are indices. There are none with products if the design has no products.
    """
    newest = train.newest_columns
    window = np.arange(train.data.features[0].size)
    products = np.arange(len(window), train.size)  # of the newest readings; those with the first channel come first
    channels = len(newest)
    linear = {LINE: newest[:1]}
    if channels > 1:
        linear["other channels"] = newest
    if len(window) > channels:
        linear["history"] = window
    chosen_products = {"the first channel": products[:channels]} if len(products) else {}
    if len(products) and channels > 1:
        chosen_products["each other"] = products
    with_products = {
        f"{name} and products with {partner}": np.concatenate([inputs, product_columns])
        for partner, product_columns in chosen_products.items()
        for name, inputs in linear.items()
    }
    return linear, with_products


def _ridges(structures: Mapping[str, np.ndarray]) -> dict[str, FitLinear]:
    """Return functions that fit a ridge regression to these columns, with each penalty, by the variant's name."""

    def ridge(inputs: np.ndarray, penalty: float) -> FitLinear:
        return lambda design: Linear(*design.moments.solve(penalty, inputs))

    ridges = {}
    for name, inputs in structures.items():
        if name in UNPENALISED:
            ridges[name] = ridge(inputs, PENALTIES[0])
        else:
            ridges |= {f"{name}, penalty {penalty:g}": ridge(inputs, penalty) for penalty in PENALTIES}
    return ridges


def as_is(design: Design, with_offset: bool) -> Linear:
    """Return the model "newest reading of channel 0", in its own unit; `with_offset` adds the mean error to it.

    The reading is unscaled, with the scaling of its device, and scaled as the target. The weight uses the fleet's
    scaling; the effect of a device with a scaling of its own is the difference to that.
    """
    scaling = design.scaling
    target_center, target_scale = float(scaling.target.center[0]), float(scaling.target.scale[0])
    fleet_center, fleet_scale = float(scaling.fleet.center[0]), float(scaling.fleet.scale[0])
    effects = {}
    for device, affine in scaling.devices.items():
        offset = (affine.center[0] - fleet_center) / target_scale
        effects[device] = DeviceEffect(offset, (affine.scale[0] - fleet_scale) / target_scale)
    weights = np.zeros(design.size)
    weights[design.newest_columns[0]] = fleet_scale / target_scale
    reading = Linear(weights, (fleet_center - target_center) / target_scale, effects)
    if not with_offset:
        return reading
    offset = float((design.data.targets - design.predict(reading)).mean())
    return Linear(weights, reading.bias + offset, effects)


def fit_effects(design: Design, steps: int) -> tuple[Linear, np.ndarray]:
    """Fit a regression on the newest readings, with device effects and an offset that may change `steps` - 1 times.

    Returns the model and its residuals [n]. Effects and changes are shrunk to zero: each group has a normal prior with
    the variance that maximises the evidence (MacKay 1992). Successive errors are alike, so n rows count as
    n (1 - r) / (1 + r), with r their autocorrelation. The model has the last offset, because it is meant for later
    rows; the residuals use the offset at the time of each row.
    """
    data = design.data
    newest = data.features[:, design.newest_row].astype(np.float64)
    devices = np.unique(data.devices)
    is_device = (data.devices[:, None] == devices).astype(np.float64)  # [n, devices]
    if len(devices) == 1:  # its effect is the bias and the slope of all
        is_device = is_device[:, :0]
    change_times = np.unique(np.quantile(data.times, np.arange(1, steps) / steps)) if steps > 1 else np.empty(0)
    is_later = (data.times[:, None] >= change_times).astype(np.float64)  # [n, changes]
    # Columns of the bias, slopes, devices' offsets, devices' slopes and changes of the offset; a part may be empty.
    parts = [np.ones((len(newest), 1)), newest, is_device, is_device * newest[:, :1], is_later]
    columns = np.concatenate(parts, axis=1)
    borders = np.cumsum([part.shape[1] for part in parts])[:-1]
    indices = np.split(np.arange(columns.shape[1]), borders)  # of the columns of each part
    shrunk = [part for part in indices[2:] if len(part)]  # effects and changes
    targets = data.targets.astype(np.float64)
    by_device_and_time = np.lexsort((data.times, data.devices))
    coefficients = _fit_with_priors(columns, targets, shrunk, by_device_and_time)
    bias, slopes, device_offsets, device_slopes, changes = np.split(coefficients, borders)
    weights = np.zeros(design.size)
    weights[design.newest_columns] = slopes
    pairs = zip(devices, device_offsets, device_slopes, strict=True) if len(devices) > 1 else ()
    effects = {data.names[number]: DeviceEffect(float(offset), float(slope)) for number, offset, slope in pairs}
    return Linear(weights, float(bias[0] + changes.sum()), effects), data.targets - columns @ coefficients


def _fit_with_priors(
    columns: np.ndarray, targets: np.ndarray, groups: Sequence[np.ndarray], order: np.ndarray
) -> np.ndarray:
    """Fit a regression in which each group of columns has a normal prior, whose variance maximises the evidence.

    Returns the coefficients [columns]; the updates are those of automatic relevance determination (MacKay 1992).
    `order` puts the rows of each device one after another, oldest first.
    """
    count = len(targets)
    gram, moment = columns.T @ columns, columns.T @ targets
    variance = np.full(columns.shape[1], FREE_VARIANCE)
    for group in groups:
        variance[group] = START_VARIANCE
    noise, effective_rows = max(START_NOISE * float(targets.var()), TINY), float(count)
    for _ in range(EVIDENCE_ROUNDS):
        precision = effective_rows / count / noise  # of one row, as successive errors are alike
        covariance = np.linalg.inv(precision * gram + np.diag(1 / variance))  # of the coefficients
        coefficients = precision * (covariance @ moment)
        errors = (targets - columns @ coefficients)[order]
        noise = max(float(np.square(errors).mean()), 1e-9)  # floors keep the next inverse finite
        correlation = float(np.clip((errors[1:] * errors[:-1]).mean() / noise, 0.0, 0.999)) if count > 1 else 0.0
        effective_rows = max(count * (1 - correlation) / (1 + correlation), min(count, FEWEST_EFFECTIVE))
        for group in groups:  # the expected square of a coefficient
            squares = np.square(coefficients[group]).sum() + np.trace(covariance[np.ix_(group, group)])
            variance[group] = max(float(squares) / len(group), 1e-8)
    return coefficients


@dataclass(frozen=True)
class RidgeChoice:
    """A ridge regression on some of the columns, whose penalty was chosen on validation."""

    inputs: np.ndarray  # indices of columns
    penalty: float

    def fit(self, data: DesignMatrix) -> Solution:
        """Fit the regression to these examples; returns weights [rows·channels] and bias."""
        return Moments.from_batches(batches(data), data.features[0].size).solve(self.penalty, self.inputs)


def choose_ridge(train: DesignMatrix, validation: DesignMatrix, newest: int) -> RidgeChoice:
    """Choose ridge regression on the newest row or on all rows, and its penalty, by the error on validation.

    `newest` is the index of the newest row among the rows of the features.

    >>> x = np.random.default_rng(0).normal(size=(500, 4, 1))
    >>> targets, times, devices = 2 * x[:, -1, 0] - x[:, 1, 0] + 3, np.arange(500.0), np.zeros(500, int)
    >>> data = DesignMatrix(x, targets, times, devices, ("",))
    >>> weights, bias = choose_ridge(data, data, newest=-1).fit(data)
    >>> np.round(weights, 2), round(bias, 2)
    (array([ 0., -1.,  0.,  2.]), 3.0)
    """
    _, rows, channels = train.features.shape
    window = np.arange(rows * channels)
    structures = [window] if rows == 1 else [window.reshape(rows, channels)[newest], window]
    moments = Moments.from_batches(batches(train), rows * channels)
    choices = [RidgeChoice(inputs, penalty) for inputs in structures for penalty in PENALTIES]
    solutions = [moments.solve(choice.penalty, choice.inputs) for choice in choices]
    return choices[int(np.argmin(squared_errors(batches(validation), solutions)))]


def squared_errors(batches: Iterable[tuple[np.ndarray, np.ndarray]], solutions: list[Solution]) -> np.ndarray:
    """Return the squared error of each solution, summed over the examples [solutions]."""
    weights = np.stack([weight for weight, _ in solutions], axis=1)
    biases = np.array([bias for _, bias in solutions])
    errors = [np.square(columns @ weights + biases - targets[:, None]).sum(axis=0) for columns, targets in batches]
    return np.sum(errors, axis=0)


def batches(data: DesignMatrix, extra: Extra | None = None) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Yield columns and targets [n], at most `BATCH_ROWS` at a time.

    The columns [n, rows·channels + extra] are the flat features, followed by those that `extra` makes of the features.
    """
    for start in range(0, len(data.targets), BATCH_ROWS):
        part = data.features[start : start + BATCH_ROWS]
        flat = part.reshape(len(part), -1)
        columns = flat if extra is None else np.concatenate([flat, extra(part)], axis=1)
        yield columns, data.targets[start : start + BATCH_ROWS]
