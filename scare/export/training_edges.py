"""The edges of training as readings: float32 numbers by which a board decides as Python does in double precision.

Comes from `windowing/validity`; goes to `descriptor`.
"""

from bisect import bisect_left, bisect_right
from math import copysign

import numpy as np

from scare.data.flags import LARGEST

TOP = int(np.float32(LARGEST).view(np.int32))
RANKS = range(-TOP, TOP + 1)  # of the float32 numbers that are readings, in their order


def edge_readings(center: float, scale: float, low: float, high: float) -> tuple[float, float]:
    """The least and the largest float32 reading that is not below `low` nor above `high` when it is scaled.

    >>> edge_readings(20.0, 8.0, -1.0, 2.0)
    (12.0, 36.0)
    """

    def scaled(rank: int) -> np.float32:
        return np.float32((_number(rank) - center) / scale)

    least = bisect_left(RANKS, np.float32(low), hi=len(RANKS) - 1, key=scaled)
    most = bisect_right(RANKS, np.float32(high), lo=1, key=scaled) - 1
    return _number(RANKS[least]), _number(RANKS[most])


def _number(rank: int) -> float:
    return copysign(float(np.int32(abs(rank)).view(np.float32)), rank)
