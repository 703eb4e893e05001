"""Co-location sessions made by hand: a box that reads every hour, beside a reference that its calibrator once hit."""

from dataclasses import replace

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, REFERENCE, Readings
from tests.calibrator.building import TARGET, make_calibrator, make_readings, newest_plan

HOUR = 3600.0
SMALL = make_calibrator(newest_plan())
HOURLY = replace(SMALL, inputs=replace(SMALL.inputs, step_seconds=HOUR))


def air(days: float, seed: int = 0, start_day: float = 20000.0) -> Readings:
    """Readings of box-1: a slow walk of dust, a current around its usual size."""
    rng, rows = np.random.default_rng(seed), round(24 * days)
    walk = np.zeros(rows)
    for row in range(1, rows):
        walk[row] = 0.8 * walk[row - 1] + 0.6 * rng.normal()
    values = np.column_stack([20 + 5 * walk, rng.normal(300, 20, rows)])
    return make_readings(86400 * start_day + HOUR * np.arange(rows), values.clip(0.5))


def session(
    readings: Readings, gain: float = 1.0, offset: float = 0.0, noise: float = 0.3, calibrator: Calibrator = HOURLY
) -> Readings:
    """The readings beside a reference that is so far from what the calibrator gives."""
    values = calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    truth = gain * values + offset + np.random.default_rng(1).normal(0, noise, len(values))
    return with_reference(readings, truth)


def with_reference(readings: Readings, truth: np.ndarray) -> Readings:
    frame = readings.frame.with_columns(pl.Series(REFERENCE, truth))
    return replace(readings, frame=frame, reference=TARGET)
