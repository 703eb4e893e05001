"""Feeding turns one device's readings into scaled windows and flags, the same way in training, prediction and live use.

Readings → unusable values taken as missing → quality rules → grid (`slicing`) or ring (`ring`) → the device's scaling.
All flags of a row come from here; what the rules remember of earlier rows is carried from chunk to chunk.
"""

from dataclasses import dataclass, replace

import numpy as np

from scare.data.flags import Flag, Flagging, QualitySettings, usable_values
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.windowing.ring import Ring
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.settling import Settling
from scare.windowing.slicing import GapPolicy, Grid, lay, row_flags


@dataclass(frozen=True)
class Inputs:
    """What a calibrator reads: channels, their scaling, the time step, and when a window may be used."""

    channels: tuple[Channel, ...]
    scaling: Scaling
    step_seconds: float
    window: int
    policy: GapPolicy
    quality: QualitySettings

    def flagging(self) -> Flagging:
        """The quality rules at the beginning of one device's rows."""
        return Flagging(self.channels, self.step_seconds, self.quality)

    def select(self, readings: Readings) -> np.ndarray:
        """The values of these channels, in this order, [rows, channels]."""
        names = [channel.name for channel in readings.channels]
        missing = [channel.name for channel in self.channels if channel.name not in names]
        if missing:
            raise DataError(f"{readings.device}: no channel {', '.join(missing)}; there are {', '.join(names)}")
        return readings.values[:, [names.index(channel.name) for channel in self.channels]]


@dataclass(frozen=True)
class Segment:
    """Rows that share one scaling: the scaled grid, the slots their windows end in, and their row numbers."""

    grid: Grid
    ends: np.ndarray
    rows: np.ndarray


class Feed:
    """One device's windows, chunk by chunk: chunks of any size give what the whole would."""

    def __init__(self, inputs: Inputs, device: str) -> None:
        self._inputs, self._scaling = inputs, _DeviceScaling(inputs.scaling, device)
        self._flagging = inputs.flagging()
        self._history: Grid | None = None

    def take(self, times: np.ndarray, values: np.ndarray) -> tuple[list[Segment], np.ndarray]:
        """Segments of scaled windows, and the flags [rows], of rows `times` (seconds) and `values`."""
        usable, flags = usable_values(values, self._inputs.channels, self._inputs.quality)
        flags |= self._flagging.take(times[:, None], usable[:, None])[:, 0]
        segments, reasons = self._cut(times, usable)
        return segments, flags | reasons

    def segments(self, times: np.ndarray, values: np.ndarray) -> list[Segment]:
        """The same segments, for those who do not ask for flags."""
        usable, _ = usable_values(values, self._inputs.channels, self._inputs.quality)
        return self._cut(times, usable)[0]

    def _cut(self, times: np.ndarray, values: np.ndarray) -> tuple[list[Segment], np.ndarray]:
        """Segments of usable values, and why rows have no window or how they are scaled [rows]."""
        inputs = self._inputs
        grid = lay(times, values, inputs.step_seconds, inputs.window, inputs.policy, self._history)
        self._history = grid.tail()
        usable = grid.usable(inputs.policy)
        flags = row_flags(grid, usable)
        real = np.flatnonzero(np.isfinite(values).all(axis=1) & (grid.slots >= 0))
        border = self._scaling.see(values[real], real, len(times))
        rows = real[usable[grid.slots[real]]]
        before, after = rows[rows < border], rows[rows >= border]
        flags[before] |= np.uint32(Flag.UNSETTLED)
        pairs = ((before, inputs.scaling.fleet), (after, self._scaling.affine))
        return [_segment(grid, part, affine) for part, affine in pairs if len(part) and affine is not None], flags


class LiveFeed:
    """One device's windows, reading by reading, in the memory of one window."""

    def __init__(self, inputs: Inputs, device: str) -> None:
        self._inputs, self._scaling = inputs, _DeviceScaling(inputs.scaling, device)
        self._flagging = inputs.flagging()
        self._ring = Ring(inputs.window, len(inputs.channels), inputs.step_seconds, inputs.policy)

    def take(self, time: float, row: np.ndarray) -> tuple[np.ndarray | None, Flag]:
        """The scaled window [window, channels] of the reading at `time` (seconds), or None, and its flags."""
        usable, flags = usable_values(np.asarray(row, float)[None], self._inputs.channels, self._inputs.quality)
        quality = self._flagging.take(np.full((1, 1), time), usable[None])
        reason = self._ring.push(time, usable[0])
        flag = Flag(int(flags[0] | quality[0, 0])) | reason
        if not reason & (Flag.EARLY | Flag.MISSING):
            self._scaling.see(usable, np.zeros(1, int), 1)
        if reason:
            return None, flag
        affine = self._scaling.affine
        if affine is None:
            affine, flag = self._inputs.scaling.fleet, flag | Flag.UNSETTLED
        return affine.apply(self._ring.window()).astype(np.float32), flag


class _DeviceScaling:
    """The scaling of one device: known, or its own after its first `settle` real rows."""

    def __init__(self, scaling: Scaling, device: str) -> None:
        self._settling, self.affine = Settling(scaling), scaling.known(device)
        self._settling.enter(1)

    def see(self, values: np.ndarray, rows: np.ndarray, end: int) -> int:
        """Take real rows; the first row number from which the device's own scaling holds, or `end`."""
        if self.affine is not None:
            return 0
        missing = self._settling.missing(0)
        self._settling.see_all(0, values[:missing])
        if len(values) < missing:
            return end
        own = self._settling.affine(np.zeros(1, np.int64))
        self.affine = Affine(own.center[0], own.scale[0])
        return int(rows[missing - 1])


def _segment(grid: Grid, rows: np.ndarray, affine: Affine) -> Segment:
    scaled = replace(grid, values=affine.apply(grid.values).astype(np.float32))
    return Segment(scaled, grid.slots[rows], rows)
