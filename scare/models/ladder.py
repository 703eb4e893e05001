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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from scare.errors import UsageError
from scare.models.ridge import PENALTIES, Extra, Known, Moments, Solution, parts_of
from scare.records import Count

NAMES = ("line", "other channels", "history", "products with the first channel", "all products")
PLAIN = NAMES[:2]  # no more coefficients than channels: a penalty chosen on validation would only flatten the line
HEAVY = 1e3  # how much more than any error it weighs that shares sum to 1


@dataclass(frozen=True)
class Rules:
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

        >>> Rules().share(0.8, fall=0.055), Rules().share(0.5, fall=0.055), Rules().share(1.0, fall=0.2)
        (0.4, 0.0, 1.0)
        """
        earned = (fall - self.network_from) / (self.network_full - self.network_from)
        share = blend * min(max(earned, 0.0), 1.0)
        return share if share >= self.least_share else 0.0


@dataclass(frozen=True)
class Rung:
    """A step of the ladder: its error on validation, how much smaller it is than what stood before, and how surely."""

    name: str
    rmse: float
    fall: float
    sureness: float
    admitted: bool


@dataclass(frozen=True)
class Ladder:
    """What was tried, and the mix of what was admitted; errors in standard deviations of the target."""

    rungs: tuple[Rung, ...]
    solution: Solution
    rmse: float


def climb(train: Known, validation: Known, newest: int, extra: Extra | None, rules: Rules) -> Ladder:
    """The ladder on columns of the features [n, rows, channels] and, if there are any, `extra` ones.

    >>> x = np.random.default_rng(0).normal(size=(600, 4, 2))
    >>> known = Known(x, 2 * x[:, -1, 0] - x[:, -1, 1] + 3, np.arange(600.0))
    >>> found = climb(known, known, -1, None, Rules())
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
    for name, structures in _rungs(train.features.shape[1:], newest, wide.shape[1]).items():
        penalties = PENALTIES[:1] if name in PLAIN else PENALTIES
        found = [_best(moments, columns, penalties, wide, targets) for columns in structures]
        best = min(found, key=lambda one: _error(one, wide, targets))
        fall, sureness = _fall(_squares(mixed, wide, targets), _squares(best, wide, targets), blocks)
        admitted = not chosen or fall >= rules.clear_fall or (fall >= rules.sure_fall and sureness >= rules.sureness)
        rungs.append(Rung(name, _error(best, wide, targets), fall, sureness, admitted))
        if admitted:
            chosen += found
            mixed = mix(chosen, wide, targets)
    return Ladder(tuple(rungs), mixed, _error(mixed, wide, targets))


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


def _rungs(shape: tuple[int, ...], newest: int, columns: int) -> dict[str, list[np.ndarray]]:
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


def _fall(before: np.ndarray, after: np.ndarray, blocks: np.ndarray) -> tuple[float, float]:
    """By which share the root mean square falls, and how many standard errors over the blocks that is from zero."""
    counts = np.bincount(blocks)
    falls = (np.bincount(blocks, before - after) / np.maximum(counts, 1))[counts > 0]
    error = falls.std(ddof=1) / np.sqrt(len(falls)) if len(falls) > 1 else np.inf
    return 1.0 - float(np.sqrt(after.mean() / before.mean())), float(falls.mean() / max(error, 1e-30))


def _blocks(times: np.ndarray, count: int) -> np.ndarray:
    """The block of each row: as many rows in each, in order of time."""
    return np.searchsorted(np.quantile(times, np.arange(1, count) / count), times, side="right")
