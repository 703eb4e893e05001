"""Readings: one device's time-ordered table of named channels, on which everything else is built.

Made from tables (`column_mapping`) or by `simulate`; cut into windows by `windowing`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
import polars as pl

from scare.errors import DataError
from scare.schema import Name

TIME, REFERENCE, FLAGS, DEVICE = "time", "reference", "flags", "device"
CALIBRATED, LOW, HIGH = "calibrated", "low", "high"
# How far a row lies beyond training, in ranges of a channel there, and which channel that is.
OUTSIDE_RANGES, OUTSIDE_CHANNEL = "outside_ranges", "outside_channel"
RESERVED = (TIME, REFERENCE, FLAGS, CALIBRATED, LOW, HIGH, OUTSIDE_RANGES, OUTSIDE_CHANNEL)
TIME_TYPE = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class Channel:
    """A named quantity with its unit and the range of plausible readings.

    Parameters
    ----------
    name
        Name of its column.
    unit
        Unit as written in files, such as `ug/m3` or `ppb`; empty if unknown.
    low, high
        Readings outside are flagged `RANGE` and count as missing.

    Examples
    --------
    >>> Channel("humidity", "%", 0.0, 100.0).unit
    '%'
    """

    name: Name
    unit: Name = ""
    low: float = -inf
    high: float = inf


@dataclass(frozen=True, repr=False)
class Readings:
    """One device's rows: `time` (UTC, strictly increasing), its channels, `reference` (if any) and `flags`.

    The reference column is always called `reference`; its own name and unit live in `Readings.reference`.
    A missing number is null in the frame and NaN in the arrays.

    Parameters
    ----------
    device
        Name of the device.
    frame
        Table with `time`, one column per channel and, if there is a reference, `reference`; `flags` is added.
    channels
        What the device measures, first the channel to calibrate.
    reference
        What the reference instrument measures, if there is one.
    site
        Where the device stands.

    Raises
    ------
    DataError
        If a column is missing or named twice, or if times do not increase.

    Examples
    --------
    >>> import polars as pl
    >>> from datetime import datetime, timedelta, timezone
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> frame = pl.DataFrame({"time": [noon, noon + timedelta(minutes=1)], "pm25": [3.0, None]})
    >>> readings = Readings("box-1", frame, (Channel("pm25", "ug/m3"),))
    >>> readings.values
    array([[ 3.], [nan]])
    >>> readings.step_seconds
    60.0
    """

    device: str
    frame: pl.DataFrame
    channels: tuple[Channel, ...]
    reference: Channel | None = None
    site: str = ""

    def __post_init__(self) -> None:
        names = [channel.name for channel in self.channels]
        for name in names:
            if name in RESERVED:
                raise DataError(f"{self.device}: a channel cannot be called '{name}'; rename the column")
        if len(set(names)) < len(names):
            raise DataError(f"{self.device}: a channel is named twice in {', '.join(names)}")
        wanted = [TIME, *names] + ([REFERENCE] if self.reference else [])
        missing = [name for name in wanted if name not in self.frame.columns]
        if missing:
            raise DataError(f"{self.device}: no column {', '.join(missing)} in the table")
        frame = self.frame
        if FLAGS not in frame.columns:
            frame = frame.with_columns(pl.lit(0, pl.UInt32).alias(FLAGS))
        numbers = [pl.col(name).cast(pl.Float64).fill_nan(None) for name in wanted[1:]]
        frame = frame.select(pl.col(TIME).cast(TIME_TYPE), *numbers, pl.col(FLAGS).cast(pl.UInt32))
        # The first row that is not later than the one before; `arg_max` is None or 0 if there is none.
        backwards = (frame[TIME].diff().dt.total_microseconds() <= 0).arg_max()
        if backwards and frame[TIME][backwards] <= frame[TIME][backwards - 1]:
            raise DataError(
                f"{self.device}: row {backwards + 1} ({frame[TIME][backwards]:%Y-%m-%d %H:%M:%S}) is not later than"
                " the row before it; sort the table and drop duplicate times (data.sort in a --config file does both)"
            )
        object.__setattr__(self, "frame", frame)

    def __len__(self) -> int:
        return self.frame.height

    def __repr__(self) -> str:
        names = ", ".join(channel.name for channel in self.channels)
        beside = f" beside {self.reference.name}" if self.reference else ""
        ends = (
            f", {self.frame[TIME][0]:%Y-%m-%d %H:%M} to {self.frame[TIME][-1]:%Y-%m-%d %H:%M} UTC" if len(self) else ""
        )
        return f"Readings of '{self.device}': {len(self):,} rows of {names}{beside}{ends}"

    @cached_property
    def times(self) -> np.ndarray:
        """Seconds since 1970 of each row, float64 [rows]."""
        return self.frame[TIME].dt.epoch("us").to_numpy() / 1e6

    @cached_property
    def values(self) -> np.ndarray:
        """Channel values with NaN for missing, float64 [rows, channels]."""
        columns = [self.frame[channel.name].fill_null(np.nan).to_numpy() for channel in self.channels]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    @cached_property
    def targets(self) -> np.ndarray:
        """Reference values with NaN for missing, float64 [rows]; all NaN without a reference."""
        if self.reference is None:
            return np.full(len(self), np.nan)
        return self.frame[REFERENCE].fill_null(np.nan).to_numpy()

    @cached_property
    def flags(self) -> np.ndarray:
        """Quality bits of each row, uint32 [rows]."""
        return self.frame[FLAGS].to_numpy()

    @cached_property
    def step_seconds(self) -> float:
        """The usual distance between two rows (median), in seconds."""
        if len(self) < 2:
            raise DataError(f"{self.device}: one row has no time step")
        return float(np.median(np.diff(self.times)))

    def with_flags(self, flags: np.ndarray) -> "Readings":
        """Set these flag bits in addition to those already set."""
        column = pl.Series(FLAGS, (self.flags | flags).astype(np.uint32))
        return replace(self, frame=self.frame.with_columns(column))

    def rows(self, keep: np.ndarray) -> "Readings":
        """Select the rows where `keep` (bool [rows]) is true."""
        return replace(self, frame=self.frame.filter(pl.Series(keep)))
