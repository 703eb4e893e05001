"""Drift of devices that report live, assessed at the end of every day as `drift.watch` would assess their readings.

Each device takes about three kilobytes: the hours of two days, the sums of its first days and those of its last days.
A day ends for all devices when half of the devices heard on it have been heard on a later day; rows of that day that
arrive after its end do not count. Called by `live/fleet`.
"""

from collections.abc import Mapping

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import LARGEST
from scare.upkeep.drift import (
    ALARM_DAYS,
    DAY,
    HOUR,
    LEFT_OUT,
    MEASURED_HOURS,
    RECENT_DAYS,
    USUAL_DAYS,
    DriftState,
    Periods,
    assess,
    drift_meter,
    known_hours,
    next_state,
)
from scare.windowing.device_arrays import DeviceArrays

NEVER = -1  # in place of a day: there has been none
MAX_DEVICES = 10_000  # devices watched per model; more need no closer neighbours, and memory is for windows


class DriftMonitor(DeviceArrays):
    """The drift of a model's devices; each device is a row of the arrays, numbered by `add`."""

    def __init__(self, calibrator: Calibrator) -> None:
        self._meter = drift_meter(calibrator)
        series, sums = 1 + len(self._meter.channels), sum(self._meter.sizes)
        super().__init__(
            {
                "day": np.full(2, NEVER, np.int32),  # days since 1970: the newest even one and the newest odd one
                "total": np.zeros((2, 24, series), np.float32),  # sums of the rows of each hour of those days
                "count": np.zeros((2, 24, series), np.uint16),  # rows in those sums
                "usual": np.zeros(sums, np.float32),  # sums (`DriftMeter`) over the first `USUAL_DAYS` days
                "usual_days": np.array(0, np.int16),
                "recent": np.zeros((RECENT_DAYS, sums), np.float32),  # sums of each of the last days, newest last
                "since": np.array(0, np.int16),  # days after the usual ones, at most `RECENT_DAYS`
                "ended": np.array(NEVER, np.int32),  # the last day that has ended, the same for all
                "days": np.zeros(ALARM_DAYS, np.int8),  # the state that each of the last days alone shows, newest last
                "lasted": np.array(0, np.int8),  # the state that has lasted
                "state": np.array(DriftState.UNKNOWN, np.int8),
                "expected": np.array(np.nan, np.float32),  # as `BoxReport.expected_error`
            }
        )

    @property
    def ended(self) -> int:
        """The last day that has ended, in days since 1970."""
        return int(self["ended"][: len(self)].max(initial=NEVER))

    def add(self, count: int) -> np.ndarray:
        """Add rows for new devices, up to `MAX_DEVICES`; return their indices."""
        return super().add(min(count, MAX_DEVICES - len(self)))

    def states(self, indices: np.ndarray) -> np.ndarray:
        """Return the drift states of devices, given by index [n], `UNKNOWN` for those that are not watched."""
        states = np.full(len(indices), DriftState.UNKNOWN, np.int8)
        is_watched = indices < len(self)
        states[is_watched] = self["state"][indices[is_watched]]
        return states

    def expected_errors(self, indices: np.ndarray) -> np.ndarray:
        """Return the expected errors of devices, given by index [n], NaN where they are not known."""
        expected = np.full(len(indices), np.nan)
        is_watched = indices < len(self)
        expected[is_watched] = self["expected"][indices[is_watched]]
        return expected

    def record(self, indices: np.ndarray, times: np.ndarray, rows: np.ndarray, flags: np.ndarray) -> None:
        """Add one row of each device to its hours, and assess all devices when a day has ended.

        `indices` are those of the devices [n], `times` seconds [n], `rows` the calibrated value and the channels,
        scaled [n, 1 + channels].
        """
        is_used = ((flags & LEFT_OUT) == 0) & (indices < len(self))
        indices, times, rows = indices[is_used], times[is_used], rows[is_used]
        day = (times // DAY).astype(np.int32)
        hour = (times % DAY // HOUR).astype(np.int64)
        parity = day % 2  # even and odd days have a slot each
        is_new_day = self["day"][indices, parity] < day
        begins = indices[is_new_day], parity[is_new_day]  # slots in which a day begins
        self["total"][begins] = self["count"][begins] = 0
        self["day"][begins] = day[is_new_day]
        in_time = self["day"][indices, parity] == day  # false for a row two or more days late
        known = (np.abs(rows) <= LARGEST) & in_time[:, None]
        # No device is there twice, so += adds every row.
        self["total"][indices, parity, hour] += np.where(known, rows, 0.0)
        self["count"][indices, parity, hour] += known
        if is_new_day.any():
            self._end_days()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over the state of another monitor.

        If that keeps other sums, as one of other channels does, only its devices and the last day that ended are taken
        over, and what is usual for a device is measured anew.
        """
        is_alike = all(array.shape[1:] == self[name].shape[1:] for name, array in state.items())
        super().restore(state if is_alike else {"ended": state["ended"]})

    def _end_days(self) -> None:
        """End each day that is over, as the module docstring says, and assess all devices after it."""
        days = self["day"][: len(self)]
        for day in np.unique(days[days > self.ended]).tolist():
            was_heard = (days == day).any(axis=1)
            heard_later = days[was_heard].max(axis=1) > day
            if heard_later.mean() < 0.5:  # for most devices that were heard the day may go on
                return
            self._end_day(day)

    def _end_day(self, day: int) -> None:
        """Add a day to the last days of all devices, and to the first days if these are not complete; then assess."""
        devices = slice(0, len(self))  # the arrays have room for more
        counts = self["count"][devices, day % 2].astype(np.float64)  # [devices, 24, 1 + channels]
        totals = self["total"][devices, day % 2].astype(np.float64)
        # The slot of a silent device may still hold an earlier day.
        is_known = (counts > 0) & (self["day"][devices, day % 2] == day)[:, None, None]
        hours = np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=is_known)
        sums = self._meter.sum_day(hours)
        has_baseline = self["usual_days"][devices] >= USUAL_DAYS
        is_usual = ~has_baseline & (known_hours(sums, self._meter) >= MEASURED_HOURS)
        self["usual"][devices][is_usual] += sums[is_usual]
        self["usual_days"][devices] += is_usual
        self["recent"][devices] = np.concatenate([self["recent"][devices, 1:], sums[:, None]], axis=1)
        self["since"][devices] = np.minimum(self["since"][devices] + has_baseline, RECENT_DAYS)  # one more day if so
        self["ended"][devices] = day
        self._assess(devices)

    def _assess(self, devices: slice) -> None:
        """Set the drift states of the devices in this slice.

        A device without enough days, or without other devices, to measure a change stays `UNKNOWN`, unless its present
        readings alone are a problem.
        """
        can_compare = self["since"][devices] >= RECENT_DAYS  # days since the usual ones
        usual = np.where(can_compare[:, None], self["usual"][devices], 0.0).astype(np.float64)
        recent = self["recent"][devices].sum(axis=1, dtype=np.float64)
        periods = Periods(usual, recent, self["usual_days"][devices], np.where(can_compare, RECENT_DAYS, 0))
        found = assess(periods, self._meter)
        days = np.concatenate([self["days"][devices, 1:], found.states[:, None]], axis=1)
        lasted = next_state(self["lasted"][devices], days)
        self["days"][devices], self["lasted"][devices] = days, lasted
        self["state"][devices] = np.where(found.compared | (lasted > DriftState.FINE), lasted, DriftState.UNKNOWN)
        self["expected"][devices] = found.expected
