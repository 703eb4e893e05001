"""A calibrator is scaled inputs and a plan: raw readings in, calibrated readings and flags out.

Made by `training`, stored by `bundle`, exported by `export`. Predicting needs NumPy and polars only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from scare.calibrator import bundle
from scare.calibrator.cost import Cost, count
from scare.calibrator.intervals import Intervals, derive_intervals
from scare.calibrator.plan import Plan, deep_share, run
from scare.calibrator.plan_passes import fold, with_effect
from scare.data.dataframes import ONLY_DEVICE, as_polars, read_frame, with_columns
from scare.data.flags import NO_VALUE, Flag
from scare.data.readings import (
    CALIBRATED,
    DEVICE,
    FLAGS,
    HIGH,
    LOW,
    OUTSIDE_CHANNEL,
    OUTSIDE_RANGES,
    TIME,
    Channel,
    Readings,
)
from scare.errors import DataError
from scare.kernels import BatchChoice, Choice
from scare.windowing.inputs import Inputs, WindowStream
from scare.windowing.live_windows import LiveWindows
from scare.windowing.scaling import NO_EFFECT
from scare.windowing.windows import Grid
from scare.words import duration

# Offset and slope of a `DeviceEffect`: numbers for one device, or arrays [n] for rows of different devices.
Effect = tuple[float | np.ndarray, float | np.ndarray]
CHUNK = 512  # windows computed at once: few enough to stay in a core's cache
ROW = " row"  # name of a temporary column; no column of a table begins with a space


@dataclass(frozen=True, repr=False)
class Sample:
    """Scaled windows as the plan sees them [n, window, channels], each with a number in the target's unit [n].

    The number is the plan's output for a golden window, the reference for one of validation.
    """

    windows: np.ndarray
    numbers: np.ndarray

    def __repr__(self) -> str:
        return f"Sample({len(self.windows):,} windows {self.windows.shape[1:]})"


class CalibratedReading(NamedTuple):
    """One calibrated reading with its interval, NaN where there is none, and the row's flags."""

    value: float
    low: float
    high: float
    flags: Flag


class CalibratedRows(NamedTuple):
    """Like `CalibratedReading`, for n rows."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    flags: np.ndarray

    def columns(self) -> list[pl.Series]:
        """Make table columns, with null for NaN."""
        numbers = zip((CALIBRATED, LOW, HIGH), self[:3], strict=True)
        return [*(pl.Series(name, array).fill_nan(None) for name, array in numbers), pl.Series(FLAGS, self.flags)]


@dataclass(frozen=True, repr=False)
class Calibrator:
    """A trained calibration: a plan, the inputs it reads and its prediction intervals.

    `scare.fit` makes one, `save` and `load` keep it in a `.scare` file.

    Parameters
    ----------
    plan
        Computation from a scaled window to a calibrated value.
    inputs
        Channels, window, time step, scaling, gap policy and training range.
    target
        Quantity and unit of calibrated values.
    golden
        Windows with the outputs that the plan gave when it was made, to test other runtimes.
    validation
        Windows of validation with the reference's values.
    facts
        Where it came from: model, preset, seed, data, scores.
    floor
        Lower limit of calibrated values, if one was stated.
    intervals
        Conformal prediction intervals.
    known_rows
        A few rows of each device of training, by which it is recognised under another name [n, 2 + channels]: its
        number among the devices, the time in seconds, readings; None in older files.

    Examples
    --------
    >>> from scare.calibrator.corrections import bind, find_correction
    >>> correction = find_correction("barkjohn-2021")
    >>> calibrator = bind(correction, {role.name: role.channel for role in correction.roles}, step_seconds=60.0)
    >>> calibrator.window, [channel.name for channel in calibrator.inputs.channels]
    (1, ['pm', 'humidity'])
    >>> round(calibrator.predict_one(np.array([[20.0, 50.0]])), 2)
    11.92
    """

    plan: Plan
    inputs: Inputs
    target: Channel
    golden: Sample
    validation: Sample
    facts: Mapping[str, Any] = field(default_factory=dict)
    floor: float | None = None
    intervals: Intervals | None = None
    known_rows: np.ndarray | None = None

    def __repr__(self) -> str:
        unit = f" in {self.target.unit}" if self.target.unit else ""
        channels = ", ".join(channel.name for channel in self.inputs.channels)
        return (
            f"Calibrator of {self.target.name}{unit} by {self.facts.get('model', 'a plan')}\n"
            f"  from {channels}\n"
            f"  a reading every {duration(self.inputs.step_seconds)}, {self.window:,} in a window"
        )

    @property
    def window(self) -> int:
        """Rows in a window."""
        return self.inputs.window

    def predict(
        self, readings: Readings | Any, device: str = ONLY_DEVICE, time: str = TIME, device_column: str = ""
    ) -> Any:
        """Calibrate readings, or the rows of a table.

        Parameters
        ----------
        readings
            Readings, or a table of pandas or Polars, or a dict of columns, with the calibrator's channels, in any
            order of rows.
        device
            Device of a table that does not name it; its scaling is used if it was in training.
        time
            Column of times: datetimes, text or seconds since 1970, UTC if they have no zone. The index of a pandas
            table if it has no such column.
        device_column
            Column that names the device of each row, for a table of several.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            The rows with `calibrated`, its interval from `low` to `high` (null where there is none) and `flags`; for
            a table of pandas, one of pandas.

        Raises
        ------
        UsageError
            If the table has no times.
        DataError
            If a channel is missing, a time cannot be read, or a device has two rows at one time.

        Examples
        --------
        >>> from scare.calibrator.corrections import bind, find_correction
        >>> correction = find_correction("barkjohn-2021")
        >>> calibrator = bind(correction, {role.name: role.channel for role in correction.roles}, step_seconds=60.0)
        >>> table = {"time": ["2026-01-01 00:00", "2026-01-01 00:01"], "pm": [20.0, None], "humidity": [50.0, 51.0]}
        >>> calibrator.predict(table)["calibrated"].round(2).to_list()
        [11.92, None]
        """
        if isinstance(readings, Readings):
            rows = self.stream(readings.device).push(readings.times, self.inputs.select(readings))
            return readings.frame.with_columns(rows._replace(flags=readings.flags | rows.flags).columns())
        parts = read_frame(readings, self.inputs.channels, None, time, device_column, device)
        frame = as_polars(readings, time)
        values, low, high = np.full((3, frame.height), np.nan)
        flags = np.zeros(frame.height, np.uint32)
        if FLAGS in frame.columns:
            flags |= frame[FLAGS].cast(pl.UInt32).to_numpy()
        for device_rows in parts:
            box, numbers = device_rows.readings, device_rows.numbers  # indices of the device's rows in the table
            calibrated = self.stream(box.device).push(box.times, box.values)
            values[numbers], low[numbers], high[numbers] = calibrated.values, calibrated.low, calibrated.high
            flags[numbers] |= calibrated.flags
        return with_columns(readings, CalibratedRows(values, low, high, flags).columns(), time)

    def predict_one(self, window: np.ndarray, device: str = "") -> float:
        """Calibrate the newest row of one raw window.

        Parameters
        ----------
        window
            Raw readings [window, channels], the newest last.
        device
            Device whose scaling is used; one that was not in training is scaled as the fleet is.

        Returns
        -------
        float
            The calibrated value, NaN if a reading is missing. Where the plan chooses a branch, this window chooses
            for itself; in a stream (`predict`, `stream`, `live`) a choice holds for a while.

        Raises
        ------
        DataError
            If the window has another shape.
        """
        shape = (self.window, len(self.inputs.channels))
        if window.shape != shape:
            raise DataError(f"a window of this calibrator has shape {shape}, not {window.shape}")
        usable, _ = self.inputs.usable_rows(window)
        if not np.isfinite(usable).all():
            return float("nan")
        affine = self.inputs.scaling.known(device) or self.inputs.scaling.fleet
        scaled = affine.apply(usable)[None].astype(np.float32)
        return float(self.compute(scaled, effect=self.inputs.scaling.effect(device))[0])

    def compute(
        self, scaled: np.ndarray, choice: Choice | BatchChoice | None = None, effect: Effect = NO_EFFECT
    ) -> np.ndarray:
        """Calibrate scaled windows [n, window, channels]: values in the target's unit [n].

        The plan sees the windows clamped to the training range, if that is known. `choice` is as in `plan.run`;
        `effect` is the device effect to add to the plan's output: one for all windows, or one for each.
        """
        training_range = self.inputs.training_range
        clamped = training_range.clamp(scaled) if training_range else scaled
        # The newest unclamped reading of the first channel, because beyond the clamp the output goes on linearly in it.
        return self.compute_clamped(clamped, scaled[:, -1, 0], choice, effect)

    def compute_clamped(
        self,
        clamped: np.ndarray,
        first: np.ndarray,
        choice: Choice | BatchChoice | None = None,
        effect: Effect = NO_EFFECT,
    ) -> np.ndarray:
        """Like `compute`, for scaled windows already clamped to the training range [n, window, channels].

        `first` is the newest value of channel 0 before clamping [n], from which the output is extrapolated.
        """
        offset, slope = effect
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows becomes NaN below
            outputs = run(self.plan, clamped, choice).astype(np.float64) + offset + slope * clamped[:, -1, 0]
            if self.inputs.training_range is not None:
                outputs = self.inputs.training_range.extrapolate(outputs, first)
            values = self.inputs.scaling.target.invert(outputs[:, None])[:, 0]
        return self._floored(np.where(np.isfinite(values), values, np.nan))

    def add_intervals(self, values: np.ndarray, flags: np.ndarray, widths: np.ndarray | float = 1.0) -> CalibratedRows:
        """Add intervals, if the calibrator has any, to calibrated values [n] of rows with these flags [n].

        Intervals are `widths` times as wide as usual, one factor or [n]. A row without a value and without a flag that
        explains it is flagged `NOT_FINITE`.
        """
        flags = np.where(np.isnan(values) & ((flags & NO_VALUE) == 0), flags | np.uint32(Flag.NOT_FINITE), flags)
        none = np.full(len(values), np.nan)
        low, high = self.intervals.around(values, flags, widths) if self.intervals else (none, none)
        return CalibratedRows(values, self._floored(low), self._floored(high), flags)

    def _floored(self, values: np.ndarray) -> np.ndarray:
        """Raise values below the floor to the floor, if there is one; NaN stays."""
        return values if self.floor is None else np.maximum(values, self.floor)

    def for_device(self, device: str) -> "Calibrator":
        """Make the calibrator of one device: its effect becomes part of the plan, other devices' are dropped."""
        effect = self.inputs.scaling.effect(device)
        plan = fold(with_effect(self.plan, *effect)) if any(effect) else self.plan
        scaling = replace(self.inputs.scaling, effects={})
        changed = replace(self, plan=plan, inputs=replace(self.inputs, scaling=scaling))
        return replace(changed, golden=replace(self.golden, numbers=changed.compute(self.golden.windows)))

    def cost(self) -> Cost:
        """Count what one reading costs; branches are weighted as the validation windows choose them."""
        return count(self.plan, deep_share(self.plan, self.validation.windows))

    def stream(self, device: str = "") -> "Stream":
        """Start a stream that calibrates one device chunk by chunk."""
        return Stream(self, device)

    def live(self, device: str = "") -> "Live":
        """Start a stream that calibrates one device reading by reading."""
        return Live(self, device)

    def with_facts(self, **facts: Any) -> "Calibrator":
        """Copy the calibrator, with facts added."""
        return replace(self, facts={**self.facts, **facts})

    def save(self, path: Path | str) -> Path:
        """Write a `.scare` file.

        Parameters
        ----------
        path
            File to write, completely or not at all.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        return bundle.save(self, Path(path))

    @staticmethod
    def load(path: Path | str) -> "Calibrator":
        """Read a `.scare` file.

        Parameters
        ----------
        path
            File that `save` or `scare train` wrote.

        Returns
        -------
        Calibrator
            The calibrator.

        Raises
        ------
        DataError
            If the file is missing, damaged, too large or of a newer version; the message has the reason.
        """
        with bundle.load_errors(Path(path)):
            parts = bundle.load(Path(path))
            parts |= {name: Sample(*parts[name]) for name in bundle.SAMPLES}
            calibrator = Calibrator(**parts)
            if calibrator.intervals is not None:
                return calibrator
            validation = calibrator.validation
            with np.errstate(all="ignore"):  # a window may be too far off to have a value
                values = calibrator.compute(validation.windows)
            return replace(calibrator, intervals=derive_intervals(values, validation.numbers))


class Stream:
    """Calibrates one device chunk by chunk."""

    def __init__(self, calibrator: Calibrator, device: str) -> None:
        self._calibrator = calibrator
        self._windows = WindowStream(calibrator.inputs, device)
        self._effect = calibrator.inputs.scaling.effect(device)
        self._choice = Choice()  # of a branch
        self._history = 0  # number of restarts of the device's history

    def push(self, times: np.ndarray, values: np.ndarray) -> CalibratedRows:
        """Calibrate rows at `times` (seconds) with `values` [rows, channels]."""
        segments, flags = self._windows.take(times, values)
        calibrated = np.full(len(times), np.nan)
        for segment in segments:
            if segment.history != self._history:  # the device's clock went back: the choice of a branch begins anew
                self._choice, self._history = Choice(), segment.history
            calibrated[segment.rows] = self._compute(segment.grid, segment.ends)
        return self._calibrator.add_intervals(calibrated, flags)

    def beyond_training(self, values: np.ndarray, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `WindowStream.beyond_training`, for rows that were pushed."""
        return self._windows.beyond_training(values, flags)

    def _compute(self, grid: Grid, ends: np.ndarray) -> np.ndarray:
        """Calibrate the windows that end in these slots of a grid [n]; clamps it once, not each overlapping window."""
        training_range = self._calibrator.inputs.training_range
        values = np.empty(len(ends))
        clamped = replace(grid, values=training_range.clamp(grid.values)) if training_range else grid
        for start in range(0, len(ends), CHUNK):
            part = ends[start : start + CHUNK]
            windows = clamped.windows(part)
            first = grid.values[part, 0]
            values[start : start + CHUNK] = self._calibrator.compute_clamped(windows, first, self._choice, self._effect)
        return values

    def state(self) -> dict[str, np.ndarray]:
        """Return what the stream remembers, as plain arrays by name."""
        choice = {"deep": np.array(self._choice.deep), "left": np.array(self._choice.left)}
        return {**self._windows.state(), **choice, "history": np.array(self._history)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from the state of another stream of the same calibrator and device."""
        self._windows.restore(state)
        self._choice, self._history = Choice(bool(state["deep"]), int(state["left"])), int(state["history"])


class Live:
    """Calibrates one device reading by reading, in fixed memory."""

    def __init__(self, calibrator: Calibrator, device: str) -> None:
        self._calibrator = calibrator
        self._windows = LiveWindows(calibrator.inputs, [device])
        self._effect = calibrator.inputs.scaling.effect(device)
        self._choice = Choice()  # of a branch

    def push(self, time: float, row: np.ndarray) -> CalibratedReading:
        """Calibrate the reading at `time` (seconds)."""
        windows, flags = self._windows.push_one(time, row)
        if flags[0] & Flag.RESTART:
            self._choice = Choice()
        values = np.full(1, np.nan)
        if len(windows):
            values = self._calibrator.compute(windows, self._choice, self._effect)
        value, low, high, flags = self._calibrator.add_intervals(values, flags)
        return CalibratedReading(float(value[0]), float(low[0]), float(high[0]), Flag(int(flags[0])))


class DeviceStreams:
    """Calibrates a table of many devices chunk by chunk; results do not depend on the size of chunks."""

    def __init__(
        self,
        calibrator: Calibrator,
        on_new_device: Callable[[str, np.ndarray, np.ndarray], object] = lambda device, times, values: None,
    ) -> None:
        """Call `on_new_device` when a device first appears, with the times and values of its first chunk."""
        self._calibrator, self._on_new_device = calibrator, on_new_device
        self._streams: dict[str, Stream] = {}

    def push(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """Add the calibrated columns to a chunk with the columns `device`, `time` and the channels.

        They say of a row flagged OUTSIDE how far beyond training it lies, and in which channel.
        """
        numbered = chunk.with_row_index(ROW)
        parts = [self._push_device(part) for part in numbered.partition_by(DEVICE, maintain_order=True)]
        return pl.concat(parts).sort(ROW).drop(ROW)

    def state(self) -> dict[str, dict[str, np.ndarray]]:
        """Return what the stream of each device remembers."""
        return {device: stream.state() for device, stream in self._streams.items()}

    def restore(self, state: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Continue from the state of other streams."""
        self._streams = {device: self._calibrator.stream(device) for device in state}
        for device, stream in self._streams.items():
            stream.restore(state[device])

    def _push_device(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the calibrated columns to the rows of a single device."""
        device = rows[DEVICE][0]
        names = [channel.name for channel in self._calibrator.inputs.channels]
        times = rows[TIME].dt.epoch("us").to_numpy() / 1e6
        values = rows.select(pl.col(names).fill_null(np.nan)).to_numpy()
        if device not in self._streams:
            self._streams[device] = self._calibrator.stream(device)
            self._on_new_device(device, times, values)
        calibrated = self._streams[device].push(times, values)
        ranges, channels = self._streams[device].beyond_training(values, calibrated.flags)
        farthest = [names[channel] if channel >= 0 else None for channel in channels.tolist()]
        return rows.with_columns(
            *calibrated.columns(),
            pl.Series(OUTSIDE_RANGES, ranges.round(6)).fill_nan(None),
            pl.Series(OUTSIDE_CHANNEL, farthest, pl.String),
        )
