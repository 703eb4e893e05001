"""Adaptability near changes of the raw error, worked by hand and compared with a search row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reproduce.adaptability import RADIUS, ErrorChanges, error_near, lasting_changes, sudden_changes


def series(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    reference = 20 + np.cumsum(draw.normal(0, 0.1, rows))
    return 60.0 * np.arange(rows), np.rint(1.5 * reference + draw.normal(0, 0.3, rows)), reference


def near_by_hand(changes: ErrorChanges, threshold: float) -> list[bool]:
    rows = range(len(changes.run))
    points = [row for row in rows if changes.sizes[row] >= threshold]
    return [any(abs(row - p) <= RADIUS and changes.run[row] == changes.run[p] for p in points) for row in rows]


def test_a_step_of_the_error_counts_relative_to_the_reading_before_it() -> None:
    raw = np.array([10.0, 11.0, 11.0, 2.0, 3.0])
    sizes = sudden_changes(60.0 * np.arange(5), raw, np.zeros(5), 60.0).sizes
    np.testing.assert_allclose(sizes, [np.nan, 1 / 10, 0, 9 / 11, 1 / 5])  # below 5 units, of 5 units


def test_a_change_of_reading_and_reference_together_is_none() -> None:
    level = np.array([10.0, 10.0, 40.0, 40.0])
    assert np.nanmax(sudden_changes(60.0 * np.arange(4), level + 3, level, 60.0).sizes) == 0


def test_nothing_reaches_across_a_gap_or_a_missing_value() -> None:
    times, raw, reference = series(300)
    raw[150] += 20
    times[140:] += 600
    raw[160] = np.nan
    changes = sudden_changes(times, raw, reference, 60.0)
    near = changes.near(0.5)
    assert near.nonzero()[0].tolist() == list(range(140, 160))
    assert np.isnan(changes.sizes[[140, 160, 161]]).all()


@given(st.integers(1, 200), st.integers(0, 50), st.floats(0.01, 0.3))
def test_the_rows_near_a_change_are_those_found_by_hand(rows: int, seed: int, threshold: float) -> None:
    times, raw, reference = series(rows, seed)
    times[rows // 3 :] += 3600 * (seed % 2)
    for find in (sudden_changes, lasting_changes):
        changes = find(times, raw, reference, 60.0)
        assert changes.near(threshold).tolist() == near_by_hand(changes, threshold)


@given(st.integers(10, 300), st.integers(0, 50))
def test_a_higher_threshold_never_covers_more(rows: int, seed: int) -> None:
    changes = sudden_changes(*series(rows, seed), 60.0)
    covered = [set(np.flatnonzero(changes.near(threshold))) for threshold in (0.05, 0.10, 0.20)]
    assert covered[0] >= covered[1] >= covered[2]


def test_a_lasting_change_is_one_event_at_its_largest() -> None:
    times, reference = 60.0 * np.arange(200), np.full(200, 20.0)
    raw = np.where(np.arange(200) < 100, 20.0, 30.0)
    sizes = lasting_changes(times, raw, reference, 60.0).sizes
    assert np.flatnonzero(sizes >= 0.1).tolist() == [100]
    assert sizes[100] == pytest.approx(0.5)


def test_a_single_spike_is_sudden_but_hardly_lasting() -> None:
    times, reference, raw = 60.0 * np.arange(200), np.full(200, 20.0), np.full(200, 20.0)
    raw[100] = 25.0
    assert np.nanmax(sudden_changes(times, raw, reference, 60.0).sizes) == pytest.approx(0.25)
    assert np.nanmax(lasting_changes(times, raw, reference, 60.0).sizes) == pytest.approx(0.05)


def test_lasting_changes_are_more_than_thirty_rows_apart() -> None:
    sizes = lasting_changes(*series(2000), 60.0).sizes
    assert np.diff(np.flatnonzero(np.isfinite(sizes))).min() > RADIUS


def test_error_and_coverage_are_of_the_rows_near_a_change() -> None:
    estimate, reference = np.array([1.0, 5.0, 5.0, 1.0]), np.ones(4)
    assert error_near(estimate, reference, np.array([False, True, True, False])) == (4.0, 0.5)
    error, coverage = error_near(estimate, reference, np.zeros(4, bool))
    assert np.isnan(error)
    assert coverage == 0
