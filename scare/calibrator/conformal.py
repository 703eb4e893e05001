"""Intervals learned from errors whose truth is known: split conformal, by band of the calibrated value and by blocks.

Minutes that follow each other err alike, so what counts is a block of time, longer than errors remember. The mean error
of some days may come with the other sign in the next: a run of blocks counts with both. A band has its own size of
error; the shape is shared. Several parts of the readings, such as training and validation, are each to be covered.
Comes from `training`; goes to `intervals`. docs/decisions/intervals.md says how this was chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scare.calibrator.intervals import BANDS, LESS_SURE, LEVEL, Intervals

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
