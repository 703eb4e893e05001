"""Training range: flags rows outside it, clamps what the plan sees, and extrapolates linearly beyond.

A row is outside if the first channel is beyond its range in training or another one clearly, if its Mahalanobis
distance to the mean of training is unusual (the channels do not go together as they did there), or if that distance has
been large for about a window.
A plan (the steps that compute an output from a window) never sees a value far beyond the range: it sees the clamped
value, and its output continues linearly in the first channel. All numbers are in scaled units. Made by
`training/extrapolation`, for `inputs`, `calibrator` and `export`; docs/decisions/training_range.md has the reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import Annotated, TypeVar

import numpy as np
from annotated_types import MinLen

from scare.errors import UsageError
from scare.schema import Amount, Finite

FALSE_ALARMS = 1e-3  # the largest share of training rows that may count as outside
JITTER = 1e-4  # share of a channel's variance added to it: channels that always moved together may differ by rounding
# How far beyond its range in training a channel, other than the first, still counts as inside, as a share of the range.
SLACK = 0.1  # share of the range
DISTANCE_SLACK = 1.2  # squared distances up to this many times the largest usual ones count as inside
MARGIN = 0.5  # how far beyond its range a channel is clamped, as a share of the range
# How far rows are outside: in words, and the largest distance beyond a channel's range, in ranges.
OUTSIDE_GRADES = {
    "only because channels do not go together as in training": 0.0,
    "by up to a tenth of a channel's range": 0.1,
    "by up to one range": 1.0,
    "by more than one range": inf,
}
Row = Annotated[tuple[Finite, ...], MinLen(1)]
Number = TypeVar("Number", float, np.ndarray)


@dataclass(frozen=True)
class TrainingRange:
    """The range of each channel that is inside (`low`, `high`), and the limits of Mahalanobis distances to `mean`.

    `whitening` is lower triangular [channels, channels]; a squared Mahalanobis distance is |whitening (row - mean)|²,
    of a row clipped to the range. A plan sees values clamped to `clamp_low` and `clamp_high`; beyond, the scaled output
    changes by `slope` per unit of the first channel. While the first channel is at or above its mean, the output is
    clipped from below at `lower_bound`, the lowest output or reference of training.

    >>> training_range = TrainingRange(
    ...     (-1.0,), (2.0,), (-1.5,), (3.0,), (0.0,), ((1.0,),), limit=9.0, slow_limit=3.0, slope=0.5
    ... )
    >>> windows = np.array([[[0.0], [1.0]], [[0.0], [7.0]]])
    >>> training_range.clamp(windows)[..., 0]
    array([[0., 1.], [0., 3.]])
    >>> training_range.extrapolate(np.array([10.0, 20.0]), windows[:, -1, 0])
    array([10., 22.])
    """

    low: Row
    high: Row
    clamp_low: Row
    clamp_high: Row
    mean: Row
    whitening: tuple[Row, ...]
    limit: Amount  # largest squared distance of a row that counts as inside
    slow_limit: Amount  # largest slow mean of these distances that counts as inside
    slope: Finite = 0.0  # negative if the target falls with the first channel
    lower_bound: Finite | None = None

    def __post_init__(self) -> None:
        bounds = (self.clamp_low, self.low, self.high, self.clamp_high)
        sizes = {len(row) for row in (*bounds, self.mean, self.whitening, *self.whitening)}
        if len(sizes) > 1 or (np.diff(bounds, axis=0) < 0).any():
            raise UsageError("the bounds of the training range do not fit each other")

    @property
    def usual(self) -> float:
        """Mean squared distance in training, close to the number of channels; moving averages start there."""
        return float(len(self.mean))

    def clamp(self, scaled: np.ndarray) -> np.ndarray:
        """Clamp scaled rows [..., channels] to the range that a plan is computed for."""
        return np.clip(scaled, *self._clamp)

    def extrapolate(self, outputs: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Bound a plan's outputs for clamped windows [n] from below and continue them linearly beyond the clamp.

        `first` is the newest value of channel 0 before clamping [n].
        """
        lower_bound = -inf if self.lower_bound is None else self.lower_bound
        # In float32, as on a board, so that both compare the same numbers.
        bounded = np.where(first >= np.float32(self.mean[0]), np.maximum(outputs, lower_bound), outputs)
        clamped = np.clip(first, self._clamp[0][0], self._clamp[1][0])
        return bounded + self.slope * (first - clamped).astype(np.float64)

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """Return the squared Mahalanobis distances [n] of scaled rows [n, channels].

        Rows are clipped to the range first, because readings beyond it are outside anyway (`outside`), and a single
        one would dominate the slow mean of distances for a long time. Sums go channel by channel, and not by a matrix
        product, so that every batch size gives the same bits.
        """
        channels = (np.clip(rows, *self._range).astype(np.float64) - self._mean).T  # [channels, n]
        whitened = [
            sum(weight * channel for weight, channel in zip(weights, channels, strict=True))
            for weights in self.whitening
        ]
        return np.asarray(sum(np.square(component) for component in whitened))

    def outside(self, rows: np.ndarray, distances: np.ndarray, slow: np.ndarray) -> np.ndarray:
        """Whether scaled rows [n, channels] lie outside the training range, bool [n].

        `distances` [n] are those of `distances(rows)`, `slow` [n] their exponential moving average after each row.
        """
        low, high = self._range
        beyond = ((rows < low) | (rows > high)).any(axis=-1)
        return np.asarray(beyond | (distances > self.limit) | (slow > self.slow_limit))

    def beyond(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far scaled rows [n, channels] lie beyond the range, and in which channel: two arrays [n].

        The distance is that of the channel farthest out, in widths of its range. It is 0, and the channel has no
        meaning, where every channel is in its range. Such a row may still be outside as a whole, by its Mahalanobis
        distance: if each of its readings is usual, but not together with the others.
        """
        low, high = self._range
        width = np.where(high > low, high - low, np.float32(1))
        distances = np.maximum(low - rows, rows - high) / width
        return np.maximum(distances.max(axis=1), 0), distances.argmax(axis=1)

    @cached_property
    def _mean(self) -> np.ndarray:
        return np.array(self.mean)

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low, np.float32), np.array(self.high, np.float32)

    @cached_property
    def _clamp(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.clamp_low, np.float32), np.array(self.clamp_high, np.float32)


def fit_training_range(devices: Sequence[np.ndarray], window: int) -> TrainingRange:
    """Fit the range to scaled training rows [rows, channels] of each device, oldest first.

    At most a share `FALSE_ALARMS` of these rows lies outside: half because of a distance, half because of the moving
    average of distances. Limits are then moved outwards by `SLACK` and `DISTANCE_SLACK`. With one channel the distance
    adds nothing to the range, so its limit is the maximum.
    """
    rows = np.concatenate(devices)
    low, high, mean = map(_as_row, (rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0, dtype=np.float64)))
    width = np.subtract(high, low)
    clamp = _as_row(low - MARGIN * width), _as_row(high + MARGIN * width)
    slack = np.where(np.arange(len(width)) > 0, SLACK * width, 0.0)  # none for the first channel
    low, high = _as_row(low - slack), _as_row(high + slack)
    whitening = tuple(map(_as_row, _whitening(rows)))
    training_range = TrainingRange(low, high, *clamp, mean, whitening, limit=0.0, slow_limit=0.0)
    distances = [training_range.distances(device) for device in devices]
    slow = [slow_means(of_device, training_range.usual, window) for of_device in distances]

    def limit_of(numbers: Sequence[np.ndarray]) -> float:
        return float(np.quantile(np.concatenate(numbers), 1 - FALSE_ALARMS / 2, method="higher"))

    limit = limit_of(distances) if rows.shape[1] > 1 else float(np.concatenate(distances).max())
    return replace(training_range, limit=DISTANCE_SLACK * limit, slow_limit=DISTANCE_SLACK * limit_of(slow))


def update_slow_mean(slow: Number, distance: Number, window: int) -> Number:
    """Update the slow mean of distances with that of a row.

    It is an exponential moving average; its time constant is the window [rows].
    """
    return slow + (distance - slow) / window


def slow_means(distances: np.ndarray, before: float, window: int) -> np.ndarray:
    """Return the slow mean of one device's distances after each of its rows, oldest first [n].

    It is an exponential moving average with the window, in rows, as time constant; `before` is its value before the
    first row.
    """
    means = accumulate(distances.tolist(), lambda slow, each: update_slow_mean(slow, each, window), initial=before)
    return np.fromiter(means, np.float64, len(distances) + 1)[1:]


def _as_row(numbers: np.ndarray) -> tuple[float, ...]:
    return tuple(numbers.astype(np.float64).tolist())


def _whitening(rows: np.ndarray) -> np.ndarray:
    """Return the inverse of the Cholesky factor of the channels' covariance, lower triangular [channels, channels].

    A constant channel counts with variance 1.
    """
    count, variance = rows.shape[1], rows.astype(np.float64).var(axis=0)
    covariance = np.cov(rows.astype(np.float64), rowvar=False, bias=True).reshape(count, count)
    jitter = np.diag(np.where(variance > 0, JITTER * variance, 1.0))
    return np.tril(np.linalg.inv(np.linalg.cholesky(covariance + jitter)))
