"""The hat basis: overlapping triangles in log time, a fixed smooth lens matrix Φ.

Lag l has position log2(l + 1); knots lie evenly on that axis, two a doubling, and each sample is shared between
the two knots around it. W = ΦΘ makes the projector smooth in time with nothing of size N to train, and the
window is touched only by u = Φᵀx. (Not in the paper: preset `default`, docs/decisions/default.md.)
"""

from dataclasses import dataclass
from functools import cached_property
from math import log2

import numpy as np

from scare.kernels import hat_fractions, hat_matrix


@dataclass(frozen=True)
class HatBasis:
    """Hats over a window, oldest row first; column 0 of the matrix is about the newest reading.

    >>> [HatBasis(window).size for window in (24, 48, 60, 360)]
    [9, 11, 12, 17]
    """

    window: int

    @cached_property
    def knots(self) -> np.ndarray:
        """Positions on the log2(lag + 1) axis, without knots that no lag comes close to."""
        even = np.linspace(0.0, log2(self.window), round(2 * log2(self.window)) + 1)
        spacing = even[1]
        position = np.log2(np.arange(self.window) + 1.0)
        nearest = np.abs(even[:, None] - position).min(axis=1)
        return even[1 - nearest / spacing >= 0.5]

    @property
    def size(self) -> int:
        """How many hats there are."""
        return len(self.knots)

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """For each row, oldest first: its lower knot and its share of the upper one."""
        lower, share = hat_fractions(self.window, self.knots)
        return lower[::-1].copy(), share[::-1].copy()

    @cached_property
    def scale(self) -> np.ndarray:
        """What makes each hat's weights sum to one, [size]."""
        return 1 / hat_matrix(*self.sums, self.size).sum(axis=0)

    @cached_property
    def matrix(self) -> np.ndarray:
        """Φ [window, size]; every column sums to one."""
        return hat_matrix(*self.sums, self.size) * self.scale
