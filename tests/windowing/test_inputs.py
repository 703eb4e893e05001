"""Feeding gives the same scaled windows and flags at once, in chunks of any size, and reading by reading."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.data.flags import Flag, QualitySettings
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.windowing.inputs import Inputs, WindowStream
from scare.windowing.live_windows import LiveWindows
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import TrainingRange
from scare.windowing.windows import STRICT, GapPolicy
from tests.calibrator.building import EDGES
from tests.windowing.rows import POLICY, ROWS, Rows, without_remarks

CHANNELS = (Channel("pm25", "ug/m3", 0.0, 1000.0), Channel("current", "nA"))
FLEET = Affine(np.array([10.0, 100.0]), np.array([3.0, 7.0]))
SEEN = Affine(np.array([-1.0, 1.0]), np.array([2.0, 0.3]))
SHARE = np.array([0.0, 0.75])  # dust keeps the fleet's centre, a current moves
SPOILT = (-999.0, -200.0, 65535.0, 1000.5, -0.5, -1.0, np.inf, -np.inf, np.nan)
LENIENT = GapPolicy("lenient", hold=3, percent=60)


def make_inputs(window: int, policy: GapPolicy = STRICT, settle: int = 0, method: str = "standard") -> Inputs:
    scaling = Scaling(method, FLEET, Affine(np.zeros(1), np.ones(1)), {"seen": SEEN}, settle, own_share=SHARE)
    return Inputs(CHANNELS, scaling, 60.0, window, policy, QualitySettings())


def feed(inputs: Inputs, device: str, rows: Rows, cuts: list[int]) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """Scaled window by row number, and the flags, of rows fed in chunks."""
    source, windows, flags = WindowStream(inputs, device), {}, []
    ends = [0, *sorted(min(cut, len(rows.times)) for cut in cuts), len(rows.times)]
    for start, end in pairwise(ends):
        segments, some_flags = source.take(rows.times[start:end], rows.values[start:end])
        flags.append(some_flags)
        for segment in segments:
            for row, window in zip(segment.rows, segment.grid.windows(segment.ends), strict=True):
                assert start + row not in windows
                windows[int(start + row)] = window
    return windows, np.concatenate(flags)


def feed_live(inputs: Inputs, device: str, rows: Rows) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """The same, reading by reading."""
    source, windows, flags = LiveWindows(inputs, [device]), {}, []
    for row, (time, values) in enumerate(zip(rows.times.tolist(), rows.values, strict=True)):
        window, flag = source.push_one(time, values)
        flags.append(flag)
        if len(window):
            windows[row] = window[0]
    return windows, np.concatenate(flags)


def assert_same(one: dict[int, np.ndarray], other: dict[int, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for row, window in one.items():
        assert_array_equal(window, other[row], strict=True)


def spoil(rows: Rows, places: list[tuple[int, int, float]]) -> Rows:
    values = rows.values.copy()
    for row, column, value in places:
        values[row % len(values), column] = value
    return replace(rows, values=values, times=rows.times / rows.step * 60.0, step=60.0)


@settings(deadline=None, max_examples=150)
@given(
    rows=ROWS,
    spoilt=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 1), st.sampled_from(SPOILT)), max_size=5),
    window=st.integers(1, 15),
    policy=POLICY,
    settle=st.integers(0, 20),
    method=st.sampled_from(["standard", "robust"]),
    device=st.sampled_from(["seen", "unseen"]),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    training_range=st.sampled_from([None, EDGES]),
)
def test_chunks_and_single_readings_give_what_the_whole_gives(
    rows: Rows,
    spoilt: list[tuple[int, int, float]],
    window: int,
    policy: GapPolicy,
    settle: int,
    method: str,
    device: str,
    cuts: list[int],
    training_range: TrainingRange | None,
) -> None:
    rows, inputs = (
        spoil(rows, spoilt),
        replace(make_inputs(window, policy, settle, method), training_range=training_range),
    )
    windows, flags = feed(inputs, device, rows, [])
    assert all(values.dtype == np.float32 and np.isfinite(values).all() for values in windows.values())
    for other_windows, other_flags in (feed(inputs, device, rows, cuts), feed_live(inputs, device, rows)):
        assert_array_equal(other_flags, flags, strict=True)
        assert_same(other_windows, windows)


def test_a_row_has_a_window_exactly_when_no_flag_says_why_not() -> None:
    rows = spoil(regular_rows(50), [(20, 0, -999.0), (30, 1, np.nan), (40, 0, 2000.0)])
    windows, flags = feed(make_inputs(5, LENIENT), "seen", rows, [])
    reasons = np.uint32(Flag.MISSING | Flag.EARLY | Flag.HISTORY)
    assert sorted(windows) == np.flatnonzero((flags & reasons) == 0).tolist()
    flags = without_remarks(flags)
    assert flags[20] == Flag.SENTINEL | Flag.RANGE | Flag.MISSING
    assert flags[30] == Flag.MISSING
    assert flags[40] == Flag.RANGE | Flag.MISSING
    assert flags[21] == 0


def regular_rows(count: int) -> Rows:
    values = np.random.default_rng(5).uniform(1, 900, (count, 2))
    return Rows(60.0 * np.arange(count), values, 60.0)


def test_a_seen_device_is_scaled_by_its_own_numbers_from_the_start() -> None:
    rows = regular_rows(20)
    windows, flags = feed(make_inputs(3, settle=10), "seen", rows, [])
    assert not (flags & Flag.UNSETTLED).any()
    assert_array_equal(windows[7], SEEN.apply(rows.values[5:8]).astype(np.float32))


def test_an_unseen_device_is_scaled_as_the_fleet_is_until_it_has_settled() -> None:
    rows = regular_rows(30)
    rows.values[4] = np.nan  # not a reading: settling takes one row more
    inputs = make_inputs(3, LENIENT, settle=10)
    windows, flags = feed(inputs, "unseen", rows, [])
    flags = without_remarks(flags)
    real = np.delete(np.arange(30), 4)
    settled = real[9]  # the row that brings the tenth reading
    own = Affine(FLEET.center + SHARE * (rows.values[real[:10]].mean(axis=0) - FLEET.center), FLEET.scale)
    assert settled == 10
    for row in (8, 9):
        assert flags[row] == Flag.UNSETTLED
        assert_array_equal(windows[row], FLEET.apply(rows.values[row - 2 : row + 1]).astype(np.float32))
    for row in (10, 11, 29):
        assert flags[row] == 0
        assert_allclose(windows[row], own.apply(rows.values[row - 2 : row + 1]), rtol=1e-6)


def test_what_comes_later_never_changes_a_window() -> None:
    rows, inputs = regular_rows(40), make_inputs(4, settle=12)
    changed = replace(rows, values=rows.values.copy())
    changed.values[25:] += 50.0
    windows, flags = feed(inputs, "unseen", rows, [])
    others, other_flags = feed(inputs, "unseen", changed, [])
    assert_array_equal(flags[:25], other_flags[:25])
    for row in range(3, 25):
        assert_array_equal(windows[row], others[row])


def test_the_values_given_are_left_alone() -> None:
    rows = spoil(regular_rows(10), [(3, 0, -999.0)])
    before = rows.values.copy()
    feed(make_inputs(2), "seen", rows, [4])
    feed_live(make_inputs(2), "seen", rows)
    assert_array_equal(rows.values, before)


def make_readings(names: list[str]) -> Readings:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {name: [float(10 * i + row) for row in range(2)] for i, name in enumerate(names)}
    frame = pl.DataFrame({"time": [start, start + timedelta(minutes=1)], **columns})
    return Readings("box", frame, tuple(Channel(name) for name in names))


def test_channels_are_found_by_name_whatever_their_order() -> None:
    inputs = make_inputs(2)
    assert inputs.select(make_readings(["pm25", "current"])).tolist() == [[0, 10], [1, 11]]
    assert inputs.select(make_readings(["other", "current", "pm25"])).tolist() == [[20, 10], [21, 11]]


def test_a_missing_channel_is_named() -> None:
    with pytest.raises(DataError, match="box: no channel current; its channels are pm25, other"):
        make_inputs(2).select(make_readings(["pm25", "other"]))
