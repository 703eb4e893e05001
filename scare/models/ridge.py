"""Ridge regression in closed form, its penalty and its inputs chosen on validation."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # per example
ROWS = 1 << 16  # examples added to the normal equations at once

Examples = tuple[np.ndarray, np.ndarray]  # columns [n, size], targets [n]
Solution = tuple[np.ndarray, float]  # weights [columns], bias
Extra = Callable[[np.ndarray], np.ndarray]  # features [n, rows, channels] to further columns [n, more]


class Known(NamedTuple):
    """Examples that a closed form is fitted to, or chosen by."""

    features: np.ndarray  # [n, rows, channels]
    targets: np.ndarray  # [n], scaled
    times: np.ndarray  # [n] seconds


@dataclass(frozen=True)
class Moments:
    """Means and covariances of columns and target: all that ridge on any of the columns needs."""

    mean: np.ndarray  # [columns]
    target_mean: float
    covariance: np.ndarray  # [columns, columns]
    with_target: np.ndarray  # [columns]

    @staticmethod
    def of(parts: Iterable[Examples], size: int) -> "Moments":
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


def fit_ridge(train: Known, validation: Known, newest: int) -> Solution:
    """Weights [rows·channels] and bias of the best ridge on validation: on the newest row or all, by each penalty.

    >>> x = np.random.default_rng(0).normal(size=(500, 4, 1))
    >>> known = Known(x, 2 * x[:, -1, 0] - x[:, 1, 0] + 3, np.arange(500.0))
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


def squared_errors(parts: Iterable[Examples], solutions: list[Solution]) -> np.ndarray:
    """The squared error of each solution, summed over the examples."""
    weights, biases = np.stack([weight for weight, _ in solutions], axis=1), np.array([bias for _, bias in solutions])
    return np.sum([np.square(wide @ weights + biases - known[:, None]).sum(axis=0) for wide, known in parts], axis=0)


def parts_of(known: Known, extra: Extra | None = None) -> Iterable[Examples]:
    """Columns [n, rows·channels + more] and targets [n], few enough at a time."""
    for start in range(0, len(known.targets), ROWS):
        part = known.features[start : start + ROWS]
        flat = part.reshape(len(part), -1)
        wide = flat if extra is None else np.concatenate([flat, extra(part)], axis=1)
        yield wide, known.targets[start : start + ROWS]
