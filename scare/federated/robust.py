"""A mean of what sites sent that a few hostile or broken sites cannot move beyond the others."""

import numpy as np

from scare.errors import DataError

MOST_NORM = 2.0  # an update longer than this many times the median length is shortened to it


def robust_mean(updates: np.ndarray, tolerated: int) -> np.ndarray:
    """Return the mean of updates [sites, numbers] without the extremes of each number (Yin et al. 2018).

    Long updates are shortened first. Then the `tolerated` smallest and largest of each number are left out, so that as
    many hostile sites cannot move it beyond the smallest and largest that an honest site sent. That needs more than
    twice as many sites. Of fewer, as many are left out as possible; of two none, as nothing tells which is right.

    >>> robust_mean(np.array([[1.0, 2.0], [1.2, 2.2], [-1e9, 1e9]]), tolerated=1).round(2)
    array([1. , 2.2])
    """
    if not np.isfinite(updates).all():
        raise DataError("an update of the network has a number that is not finite")
    lengths = np.linalg.norm(updates, axis=1)
    most = MOST_NORM * np.median(lengths)
    factors = most / np.maximum(lengths, max(most, np.finfo(float).tiny))  # 1 for updates that are short enough
    trimmed = min(tolerated, (len(updates) - 1) // 2)
    ordered = np.sort(updates * factors[:, None], axis=0)
    return np.asarray(ordered[trimmed : len(updates) - trimmed].mean(axis=0))
