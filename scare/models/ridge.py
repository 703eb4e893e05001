"""Ridge regression in closed form, its penalty and its inputs chosen on validation."""

from collections.abc import Iterable

import numpy as np

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # per example
ROWS = 1 << 16  # examples added to the normal equations at once

Examples = tuple[np.ndarray, np.ndarray]  # features [n, rows, channels], targets [n]


def fit_ridge(train: Examples, validation: Examples, newest: int) -> tuple[np.ndarray, float]:
    """Weights [rows·channels] and bias of the best ridge on the newest row alone or on all rows.

    >>> x = np.random.default_rng(0).normal(size=(500, 4, 1))
    >>> y = 2 * x[:, -1, 0] - x[:, 1, 0] + 3
    >>> weights, bias = fit_ridge((x, y), (x, y), newest=-1)
    >>> np.round(weights, 2), round(bias, 2)
    (array([ 0., -1.,  0.,  2.]), 3.0)
    """
    _, rows, channels = train[0].shape
    everything = np.arange(rows * channels)
    latest = np.arange(rows * channels).reshape(rows, channels)[newest]
    solutions = [
        solution
        for inputs in ([everything] if rows == 1 else [latest, everything])
        for solution in solve_ridge(train, inputs, PENALTIES)
    ]
    errors = [np.square(_predict(validation[0], *solution) - validation[1]).mean() for solution in solutions]
    return solutions[int(np.argmin(errors))]


def solve_ridge(examples: Examples, inputs: np.ndarray, penalties: tuple[float, ...]) -> list[tuple[np.ndarray, float]]:
    """Weights (zero outside `inputs`) and bias for each penalty; the bias is not penalised."""
    features, targets = examples
    flat = features.reshape(len(targets), -1)
    cuts = [slice(start, start + ROWS) for start in range(0, len(targets), ROWS)]
    solutions = []
    for found, bias in solve_parts(((flat[cut, inputs], targets[cut]) for cut in cuts), len(inputs), penalties):
        weights = np.zeros(flat.shape[1])
        weights[inputs] = found
        solutions.append((weights, bias))
    return solutions


def solve_parts(parts: Iterable[Examples], size: int, penalties: tuple[float, ...]) -> list[tuple[np.ndarray, float]]:
    """Weights [size] and bias for each penalty, from features [n, size] and targets [n] that come in parts."""
    count, target_total = 0, 0.0
    gram, moment, total = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for features, targets in parts:
        wide = features.astype(np.float64)
        gram += wide.T @ wide
        moment += wide.T @ targets
        total += wide.sum(axis=0)
        count, target_total = count + len(targets), target_total + float(targets.sum(dtype=np.float64))
    mean, target_mean = total / count, target_total / count
    gram = gram / count - np.outer(mean, mean)
    moment = moment / count - mean * target_mean
    solutions = []
    for penalty in penalties:
        weights = np.linalg.solve(gram + penalty * np.eye(size), moment)
        solutions.append((weights, target_mean - float(mean @ weights)))
    return solutions


def _predict(features: np.ndarray, weights: np.ndarray, bias: float) -> np.ndarray:
    return features.reshape(len(features), -1) @ weights + bias
