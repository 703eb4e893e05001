"""Columns: named arrays with a row for each device, in room that grows by doubling."""

from collections.abc import Mapping
from mmap import mmap

import numpy as np

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
