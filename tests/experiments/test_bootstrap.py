"""The interval is a bootstrap over blocks of time: honest about how little a day and a half can tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.experiments.bootstrap import BLOCK_SECONDS, compare_errors

MINUTES = 60.0 * np.arange(3 * 24 * 60)


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
