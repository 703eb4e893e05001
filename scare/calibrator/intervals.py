"""Intervals say how sure a calibrated value is: between `low` and `high` lies the truth as often as `level` says.

A table of distances by band of the calibrated value, in the target's unit: two look-ups for a row. Rows that are less
sure than usual (`LESS_SURE`) have wider ones. Comes from `training` or, for a file without one, from the windows it
keeps; goes to `calibrator` and `export`.
"""

from dataclasses import dataclass
from math import inf
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from scare.data.flags import Flag
from scare.errors import UsageError
from scare.records import Amount

BANDS = 8  # at most: a board searches them all
LEVEL = 0.9
LESS_SURE = Flag.UNSETTLED | Flag.SPIKE | Flag.OUTSIDE  # rows with any of these bits have wider intervals


@dataclass(frozen=True)
class Intervals:
    """Distances below and above a calibrated value, one of each for a band; `edges` lie between the bands.

    A value on an edge belongs to the band above it. `kept_windows` says of how many windows kept in a file it was
    derived; 0 if it was made when the calibrator was fitted.

    >>> sure = Intervals(0.9, edges=(10.0,), below=(1.0, 4.0), above=(2.0, 5.0), widening=1.5)
    >>> sure.around(np.array([5.0, 10.0, np.nan]), np.array([0, Flag.SPIKE, 0], np.uint32))
    (array([ 4.,  4., nan]), array([ 7. , 17.5,  nan]))
    """

    level: Annotated[float, Gt(0), Lt(1)]
    edges: tuple[float, ...]
    below: tuple[Amount, ...]
    above: tuple[Amount, ...]
    widening: Annotated[float, Ge(1), Lt(inf)] = 1.0
    kept_windows: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        bands = len(self.below)
        if not 1 <= bands <= BANDS or len(self.above) != bands or len(self.edges) != bands - 1:
            raise UsageError(f"intervals have 1 to {BANDS} bands, as many above as below, and an edge between two")
        if not (np.isfinite(self.edges).all() and (np.diff(self.edges) > 0).all()):
            raise UsageError("the edges between bands of intervals must rise")

    @property
    def origin(self) -> str:
        """How they were made, in words."""
        return f"derived from {self.kept_windows} kept windows" if self.kept_windows else "made at fit"

    def around(self, values: np.ndarray, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Low and high [n] of calibrated `values` [n] of rows with these `flags` [n]; NaN where there is no value."""
        band = np.searchsorted(self.edges, values, side="right").clip(max=len(self.below) - 1)  # NaN sorts last
        factor = np.where(np.asarray(flags) & LESS_SURE, self.widening, 1.0)
        return values - factor * np.take(self.below, band), values + factor * np.take(self.above, band)
