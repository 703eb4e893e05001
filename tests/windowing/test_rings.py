"""Rings are the ring for many devices: the same windows to the bit and the same reasons, whoever comes together."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.data.flags import NO_VALUE
from scare.windowing.grid import GapPolicy
from scare.windowing.live import Ring, Rings
from tests.windowing.rows import POLICY, ROWS, Rows


@settings(deadline=None, max_examples=60)
@given(devices=st.lists(ROWS, min_size=1, max_size=4), window=st.integers(1, 12), policy=POLICY)
def test_many_devices_are_as_each_alone(devices: list[Rows], window: int, policy: GapPolicy) -> None:
    rings, alone = Rings(window, 2, 60.0, policy), [Ring(window, 2, 60.0, policy) for _ in devices]
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
