"""The newest results of every device, in memory, for the page that `http` serves.

When a device is shown as silent is decided in the browser (`page/table.js`).
"""

from collections import Counter
from collections.abc import Sequence
from threading import Lock
from time import sleep, time
from typing import Any

import numpy as np

from scare.data.flags import flag_names
from scare.errors import DataError
from scare.live.pipeline import Result, finite
from scare.upkeep.drift import DriftState

KEPT = 240  # newest results kept per device, fewer if that would be more than MOST in all
MOST = 4_000_000  # results of all devices together, about 110 MB
SPARKS = 30  # newest results in the sparkline of a table row
SLICE, PAUSE_SECONDS = 500, 0.001  # rows made at once, and the pause in which a waiting `publish` gets its turn
NUMBERS = ("raw", "calibrated", "low", "high")
KINDS = {"time": np.float64, **dict.fromkeys(NUMBERS, np.float32), "flags": np.uint32}  # columns of the ring


class Recent:
    """A sink that keeps the newest results of each device in a ring buffer.

    Every `publish` has a number and marks the devices it changes, so that a client gets only what is new to it.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._lock = kept, Lock()
        self._devices: dict[str, int] = {}  # index of a device in the lists and arrays below
        self._names: list[str] = []
        self._models: list[str] = []
        self._watch: list[str | None] = []
        self._expected: list[float | None] = []  # errors to expect, relative to those of the first days
        self._columns = {name: np.zeros((0, kept), kind) for name, kind in KINDS.items()}  # [devices, kept]
        self._counts = np.zeros(0, np.int64)  # results so far [devices]
        self._changes = np.zeros(0, np.int64)  # number of the last change [devices]
        self._heard = np.zeros(0, np.float64)  # time of the last arrival, in seconds since 1970 [devices]
        self._change = 0  # number of the newest change

    def __len__(self) -> int:
        return len(self._names)

    def publish(self, results: Sequence[Result]) -> bool:
        """Keep all results except late ones; always True, as memory never has to be waited for."""
        kept = [result for result in results if not result.is_late]
        with self._lock:
            self._change += 1  # also if nothing is kept: a number that marks no device tells clients nothing new
            if kept:
                self._keep_results(kept)
        return True

    def keep(self, number: int) -> None:
        """Do nothing: results in memory may be lost."""

    def _keep_results(self, results: Sequence[Result]) -> None:
        """Write results over the oldest ones in their devices' rings, each column at once."""
        before = Counter[str]()  # results of a device that come earlier among these
        # Of each result: the index of its device, and its number since the device's first.
        indices, numbers = np.empty((2, len(results)), np.int64)
        for position, result in enumerate(results):
            index = self._devices.get(result.device)
            indices[position] = index = self._add(result.device) if index is None else index
            numbers[position] = self._counts.item(index) + before[result.device]
            before[result.device] += 1
            self._models[index], self._watch[index] = result.model, DriftState(result.watch).label
            self._expected[index] = finite(round(result.expected_error, 3))
        # A device's ring has `_kept` slots, which its results fill in turn. `_add` may have shortened all rings, to
        # make room for more devices: so slots are known only now.
        slots = numbers % self._kept
        for name in KINDS:
            self._columns[name][indices, slots] = [getattr(result, name) for result in results]
        np.add.at(self._counts, indices, 1)
        self._changes[indices] = self._change
        self._heard[indices] = round(time(), 1)

    def _add(self, device: str) -> int:
        """Add a device and return its index; when the arrays are full, they double."""
        index = self._devices[device] = len(self._names)
        self._names.append(device)
        self._models.append("")
        self._watch.append(None)
        self._expected.append(None)
        if index == len(self._counts):
            spare = max(64, index)
            self._shorten(max(SPARKS, MOST // (index + spare)))
            self._columns = {name: _grow(array, spare) for name, array in self._columns.items()}
            arrays = (self._counts, self._changes, self._heard)
            self._counts, self._changes, self._heard = (_grow(array, spare) for array in arrays)
        return index

    def _shorten(self, kept: int) -> None:
        """Keep only the newest `kept` results of each device, if that is fewer than so far."""
        if kept >= self._kept:
            return
        if self._counts.max(initial=0) <= kept:  # as after a start: no ring has gone round yet
            self._columns = {name: old[:, :kept].copy() for name, old in self._columns.items()}
            self._kept = kept
            return
        # Numbers of the results that stay, counted from the first of each device [devices, kept].
        numbers = self._counts[:, None] - 1 - np.arange(kept)
        devices = np.arange(len(numbers))[:, None]
        for name, old in self._columns.items():
            self._columns[name] = np.zeros((len(numbers), kept), old.dtype)
            self._columns[name][devices, numbers % kept] = old[devices, numbers % self._kept]
        self._kept = kept

    def changed(self, since: int, sparks: bool = False) -> tuple[int, list[list[Any]]]:
        """Return the number of the newest change, and a row for each device changed `since`.

        A row is [device, model, time, raw, calibrated, low, high, flags, time of arrival, expected error, drift state],
        and, with `sparks`, a list of the last calibrated values. A row may already be of a newer change than the number
        says.
        """
        with self._lock:
            newest = self._change
            since = -1 if since > newest else since  # a client from before a restart gets everything
            changed = np.flatnonzero(self._changes[: len(self._names)] > since).tolist()
        rows = []
        for start in range(0, len(changed), SLICE):
            if start:
                sleep(PAUSE_SECONDS)
            with self._lock:
                rows += [self._row(index, sparks) for index in changed[start : start + SLICE]]
        return newest, rows

    def _row(self, index: int, sparks: bool) -> list[Any]:
        """Return the newest result of a device, as `changed` describes it."""
        last = (self._counts[index] - 1) % self._kept  # its position in the ring
        when, *numbers, flags = (self._columns[name][index, last].item() for name in KINDS)
        row = [self._names[index], self._models[index], when, *map(_short, numbers), flags]
        row += [self._heard[index].item(), self._expected[index], self._watch[index]]
        if sparks:
            newest = self._order(index)[-SPARKS:]
            row.append([_short(value) for value in self._columns["calibrated"][index, newest].tolist()])
        return row

    def device(self, name: str) -> dict[str, Any]:
        """Return all results kept of a device, oldest first."""
        with self._lock:
            if name not in self._devices:
                raise DataError(f"the device '{name}' has not reported since the start")
            index = self._devices[name]
            order = self._order(index)
            when, *numbers, flags = (self._columns[column][index, order].tolist() for column in KINDS)
            model, expected, watch = self._models[index], self._expected[index], self._watch[index]
        return {
            "device": name,
            "model": model,
            "expected_error": expected,
            "watch": watch,
            "time": when,
            **{column: list(map(_short, values)) for column, values in zip(NUMBERS, numbers, strict=True)},
            "flags": flags,
            "flag_names": {str(bits): flag_names(bits) for bits in sorted(set(flags))},
        }

    def _order(self, index: int) -> np.ndarray:
        """Return the ring positions of a device's results, oldest first."""
        count = int(self._counts[index])
        return np.arange(max(0, count - self._kept), count) % self._kept


def _short(number: float) -> float | None:
    """Round to the six significant digits of a float32; None for NaN."""
    return finite(float(f"{number:.6g}"))


def _grow(array: np.ndarray, spare: int) -> np.ndarray:
    """Append `spare` rows of zeros, which take no memory until they are written to."""
    grown = np.zeros((len(array) + spare, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
