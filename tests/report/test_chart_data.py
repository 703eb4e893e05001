"""Decimation keeps every spike; packed numbers come back within their resolution."""

import base64
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scare.report.chart_data import decimate, pack, with_breaks

NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.just(float("nan")))


def unpack(packed: dict[str, Any]) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(packed["data"]), f"<u{packed['bits'] // 8}")
    top = 2 ** packed["bits"] - 2
    return np.where(numbers > top, np.nan, packed["low"] + numbers / top * (packed["high"] - packed["low"]))


@given(arrays(float, st.tuples(st.integers(1, 300), st.integers(1, 3)), elements=NUMBERS), st.integers(1, 400))
def test_kept_rows_are_in_order_few_and_hold_every_extreme(columns: np.ndarray, limit: int) -> None:
    kept = decimate(columns, limit)
    assert np.all(np.diff(kept) > 0)
    assert len(kept) <= max(limit, 2 * columns.shape[1] + 1)
    if len(columns) <= limit:
        assert len(kept) == len(columns)
    for column in columns.T:
        if np.isfinite(column).any():
            assert np.nanmax(column[kept]) == np.nanmax(column)
            assert np.nanmin(column[kept]) == np.nanmin(column)


def test_a_single_spike_in_a_long_series_survives() -> None:
    quiet = np.random.default_rng(0).normal(size=(100_000, 2))
    quiet[54_321, 1] = 50.0
    kept = decimate(quiet, 5_000)
    assert len(kept) < 5_001
    assert 54_321 in kept


def test_missing_time_becomes_a_row_of_nothing_even_between_rows_that_were_left_out() -> None:
    times = np.array([0.0, 60, 120, 1000, 1060, 1120])
    columns = np.arange(6.0)[:, None]
    shown_times, shown = with_breaks(times, columns, np.array([0, 1, 4, 5]), 60.0)
    np.testing.assert_array_equal(shown_times, [0, 60, 120, 1060, 1120])
    np.testing.assert_array_equal(shown[:, 0], [0, 1, np.nan, 4, 5])


@given(arrays(float, st.integers(1, 50), elements=NUMBERS), st.sampled_from([16, 32]))
def test_packed_numbers_come_back_within_half_a_step(values: np.ndarray, bits: int) -> None:
    found = unpack(pack(values, bits))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
    known = values[np.isfinite(values)]
    step = np.ptp(known) / (2**bits - 2) if len(known) else 0.0
    assert np.all(np.abs(found - values)[np.isfinite(values)] <= 0.51 * step + 1e-9)
