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
)
from scare.windowing.device_arrays import DeviceArrays

NEVER = -1  # in place of a day: there has been none
NOT_YET = -1  # in place of a state: it is not known yet
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
                "usual": np.zeros(sums, np.float32),  # sums over the first `USUAL_DAYS` days
                "usual_days": np.array(0, np.int16),
                "recent": np.zeros((RECENT_DAYS, sums), np.float32),  # sums of each of the last days, newest last
                "since": np.array(0, np.int16),  # days after the usual ones, at most `RECENT_DAYS`
                "ended": np.array(NEVER, np.int32),  # the last day that has ended, the same for all
                "state": np.array(NOT_YET, np.int8),
            }
        )

    @property
    def ended(self) -> int:
        """The last day that has ended."""
        return int(self["ended"][: len(self)].max(initial=NEVER))

    def add(self, count: int) -> np.ndarray:
        """Add rows for new devices, up to `MAX_DEVICES`; return their indices."""
        return super().add(min(count, MAX_DEVICES - len(self)))

    def states(self, at: np.ndarray) -> np.ndarray:
        """Return the drift states of devices [n], `NOT_YET` for those that are not watched."""
        states = np.full(len(at), NOT_YET, np.int8)
        watched = at < len(self)
        states[watched] = self["state"][at[watched]]
        return states

    def record(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray, flags: np.ndarray) -> None:
        """Add one row of each device `at` [n] to its hours, and assess all devices when a day has ended.

        `at` are the devices' row indices, `times` seconds [n], `rows` the calibrated value and the channels, scaled
        [n, 1 + channels].
        """
        is_used = ((flags & LEFT_OUT) == 0) & (at < len(self))
        at, times, rows = at[is_used], times[is_used], rows[is_used]
        day = (times // DAY).astype(np.int32)
        hour = (times % DAY // HOUR).astype(np.int64)
        parity = day % 2  # even and odd days have a slot each
        is_new_day = self["day"][at, parity] < day
        for name in ("total", "count"):
            self[name][at[is_new_day], parity[is_new_day]] = 0
        self["day"][at[is_new_day], parity[is_new_day]] = day[is_new_day]
        in_time = self["day"][at, parity] == day  # false for a row two or more days late
        known = (np.abs(rows) <= LARGEST) & in_time[:, None]
        self["total"][at, parity, hour] += np.where(known, rows, 0.0)
        self["count"][at, parity, hour] += known
        if is_new_day.any():
            self._end_days()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over the state of another monitor, except arrays for another number of channels."""
        super().restore({name: array for name, array in state.items() if array.shape[1:] == self[name].shape[1:]})

    def _end_days(self) -> None:
        """End each day that is over, as the module docstring says, and assess all devices after it."""
        days = self["day"][: len(self)]
        for day in np.unique(days[days > self.ended]).tolist():
            was_heard = (days == day).any(axis=1)
            heard_later = days[was_heard].max(axis=1) > day
            if heard_later.mean() < 0.5:
                return
            self._end_day(day)

    def _end_day(self, day: int) -> None:
        """Add a day to the last days of all devices, and to the first days if these are not complete; then assess."""
        here = slice(0, len(self))
        counts, totals = (self[name][here, day % 2].astype(np.float64) for name in ("count", "total"))
        # The slot of a silent device may still hold an earlier day.
        present = (counts > 0) & (self["day"][here, day % 2] == day)[:, None, None]
        hours = np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=present)
        sums = self._meter.sum_day(hours)
        has_baseline = self["usual_days"][here] >= USUAL_DAYS
        is_usual = ~has_baseline & (known_hours(sums, self._meter) >= MEASURED_HOURS)
        self["usual"][here][is_usual] += sums[is_usual]
        self["usual_days"][here] += is_usual
        self["recent"][here] = np.concatenate([self["recent"][here, 1:], sums[:, None]], axis=1)
        self["since"][here] = np.minimum(self["since"][here] + has_baseline, RECENT_DAYS)
        self["ended"][here] = day
        self._assess(here)

    def _assess(self, here: slice) -> None:
        """Set the drift states of the devices in this slice.

        A device without enough days to measure a change stays `NOT_YET`, unless its present level alone is a problem.
        """
        can_compare = self["since"][here] >= RECENT_DAYS
        usual = np.where(can_compare[:, None], self["usual"][here], 0.0).astype(np.float64)
        recent = self["recent"][here].sum(axis=1, dtype=np.float64)
        periods = Periods(usual, recent, self["usual_days"][here], np.where(can_compare, RECENT_DAYS, 0))
        states = assess(periods, self._meter).states
        self["state"][here] = np.where(can_compare | (states > DriftState.FINE), states, NOT_YET)


def state_label(state: int) -> str | None:
    """Return the state as shown to people; None if it is not known yet.

    >>> state_label(NOT_YET), state_label(DriftState.LOOK)
    (None, 'look')
    """
    return None if state == NOT_YET else DriftState(state).label
