"""Settling finds the scaling of a device never seen from its first `settle` real rows, in fixed memory.

`standard` keeps sums of the differences to the first row. Other methods keep a sample: the last row of each of
`SAMPLE` equally long parts of the time until then, which is every row where `settle` is no larger than that.
Many devices stand side by side; a device that has settled gives its place to another.
"""

from collections.abc import Mapping

import numpy as np

from scare.windowing.columns import Columns
from scare.windowing.scaling import Affine, Scaling, nonzero

SAMPLE = 256  # rows
FREE = -1  # the number of rows of a place that no device is in


class Settling(Columns):
    """The first rows of devices that have no scaling yet, each device in a place of its own."""

    def __init__(self, scaling: Scaling) -> None:
        self._scaling, channels = scaling, len(scaling.fleet.center)
        self._running = scaling.method == "standard"
        kept = ("first", "total", "squares") if self._running else ("sample",)
        rows = () if self._running else (min(SAMPLE, scaling.settle),)
        numbers = {name: np.zeros((*rows, channels)) for name in kept}
        super().__init__({"count": np.array(0), **numbers})
        self._free: list[int] = []

    def enter(self, devices: int) -> np.ndarray:
        """Places for so many new devices."""
        again = np.array(self._free[:devices], np.int64)
        del self._free[:devices]
        self.clear(again)
        return np.concatenate([again, self.add(devices - len(again))])

    def leave(self, places: np.ndarray) -> None:
        """These places are free for other devices."""
        self["count"][places] = FREE
        self._free += places.tolist()

    def follow(self, scaling: Scaling) -> None:
        """Go on for another scaling of the same method and length."""
        self._scaling = scaling

    def missing(self, place: int) -> int:
        """How many rows this device still has to give."""
        return self._scaling.settle - int(self["count"][place])

    def see(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Take a real row [n, channels] of each of these devices; which of them have settled, bool [n]."""
        self._keep(places, self["count"][places], values)
        self["count"][places] += 1
        return self["count"][places] == self._scaling.settle

    def see_all(self, place: int, values: np.ndarray) -> None:
        """Take real rows [n, channels] of one device, no more than are missing."""
        count = self["count"]
        self._keep(np.full(len(values), place), count[place] + np.arange(len(values)), values)
        count[place] += len(values)

    def affine(self, places: np.ndarray) -> Affine:
        """The scalings of devices that have settled, center and scale [n, channels]."""
        if not self._running:
            return self._scaling.own(self["sample"][places])
        first, total, squares = (self[name][places] for name in ("first", "total", "squares"))
        mean = total / self._scaling.settle
        variance = np.maximum(squares / self._scaling.settle - mean**2, 0.0)
        return Affine(first + mean, nonzero(np.sqrt(variance)))

    def _keep(self, places: np.ndarray, nth: np.ndarray, values: np.ndarray) -> None:
        """Rows in order: the one number `nth` (from 0) of each place."""
        if not self._running:
            sample = self["sample"]
            sample[places, nth * sample.shape[1] // self._scaling.settle] = values
            return
        self["first"][places[nth == 0]] = values[nth == 0]
        offset = values - self["first"][places]
        np.add.at(self["total"], places, offset)
        np.add.at(self["squares"], places, offset**2)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take what another has kept."""
        super().restore(state)
        self._free = np.flatnonzero(self["count"] == FREE).tolist()
