"""Persistence: the reference as it was one window ago, without any sensor.

Stations publish late. A calibration that is no better than the station's last published value is not worth its
sensor, and a slow pollutant makes every score look good: persistence shows how much of it is the air's own memory.
It needs a reference beside the sensor when it predicts, so it is a yardstick only, never a calibrator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from scare.data.readings import CALIBRATED, Channel, Readings
from scare.errors import NotApplicableError
from scare.windowing.feeding import Inputs


@dataclass(frozen=True)
class Persistence:
    """The newest reference at least `lag_seconds` old and at most twice that."""

    lag_seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, readings: Readings) -> pl.DataFrame:
        """The rows of one device with `calibrated`, null where no reference is old and new enough."""
        if readings.reference is None:
            raise NotApplicableError(f"needs the reference when it predicts; {readings.device} has none")
        real = np.isfinite(readings.targets)
        times, values = readings.times[real], readings.targets[real]
        until = readings.times - self.lag_seconds
        newest = np.searchsorted(times, until, side="right") - 1
        calibrated = np.full(len(readings), np.nan)
        old = newest >= 0
        calibrated[old] = values[newest[old]]
        calibrated[old] = np.where(until[old] - times[newest[old]] <= self.lag_seconds, calibrated[old], np.nan)
        return readings.frame.with_columns(pl.Series(CALIBRATED, calibrated).fill_nan(None))


def persistence(
    train: Sequence[Readings], validation: Sequence[Readings], inputs: Inputs, target: Channel
) -> Persistence:
    """The reference one window ago; nothing is fitted."""
    found = Persistence(inputs.window * inputs.step_seconds, {"model": "persistence", "parameters": 0, "bytes": 0})
    for one in (*train, *validation):
        if np.isfinite(one.targets).any() and found.predict(one)[CALIBRATED].is_not_null().any():
            return found
    hours = found.lag_seconds / 3600
    raise NotApplicableError(f"needs a reference one window ({hours:.3g} hours) earlier; no row has one")
