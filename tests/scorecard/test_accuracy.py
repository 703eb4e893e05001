"""Accuracy: numbers worked by hand, and those that scikit-learn gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from scare.scorecard.accuracy import fastest, limits_of_agreement, measure, reading_changes, rmse, row_changes
from tests.training.small_fits import make_readings

NAN = float("nan")
PAIRS = st.integers(2, 50).flatmap(lambda rows: arrays(float, (2, rows), elements=st.integers(-1000, 1000).map(float)))


def test_four_rows_worked_by_hand() -> None:
    estimate, reference = np.array([2.0, 4.0, 7.0, 8.0]), np.array([1.0, 3.0, 5.0, 7.0])
    result = measure(estimate, reference, np.array([NAN, 2.0, 3.0, 1.0]))
    assert result.rows == 4
    assert result.rmse == pytest.approx(np.sqrt(7 / 4))  # errors 1, 1, 2, 1
    assert result.mae == pytest.approx(5 / 4)
    assert result.bias == pytest.approx(5 / 4)
    assert result.r2 == pytest.approx(1 - 7 / 20)  # the reference's squares about 4: 9 + 1 + 1 + 9
    assert result.slope == pytest.approx(21 / 20)  # -3·2 - 1·4 + 1·7 + 3·8 = 21
    assert result.intercept == pytest.approx(5.25 - 1.05 * 4)
    assert result.top5_rmse == 2.0  # the one row with the change of 3


@given(PAIRS)
def test_the_errors_are_those_of_scikit_learn(pair: np.ndarray) -> None:
    estimate, reference = pair
    result = measure(estimate, reference, np.zeros(len(estimate)))
    assert result.rmse**2 == pytest.approx(mean_squared_error(reference, estimate), rel=1e-9, abs=1e-12)
    assert result.mae == pytest.approx(mean_absolute_error(reference, estimate), rel=1e-9, abs=1e-12)
    if np.ptp(reference):
        assert result.r2 == pytest.approx(r2_score(reference, estimate), rel=1e-9, abs=1e-9)
        slope, intercept = np.polyfit(reference, estimate, 1)
        assert result.slope == pytest.approx(slope, rel=1e-6, abs=1e-6)
        assert result.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-6 * (1 + np.abs(pair).max()))


@pytest.mark.parametrize("value", [0.0, 0.1, 7.3])
def test_a_constant_reference_has_no_r2_and_no_slope(value: float) -> None:
    result = measure(np.array([1.0, 2.0, 3.0]), np.full(3, value), np.zeros(3))
    assert np.isnan([result.r2, result.slope, result.intercept]).all()
    assert np.isfinite([result.rmse, result.mae, result.bias]).all()


def test_the_rmse_of_nothing_is_not_a_number() -> None:
    assert np.isnan(rmse(np.empty(0)))


# --- the rows of fastest change ---


@pytest.mark.parametrize(("rows", "chosen"), [(1, 1), (19, 1), (20, 1), (21, 2), (40, 2), (100, 5), (140, 7), (141, 8)])
def test_a_twentieth_of_the_rows_is_chosen_rounded_up(rows: int, chosen: int) -> None:
    assert len(fastest(np.arange(rows, dtype=float))) == chosen


def test_the_size_of_a_change_counts_not_its_sign() -> None:
    assert fastest(np.array([1.0, -5.0, 3.0])).tolist() == [1]


def test_of_equal_changes_the_earlier_row_is_chosen() -> None:
    changes = np.array([0.0, 2.0, -2.0, 2.0] * 10)
    assert fastest(changes).tolist() == [1, 2]


def test_an_unknown_change_is_never_chosen() -> None:
    changes = np.full(60, NAN)
    changes[[7, 30]] = [0.0, 1.0]
    assert fastest(changes).tolist() == [30, 7]
    assert fastest(np.full(5, NAN)).tolist() == []


def test_with_no_known_change_there_is_no_top_rmse() -> None:
    result = measure(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.full(2, NAN))
    assert np.isnan(result.top5_rmse)
    assert result.rmse > 0


@given(arrays(float, st.integers(1, 100), elements=st.sampled_from([NAN, 0.0, 1.0, -1.0, 2.5, -7.0])))
def test_no_row_left_out_changes_faster_than_one_chosen(changes: np.ndarray) -> None:
    chosen = fastest(changes)
    left = np.setdiff1d(np.arange(len(changes)), chosen)
    assert len(chosen) == min(-(-len(changes) // 20), np.isfinite(changes).sum())
    if len(chosen) and np.isfinite(changes[left]).any():
        slowest = np.abs(changes[chosen]).min()
        assert np.nanmax(np.abs(changes[left])) <= slowest


# --- changes ---


def test_a_change_is_the_difference_to_the_row_before() -> None:
    changes = row_changes(np.array([0.0, 60.0, 120.0]), np.array([5.0, 8.0, 6.0]), 60.0)
    np.testing.assert_array_equal(changes, [NAN, 3.0, -2.0])


@pytest.mark.parametrize(("wait", "known"), [(60.0, True), (120.0, True), (121.0, False), (3600.0, False)])
def test_a_change_over_more_than_two_steps_is_none(wait: float, known: bool) -> None:
    changes = row_changes(np.array([0.0, wait]), np.array([5.0, 8.0]), 60.0)
    assert np.isfinite(changes[1]) == known


def test_a_change_to_or_from_a_missing_reading_is_unknown() -> None:
    changes = row_changes(np.arange(4) * 60.0, np.array([5.0, NAN, 6.0, 7.0]), 60.0)
    np.testing.assert_array_equal(changes, [NAN, NAN, NAN, 1.0])


def test_a_number_that_means_no_reading_is_no_change() -> None:
    values = np.array([[10.0], [11.0], [-200.0], [12.0], [15.0]])
    np.testing.assert_array_equal(reading_changes(make_readings(values)), [NAN, 1.0, NAN, NAN, 3.0])


def test_limits_hold_95_percent_of_normal_differences() -> None:
    limits = limits_of_agreement(np.random.default_rng(1).normal(3.0, 2.0, 200_000))
    assert limits.bias == pytest.approx(3.0, abs=0.02)
    assert limits.high - limits.low == pytest.approx(2 * 1.96 * 2.0, rel=0.01)
    assert limits.inside == pytest.approx(0.95, abs=0.003)
