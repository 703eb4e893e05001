"""Named arrays with one row per device, in memory that grows by doubling; they hold the state of all live devices."""

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np

LARGE = 1 << 16  # bytes: arrays of at least this size get their memory from mmap
# Memory of this process alone, as a child that writes the state must not see what changes later; Windows has no fork.
PRIVATE: dict[str, Any] = {}
if hasattr(mmap, "MAP_PRIVATE"):
    PRIVATE["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class DeviceArrays:
    """Named arrays with one row per device; `new` maps each name to the initial row of a new device.

    >>> arrays = DeviceArrays({"time": np.array(np.nan), "count": np.array(0)})
    >>> arrays.add(2), len(arrays)
    (array([0, 1]), 2)
    >>> arrays["count"][1] += 5
    >>> arrays.state()["count"]
    array([0, 5])
    """

    def __init__(self, new: Mapping[str, np.ndarray]) -> None:
        self._new, self._count = dict(new), 0
        self._arrays = {name: _allocate(0, row) for name, row in self._new.items()}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the array of this name, with spare rows at its end; `add` may replace it."""
        return self._arrays[name]

    def add(self, count: int) -> np.ndarray:
        """Add rows for `count` new devices and return their row indices [count]."""
        added = np.arange(self._count, self._count + count)
        self._count += count
        for name, array in self._arrays.items():
            if self._count > len(array):
                self._arrays[name] = _allocate(max(self._count, 2 * len(array)), self._new[name])
                self._arrays[name][: len(array)] = array
        self.clear(added)
        return added

    def clear(self, at: np.ndarray) -> None:
        """Reset the rows with the indices `at` to the initial row of a new device."""
        for name, row in self._new.items():
            self._arrays[name][at] = row

    def state(self) -> dict[str, np.ndarray]:
        """Return the rows in use, without the spare ones, by name; not copied, as a large fleet is large."""
        return {name: array[: self._count] for name, array in self._arrays.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace all rows by those of `state`.

        An array that an older version did not save yet gets the initial row of a new device in every row.
        """
        self._count = len(next(iter(state.values())))
        self._arrays = {name: _allocate(self._count, row) for name, row in self._new.items()}
        for name, row in self._new.items():
            self._arrays[name][:] = state.get(name, row)


def _allocate(count: int, row: np.ndarray) -> np.ndarray:
    """Allocate `count` rows; above 64 KiB from mmap, so untouched pages cost nothing and are returned to the OS."""
    if count * row.nbytes < LARGE:
        return np.empty((count, *row.shape), row.dtype)
    return np.frombuffer(mmap.mmap(-1, count * row.nbytes, **PRIVATE), row.dtype).reshape(count, *row.shape)
