"""Turn a device's readings into scaled windows and flags, the same way in training, prediction and live use.

    readings → unusable values as missing → quality rules → grid (chunks) or ring (live) → the device's scaling
             → whether the newest row is inside the training range

All flags of a row are set here. The state that earlier rows leave is carried from chunk to chunk. A *real* row was
measured and has a usable value in every channel; a hole in the grid repeats the row before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from scare.data.flags import NO_VALUE, Flag, FlagState, QualitySettings, RowFlagger, usable_values
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.windowing.scaling import Affine, Scaling, Settling
from scare.windowing.training_range import TrainingRange, slow_means
from scare.windowing.windows import GapPolicy, Grid, history_starts, make_grid, row_flags

BLOCK = 4096  # rows flagged at once: few enough to stay in a core's cache
GRID_STATE = ("values", "real", "age", "last_time")  # the fields of a `Grid` that are saved with a stream's state


@dataclass(frozen=True)
class Inputs:
    """What a calibrator reads: channels and their scaling, the time step and window, and when a window may be used."""

    channels: tuple[Channel, ...]
    scaling: Scaling
    step_seconds: float
    window: int  # rows
    policy: GapPolicy
    quality: QualitySettings
    training_range: TrainingRange | None = None  # None: unknown, as in older files

    def flagging(self) -> RowFlagger:
        """Start the quality rules (stuck values, spikes, warm-up …) for a device without earlier rows."""
        return RowFlagger(self.channels, self.step_seconds, self.quality)

    def select(self, readings: Readings) -> np.ndarray:
        """Select the values of these channels from readings, in the order of these channels: [rows, channels]."""
        names = [channel.name for channel in readings.channels]
        missing = [channel.name for channel in self.channels if channel.name not in names]
        if missing:
            raise DataError(f"{readings.device}: no channel {', '.join(missing)}; its channels are {', '.join(names)}")
        return readings.values[:, [names.index(channel.name) for channel in self.channels]]

    def usable(self, readings: Readings) -> np.ndarray:
        """Like `select`, with NaN in place of unusable values, such as those out of a channel's physical range."""
        return self.usable_rows(self.select(readings))[0]

    def usable_rows(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copy `values` [..., channels] with NaN in place of unusable ones.

        Returns the copy and, for each row, the flags that say why a value is unusable: uint32 [...].
        """
        return usable_values(values, self.channels, self.quality)


@dataclass(frozen=True)
class Segment:
    """Rows of one device that share one scaling and have a usable window."""

    grid: Grid  # scaled
    ends: np.ndarray  # [n] slots of the grid in which the windows end
    rows: np.ndarray  # [n] row numbers, counted in the arrays that `take` was given
    history: int  # number of restarts of the device's history before these rows


class WindowStream:
    """Makes one device's windows chunk by chunk; results do not depend on the size of chunks."""

    def __init__(self, inputs: Inputs, device: str) -> None:
        self._inputs, self._device = inputs, device
        self._scaling = _DeviceScaling(inputs.scaling, device)
        self._flagging = inputs.flagging()
        self._range_monitor = RangeMonitor(inputs)
        self._past: Grid | None = None  # the newest `window - 1` slots of earlier chunks
        self._restarts = 0

    def take(self, times: np.ndarray, values: np.ndarray) -> tuple[list[Segment], np.ndarray]:
        """Take the next rows at `times` (seconds) [rows], with `values` [rows, channels], oldest first.

        Returns the segments of rows with a usable window, and all flags of every row, uint32 [rows].
        """
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
        segments, window_flags = self._cut(times, usable, starts)
        return segments, flags | window_flags

    def beyond_training(self, values: np.ndarray, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far rows that were taken lie beyond training, and in which channel (-1: in none): two arrays [n].

        The distance is in widths of that channel's range in training: 0 for a row without the flag OUTSIDE, NaN for one
        without a calibrated value. `values` are [n, channels], `flags` what `take` returned.
        """
        has_value = (flags & NO_VALUE) == 0
        ranges, channels = np.where(has_value, 0.0, np.nan), np.full(len(values), -1)
        training_range = self._inputs.training_range
        if training_range is not None:
            is_outside = has_value & ((flags & Flag.OUTSIDE) > 0)
            is_unsettled = (flags & Flag.UNSETTLED) > 0
            for rows, affine in (  # an unsettled row was scaled as the fleet
                (is_outside & is_unsettled, self._inputs.scaling.fleet),
                (is_outside & ~is_unsettled, self._scaling.affine),
            ):
                if affine is not None and rows.any():
                    scaled = affine.apply(values[rows]).astype(np.float32)
                    ranges[rows], channels[rows] = training_range.beyond(scaled)
            channels[ranges == 0] = -1  # each channel is in its range, but they do not go together
        return ranges, channels

    def segments(self, times: np.ndarray, values: np.ndarray) -> list[Segment]:
        """Like `take`, but skips the quality rules and returns no flags."""
        usable, _ = self._inputs.usable_rows(values)
        return self._cut(times, usable, self._starts(times))[0]

    def state(self) -> dict[str, np.ndarray]:
        """Return what later rows need to know of earlier ones, as plain arrays by name.

        Their names are those in saved files: "past" is the state of the quality rules, "before" the last slots of the
        grid, which are the history of the rows to come.
        """
        grid = {name: np.array(getattr(self._past, name)) for name in GRID_STATE} if self._past else {}
        parts = {"scaling": self._scaling.state(), "past": vars(self._flagging.past), "before": grid}
        state = {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
        return {"histories": np.array(self._restarts), "slow": np.array(self._range_monitor.slow), **state}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the `state()` of another stream of the same inputs and device."""
        self._restarts = int(state["histories"])
        self._range_monitor.slow = float(state["slow"])
        self._scaling.restore(_part_of_state(state, "scaling"))
        self._flagging.past = FlagState(**_part_of_state(state, "past"))
        self._past = None
        if grid := _part_of_state(state, "before"):
            values, real, age, last_time = (grid[name] for name in GRID_STATE)
            no_rows = np.empty(0, np.int64)
            self._past = Grid(self._inputs.window, values, real, age, no_rows, float(last_time))

    def _starts(self, times: np.ndarray) -> list[int]:
        """Find the rows at which the device's clock goes back by more than a window: each begins a new history."""
        last_time = self._past.last_time if self._past else np.nan
        return history_starts(times, self._inputs.step_seconds, self._inputs.window, last_time)

    def _cut(self, times: np.ndarray, values: np.ndarray, starts: list[int]) -> tuple[list[Segment], np.ndarray]:
        """Cut usable values into segments, at `starts` (rows that begin a new history) and where the scaling changes.

        Returns the segments, and the flags that windows, scaling and training range set, uint32 [rows].
        """
        segments, flags = [], np.zeros(len(times), np.uint32)
        for part in _parts(starts, len(times)):
            if part.start in starts:
                self._past = None
                self._restarts += 1
                self._range_monitor = RangeMonitor(self._inputs)
            part_segments, flags[part] = self._cut_history(times[part], values[part])
            segments += [replace(segment, rows=segment.rows + part.start) for segment in part_segments]
        return segments, flags

    def _cut_history(self, times: np.ndarray, values: np.ndarray) -> tuple[list[Segment], np.ndarray]:
        """Like `_cut`, for rows that continue the current history."""
        inputs = self._inputs
        grid = make_grid(times, values, inputs.step_seconds, inputs.window, inputs.policy, self._past)
        self._past = grid.tail()
        usable = grid.usable(inputs.policy)
        flags = row_flags(grid, usable)
        real = np.flatnonzero(np.isfinite(values).all(axis=1) & (grid.slots >= 0))  # row numbers
        settled = self._scaling.update(values[real], real, len(times))  # the first row with the device's own scaling
        for rows, affine in self._with_scaling(real, settled):
            flags[rows] |= self._range_monitor.take(affine.apply(values[rows]))
        has_window = real[usable[grid.slots[real]]]  # row numbers, too
        flags[has_window[has_window < settled]] |= np.uint32(Flag.UNSETTLED)
        segments = []
        for rows, affine in self._with_scaling(has_window, settled):
            scaled = replace(grid, values=affine.apply(grid.values).astype(np.float32))
            segments.append(Segment(scaled, grid.slots[rows], rows, self._restarts))
        return segments, flags

    def _with_scaling(self, rows: np.ndarray, settled: int) -> list[tuple[np.ndarray, Affine]]:
        """Pair the rows whose number is below `settled` with the fleet's scaling, the others with the device's own.

        Empty parts are left out.
        """
        unsettled_rows, settled_rows = rows[rows < settled], rows[rows >= settled]
        pairs = (unsettled_rows, self._inputs.scaling.fleet), (settled_rows, self._scaling.affine)
        return [(part, affine) for part, affine in pairs if len(part) and affine is not None]


class RangeMonitor:
    """Flags rows of one device outside the training range; remembers the moving average of their distances to it."""

    def __init__(self, inputs: Inputs) -> None:
        self._training_range, self._window = inputs.training_range, inputs.window
        # Moving average of the squared Mahalanobis distances of the rows so far.
        self.slow = self._training_range.usual if self._training_range else 0.0

    def take(self, scaled: np.ndarray) -> np.ndarray:
        """Flag scaled real rows [n, channels], oldest first, with OUTSIDE or 0: uint32 [n].

        Also updates the moving average of their distances.
        """
        if self._training_range is None:
            return np.zeros(len(scaled), np.uint32)
        rows = scaled.astype(np.float32)
        distances = self._training_range.distances(rows)
        slow = slow_means(distances, self.slow, self._window)
        self.slow = float(slow[-1])
        return np.where(self._training_range.outside(rows, distances, slow), np.uint32(Flag.OUTSIDE), np.uint32(0))


class _DeviceScaling:
    """Scaling of one device: known from training, or its own after its first `settle` real rows.

    `affine` is the scaling, None until then.
    """

    def __init__(self, scaling: Scaling, device: str) -> None:
        self.affine = scaling.known(device)
        self._settling = Settling(scaling)
        self._settling.allocate(1)

    def update(self, values: np.ndarray, rows: np.ndarray, end: int) -> int:
        """Take real rows [n, channels] with row numbers [n]; returns the first row with the device's own scaling.

        That is 0 for a device that is known already, and `end` for one that still needs more rows.
        """
        if self.affine is not None:
            return 0
        missing = self._settling.rows_missing(0)
        self._settling.update_one(0, values[:missing])
        if len(values) < missing:
            return end
        affines = self._settling.affine(np.zeros(1, np.int64))  # of one device [1, channels]
        self.affine = Affine(affines.center[0], affines.scale[0])
        return int(rows[missing - 1])

    def state(self) -> dict[str, np.ndarray]:
        """Return the sums over the first rows and, once there is one, the resulting scaling."""
        return {**self._settling.state(), **({} if self.affine is None else vars(self.affine))}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the `state()` of another scaling of the same device."""
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


def _part_of_state(state: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    """Select the arrays called "part.name" and return them by name."""
    return {name.removeprefix(f"{part}."): array for name, array in state.items() if name.startswith(f"{part}.")}


def _parts(starts: list[int], end: int) -> list[slice]:
    """Slice rows 0 … end − 1 by history: the rows before the first start, then from each start to the next."""
    first = [] if 0 in starts else [0]
    return [slice(start, stop) for start, stop in pairwise([*first, *starts, end])]
