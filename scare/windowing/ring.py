"""The ring is the present: the same windows as `slicing`, one reading at a time, in fixed memory."""

import numpy as np

from scare.data.flags import Flag
from scare.windowing.slicing import GapPolicy, steps_between


class Ring:
    """The newest `window` slots of one device.

    >>> from scare.windowing.slicing import STRICT
    >>> ring = Ring(3, 1, 60.0, STRICT)
    >>> [int(ring.push(60.0 * i, np.array([float(i)]))) for i in range(3)] == [Flag.HISTORY, Flag.HISTORY, 0]
    True
    >>> ring.window()[:, 0]
    array([0., 1., 2.])
    """

    def __init__(self, window: int, channels: int, step_seconds: float, policy: GapPolicy) -> None:
        self.policy, self.step_seconds = policy, step_seconds
        self._rows = np.empty((window, channels))
        self._checked = np.empty(policy.rows_checked(window), bool)  # was each of the newest rows real?
        self._needed = policy.rows_needed(window)
        self._restart()

    def _restart(self) -> None:
        """Forget all rows."""
        self._rows[:], self._checked[:] = np.nan, False
        self.real_count = 0  # real rows ever pushed
        self._next = 0  # where the next row goes: the oldest row's place
        self._next_checked = 0
        self._age = self.policy.hold + 1  # steps since the last real row
        self._since_broken = 0  # slots since one was held too long
        self._last_time = np.nan

    def push(self, time: float, row: np.ndarray) -> Flag:
        """Take the reading of `time` (seconds) and say why there is no window for it, and whether it is the first."""
        if time < self._last_time - len(self._rows) * self.step_seconds:
            self._restart()
            return Flag.RESTART | self.push(time, row)
        jump = 1 if np.isnan(self._last_time) else steps_between(time - self._last_time, self.step_seconds)
        if jump < 1:
            return Flag.EARLY
        self._last_time = time
        for _ in range(min(jump, self.policy.longest_jump(len(self._rows))) - 1):
            self._fill(None)
        if not np.isfinite(row).all():
            self._fill(None)
            return Flag.MISSING
        self._fill(row)
        enough = np.count_nonzero(self._checked) >= self._needed
        return Flag(0) if enough and self._since_broken >= len(self._checked) else Flag.HISTORY

    def window(self) -> np.ndarray:
        """The rows, oldest first, [window, channels]."""
        return np.roll(self._rows, -self._next, axis=0)

    def _fill(self, row: np.ndarray | None) -> None:
        """Fill one slot with a row, or hold the last one."""
        if row is not None and self.real_count == 0:
            self._rows[:] = row
        self._rows[self._next] = self._rows[self._next - 1] if row is None else row
        self._next = (self._next + 1) % len(self._rows)
        self._checked[self._next_checked] = row is not None
        self._next_checked = (self._next_checked + 1) % len(self._checked)
        self._age = 0 if row is not None else self._age + 1
        self._since_broken = 0 if self._age > self.policy.hold else self._since_broken + 1
        self.real_count += row is not None
