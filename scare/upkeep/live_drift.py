"""Watching: devices that report now are judged at the end of every day, by what `watch` would say of their readings.

Of each device the hours of two days are kept, the sums of its first days and those of its last: about three kilobytes.
A day ends for all when half of the devices heard on it have been heard on a later one; what comes later is too late.
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
    Periods,
    State,
    drift_meter,
    judge,
    known_hours,
)
from scare.windowing.live import Columns

NEVER = -1
NOT_YET = -1  # in place of a state
MOST = 10_000  # devices of a model that are watched: no more are neighbours, and memory is for windows


class Watching(Columns):
    """What is remembered of devices, each a row."""

    def __init__(self, calibrator: Calibrator) -> None:
        self._meter = drift_meter(calibrator)
        series, sums = 1 + len(self._meter.channels), sum(self._meter.sizes)
        super().__init__(
            {
                "day": np.full(2, NEVER, np.int32),  # since 1970: even and odd ones in turn
                "total": np.zeros((2, 24, series), np.float32),
                "count": np.zeros((2, 24, series), np.uint16),
                "usual": np.zeros(sums, np.float32),
                "usual_days": np.array(0, np.int16),
                "recent": np.zeros((RECENT_DAYS, sums), np.float32),  # newest last
                "since": np.array(0, np.int16),  # days after the usual ones
                "ended": np.array(NEVER, np.int32),  # the last day that has ended, for all the same
                "state": np.array(NOT_YET, np.int8),
            }
        )

    def add(self, count: int) -> np.ndarray:
        """Rows of so many new devices, as far as there is room: their numbers."""
        return super().add(min(count, MOST - len(self)))

    def states(self, at: np.ndarray) -> np.ndarray:
        """The states of devices [n], `NOT_YET` of those that are not watched."""
        found = np.full(len(at), NOT_YET, np.int8)
        inside = at < len(self)
        found[inside] = self["state"][at[inside]]
        return found

    def see(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray, flags: np.ndarray) -> None:
        """Take a row each of devices `at`: calibrated value and channels in scales [n, 1 + channels]."""
        kept = ((flags & LEFT_OUT) == 0) & (at < len(self))
        at, rows, day = at[kept], rows[kept], (times[kept] // DAY).astype(np.int32)
        hour, turn = (times[kept] % DAY // HOUR).astype(np.int64), day % 2
        new = self["day"][at, turn] < day
        for name, empty in (("total", 0), ("count", 0)):
            self[name][at[new], turn[new]] = empty
        self["day"][at[new], turn[new]] = day[new]
        current = self["day"][at, turn] == day
        known = (np.abs(rows) <= LARGEST) & current[:, None]
        self["total"][at, turn, hour] += np.where(known, rows, 0.0)
        self["count"][at, turn, hour] += known
        if new.any():
            self._end_days()

    def _end_days(self) -> None:
        """Judge all devices on each day that is over."""
        devices, ended = len(self), self.ended
        days = self["day"][:devices]
        for day in np.unique(days[days > ended]).tolist():
            heard = (days == day).any(axis=1)
            if (days[heard].max(axis=1) > day).mean() < 0.5:
                return
            self._end(day)

    @property
    def ended(self) -> int:
        """The last day that has ended."""
        return int(self["ended"][: len(self)].max(initial=NEVER))

    def _end(self, day: int) -> None:
        here = slice(0, len(self))
        counts, totals = (self[name][here, day % 2].astype(np.float64) for name in ("count", "total"))
        there = (counts > 0) & (self["day"][here, day % 2] == day)[:, None, None]
        hours = np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=there)
        sums = self._meter.sum_day(hours)
        settled = self["usual_days"][here] >= USUAL_DAYS
        usual = ~settled & (known_hours(sums, self._meter) >= MEASURED_HOURS)
        self["usual"][here][usual] += sums[usual]
        self["usual_days"][here] += usual
        self["recent"][here] = np.concatenate([self["recent"][here, 1:], sums[:, None]], axis=1)
        self["since"][here] = np.minimum(self["since"][here] + settled, RECENT_DAYS)
        self["ended"][here] = day
        self._judge(here)

    def _judge(self, here: slice) -> None:
        ready = self["since"][here] >= RECENT_DAYS
        usual = np.where(ready[:, None], self["usual"][here], 0.0).astype(np.float64)
        recent = self["recent"][here].sum(axis=1, dtype=np.float64)
        lengths = self["usual_days"][here], np.where(ready, RECENT_DAYS, 0)
        states = judge(Periods(usual, recent, *lengths), self._meter).states
        self["state"][here] = np.where(ready | (states > State.FINE), states, NOT_YET)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take what another has kept; of another number of channels, nothing."""
        super().restore({name: one for name, one in state.items() if one.shape[1:] == self[name].shape[1:]})


def state_words(state: int) -> str | None:
    """As people read it; None if it is not known yet.

    >>> state_words(NOT_YET), state_words(State.LOOK)
    (None, 'look')
    """
    return None if state == NOT_YET else State(state).words
