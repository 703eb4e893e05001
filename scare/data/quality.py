"""Quality rules set bits in a row's flags; they never remove a row or change a value.

Every rule looks only at the row and the `LOOKBACK` rows before it, so rows flagged as they arrive carry the
same bits as rows flagged at once. Comes from `readings`; goes to `alignment`, `split` and `windowing`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntFlag
from math import inf, isfinite

import numpy as np
import polars as pl

from scare.data.readings import REFERENCE, Channel, Readings
from scare.errors import UsageError

LOOKBACK = 1800  # rows: half an hour of one-second rows
LARGEST = 1e30  # a larger number is no reading, and would not survive in float32
SPIKE_MEDIAN_ROWS, SPIKE_USUAL_ROWS = 5, 30
SPIKE_FLOOR = 0.001  # of the channel's range: keeps one step of a coarse converter from being a spike
RESTART_SECONDS = 3600.0  # a longer gap counts as a new start


class Flag(IntFlag):
    """Every bit a row can carry. A number, once given, is never reused."""

    RANGE = 1 << 0  # outside the channel's range: taken as missing
    SENTINEL = 1 << 1  # a number that means "no reading": taken as missing
    STUCK = 1 << 2  # the same value for too long
    SPIKE = 1 << 3  # far from its recent past
    RATE = 1 << 4  # changed faster than the instrument can
    WARM_UP = 1 << 5  # soon after a start or a long gap
    GAP = 1 << 6  # first row after missing time
    MISSING = 1 << 8  # a channel has no usable value: no calibrated value
    EARLY = 1 << 9  # less than half a step after the row before: not used
    HISTORY = 1 << 10  # the gap policy found too little history: no calibrated value
    UNSETTLED = 1 << 11  # a new device, still scaled as the fleet is


UNUSABLE = Flag.RANGE | Flag.SENTINEL  # bits of values that count as missing


@dataclass(frozen=True)
class QualitySettings:
    """The numbers the rules compare with."""

    sentinels: tuple[float, ...] = (-200.0, -999.0, -9999.0, 65535.0)
    stuck_rows: int = 60
    spike_factor: float = 8.0
    rate_share: float = 0.25  # of the channel's range, per minute
    warm_up_seconds: float = 1800.0
    gap_steps: float = 1.5

    def __post_init__(self) -> None:
        if not 2 <= self.stuck_rows <= LOOKBACK:
            raise UsageError(f"stuck_rows is {self.stuck_rows}; give a number from 2 to {LOOKBACK}")


DEFAULT_SETTINGS = QualitySettings()


@dataclass(frozen=True)
class Rows:
    """What a rule sees: `values` [rows, channels] and their `times` in seconds [rows]."""

    values: np.ndarray
    channels: tuple[Channel, ...]
    times: np.ndarray
    step_seconds: float

    @property
    def waits(self) -> np.ndarray:
        """Seconds since the row before, zero for the first, float64 [rows]."""
        return np.diff(self.times, prepend=self.times[:1])


@dataclass(frozen=True)
class Rule:
    """A rule and its permanent number; `marks` gives bool [rows, channels], or [rows, 1] for whole rows."""

    id: str
    name: str
    flag: Flag
    description: str
    marks: Callable[[Rows, QualitySettings], np.ndarray]


def _out_of_range(rows: Rows, settings: QualitySettings) -> np.ndarray:
    low = np.array([channel.low for channel in rows.channels])
    high = np.array([channel.high for channel in rows.channels])
    return (rows.values < low) | (rows.values > high) | (np.abs(rows.values) > LARGEST)


def _sentinels(rows: Rows, settings: QualitySettings) -> np.ndarray:
    marks = np.zeros(rows.values.shape, bool)
    for column, channel in enumerate(rows.channels):
        for sentinel in settings.sentinels + ((-1.0,) if channel.low >= 0 else ()):
            marks[:, column] |= rows.values[:, column] == sentinel
    return marks


def _stuck(rows: Rows, settings: QualitySettings) -> np.ndarray:
    index = np.arange(len(rows.values))
    marks = np.zeros(rows.values.shape, bool)
    for column, values in enumerate(rows.values.T):
        changed = np.ones(len(values), bool)
        changed[1:] = values[1:] != values[:-1]
        run_start = np.maximum.accumulate(np.where(changed, index, 0))
        marks[:, column] = index - run_start + 1 >= settings.stuck_rows
    return marks


def _spikes(rows: Rows, settings: QualitySettings) -> np.ndarray:
    marks = np.zeros(rows.values.shape, bool)
    for column, channel in enumerate(rows.channels):
        values = pl.Series(rows.values[:, column]).fill_nan(None)
        distance = (values - _median_of_previous(values, SPIKE_MEDIAN_ROWS)).abs()
        usual = _median_of_previous(distance, SPIKE_USUAL_ROWS).to_numpy()
        floor = SPIKE_FLOOR * _range_width(channel) if isfinite(_range_width(channel)) else 0.0
        limit = settings.spike_factor * np.maximum(usual, floor)
        marks[:, column] = (distance.to_numpy() > limit) & (limit > 0)  # zero: nothing to compare with
    return marks


def _median_of_previous(series: pl.Series, rows: int) -> pl.Series:
    """The median of the `rows` rows before each row, null when fewer than half of them have a value."""
    return series.rolling_median(rows, min_samples=(rows + 1) // 2).shift(1)


def _range_width(channel: Channel) -> float:
    return channel.high - channel.low


def _too_fast(rows: Rows, settings: QualitySettings) -> np.ndarray:
    minutes = np.maximum(rows.waits / 60.0, 1.0)
    widths = np.array([_range_width(channel) for channel in rows.channels])
    changes = np.abs(np.diff(rows.values, axis=0, prepend=rows.values[:1]))
    return changes > settings.rate_share * widths * minutes[:, None]


def _warming_up(rows: Rows, settings: QualitySettings) -> np.ndarray:
    index = np.arange(len(rows.times))
    last_start = np.maximum.accumulate(np.where(rows.waits > RESTART_SECONDS, index, 0))
    recent = rows.times - rows.times[last_start] < settings.warm_up_seconds
    # The first row given may only be the oldest of the rows carried along: beyond LOOKBACK it says nothing.
    return (recent & (index - last_start < LOOKBACK))[:, None]


def _after_gap(rows: Rows, settings: QualitySettings) -> np.ndarray:
    return (rows.waits > settings.gap_steps * rows.step_seconds)[:, None]


# Published results name this set: a change of a rule is a new rule in a new set, never an edit of this one.
RULES_2026_1 = (
    Rule("Q01", "range", Flag.RANGE, "The value lies outside the channel's range.", _out_of_range),
    Rule("Q02", "sentinel", Flag.SENTINEL, "The value is a number that stands for no reading.", _sentinels),
    Rule("Q03", "stuck", Flag.STUCK, "The last `stuck_rows` rows all have the same value.", _stuck),
    Rule(
        "Q04",
        "spike",
        Flag.SPIKE,
        "The distance to the median of the previous 5 rows is more than `spike_factor` times the larger of "
        "the median of the previous 30 such distances and a thousandth of the channel's range.",
        _spikes,
    ),
    Rule(
        "Q05",
        "rate",
        Flag.RATE,
        "The change from the row before is more than `rate_share` of the channel's range per minute, where a "
        "shorter wait counts as a minute and a channel without a range is not judged.",
        _too_fast,
    ),
    Rule(
        "Q06",
        "warm-up",
        Flag.WARM_UP,
        "The first row, or the last gap of over an hour, is less than `warm_up_seconds` and 1800 rows ago.",
        _warming_up,
    ),
    Rule("Q07", "gap", Flag.GAP, "The row before is more than `gap_steps` steps ago.", _after_gap),
)


def usable_values(
    values: np.ndarray, channels: tuple[Channel, ...], settings: QualitySettings = DEFAULT_SETTINGS
) -> tuple[np.ndarray, np.ndarray]:
    """A copy of `values` [rows, channels] with NaN for the `UNUSABLE` ones, and the flags, uint32 [rows].

    >>> usable_values(np.array([[21.0], [-999.0], [90.0]]), (Channel("temperature", "C", -40, 85),))
    (array([[21.], [nan], [nan]]), array([0, 3, 1], dtype=uint32))
    """
    values = np.array(values, float)
    flags = np.zeros(len(values), np.uint32)
    rows = Rows(values.copy(), channels, np.empty(0), inf)  # these rules ask for no time
    for rule in RULES_2026_1:
        if rule.flag in UNUSABLE:
            marks = rule.marks(rows, settings)
            values[marks] = np.nan
            flags[marks.any(axis=1)] |= np.uint32(rule.flag)
    return values, flags


def without_unusable_references(readings: Readings, settings: QualitySettings = DEFAULT_SETTINGS) -> Readings:
    """The same rows without the reference's numbers that mean no reading, such as -999."""
    if readings.reference is None:
        return readings
    targets, _ = usable_values(readings.targets[:, None], (readings.reference,), settings)
    return replace(readings, frame=readings.frame.with_columns(pl.Series(REFERENCE, targets[:, 0])))


def flag_rows(
    times: np.ndarray,
    values: np.ndarray,
    channels: tuple[Channel, ...],
    step_seconds: float,
    settings: QualitySettings = DEFAULT_SETTINGS,
) -> np.ndarray:
    """The flags of rows at `times` [rows] with `values` [rows, channels], uint32 [rows].

    Unusable values are missing to the other rules. With `LOOKBACK` earlier rows put in front, new rows get
    the flags they would get with all earlier rows in front.
    """
    usable, flags = usable_values(values, channels, settings)
    rows = Rows(usable, channels, times, step_seconds)
    for rule in RULES_2026_1:
        if rule.flag not in UNUSABLE:
            flags[rule.marks(rows, settings).any(axis=1)] |= np.uint32(rule.flag)
    return flags


def flag(readings: Readings, settings: QualitySettings = DEFAULT_SETTINGS) -> Readings:
    """The same rows with the bits of every rule that applies set in addition."""
    step_seconds = readings.step_seconds if len(readings) > 1 else inf
    return readings.with_flags(flag_rows(readings.times, readings.values, readings.channels, step_seconds, settings))


def summary(flags: np.ndarray) -> dict[str, int]:
    """How many rows carry each flag.

    >>> counts = summary(np.array([0, 1, 3], np.uint32))
    >>> counts["RANGE"], counts["SENTINEL"], counts["STUCK"]
    (2, 1, 0)
    """
    return {name: int(np.count_nonzero(flags & bit)) for name, bit in Flag.__members__.items()}
