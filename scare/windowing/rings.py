"""Rings are many devices now: what `ring` does for one, for all that report together."""

import numpy as np

from scare.data.flags import Flag
from scare.windowing.columns import Columns
from scare.windowing.slicing import GapPolicy


class Rings(Columns):
    """The newest `window` slots of each device.

    >>> from scare.windowing.slicing import STRICT
    >>> rings = Rings(2, 1, 60.0, STRICT)
    >>> both = rings.add(2)
    >>> [rings.push(both, np.full(2, 60.0 * i), np.array([[i], [10.0 * i]])).tolist() for i in range(2)]
    [[1024, 1024], [0, 0]]
    >>> rings.windows(both)[..., 0]
    array([[ 0.,  1.], [ 0., 10.]])
    """

    def __init__(self, window: int, channels: int, step_seconds: float, policy: GapPolicy) -> None:
        self._policy, self._window, self._step_seconds = policy, window, step_seconds
        none, self._needed = np.array(0, np.int32), policy.rows_needed(window)
        super().__init__(
            {
                "rows": np.full((window, channels), np.nan),
                "checked": np.zeros(policy.rows_checked(window), bool),  # was each of the newest rows real?
                "next": none,  # where the next row goes: the oldest row's place
                "next_checked": none,
                "age": none + policy.hold + 1,  # steps since the last real row
                "since_broken": none,  # slots since one was held too long
                "filled": np.array(False),  # whether there was a real row
                "last_time": np.array(np.nan),
            }
        )

    def push(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Take a row [n, channels] of each device `at`; what `Ring.push` says of each, uint32 [n]."""
        back = times < self["last_time"][at] - self._window * self._step_seconds
        self.clear(at[back])
        return self._push(at, times, rows) | np.where(back, np.uint32(Flag.RESTART), np.uint32(0))

    def windows(self, at: np.ndarray) -> np.ndarray:
        """The rows of each device, oldest first, [n, window, channels]."""
        order = (self["next"][at, None] + np.arange(self._window)) % self._window
        rows = self["rows"]
        return rows.reshape(-1, rows.shape[2]).take(order + self._window * at[:, None], axis=0)

    def _push(self, at: np.ndarray, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Why there is no window for rows that go on with what is before, or 0."""
        reasons = np.full(len(at), Flag.EARLY, np.uint32)
        last = self["last_time"][at]
        jumps = np.where(np.isnan(last), 1.0, (times - last) / self._step_seconds + 0.5)
        real, taken = np.isfinite(rows).all(axis=1), jumps >= 1
        self["last_time"][at[taken]] = times[taken]
        holes = np.minimum(jumps, self._policy.longest_jump(self._window)).astype(np.int64) - real
        for hole in range(holes[taken].max(initial=0)):
            self._hold(at[taken & (holes > hole)])
        self._take(at[taken & real], rows[taken & real])
        reasons[taken & ~real] = Flag.MISSING
        reasons[taken & real] = np.where(self._usable(at[taken & real]), 0, Flag.HISTORY)
        return reasons

    def _usable(self, at: np.ndarray) -> np.ndarray:
        checked = self["checked"][at]
        enough = np.count_nonzero(checked, axis=1) >= self._needed
        return enough & (self["since_broken"][at] >= checked.shape[1])

    def _take(self, at: np.ndarray, rows: np.ndarray) -> None:
        """Fill one slot with a row."""
        first = ~self["filled"][at]
        self["rows"][at[first]] = rows[first, None]
        self["filled"][at[first]] = True
        self["rows"][at, self["next"][at]] = rows
        self["age"][at] = 0
        self["since_broken"][at] += 1
        self._advance(at, True)

    def _hold(self, at: np.ndarray) -> None:
        """Fill one slot with the row before."""
        self["rows"][at, self["next"][at]] = self["rows"][at, self["next"][at] - 1]
        self["age"][at] = np.minimum(self["age"][at] + 1, self._policy.hold + 1)
        held_too_long = self["age"][at] > self._policy.hold
        self["since_broken"][at] = np.where(held_too_long, 0, self["since_broken"][at] + 1)
        self._advance(at, False)

    def _advance(self, at: np.ndarray, real: bool) -> None:
        checked = self["checked"]
        self["next"][at] = (self["next"][at] + 1) % self._window
        checked[at, self["next_checked"][at]] = real
        self["next_checked"][at] = (self["next_checked"][at] + 1) % checked.shape[1]
