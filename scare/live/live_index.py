"""The air quality index of each device as it reports: hourly means of its results, and the index of the newest hour.

An hour counts with three quarters of its readings; the newest is the last that is over, or that has all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scare.calibrator.air_index import COMPLETE, HOUR, IndexOf, IndexReading

NONE = -1  # number of an hour of which nothing is kept


@dataclass
class _Device:
    """Hours since 1970 [kept] with sums of value, low and high and a count [kept, 4]; the newest index and its hour."""

    hours: np.ndarray
    sums: np.ndarray
    hour: int = NONE
    newest: IndexReading | None = None


class LiveIndex:
    """The index of the devices of one model; `level` is that of the intervals."""

    def __init__(self, of: IndexOf, level: float, step_seconds: float) -> None:
        self.of, self._level, self._expected = of, level, max(1.0, HOUR / step_seconds)
        self._kept = of.hours + 1  # and the hour that is not over
        self._devices: dict[str, _Device] = {}

    def add(self, device: str, time: float, value: float, low: float, high: float) -> IndexReading | None:
        """Add a result, NaN for none, and return the device's index; None before there are enough hours."""
        kept = self._devices.get(device) or self._devices.setdefault(device, self._empty())
        hour = int(time // HOUR)
        place = hour % self._kept
        if hour > kept.hours[place]:
            kept.hours[place], kept.sums[place] = hour, 0.0
        if hour == kept.hours[place] and np.isfinite(value):
            kept.sums[place] += value, low, high, 1.0
        full = kept.sums[place, 3] >= self._expected
        newest = int(kept.hours.max()) - (not (full and hour == kept.hours.max()))
        if newest > kept.hour:
            kept.hour, kept.newest = newest, self._read(kept, newest)
        return kept.newest

    def _read(self, kept: _Device, newest: int) -> IndexReading | None:
        """Read the index off the hours up to the newest."""
        numbers = newest - np.arange(self.of.hours)[::-1]
        places = numbers % self._kept
        counts = kept.sums[places, 3]
        complete = (kept.hours[places] == numbers) & (counts >= COMPLETE * self._expected)
        means = np.where(complete[:, None], kept.sums[places, :3] / np.maximum(counts, 1)[:, None], np.nan)
        return self.of.read(means, self._level)

    def _empty(self) -> _Device:
        return _Device(np.full(self._kept, NONE), np.zeros((self._kept, 4)))

    def continue_from(self, before: "LiveIndex") -> None:
        """Keep the hours of an index of the same kind, made by the model that this one's replaces."""
        if before.of == self.of:
            self._devices = before._devices

    def state(self, devices: Sequence[str], prefix: str) -> dict[str, np.ndarray]:
        """Return what is kept of these devices as arrays, in their order."""
        kept = [self._devices.get(device) or self._empty() for device in devices]
        hours = np.array([one.hours for one in kept], np.int64).reshape(-1, self._kept)
        sums = np.array([one.sums for one in kept]).reshape(-1, self._kept, 4)
        return {f"{prefix}hours": hours, f"{prefix}sums": sums}

    def restore(self, devices: Sequence[str], arrays: Mapping[str, np.ndarray], prefix: str) -> None:
        """Continue from a state of these devices; the index comes with the next result. One of other hours is left."""
        if f"{prefix}hours" in arrays and arrays[f"{prefix}hours"].shape[1] == self._kept:
            for device, hours, sums in zip(devices, arrays[f"{prefix}hours"], arrays[f"{prefix}sums"], strict=True):
                self._devices[device] = _Device(hours.copy(), sums.copy())
