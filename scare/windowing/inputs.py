"""Turn a device's readings into scaled windows and flags, the same way in training, prediction and live use.

    readings → unusable values as missing → quality rules → grid (chunks) or ring (live) → the device's scaling
             → whether the newest row is inside the training range

All flags of a row are set here. State of earlier rows is carried from chunk to chunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from scare.data.flags import Flag, FlagState, QualitySettings, RowFlagger, usable_values
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.windowing.scaling import Affine, Scaling, Settling
from scare.windowing.training_range import TrainingRange, slow_means
from scare.windowing.windows import GapPolicy, Grid, history_starts, make_grid, row_flags

BLOCK = 4096  # rows flagged at once: few enough to stay in a core's cache
GRID_STATE = ("values", "real", "age", "last_time")  # fields of the history in a stream's state


@dataclass(frozen=True)
class Inputs:
    """What a calibrator reads: channels, their scaling, the time step, and when a window may be used."""

    channels: tuple[Channel, ...]
    scaling: Scaling
    step_seconds: float
    window: int
    policy: GapPolicy
    quality: QualitySettings
    training_range: TrainingRange | None = None  # None: unknown, as in older files

    def flagging(self) -> RowFlagger:
        """Start the quality rules for a new device."""
        return RowFlagger(self.channels, self.step_seconds, self.quality)

    def select(self, readings: Readings) -> np.ndarray:
        """Select the values of these channels, in this order, [rows, channels]."""
        names = [channel.name for channel in readings.channels]
        missing = [channel.name for channel in self.channels if channel.name not in names]
        if missing:
            raise DataError(f"{readings.device}: no channel {', '.join(missing)}; its channels are {', '.join(names)}")
        return readings.values[:, [names.index(channel.name) for channel in self.channels]]

    def usable(self, readings: Readings) -> np.ndarray:
        """Select the values of these channels [rows, channels], with NaN for unusable ones."""
        return self.usable_rows(self.select(readings))[0]

    def usable_rows(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copy `values` [..., channels] with NaN for unusable ones; returns the copy and row flags, uint32 [...]."""
        return usable_values(values, self.channels, self.quality)


@dataclass(frozen=True)
class Segment:
    """Rows that share one scaling: the scaled grid, the slots their windows end in, and their row numbers.

    `history` counts the restarts of the device before them.
    """

    grid: Grid
    ends: np.ndarray
    rows: np.ndarray
    history: int


class WindowStream:
    """Makes one device's windows chunk by chunk; results do not depend on the size of chunks."""

    def __init__(self, inputs: Inputs, device: str) -> None:
        self._inputs, self._device = inputs, device
        self._scaling, self._flagging = _DeviceScaling(inputs.scaling, device), inputs.flagging()
        self._outside = RangeMonitor(inputs)
        self._before: Grid | None = None
        self._histories = 0

    def take(self, times: np.ndarray, values: np.ndarray) -> tuple[list[Segment], np.ndarray]:
        """Take rows at `times` (seconds) with `values` [rows, channels]; returns scaled segments and flags [rows]."""
        check_rows(self._inputs, self._device, times, values)
        usable, flags = self._inputs.usable_rows(values)
        starts = self._starts(times)
        flags[starts] |= np.uint32(Flag.RESTART)
        for part in _parts(starts, len(times)):
            if part.start in starts:
                self._flagging = self._inputs.flagging()
            for start in range(part.start, part.stop, BLOCK):
                block = slice(start, min(start + BLOCK, part.stop))
                flags[block] |= self._flagging.push(times[block, None], usable[block, None])[:, 0]
        segments, reasons = self._cut(times, usable, starts)
        return segments, flags | reasons

    def segments(self, times: np.ndarray, values: np.ndarray) -> list[Segment]:
        """Like `take`, without flags: skips the quality rules."""
        usable, _ = self._inputs.usable_rows(values)
        return self._cut(times, usable, self._starts(times))[0]

    def state(self) -> dict[str, np.ndarray]:
        """Return what later rows need to know of earlier ones, as plain arrays by name."""
        before = {name: np.array(getattr(self._before, name)) for name in GRID_STATE} if self._before else {}
        parts = {"scaling": self._scaling.state(), "past": vars(self._flagging.past), "before": before}
        state = {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
        return {"histories": np.array(self._histories), "slow": np.array(self._outside.slow), **state}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the state of another stream of the same inputs and device."""
        self._histories, self._outside.slow = int(state["histories"]), float(state["slow"])
        self._scaling.restore(_under("scaling", state))
        self._flagging.past = FlagState(**_under("past", state))
        self._before = None
        if before := _under("before", state):
            values, real, age, last_time = (before[name] for name in GRID_STATE)
            none = np.empty(0, np.int64)
            self._before = Grid(self._inputs.window, values, real, age, none, float(last_time))

    def _starts(self, times: np.ndarray) -> list[int]:
        last_time = self._before.last_time if self._before else np.nan
        return history_starts(times, self._inputs.step_seconds, self._inputs.window, last_time)

    def _cut(self, times: np.ndarray, values: np.ndarray, starts: list[int]) -> tuple[list[Segment], np.ndarray]:
        """Cut usable values into segments; returns them and the flags of windows, scaling and training range [rows]."""
        segments, flags = [], np.zeros(len(times), np.uint32)
        for part in _parts(starts, len(times)):
            if part.start in starts:
                self._before, self._histories = None, self._histories + 1
                self._outside = RangeMonitor(self._inputs)
            own, flags[part] = self._cut_history(times[part], values[part])
            segments += [replace(segment, rows=segment.rows + part.start) for segment in own]
        return segments, flags

    def _cut_history(self, times: np.ndarray, values: np.ndarray) -> tuple[list[Segment], np.ndarray]:
        """Like `_cut`, for rows that continue the current history."""
        inputs = self._inputs
        grid = make_grid(times, values, inputs.step_seconds, inputs.window, inputs.policy, self._before)
        self._before = grid.tail()
        usable = grid.usable(inputs.policy)
        flags = row_flags(grid, usable)
        real = np.flatnonzero(np.isfinite(values).all(axis=1) & (grid.slots >= 0))
        border = self._scaling.see(values[real], real, len(times))
        for part, affine in self._scaled_by(real, border):
            flags[part] |= self._outside.take(affine.apply(values[part]))
        rows = real[usable[grid.slots[real]]]
        flags[rows[rows < border]] |= np.uint32(Flag.UNSETTLED)
        segments = []
        for part, affine in self._scaled_by(rows, border):
            scaled = replace(grid, values=affine.apply(grid.values).astype(np.float32))
            segments.append(Segment(scaled, grid.slots[part], part, self._histories))
        return segments, flags

    def _scaled_by(self, rows: np.ndarray, border: int) -> list[tuple[np.ndarray, Affine]]:
        """Split row numbers at the row where the device's own scaling begins; each part comes with its scaling."""
        pairs = (
            (rows[rows < border], self._inputs.scaling.fleet),
            (rows[rows >= border], self._scaling.affine),
        )
        return [(part, affine) for part, affine in pairs if len(part) and affine is not None]


class RangeMonitor:
    """Flags rows of one device outside the training range; remembers the slow mean of their distances."""

    def __init__(self, inputs: Inputs) -> None:
        self._training_range, self._window = inputs.training_range, inputs.window
        self.slow = self._training_range.usual if self._training_range else 0.0

    def take(self, scaled: np.ndarray) -> np.ndarray:
        """Flag measured rows (none filled in), scaled [n, channels], oldest first: OUTSIDE or 0, uint32 [n].

        Updates the slow mean of their distances.
        """
        if self._training_range is None:
            return np.zeros(len(scaled), np.uint32)
        rows = scaled.astype(np.float32)
        distances = self._training_range.distances(rows)
        slow = slow_means(distances, self.slow, self._window)
        self.slow = float(slow[-1])
        return np.where(self._training_range.outside(rows, distances, slow), np.uint32(Flag.OUTSIDE), np.uint32(0))


class _DeviceScaling:
    """Scaling of one device: known from training, or its own after its first `settle` real rows."""

    def __init__(self, scaling: Scaling, device: str) -> None:
        self._settling, self.affine = Settling(scaling), scaling.known(device)
        self._settling.enter(1)

    def see(self, values: np.ndarray, rows: np.ndarray, end: int) -> int:
        """Take real rows [n, channels] with row numbers [n]; returns the first row with the device's own scaling.

        That is `end` if it has not settled yet.
        """
        if self.affine is not None:
            return 0
        missing = self._settling.missing(0)
        self._settling.see_all(0, values[:missing])
        if len(values) < missing:
            return end
        own = self._settling.affine(np.zeros(1, np.int64))
        self.affine = Affine(own.center[0], own.scale[0])
        return int(rows[missing - 1])

    def state(self) -> dict[str, np.ndarray]:
        """Return the sums or samples of the first rows, and the resulting scaling."""
        return {**self._settling.state(), **({} if self.affine is None else vars(self.affine))}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the state by that of another device scaling."""
        self._settling.restore(state)
        self.affine = Affine(state["center"], state["scale"]) if "center" in state else None


def check_rows(inputs: Inputs, device: str, times: np.ndarray, values: np.ndarray) -> None:
    """Raise a DataError unless times [rows] are finite and values are [rows, channels]."""
    if values.shape != (len(times), len(inputs.channels)):
        names = ", ".join(channel.name for channel in inputs.channels)
        expected = f"{len(times)} rows of {len(inputs.channels)} numbers ({names})"
        raise DataError(f"{device or 'a device'}: expected {expected}, not values of shape {values.shape}")
    if not np.isfinite(times).all():
        where = int(np.argmin(np.isfinite(times)))
        raise DataError(
            f"{device or 'a device'}: row {where + 1} has the time {times[where]}, which is not a number of seconds"
        )


def _under(part: str, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Select the arrays of one part of a state, without its prefix."""
    return {name.removeprefix(f"{part}."): array for name, array in state.items() if name.startswith(f"{part}.")}


def _parts(starts: list[int], end: int) -> list[slice]:
    """Slice rows by history: from each start to the next."""
    return [slice(*borders) for borders in pairwise([*([0] if 0 not in starts else []), *starts, end])]
