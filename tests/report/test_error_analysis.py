"""Errors by condition and around changes, against numbers worked out by hand or another way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.report.error_analysis import AROUND, error_around, error_by, largest_changes, round_edges
from scare.scorecard.series import DeviceSeries, pool


def make_series(raw: np.ndarray, times: np.ndarray | None = None) -> DeviceSeries:
    times = 60.0 * np.arange(len(raw)) if times is None else times
    nothing = np.full(len(raw), np.nan)
    no = np.zeros(len(raw), bool)
    changes = np.diff(raw, prepend=np.nan)
    return DeviceSeries("box", 60.0, times, raw, *[nothing] * 6, no.astype(np.uint32), changes, nothing, no, nothing)


def test_bins_hold_every_row_once_and_their_errors_make_up_the_whole() -> None:
    rng = np.random.default_rng(2)
    condition, error = rng.gamma(2.0, 10.0, 5000), rng.normal(size=5000)
    condition[:7] = np.nan
    bins = error_by(condition, {"ours": error})
    assert sum(one.rows for one in bins) == 4993
    whole = sum(one.rows * one.rmse["ours"] ** 2 for one in bins if one.rmse["ours"] is not None)
    few = sum(one.rows for one in bins if one.rmse["ours"] is None)
    assert few == 0
    assert whole == pytest.approx(np.square(error[7:]).sum())


def test_a_bin_of_few_rows_has_no_error() -> None:
    bins = error_by(np.array([1.0] * 50 + [99.0]), {"ours": np.ones(51)})
    assert [one.rmse["ours"] for one in bins if one.rows] == [1.0, None]


def test_without_the_condition_there_are_no_bins() -> None:
    assert error_by(np.full(5, np.nan), {"ours": np.ones(5)}) == []


@given(st.floats(-1e5, 1e5, allow_subnormal=False), st.floats(0, 1e5, allow_subnormal=False))
def test_edges_cover_the_range_with_few_round_bins(low: float, width: float) -> None:
    edges = round_edges(low, low + width)
    rounding = 1e-9 * max(abs(low), width)
    assert edges[0] <= low + rounding
    assert edges[-1] >= low + width - rounding
    assert 2 <= len(edges) <= 13


def test_largest_changes_are_the_greatest_and_far_apart() -> None:
    raw = np.zeros(2000)
    raw[500:] += 10.0
    raw[510:] += 5.0  # too near to the greater one
    raw[1500:] += 7.0
    assert {500, 1500} <= set(largest_changes(make_series(raw)))
    assert 510 not in largest_changes(make_series(raw))
    assert np.diff(largest_changes(make_series(raw))).min() > AROUND


def test_the_error_around_changes_is_counted_from_each_of_them() -> None:
    error = np.zeros(400)
    error[[100, 300]] = 2.0, 4.0
    error[101] = 6.0
    around = error_around(make_series(np.zeros(400)), np.array([100, 300]), {"ours": error})["ours"]
    assert around[AROUND] == pytest.approx(np.sqrt((4 + 16) / 2))
    assert around[AROUND + 1] == pytest.approx(np.sqrt(36 / 2))
    assert sum(around) == pytest.approx(around[AROUND] + around[AROUND + 1])


def test_rows_beyond_missing_time_or_of_another_device_do_not_count() -> None:
    times = 60.0 * np.arange(100)
    times[60:] += 3600
    error = np.zeros(100)
    error[60:] = 9.0
    gap = error_around(make_series(np.zeros(100), times), np.array([55]), {"ours": error})["ours"]
    assert gap[AROUND + 4] == 0.0
    assert np.isnan(gap[AROUND + 5])
    both = pool([make_series(np.zeros(60)), make_series(np.zeros(60))], "both")
    other = error_around(both, np.array([55]), {"ours": np.repeat([0.0, 9.0], 60)})["ours"]
    assert np.isnan(other[AROUND + 5])
