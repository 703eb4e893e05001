"""Hand-worked windows of both gap policies, and the promise that chunks give what the whole would."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.data.flags import Flag
from scare.errors import UsageError
from scare.windowing.windows import (
    NEVER,
    POLICIES,
    RECENT,
    STRICT,
    GapPolicy,
    Grid,
    longest_run,
    make_grid,
    row_flags,
    steps_between,
    steps_in,
)
from tests.windowing.rows import POLICY, ROWS, WINDOW, Rows

TEN_YEARS = 10 * 365.25 * 24 * 3600


def lay_minutes(minutes: np.ndarray, window: int, policy: GapPolicy) -> Grid:
    """One channel that counts the rows, laid at these minutes."""
    return make_grid(60.0 * minutes, np.arange(len(minutes), dtype=float)[:, None], 60.0, window, policy, None)


def minutes_with_holes(before: int, holes: int, after: int) -> np.ndarray:
    """Rows, then minutes without one, then rows."""
    return np.concatenate([np.arange(before), before + holes + np.arange(after)]).astype(float)


def newest_is_usable(minutes: np.ndarray, window: int, policy: GapPolicy) -> bool:
    return bool(lay_minutes(minutes, window, policy).usable(policy)[-1])


def test_the_two_policies_are_those_of_the_accuracy_tables() -> None:
    assert set(POLICIES) == {"strict", "recent"}
    assert (STRICT.checked, STRICT.hold, STRICT.percent) == (0, 15, 80)
    assert (RECENT.checked, RECENT.hold, RECENT.percent) == (60, 15, 80)
    assert (STRICT.rows_checked(360), STRICT.rows_needed(360)) == (360, 288)
    assert (RECENT.rows_checked(360), RECENT.rows_needed(360)) == (60, 48)
    assert (RECENT.rows_checked(24), RECENT.rows_needed(24)) == (24, 20)


@pytest.mark.parametrize(
    ("name", "number"), [("hold", -1), ("hold", 10**12), ("checked", -1), ("percent", 101), ("percent", -1)]
)
def test_a_policy_with_senseless_numbers_is_refused(name: str, number: int) -> None:
    with pytest.raises(UsageError, match=f"odd.*{number}"):
        GapPolicy("odd", **{name: number})


def test_windows_without_holes_are_the_last_rows_oldest_first() -> None:
    grid = lay_minutes(np.arange(6.0), 3, STRICT)
    ends = np.flatnonzero(grid.usable(STRICT))
    assert grid.windows(ends)[:, :, 0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert row_flags(grid, grid.usable(STRICT)).tolist() == [Flag.HISTORY, Flag.HISTORY, 0, 0, 0, 0]


def test_a_hole_repeats_the_row_before_it() -> None:
    lenient = GapPolicy("lenient", hold=2, percent=50)
    grid = lay_minutes(np.array([0.0, 1.0, 4.0, 5.0]), 4, lenient)
    ends = np.flatnonzero(grid.usable(lenient))
    assert grid.windows(ends)[:, :, 0].tolist() == [[1, 1, 1, 2], [1, 1, 2, 3]]


def test_strict_holds_a_value_for_fifteen_steps_and_not_for_sixteen() -> None:
    assert newest_is_usable(minutes_with_holes(60, 15, 20), 90, STRICT)  # 75 of 90 are real
    assert not newest_is_usable(minutes_with_holes(60, 16, 20), 90, STRICT)  # 74 of 90 are: 82 %
    assert newest_is_usable(minutes_with_holes(60, 16, 90), 90, STRICT)  # the gap has left the window


def test_strict_wants_eighty_percent_of_the_rows_and_not_seventy_nine() -> None:
    def two_gaps(first: int, second: int) -> np.ndarray:
        start = minutes_with_holes(60, first, 20)
        return np.concatenate([start, start[-1] + 1 + second + np.arange(20)])

    assert newest_is_usable(two_gaps(10, 10), 100, STRICT)  # 80 of 100
    assert not newest_is_usable(two_gaps(10, 11), 100, STRICT)  # 79 of 100


def test_strict_wants_the_newest_row_real() -> None:
    times, values = 60.0 * np.arange(10), np.arange(10.0)[:, None]
    values[9] = np.nan
    grid = make_grid(times, values, 60.0, 5, STRICT, None)
    flags = row_flags(grid, grid.usable(STRICT))
    assert flags[8] == 0
    assert flags[9] == Flag.MISSING


def test_recent_asks_only_the_newest_sixty_rows_and_repeats_the_first_row_before_the_start() -> None:
    grid = lay_minutes(np.arange(60.0), 360, RECENT)
    assert row_flags(grid, grid.usable(RECENT)).tolist() == [Flag.HISTORY] * 59 + [0]
    assert not lay_minutes(np.arange(359.0), 360, STRICT).usable(STRICT).any()
    window = grid.windows(grid.slots[-1:])[0, :, 0]
    assert_array_equal(window, np.concatenate([np.zeros(300), np.arange(60)]))


def test_recent_holds_older_rows_without_limit() -> None:
    minutes = minutes_with_holes(100, 290, 60)
    grid = lay_minutes(minutes, 360, RECENT)
    window = grid.windows(grid.slots[-1:])[0, :, 0]
    assert grid.usable(RECENT)[-1]
    assert not grid.usable(STRICT)[-1]
    assert_array_equal(window, np.concatenate([np.arange(90, 100), np.full(290, 99.0), np.arange(100, 160)]))


def test_recent_judges_its_newest_rows_as_strict_does_a_whole_window() -> None:
    assert newest_is_usable(minutes_with_holes(100, 12, 30), 360, RECENT)  # 48 of the newest 60 are real
    assert not newest_is_usable(minutes_with_holes(100, 13, 30), 360, RECENT)  # 47
    assert newest_is_usable(minutes_with_holes(100, 13, 48), 360, RECENT)  # one hole has left the sixty
    assert not newest_is_usable(minutes_with_holes(100, 16, 59), 360, RECENT)  # the newest hole is 16 old
    assert newest_is_usable(minutes_with_holes(100, 16, 60), 360, RECENT)


@pytest.mark.parametrize("policy", [STRICT, RECENT, GapPolicy("short", 3, 2, 50)])
def test_a_gap_of_ten_years_is_a_gap_of_the_longest_jump(policy: GapPolicy) -> None:
    window, step = 80, 1.0

    def flags_and_windows(gap: float) -> tuple[np.ndarray, np.ndarray, int]:
        times = np.concatenate([np.arange(100.0), 99 + gap + np.arange(200.0)])
        grid = make_grid(times, np.arange(300.0)[:, None], step, window, policy, None)
        usable = grid.usable(policy)
        return row_flags(grid, usable), grid.windows(np.flatnonzero(usable)), len(grid.real)

    longest = policy.longest_jump(window)
    flags, windows, slots = flags_and_windows(longest * step)
    flags_after_years, windows_after_years, slots_after_years = flags_and_windows(TEN_YEARS)
    assert_array_equal(flags_after_years, flags)
    assert_array_equal(windows_after_years, windows)
    assert slots_after_years == slots == window - 1 + 99 + longest + 200


def test_a_row_less_than_half_a_step_after_the_last_used_one_is_early() -> None:
    times = np.array([0.0, 29.0, 59.0, 60.0, 119.0, 119.0, 100.0, 148.0, 149.0])
    grid = make_grid(times, np.arange(9.0)[:, None], 60.0, 1, STRICT, None)
    used = [0, 2, 4, 8]  # 59 counts from 0, 119 from 59, 149 from 119: half a step is enough
    assert np.flatnonzero(grid.slots >= 0).tolist() == used
    assert grid.slots[used].tolist() == [0, 1, 2, 3]
    assert grid.last_time == 149.0
    flags = row_flags(grid, grid.usable(STRICT))
    assert np.flatnonzero(flags == Flag.EARLY).tolist() == [1, 3, 5, 6, 7]


def test_steps_between_rounds_halves_up() -> None:
    steps = [steps_between(seconds, 60.0) for seconds in (-5.0, 0.0, 29.9, 30.0, 89.9, 90.0, 150.0)]
    assert steps == [0, 0, 0, 1, 1, 2, 3]


def test_a_row_with_one_missing_channel_is_repeated_as_a_whole() -> None:
    values = np.array([[1.0, 10.0], [2.0, np.nan], [3.0, 30.0]])
    grid = make_grid(60.0 * np.arange(3), values, 60.0, 1, STRICT, None)
    assert grid.values.tolist() == [[1, 10], [1, 10], [3, 30]]
    assert grid.real.tolist() == [True, False, True]
    assert grid.age.tolist() == [0, 1, 0]


def test_no_rows_and_rows_without_values_give_no_windows() -> None:
    nothing = make_grid(np.empty(0), np.empty((0, 2)), 60.0, 3, STRICT, None)
    assert not nothing.usable(STRICT).any()
    assert len(row_flags(nothing, nothing.usable(STRICT))) == 0
    blank = make_grid(60.0 * np.arange(5), np.full((5, 2), np.nan), 60.0, 3, STRICT, None)
    assert (row_flags(blank, blank.usable(STRICT)) == Flag.MISSING).all()


def test_helpers_count_runs_and_rows() -> None:
    assert longest_run(np.zeros(4, bool)) == longest_run(np.empty(0, bool)) == 0
    assert longest_run(np.array([True, True, False, True])) == 2
    assert longest_run(np.ones(5, bool)) == 5
    assert (steps_in(24, 3600.0), steps_in(1, 7.0), steps_in(0.0001, 60.0)) == (24, 515, 1)


@settings(deadline=None, max_examples=150)
@given(rows=ROWS, window=WINDOW, policy=POLICY, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_laying_chunk_by_chunk_is_laying_at_once(rows: Rows, window: int, policy: GapPolicy, cuts: list[int]) -> None:
    whole = make_grid(rows.times, rows.values, rows.step, window, policy, None)
    whole_usable = whole.usable(policy)
    history, flags = None, []
    for start, end in pairwise([0, *sorted(min(cut, len(rows.times)) for cut in cuts), len(rows.times)]):
        part = make_grid(rows.times[start:end], rows.values[start:end], rows.step, window, policy, history)
        usable = part.usable(policy)
        flags.append(row_flags(part, usable))
        assert not usable[: window - 1].any()  # history ends no window: its rows have had theirs
        used = part.slots >= 0
        here, there = part.slots[used], whole.slots[start:end][used]
        assert_array_equal(part.slots >= 0, whole.slots[start:end] >= 0)
        assert_array_equal(part.real[here], whole.real[there])
        assert_array_equal(part.windows(here[usable[here]]), whole.windows(there[usable[here]]))
        if window > 1:  # a window of one row has no history, and needs none
            finite = whole.age[there] < NEVER
            assert_array_equal(part.age[here][finite], whole.age[there][finite])
            assert (part.age[here][~finite] >= NEVER).all()
        history = part.tail()
        assert len(history.real) == window - 1
    assert_array_equal(np.concatenate(flags), row_flags(whole, whole_usable))
