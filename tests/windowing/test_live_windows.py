"""Live windows must be those of the grid, one reading at a time and of many devices at once: the same to the bit."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.data.flags import NO_VALUE, Flag
from scare.windowing.live_windows import ONLY, RingBuffer
from scare.windowing.windows import RECENT, STRICT, GapPolicy, history_starts, make_grid, row_flags
from tests.windowing.rows import NAN, POLICY, ROWS, WINDOW, Rows


class Ring:
    """A ring buffer of one device."""

    def __init__(self, window: int, channels: int, step_seconds: float, policy: GapPolicy) -> None:
        self.policy, self.buffer = policy, RingBuffer(window, channels, step_seconds, policy)
        self.buffer.add(1)

    def push(self, time: float, row: np.ndarray) -> Flag:
        return Flag(int(self.buffer.push(ONLY, np.full(1, time), row[None])[0]))

    def window(self) -> np.ndarray:
        return self.buffer.windows(ONLY)[0]


def check_streaming_is_slicing(rows: Rows, window: int, policy: GapPolicy) -> None:
    ring, starts = (
        Ring(window, rows.values.shape[1], rows.step, policy),
        history_starts(rows.times, rows.step, window, NAN),
    )
    for first, end in pairwise(sorted({0, *starts, len(rows.times)})):
        part = Rows(rows.times[first:end], rows.values[first:end], rows.step)
        check_history(ring, part, window, Flag.RESTART if first in starts else Flag(0))


def check_history(ring: Ring, rows: Rows, window: int, begun: Flag) -> None:
    grid = make_grid(rows.times, rows.values, rows.step, window, ring.policy, None)
    flags = row_flags(grid, grid.usable(ring.policy))
    flags[0] |= np.uint32(begun)
    for row, (time, values) in enumerate(zip(rows.times.tolist(), rows.values, strict=True)):
        reason = ring.push(time, values)
        assert reason == Flag(int(flags[row])), f"row {row}"
        if not reason & NO_VALUE:
            assert_array_equal(ring.window(), grid.windows(grid.slots[row : row + 1])[0], strict=True)
    assert ring.buffer["filled"][0] == grid.real.any()


@settings(deadline=None, max_examples=300)
@given(rows=ROWS, window=WINDOW, policy=POLICY)
def test_streaming_is_slicing(rows: Rows, window: int, policy: GapPolicy) -> None:
    check_streaming_is_slicing(rows, window, policy)


def test_streaming_is_slicing_with_the_policies_we_ship() -> None:
    rng = np.random.default_rng(3)
    waits = rng.choice([1.0, 1.2, 0.3, 2.0, 9.0, 16.0, 17.0, 500.0], 1500, p=[0.9, 0.05, *[0.05 / 6] * 6])
    values = rng.normal(size=(1500, 2))
    values[rng.random(1500) < 0.02, 0] = np.nan
    for policy, window in ((STRICT, 60), (STRICT, 100), (RECENT, 90), (RECENT, 24)):
        rows = Rows(60.0 * np.cumsum(waits), values, 60.0)
        grid = make_grid(rows.times, rows.values, rows.step, window, policy, None)
        assert 100 < np.count_nonzero(grid.usable(policy)) < 1400
        check_streaming_is_slicing(rows, window, policy)


def test_the_first_reading_fills_the_ring() -> None:
    ring = Ring(4, 1, 60.0, GapPolicy("newest only", checked=1))
    assert ring.push(0.0, np.array([7.0])) == Flag(0)
    assert ring.window()[:, 0].tolist() == [7, 7, 7, 7]
    assert ring.push(60.0, np.array([8.0])) == Flag(0)
    assert ring.window()[:, 0].tolist() == [7, 7, 7, 8]


def test_a_missing_reading_gives_no_window_and_the_next_holds_the_last() -> None:
    ring = Ring(3, 1, 60.0, GapPolicy("half", hold=1, percent=50))
    reasons = [ring.push(60.0 * i, np.array([v])) for i, v in enumerate([0.0, 1.0, 2.0, np.nan, 4.0])]
    assert reasons == [Flag.HISTORY, Flag.HISTORY, Flag(0), Flag.MISSING, Flag(0)]
    assert ring.window()[:, 0].tolist() == [2, 2, 4]


def test_an_early_reading_leaves_the_ring_as_it_was() -> None:
    ring = Ring(2, 1, 60.0, STRICT)
    ring.push(0.0, np.array([0.0]))
    ring.push(60.0, np.array([1.0]))
    before = ring.window()
    assert ring.push(89.0, np.array([5.0])) == Flag.EARLY
    assert ring.push(0.0, np.array([np.nan])) == Flag.EARLY
    assert_array_equal(ring.window(), before)
    assert ring.push(120.0, np.array([2.0])) == Flag(0)
    assert ring.window()[:, 0].tolist() == [1, 2]


def test_a_gap_of_ten_years_is_taken_in_a_few_steps() -> None:
    years, longest = Ring(30, 1, 1.0, STRICT), Ring(30, 1, 1.0, STRICT)
    for second in range(40):
        years.push(float(second), np.array([float(second)]))
        longest.push(float(second), np.array([float(second)]))
    for second in range(60):
        row = np.array([100.0 + second])
        after_years = years.push(39 + 3.2e8 + second, row)
        assert after_years == longest.push(39.0 + STRICT.longest_jump(30) + second, row)
        assert_array_equal(years.window(), longest.window())
        assert bool(after_years) == (second < 29)


@settings(deadline=None, max_examples=60)
@given(devices=st.lists(ROWS, min_size=1, max_size=4), window=st.integers(1, 12), policy=POLICY)
def test_many_devices_are_as_each_alone(devices: list[Rows], window: int, policy: GapPolicy) -> None:
    rings, alone = RingBuffer(window, 2, 60.0, policy), [Ring(window, 2, 60.0, policy) for _ in devices]
    rings.add(len(devices))
    for step in range(max(len(one.times) for one in devices)):
        at = np.array([index for index, one in enumerate(devices) if step < len(one.times)])[::-1]
        times = np.array([devices[index].times[step] / devices[index].step * 60.0 for index in at])
        rows = np.stack([devices[index].values[step] for index in at])
        found = rings.push(at, times, rows)
        expected = [int(alone[index].push(time, row)) for index, time, row in zip(at, times, rows, strict=True)]
        assert found.tolist() == expected
        for index in at[(found & NO_VALUE) == 0]:
            assert_array_equal(rings.windows(np.array([index]))[0], alone[index].window(), strict=True)
