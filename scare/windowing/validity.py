"""Validity: whether a row lies inside what training had, and what a plan is shown where it does not.

A row is outside if a channel is beyond the range of training, if the channels do not go together as they did there
(Mahalanobis distance), or if that distance has been large for about a window. The plan never sees a value beyond the
range: it is held at the edge, and the answer goes on by a line in the first channel. All in scaled units.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, TypeVar

import numpy as np
from annotated_types import MinLen

from scare.errors import UsageError
from scare.records import Amount

Number = TypeVar("Number", float, np.ndarray)
Row = Annotated[tuple[float, ...], MinLen(1)]


@dataclass(frozen=True)
class Validity:
    """The edges of training: `low` and `high` of each channel, and distances to `mean` that are unusual.

    `whitening` is lower triangular [channels, channels]; a squared distance is |whitening (row - mean)|² of the held
    row. `slope` is how much of the scaled target the answer rises for 1 of the first channel beyond its edge.

    >>> edges = Validity((-1.0,), (2.0,), (0.0,), ((1.0,),), limit=9.0, slow_limit=3.0, slope=0.5)
    >>> edges.hold(np.array([[[0.0], [1.0]], [[0.0], [6.0]]]))
    (array([[[0.], [1.]], [[0.], [2.]]]), array([0., 2.]))
    """

    low: Row
    high: Row
    mean: Row
    whitening: tuple[Row, ...]
    limit: Amount  # of a row's squared distance
    slow_limit: Amount  # of its slow mean
    slope: Amount

    def __post_init__(self) -> None:
        sizes = {len(self.low), len(self.high), len(self.mean), len(self.whitening), *map(len, self.whitening)}
        if len(sizes) > 1 or any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise UsageError("the edges of validity do not fit each other")

    @property
    def usual(self) -> float:
        """The mean of squared distances in training, where a slow mean begins."""
        return float(len(self.mean))

    def hold(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Windows [n, window, channels] held at the edges, and what is added to the scaled answer of each [n]."""
        held = self._hold(windows)
        return held, self.slope * (windows[:, -1, 0] - held[:, -1, 0]).astype(np.float64)

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """The squared distances of scaled rows [n, channels], held; the same numbers however many rows come at once."""
        centered = self._hold(rows).astype(np.float64) - np.array(self.mean)
        return np.asarray(sum(np.square((centered * line).sum(axis=-1)) for line in np.array(self.whitening)))

    def outside(self, rows: np.ndarray, distances: np.ndarray, slow: np.ndarray) -> np.ndarray:
        """Whether scaled rows [n, channels] lie outside, bool [n]; `slow` is the slow mean with each row."""
        low, high = self._edges
        beyond = ((rows < low) | (rows > high)).any(axis=-1)
        return np.asarray(beyond | (distances > self.limit) | (slow > self.slow_limit))

    def _hold(self, values: np.ndarray) -> np.ndarray:
        return np.clip(values, *self._edges)

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low, np.float32), np.array(self.high, np.float32)


def slower(slow: Number, distance: Number, window: int) -> Number:
    """The slow mean after one more squared distance: it forgets in about a window."""
    return slow + (distance - slow) / window


def slow_means(distances: np.ndarray, before: float, window: int) -> np.ndarray:
    """The slow mean with each row of one device, oldest first [n]; `before` is the one before the first."""
    means = accumulate(distances.tolist(), lambda slow, distance: slower(slow, distance, window), initial=before)
    return np.fromiter(means, np.float64, len(distances) + 1)[1:]
