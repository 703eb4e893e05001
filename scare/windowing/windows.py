"""Rows on a regular grid, cut into windows: oldest first, newest last; which may be used, and how long they are.

    rows      r0 r1 .. r3 r4 r5          (r2 never came)
    slots     |  |  .  |  |  |           one slot a step; a hole repeats the row before it
    history h h                          window-1 slots before the start repeat the first row
    windows   [h  h  r0]                 of 3 slots each
                 [h  r0 r1]
                    [r0 r1 r1]           ends in a hole: no value for it
                       [r1 r1 r3] …      newest row last

Rule for irregular steps: a row lies round(Δt / step) slots after the last row used; a row less than half a step after
it is not used (`Flag.EARLY`), and one more than a window before it begins a new history (`Flag.RESTART`). The
module `live_windows` does the same one reading at a time, and the two must agree. Windows overlap, so none is copied: a
window is the index of its newest slot.

The length of a window is given in readings, as a duration, or chosen for the data (`auto`). A sensor reacts and
recovers in minutes to hours whatever its time step, so `auto` is an hour, or a few hours if readings come slowly. It is
shorter for a short co-location, because the first window after each border of a split by time is not scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated

import numpy as np
from annotated_types import Ge, Predicate

from scare.data.flags import Flag
from scare.data.readings import Readings
from scare.data.split import FEWEST_READINGS, shortest_part
from scare.errors import UsageError
from scare.schema import Name
from scare.words import as_option, duration, parse_duration

LONGEST_HOLD = 1 << 20  # steps: the largest `hold`, since gaps up to about that long are laid out in memory
NEVER = 1 << 40  # the age of a slot before the first real row
AUTO = "auto"
USUAL_SECONDS = 3600.0  # length of a window chosen for the data (`auto`), within the limits below
SHORTEST, LONGEST = 12, 360  # fewest and most readings of an `auto` window
MOST_UNSCORED = 0.25  # an `auto` window leaves at most this share of validation or test unscored


@dataclass(frozen=True)
class GapPolicy:
    """When a window with holes may still be used.

    Of the newest `checked` rows (0 = the whole window), the last must be real (measured, not a hole), at least
    `percent` must be real, and none may repeat a row more than `hold` steps old. Older rows may repeat without limit.
    """

    name: Name
    checked: int = 0
    hold: int = 15
    percent: int = 80

    def __post_init__(self) -> None:
        if self.checked < 0 or not 0 <= self.hold <= LONGEST_HOLD or not 0 <= self.percent <= 100:
            raise UsageError(
                f"gap policy '{self.name}': checked must be at least 0, hold 0 to {LONGEST_HOLD} and percent 0 to 100,"
                f" not {self.checked}, {self.hold} and {self.percent}"
            )

    def rows_checked(self, window: int) -> int:
        """Return how many of a window's rows, the newest ones, are checked for holes."""
        return min(window, self.checked) if self.checked else window

    def rows_needed(self, window: int) -> int:
        """Return the number of checked rows that must be real."""
        return -(-self.rows_checked(window) * self.percent // 100)  # rounded up

    def longest_jump(self, window: int) -> int:
        """Return the longest gap, in slots, that needs to be filled: a longer one gives the same windows."""
        return window + self.hold + 1


STRICT = GapPolicy("strict")
RECENT = GapPolicy("recent", checked=60)
ANY = GapPolicy("any", checked=1)  # for training: one real row is enough
POLICIES = {policy.name: policy for policy in (RECENT, STRICT)}
LEARNED_FROM = {ANY.name: ANY, **POLICIES}  # the choices for training, by name


@dataclass(frozen=True)
class Grid:
    """Rows placed on a regular grid, after `window - 1` slots of history."""

    window: int  # slots
    values: np.ndarray  # [slots, channels], with holes filled
    real: np.ndarray  # bool [slots]: whether the slot has a row with all its values, not a repeated one
    age: np.ndarray  # [slots] steps since the last real slot
    slots: np.ndarray  # [rows] the slot of each input row, -1 for a row not used
    last_time: float  # seconds: the time of the newest row used

    def tail(self) -> "Grid":
        """Return the last `window - 1` slots, which are the history of the rows to come."""
        keep = slice(len(self.real) - self.window + 1, None)
        no_rows = np.empty(0, np.int64)
        return Grid(self.window, self.values[keep], self.real[keep], self.age[keep], no_rows, self.last_time)

    def usable(self, policy: GapPolicy) -> np.ndarray:
        """Whether `policy` allows the window that ends in each slot, bool [slots].

        Always false in the first slots, those of the history, which only fill the windows of the rows after them.
        """
        checked = policy.rows_checked(self.window)
        has_enough = _moving_sum(self.real, checked) >= policy.rows_needed(self.window)
        none_too_old = _moving_sum(self.age > policy.hold, checked) == 0  # no row repeats one that is too old
        usable = self.real & has_enough & none_too_old
        usable[: self.window - 1] = False
        return usable

    def windows(self, ends: np.ndarray) -> np.ndarray:
        """Gather the windows whose newest slots are `ends`, [len(ends), window, channels]."""
        if not len(ends):  # the grid may be shorter than a window
            return np.empty((0, self.window, self.values.shape[1]), self.values.dtype)
        all_windows = np.lib.stride_tricks.sliding_window_view(self.values, self.window, axis=0)
        return all_windows[ends - (self.window - 1)].swapaxes(1, 2)


def make_grid(
    times: np.ndarray, values: np.ndarray, step_seconds: float, window: int, policy: GapPolicy, history: Grid | None
) -> Grid:
    """Place rows on a grid after `history`, which is the `tail` of the grid of earlier rows; None if there were none.

    `times` are in seconds [rows]; `values` are [rows, channels], NaN for a missing one.

    >>> values = np.array([[1.0], [2.0], [4.0]])
    >>> grid = make_grid(np.array([0.0, 60.0, 180.0]), values, 60.0, 3, STRICT, None)
    >>> grid.values[:, 0], grid.real
    (array([1., 1., 1., 2., 2., 4.]), array([False, False,  True,  True, False,  True]))
    """
    lead = window - 1  # slots of the history
    if history is None:
        blank, ages = np.full((lead, values.shape[1]), np.nan), np.full(lead, NEVER, np.int64)
        history = Grid(window, blank, np.zeros(lead, bool), ages, np.empty(0, int), np.nan)
    slots = _place(times, step_seconds, policy.longest_jump(window), history.last_time)
    used = slots >= 0
    count = lead + (int(slots.max()) + 1 if used.any() else 0)
    slot_values = np.full((count, values.shape[1]), np.nan)
    slot_values[:lead] = history.values
    slot_values[lead + slots[used]] = values[used]
    real = np.isfinite(slot_values).all(axis=1)
    real[:lead] = history.real
    age = _ages(real, history.age)
    last_time = float(times[used][-1]) if used.any() else history.last_time
    placed = np.where(used, slots + lead, -1)
    return Grid(window, _fill_holes(slot_values, real, lead), real, age, placed, last_time)


def row_flags(grid: Grid, usable: np.ndarray) -> np.ndarray:
    """Flag the rows of a grid whose window is not usable (`usable` [slots]) with the reason: uint32 [rows].

    EARLY: too soon after the previous row, so not used; MISSING: lacks a value; HISTORY: too few rows before it.
    """
    flags = np.full(len(grid.slots), Flag.EARLY, np.uint32)
    used = grid.slots >= 0
    slots = grid.slots[used]
    reason = np.where(grid.real[slots], Flag.HISTORY, Flag.MISSING)
    flags[used] = np.where(usable[slots], 0, reason)
    return flags


def longest_run(usable: np.ndarray) -> int:
    """Return the length of the longest run of consecutive true values.

    >>> longest_run(np.array([True, False, True, True]))
    2
    """
    changes = np.flatnonzero(np.diff(np.concatenate([[0], usable.astype(np.int8), [0]])))
    starts, ends = changes[::2], changes[1::2]  # of the runs
    return int((ends - starts).max(initial=0))


def steps_between(elapsed_seconds: float, step_seconds: float) -> int:
    """Count slots from one row to the next: elapsed / step, rounded half up; below 1, the row is too early."""
    return int(elapsed_seconds / step_seconds + 0.5)


def history_starts(times: np.ndarray, step_seconds: float, window: int, last_time: float) -> list[int]:
    """Find rows whose time is more than a window before that of the last row used: each begins a new history.

    `last_time` is NaN if there was no row before.

    >>> history_starts(np.array([0.0, 60.0, 9e9, 120.0, 180.0, 60.0]), 60.0, 1, np.nan)
    [3, 5]
    """
    window_seconds = window * step_seconds
    # Usually no row is far behind any row before it; then the loop below is not needed.
    latest = np.fmax.accumulate(np.concatenate([[last_time], times]))
    if not (times < latest[:-1] - window_seconds).any():
        return []
    starts, last = [], last_time
    for row, time in enumerate(times.tolist()):
        if time < last - window_seconds:
            starts.append(row)
        elif not np.isnan(last) and steps_between(time - last, step_seconds) < 1:
            continue  # too early, so this row is not used
        last = time
    return starts


def steps_in(hours: float, step_seconds: float) -> int:
    """Convert hours to a number of time steps, rounded up; at least one."""
    return max(1, ceil(hours * 3600 / step_seconds))


def _place(times: np.ndarray, step: float, longest: int, last_time: float) -> np.ndarray:
    """Find the slot of each row, counted from the first one after the history; -1 for a row not used.

    Jumps of more than `longest` slots are shortened to it; `last_time` is NaN if there is no row in the history.
    """
    # The first row of all takes the next slot, as if one had come a step earlier.
    elapsed = np.diff(times, prepend=times[:1] - step if np.isnan(last_time) else last_time)
    jumps = (elapsed / step + 0.5).astype(np.int64)  # as in `steps_between`
    if (jumps >= 1).all():  # every row is used
        return np.cumsum(np.minimum(jumps, longest)) - 1
    slots = np.full(len(times), -1)
    slot, last = -1, last_time
    for row, time in enumerate(times.tolist()):
        jump = 1 if np.isnan(last) else steps_between(time - last, step)
        if jump >= 1:
            slot += min(jump, longest)
            slots[row] = slot
            last = time
    return slots


def _ages(real: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Count steps since the last real slot [slots]; the first slots are the history, whose ages are `before`."""
    index = np.arange(len(real))
    last_real = np.maximum.accumulate(np.where(real, index, -1))
    # Until the first real slot, ages continue from the last one of the history.
    start = before[-1] + 1 - len(before) if len(before) else NEVER
    age = np.where(last_real >= 0, index - last_real, index + start)
    age[: len(before)] = before
    return age


def _fill_holes(slot_values: np.ndarray, real: np.ndarray, lead: int) -> np.ndarray:
    """Fill each hole of `slot_values` [slots, channels] with the row before it, or else with the first row.

    The first `lead` slots are history, whose holes were filled already.
    """
    has_row = real.copy()
    has_row[:lead] = np.isfinite(slot_values[:lead]).all(axis=1)
    if not has_row.any():
        return slot_values
    source = np.maximum.accumulate(np.where(has_row, np.arange(len(has_row)), -1))  # slot of the row before, or −1
    return slot_values[np.where(source >= 0, source, np.argmax(has_row))]


def _moving_sum(flags: np.ndarray, width: int) -> np.ndarray:
    """Count true values among each slot and the `width - 1` before it, [slots]."""
    total = np.cumsum(flags)
    total[width:] = total[width:] - total[:-width].copy()
    return total


def is_window(text: str) -> bool:
    """Whether a text is a duration or `auto`."""
    return text == AUTO or parse_duration(text) is not None


WindowLength = Annotated[int, Ge(FEWEST_READINGS)] | Annotated[str, Predicate(is_window), "such as 1h, 90min or auto"]


def parse_window(text: str) -> int | str:
    """Parse the window of an option.

    >>> parse_window("60"), parse_window("1h")
    (60, '1h')
    """
    try:
        return checked_window(int(text) if text.strip().isdecimal() else text.strip())
    except UsageError as error:
        raise UsageError(f"--window: {error}") from error


def checked_window(window: int | str) -> int | str:
    """Return the window, or raise a UsageError if it is too short or no length at all."""
    if isinstance(window, int) and window < FEWEST_READINGS:
        raise UsageError(f"a window needs at least {FEWEST_READINGS} readings, not {window}")
    if isinstance(window, str) and not is_window(window):
        raise UsageError(f"a window is a number of readings, a duration such as 1h or 90min, or auto, not '{window}'")
    return window


def window_readings(window: int | str, readings: Sequence[Readings]) -> int:
    """Convert the length of a window (readings, a duration or `auto`) to readings, at their time step."""
    if isinstance(window, int):
        return window
    step = float(np.median([box.step_seconds for box in readings if len(box) > 1] or [USUAL_SECONDS]))
    seconds = parse_duration(window)
    if seconds is None:  # auto
        usual = min(max(round(USUAL_SECONDS / step), SHORTEST), LONGEST)
        return max(FEWEST_READINGS, min(usual, int(MOST_UNSCORED * shortest_part(readings) / step)))
    if (count := round(seconds / step)) < FEWEST_READINGS:
        raise UsageError(
            f"a window of {window} is too short for a reading every {duration(step)}: use --window"
            f" {as_option(FEWEST_READINGS * step)}, which has {FEWEST_READINGS} readings, or longer"
        )
    return count
