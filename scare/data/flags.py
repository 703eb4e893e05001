"""Quality rules set bits in a row's flags; they never remove a row or change a value.

Every rule looks only at the row and at the state kept of earlier rows (`FlagState`), so rows flagged as they arrive
carry the same bits as rows flagged at once. `windowing` sets the other bits: why a row has no window (EARLY, MISSING,
HISTORY) and whether it lies outside the training range (OUTSIDE).
Called by `colocation`, `split` and `windowing`.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cached_property
from math import inf
from typing import Annotated

import numpy as np
import polars as pl
from annotated_types import MaxLen

from scare.data.readings import REFERENCE, Channel, Readings
from scare.errors import DataError, UsageError
from scare.schema import Amount

LARGEST = 1e30  # a larger number is no reading, and would overflow in float32
SPIKE_MEDIAN_ROWS = 5  # a value is compared with the median of so many rows before it
SPIKE_USUAL_ROWS = 30  # its usual distance to that median is the median of so many distances before it
SPIKE_FLOOR = 0.001  # least usual distance, a share of the range: one step of a coarse A/D converter is no spike
RESTART_SECONDS = 3600.0  # a longer gap counts as a new start
WARM_UP_ROWS = 1800  # most rows that count as warm-up: half an hour of one-second rows
TRAINING = "training"  # name of the part whose dead devices are dropped from all parts
DEAD_SHARE = 0.5  # a channel that is dead on more than this share of the devices gets a separate message


class Flag(IntFlag):
    """Every bit a row can carry. A number, once given, is never reused.

    `MEANINGS` and docs/flags.md explain each.

    Examples
    --------
    >>> flags = Flag.SPIKE | Flag.OUTSIDE
    >>> int(flags), Flag.SPIKE in flags, flag_names(flags)
    (8200, True, ['SPIKE', 'OUTSIDE'])
    """

    RANGE = 1 << 0
    SENTINEL = 1 << 1
    STUCK = 1 << 2
    SPIKE = 1 << 3
    RATE = 1 << 4
    WARM_UP = 1 << 5
    GAP = 1 << 6
    MISSING = 1 << 8
    EARLY = 1 << 9
    HISTORY = 1 << 10
    UNSETTLED = 1 << 11
    RESTART = 1 << 12
    OUTSIDE = 1 << 13
    NOT_FINITE = 1 << 14


MEANINGS = {  # as docs/flags.md lists them
    Flag.RANGE: "outside the channel's range: taken as missing",
    Flag.SENTINEL: 'a number that means "no reading" (−200, −999, 65535 …): taken as missing',
    Flag.STUCK: "the same value for 60 rows",
    Flag.SPIKE: "far from its recent past",
    Flag.RATE: "changed faster than a quarter of the channel's range a minute",
    Flag.WARM_UP: "within 30 minutes of a start or of a gap longer than an hour",
    Flag.GAP: "first row after missing time",
    Flag.MISSING: "a channel has no usable value",
    Flag.EARLY: "less than half a step after the row before: not used",
    Flag.HISTORY: "too little history for a window under the gap policy",
    Flag.UNSETTLED: "a device that was not in training, whose raw channels are not centred by its own mean yet",
    Flag.RESTART: "a new history begins: time went back by more than a window, or the model was replaced",
    Flag.OUTSIDE: "unlike training: beyond a channel's range, or channels that do not go together",
    Flag.NOT_FINITE: "the model's result is not a number",
}
UNUSABLE = Flag.RANGE | Flag.SENTINEL  # bits of values that count as missing
NO_VALUE = Flag.MISSING | Flag.EARLY | Flag.HISTORY | Flag.NOT_FINITE  # bits of rows without a calibrated value
_BITS = {name: int(bit) for name, bit in Flag.__members__.items()}  # plain numbers: much faster than a `Flag`


@dataclass(frozen=True)
class QualitySettings:
    """The thresholds of the rules."""

    sentinels: Annotated[tuple[float, ...], MaxLen(100)] = (-200.0, -999.0, -9999.0, 65535.0)
    stuck_rows: int = 60
    spike_factor: Amount = 8.0
    rate_share: Amount = 0.25  # of the channel's range, per minute
    warm_up_seconds: Amount = 1800.0
    gap_steps: Amount = 1.5

    def __post_init__(self) -> None:
        if self.stuck_rows < 2:
            raise UsageError(f"stuck_rows is {self.stuck_rows}; it must be at least 2")


DEFAULT_SETTINGS = QualitySettings()


@dataclass(frozen=True)
class FlagState:
    """What the rules remember of earlier rows, for many devices at once; times are in seconds."""

    time: np.ndarray  # time of the last row; NaN if there is none [devices]
    started: np.ndarray  # when the box last started [devices]
    since: np.ndarray  # number of rows since that start [devices]
    run: np.ndarray  # number of rows for which the value has been the same [devices, channels]
    values: np.ndarray  # the last values, newest last [devices, channels, SPIKE_MEDIAN_ROWS]
    distances: np.ndarray  # the last values' distances to the median before each [devices, channels, SPIKE_USUAL_ROWS]

    @staticmethod
    def empty(devices: int, channels: int) -> "FlagState":
        """Return the state before any row."""
        never = np.full(devices, np.nan)
        return FlagState(
            time=never,
            started=never,
            since=np.zeros(devices, np.int64),
            run=np.zeros((devices, channels), np.int64),
            values=np.full((devices, channels, SPIKE_MEDIAN_ROWS), np.nan),
            distances=np.full((devices, channels, SPIKE_USUAL_ROWS), np.nan),
        )


@dataclass(frozen=True)
class RuleInput:
    """The rows that quality rules judge, and what is known of the rows before them."""

    values: np.ndarray  # [rows, devices, channels]
    channels: tuple[Channel, ...]
    times: np.ndarray  # seconds [rows, devices]
    step_seconds: float
    past: FlagState

    @cached_property
    def range_widths(self) -> np.ndarray:
        """Width of each channel's range, inf without one [channels]."""
        return np.array([channel.high - channel.low for channel in self.channels])

    @cached_property
    def waits(self) -> np.ndarray:
        """Seconds since the previous row, zero for a device's first [rows, devices]."""
        return np.nan_to_num(np.diff(self.times, axis=0, prepend=self.past.time[None]))

    @cached_property
    def previous(self) -> np.ndarray:
        """The value before each value, one row earlier; NaN if there is none [rows, devices, channels]."""
        return np.concatenate([self.past.values[None, ..., -1], self.values[:-1]])

    @cached_property
    def runs(self) -> np.ndarray:
        """Rows for which the value has been the same; 1 where it is new or missing [rows, devices, channels]."""
        return _rows_since(self.values != self.previous, self.past.run) + 1

    @cached_property
    def distances(self) -> np.ndarray:
        """How far each value is from the median of the five before it [rows, devices, channels]."""
        return np.abs(self.values - _median(_preceding(self.past.values, self.values)))

    @cached_property
    def usual_distances(self) -> np.ndarray:
        """The median of the thirty preceding distances [rows, devices, channels]."""
        return _median(_preceding(self.past.distances, self.distances))

    @cached_property
    def last_start(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows since the box last started, and the time of that start in seconds; [rows, devices] each."""
        has_started = self.waits > RESTART_SECONDS
        has_started[0] |= np.isnan(self.past.time)
        rows = _rows_since(has_started, self.past.since + 1)
        start = np.arange(len(rows))[:, None] - rows  # index of the row of the start; negative if it was before these
        start_times = np.take_along_axis(self.times, np.maximum(start, 0), axis=0)
        return rows, np.where(start >= 0, start_times, self.past.started)

    @property
    def next_state(self) -> FlagState:
        """The state after these rows."""
        rows, start_times = self.last_start
        return FlagState(
            time=self.times[-1],
            started=start_times[-1],
            since=rows[-1],
            run=self.runs[-1],
            values=_newest(self.past.values, self.values),
            distances=_newest(self.past.distances, self.distances),
        )


@dataclass(frozen=True)
class QualityRule:
    """A rule with its permanent id.

    `marks` returns which values the rule flags, bool [rows, devices, channels]; a rule for whole rows has one channel.
    """

    id: str
    name: str
    flag: Flag
    description: str
    marks: Callable[[RuleInput, QualitySettings], np.ndarray]


# One function per rule, as `QualityRule.marks` expects; `RULES_2026_1` describes what each marks.


def _out_of_range(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    low = np.array([channel.low for channel in rows.channels])
    high = np.array([channel.high for channel in rows.channels])
    return (rows.values < low) | (rows.values > high) | (np.abs(rows.values) > LARGEST)


def _sentinels(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    marks = np.zeros(rows.values.shape, bool)
    for column, channel in enumerate(rows.channels):
        # -1 is a common sentinel too, but a plausible reading of a channel that may be negative.
        extra = (-1.0,) if channel.low >= 0 else ()
        for sentinel in settings.sentinels + extra:
            marks[..., column] |= rows.values[..., column] == sentinel
    return marks


def _stuck(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    return rows.runs >= settings.stuck_rows


def _spikes(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    floor = np.where(np.isfinite(rows.range_widths), SPIKE_FLOOR * rows.range_widths, 0.0)
    limit = settings.spike_factor * np.maximum(rows.usual_distances, floor)
    return (rows.distances > limit) & (limit > 0)  # zero: nothing to compare with


def _too_fast(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    minutes = np.maximum(rows.waits / 60.0, 1.0)  # one-second readings may jump within a minute
    return np.abs(rows.values - rows.previous) > settings.rate_share * rows.range_widths * minutes[..., None]


def _warming_up(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    rows_since, start_times = rows.last_start
    return ((rows.times - start_times < settings.warm_up_seconds) & (rows_since < WARM_UP_ROWS))[..., None]


def _after_gap(rows: RuleInput, settings: QualitySettings) -> np.ndarray:
    return (rows.waits > settings.gap_steps * rows.step_seconds)[..., None]


# Published results name this set: a change of a rule is a new rule in a new set, never an edit of this one.
RULES_2026_1 = (
    QualityRule("Q01", "range", Flag.RANGE, "The value lies outside the channel's range.", _out_of_range),
    QualityRule("Q02", "sentinel", Flag.SENTINEL, "The value is a number that stands for no reading.", _sentinels),
    QualityRule("Q03", "stuck", Flag.STUCK, "The last `stuck_rows` rows all have the same value.", _stuck),
    QualityRule(
        "Q04",
        "spike",
        Flag.SPIKE,
        "The distance to the median of the previous 5 rows is more than `spike_factor` times the larger of "
        "the median of the previous 30 such distances and a thousandth of the channel's range.",
        _spikes,
    ),
    QualityRule(
        "Q05",
        "rate",
        Flag.RATE,
        "The change from the row before is more than `rate_share` of the channel's range per minute, where a "
        "shorter wait counts as a minute and a channel without a range is not judged.",
        _too_fast,
    ),
    QualityRule(
        "Q06",
        "warm-up",
        Flag.WARM_UP,
        "The first row, or the last gap of over an hour, is less than `warm_up_seconds` and 1800 rows ago.",
        _warming_up,
    ),
    QualityRule("Q07", "gap", Flag.GAP, "The row before is more than `gap_steps` steps ago.", _after_gap),
)
RULES = RULES_2026_1  # the set in use
NO_STATE = FlagState.empty(0, 0)  # for rules that look at no earlier row


def usable_values(
    values: np.ndarray, channels: tuple[Channel, ...], settings: QualitySettings = DEFAULT_SETTINGS
) -> tuple[np.ndarray, np.ndarray]:
    """Copy `values` [..., channels] with NaN for the `UNUSABLE` ones; returns the copy and the flags, uint32 [...].

    >>> usable_values(np.array([[21.0], [-999.0], [90.0]]), (Channel("temperature", "C", -40, 85),))
    (array([[21.], [nan], [nan]]), array([0, 3, 1], dtype=uint32))
    """
    usable = np.array(values, float)
    flags = np.zeros(usable.shape[:-1], np.uint32)
    rows = RuleInput(usable.copy(), channels, np.empty(0), inf, NO_STATE)  # these rules ignore time
    for rule in RULES:
        if rule.flag in UNUSABLE:
            marks = rule.marks(rows, settings)
            usable[marks] = np.nan
            flags[marks.any(axis=-1)] |= np.uint32(rule.flag)
    return usable, flags


def drop_unusable_references(readings: Readings) -> Readings:
    """Replace reference values that are out of range or stand for "no reading" (such as -999) with null."""
    if readings.reference is None:
        return readings
    targets, _ = usable_values(readings.targets[:, None], (readings.reference,))
    return replace(readings, frame=readings.frame.with_columns(pl.Series(REFERENCE, targets[:, 0])))


class RowFlagger:
    """Apply the rules to rows as they arrive, for many devices at once; chunks of any size give equal flags.

    Expects values that `usable_values` has filtered: unusable ones are NaN.
    """

    def __init__(
        self, channels: tuple[Channel, ...], step_seconds: float, settings: QualitySettings, devices: int = 1
    ) -> None:
        self._channels, self._step_seconds, self._settings = channels, step_seconds, settings
        self.past = FlagState.empty(devices, len(channels))

    def push(self, times: np.ndarray, usable: np.ndarray) -> np.ndarray:
        """Flag `usable` values [rows, devices, channels] at `times` [rows, devices]: uint32 [rows, devices]."""
        flags = np.zeros(times.shape, np.uint32)
        if not len(times):
            return flags
        rows = RuleInput(usable, self._channels, times, self._step_seconds, self.past)
        with np.errstate(invalid="ignore"):
            for rule in RULES:
                if rule.flag not in UNUSABLE:
                    flags[rule.marks(rows, self._settings).any(axis=-1)] |= np.uint32(rule.flag)
        self.past = rows.next_state
        return flags


def flag_rows(
    times: np.ndarray,
    values: np.ndarray,
    channels: tuple[Channel, ...],
    step_seconds: float,
    settings: QualitySettings = DEFAULT_SETTINGS,
) -> np.ndarray:
    """Flag one device's `values` [rows, channels] at `times` [rows]: uint32 [rows]."""
    usable, flags = usable_values(values, channels, settings)
    return flags | RowFlagger(channels, step_seconds, settings).push(times[:, None], usable[:, None])[:, 0]


def flag(readings: Readings) -> Readings:
    """Set the bits of every rule that applies, in addition to those already set."""
    step_seconds = readings.step_seconds if len(readings) > 1 else inf
    return readings.with_flags(flag_rows(readings.times, readings.values, readings.channels, step_seconds))


def flag_names(flags: int) -> list[str]:
    """Return the names of the bits that are set.

    >>> flag_names(Flag.SPIKE | Flag.GAP)
    ['SPIKE', 'GAP']
    """
    plain = int(flags)
    return [name for name, bit in _BITS.items() if plain & bit]


def count_flags(flags: np.ndarray) -> dict[str, int]:
    """Count the rows that carry each flag.

    >>> counts = count_flags(np.array([0, 1, 3], np.uint32))
    >>> counts["RANGE"], counts["SENTINEL"], counts["STUCK"]
    (2, 1, 0)
    """
    return {name: int(np.count_nonzero(flags & bit)) for name, bit in Flag.__members__.items()}


def find_dead_channels(readings: Readings) -> tuple[str, ...]:
    """Return the channels because of which a device has no complete row; empty if it has one.

    These are the channels without a usable value, or all channels if each has values, but never in the same row.
    """
    known = np.isfinite(usable_values(readings.values, readings.channels)[0])
    if known.all(axis=1).any() or not len(readings):
        return ()
    names = tuple(channel.name for channel in readings.channels)
    return tuple(name for name, alive in zip(names, known.any(axis=0), strict=True) if not alive) or names


def drop_dead_devices(
    parts: Mapping[str, Sequence[Readings]],
) -> tuple[dict[str, tuple[Readings, ...]], tuple[str, ...]]:
    """Drop devices without one complete row from each part of a split; returns the parts and messages about it.

    The keys are names of parts ("training", …), or "" for readings that are not split. A device that is dead in
    training is dropped from all parts, since nothing was learned about it; one that is dead later only from that part.
    A message gives the reason for each such device, and another the remedy for each channel that is dead on most
    devices. Raises a DataError for a part with no device left.
    """
    alive: dict[str, tuple[Readings, ...]] = {}
    messages: list[str] = []
    untrained: set[str] = set()
    for part, readings in parts.items():
        candidates = [box for box in readings if box.device not in untrained]
        dead = {box.device: names for box in candidates if (names := find_dead_channels(box))}
        where = f" in {part}" if part else ""
        channels = [channel.name for channel in candidates[0].channels] if candidates else []  # all boxes have these
        messages += [f"{device} is left out: {_dead_reason(names, channels, where)}" for device, names in dead.items()]
        for name, count in Counter(name for names in dead.values() for name in names).items():
            if count > max(1, DEAD_SHARE * len(candidates)):
                messages.append(_dead_reason([name], channels, f" on {count} of {len(candidates)} devices{where}"))
        alive[part] = tuple(box for box in candidates if box.device not in dead)
        if readings and not alive[part]:
            raise DataError(f"no device is left{where}: {messages[-1]}")
        if part == TRAINING:
            untrained |= dead.keys()
    return alive, tuple(messages)


def _dead_reason(dead: Sequence[str], channels: Sequence[str], where: str) -> str:
    """Return which channel has no value and what to do; the first channel, the one to calibrate, cannot be left out."""
    if len(dead) == len(channels) > 1:  # each may have values, but never in the same row
        return f"no row has a usable value in every channel{where}; check it with 'scare inspect'"
    alive = shlex.quote(",".join(name for name in channels if name not in dead))
    remedy = "check it with 'scare inspect'" if channels[0] in dead else f"use --channels {alive} to leave it out"
    return f"{', '.join(dead)} has no usable value{where}; {remedy}"


def _rows_since(marked: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the number of rows since the last mark, 0 in a marked row; axis 0 of `marked` is rows.

    `before` is that number for the first row if nothing is marked in these rows.
    """
    index = np.arange(len(marked)).reshape(-1, *[1] * (marked.ndim - 1))  # [rows, 1, …]
    last_mark = np.maximum.accumulate(np.where(marked, index, -1), axis=0)  # -1: not marked yet
    return np.where(last_mark >= 0, index - last_mark, before + index)


def _newest(past: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Append `new` [rows, devices, channels] to `past` [devices, channels, size]; return the last `size` values."""
    return np.concatenate([past, np.moveaxis(new, 0, -1)], axis=-1)[..., -past.shape[-1] :]


def _preceding(past: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the values before each row of `new` [rows, devices, channels]: [rows, devices, channels, size].

    `past` [devices, channels, size] has the values before the first row.
    """
    if len(new) == 1:  # nearly every live reading: much faster
        return past[None]
    series = np.concatenate([past, np.moveaxis(new[:-1], 0, -1)], axis=-1)
    windows = np.lib.stride_tricks.sliding_window_view(series, past.shape[-1], axis=-1)
    return np.moveaxis(windows, 2, 0)


def _median(values: np.ndarray) -> np.ndarray:
    """Return the median of the known values along the last axis; NaN where fewer than half of them are known."""
    size, known = values.shape[-1], np.isfinite(values)
    ordered = np.sort(values, axis=-1)  # NaN comes last
    if np.count_nonzero(known) == known.size:  # nearly every live reading: several times as fast
        low, high = ordered[..., (size - 1) // 2], ordered[..., size // 2]
        return low + 0.5 * (high - low)
    count = np.count_nonzero(known, axis=-1)
    # The two middle values of the known ones, the same one if their number is odd.
    lower, upper = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, size - 1)
    low = np.take_along_axis(ordered, lower[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(ordered, upper[..., None], axis=-1)[..., 0]
    return np.where(count >= (size + 1) // 2, low + 0.5 * (high - low), np.nan)
