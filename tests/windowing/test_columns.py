"""Columns keep what they hold however they grow."""

import numpy as np
from numpy.testing import assert_array_equal

from scare.windowing.live import LARGE, Columns


def test_rows_stay_while_room_grows_and_new_ones_are_new() -> None:
    columns = Columns({"numbers": np.full(100, np.nan), "count": np.array(7, np.int32), "on": np.array(True)})
    for step in range(9):  # up to 511 rows of 800 bytes: rooms in pages of their own too
        at = columns.add(2**step)
        assert_array_equal(columns["numbers"][at], np.nan)
        assert (columns["count"][at] == 7).all()
        columns["numbers"][at], columns["count"][at] = at[:, None], at
    assert columns["numbers"].nbytes > LARGE
    assert len(columns) == 511
    assert_array_equal(columns.state()["numbers"][:, 99], np.arange(511))
    columns.clear(np.array([3, 400]))
    assert columns.state()["count"][[2, 3, 4, 400]].tolist() == [2, 7, 4, 7]


def test_a_state_is_taken_over_and_grows_on() -> None:
    columns, other = (Columns({"count": np.array(0)}) for _ in range(2))
    columns.add(3)
    columns["count"][:3] = 1, 2, 3
    other.restore(columns.state())
    other.add(1)
    assert other.state()["count"].tolist() == [1, 2, 3, 0]
    assert columns.state()["count"].tolist() == [1, 2, 3]


def test_a_state_of_an_older_version_lacks_a_name_that_is_new_then() -> None:
    columns = Columns({"count": np.array(0), "slow": np.array([1.5, 2.5])})
    columns.restore({"count": np.array([4, 5])})
    assert columns.state()["count"].tolist() == [4, 5]
    assert columns.state()["slow"].tolist() == [[1.5, 2.5], [1.5, 2.5]]
