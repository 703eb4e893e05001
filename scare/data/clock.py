"""Compare the clocks of a sensor and a reference by how their curves correlate when one of them is shifted.

A shift is what has to be added to the sensor's times. Every sum behind Pearson's r is a cross-correlation, so the FFT
gives all shifts at once, gaps included. The finer of the two series enters as a moving average over the step of the
coarser one: shifts are tried in a twelfth of that step, which finds half-hour time zones beside an hourly station. The
search is repeated over parts of the period, for a clock that drifts, was reset or follows daylight saving.
Called by `reference_file`, `scare align` and the web page.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from scare.data.alignment import COARSER, COMPLETENESS, only_channel, period
from scare.data.flags import usable_values
from scare.data.readings import Readings
from scare.data.time_zones import zone_with_offsets
from scare.errors import DataError
from scare.words import duration

FARTHEST = 14 * 3600.0  # s: the largest shift tried; no time zone is further from UTC
FINE_STEPS = 12  # shifts tried within a step of the coarser series
MAX_CELLS = 1 << 22  # most cells of the grid on which two series are compared
MIN_PAIRS = 3  # fewest pairs of rows for a correlation
MIN_VARIANCE = 1e-9  # relative to the whole series; less is rounding
TIE = 0.02  # share of the unexplained variance: shifts that differ by less are equally good
CLEAR_GAIN = 0.15  # share of the unexplained variance that a shift must remove before a clock is called wrong
ROUNDING = 1e-9  # rounding error of a squared correlation
EVIDENT = 0.5  # share of the unexplained variance that may remain for a shift that is applied unasked
WEAK = 0.3  # a lower correlation says nothing about clocks
APART = 2 * 3600.0  # s: shifts closer together count as one
LEAST_OVERLAP = 2 * 86400.0  # s: over less, slow air correlates with itself at any shift
# The period is divided into parts, each with a shift of its own, to find a clock that was reset or drifts.
PART_SECONDS, MAX_PARTS = 4 * 86400.0, 16
ROUND = (3600.0, 1800.0, 900.0)  # s: shifts that a time zone can explain


@dataclass(frozen=True)
class ClockOffset:
    """Seconds to `shift` the sensor by, and the correlation with and without that shift."""

    seconds: float
    correlation: float
    correlation_at_zero: float

    @property
    def is_clear(self) -> bool:
        """Whether the shift raises the correlation so much that a clock must be wrong."""
        before = _unexplained(self.correlation_at_zero)
        gain = before - _unexplained(self.correlation)
        return bool(abs(self.correlation) >= WEAK and gain > max(CLEAR_GAIN * before, ROUNDING))


@dataclass(frozen=True)
class CrossCorrelation:
    """Pearson's r of sensor and reference, for each shift of the sensor; NaN for a shift with too few pairs."""

    seconds: np.ndarray  # shifts [lags]
    values: np.ndarray  # correlations [lags]

    @cached_property
    def offset(self) -> ClockOffset:
        """The shift with the largest absolute correlation; of shifts around it that are as good, the roundest.

        Air changes slowly, so the top of the curve is flat: no shift, whole, half and quarter hours come first.
        """
        strength = np.abs(self.values)
        best = int(np.nanargmax(strength))
        # Written as "not as good", so that NaN (too few pairs) also ends the top of the curve.
        worse = np.flatnonzero(~(_unexplained(strength) <= (1 + TIE) * _unexplained(strength[best])))
        first = worse[worse < best].max(initial=-1) + 1
        last = worse[worse > best].min(initial=len(strength)) - 1
        top = self.seconds[first : last + 1]  # the shifts around the best one that are as good
        by_roundness = (top[top % size == 0] for size in (np.inf, *ROUND))  # only 0 is a multiple of infinity
        roundest = next((shifts for shifts in by_roundness if len(shifts)), self.seconds[[best]])
        shift = roundest[np.abs(roundest - self.seconds[best]).argmin()]  # the nearest to the best
        chosen = int(np.flatnonzero(self.seconds == shift)[0])
        zero = int(np.argmin(np.abs(self.seconds)))
        return ClockOffset(float(self.seconds[chosen]), float(self.values[chosen]), float(self.values[zero]))

    @property
    def is_at_end(self) -> bool:
        """Whether the best shift is the largest one tried, so that a larger one may be better."""
        known = self.seconds[np.isfinite(self.values)]
        return len(known) > 1 and self.offset.seconds in (known[0], known[-1])

    @cached_property
    def as_good(self) -> tuple[float, ...]:
        """Other shifts, hours away, that correlate as well as the best: peaks of a daily cycle, in seconds."""
        strength = np.nan_to_num(np.abs(self.values))
        # The largest unexplained share that is as good; the second TIE is for curves that leave almost nothing
        # unexplained, where a share of it would be too little.
        limit = (1 + TIE) * _unexplained(self.offset.correlation) + TIE
        before, after = np.append(0, strength[:-1]), np.append(strength[1:], 0)  # of the neighbouring shifts
        is_peak = (strength >= before) & (strength >= after)
        good = np.flatnonzero(is_peak & (_unexplained(strength) <= limit))
        strongest_first = good[np.argsort(-strength[good])]
        shifts = [self.offset.seconds]
        for seconds in self.seconds[strongest_first].tolist():
            if all(abs(seconds - other) >= APART for other in shifts):
                shifts.append(seconds)
        return tuple(shifts[1:])


class ClockChange(NamedTuple):
    """A clock that was reset: when, and the shift before and after, in seconds."""

    time: datetime
    before: float
    after: float


@dataclass(frozen=True)
class ClockCheck:
    """The comparison of a sensor's clock with a reference's, including what remains in doubt."""

    device: str
    correlations: CrossCorrelation  # over the whole period
    change: ClockChange | None  # if the clock was reset
    drift: float  # seconds a day; 0 for a steady clock
    shifts: tuple[tuple[float, float], ...]  # times (s) and the shift (s) at each; one for a steady clock
    reference_step: float  # s
    overlap: float  # s

    @property
    def offset(self) -> ClockOffset:
        """The best shift of the whole period."""
        return self.correlations.offset

    @property
    def is_weak(self) -> bool:
        """Whether sensor and reference correlate too little to compare their clocks."""
        return not self.offset.is_clear and bool(abs(np.nan_to_num(self.offset.correlation_at_zero)) < WEAK)

    @property
    def is_off(self) -> bool:
        """Whether one of the clocks must be wrong, or in another time zone."""
        has_moved = self.change is not None or self.drift != 0
        return self.overlap >= LEAST_OVERLAP and (self.offset.is_clear or has_moved)

    @property
    def is_evident(self) -> bool:
        """Whether the best shift improves the correlation so much, and no other as much, that it is applied unasked."""
        with_shift, as_is = _unexplained(self.offset.correlation), _unexplained(self.offset.correlation_at_zero)
        is_unique = not self.correlations.as_good and not self.correlations.is_at_end and not self.drift
        return self.is_off and is_unique and with_shift < EVIDENT * as_is

    @property
    def sensor_zone(self) -> str:
        """The time zone that the sensor's times are probably in, if they were read as UTC; empty if none fits."""
        return zone_with_offsets([(time, -seconds) for time, seconds in self.shifts]) if self.is_off else ""

    @property
    def reference_zone(self) -> str:
        """Like `sensor_zone`, for a reference whose times were read as UTC."""
        return zone_with_offsets(self.shifts) if self.is_off else ""

    @property
    def is_stamped_at_beginning(self) -> bool:
        """Whether the shift is as if the reference stamped averages at the beginning of their interval."""
        return self.is_off and self.change is None and not self.drift and self.offset.seconds == -self.reference_step

    def describe(self) -> list[str]:
        """Explain the result to a person, in sentences."""
        best = self.offset
        shifted = duration(self.offset.seconds, signed=True)
        if self.is_weak:
            return [
                f"{self.device}: sensor and reference hardly correlate (at best {best.correlation:.2f}, shifted by"
                f" {shifted}), so their clocks cannot be compared; check that they measure the same air"
            ]
        lines = []
        if self.change:
            lines.append(
                f"{self.device}: the sensor's clock was set about {self.change.time:%Y-%m-%d}: it fits best shifted by"
                f" {_spell(self.change.before)} before and by {_spell(self.change.after)} after; correct it before"
                " training"
            )
        elif self.drift:
            first, last = self.shifts[0][1], self.shifts[-1][1]
            lines.append(
                f"{self.device}: the sensor's clock drifts by {duration(self.drift, signed=True)} a day, from a"
                f" shift of {_spell(first)} to {_spell(last)}; correct it before training"
            )
        elif self.is_off:
            lines.append(
                f"{self.device}: the clocks disagree: correlation {best.correlation:.3f} with the sensor shifted by"
                f" {shifted}, {best.correlation_at_zero:.3f} as it is"
            )
        elif best.is_clear:
            lines.append(
                f"{self.device}: correlation {best.correlation:.3f} with the sensor shifted by {shifted},"
                f" {best.correlation_at_zero:.3f} as it is; {duration(self.overlap)} are too short to tell that a clock"
                " is wrong"
            )
        else:
            lines.append(f"{self.device}: the clocks agree (correlation {best.correlation_at_zero:.3f})")
        return lines + self._explain() if self.is_off else lines

    def _explain(self) -> list[str]:
        lines = []
        start = f"{self.device}:"  # of each line
        if self.is_stamped_at_beginning:
            step = duration(self.reference_step)
            lines.append(f"{start} the reference may stamp its means of {step} at their beginning: --stamp begin")
        zones = {
            f"sensor times in {self.sensor_zone} (--timezone)": self.sensor_zone,
            f"reference times in {self.reference_zone} (--reference-timezone)": self.reference_zone,
        }
        possible = [text for text, zone in zones.items() if zone]
        named_after_places = [text for text in possible if not zones[text].startswith("Etc/")]  # not Etc/GMT-1
        if possible:
            lines.append(f"{start} {' or '.join(named_after_places or possible)} would explain it")
        if self.correlations.is_at_end:
            lines.append(f"{start} a larger shift may fit better still; compare the dates of the two files")
        if self.correlations.as_good:
            others = ", ".join(duration(seconds, signed=True) for seconds in self.correlations.as_good)
            lines.append(
                f"{start} a shift of {others} fits as well, as a daily cycle repeats; state the time zones instead"
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        change = self.change
        return {
            **vars(self.offset),
            "is_off": self.is_off,
            "at_end_of_search": self.correlations.is_at_end,
            "as_good_seconds": list(self.correlations.as_good),
            "drift_seconds_per_day": self.drift,
            "reset": {**change._asdict(), "time": change.time.isoformat()} if change else None,
            "sensor_time_zone": self.sensor_zone,
            "reference_time_zone": self.reference_zone,
            "may_stamp_beginning": self.is_stamped_at_beginning,
        }


def check_clock(sensor: Readings, reference: Readings, channel: str, max_seconds: float = FARTHEST) -> ClockCheck:
    """Compare the clocks by a channel of the sensor and the only channel of the reference.

    The best shift of the whole period holds throughout, unless its parts show that the clock was reset or drifts.
    """
    pair = _pair(sensor, reference, channel, max_seconds)
    whole = pair.correlations
    change, drift = None, 0.0
    shifts = [(pair.time(len(pair.truth) // 2), whole.offset.seconds)]
    of_parts = [(time, part.offset.seconds) for time, part in pair.parts() if _is_sure(part)]
    if len(of_parts) > 1:
        change, drift, shifts = _find_reset_or_drift(pair, of_parts, whole)
    return ClockCheck(sensor.device, whole, change, drift, tuple(shifts), reference.step_seconds, pair.overlap_seconds)


def find_clock_offset(
    sensor: Readings, reference: Readings, channel: str, max_seconds: float = FARTHEST
) -> ClockOffset:
    """Find the shift of the sensor with the largest absolute correlation, over the whole period."""
    return _pair(sensor, reference, channel, max_seconds).correlations.offset


@dataclass(frozen=True)
class _Pair:
    """Sensor and reference on one grid of times, from the same first cell; NaN in cells where there is no value.

    Each array ends with its own last value, so one may have fewer cells than the other.
    """

    sensor: np.ndarray  # [cells of the sensor]
    truth: np.ndarray  # the reference [cells of the reference]
    start: float  # time of the first cell, in seconds since 1970
    step: float  # seconds between cells
    lags: int  # largest shift tried, in cells

    @cached_property
    def correlations(self) -> CrossCorrelation:
        values = _lagged_correlations(self.sensor, self.truth, self.lags)
        return CrossCorrelation(self.step * np.arange(-self.lags, self.lags + 1), values)

    def time(self, cell: int) -> float:
        """Return the time of a cell, in seconds since 1970."""
        return self.start + cell * self.step

    @property
    def overlap_seconds(self) -> float:
        """The time from the first to the last value of the reference."""
        known = np.flatnonzero(np.isfinite(self.truth))
        return float(known[-1] - known[0]) * self.step if len(known) else 0.0

    def parts(self) -> list[tuple[float, CrossCorrelation]]:
        """Return the time of the middle of each part of the period, in seconds since 1970, and its correlations."""
        known = np.flatnonzero(np.isfinite(self.truth))
        count = int(np.clip(self.overlap_seconds // PART_SECONDS, 1, MAX_PARTS))
        parts = []
        for first, end in pairwise(np.linspace(known[0], known[-1] + 1, count + 1).astype(int)):
            # The reference of this part alone, with the sensor's values that a shift may bring to it from either side.
            start = max(0, first - self.lags)
            truth = self.truth[start:end].copy()
            truth[: first - start] = np.nan
            part = replace(self, sensor=self.sensor[start : end + self.lags], truth=truth, start=self.time(start))
            if np.isfinite(part.correlations.values).any():
                parts.append((self.time((first + end) // 2), part.correlations))
        return parts

    def errors(self, seconds: float) -> np.ndarray:
        """Return the absolute difference of the standardised series at a shift [cells]; NaN where one is missing."""
        lag = round(seconds / self.step)
        cells = np.arange(len(self.truth)) - lag  # the sensor's cell that comes to each cell of the reference
        exists = (cells >= 0) & (cells < len(self.sensor))
        shifted = np.where(exists, self.sensor[np.clip(cells, 0, len(self.sensor) - 1)], np.nan)
        return np.abs(_standardise(shifted) - _standardise(self.truth))


def _pair(sensor: Readings, reference: Readings, channel: str, max_seconds: float) -> _Pair:
    """Put a channel of the sensor and the reference on one grid; the finer is averaged over the coarser step."""
    steps = sensor.step_seconds, reference.step_seconds
    fine, coarse = min(steps), max(steps)
    near = (reference.times >= sensor.times[0] - max_seconds) & (reference.times <= sensor.times[-1] + max_seconds)
    if not near.any():
        raise DataError(
            f"{sensor.device}: no clock offset up to {duration(max_seconds)} brings the readings and the reference"
            f" together; the readings cover {period(sensor)} and the reference {period(reference)}"
        )
    # Cells in a step of the coarser series; 0.01 allows for inexact steps.
    cells_per_step = 1 if coarse < COARSER * fine else min(FINE_STEPS, int(coarse / fine + 0.01))
    truth = reference.rows(near)
    first = min(sensor.times[0], truth.times[0])
    span = max(sensor.times[-1], truth.times[-1]) - first
    step = coarse / cells_per_step
    step *= max(1, int(np.ceil(span / step / MAX_CELLS)))  # wider cells for a period of more than `MAX_CELLS`
    # Cells end where the coarser series has its times.
    phase = (sensor if steps[0] > steps[1] else truth).times[0]
    start = phase - step * np.ceil((phase - first) / step + 1)  # + 1: a cell or more before the first time
    grids = []
    for readings, name in ((sensor, channel), (truth, only_channel(reference).name)):
        is_finer = cells_per_step > 1 and readings.step_seconds < coarse / COARSER
        grids.append(_average_on_grid(readings, name, start, step, cells_per_step if is_finer else 1))
    pair = _Pair(grids[0], grids[1], start, step, int(max_seconds // step))
    if np.isnan(pair.correlations.values).all():
        raise DataError(
            f"{sensor.device}: '{channel}' and the reference never vary at the same times, so their clocks cannot be"
            " compared"
        )
    return pair


def _average_on_grid(readings: Readings, name: str, start: float, step: float, window: int) -> np.ndarray:
    """Average a channel's usable values on a grid of `step` seconds from `start` [cells]; NaN where there are none.

    With a `window` of 1, a value belongs to the cell whose time is nearest, so that jitter does not matter. With a
    larger one, a cell ends at its time and has the mean of this and the `window` - 1 cells before.
    """
    names = [channel.name for channel in readings.channels]
    if name not in names:
        raise DataError(f"{readings.device}: no channel '{name}'; there are {', '.join(names)}")
    values = usable_values(readings.values, readings.channels)[0][:, names.index(name)]
    known = np.isfinite(values)
    positions = (readings.times[known] - start) / step  # in cells
    # 1e-6: a time that is on the grid but for rounding stays in its cell.
    cells = (np.ceil(positions - 1e-6) if window > 1 else np.rint(positions)).astype(int)
    counts = np.bincount(cells, minlength=window).astype(float)  # values in each cell
    sums = np.bincount(cells, values[known], minlength=window)
    if window > 1:
        cells_with_values = np.convolve(counts > 0, np.ones(window))[: len(counts)]
        counts, sums = (np.convolve(totals, np.ones(window))[: len(totals)] for totals in (counts, sums))
        counts[cells_with_values < COMPLETENESS * window] = 0  # too few for a mean
    return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def _is_sure(part: CrossCorrelation) -> bool:
    """Whether a part of the period correlates well enough, at one shift only, to trust that shift."""
    return abs(part.offset.correlation) >= 2 * WEAK and not part.as_good and not part.is_at_end


def _find_reset_or_drift(
    pair: _Pair, shifts: list[tuple[float, float]], whole: CrossCorrelation
) -> tuple[ClockChange | None, float, list[tuple[float, float]]]:
    """Find a reset or a drift in the shifts of successive parts; otherwise the shift of the whole period holds.

    `shifts` has the time (s) and the shift (s) of each part. Returns the reset, the drift in seconds a day, and the
    `shifts` of a `ClockCheck`. A drift fits a line to the shifts, a reset one constant before it and one after it;
    whichever leaves the smaller sum of absolute errors is found, unless both leave more than the tolerance a part.
    """
    times, seconds = np.array(shifts).T  # [parts] each
    tolerance = max(3 * pair.step, 300.0)  # s between shifts that count as equal
    largest_error = len(seconds) * tolerance  # s: the largest sum of absolute errors of a line or of two constants
    steady = [(time, whole.offset.seconds) for time in times]
    if np.ptp(seconds) <= tolerance:
        return None, 0.0, steady

    def deviations(values: np.ndarray) -> float:
        return float(np.abs(values - np.median(values)).sum())

    # The sum of absolute errors of two constants, by the first part after the reset.
    reset_errors = {part: deviations(seconds[:part]) + deviations(seconds[part:]) for part in range(1, len(seconds))}
    first_after = min(reset_errors, key=reset_errors.__getitem__)
    before, after = float(np.median(seconds[:first_after])), float(np.median(seconds[first_after:]))
    slope, level = np.polyfit(times - times.mean(), seconds, 1)
    line = level + slope * (times - times.mean())
    line_error = float(np.abs(seconds - line).sum())
    # A line through two or three parts fits too easily to prove a drift.
    if len(seconds) >= 4 and line_error <= min(reset_errors[first_after], largest_error):
        return None, float(slope * 86400), [*zip(times.tolist(), line.tolist(), strict=True)]
    if abs(after - before) <= tolerance or reset_errors[first_after] > largest_error:
        return None, 0.0, steady
    when = _time_of_reset(pair, before, after)
    shift_of_parts = [(time, before if time < when else after) for time in times.tolist()]
    return ClockChange(datetime.fromtimestamp(when, UTC), before, after), 0.0, shift_of_parts


def _time_of_reset(pair: _Pair, before: float, after: float) -> float:
    """Find when a clock was set, in seconds since 1970, from the shift (s) that fits before and the one after.

    Up to the reset, the shift `before` leaves the smaller errors, so the running sum of the differences falls; then it
    rises. The reset is at its lowest value.
    """
    difference = np.nan_to_num(pair.errors(before) - pair.errors(after))
    return pair.time(int(np.argmin(np.cumsum(difference))))


def _lagged_correlations(sensor: np.ndarray, truth: np.ndarray, lags: int) -> np.ndarray:
    """Return Pearson's r of `sensor[i]` and `truth[i + lag]` for each lag from -`lags` to `lags` [2 · lags + 1].

    It is NaN where pairs are too few.
    """
    size = 1 << (max(len(sensor), len(truth)) + 2 * lags).bit_length()  # so that no lag wraps around
    # Spectra of the sensor (x) and the reference (y): of 1 where there is a value, the value, its square.
    known_x, x, square_x = np.conj(np.fft.rfft(_powers(sensor), size))
    known_y, y, square_y = np.fft.rfft(_powers(truth), size)

    def sum_of_products(spectrum: np.ndarray) -> np.ndarray:
        """Turn a product of spectra into the sum over i of x[i] · y[i + lag], for each lag."""
        return np.fft.irfft(spectrum, size)[np.arange(-lags, lags + 1)]

    # Pairs of values at each lag; 1 if there is none, so that nothing is divided by 0.
    pairs = np.maximum(np.rint(sum_of_products(known_x * known_y)), 1)
    mean_x, mean_y = sum_of_products(x * known_y) / pairs, sum_of_products(known_x * y) / pairs
    variance_x = sum_of_products(square_x * known_y) / pairs - mean_x**2
    variance_y = sum_of_products(known_x * square_y) / pairs - mean_y**2
    covariance = sum_of_products(x * y) / pairs - mean_x * mean_y
    valid = pairs >= max(MIN_PAIRS, pairs.max() / 2)  # half of the most: few pairs correlate well by chance
    valid &= np.minimum(variance_x, variance_y) > MIN_VARIANCE
    return np.where(valid, covariance / np.sqrt(np.where(valid, variance_x * variance_y, 1.0)), np.nan)


def _powers(values: np.ndarray) -> np.ndarray:
    """Return 1 where there is a value, the standardised value and its square; all 0 where there is none [3, cells].

    Their cross-correlations are the number of pairs and the sums behind Pearson's r, with gaps left out.
    """
    scaled = np.nan_to_num(_standardise(values))
    return np.stack([np.isfinite(values), scaled, scaled**2])


def _standardise(values: np.ndarray) -> np.ndarray:
    """Subtract the median and divide by the standard deviation; a series that never changes becomes exactly 0."""
    known = np.isfinite(values)
    if not known.any():
        return values
    centred = values - np.median(values[known])
    return centred / (float(np.std(centred[known])) or 1.0)


def _unexplained(correlation: Any) -> Any:
    """Return the share of the variance that a correlation leaves unexplained; 1 where the correlation is NaN."""
    return 1 - np.nan_to_num(correlation) ** 2


def _spell(seconds: float) -> str:
    return duration(round(seconds), signed=True) if round(seconds) else "nothing"
