"""The air quality index of each device as it reports: hourly means of its results, and the index of the newest hour.

An hour counts if it has three quarters of its readings. The newest hour is the last one that is over, or the present
one as soon as it has all its readings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scare.calibrator.air_index import COMPLETE, HOUR, IndexOf, IndexReading

NO_HOUR = -1


@dataclass
class _Device:
    """The last hours of a device, in a ring of `kept` places: hour h is at place h % kept."""

    hours: np.ndarray  # number of each hour since 1970 [kept], `NO_HOUR` for an empty place
    sums: np.ndarray  # of value, low and high, and the count of readings [kept, 4]
    newest_hour: int = NO_HOUR  # the hour of `newest`
    newest: IndexReading | None = None


class LiveIndex:
    """The index of each device of one model; `level` is the share of cases in which intervals contain the truth."""

    def __init__(self, of: IndexOf, level: float, step_seconds: float) -> None:
        self.of, self._level = of, level
        self._expected = max(1.0, HOUR / step_seconds)  # readings in an hour
        self._kept = of.hours + 1  # those of the average, and the hour that is not over
        self._devices: dict[str, _Device] = {}

    def add(self, device: str, time: float, value: float, low: float, high: float) -> IndexReading | None:
        """Add a result, NaN for a missing value, and return the device's index; None until enough hours are known."""
        ring = self._devices.get(device) or self._devices.setdefault(device, self._empty())
        hour = int(time // HOUR)
        place = hour % self._kept
        if hour > ring.hours[place]:
            ring.hours[place], ring.sums[place] = hour, 0.0
        if hour == ring.hours[place] and np.isfinite(value):  # an older hour is no longer in the ring
            ring.sums[place] += value, low, high, 1.0
        last_hour = int(ring.hours.max())
        has_all = hour == last_hour and ring.sums[place, 3] >= self._expected
        newest_hour = last_hour if has_all else last_hour - 1
        if newest_hour > ring.newest_hour:
            ring.newest_hour, ring.newest = newest_hour, self._read(ring, newest_hour)
        return ring.newest

    def _read(self, ring: _Device, newest_hour: int) -> IndexReading | None:
        """Compute the index from the hours up to the newest, oldest first; None if too few are complete."""
        hours = newest_hour - np.arange(self.of.hours)[::-1]
        places = hours % self._kept
        counts = ring.sums[places, 3]
        is_complete = (ring.hours[places] == hours) & (counts >= COMPLETE * self._expected)
        means = ring.sums[places, :3] / np.maximum(counts, 1)[:, None]  # value, low and high [hours, 3]
        return self.of.read(np.where(is_complete[:, None], means, np.nan), self._level)

    def _empty(self) -> _Device:
        return _Device(np.full(self._kept, NO_HOUR), np.zeros((self._kept, 4)))

    def continue_from(self, before: "LiveIndex") -> None:
        """Take over the hours that were counted with the replaced model, if its index is the same."""
        if before.of == self.of:
            self._devices = before._devices

    def state(self, devices: Sequence[str], prefix: str) -> dict[str, np.ndarray]:
        """Return the hours of these devices as arrays [devices, kept, ...], whose names begin with `prefix`."""
        rings = [self._devices.get(device) or self._empty() for device in devices]
        hours = np.array([ring.hours for ring in rings], np.int64).reshape(-1, self._kept)
        sums = np.array([ring.sums for ring in rings]).reshape(-1, self._kept, 4)
        return {f"{prefix}hours": hours, f"{prefix}sums": sums}

    def restore(self, devices: Sequence[str], arrays: Mapping[str, np.ndarray], prefix: str) -> None:
        """Continue from the arrays of `state`, unless they are of an index that averages other hours.

        The index of a device is known again with its next result.
        """
        if f"{prefix}hours" in arrays and arrays[f"{prefix}hours"].shape[1] == self._kept:
            for device, hours, sums in zip(devices, arrays[f"{prefix}hours"], arrays[f"{prefix}sums"], strict=True):
                self._devices[device] = _Device(hours.copy(), sums.copy())
