"""Prediction intervals by split conformal prediction: the reference lies between `low` and `high` as often as stated.

An interval is looked up: distances below and above the calibrated value, by band of that value, in the target's unit.
Rows with a flag of `UNCERTAIN` have wider ones. The distances are quantiles of errors whose reference is known:

    blocks of time   successive errors are correlated, so a block longer than that correlation counts as one observation
    mirrored errors  the mean error of some days may have the opposite sign on the next days, so each run of blocks
                     counts twice: as it is, and with the sign of its mean error changed
    bands            each band has its own RMSE; the shape of the distribution is shared by all
    parts            training and validation are covered separately; the wider distances are kept

Comes from `training` or, for a file without intervals, from the windows it keeps; goes to `calibrator` and `export`.
docs/decisions/intervals.md says how this was chosen.
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
from scare.words import plural

BANDS = 8  # most bands: a board searches them one by one
LEVEL = 0.9  # share of references that intervals cover, unless told otherwise
UNCERTAIN = Flag.UNSETTLED | Flag.SPIKE | Flag.OUTSIDE  # rows with any of these bits have wider intervals
COVERAGE_FACT = "test_interval"  # a calibrator's fact with level, rows, share and width on test rows
COVERAGE_SLACK = 0.03  # coverage may be lower than stated by this much by chance

MIN_ERRORS = 30  # no intervals are fitted to fewer
UNCORRELATED = 0.2  # autocorrelation below which errors count as independent
BLOCK_LENGTHS = 2  # correlation lengths in a block
MAX_RUNS = 12  # runs of blocks: few, so that each is long enough for its mean error not to be chance
MIN_BLOCKS, MIN_ROWS = 2, 20  # a band with fewer takes the RMSE of all rows
RANK_EXPONENT = 1.6  # 1: equally many rows in every band; more: fewer in the upper ones, where errors are larger
MAX_WIDENING = 10.0  # largest factor for rows with a flag of UNCERTAIN
KEPT_WINDOWS_FACTOR = 1.2  # widens intervals derived from a file's few windows, all of them from validation


@dataclass(frozen=True)
class Intervals:
    """Distances below and above a calibrated value for each band of that value; `edges` lie between the bands.

    A value on an edge belongs to the band above it. `kept_windows` is the number of windows of a file that the
    intervals were derived from, 0 if they were made when the calibrator was fitted.

    >>> intervals = Intervals(0.9, edges=(10.0,), below=(1.0, 4.0), above=(2.0, 5.0), widening=1.5)
    >>> intervals.around(np.array([5.0, 10.0, np.nan]), np.array([0, Flag.SPIKE, 0], np.uint32))
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
            raise UsageError(
                f"intervals need 1 to {BANDS} bands, as many above as below, and an edge between every two"
            )
        if not (np.isfinite(self.edges).all() and (np.diff(self.edges) > 0).all()):
            raise UsageError("the edges between the bands of intervals must rise")

    @property
    def origin(self) -> str:
        """How the intervals were made, in words."""
        return f"derived from {self.kept_windows} kept windows" if self.kept_windows else "made at fit"

    def around(self, values: np.ndarray, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up the intervals' low and high ends [n] for calibrated `values` [n] of rows with these `flags` [n].

        NaN where the value is NaN.
        """
        band = np.searchsorted(self.edges, values, side="right").clip(max=len(self.below) - 1)  # NaN sorts last
        factor = np.where(np.asarray(flags) & UNCERTAIN, self.widening, 1.0)
        return values - factor * np.take(self.below, band), values + factor * np.take(self.above, band)


@dataclass(frozen=True)
class CalibrationErrors:
    """Rows with a calibrated value and a reference, [n] each; the rows of a device are in order of time."""

    values: np.ndarray  # calibrated
    references: np.ndarray
    times: np.ndarray  # seconds
    flags: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, mask: np.ndarray) -> "CalibrationErrors":
        """The rows where the mask, bool [n], is true."""
        return CalibrationErrors(self.values[mask], self.references[mask], self.times[mask], self.flags[mask])

    @cached_property
    def residuals(self) -> np.ndarray:
        """Reference minus calibrated value [n]."""
        return self.references - self.values

    @cached_property
    def blocks(self) -> np.ndarray:
        """Index of the block of time that each row is in [n]; blocks without rows are not counted."""
        steps = np.diff(self.times)
        step = np.median(steps[steps > 0]) if (steps > 0).any() else 1.0
        length = BLOCK_LENGTHS * correlation_length(self.residuals) * step
        return np.unique(np.floor((self.times - self.times.min()) / length), return_inverse=True)[1]

    @cached_property
    def mirrored(self) -> np.ndarray:
        """The residuals if the mean error of each run of blocks had the opposite sign [n]."""
        count = self.blocks.max() + 1
        blocks_per_run = -(-count // MAX_RUNS)  # rounded up
        runs = self.blocks // blocks_per_run
        means = np.bincount(runs, self.residuals) / np.bincount(runs)
        return np.asarray(self.residuals - 2 * means[runs])


def fit_intervals(parts: Sequence[CalibrationErrors], level: float = LEVEL) -> Intervals | None:
    """Fit intervals that cover `level` of the references in each part of the data.

    None if the last part, held out from training, has too few rows.

    They are fitted to rows without a flag of `UNCERTAIN`, unless nearly all rows of the last part have one.
    """
    parts = [part.rows(np.isfinite(part.values) & np.isfinite(part.references)) for part in parts]
    if len(parts[-1]) < MIN_ERRORS:
        return None
    certain = [part.rows((part.flags & UNCERTAIN) == 0) for part in parts]
    certain[-1] = certain[-1] if len(certain[-1]) >= MIN_ERRORS else parts[-1]
    edges = _edges(certain[-1])
    each_side = (1 + level) / 2  # half of the rows that are not covered may be below, half above
    distances = [_distances(part, edges, each_side) for part in certain if len(part) >= MIN_ERRORS]
    below, above = np.max(distances, axis=0).astype(np.float32).tolist()
    intervals = Intervals(level, tuple(edges.tolist()), tuple(below), tuple(above))
    return replace(intervals, widening=_widening(parts, intervals))


def derive_intervals(values: np.ndarray, references: np.ndarray) -> Intervals | None:
    """Fit intervals to the windows that a file keeps, oldest first: calibrated values [n] and references [n]."""
    times, flags = np.arange(len(values)), np.zeros(len(values), np.uint32)
    fitted = fit_intervals([CalibrationErrors(values, references, times, flags)])
    if fitted is None:
        return None
    below, above = (KEPT_WINDOWS_FACTOR * np.array([fitted.below, fitted.above])).astype(np.float32).tolist()
    return replace(fitted, below=tuple(below), above=tuple(above), kept_windows=len(values))


def correlation_length(residuals: np.ndarray) -> int:
    """Find the lag in rows after which errors are uncorrelated, by their autocorrelation; at least 1.

    >>> correlation_length(np.repeat(np.random.default_rng(0).normal(size=500), 10)) in range(7, 10)
    True
    """
    centered = residuals - residuals.mean()
    # Wiener-Khinchin theorem, with zeros appended so that the end does not meet the beginning.
    spectrum = np.square(np.abs(np.fft.rfft(centered, 2 * len(centered))))
    autocorrelation = np.fft.irfft(spectrum)[: len(centered)]
    uncorrelated = autocorrelation < UNCORRELATED * autocorrelation[0]
    return max(1, int(uncorrelated.argmax()) if uncorrelated.any() else 1)


def describe_intervals(intervals: Intervals | None, facts: Mapping[str, Any], unit: str) -> list[str]:
    """Describe the intervals of a calibrator in one line, and their coverage of test rows in another.

    >>> intervals = Intervals(0.9, (), (1.0,), (2.0,), widening=1.5)
    >>> facts = {COVERAGE_FACT: {"level": 0.9, "rows": 2000, "share": 0.8, "width": 3.0}}
    >>> for line in describe_intervals(intervals, facts, "ppb"):
    ...     print(line)
    The 90 % interval was made at fit, with 1 band; on rows flagged UNSETTLED, SPIKE or OUTSIDE it is 1.5 times as wide.
    It covers 80.0 % of 2,000 test rows, less than stated, and is 3 ppb wide on average.
    """
    if intervals is None:
        return []
    wider = f"on rows flagged UNSETTLED, SPIKE or OUTSIDE it is {intervals.widening:.3g} times as wide"
    if intervals.widening == 1:
        wider = "it is not widened for flagged rows (too few were seen, or their errors are no larger)"
    bands = plural(len(intervals.below), "band")
    lines = [f"The {100 * intervals.level:g} % interval was {intervals.origin}, with {bands}; {wider}."]
    if found := facts.get(COVERAGE_FACT):
        covered = f"It covers {found['share']:.1%} of {found['rows']:,} test rows".replace("%", " %")
        too_low = ", less than stated," if under_covers(found["level"], found["share"]) else ""
        width = f"{found['width']:.3g} {unit}".rstrip()
        lines.append(f"{covered}{too_low} and is {width} wide on average.")
    return lines


def under_covers(level: float, share: float) -> bool:
    """Whether the coverage is clearly lower than stated."""
    return share < level - COVERAGE_SLACK


def _edges(part: CalibrationErrors) -> np.ndarray:
    """Place edges between bands at quantiles of the values that get closer towards the top.

    There are as many bands as have `MIN_BLOCKS` blocks each. Edges are rounded to float32, as on a board.
    """
    bands = int(np.clip(len(np.unique(part.blocks)) // MIN_BLOCKS, 1, BANDS))
    ranks = 1 - (1 - np.arange(1, bands) / bands) ** RANK_EXPONENT
    return np.unique(np.quantile(part.values, ranks).astype(np.float32)).astype(np.float64)


def _distances(part: CalibrationErrors, edges: np.ndarray, share: float) -> np.ndarray:
    """Find the distances below and above [2, bands] that this share of a part's errors does not exceed.

    Errors are divided by the RMSE of their band (of all rows, where a band has too few), so that one quantile serves
    all bands.
    """
    bands, count = np.searchsorted(edges, part.values, side="right"), len(edges) + 1
    squares = np.square(part.residuals)
    rows = np.bincount(bands, minlength=count)
    blocks = np.array([len(np.unique(part.blocks[bands == band])) for band in range(count)])
    mean_squares = np.bincount(bands, squares, count) / np.maximum(rows, 1)
    enough = (rows >= MIN_ROWS) & (blocks >= MIN_BLOCKS)
    rmse = np.maximum(np.sqrt(np.where(enough, mean_squares, squares.mean())), np.finfo(np.float32).tiny)
    scaled = np.concatenate([part.residuals, part.mirrored]) / np.tile(rmse[bands], 2)
    both_blocks = np.tile(part.blocks, 2)  # blocks of the errors as they are, and of the mirrored ones
    return np.array([np.maximum(_quantile(sign * scaled, both_blocks, share), 0.0) * rmse for sign in (-1, 1)])


def _quantile(numbers: np.ndarray, blocks: np.ndarray, share: float) -> float:
    """Find the number that covers this share of new rows: the conformal quantile for the effective sample size.

    The share of numbers beyond the plain quantile varies from block to block, which tells how many independent rows the
    blocks are worth. With that many rows, split conformal prediction takes the quantile share · (rows + 1) / rows; the
    1 stands for the new row.
    """
    sizes = np.bincount(blocks)
    beyond = np.bincount(blocks, numbers > np.quantile(numbers, share)) / sizes
    variance = np.square(sizes / sizes.sum()) @ np.square(beyond - (1 - share)) * len(sizes) / max(len(sizes) - 1, 1)
    effective_rows = share * (1 - share) / variance if len(sizes) > 1 and variance else 1.0
    return float(np.quantile(numbers, min(1.0, share * (1 + 1 / effective_rows))))


def _widening(parts: Sequence[CalibrationErrors], intervals: Intervals) -> float:
    """Find the factor by which intervals must be wider to cover flagged rows as often as others; 1 if too few rows.

    It is the largest factor that any flag of `UNCERTAIN` needs in any part.
    """
    factors = []
    for flagged in (part.rows((part.flags & flag) > 0) for part in parts for flag in UNCERTAIN):
        if len(flagged) >= MIN_ERRORS:
            low, high = intervals.around(flagged.values, np.zeros(len(flagged), np.uint32))
            distances = np.where(flagged.residuals < 0, flagged.values - low, high - flagged.values)
            relative = np.abs(flagged.residuals) / np.maximum(distances, np.finfo(np.float32).tiny)
            factors.append(float(np.quantile(relative, intervals.level)))
    return float(np.clip(np.float32(max(factors, default=1.0)), 1.0, MAX_WIDENING))
