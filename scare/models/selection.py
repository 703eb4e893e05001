"""Model selection: fit simple models, trees and the network, score them on validation, and average the best.

    as is          the first channel's newest reading, and that plus an offset
    linear         ridge regression on the newest reading, on all channels, or on the whole window
    interactions   like `linear`, with products of the newest readings
    devices        the newest readings of all channels, with an offset and a slope for each device
    drift          like `devices`, with an offset that changes in steps over the training period; the last one is kept
    trees          gradient-boosted trees on the residuals of `drift` or of a linear family (`training.trees`)
    network        a network that starts at the mean of the linear families

A family has variants (a penalty, a structure, a checkpoint), and validation chooses one of them. The error of the best
variant is too low on the rows that chose it, so the error of a family is cross-fitted: validation is cut into
contiguous blocks, and each block is scored with the variant that is best on the others. The result is the mean of all
families whose error is within a tolerance of the lowest. Linear families, including `as is`, are `Linear`; their mean
is again one linear model of the same columns, so averaging costs nothing on a board. docs/decisions/selection.md tells
what was tried. `training.combination` calls this; which network is a candidate is set in `training.recipe`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from scare.records import Amount, Count
from scare.windowing.scaling import DeviceEffect, Scaling
from scare.windowing.training_examples import DesignMatrix
from scare.words import listed

AS_IS, LINEAR, INTERACTIONS, DEVICES, DRIFT = "as is", "linear", "interactions", "devices", "drift"
LINEAR_FAMILIES = (AS_IS, LINEAR, INTERACTIONS, DEVICES, DRIFT)
TREES, NETWORK = "trees", "network"
RAW, OFFSET, LINE, RIDGE = "raw", "offset", "line", "ridge"  # outcomes, besides trees and network
LABELS = {
    RAW: "the sensor reading as it is",
    OFFSET: "the sensor reading plus an offset",
    LINEAR: "a linear regression",
    INTERACTIONS: "a regression with interactions",
    DEVICES: "a regression with device effects",
    DRIFT: "a regression with drift",
    TREES: "gradient-boosted trees",
    NETWORK: "the network",
}
# A regression with no more coefficients than channels: a penalty chosen on validation would only flatten the line.
UNPENALISED = (LINE, "other channels")
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # ridge penalties to try, per example
DRIFT_STEPS = 8  # parts of the training period, each with an offset of its own
EVIDENCE_ROUNDS = 30
FREE_VARIANCE = 1e6  # prior variance of a coefficient that is not shrunk
FEWEST_EFFECTIVE = 20  # independent rows assumed at least
BATCH_ROWS = 1 << 16  # examples added to the normal equations at once
TINY = 1e-30
EXACT = 1e-5  # standard deviations of the target: a smaller error is rounding

Solution = tuple[np.ndarray, float]  # weights [columns], bias
Extra = Callable[[np.ndarray], np.ndarray]  # features [n, rows, channels] to further columns [n, more]


@dataclass(frozen=True)
class SelectionRules:
    """How families are judged and averaged."""

    tolerance: Amount = 0.15  # families are averaged whose error is at most this share above the lowest
    # If given, ship the smallest combination whose error is at most this share above the lowest.
    smallest_within: Amount | None = field(default=None, metadata={"was": "min_gain"})
    blocks: Count = 4  # contiguous parts of validation; each is scored by a choice made on the others
    trees: bool = True  # whether trees are a family
    refit: bool = True  # whether what was chosen is fitted again to training and validation together


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
        """Add up models, each times its share; a device that a model does not know has no effect in it."""
        effects: dict[str, DeviceEffect] = {}
        for model, share in zip(models, shares, strict=True):
            for device, (offset, slope) in model.effects.items():
                before = effects.get(device, DeviceEffect(0.0, 0.0))
                effects[device] = DeviceEffect(before.offset + share * offset, before.slope + share * slope)
        weights = np.sum([share * model.weights for model, share in zip(models, shares, strict=True)], axis=0)
        return Linear(weights, sum(share * m.bias for m, share in zip(models, shares, strict=True)), effects)


@dataclass(frozen=True)
class Design:
    """Examples as the columns that linear families are fitted to: features, then `extra` columns of them."""

    data: DesignMatrix
    scaling: Scaling  # scaling of the features
    newest: int  # the row of the features that is the newest reading
    extra: Extra | None = None

    @cached_property
    def columns(self) -> np.ndarray:
        """The columns of all examples: flat features, then the extra ones, [n, rows·channels + extra]."""
        return np.concatenate([columns for columns, _ in batches(self.data, self.extra)])

    @cached_property
    def moments(self) -> "Moments":
        """Sums of products of the columns and targets, from which a ridge regression is solved."""
        return Moments.from_batches(batches(self.data, self.extra), self.size)

    @property
    def size(self) -> int:
        """Number of columns."""
        few = self.data.features[:1]
        more = self.extra(few).shape[1] if self.extra else 0
        return int(np.prod(few.shape[1:])) + more

    @property
    def latest(self) -> np.ndarray:
        """Indices of the columns with the newest readings [channels]."""
        rows, channels = self.data.features.shape[1:]
        return np.arange(rows * channels).reshape(rows, channels)[self.newest]

    @property
    def first(self) -> np.ndarray:
        """The newest reading of the first channel, scaled [n]."""
        return self.data.features[:, self.newest, 0].astype(np.float64)

    def predict(self, model: Linear) -> np.ndarray:
        """Outputs of a linear model, device effects included [n]."""
        known = sorted(model.effects)
        table = np.array([*(model.effects[device] for device in known), (0.0, 0.0)])
        index = {device: number for number, device in enumerate(known)}
        rows = np.array([index.get(device, len(known)) for device in self.data.names])[self.data.devices]
        return self.columns @ model.weights + model.bias + table[rows, 0] + table[rows, 1] * self.first


FitLinear = Callable[[Design], Linear]
FitResiduals = Callable[[Design], tuple[Linear, np.ndarray]]  # a linear model, and its residuals [n]


@dataclass(frozen=True)
class Fitted:
    """A family after selection: the variant chosen, and its cross-fitted outputs on validation, scaled [n]."""

    family: str
    variant: str
    outputs: np.ndarray
    fit: FitLinear | None = None  # fits the variant again; None for trees and network
    linear: Linear | None = None  # as fitted to training
    corrected: FitResiduals | None = None  # for trees: fits again the linear model whose residuals they predict

    def rmse(self, targets: np.ndarray) -> float:
        """Cross-fitted error, in standard deviations of the target."""
        return float(np.sqrt(np.square(self.outputs - targets).mean()))


def cross_fit(outputs: np.ndarray, targets: np.ndarray, times: np.ndarray, blocks: int) -> tuple[int, np.ndarray]:
    """Choose the variant with the lowest error, given outputs [variants, n].

    Returns its index and cross-fitted outputs [n]: each contiguous block of rows has the outputs of the variant that is
    best on the other blocks.

    >>> targets = np.array([0.0, 0.0, 1.0, 1.0])
    >>> cross_fit(np.array([[0.0, 0.0, 0.0, 0.0], [0.9, 0.9, 0.9, 0.9]]), targets, np.arange(4.0), blocks=2)
    (1, array([0.9, 0.9, 0. , 0. ]))
    """
    errors = np.square(outputs - targets)

    def best_on(rows: np.ndarray) -> int:
        # Errors below EXACT are ties, so that rounding does not decide: the first variant wins.
        return int(np.argmin(np.maximum(errors[:, rows].mean(axis=1), EXACT**2)))

    best = best_on(np.full(len(targets), True))
    borders = np.quantile(times, np.arange(1, blocks) / blocks)
    block = np.searchsorted(borders, times, side="right")
    cross_fitted = outputs[best].copy()
    for number in range(blocks):
        inside = block == number
        if inside.any() and not inside.all():
            cross_fitted[inside] = outputs[best_on(~inside)][inside]
    return best, cross_fitted


def fit_families(train: Design, validation: Design, same_unit: bool, rules: SelectionRules) -> list[Fitted]:
    """Fit every linear family that the data allow to training, and choose its variant on validation.

    The family `as is` needs a first channel and a target of the same unit (`same_unit`).
    """
    families = []
    for family, variants in linear_variants(train, same_unit).items():
        models = [fit(train) for fit in variants.values()]
        outputs = np.stack([validation.predict(model) for model in models])
        best, cross_fitted = cross_fit(outputs, validation.data.targets, validation.data.times, rules.blocks)
        name = list(variants)[best]
        families.append(Fitted(family, name, cross_fitted, variants[name], models[best]))
    return families


def choose_shares(
    families: Sequence[Fitted], targets: np.ndarray, rules: SelectionRules, without: Collection[str] = ()
) -> list[float]:
    """Give equal shares to all families within the tolerance of the lowest error, and 0 to the rest and to `without`.

    If families are exact, the first one, which is the simplest, gets all: rounding must not decide.

    >>> targets = np.array([0.0, 1.0, 2.0, 3.0])
    >>> linear, network = (Fitted(name, name, targets + error) for name, error in ((LINEAR, 0.10), (NETWORK, 0.11)))
    >>> choose_shares([linear, network], targets, SelectionRules())
    [0.5, 0.5]
    >>> choose_shares([linear, network], targets, SelectionRules(), without=[NETWORK])
    [1.0, 0.0]
    """
    errors = {index: one.rmse(targets) for index, one in enumerate(families) if one.family not in without}
    lowest = min(errors.values())
    used = [index for index, error in errors.items() if error <= (1 + rules.tolerance) * lowest]
    if lowest < EXACT:
        used = [next(index for index, error in errors.items() if error < EXACT)]
    return [(index in used) / len(used) for index in range(len(families))]


def mean_rmse(families: Sequence[Fitted], shares: Sequence[float], targets: np.ndarray) -> float:
    """Cross-fitted error of families with these shares, in standard deviations of the target."""
    outputs = np.sum([share * one.outputs for one, share in zip(families, shares, strict=True)], axis=0)
    return float(np.sqrt(np.square(outputs - targets).mean()))


def linear_variants(train: Design, same_unit: bool) -> dict[str, dict[str, FitLinear]]:
    """Return, for each linear family, the functions that fit its variants, by name."""
    latest, size = train.latest, train.size
    channels, window = len(latest), np.arange(train.data.features[0].size)
    products = np.arange(len(window), size)
    linear = {LINE: latest[:1], "other channels": latest, "history": window}
    if channels == 1:
        del linear["other channels"]
    if len(window) == channels:
        linear = {name: inputs for name, inputs in linear.items() if name != "history"}
    crossed = {
        f"{name} and products with {what}": np.concatenate([inputs, products[:count]])
        for what, count in (("the first channel", channels), ("each other", len(products)))
        for name, inputs in linear.items()
        if len(products) and (channels > 1 or what == "the first channel")
    }

    def ridge(inputs: np.ndarray, penalty: float) -> FitLinear:
        return lambda design: Linear(*design.moments.solve(penalty, inputs))

    def all_ridges(structures: Mapping[str, np.ndarray]) -> dict[str, FitLinear]:
        return {
            name if penalty == PENALTIES[0] and name in UNPENALISED else f"{name}, penalty {penalty:g}": ridge(
                inputs, penalty
            )
            for name, inputs in structures.items()
            for penalty in (PENALTIES[:1] if name in UNPENALISED else PENALTIES)
        }

    variants: dict[str, dict[str, FitLinear]] = {}
    if same_unit:
        variants[AS_IS] = {
            RAW: lambda design: as_is(design, with_offset=False),
            OFFSET: lambda design: as_is(design, with_offset=True),
        }
    variants[LINEAR] = all_ridges(linear)
    if crossed:
        variants[INTERACTIONS] = all_ridges(crossed)
    if len(np.unique(train.data.devices)) > 1:  # the offset of a single device is the bias
        variants[DEVICES] = {DEVICES: lambda design: fit_effects(design, steps=1)[0]}
    variants[DRIFT] = {DRIFT: lambda design: fit_effects(design, steps=DRIFT_STEPS)[0]}
    return variants


def describe_selection(
    families: Sequence[Fitted], shares: Sequence[float], targets: np.ndarray, scale: float, unit: str, is_line: bool
) -> dict[str, Any]:
    """Return facts for the model card: the `outcome`, each family's error and share, and a summary in words.

    `scale` is that of the target: a scaled error of 1 is `scale` in its `unit`.
    """
    errors = [scale * family.rmse(targets) for family in families]
    rows = [
        {
            "candidate": family.family,
            "variant": family.variant,
            "rmse": short(error),
            "admitted": share > 0,
            "share": short(share),
        }
        for family, error, share in zip(families, errors, shares, strict=True)
    ]
    used = [family for family, share in zip(families, shares, strict=True) if share]
    names = {family.family for family in used}
    if names == {AS_IS}:
        outcome = used[0].variant
    else:
        outcome = NETWORK if NETWORK in names else TREES if TREES in names else LINE if is_line else RIDGE
    network = sum(share for family, share in zip(families, shares, strict=True) if family.family == NETWORK)
    others = [
        f"{_label(one)} {error:.3g}" for one, error, share in zip(families, errors, shares, strict=True) if not share
    ]
    error = f"{scale * mean_rmse(families, shares, targets):.3g} {unit}".rstrip()
    summary = f"The result is {name_mean(families, shares)}, with an RMSE of {error} on validation (cross-fitted)"
    summary += f"; the others alone: {listed(others)}." if others else "."
    if len(used) > 1 and outcome in (LINE, RIDGE):
        summary += " Its parts are merged into one linear model."
    return {"outcome": outcome, "selection": rows, "network_share": short(network), "summary": summary}


def name_mean(families: Sequence[Fitted], shares: Sequence[float]) -> str:
    """Name the mean of families with these shares, as part of a sentence."""
    labels = [_label(family) for family, share in zip(families, shares, strict=True) if share]
    return f"{'the mean of ' if len(labels) > 1 else ''}{listed(labels)}"


def _label(family: Fitted) -> str:
    return LABELS[family.variant if family.family == AS_IS else family.family]


def short(number: float) -> float:
    """Round to six significant digits."""
    return float(f"{number:.6g}")


def as_is(design: Design, with_offset: bool) -> Linear:
    """Return the model "newest reading of channel 0", in its own unit; `with_offset` adds the mean error to it."""
    scaling = design.scaling
    center, scale = float(scaling.target.center[0]), float(scaling.target.scale[0])
    fleet = float(scaling.fleet.center[0]), float(scaling.fleet.scale[0])
    effects = {
        device: DeviceEffect((own.center[0] - fleet[0]) / scale, (own.scale[0] - fleet[1]) / scale)
        for device, own in scaling.devices.items()
    }
    weights = np.zeros(design.size)
    weights[design.latest[0]] = fleet[1] / scale
    reading = Linear(weights, (fleet[0] - center) / scale, effects)
    if not with_offset:
        return reading
    return Linear(weights, reading.bias + float((design.data.targets - design.predict(reading)).mean()), effects)


def fit_effects(design: Design, steps: int) -> tuple[Linear, np.ndarray]:
    """Fit the newest readings with device effects and an offset that may change `steps` - 1 times.

    Effects and changes are shrunk to zero: each group has a normal prior, whose variance maximises the evidence (MacKay
    1992). Successive errors are alike, so n rows count as n (1 - r) / (1 + r), with r their autocorrelation. The model
    has the last offset, because it is meant for later rows; the residuals [n] use the offset at the time of each row.
    """
    data, latest = design.data, design.latest
    newest = data.features[:, design.newest].astype(np.float64)
    known = np.unique(data.devices)
    # Columns [n, …]: 1, the newest readings, 1 and the first reading for each device, 1 after each change.
    own = (data.devices[:, None] == known).astype(np.float64) if len(known) > 1 else np.empty((len(newest), 0))
    change_times = np.unique(np.quantile(data.times, np.arange(1, steps) / steps)) if steps > 1 else np.empty(0)
    changes = (data.times[:, None] >= change_times).astype(np.float64)
    parts = [np.ones((len(newest), 1)), newest, own, own * newest[:, :1], changes]
    borders = np.cumsum([0, *(part.shape[1] for part in parts)])
    columns = np.concatenate(parts, axis=1)
    groups = [np.arange(start, stop) for start, stop in pairwise(borders[2:]) if stop > start]  # shrunk to zero
    found = _most_evidence(columns, data.targets.astype(np.float64), groups, np.lexsort((data.times, data.devices)))
    bias, slopes, offsets, own_slopes, later = (found[a:b] for a, b in pairwise(borders))
    weights = np.zeros(design.size)
    weights[latest] = slopes
    pairs = zip(known, offsets, own_slopes, strict=True) if len(known) > 1 else ()
    effects = {data.names[number]: DeviceEffect(float(a), float(b)) for number, a, b in pairs}
    return Linear(weights, float(bias[0] + later.sum()), effects), data.targets - columns @ found


def _most_evidence(
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
        variance[group] = 0.1
    noise, effective = max(0.3 * float(targets.var()), TINY), float(count)
    for _ in range(EVIDENCE_ROUNDS):
        precision = effective / count / noise
        covariance = np.linalg.inv(precision * gram + np.diag(1 / variance))
        found = precision * (covariance @ moment)
        errors = (targets - columns @ found)[order]
        noise = max(float(np.square(errors).mean()), 1e-9)
        correlation = float(np.clip((errors[1:] * errors[:-1]).mean() / noise, 0.0, 0.999)) if count > 1 else 0.0
        effective = max(count * (1 - correlation) / (1 + correlation), min(count, FEWEST_EFFECTIVE))
        for group in groups:
            spread = np.square(found[group]).sum() + np.trace(covariance[np.ix_(group, group)])
            variance[group] = max(float(spread) / len(group), 1e-8)
    return found


@dataclass(frozen=True)
class Moments:
    """Means and covariances of columns and target: all that ridge regression on any of the columns needs."""

    mean: np.ndarray  # [columns]
    target_mean: float
    covariance: np.ndarray  # [columns, columns]
    with_target: np.ndarray  # [columns]

    @staticmethod
    def from_batches(batches: Iterable[tuple[np.ndarray, np.ndarray]], size: int) -> "Moments":
        """Accumulate batches of columns [n, size] and targets [n]."""
        count, target_total = 0, 0.0
        gram, moment, total = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for columns, targets in batches:
            wide = columns.astype(np.float64)
            gram += wide.T @ wide
            moment += wide.T @ targets
            total += wide.sum(axis=0)
            count, target_total = count + len(targets), target_total + float(targets.sum(dtype=np.float64))
        mean, target_mean = total / count, target_total / count
        return Moments(mean, target_mean, gram / count - np.outer(mean, mean), moment / count - mean * target_mean)

    def solve(self, penalty: float, inputs: np.ndarray | None = None) -> Solution:
        """Solve ridge regression on the columns `inputs` (None: all); other weights are 0, the bias is unpenalised."""
        chosen = np.arange(len(self.mean)) if inputs is None else inputs
        weights = np.zeros(len(self.mean))
        square = self.covariance[np.ix_(chosen, chosen)] + penalty * np.eye(len(chosen))
        weights[chosen] = np.linalg.solve(square, self.with_target[chosen])
        return weights, self.target_mean - float(self.mean @ weights)


@dataclass(frozen=True)
class RidgeChoice:
    """A ridge regression on some of the columns, whose penalty was chosen on validation."""

    inputs: np.ndarray  # indices of columns
    penalty: float

    def fit(self, data: DesignMatrix) -> Solution:
        """Fit to features: weights [rows·channels] and bias."""
        return Moments.from_batches(batches(data), data.features[0].size).solve(self.penalty, self.inputs)


def choose_ridge(train: DesignMatrix, validation: DesignMatrix, newest: int) -> RidgeChoice:
    """Choose ridge regression on the newest row or on all rows, and its penalty, by the error on validation.

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
    """Squared error of each solution, summed over the examples [solutions]."""
    weights, biases = np.stack([weight for weight, _ in solutions], axis=1), np.array([bias for _, bias in solutions])
    errors = [np.square(columns @ weights + biases - targets[:, None]).sum(axis=0) for columns, targets in batches]
    return np.sum(errors, axis=0)


def batches(data: DesignMatrix, extra: Extra | None = None) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Yield columns [n, rows·channels + more] and targets [n], at most `BATCH_ROWS` at a time."""
    for start in range(0, len(data.targets), BATCH_ROWS):
        part = data.features[start : start + BATCH_ROWS]
        flat = part.reshape(len(part), -1)
        columns = flat if extra is None else np.concatenate([flat, extra(part)], axis=1)
        yield columns, data.targets[start : start + BATCH_ROWS]
