"""Coverage: how often an interval holds the reference, and how wide it is for that."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Coverage:
    """Intervals of `level` over rows: the `share` whose reference they hold, their mean `width`, and Winkler's score.

    The score is the width, and for a reference outside its distance to the interval times 2 / (1 - level); less is
    better, and nobody gains by saying another interval than the one he believes in. All in the reference's unit.
    """

    level: float
    rows: int
    share: float
    width: float
    winkler: float


def cover(low: np.ndarray, high: np.ndarray, reference: np.ndarray, level: float) -> Coverage | None:
    """Coverage of the rows [n] with an interval and a reference; None if there is no such row.

    >>> cover(np.array([0.0, 0.0]), np.array([4.0, 2.0]), np.array([1.0, 3.0]), 0.9)
    Coverage(level=0.9, rows=2, share=0.5, width=3.0, winkler=13.0)
    """
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(reference)
    if not known.any():
        return None
    low, high, reference = low[known], high[known], reference[known]
    outside = np.maximum(low - reference, 0.0) + np.maximum(reference - high, 0.0)
    width = float((high - low).mean())
    winkler = width + 2 / (1 - level) * float(outside.mean())
    return Coverage(level, int(known.sum()), float((outside == 0).mean()), width, winkler)
