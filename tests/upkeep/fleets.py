"""Fleets of hours made by hand: one weather, boxes that follow it, and what is done to some of them."""

from collections.abc import Callable

import numpy as np

from scare.upkeep.drift import BINS, Assessment, DriftMeter, assess, periods

CHANNELS = ("pm25", "T", "RH")
BORDERS = np.tile(np.linspace(-1.2, 1.2, BINS - 1)[:, None], (1, len(CHANNELS)))
METER = DriftMeter(CHANNELS, BORDERS)
Change = Callable[[np.ndarray], None]  # of the hours [boxes, days, 24, 1 + channels] in place


def make_hours(boxes: int = 6, days: int = 30, seed: int = 0, change: Change = lambda hours: None) -> np.ndarray:
    """Hours of a fleet: the calibrated value and the sensor follow the air, weather is the same for all."""
    rng = np.random.default_rng(seed)
    air = 0.6 * rng.standard_normal((days, 24)) + rng.standard_normal((days, 1))
    weather = rng.standard_normal((days, 24, 2))
    noise = 0.05 * rng.standard_normal((boxes, days, 24, 2))
    hours = np.concatenate([air[None, ..., None] + noise, np.broadcast_to(weather, (boxes, *weather.shape))], axis=-1)
    change(hours)
    return hours


def sums_of(hours: np.ndarray, meter: DriftMeter = METER) -> np.ndarray:
    """The sums of every day [boxes, days, sums]."""
    return np.stack([meter.sum_day(hours[:, day]) for day in range(hours.shape[1])], axis=1)


def assessed(hours: np.ndarray, usual_days: int = 14, recent_days: int = 7) -> Assessment:
    """The fleet on its last day."""
    return assess(periods(sums_of(hours), METER, usual_days, recent_days), METER)
