"""Intervals say how sure a calibrated value is: between `low` and `high` lies the truth as often as `level` says.

A table of distances by band of the calibrated value, in the target's unit: two look-ups for a row. Rows that are less
sure than usual (`LESS_SURE`) have wider ones. Comes from `training` or, for a file without one, from the windows it
keeps; goes to `calibrator` and `export`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Annotated, Any

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


# Intervals learned from errors whose truth is known: split conformal, by band of the calibrated value and by blocks.
#
# Minutes that follow each other err alike, so what counts is a block of time, longer than errors remember. The mean
# error of some days may come with the other sign in the next: a run of blocks counts with both. A band has its own
# size of error; the shape is shared. Several parts of the readings, such as training and validation, are each to be
# covered. Comes from `training`; goes to `intervals`. docs/decisions/intervals.md says how this was chosen.


FEWEST = 30  # errors that say anything
FORGOTTEN = 0.2  # autocorrelation below which errors count as unrelated
MEMORIES = 2  # in a block
RUNS = 12  # of blocks, at most: long enough for a mean error that is no accident
BLOCKS, ROWS = 2, 20  # fewest in a band
TOWARDS_THE_TOP = 1.6  # 1: as many rows in every band; more: fewer in the upper ones, where errors are larger
WIDEST = 10.0  # of widening
ALONE = 1.2  # by how much wider intervals are that know nothing of the errors in training


@dataclass(frozen=True)
class Errors:
    """Calibrated `values`, `references`, `times` and `flags` of rows [n], each device's in order of time."""

    values: np.ndarray
    references: np.ndarray
    times: np.ndarray
    flags: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def those(self, which: np.ndarray) -> "Errors":
        """Some of the rows."""
        return Errors(self.values[which], self.references[which], self.times[which], self.flags[which])

    @cached_property
    def residuals(self) -> np.ndarray:
        """What is missing to the reference [n]."""
        return self.references - self.values

    @cached_property
    def blocks(self) -> np.ndarray:
        """The number of the block of time that each row is in [n]."""
        steps = np.diff(self.times)
        step = np.median(steps[steps > 0]) if (steps > 0).any() else 1.0
        length = MEMORIES * memory(self.residuals) * step
        return np.unique(np.floor((self.times - self.times.min()) / length), return_inverse=True)[1]

    @cached_property
    def mirrored(self) -> np.ndarray:
        """The residuals as they would be if the mean error of each run of blocks had the other sign [n]."""
        runs = self.blocks // -(-(self.blocks.max() + 1) // RUNS)
        means = np.bincount(runs, self.residuals) / np.bincount(runs)
        return np.asarray(self.residuals - 2 * means[runs])


def learn(parts: Sequence[Errors], level: float = LEVEL) -> Intervals | None:
    """Intervals that cover `level` of each part; None if the last, which the calibrator never saw, says too little.

    They are those of rows that are not less sure than others, unless nearly all of what it never saw are.
    """
    parts = [_known(part) for part in parts]
    if len(parts[-1]) < FEWEST:
        return None
    sure = [part.those((part.flags & LESS_SURE) == 0) for part in parts]
    sure[-1] = sure[-1] if len(sure[-1]) >= FEWEST else parts[-1]
    edges = _edges(sure[-1])
    tables = [_table(part, edges, (1 + level) / 2) for part in sure if len(part) >= FEWEST]
    below, above = np.max(tables, axis=0).astype(np.float32).tolist()
    found = Intervals(level, tuple(edges.tolist()), tuple(below), tuple(above))
    return replace(found, widening=_widening(parts, found))


def derive(values: np.ndarray, references: np.ndarray) -> Intervals | None:
    """Intervals of what a calibrator gives for the windows it keeps, in order, and their references."""
    found = learn([Errors(values, references, np.arange(len(values)), np.zeros(len(values), np.uint32))])
    if found is None:
        return None
    below, above = (ALONE * np.array([found.below, found.above])).astype(np.float32).tolist()
    return replace(found, below=tuple(below), above=tuple(above), kept_windows=len(values))


def memory(residuals: np.ndarray) -> int:
    """After how many rows errors are unrelated; at least 1.

    >>> memory(np.repeat(np.random.default_rng(0).normal(size=500), 10)) in range(7, 10)
    True
    """
    centered = residuals - residuals.mean()
    spectrum = np.square(np.abs(np.fft.rfft(centered, 2 * len(centered))))
    together = np.fft.irfft(spectrum)[: len(centered)]
    forgotten = together < FORGOTTEN * together[0]
    return max(1, int(forgotten.argmax()) if forgotten.any() else 1)


def _known(part: Errors) -> Errors:
    return part.those(np.isfinite(part.values) & np.isfinite(part.references))


def _edges(part: Errors) -> np.ndarray:
    """Edges of bands, closer to each other in rank the higher they are; numbers that float32 has."""
    bands = int(np.clip(len(np.unique(part.blocks)) // BLOCKS, 1, BANDS))
    ranks = 1 - (1 - np.arange(1, bands) / bands) ** TOWARDS_THE_TOP
    return np.unique(np.quantile(part.values, ranks).astype(np.float32)).astype(np.float64)


def _table(part: Errors, edges: np.ndarray, share: float) -> np.ndarray:
    """Distances below and above [2, bands], each of which covers this share of a part's rows."""
    bands = np.searchsorted(edges, part.values, side="right")
    scales = _scales(part, bands, len(edges) + 1)
    shape = np.concatenate([part.residuals, part.mirrored]) / np.tile(scales[bands], 2)
    blocks = np.tile(part.blocks, 2)
    return np.array([np.maximum(_quantile(sign * shape, blocks, share), 0.0) * scales for sign in (-1, 1)])


def _scales(part: Errors, bands: np.ndarray, count: int) -> np.ndarray:
    """The root mean square error of each band; of all rows where a band has too few."""
    squares = np.square(part.residuals)
    rows = np.bincount(bands, minlength=count)
    spread = np.array([len(np.unique(part.blocks[bands == band])) for band in range(count)])
    own = np.bincount(bands, squares, count) / np.maximum(rows, 1)
    enough = (rows >= ROWS) & (spread >= BLOCKS)
    return np.maximum(np.sqrt(np.where(enough, own, squares.mean())), np.finfo(np.float32).tiny)


def _quantile(numbers: np.ndarray, blocks: np.ndarray, share: float) -> float:
    """What covers this share of rows to come: a little more than of these, the more so the fewer blocks say so.

    The share beyond differs from block to block; so many independent rows would make its mean as unsure as that does.
    One row more than those, the one to come, is the correction of split conformal.
    """
    sizes = np.bincount(blocks)
    beyond = np.bincount(blocks, numbers > np.quantile(numbers, share)) / sizes
    spread = np.square(sizes / sizes.sum()) @ np.square(beyond - (1 - share)) * len(sizes) / max(len(sizes) - 1, 1)
    rows = share * (1 - share) / spread if len(sizes) > 1 and spread else 1.0
    return float(np.quantile(numbers, min(1.0, share * (1 + 1 / rows))))


def _widening(parts: Sequence[Errors], found: Intervals) -> float:
    """By how much intervals of rows that are less sure must be wider to cover as many of them; 1 if too few tell."""
    marked = [part.those((part.flags & flag) > 0) for part in parts for flag in LESS_SURE]
    needed = [_needed(part, found) for part in marked if len(part) >= FEWEST]
    return float(np.clip(np.float32(max(needed, default=1.0)), 1.0, WIDEST))


def _needed(part: Errors, found: Intervals) -> float:
    """By how much the intervals of a part must be wider."""
    low, high = found.around(part.values, np.zeros(len(part), np.uint32))
    distances = np.where(part.residuals < 0, part.values - low, high - part.values)
    return float(np.quantile(np.abs(part.residuals) / np.maximum(distances, np.finfo(np.float32).tiny), found.level))


# What a calibrator tells of its intervals, in words: how they were made, and whether they held what they state.


FACT = "test_interval"  # of a calibrator: level, rows, share, width on rows it has never seen
LACKING = 0.03  # of coverage, below what is stated: less than that is chance


def interval_words(intervals: Intervals | None, facts: Mapping[str, Any], unit: str) -> list[str]:
    """A sentence each about the intervals of a calibrator and about the rows they were tried on.

    >>> sure = Intervals(0.9, (), (1.0,), (2.0,), widening=1.5)
    >>> for line in interval_words(sure, {FACT: {"level": 0.9, "rows": 2000, "share": 0.8, "width": 3.0}}, "ppb"):
    ...     print(line)
    90 % interval, made at fit: 1 band, 1.5 times as wide on rows flagged UNSETTLED, SPIKE or OUTSIDE
    it holds 80.0 % of 2,000 test rows and is 3 ppb wide on average: less than stated on a period it has not seen
    """
    if intervals is None:
        return []
    bands = f"{len(intervals.below)} band{'s' * (len(intervals.below) > 1)}"
    wider = f"{intervals.widening:.3g} times as wide on rows flagged UNSETTLED, SPIKE or OUTSIDE"
    lines = [f"{100 * intervals.level:g} % interval, {intervals.origin}: {bands}, {wider}"]
    return lines + ([held_words(facts[FACT], unit)] if FACT in facts else [])


def held_words(found: Mapping[str, Any], unit: str) -> str:
    """How much of rows never seen intervals hold, and whether that is less than they state."""
    held = f"it holds {found['share']:.1%} of {found['rows']:,} test rows".replace("%", " %")
    lacking = ": less than stated on a period it has not seen" if lacks(found["level"], found["share"]) else ""
    return f"{held} and is {found['width']:.3g} {unit}".rstrip() + f" wide on average{lacking}"


def lacks(level: float, share: float) -> bool:
    """Whether less is covered than stated."""
    return share < level - LACKING
