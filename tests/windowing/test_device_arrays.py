"""Device arrays keep what they hold however they grow."""

import numpy as np
from numpy.testing import assert_array_equal

from scare.windowing.device_arrays import LARGE, DeviceArrays


def test_rows_stay_while_arrays_grow_and_new_ones_are_new() -> None:
    arrays = DeviceArrays({"numbers": np.full(100, np.nan), "count": np.array(7, np.int32), "on": np.array(True)})
    for step in range(9):  # up to 511 rows of 800 bytes: some of them from mmap
        at = arrays.add(2**step)
        assert_array_equal(arrays["numbers"][at], np.nan)
        assert (arrays["count"][at] == 7).all()
        arrays["numbers"][at], arrays["count"][at] = at[:, None], at
    assert arrays["numbers"].nbytes > LARGE
    assert len(arrays) == 511
    assert_array_equal(arrays.state()["numbers"][:, 99], np.arange(511))
    arrays.clear(np.array([3, 400]))
    assert arrays.state()["count"][[2, 3, 4, 400]].tolist() == [2, 7, 4, 7]


def test_a_state_is_taken_over_and_grows_on() -> None:
    arrays, other = (DeviceArrays({"count": np.array(0)}) for _ in range(2))
    arrays.add(3)
    arrays["count"][:3] = 1, 2, 3
    other.restore(arrays.state())
    other.add(1)
    assert other.state()["count"].tolist() == [1, 2, 3, 0]
    assert arrays.state()["count"].tolist() == [1, 2, 3]


def test_a_state_of_an_older_version_lacks_a_name_that_is_new_then() -> None:
    arrays = DeviceArrays({"count": np.array(0), "slow": np.array([1.5, 2.5])})
    arrays.restore({"count": np.array([4, 5])})
    assert arrays.state()["count"].tolist() == [4, 5]
    assert arrays.state()["slow"].tolist() == [[1.5, 2.5], [1.5, 2.5]]
