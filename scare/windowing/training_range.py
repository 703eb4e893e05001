"""Validity: whether a row lies inside what training had, and what a plan is shown and may answer where it does not.

A row is outside if a channel is beyond the range of training, if the channels do not go together as they did there
(Mahalanobis distance), or if that distance has been large for about a window. No plan is shown a value that lies far
beyond: it is held, and the answer goes on by a line in the first channel. All in scaled units.
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
from scare.records import Amount, Finite

FALSE_ALARMS = 1e-3  # the largest share of training's rows outside
SMALLEST = 1e-4  # of a channel's variance, beside it: channels that always went together may differ by some rounding
ROOM = 0.5  # of a channel's range, beyond it, until the channel is held
Row = Annotated[tuple[Finite, ...], MinLen(1)]
Number = TypeVar("Number", float, np.ndarray)


@dataclass(frozen=True)
class TrainingRange:
    """What training had: the range of each channel (`low`, `high`), and which distances to `mean` were unusual.

    `whitening` is lower triangular [channels, channels]; a squared distance is |whitening (row - mean)|², of a row
    cut off at the range. A plan sees no value beyond `held_low` and `held_high`; from there on 1 of the first channel
    is `slope` of the scaled target. A first channel at its mean or above never makes the answer lower than `least`,
    the lowest that training had.

    >>> edges = TrainingRange((-1.0,), (2.0,), (-1.5,), (3.0,), (0.0,), ((1.0,),), limit=9.0, slow_limit=3.0, slope=0.5)
    >>> windows = np.array([[[0.0], [1.0]], [[0.0], [7.0]]])
    >>> edges.hold(windows)[..., 0]
    array([[0., 1.], [0., 3.]])
    >>> edges.answers(np.array([10.0, 20.0]), windows[:, -1, 0])
    array([10., 22.])
    """

    low: Row
    high: Row
    held_low: Row
    held_high: Row
    mean: Row
    whitening: tuple[Row, ...]
    limit: Amount  # of a row's squared distance
    slow_limit: Amount  # of its slow mean
    slope: Amount = 0.0
    least: Finite | None = None

    def __post_init__(self) -> None:
        edges = (self.held_low, self.low, self.high, self.held_high)
        sizes = {len(row) for row in (*edges, self.mean, self.whitening, *self.whitening)}
        if len(sizes) > 1 or (np.diff(edges, axis=0) < 0).any():
            raise UsageError("the edges of validity do not fit each other")

    @property
    def usual(self) -> float:
        """The mean of squared distances in training, where a slow mean begins."""
        return float(len(self.mean))

    def hold(self, scaled: np.ndarray) -> np.ndarray:
        """Scaled rows [..., channels] as a plan may see them."""
        return np.clip(scaled, *self._held)

    def answers(self, outputs: np.ndarray, first: np.ndarray) -> np.ndarray:
        """What a plan's outputs for held windows become, given the newest first channel of each, not held: [n]."""
        least = -inf if self.least is None else self.least
        risen = np.where(first >= np.float32(self.mean[0]), np.maximum(outputs, least), outputs)
        held = np.clip(first, self._held[0][0], self._held[1][0])
        return risen + self.slope * (first - held).astype(np.float64)

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """The squared distances of scaled rows [n, channels]; the same numbers however many rows come at once."""
        columns = (np.clip(rows, *self._range).astype(np.float64) - self._mean).T
        parts = [sum(weight * column for weight, column in zip(line, columns, strict=True)) for line in self.whitening]
        return np.asarray(sum(np.square(part) for part in parts))

    def outside(self, rows: np.ndarray, distances: np.ndarray, slow: np.ndarray) -> np.ndarray:
        """Whether scaled rows [n, channels] lie outside, bool [n]; `slow` is the slow mean with each row."""
        low, high = self._range
        beyond = ((rows < low) | (rows > high)).any(axis=-1)
        return np.asarray(beyond | (distances > self.limit) | (slow > self.slow_limit))

    @cached_property
    def _mean(self) -> np.ndarray:
        return np.array(self.mean)

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low, np.float32), np.array(self.high, np.float32)

    @cached_property
    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.held_low, np.float32), np.array(self.held_high, np.float32)


def fit_training_range(devices: Sequence[np.ndarray], window: int) -> TrainingRange:
    """What scaled training rows [rows, channels] of each device, oldest first, have between them.

    At most `FALSE_ALARMS` of these rows lie outside: half for a distance, half for its slow mean. With one channel a
    distance says no more than the range does.
    """
    rows = np.concatenate(devices)
    low, high, mean = (_row(edge) for edge in (rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0, dtype=np.float64)))
    room = ROOM * np.subtract(high, low)
    held = _row(np.subtract(low, room)), _row(np.add(high, room))
    known = TrainingRange(low, high, *held, mean, tuple(map(_row, _whitening(rows))), limit=0.0, slow_limit=0.0)
    distances = [known.distances(one) for one in devices]
    slow = [slow_means(one, known.usual, window) for one in distances]
    limits = [_exceeded_by(np.concatenate(one), FALSE_ALARMS / 2) for one in (distances, slow)]
    largest = float(np.concatenate(distances).max())
    return replace(known, limit=limits[0] if rows.shape[1] > 1 else largest, slow_limit=limits[1])


def slower(slow: Number, distance: Number, window: int) -> Number:
    """The slow mean after one more squared distance: it forgets in about a window."""
    return slow + (distance - slow) / window


def slow_means(distances: np.ndarray, before: float, window: int) -> np.ndarray:
    """The slow mean with each row of one device, oldest first [n]; `before` is the one before the first."""
    means = accumulate(distances.tolist(), lambda slow, distance: slower(slow, distance, window), initial=before)
    return np.fromiter(means, np.float64, len(distances) + 1)[1:]


def _row(numbers: np.ndarray) -> tuple[float, ...]:
    return tuple(numbers.astype(np.float64).tolist())


def _whitening(rows: np.ndarray) -> np.ndarray:
    """The inverse of the root of the channels' covariance, lower triangular; a constant channel has variance 1."""
    count, variance = rows.shape[1], rows.astype(np.float64).var(axis=0)
    covariance = np.cov(rows.astype(np.float64), rowvar=False, bias=True).reshape(count, count)
    beside = np.diag(np.where(variance > 0, SMALLEST * variance, 1.0))
    return np.tril(np.linalg.inv(np.linalg.cholesky(covariance + beside)))


def _exceeded_by(numbers: np.ndarray, share: float) -> float:
    """The number that at most this share of the numbers exceeds."""
    return float(np.quantile(numbers, 1 - share, method="higher"))
