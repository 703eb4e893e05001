"""Moments: all that ridge regression needs of rows, so that rows which may not be joined are still fitted together.

The moments of several groups of rows give those of all rows (`Moments.pooled`), and with them the same regression.
They also give the error of any linear model on a group, so that models can be compared without its rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # ridge penalties to try, per example

Solution = tuple[np.ndarray, float]  # weights [columns], bias


@dataclass(frozen=True)
class Moments:
    """Count of some rows, and means and covariances of their columns and their target."""

    count: float
    mean: np.ndarray  # [columns]
    target_mean: float
    covariance: np.ndarray  # [columns, columns]
    target_covariance: np.ndarray  # of each column with the target [columns]
    target_variance: float

    @staticmethod
    def from_batches(batches: Iterable[tuple[np.ndarray, np.ndarray]], size: int) -> "Moments":
        """Accumulate batches of columns [n, size] and targets [n]; both should be about zero, or digits are lost."""
        count, target_total, target_squares = 0, 0.0, 0.0
        gram, moment, total = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for columns, targets in batches:
            double = columns.astype(np.float64)
            gram += double.T @ double
            moment += double.T @ targets
            total += double.sum(axis=0)
            count, target_total = count + len(targets), target_total + float(targets.sum(dtype=np.float64))
            target_squares += float(np.square(targets, dtype=np.float64).sum())
        mean, target_mean = total / count, target_total / count
        return Moments(
            count,
            mean,
            target_mean,
            gram / count - np.outer(mean, mean),
            moment / count - mean * target_mean,
            target_squares / count - target_mean**2,
        )

    @staticmethod
    def from_rows(columns: np.ndarray, targets: np.ndarray) -> "Moments":
        """Like `from_batches`, for all rows at once and about their own means, so that no digits are lost."""
        mean, target_mean = columns.mean(axis=0), float(targets.mean())
        about = Moments.from_batches([(columns - mean, targets - target_mean)], columns.shape[1])
        return replace(about, mean=mean + about.mean, target_mean=target_mean + about.target_mean)

    @staticmethod
    def pooled(parts: Sequence["Moments"]) -> "Moments":
        """Return the moments of all rows, from those of each part (Chan, Golub and LeVeque 1979).

        >>> rows, targets = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 3.0, 8.0])
        >>> parts = [Moments.from_rows(rows[:1], targets[:1]), Moments.from_rows(rows[1:], targets[1:])]
        >>> Moments.pooled(parts).covariance.round(4), Moments.from_rows(rows, targets).covariance.round(4)
        (array([[1.5556]]), array([[1.5556]]))
        """
        # All moments are the mean of those within the parts, plus those between the parts' means.
        counts = np.array([part.count for part in parts])
        shares = counts / counts.sum()
        # Columns and target as one vector: means [parts, columns + 1].
        means = np.array([[*part.mean, part.target_mean] for part in parts])
        mean = shares @ means
        between = (means - mean).T @ (shares[:, None] * (means - mean))
        covariance, target_covariance = (
            sum(share * getattr(part, name) for share, part in zip(shares, parts, strict=True))
            for name in ("covariance", "target_covariance")
        )
        within = float(shares @ [part.target_variance for part in parts])
        return Moments(
            float(counts.sum()),
            mean[:-1],
            float(mean[-1]),
            covariance + between[:-1, :-1],
            target_covariance + between[:-1, -1],
            within + float(between[-1, -1]),
        )

    def scaled(self, center: np.ndarray, scale: np.ndarray, target_center: float, target_scale: float) -> "Moments":
        """Return the moments of (columns - center) / scale and of the target, scaled in the same way."""
        return Moments(
            self.count,
            (self.mean - center) / scale,
            (self.target_mean - target_center) / target_scale,
            self.covariance / np.outer(scale, scale),
            self.target_covariance / scale / target_scale,
            self.target_variance / target_scale**2,
        )

    def solve(self, penalty: float, inputs: np.ndarray | None = None) -> Solution:
        """Solve ridge regression on the columns `inputs` (None: all); other weights are 0, the bias is unpenalised."""
        chosen = np.arange(len(self.mean)) if inputs is None else inputs
        weights = np.zeros(len(self.mean))
        penalised = self.covariance[np.ix_(chosen, chosen)] + penalty * np.eye(len(chosen))
        weights[chosen] = np.linalg.solve(penalised, self.target_covariance[chosen])
        return weights, self.target_mean - float(self.mean @ weights)

    def mean_squared_error(self, solution: Solution) -> float:
        """Return the mean squared error of a linear model on these rows; never below 0.

        >>> rows, targets = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 3.0, 8.0])
        >>> Moments.from_rows(rows, targets).mean_squared_error((np.array([2.0]), -1.0))
        0.3333
        """
        weights, bias = solution
        # The variance of the errors, and the square of their mean.
        variance = self.target_variance - 2 * weights @ self.target_covariance + weights @ self.covariance @ weights
        return max(float(variance), 0.0) + (self.target_mean - bias - float(weights @ self.mean)) ** 2
