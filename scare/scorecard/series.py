"""Series: every device's rows with their calibrated values, and the accuracy on the rows that are scored.

`calibrate` makes the frame that a run stores; `device_series` splits it by device, when it is made or read back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator, DeviceStreams
from scare.data.flags import count_flags
from scare.data.quantities import conversion, spell_unit
from scare.data.readings import (
    CALIBRATED,
    DEVICE,
    FLAGS,
    HIGH,
    LOW,
    OUTSIDE_CHANNEL,
    OUTSIDE_RANGES,
    REFERENCE,
    TIME,
    Channel,
    Readings,
)
from scare.errors import DataError
from scare.scorecard.accuracy import (
    cover_by_flag,
    fastest,
    known_rows,
    measure,
    origin_of,
    rmse,
    row_changes,
    rows_made_from,
)
from scare.scorecard.requirements import Finding
from scare.windowing.inputs import WindowStream


@dataclass(frozen=True)
class DeviceSeries:
    """One device's rows, [rows] each, NaN for missing; `times` in seconds since 1970, intervals from `low` to `high`.

    `changes` is the change of the raw reading since the row before, `reference_changes` that of the reference, NaN if
    unknown; `trained` says which rows the calibrator was made from.
    """

    device: str
    step_seconds: float
    times: np.ndarray
    raw: np.ndarray
    reference: np.ndarray
    calibrated: np.ndarray
    low: np.ndarray
    high: np.ndarray
    humidity: np.ndarray
    temperature: np.ndarray  # degC
    flags: np.ndarray
    changes: np.ndarray
    reference_changes: np.ndarray
    trained: np.ndarray
    outside_ranges: np.ndarray  # how far beyond training, NaN if unknown

    @staticmethod
    def of_estimates(readings: Readings, estimates: np.ndarray, scored: np.ndarray | None = None) -> "DeviceSeries":
        """Make the series of any method's estimates [rows]; rows that are not in `scored` [rows] get no reference."""
        reference = readings.targets if scored is None else np.where(scored, readings.targets, np.nan)
        raw = readings.values[:, 0]
        return DeviceSeries.of_values(readings.device, readings.step_seconds, readings.times, raw, reference, estimates)

    @staticmethod
    def of_values(
        device: str,
        step_seconds: float,
        times: np.ndarray,
        raw: np.ndarray,
        reference: np.ndarray,
        calibrated: np.ndarray,
    ) -> "DeviceSeries":
        """Make a series of these values [rows], without intervals, weather and flags, and with no row of training."""
        unknown = np.full(len(times), np.nan)
        return DeviceSeries(
            device=device,
            step_seconds=step_seconds,
            times=times,
            raw=raw,
            reference=reference,
            calibrated=calibrated,
            low=unknown,
            high=unknown,
            humidity=unknown,
            temperature=unknown,
            flags=np.zeros(len(times), np.uint32),
            changes=row_changes(times, raw, step_seconds),
            reference_changes=row_changes(times, reference, step_seconds),
            trained=np.zeros(len(times), bool),
            outside_ranges=unknown,
        )

    def __len__(self) -> int:
        return len(self.times)

    def rows(self, keep: np.ndarray) -> "DeviceSeries":
        """Select rows by a bool mask or by indices."""
        arrays = {field.name: getattr(self, field.name)[keep] for field in fields(self)[2:]}  # after device and step
        return DeviceSeries(self.device, self.step_seconds, **arrays)

    @property
    def is_scored(self) -> np.ndarray:
        """Which rows are scored, bool [rows]."""
        return known_rows(self.reference, self.calibrated) & ~self.trained

    @cached_property
    def scored(self) -> "DeviceSeries":
        """The rows that are scored."""
        return self.rows(self.is_scored)

    @property
    def why_not_scored(self) -> str:
        """Why a device has no scored rows."""
        if (known_rows(self.reference, self.calibrated) & self.trained).any():
            return "all rows with both values are of training or validation, which are not scored"
        return "no row has both a reference and a calibrated value"


def pool(series: Sequence[DeviceSeries], name: str) -> DeviceSeries:
    """Concatenate the rows of several devices into one series of this name; its step is the median of theirs."""
    columns = [field.name for field in fields(DeviceSeries)[2:]]  # after device and step
    arrays = {name: np.concatenate([getattr(each, name) for each in series]) for name in columns}
    return DeviceSeries(name, float(np.median([each.step_seconds for each in series])), **arrays)


def device_series(
    frame: pl.DataFrame, raw: str, humidity: str | None, origin: Mapping[str, Any], temperature: Channel | None = None
) -> tuple[DeviceSeries, ...]:
    """Split a frame into devices, sorted by time; `raw` and `humidity` are columns, `origin` is a card's dataset."""
    parts = frame.partition_by(DEVICE, maintain_order=True)
    return tuple(_device(part.sort(TIME), raw, humidity, origin, temperature) for part in parts)


def _device(
    part: pl.DataFrame, raw: str, humidity: str | None, origin: Mapping[str, Any], temperature: Channel | None
) -> DeviceSeries:
    """Convert one device's rows, sorted by time, to arrays; `device_series` explains the arguments."""

    def numbers(name: str) -> np.ndarray:
        if name not in part.columns:  # runs of older versions have no intervals
            return np.full(part.height, np.nan)
        return part[name].cast(pl.Float64).fill_null(np.nan).to_numpy()

    device = part[DEVICE][0]
    times = part[TIME].dt.epoch("us").to_numpy() / 1e6
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    celsius = np.full(part.height, np.nan)
    to_celsius = conversion(temperature.unit, "degC") if temperature else None
    if temperature and to_celsius:
        celsius = to_celsius.gain * numbers(temperature.name) + to_celsius.offset
    series = DeviceSeries.of_values(device, step, times, numbers(raw), numbers(REFERENCE), numbers(CALIBRATED))
    return replace(
        series,
        low=numbers(LOW),
        high=numbers(HIGH),
        humidity=numbers(humidity or ""),  # no column is called "", so NaN without a channel of humidity
        temperature=celsius,
        flags=part[FLAGS].cast(pl.UInt32).fill_null(0).to_numpy(),
        trained=rows_made_from(device, times, origin),
        outside_ranges=numbers(OUTSIDE_RANGES),
    )


@dataclass(frozen=True)
class CalibratedReadings:
    """Readings with their calibrated values.

    `frame` has `device`, `time`, every channel, `reference`, `calibrated`, `low`, `high`, `flags` and how far it is
    outside training, one device after the other; unusable inputs are null. `rows` are the same rows as a series of all
    devices.
    """

    frame: pl.DataFrame
    rows: DeviceSeries

    def findings(self, calibrator: Calibrator, arithmetic: str) -> list[Finding]:
        """Measure the accuracy over all scored rows and at the fastest changes, and the coverage of intervals.

        Each RMSE is graded relative to the reference's standard deviation over the same rows.
        """
        scored = self.rows.scored
        if not len(scored):
            raise DataError(self._why_no_row())
        accuracy = measure(scored.calibrated, scored.reference, scored.changes)
        error = scored.calibrated - scored.reference
        fast = fastest(scored.changes)  # indices of rows
        fast_reference = fastest(scored.reference_changes)
        detail = {
            **asdict(accuracy),
            "arithmetic": arithmetic,
            "reference_sd": _deviation(scored.reference),
            "raw_rmse": _raw_rmse(scored, calibrator),
            "line_rmse": _line_rmse(scored.raw, scored.reference),
        }
        fast_detail = {"rows": len(fast), "arithmetic": arithmetic, "reference_sd": _deviation(scored.reference[fast])}
        return [
            Finding("rmse", accuracy.rmse, _deviation(scored.reference), detail),
            Finding("top5_rmse", accuracy.top5_rmse, _deviation(scored.reference[fast]), fast_detail),
            Finding("top5_rmse_reference", rmse(error[fast_reference]), detail={"rows": len(fast_reference)}),
            *self._coverage_findings(calibrator),
        ]

    def facts(self, readings: Sequence[Readings], calibrator: Calibrator) -> dict[str, Any]:
        """Describe the data for a card: devices, channels, period, time step, rows, flags."""
        times, rows = self.frame[TIME], self.rows
        first_and_last = np.quantile(rows.scored.times, [0, 1])
        return {
            "devices": [box.device for box in readings],
            "channels": [_named(channel) for channel in readings[0].channels],
            "inputs": [channel.name for channel in calibrator.inputs.channels],
            "reference": _named(readings[0].reference),
            "period": [_iso(times.min()), _iso(times.max())],
            "step_seconds": float(np.median([box.step_seconds for box in readings])),
            "rows": len(rows),
            "rows_with_reference": int(np.isfinite(rows.reference).sum()),
            "rows_calibrated": int(np.isfinite(rows.calibrated).sum()),
            "rows_of_training": int(rows.trained.sum()),
            "rows_scored": len(rows.scored),
            "scored_period": [_iso(datetime.fromtimestamp(end, UTC)) for end in first_and_last],
            **origin_of(calibrator.facts),
            "flags": count_flags(rows.flags),
        }

    def _coverage_findings(self, calibrator: Calibrator) -> list[Finding]:
        """Measure coverage and width of the intervals; empty for a calibrator without intervals."""
        scored = self.rows.scored
        level = calibrator.intervals.level if calibrator.intervals else 0.0
        coverage = cover_by_flag(scored.low, scored.high, scored.reference, scored.flags, level)
        if coverage is None:
            return []
        detail = {**coverage, "origin": calibrator.intervals.origin if calibrator.intervals else ""}
        return [
            Finding("interval_coverage", 100 * coverage["share"], 100 * level, detail),
            Finding("interval_width", coverage["width"]),
        ]

    def _why_no_row(self) -> str:
        """Return why no row is scored, and what to do about it."""
        rows = self.rows
        if not np.isfinite(rows.calibrated).any():
            flags = {name: count for name, count in count_flags(rows.flags).items() if count}
            return (
                f"no row has a calibrated value (flags: {flags}); check that there are more readings than the window"
                " of the calibrator, at its time step and in its units"
            )
        if not np.isfinite(rows.reference).any():
            return "no row has a reference; name its column with --reference"
        if (known_rows(rows.reference, rows.calibrated) & rows.trained).any():
            return "the calibrator was trained on all of these rows; score it on others"
        return rows.why_not_scored


def calibrate(calibrator: Calibrator, readings: Sequence[Readings]) -> CalibratedReadings:
    """Calibrate the readings of all devices, one after the other."""
    inputs = calibrator.inputs
    frames = []
    for box in readings:
        usable = pl.DataFrame(inputs.usable(box), [channel.name for channel in inputs.channels]).fill_nan(None)
        rows = DeviceStreams(calibrator).push(box.frame.with_columns(pl.lit(box.device).alias(DEVICE)))
        frame = rows.with_columns(pl.Series(FLAGS, box.flags) | pl.col(FLAGS), *usable.get_columns())
        names = [channel.name for channel in box.channels]
        reference = pl.col(REFERENCE) if REFERENCE in frame.columns else pl.lit(None, pl.Float64).alias(REFERENCE)
        frames.append(
            frame.select(DEVICE, TIME, *names, reference, CALIBRATED, LOW, HIGH, FLAGS, OUTSIDE_RANGES, OUTSIDE_CHANNEL)
        )
    frame = pl.concat(frames)
    series = device_series(frame, inputs.channels[0].name, None, origin_of(calibrator.facts))
    return CalibratedReadings(frame, pool(series, "all devices"))


def coverage_of(
    calibrator: Calibrator, predictions: Sequence[pl.DataFrame], readings: Sequence[Readings]
) -> dict[str, Any] | None:
    """Measure how often a calibrator's intervals contain the reference, as `cover_by_flag`; None without any.

    `predictions` are its results for the `readings`, in the same order.
    """
    if calibrator.intervals is None:
        return None
    table = pl.concat([table.select(LOW, HIGH, FLAGS) for table in predictions])
    low, high = table.select(LOW, HIGH).fill_null(np.nan).to_numpy().T
    reference = np.concatenate([box.targets for box in readings])
    return cover_by_flag(low, high, reference, table[FLAGS].to_numpy(), calibrator.intervals.level)


def successive_windows(calibrator: Calibrator, readings: Sequence[Readings], count: int) -> np.ndarray:
    """Cut scaled windows [n, window, channels] at successive rows of one device.

    There are `count`, or the most that any device has without a gap.
    """
    best = np.empty((0, calibrator.window, len(calibrator.inputs.channels)), np.float32)
    for box in readings:
        for segment in WindowStream(calibrator.inputs, box.device).segments(box.times, calibrator.inputs.select(box)):
            if min(count, len(segment.ends)) > len(best):
                best = segment.grid.windows(segment.ends[:count])
        if len(best) == count:
            break
    if len(best) < 2:
        raise DataError("fewer than two rows have a whole window; to time the model, give more readings without gaps")
    return np.ascontiguousarray(best)


def _deviation(values: np.ndarray) -> float:
    """Return the standard deviation; NaN for constant or no values, because no error can be divided by it."""
    return float(values.std()) if len(values) and np.ptp(values) > 0 else float("nan")


def _raw_rmse(scored: DeviceSeries, calibrator: Calibrator) -> float | None:
    """Return the RMSE of the raw reading; None unless it is known to be in the target's unit."""
    units = [channel.unit for channel in (calibrator.inputs.channels[0], calibrator.target)]
    if not all(units) or spell_unit(units[0]) != spell_unit(units[1]):
        return None
    error = scored.raw - scored.reference
    return rmse(error[np.isfinite(error)])


def _line_rmse(raw: np.ndarray, reference: np.ndarray) -> float | None:
    """Return the RMSE of a line through the raw reading, fitted to the scored rows themselves.

    No line fitted to other rows has a lower error here. None if the line is not defined.
    """
    known = np.isfinite(raw)
    if known.sum() < 2 or np.ptp(raw[known]) == 0 or np.ptp(reference[known]) == 0:
        return None
    r2 = np.corrcoef(raw[known], reference[known])[0, 1] ** 2
    return float(reference[known].std() * np.sqrt(max(0.0, 1 - r2)))  # the root mean square of its residuals


def _named(channel: Channel | None) -> dict[str, str] | None:
    return {"name": channel.name, "unit": channel.unit} if channel else None


def _iso(moment: Any) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
