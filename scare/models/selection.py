"""Model selection: from a line to a network, each more complex model taken only if validation shows that it pays.

    line             the newest reading of the first channel
    other channels   the newest readings of all channels
    history          the whole window
    products with the first channel, added to each of these
    all products, added to each of these

Each candidate is a ridge regression at its best penalty; the first two are ordinary least squares. A candidate is
admitted if it lowers the validation error clearly, or a little but significantly (z-score over blocks of time). The
admitted models are combined by non-negative least squares (stacking, weights that sum to 1) into one linear model of
the same columns, so a mix costs nothing on a board. It is the network's start. `BlendWeight` says how much of the
result is then the network's, `describe_outcome` what is shipped: the raw reading, an offset, a line, a ridge
regression or a network.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import nnls

from scare.calibrator.linear import line_weights
from scare.calibrator.plan import Plan
from scare.errors import UsageError
from scare.records import Count
from scare.windowing.training_examples import DesignMatrix

CANDIDATES = ("line", "other channels", "history", "products with the first channel", "all products")
# Two candidates have no more coefficients than channels: a penalty chosen on validation would only flatten the line.
UNPENALISED = CANDIDATES[:2]
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of ridge regression, per example
SUM_WEIGHT = 1e3  # penalty weight of the constraint sum(shares) = 1
BATCH_ROWS = 1 << 16  # examples added to the normal equations at once
TINY = 1e-30
RAW, OFFSET, LINE, RIDGE, NETWORK = "raw", "offset", "line", "ridge", "network"
SUMMARIES = {
    RAW: "No correction is better than the sensor's own value on validation: exported as it is.",
    OFFSET: "The sensor's own value plus an offset is as good as any other correction: exported as an offset.",
    LINE: "A linear regression is as good as anything more complex here: exported as a line.",
    RIDGE: "The network is not clearly better than a ridge regression: exported as a ridge regression.",
}

Solution = tuple[np.ndarray, float]  # weights [columns], bias
Extra = Callable[[np.ndarray], np.ndarray]  # features [n, rows, channels] to further columns [n, more]


@dataclass(frozen=True)
class SelectionRules:
    """What a more complex model must gain: improvements of the validation error, as shares of it."""

    clear_improvement: float = field(default=0.08, metadata={"was": "clear_fall"})  # admits a candidate
    # admits a candidate if it is significant
    significant_improvement: float = field(default=0.03, metadata={"was": "sure_fall"})
    # standard errors from zero, over the blocks, that count as significant
    z_score: float = field(default=1.64, metadata={"was": "sureness"})
    blocks: Count = 12
    network_from: float = 0.03  # a network that lowers the error by less has no share in the result
    network_full: float = 0.08  # one that lowers it by so much has all of it
    # a smaller share counts as none: a board would run a network for little
    min_share: float = field(default=0.3, metadata={"was": "least_share"})
    # the raw reading is preferred up to this much more error
    raw_margin: float = field(default=0.0, metadata={"was": "plain_margin"})

    def __post_init__(self) -> None:
        if not self.network_full > self.network_from:
            raise UsageError(f"network_full must be above network_from, {self.network_from:g}")

    def share(self, blend: float, improvement: float) -> float:
        """The network's share in the result, if its best blend lowers the error of its start by `improvement`.

        >>> rules = SelectionRules()
        >>> rules.share(0.8, improvement=0.055), rules.share(0.5, improvement=0.055), rules.share(1.0, improvement=0.2)
        (0.4, 0.0, 1.0)
        """
        ramp = (improvement - self.network_from) / (self.network_full - self.network_from)
        share = blend * min(max(ramp, 0.0), 1.0)
        return share if share >= self.min_share else 0.0


@dataclass(frozen=True)
class Candidate:
    """A model that was tried: its validation error, and how much lower that is than of the mix before it."""

    name: str
    rmse: float
    improvement: float
    z_score: float
    admitted: bool


@dataclass(frozen=True)
class Selection:
    """What was tried, and the mix of what was admitted; errors in standard deviations of the target."""

    candidates: tuple[Candidate, ...]
    solution: Solution
    rmse: float


def select(
    train: DesignMatrix, validation: DesignMatrix, newest: int, extra: Extra | None, rules: SelectionRules
) -> Selection:
    """Select linear models on columns of the features [n, rows, channels] and, if given, `extra` columns.

    >>> x = np.random.default_rng(0).normal(size=(600, 4, 2))
    >>> data = DesignMatrix(x, 2 * x[:, -1, 0] - x[:, -1, 1] + 3, np.arange(600.0))
    >>> selection = select(data, data, -1, None, SelectionRules())
    >>> [(candidate.name, candidate.admitted) for candidate in selection.candidates]
    [('line', True), ('other channels', True), ('history', False)]
    >>> np.round(selection.solution[0], 2), round(selection.solution[1], 2)
    (array([ 0.,  0.,  0.,  0.,  0.,  0.,  2., -1.]), 3.0)
    """
    columns, targets = (np.concatenate(part) for part in zip(*_batches(validation, extra), strict=True))
    moments = Moments.from_batches(_batches(train, extra), columns.shape[1])
    borders = np.quantile(validation.times, np.arange(1, rules.blocks) / rules.blocks)
    blocks = np.searchsorted(borders, validation.times, side="right")  # of each row, as many rows in each

    def squares(solution: Solution) -> np.ndarray:
        return np.square(columns @ solution[0] + solution[1] - targets)

    def rmse(solution: Solution) -> float:
        return float(np.sqrt(squares(solution).mean()))

    candidates: list[Candidate] = []
    admitted: list[Solution] = []
    mixed: Solution = np.zeros(columns.shape[1]), moments.target_mean
    for name, structures in _structures(train.features.shape[1:], newest, columns.shape[1]).items():
        penalties = PENALTIES[:1] if name in UNPENALISED else PENALTIES
        solutions = [min((moments.solve(one, inputs) for one in penalties), key=rmse) for inputs in structures]
        best = min(solutions, key=rmse)
        improvement, z_score = _improvement(squares(mixed), squares(best), blocks)
        significant = improvement >= rules.significant_improvement and z_score >= rules.z_score
        is_admitted = not admitted or improvement >= rules.clear_improvement or significant
        candidates.append(Candidate(name, rmse(best), improvement, z_score, is_admitted))
        if is_admitted:
            admitted += solutions
            mixed = mix(admitted, columns, targets)
    return Selection(tuple(candidates), mixed, rmse(mixed))


def mix(solutions: Sequence[Solution], columns: np.ndarray, targets: np.ndarray) -> Solution:
    """Stack solutions: their mean by non-negative shares that sum to 1, with the least error on `columns` [n, size]."""
    outputs = np.stack([columns @ weights + bias for weights, bias in solutions], axis=1)
    small = np.linalg.qr(np.column_stack([outputs, targets])).R  # the same problem in as many rows as columns
    one = SUM_WEIGHT * float(np.linalg.norm(small))
    system = np.vstack([small[:, :-1], np.full(len(solutions), one)])
    shares, _ = nnls(system, np.append(small[:, -1], one))
    shares /= shares.sum()
    weights = np.sum([share * weights for share, (weights, _) in zip(shares, solutions, strict=True)], axis=0)
    return weights, float(sum(share * bias for share, (_, bias) in zip(shares, solutions, strict=True)))


def _structures(shape: tuple[int, ...], newest: int, columns: int) -> dict[str, list[np.ndarray]]:
    """The columns that each candidate's models read; models that read no more than an earlier one are left out."""
    rows, channels = shape
    window = np.arange(rows * channels)
    latest = window.reshape(rows, channels)[newest]
    products = np.arange(rows * channels, columns)
    linear = [latest[:1], latest, window]
    with_first = [np.concatenate([inputs, products[:channels]]) for inputs in linear]
    with_all = [np.concatenate([inputs, products]) for inputs in linear[1:]]
    new: dict[str, list[np.ndarray]] = {}
    for name, structures in zip(CANDIDATES, [*([inputs] for inputs in linear), with_first, with_all], strict=True):
        known = [inputs for earlier in new.values() for inputs in earlier]
        new[name] = [inputs for inputs in structures if not any(np.array_equal(inputs, other) for other in known)]
    return {name: structures for name, structures in new.items() if structures}


def _improvement(before: np.ndarray, after: np.ndarray, blocks: np.ndarray) -> tuple[float, float]:
    """By which share the RMSE falls, given squared errors [n], and its z-score over the blocks."""
    counts = np.bincount(blocks)
    gains = (np.bincount(blocks, before - after) / np.maximum(counts, 1))[counts > 0]
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return 1.0 - float(np.sqrt(after.mean() / before.mean())), float(gains.mean() / max(error, TINY))


@dataclass(frozen=True)
class RawBaseline:
    """The raw reading, and the raw reading plus an offset: validation RMSEs in the target's unit."""

    offset: float
    errors: Mapping[str, float]

    @staticmethod
    def fit(train: np.ndarray, validation: np.ndarray) -> "RawBaseline":
        """From reference minus reading of each training and validation row; the offset is the mean in training."""
        offset = float(train.mean())
        return RawBaseline(offset, {RAW: _rms(validation), OFFSET: _rms(validation - offset)})


@dataclass(frozen=True)
class BlendWeight:
    """Blend weight of the ensemble against its linear start, with validation RMSEs (scaled).

    `improvement` is by how much the best share would lower the error of the start, to `best_rmse`. The share is cut if
    that is little: a few days of co-location are few independent examples, however many minutes they have.
    """

    share: float
    improvement: float
    best_rmse: float
    rmse: float  # of the result

    @staticmethod
    def fit(outputs: np.ndarray, start: np.ndarray | None, targets: np.ndarray, rules: SelectionRules) -> "BlendWeight":
        """Weigh the members' mean outputs against their start's, all [n]; without a start the share is 1."""
        if start is None:
            rmse = _rms(outputs - targets)
            return BlendWeight(1.0, 0.0, rmse, rmse)
        missing, learned = targets - start, outputs - start
        best_share = float(np.clip(learned @ missing / max(learned @ learned, TINY), 0.0, 1.0))
        best_rmse = _rms(missing - best_share * learned)
        improvement = 1 - best_rmse / max(_rms(missing), TINY)
        share = rules.share(best_share, improvement)
        return BlendWeight(share, improvement, best_rmse, _rms(missing - share * learned))


def describe_outcome(
    selection: Selection, weight: BlendWeight, plan: Plan, raw: RawBaseline | None, unit: float, rules: SelectionRules
) -> dict[str, Any]:
    """Facts: what is to be shipped (`outcome`), every candidate, the network's share, and a one-sentence summary.

    `unit` is the scale of the target: how much of its unit a scaled error of 1 is.
    """
    errors = raw.errors if raw else {}
    outcome = min(errors, key=errors.__getitem__, default=RAW)  # the first of equals
    if not errors or errors[outcome] > (1 + rules.raw_margin) * weight.rmse * unit:
        outcome = NETWORK if weight.share else RIDGE if line_weights(plan) is None else LINE
    share = weight.share if outcome == NETWORK else 0.0
    # the raw reading is compared last: whether it is no worse than what came out
    candidates: list[dict[str, Any]] = [
        {"candidate": name, "rmse": _short(error), "admitted": name == outcome} for name, error in errors.items()
    ]
    for one in selection.candidates:
        measured = {"rmse": one.rmse * unit, "improvement": one.improvement, "z_score": one.z_score}
        numbers = {name: _short(number) for name, number in measured.items()}
        candidates.append({"candidate": one.name, **numbers, "admitted": one.admitted})
    gained = {"rmse": _short(weight.best_rmse * unit), "improvement": _short(weight.improvement)}
    candidates.append({"candidate": NETWORK, **gained, "admitted": share > 0})
    summary = SUMMARIES[outcome] if outcome != NETWORK else _summarise_network(share, weight.improvement)
    return {"outcome": outcome, "selection": candidates, "network_share": _short(share), "summary": summary}


def _summarise_network(share: float, improvement: float) -> str:
    percent = round(100 * share)
    parts = f"{percent} % network" + (f", {100 - percent} % linear" if percent < 100 else "")
    return f"The network lowers the error of the best linear model by {100 * improvement:.0f} %; the result is {parts}."


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _short(number: float) -> float:
    """Six significant digits."""
    return float(f"{number:.6g}")


@dataclass(frozen=True)
class Moments:
    """Means and covariances of columns and target: all that ridge regression on any of the columns needs."""

    mean: np.ndarray  # [columns]
    target_mean: float
    covariance: np.ndarray  # [columns, columns]
    with_target: np.ndarray  # [columns]

    @staticmethod
    def from_batches(batches: Iterable[tuple[np.ndarray, np.ndarray]], size: int) -> "Moments":
        """From batches of columns [n, size] and targets [n]."""
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
        """Ridge regression in closed form: weights, zero outside the columns `inputs` (None: all), unpenalised bias."""
        chosen = np.arange(len(self.mean)) if inputs is None else inputs
        weights = np.zeros(len(self.mean))
        square = self.covariance[np.ix_(chosen, chosen)] + penalty * np.eye(len(chosen))
        weights[chosen] = np.linalg.solve(square, self.with_target[chosen])
        return weights, self.target_mean - float(self.mean @ weights)


def fit_ridge(train: DesignMatrix, validation: DesignMatrix, newest: int) -> Solution:
    """Fit ridge regression on the newest row or on all rows, with the penalty that is best on validation.

    Weights [rows·channels] and bias.

    >>> x = np.random.default_rng(0).normal(size=(500, 4, 1))
    >>> data = DesignMatrix(x, 2 * x[:, -1, 0] - x[:, 1, 0] + 3, np.arange(500.0))
    >>> weights, bias = fit_ridge(data, data, newest=-1)
    >>> np.round(weights, 2), round(bias, 2)
    (array([ 0., -1.,  0.,  2.]), 3.0)
    """
    _, rows, channels = train.features.shape
    window = np.arange(rows * channels)
    choices = [window] if rows == 1 else [window.reshape(rows, channels)[newest], window]
    moments = Moments.from_batches(_batches(train), rows * channels)
    solutions = [moments.solve(penalty, inputs) for inputs in choices for penalty in PENALTIES]
    return solutions[int(np.argmin(squared_errors(_batches(validation), solutions)))]


def squared_errors(batches: Iterable[tuple[np.ndarray, np.ndarray]], solutions: list[Solution]) -> np.ndarray:
    """Squared error of each solution, summed over the examples [solutions]."""
    weights, biases = np.stack([weight for weight, _ in solutions], axis=1), np.array([bias for _, bias in solutions])
    errors = [np.square(columns @ weights + biases - targets[:, None]).sum(axis=0) for columns, targets in batches]
    return np.sum(errors, axis=0)


def _batches(data: DesignMatrix, extra: Extra | None = None) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Columns [n, rows·channels + more] and targets [n], at most `BATCH_ROWS` at a time."""
    for start in range(0, len(data.targets), BATCH_ROWS):
        part = data.features[start : start + BATCH_ROWS]
        flat = part.reshape(len(part), -1)
        columns = flat if extra is None else np.concatenate([flat, extra(part)], axis=1)
        yield columns, data.targets[start : start + BATCH_ROWS]
