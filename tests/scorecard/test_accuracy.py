"""Accuracy worked by hand and checked against scikit-learn; bootstrap; coverage of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from scare.errors import DataError
from scare.scorecard.accuracy import (
    BLOCK_SECONDS,
    FULL,
    compare_errors,
    fastest,
    limits_of_agreement,
    measure,
    origin_of,
    reading_changes,
    rmse,
    row_changes,
    rows_made_from,
    share_rows,
)
from tests.training.small_fits import make_readings

NAN = float("nan")
PAIRS = st.integers(2, 50).flatmap(lambda rows: arrays(float, (2, rows), elements=st.integers(-1000, 1000).map(float)))
ROWS = 40
MINUTES = 60.0 * np.arange(3 * 24 * 60)
KNOWN = arrays(bool, ROWS)


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


def values(known: np.ndarray) -> np.ndarray:
    return np.where(known, 1.0, np.nan)


@given(KNOWN, KNOWN, KNOWN)
def test_a_row_is_shared_if_everyone_has_it(reference: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    expected = reference & one & other
    estimates = {"one": values(one), "other": values(other)}
    if not expected.any():
        with pytest.raises(DataError, match="from every method compared"):
            share_rows(values(reference), estimates)
        return
    rows, coverage = share_rows(values(reference), estimates)
    assert rows.tolist() == expected.tolist()
    assert coverage == {"one": 1.0, "other": 1.0}


@given(KNOWN.filter(np.any), KNOWN)
def test_what_is_spared_takes_rows_only_if_it_has_nearly_all(fitted: np.ndarray, spared: np.ndarray) -> None:
    estimates = {"fitted": values(fitted), "formula": values(spared)}
    rows, coverage = share_rows(np.ones(ROWS), estimates, ["formula"])
    assert coverage["formula"] == pytest.approx((fitted & spared).sum() / fitted.sum())
    expected = fitted & spared if coverage["formula"] >= FULL else fitted
    assert rows.tolist() == expected.tolist()


@given(st.lists(KNOWN, min_size=1, max_size=3))
def test_the_order_does_not_matter(masks: list[np.ndarray]) -> None:
    masks[0][0] = True
    estimates = {index: values(mask) for index, mask in enumerate(masks)}
    turned = dict(reversed(estimates.items()))
    spared = list(estimates)[1:]
    one, other = (share_rows(np.ones(ROWS), each, spared)[0].tolist() for each in (estimates, turned))
    assert one == other


def test_rows_of_a_co_location_session_are_rows_it_was_made_from() -> None:
    learned = {"devices": ["a"], "periods": [["1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z"]]}
    times = np.arange(40.0)
    made_from = rows_made_from("a", times, origin_of({"learned": learned}))
    assert_array_equal(np.flatnonzero(made_from), np.arange(10, 21))
    assert not rows_made_from("b", times, origin_of({"learned": learned})).any()
    assert not rows_made_from("a", times, origin_of({})).any()


def test_equal_errors_differ_by_nothing() -> None:
    errors = np.random.default_rng(0).exponential(size=len(MINUTES))
    interval = compare_errors(errors, errors, MINUTES)
    assert (interval.difference, interval.low, interval.high) == (0.0, 0.0, 0.0)
    assert not interval.decided


def test_the_difference_is_that_of_the_whole_series() -> None:
    draw = np.random.default_rng(1)
    first, second = draw.exponential(4.0, len(MINUTES)), draw.exponential(1.0, len(MINUTES))
    interval = compare_errors(first, second, MINUTES)
    assert interval.difference == pytest.approx(np.sqrt(first.mean()) - np.sqrt(second.mean()))
    assert interval.low < interval.difference < interval.high
    assert interval.decided


def test_one_bad_hour_does_not_decide() -> None:
    first, second = np.ones(len(MINUTES)), np.ones(len(MINUTES))
    first[:60] = 1000.0
    assert compare_errors(first, second, MINUTES).difference > 1
    assert not compare_errors(first, second, MINUTES).decided


def test_less_than_a_day_decides_nothing() -> None:
    short = compare_errors(np.full(600, 4.0), np.ones(600), MINUTES[:600])
    assert short.difference == 1.0
    assert np.isnan([short.low, short.high]).all()
    assert not short.known
    assert not short.decided


def test_rows_of_one_block_are_drawn_together() -> None:
    """With errors constant in a block, the interval is the same however many rows a block has."""
    blocks = np.random.default_rng(2).exponential(size=40)
    few, many = (np.repeat(np.arange(40) * BLOCK_SECONDS, count) for count in (1, 50))
    one = compare_errors(np.repeat(blocks, 1), np.ones(40), few)
    fifty = compare_errors(np.repeat(blocks, 50), np.ones(2000), many)
    assert (one.low, one.high) == pytest.approx((fifty.low, fifty.high))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_swapping_the_two_turns_the_interval_around(seed: int) -> None:
    first, second = np.random.default_rng(seed).exponential(size=(2, 2000))
    one, other = compare_errors(first, second, MINUTES[:2000]), compare_errors(second, first, MINUTES[:2000])
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
