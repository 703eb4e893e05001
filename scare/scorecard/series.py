"""The series behind a card: readings of all devices with their calibrated values, and which rows are scored.

Scored is a row with a reference and a calibrated value, unless the calibrator was made from it: rows of a device that
training or validation had, within that part's period, are only shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator
from scare.data.quality import summary, usable_values
from scare.data.quantities import spell_unit
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, REFERENCE, TIME, Channel, Readings
from scare.errors import DataError
from scare.scorecard.accuracy import fastest, measure, rmse, row_changes
from scare.scorecard.requirements import Finding
from scare.windowing.feeding import Feed


@dataclass(frozen=True)
class Series:
    """Rows of all devices, one device after the other.

    `frame` has `device`, `time`, every channel, `reference`, `calibrated` and `flags`; what counts as missing in an
    input is null. Per row, `raw` is the first input, `changes` its change since the row before (NaN if unknown),
    `reference_changes` that of the reference, `trained` whether the calibrator was trained on it.
    """

    frame: pl.DataFrame
    raw: np.ndarray
    changes: np.ndarray
    reference_changes: np.ndarray
    trained: np.ndarray

    @property
    def scored(self) -> np.ndarray:
        """Which rows are scored, [rows]."""
        known = np.isfinite([self._column(REFERENCE), self._column(CALIBRATED)]).all(axis=0)
        return np.asarray(known & ~self.trained)

    def findings(self, calibrator: Calibrator, arithmetic: str) -> list[Finding]:
        """Mean and instant accuracy, each beside the reference's spread over its own rows."""
        rows = self.scored
        if not rows.any():
            raise DataError(self._why_nothing())
        estimate, reference = self._column(CALIBRATED)[rows], self._column(REFERENCE)[rows]
        found = measure(estimate, reference, self.changes[rows])
        fast, turning = fastest(self.changes[rows]), fastest(self.reference_changes[rows])
        detail = {
            **asdict(found),
            "arithmetic": arithmetic,
            "reference_sd": _spread(reference),
            "raw_rmse": self._raw_rmse(calibrator),
            "line_rmse": _line_rmse(self.raw[rows], reference),
        }
        fast_detail = {"rows": len(fast), "arithmetic": arithmetic, "reference_sd": _spread(reference[fast])}
        return [
            Finding("rmse", found.rmse, _spread(reference), detail),
            Finding("top5_rmse", found.top5_rmse, _spread(reference[fast]), fast_detail),
            Finding("top5_rmse_reference", rmse((estimate - reference)[turning]), detail={"rows": len(turning)}),
        ]

    def facts(self, readings: Sequence[Readings], calibrator: Calibrator) -> dict[str, Any]:
        """What the data are: devices, channels, period, time step, rows, flags."""
        times = self.frame[TIME]
        return {
            "devices": [one.device for one in readings],
            "channels": [_named(channel) for channel in readings[0].channels],
            "inputs": [channel.name for channel in calibrator.inputs.channels],
            "reference": _named(readings[0].reference),
            "period": [_iso(times.min()), _iso(times.max())],
            "step_seconds": float(np.median([one.step_seconds for one in readings])),
            "rows": self.frame.height,
            "rows_with_reference": int(np.isfinite(self._column(REFERENCE)).sum()),
            "rows_calibrated": int(np.isfinite(self._column(CALIBRATED)).sum()),
            "rows_of_training": int(self.trained.sum()),
            "rows_scored": int(self.scored.sum()),
            **_origin(calibrator.facts),
            "flags": summary(self.frame[FLAGS].to_numpy()),
        }

    def _column(self, name: str) -> np.ndarray:
        return self.frame[name].fill_null(np.nan).to_numpy()

    def _raw_rmse(self, calibrator: Calibrator) -> float | None:
        """The error of the reading as it is, where it is known to be in the target's unit."""
        units = [channel.unit for channel in (calibrator.inputs.channels[0], calibrator.target)]
        if not all(units) or spell_unit(units[0]) != spell_unit(units[1]):
            return None
        error = (self.raw - self._column(REFERENCE))[self.scored]
        return rmse(error[np.isfinite(error)])

    def _why_nothing(self) -> str:
        known, values = np.isfinite(self._column(REFERENCE)), np.isfinite(self._column(CALIBRATED))
        if not values.any():
            flags = {name: count for name, count in summary(self.frame[FLAGS].to_numpy()).items() if count}
            return (
                f"no row has a calibrated value (flags: {flags}): are there more readings than its window, at the time"
                " step and in the unit it was made for?"
            )
        if not known.any():
            return "no row has a reference; name its column with --reference"
        if (known & values & self.trained).any():
            return "the calibrator was trained on all of these rows; score it on others"
        return "no row has both a reference and a calibrated value"


def calibrate(calibrator: Calibrator, readings: Sequence[Readings]) -> Series:
    """The readings with the calibrator's values."""
    inputs = calibrator.inputs
    usable = [usable_values(inputs.select(one), inputs.channels, inputs.quality)[0] for one in readings]
    names = [channel.name for channel in inputs.channels]
    known = [pl.DataFrame(values, names).fill_nan(None).get_columns() for values in usable]
    predicted = [calibrator.predict(one).with_columns(columns) for one, columns in zip(readings, known, strict=True)]
    frames = [_in_order(frame, one) for frame, one in zip(predicted, readings, strict=True)]
    raws = [values[:, 0] for values in usable]
    changes = [row_changes(one.times, raw, one.step_seconds) for one, raw in zip(readings, raws, strict=True)]
    turns = [row_changes(one.times, one.targets, one.step_seconds) for one in readings]
    origin = _origin(calibrator.facts)
    trained = [made_from(one.device, one.times, origin) for one in readings]
    return Series(pl.concat(frames), *(np.concatenate(column) for column in (raws, changes, turns, trained)))


def successive_windows(calibrator: Calibrator, readings: Sequence[Readings], count: int) -> np.ndarray:
    """The scaled windows [n, window, channels] of successive rows of one device: `count`, or as many as there are."""
    best = np.empty((0, calibrator.window, len(calibrator.inputs.channels)), np.float32)
    for one in readings:
        for segment in Feed(calibrator.inputs, one.device).segments(one.times, calibrator.inputs.select(one)):
            if min(count, len(segment.ends)) > len(best):
                best = segment.grid.windows(segment.ends[:count])
        if len(best) == count:
            break
    if len(best) < 2:
        raise DataError("no two rows have a whole window: latency needs more readings without gaps")
    return np.ascontiguousarray(best)


def _in_order(frame: pl.DataFrame, readings: Readings) -> pl.DataFrame:
    names = [channel.name for channel in readings.channels]
    reference = pl.col(REFERENCE) if REFERENCE in frame.columns else pl.lit(None, pl.Float64).alias(REFERENCE)
    return frame.select(pl.lit(readings.device).alias(DEVICE), TIME, *names, reference, CALIBRATED, FLAGS)


def _origin(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Devices and period of the readings that a calibrator was made from, as far as its file says."""
    held = facts.get("validation", {})
    return {
        "training_devices": list(facts.get("devices", ())),
        "training_period": list(facts.get("period", ())),
        "validation_devices": list(held.get("devices", ())),
        "validation_period": list(held.get("period", ())),
    }


def made_from(device: str, times: np.ndarray, origin: Mapping[str, Any]) -> np.ndarray:
    """Which rows of a device, at `times` in seconds, training or validation had; `origin` is a card's dataset."""
    rows = np.zeros(len(times), bool)
    for part in ("training", "validation"):
        period = origin[f"{part}_period"]
        if device in origin[f"{part}_devices"] and len(period) == 2:
            first, last = (datetime.fromisoformat(text).timestamp() for text in period)
            rows |= (times >= first) & (times < last + 1)  # the file has whole seconds
    return rows


def _spread(values: np.ndarray) -> float:
    """The standard deviation of what varies; NaN of what does not."""
    return float(values.std()) if len(values) and np.ptp(values) > 0 else float("nan")


def _line_rmse(raw: np.ndarray, reference: np.ndarray) -> float | None:
    """The error of the best straight line from the raw reading, fitted to these very rows: no line does better."""
    known = np.isfinite(raw)
    if known.sum() < 2 or np.ptp(raw[known]) == 0 or np.ptp(reference[known]) == 0:
        return None
    return float(reference[known].std() * np.sqrt(max(0.0, 1 - np.corrcoef(raw[known], reference[known])[0, 1] ** 2)))


def _named(channel: Channel | None) -> dict[str, str] | None:
    return {"name": channel.name, "unit": channel.unit} if channel else None


def _iso(moment: Any) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
