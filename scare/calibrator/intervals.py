"""Prediction intervals by split conformal prediction: the reference lies between `low` and `high` as often as stated.

An interval is looked up: distances below and above the calibrated value, by band of that value, in the target's unit.
Rows with a flag of `UNCERTAIN` have wider ones. The distances are quantiles of errors whose reference is known:

    parts            errors in training, after training (forward blocks) and on validation have the same weight
    mirrored errors  the mean error of some days may have the opposite sign on the next days, so each run of blocks
                     counts twice: as it is, and with the sign of its mean error changed
    bands            each band has its own RMSE; the shape of the distribution is shared by all
    blocks of time   successive errors are correlated, so a block longer than that correlation counts as one
                     observation; the fewer blocks the parts have, the wider the intervals

Made by `training` or, for a file without intervals, from the windows it keeps; used by `calibrator` and `export`.
docs/decisions/intervals.md says how this was chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Lt

from scare.data.flags import Flag
from scare.data.quantities import display_unit
from scare.errors import UsageError
from scare.schema import Amount
from scare.words import plural

TINY = float(np.finfo(np.float32).tiny)  # keeps divisors above zero, in float32, too
BANDS = 8  # most bands: a board searches them one by one
LEVEL = 0.9  # share of references that intervals cover, unless told otherwise
UNCERTAIN = Flag.UNSETTLED | Flag.SPIKE | Flag.OUTSIDE  # rows with any of these bits have wider intervals
COVERAGE_FACT = "test_interval"  # a calibrator's fact with level, rows, share and width on test rows, and by flag
COVERAGE_SLACK = 0.03  # coverage may be lower than stated by this much by chance

MIN_ERRORS = 30  # no intervals are fitted to fewer
UNCORRELATED = 0.2  # autocorrelation below which errors count as independent
BLOCK_LENGTHS = 2  # correlation lengths in a block
MAX_RUNS = 12  # runs of blocks: few, so that each is long enough for its mean error not to be chance
BLOCKS_PER_BAND = 4  # blocks of all parts for each band
MIN_ROWS = 20  # a band with fewer takes the RMSE of all rows
RANK_EXPONENT = 1.6  # 1: equally many rows in every band; more: fewer in the upper ones, where errors are larger
FEW_BLOCKS = 4.0  # if parts have so many blocks in the mean, intervals are twice as wide as with very many
MAX_FEW_BLOCKS_FACTOR = 3.0  # reached with 2.8 blocks in the mean; the rule was not tried on fewer in real data
USUAL_WIDENING, WIDENING_BLOCKS = 2.0, 5  # widening where no flagged rows were seen, and the blocks it counts for
MAX_WIDENING = 10.0  # largest factor for rows with a flag of UNCERTAIN
RATE, MAX_FACTOR = 0.005, 4.0  # of `next_factor`: change per pair, as a logarithm, and how wide or narrow at most
KEPT_WINDOWS_FACTOR = 1.25  # widens intervals derived from a file's few windows, all of them from validation


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

    def around(
        self, values: np.ndarray, flags: np.ndarray, widths: np.ndarray | float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Look up the intervals' low and high ends [n] for calibrated `values` [n] of rows with these `flags` [n].

        NaN where the value is NaN. Distances are multiplied by `widths`, one factor or [n].
        """
        band = np.searchsorted(self.edges, values, side="right").clip(max=len(self.below) - 1)  # NaN sorts last
        factor = widths * np.where(np.asarray(flags) & UNCERTAIN, self.widening, 1.0)
        return values - factor * np.take(self.below, band), values + factor * np.take(self.above, band)

    def scaled(self, factor: float) -> "Intervals":
        """Multiply all distances, rounded to float32 as on a board."""
        below, above = (factor * np.array([self.below, self.above])).astype(np.float32).tolist()
        return replace(self, below=tuple(below), above=tuple(above))

    def hold_level(self, values: np.ndarray, references: np.ndarray, factor: float = 1.0) -> float:
        """Find the factor of the width that keeps the level from now on, from values and references [n], oldest first.

        `factor` is the one that earlier values and references led to.

        >>> intervals = Intervals(0.9, (), (1.0,), (1.0,))
        >>> round(intervals.hold_level(np.zeros(1000), np.full(1000, 1.5)), 2)
        1.5
        """
        low, high = self.around(values, np.zeros(len(values), np.uint32))
        distances = np.where(references < values, values - low, high - values)
        # Of each pair, the factor with which its reference would lie on the interval's end.
        needed = np.abs(references - values) / np.maximum(distances, TINY)
        for needed_factor in needed.tolist():
            factor = next_factor(factor, needed_factor <= factor, self.level)
        return factor


def next_factor(factor: float, is_inside: bool, level: float) -> float:
    """Return the factor of an interval's width after a reference inside or outside.

    Adaptive conformal prediction (Gibbs and Candès 2021), here on the logarithm of the width: each reference outside
    makes intervals wider by RATE · level, each inside narrower by RATE · (1 - level), so that in the long run `level`
    of them lie inside, whatever the errors do. In float32, as on a board.

    >>> round(next_factor(1.0, False, 0.9), 4), round(next_factor(1.0, True, 0.9), 4)
    (1.0045, 0.9995)
    """
    wider, narrower = width_steps(level)
    factor = float(np.float32(factor) * (narrower if is_inside else wider))
    return min(max(factor, 1 / MAX_FACTOR), MAX_FACTOR)


@cache
def width_steps(level: float) -> tuple[np.float32, np.float32]:
    """Return by how much a reference outside widens intervals, and one inside narrows them, as factors."""
    return np.float32(np.exp(RATE * level)), np.float32(np.exp(-RATE * (1 - level)))


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
        """Return the rows where the mask, bool [n], is true."""
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
        """The residuals [n] with the mean of each run of blocks reversed in sign.

        A reversed mean is as likely: an error that lasts for days may have the opposite sign on the days to come.
        """
        count = self.blocks.max() + 1
        blocks_per_run = -(-count // MAX_RUNS)  # rounded up
        runs = self.blocks // blocks_per_run
        means = np.bincount(runs, self.residuals) / np.bincount(runs)
        return np.asarray(self.residuals - 2 * means[runs])


def fit_intervals(parts: Sequence[CalibrationErrors], level: float = LEVEL) -> Intervals | None:
    """Fit intervals to errors of several parts of the data, which have the same weight.

    None if the last part, held out from training, has too few rows. They are fitted to rows without a flag of
    `UNCERTAIN`, unless nearly all rows of the last part have one.
    """
    parts = [part.rows(np.isfinite(part.values) & np.isfinite(part.references)) for part in parts]
    if len(parts[-1]) < MIN_ERRORS:
        return None
    certain = [part.rows((part.flags & UNCERTAIN) == 0) for part in parts]
    certain[-1] = certain[-1] if len(certain[-1]) >= MIN_ERRORS else parts[-1]
    intervals = _fit_table([part for part in certain if len(part) >= MIN_ERRORS], level)
    return replace(intervals, widening=_widening(parts, intervals))


def derive_intervals(values: np.ndarray, references: np.ndarray) -> Intervals | None:
    """Fit intervals to the windows that a file keeps, oldest first: calibrated values [n] and references [n]."""
    times, flags = np.arange(len(values)), np.zeros(len(values), np.uint32)
    fitted = fit_intervals([CalibrationErrors(values, references, times, flags)])
    if fitted is None:
        return None
    return replace(fitted.scaled(KEPT_WINDOWS_FACTOR), kept_windows=len(values))


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


def few_blocks_factor(blocks: Sequence[int]) -> float:
    """Return how much wider intervals must be than the errors seen, by the number of blocks of time in each part.

    The next weeks differ from those seen, the more the fewer were seen.

    >>> [few_blocks_factor([100, 20, 20, 20]), few_blocks_factor([4, 4, 4, 4]), few_blocks_factor([1])]
    [1.01, 2.0, 3.0]
    """
    return min(1 + (FEW_BLOCKS / float(np.mean(blocks))) ** 2, MAX_FEW_BLOCKS_FACTOR)


def describe_intervals(intervals: Intervals | None, facts: Mapping[str, Any], unit: str) -> list[str]:
    """Describe the intervals of a calibrator in one line, their coverage of test rows in another, and by flag.

    >>> intervals = Intervals(0.9, (), (1.0,), (2.0,), widening=1.5)
    >>> parts = {"not_flagged": {"rows": 1500, "share": 0.9}, "flagged": {"rows": 500, "share": 0.5}}
    >>> facts = {COVERAGE_FACT: {"level": 0.9, "rows": 2000, "share": 0.8, "width": 3.0, **parts}}
    >>> for line in describe_intervals(intervals, facts, "ppb"):
    ...     print(line)
    The 90 % interval was made at fit, with 1 band; on rows flagged UNSETTLED, SPIKE or OUTSIDE it is 1.5 times as wide.
    It covers 80.0 % of 2,000 test rows, less than stated, and is 3 ppb wide on average.
    It covers 90.0 % of the 1,500 rows without such a flag, 50.0 % of the 500 flagged ones.
    """
    if intervals is None:
        return []
    wider = f"on rows flagged UNSETTLED, SPIKE or OUTSIDE it is {intervals.widening:.3g} times as wide"
    if intervals.widening == 1:
        wider = "it is not widened for flagged rows (too few were seen, or their errors are no larger)"
    bands = plural(len(intervals.below), "band")
    lines = [f"The {100 * intervals.level:g} % interval was {intervals.origin}, with {bands}; {wider}."]
    if coverage := facts.get(COVERAGE_FACT):
        covered = f"It covers {100 * coverage['share']:.1f} % of {coverage['rows']:,} test rows"
        too_low = ", less than stated," if under_covers(coverage["level"], coverage["share"]) else ""
        width = f"{coverage['width']:.3g} {display_unit(unit)}".rstrip()
        lines.append(f"{covered}{too_low} and is {width} wide on average.")
        not_flagged, flagged = coverage.get("not_flagged"), coverage.get("flagged")
        if not_flagged and flagged:
            lines.append(
                f"It covers {100 * not_flagged['share']:.1f} % of the {not_flagged['rows']:,} rows without such a flag,"
                f" {100 * flagged['share']:.1f} % of the {flagged['rows']:,} flagged ones."
            )
    return lines


def under_covers(level: float, share: float) -> bool:
    """Whether the coverage is clearly lower than stated."""
    return share < level - COVERAGE_SLACK


def _fit_table(parts: Sequence[CalibrationErrors], level: float) -> Intervals:
    """Fit distances below and above for each band, from the errors of all parts, as they are and mirrored.

    Errors are divided by the RMSE of their band (of all rows, where a band has too few), so that one quantile serves
    all bands. Bands lie closer together towards the top. Edges are rounded to float32, as on a board.
    """
    # Each row counts twice: with its residual, and with the mirrored one.
    values = np.concatenate([part.values for part in parts for _ in range(2)])
    residuals = np.concatenate([errors for part in parts for errors in (part.residuals, part.mirrored)])
    weights = np.concatenate([np.full(2 * len(part), 1 / len(part)) for part in parts])  # each part weighs the same
    blocks = [len(np.unique(part.blocks)) for part in parts]
    most_bands = int(np.clip(sum(blocks) // BLOCKS_PER_BAND, 1, BANDS))
    ranks = 1 - (1 - np.arange(1, most_bands) / most_bands) ** RANK_EXPONENT  # quantiles at which bands end
    edges = np.unique(_quantiles(values, weights, ranks).astype(np.float32)).astype(np.float64)
    bands = len(edges) + 1  # fewer if edges are equal
    band = np.searchsorted(edges, values, side="right")  # of each value
    squares = np.bincount(band, weights * np.square(residuals), bands)  # weighted sum in each band [bands]
    total = np.bincount(band, weights, bands)
    has_enough = np.bincount(band, minlength=bands) >= 2 * MIN_ROWS  # twice, as each row is there twice
    mean_squares = np.where(has_enough, squares / np.maximum(total, np.finfo(float).tiny), squares.sum() / total.sum())
    rmse = np.maximum(np.sqrt(mean_squares), TINY)
    low, high = _quantiles(residuals / rmse[band], weights, np.array([(1 - level) / 2, (1 + level) / 2]))
    factor = few_blocks_factor(blocks)
    below, above = ((max(quantile, 0.0) * factor * rmse).astype(np.float32).tolist() for quantile in (-low, high))
    return Intervals(level, tuple(edges.tolist()), tuple(below), tuple(above))


def _quantiles(numbers: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return weighted quantiles of numbers [n]: for each share, the first at which the cumulative weight reaches it."""
    order = np.argsort(numbers, kind="stable")
    cumulative = np.cumsum(weights[order])
    positions = np.searchsorted(cumulative, shares * cumulative[-1]).clip(max=len(numbers) - 1)
    return np.asarray(numbers[order][positions])


def _widening(parts: Sequence[CalibrationErrors], intervals: Intervals) -> float:
    """Find how much wider intervals must be for flagged rows to be covered as often as others.

    Each part of the errors (training, validation, blocks after training) needs a factor. They are averaged (geometric
    mean, a part weighs as much as it has blocks of time) with `USUAL_WIDENING`, which weighs `WIDENING_BLOCKS` blocks,
    so that a few flagged rows do not decide.
    """
    factors, blocks = [USUAL_WIDENING], [WIDENING_BLOCKS]
    for part in parts:
        flagged = part.rows((part.flags & UNCERTAIN) > 0)
        if len(flagged) >= MIN_ERRORS:
            low, high = intervals.around(flagged.values, np.zeros(len(flagged), np.uint32))
            distances = np.where(flagged.residuals < 0, flagged.values - low, high - flagged.values)
            # How many times as wide an interval must be to reach its reference.
            relative = np.abs(flagged.residuals) / np.maximum(distances, TINY)
            factors.append(float(np.clip(np.quantile(relative, intervals.level), 1 / MAX_WIDENING, MAX_WIDENING)))
            blocks.append(len(np.unique(flagged.blocks)))
    mean = np.float32(np.exp(np.average(np.log(factors), weights=blocks)))
    return float(np.clip(mean, 1.0, MAX_WIDENING))
