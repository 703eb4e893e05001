"""Rings are many devices now: what `ring` does for one, for all that report together."""

from collections.abc import Mapping
from mmap import mmap

import numpy as np

from scare.data.flags import Flag
from scare.windowing.grid import GapPolicy, steps_between

# The ring is the present: the same windows as `slicing`, one reading at a time, in fixed memory.


class Ring:
    """The newest `window` slots of one device.

    >>> from scare.windowing.grid import STRICT
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


# Columns: named arrays with a row for each device, in room that grows by doubling.


LARGE = 1 << 16  # bytes


class Columns:
    """Arrays by name that are as long as there are devices; `new` is what the row of a new device holds.

    >>> columns = Columns({"time": np.array(np.nan), "count": np.array(0)})
    >>> columns.add(2), len(columns)
    (array([0, 1]), 2)
    >>> columns["count"][1] += 5
    >>> columns.state()["count"]
    array([0, 5])
    """

    def __init__(self, new: Mapping[str, np.ndarray]) -> None:
        self._new, self._count = dict(new), 0
        self._room = {name: _room(0, row) for name, row in self._new.items()}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> np.ndarray:
        """The array of this name with the room that is not used yet; it is another one after `add`."""
        return self._room[name]

    def add(self, count: int) -> np.ndarray:
        """Rows of so many new devices: their numbers."""
        added = np.arange(self._count, self._count + count)
        self._count += count
        for name, room in self._room.items():
            if self._count > len(room):
                self._room[name] = _room(max(self._count, 2 * len(room)), self._new[name])
                self._room[name][: len(room)] = room
        self.clear(added)
        return added

    def clear(self, at: np.ndarray) -> None:
        """Make the rows `at` those of new devices."""
        for name, row in self._new.items():
            self._room[name][at] = row

    def state(self) -> dict[str, np.ndarray]:
        """A copy of the rows in use, by name."""
        return {name: room[: self._count].copy() for name, room in self._room.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take such a copy in place of all rows; of a name it lacks, an older version's, devices are new."""
        self._count = len(next(iter(state.values())))
        new = {name: np.repeat(row[None], self._count, axis=0) for name, row in self._new.items()}
        self._room = {name: np.array(state.get(name, row), row.dtype) for name, row in new.items()}


def _room(count: int, row: np.ndarray) -> np.ndarray:
    """Room for so many rows; much of it in pages of its own: one not used takes no memory, and all are given back."""
    if count * row.nbytes < LARGE:
        return np.empty((count, *row.shape), row.dtype)
    return np.frombuffer(mmap(-1, count * row.nbytes), row.dtype).reshape(count, *row.shape)


class Rings(Columns):
    """The newest `window` slots of each device.

    >>> from scare.windowing.grid import STRICT
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
