"""The ladder: from a line to products of readings, each rung taken only if validation says that it pays.

    line             the newest reading of the first channel
    other channels   the newest readings of all channels
    history          the whole window
    products with the first channel, added to each of these
    all products, added to each of these

A structure is a ridge at its best penalty; the first two, of newest readings alone, are ordinary lines. A rung is
admitted if it makes the error on validation clearly smaller, or a little and surely so, over blocks of time. What comes
out is the mix of all admitted structures (shares from 0 on that sum to 1) with the least error on validation: a line in
the same columns, so a mix costs nothing on a board.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from scare.calibrator.linear import line_weights
from scare.calibrator.plan import Plan
from scare.errors import UsageError
from scare.records import Count
from scare.windowing.examples import DesignMatrix

# Ridge regression in closed form, its penalty and its inputs chosen on validation.


PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # per example
ROWS = 1 << 16  # examples added to the normal equations at once

Columns = tuple[np.ndarray, np.ndarray]  # columns [n, size], targets [n]
Solution = tuple[np.ndarray, float]  # weights [columns], bias
Extra = Callable[[np.ndarray], np.ndarray]  # features [n, rows, channels] to further columns [n, more]


@dataclass(frozen=True)
class Moments:
    """Means and covariances of columns and target: all that ridge on any of the columns needs."""

    mean: np.ndarray  # [columns]
    target_mean: float
    covariance: np.ndarray  # [columns, columns]
    with_target: np.ndarray  # [columns]

    @staticmethod
    def of(parts: Iterable[Columns], size: int) -> "Moments":
        """From columns [n, size] and targets [n] that come in parts."""
        count, target_total = 0, 0.0
        gram, moment, total = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for columns, targets in parts:
            wide = columns.astype(np.float64)
            gram += wide.T @ wide
            moment += wide.T @ targets
            total += wide.sum(axis=0)
            count, target_total = count + len(targets), target_total + float(targets.sum(dtype=np.float64))
        mean, target_mean = total / count, target_total / count
        return Moments(mean, target_mean, gram / count - np.outer(mean, mean), moment / count - mean * target_mean)

    def solve(self, penalty: float, inputs: np.ndarray | None = None) -> Solution:
        """Weights, zero outside the columns `inputs` (None: all), and the bias, which is not penalised."""
        chosen = np.arange(len(self.mean)) if inputs is None else inputs
        weights = np.zeros(len(self.mean))
        square = self.covariance[np.ix_(chosen, chosen)] + penalty * np.eye(len(chosen))
        weights[chosen] = np.linalg.solve(square, self.with_target[chosen])
        return weights, self.target_mean - float(self.mean @ weights)


def fit_ridge(train: DesignMatrix, validation: DesignMatrix, newest: int) -> Solution:
    """Weights [rows·channels] and bias of the best ridge on validation: on the newest row or all, by each penalty.

    >>> x = np.random.default_rng(0).normal(size=(500, 4, 1))
    >>> known = DesignMatrix(x, 2 * x[:, -1, 0] - x[:, 1, 0] + 3, np.arange(500.0))
    >>> weights, bias = fit_ridge(known, known, newest=-1)
    >>> np.round(weights, 2), round(bias, 2)
    (array([ 0., -1.,  0.,  2.]), 3.0)
    """
    _, rows, channels = train.features.shape
    everything = np.arange(rows * channels)
    latest = everything.reshape(rows, channels)[newest]
    reads = [everything] if rows == 1 else [latest, everything]
    moments = Moments.of(parts_of(train), rows * channels)
    solutions = [moments.solve(penalty, read) for read in reads for penalty in PENALTIES]
    return solutions[int(np.argmin(squared_errors(parts_of(validation), solutions)))]


def squared_errors(parts: Iterable[Columns], solutions: list[Solution]) -> np.ndarray:
    """The squared error of each solution, summed over the examples."""
    weights, biases = np.stack([weight for weight, _ in solutions], axis=1), np.array([bias for _, bias in solutions])
    return np.sum([np.square(wide @ weights + biases - known[:, None]).sum(axis=0) for wide, known in parts], axis=0)


def parts_of(known: DesignMatrix, extra: Extra | None = None) -> Iterable[Columns]:
    """Columns [n, rows·channels + more] and targets [n], few enough at a time."""
    for start in range(0, len(known.targets), ROWS):
        part = known.features[start : start + ROWS]
        flat = part.reshape(len(part), -1)
        wide = flat if extra is None else np.concatenate([flat, extra(part)], axis=1)
        yield wide, known.targets[start : start + ROWS]


NAMES = ("line", "other channels", "history", "products with the first channel", "all products")
PLAIN = NAMES[:2]  # no more coefficients than channels: a penalty chosen on validation would only flatten the line
HEAVY = 1e3  # how much more than any error it weighs that shares sum to 1


@dataclass(frozen=True)
class SelectionRules:
    """What complexity must earn: falls of the error on validation, as shares of it."""

    clear_fall: float = 0.08  # admits a rung
    sure_fall: float = 0.03  # admits a rung if it is sure
    sureness: float = 1.64  # standard errors from zero, over the blocks, that count as sure
    blocks: Count = 12
    network_from: float = 0.03  # a network that lowers the error by less has no share in the result
    network_full: float = 0.08  # one that lowers it by so much has all of it
    least_share: float = 0.3  # a smaller share is none: a board would run a network for little
    plain_margin: float = 0.0  # how much larger the error of the plain reading may be, and it is still preferred

    def __post_init__(self) -> None:
        if not self.network_full > self.network_from:
            raise UsageError(f"network_full must be above network_from, {self.network_from:g}")

    def share(self, blend: float, fall: float) -> float:
        """The network's share in the result, where its best blend has lowered the error of its start by `fall`.

        >>> rules = SelectionRules()
        >>> rules.share(0.8, fall=0.055), rules.share(0.5, fall=0.055), rules.share(1.0, fall=0.2)
        (0.4, 0.0, 1.0)
        """
        earned = (fall - self.network_from) / (self.network_full - self.network_from)
        share = blend * min(max(earned, 0.0), 1.0)
        return share if share >= self.least_share else 0.0


@dataclass(frozen=True)
class Candidate:
    """A step of the ladder: its error on validation, how much smaller it is than what stood before, and how surely."""

    name: str
    rmse: float
    fall: float
    sureness: float
    admitted: bool


@dataclass(frozen=True)
class Selection:
    """What was tried, and the mix of what was admitted; errors in standard deviations of the target."""

    rungs: tuple[Candidate, ...]
    solution: Solution
    rmse: float


def select(
    train: DesignMatrix, validation: DesignMatrix, newest: int, extra: Extra | None, rules: SelectionRules
) -> Selection:
    """The ladder on columns of the features [n, rows, channels] and, if there are any, `extra` ones.

    >>> x = np.random.default_rng(0).normal(size=(600, 4, 2))
    >>> known = DesignMatrix(x, 2 * x[:, -1, 0] - x[:, -1, 1] + 3, np.arange(600.0))
    >>> found = select(known, known, -1, None, SelectionRules())
    >>> [(rung.name, rung.admitted) for rung in found.rungs]
    [('line', True), ('other channels', True), ('history', False)]
    >>> np.round(found.solution[0], 2), round(found.solution[1], 2)
    (array([ 0.,  0.,  0.,  0.,  0.,  0.,  2., -1.]), 3.0)
    """
    wide, targets = (np.concatenate(part) for part in zip(*parts_of(validation, extra), strict=True))
    moments = Moments.of(parts_of(train, extra), wide.shape[1])
    blocks, rungs = _blocks(validation.times, rules.blocks), []
    chosen: list[Solution] = []
    mixed: Solution = np.zeros(wide.shape[1]), moments.target_mean
    for name, structures in _structures(train.features.shape[1:], newest, wide.shape[1]).items():
        penalties = PENALTIES[:1] if name in PLAIN else PENALTIES
        found = [_best(moments, columns, penalties, wide, targets) for columns in structures]
        best = min(found, key=lambda one: _error(one, wide, targets))
        fall, sureness = _improvement(_squares(mixed, wide, targets), _squares(best, wide, targets), blocks)
        admitted = not chosen or fall >= rules.clear_fall or (fall >= rules.sure_fall and sureness >= rules.sureness)
        rungs.append(Candidate(name, _error(best, wide, targets), fall, sureness, admitted))
        if admitted:
            chosen += found
            mixed = mix(chosen, wide, targets)
    return Selection(tuple(rungs), mixed, _error(mixed, wide, targets))


def mix(solutions: Sequence[Solution], wide: np.ndarray, targets: np.ndarray) -> Solution:
    """The mean of solutions, weighted by shares from 0 on that sum to 1, with the least error on columns `wide`."""
    outputs = np.stack([wide @ weights + bias for weights, bias in solutions], axis=1)
    small = np.linalg.qr(np.column_stack([outputs, targets])).R  # the same problem in as many rows as columns
    whole = HEAVY * float(np.linalg.norm(small))
    system = np.vstack([small[:, :-1], np.full(len(solutions), whole)])
    shares, _ = nnls(system, np.append(small[:, -1], whole))
    shares /= shares.sum()
    weights = np.sum([share * one for share, (one, _) in zip(shares, solutions, strict=True)], axis=0)
    return weights, float(sum(share * bias for share, (_, bias) in zip(shares, solutions, strict=True)))


def _structures(shape: tuple[int, ...], newest: int, columns: int) -> dict[str, list[np.ndarray]]:
    """The columns of each structure by rung; what reads no more than a structure before is left out."""
    rows, channels = shape
    everything = np.arange(rows * channels)
    latest = everything.reshape(rows, channels)[newest]
    products = np.arange(rows * channels, columns)
    plain = [latest[:1], latest, everything]
    with_first = [np.concatenate([read, products[:channels]]) for read in plain]
    with_all = [np.concatenate([read, products]) for read in plain[1:]]
    rungs: list[list[np.ndarray]] = [*([one] for one in plain), with_first, with_all]
    fresh: dict[str, list[np.ndarray]] = {}
    for name, structures in zip(NAMES, rungs, strict=True):
        known = [one for found in fresh.values() for one in found]
        fresh[name] = [one for one in structures if not any(np.array_equal(one, other) for other in known)]
    return {name: found for name, found in fresh.items() if found}


def _best(
    moments: Moments, columns: np.ndarray, penalties: Sequence[float], wide: np.ndarray, targets: np.ndarray
) -> Solution:
    """The ridge on these columns with the penalty that does best on validation."""
    solutions = [moments.solve(penalty, columns) for penalty in penalties]
    return min(solutions, key=lambda one: _error(one, wide, targets))


def _squares(solution: Solution, wide: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.square(wide @ solution[0] + solution[1] - targets)


def _error(solution: Solution, wide: np.ndarray, targets: np.ndarray) -> float:
    return float(np.sqrt(_squares(solution, wide, targets).mean()))


def _improvement(before: np.ndarray, after: np.ndarray, blocks: np.ndarray) -> tuple[float, float]:
    """By which share the root mean square falls, and how many standard errors over the blocks that is from zero."""
    counts = np.bincount(blocks)
    falls = (np.bincount(blocks, before - after) / np.maximum(counts, 1))[counts > 0]
    error = falls.std(ddof=1) / np.sqrt(len(falls)) if len(falls) > 1 else np.inf
    return 1.0 - float(np.sqrt(after.mean() / before.mean())), float(falls.mean() / max(error, 1e-30))


def _blocks(times: np.ndarray, count: int) -> np.ndarray:
    """The block of each row: as many rows in each, in order of time."""
    return np.searchsorted(np.quantile(times, np.arange(1, count) / count), times, side="right")


# The verdict: what a calibrator turned out to be, and why, in numbers and in an operator's words.
#
# Nothing more complicated is shipped than validation has asked for: the reading as it is, with an offset, a line, ridge
# (on the whole window, or with products of readings), or a network with the share that it has earned.


TINY = 1e-30
RAW, OFFSET, LINE, RIDGE, NETWORK = "raw", "offset", "line", "ridge", "network"
SENTENCES = {
    RAW: "the sensor's own value is as good as any correction that validation can prove: exported as it is",
    OFFSET: "the sensor's own value plus an offset is as good as any other correction: exported as that",
    LINE: "a straight line is as good as anything else here: exported as a line",
    RIDGE: "the network is not clearly better than ridge: exported as ridge",
    NETWORK: "the network lowers the error of the best line or ridge by {fall:.0%}; it has {share:.0%} of the say",
}


@dataclass(frozen=True)
class RawBaseline:
    """The reading as it is and with an offset, in the target's unit: errors on validation."""

    offset: float
    errors: Mapping[str, float]

    @staticmethod
    def of(train: np.ndarray, validation: np.ndarray) -> "RawBaseline":
        """From reference minus reading of each training and validation row; the offset is the mean in training."""
        offset = float(train.mean())
        return RawBaseline(offset, {RAW: _root(validation), OFFSET: _root(validation - offset)})


@dataclass(frozen=True)
class BlendWeight:
    """What the members' mean has earned: its share in the result, and errors on validation, scaled.

    `fall` is by how much the best share would lower the error of the start, to `best`; a share is cut if that is
    little: a few days beside a reference are few examples, however many minutes they have.
    """

    share: float
    fall: float
    best: float
    rmse: float  # of the result

    @staticmethod
    def of(outputs: np.ndarray, start: np.ndarray | None, targets: np.ndarray, rules: SelectionRules) -> "BlendWeight":
        """By what the members give in the mean, and their start; without a start to fall back on, all of it."""
        if start is None:
            rmse = _root(outputs - targets)
            return BlendWeight(1.0, 0.0, rmse, rmse)
        missing, learned = targets - start, outputs - start
        wanted = float(np.clip(learned @ missing / max(learned @ learned, TINY), 0.0, 1.0))
        best = _root(missing - wanted * learned)
        fall = 1 - best / max(_root(missing), TINY)
        share = rules.share(wanted, fall)
        return BlendWeight(share, fall, best, _root(missing - share * learned))


def describe_outcome(
    ladder: Selection, earned: BlendWeight, plan: Plan, plain: RawBaseline | None, unit: float, rules: SelectionRules
) -> dict[str, Any]:
    """What is to be shipped (`outcome`), every rung that was tried, the network's share, and a sentence.

    `unit` is how much of the target's unit 1 is on the ladder.
    """
    errors = plain.errors if plain else {}
    outcome = min(errors, key=errors.__getitem__, default=RAW)  # the first of equals
    if not errors or errors[outcome] > (1 + rules.plain_margin) * earned.rmse * unit:
        outcome = _kind(plan, earned.share)
    share = earned.share if outcome == NETWORK else 0.0
    sentence = SENTENCES[outcome].format(fall=earned.fall, share=share)
    gained = {"rmse": _short(earned.best * unit), "fall": _short(earned.fall)}
    network = {"rung": NETWORK, **gained, "admitted": share > 0}
    rungs = [*_plain_rungs(errors, outcome), *_candidate_facts(ladder, unit), network]
    return {"outcome": outcome, "ladder": rungs, "network_share": _short(share), "verdict": sentence}


def _kind(plan: Plan, share: float) -> str:
    """What a plan is, of which a network has this share."""
    return NETWORK if share else RIDGE if line_weights(plan) is None else LINE


def _plain_rungs(errors: Mapping[str, float], outcome: str) -> list[dict[str, Any]]:
    """These are asked last: whether they are no worse than what came out."""
    return [{"rung": name, "rmse": _short(error), "admitted": name == outcome} for name, error in errors.items()]


def _candidate_facts(ladder: Selection, unit: float) -> list[dict[str, Any]]:
    rungs = []
    for rung in ladder.rungs:
        measured = {"rmse": rung.rmse * unit, "fall": rung.fall, "sureness": rung.sureness}
        numbers = {name: _short(number) for name, number in measured.items()}
        rungs.append({"rung": rung.name, **numbers, "admitted": rung.admitted})
    return rungs


def _root(errors: np.ndarray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _short(number: float) -> float:
    return float(f"{number:.6g}")
