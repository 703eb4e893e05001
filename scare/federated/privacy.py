"""Differential privacy of summed moments: clamped rows and Gaussian noise, with the (ε, δ) that it gives.

Rows are scaled to [-1, 1] by the agreed range of each column, z = (1, channels, target). The sum of z zᵀ over all rows
is sent with noise on every entry of its upper triangle (Dwork, Talwar, Thakurta and Zhang 2014, "Analyze Gauss"). One
row changes the sum by z zᵀ, whose Frobenius norm is |z|², at most the size of z. Rows of one hour, day or event are
alike, so what is protected is a block of `rows` rows, which changes the sum by that many times as much.
"""

from dataclasses import dataclass
from math import erfc, exp, sqrt

import numpy as np

from scare.calibrator.moments import Moments
from scare.errors import DataError, UsageError

FEWEST_SIGMAS = 10.0  # the count of rows is at least this many times the noise, or nothing is sent
ITERATIONS = 200  # of the bisection: more than a float64 has digits


@dataclass(frozen=True)
class Privacy:
    """How little all that a site sends may depend on any block of `rows` of its rows, as (ε, δ)."""

    epsilon: float
    delta: float = 1e-6
    rows: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < 100 and 0 < self.delta < 0.1 and self.rows >= 1):
            raise UsageError(
                "privacy needs an epsilon above 0 and below 100, a delta above 0 and below 0.1, and one row or more,"
                f" not {self.epsilon:g}, {self.delta:g} and {self.rows}"
            )

    def noisy_moments(
        self, columns: np.ndarray, targets: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
    ) -> Moments:
        """Return moments of rows [n, columns] and targets [n] with noise.

        `low` and `high` [columns + 1] are the agreed ranges of columns and target. The noisy sums are replaced by the
        nearest ones that some rows could have (no negative eigenvalue), which costs no privacy.
        """
        middle, half = (low + high) / 2, (high - low) / 2
        scaled = np.clip((np.column_stack([columns, targets]) - middle) / half, -1, 1)
        extended = np.column_stack([np.ones(len(scaled)), scaled])
        size = extended.shape[1]
        sigma = self.sigma(size)
        noise = np.triu(rng.normal(0, sigma, (size, size)))  # the upper triangle, which the lower one repeats
        noisy = extended.T @ extended + noise + np.triu(noise, 1).T
        if noisy[0, 0] < FEWEST_SIGMAS * sigma:
            raise DataError("the noise hides the rows; take a larger epsilon, or wait for more rows")
        values, vectors = np.linalg.eigh(noisy)
        sums = (vectors * np.maximum(values, 0)) @ vectors.T  # of products of (1, columns, target)
        count = sums[0, 0]
        mean = sums[0, 1:] / count
        covariance = sums[1:, 1:] / count - np.outer(mean, mean)
        moments = Moments(count, mean[:-1], mean[-1], covariance[:-1, :-1], covariance[:-1, -1], covariance[-1, -1])
        # Back to the units of the rows, by the inverse of the scaling above.
        return moments.scaled(-middle[:-1] / half[:-1], 1 / half[:-1], -middle[-1] / half[-1], 1 / half[-1])

    def sigma(self, size: int) -> float:
        """Return the standard deviation of the noise on each sum, for rows z of `size` numbers in [-1, 1]."""
        return gaussian_sigma(self.epsilon, self.delta, self.rows * size)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least noise that makes a sum (ε, δ)-private (analytic Gaussian mechanism, Balle and Wang 2018).

    The classic formula, sqrt(2 ln(1.25/δ)) Δ/ε (Dwork and Roth 2014), holds for ε < 1 only and gives more noise:

    >>> gaussian_sigma(0.5, 1e-5, 1.0), float(np.sqrt(2 * np.log(1.25e5))) / 0.5
    (7.03..., 9.69...)
    """

    def least_delta(sigma: float) -> float:
        """Return the least δ for which noise of this sigma is (`epsilon`, δ)-private."""
        ratio = sensitivity / sigma
        return normal_share(ratio / 2 - epsilon / ratio) - exp(epsilon) * normal_share(-ratio / 2 - epsilon / ratio)

    low, high = 0.0, sensitivity  # too little noise; doubled until it is enough
    while least_delta(high) > delta:
        low, high = high, 2 * high
    for _ in range(ITERATIONS):
        middle = (low + high) / 2
        if middle in (low, high):  # no other number lies between
            break
        low, high = (middle, high) if least_delta(middle) > delta else (low, middle)
    return high


def normal_share(x: float) -> float:
    """Return the share of a standard normal distribution below x."""
    return erfc(-x / sqrt(2)) / 2
