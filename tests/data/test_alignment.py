"""Means and joins on hand-worked rows, and averaging against its definition."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.data.alignment import align, average, shift
from scare.data.flags import UNUSABLE, Flag
from scare.data.readings import Channel, Readings
from scare.errors import DataError

START = datetime(2026, 1, 1, tzinfo=UTC)
NO2 = Channel("no2", "ppb", 0.0, 500.0)
TEMPERATURE = Channel("temperature", "C", -40.0, 85.0)


def readings(values: Mapping[float, float | None], channel: Channel = NO2, device: str = "box-1") -> Readings:
    """Values by seconds since the start of 2026."""
    times = [START + timedelta(seconds=second) for second in values]
    frame = pl.DataFrame({"time": times, channel.name: pl.Series(list(values.values()), dtype=pl.Float64)})
    return Readings(device, frame, (channel,))


def seconds(one: Readings) -> list[float]:
    return (one.times - START.timestamp()).tolist()


def references(one: Readings) -> list[float | None]:
    return one.frame["reference"].to_list()


def minutes(*values: float | None) -> dict[float, float | None]:
    """One value a minute, the first at one minute."""
    return {60.0 * (row + 1): value for row, value in enumerate(values)}


def test_a_mean_carries_the_end_of_its_interval_which_belongs_to_it() -> None:
    means = average(readings(minutes(1, 2, 3, 4, 5, 6)), 180.0)
    assert seconds(means) == [180.0, 360.0]
    assert means.values.tolist() == [[2.0], [5.0]]


def test_a_mean_of_three_quarters_of_the_rows_counts_and_of_less_does_not() -> None:
    means = average(readings(minutes(1, 2, 3, None, 5, 6, None, None)), 240.0)
    assert means.frame["no2"].to_list() == [2.0, None]


def test_sentinels_and_values_out_of_range_stay_out_of_a_mean_and_leave_their_bits() -> None:
    means = average(readings(minutes(1, 2, 3, -999, 5, 6, 7, 8)), 240.0)
    assert means.frame["no2"].to_list() == [2.0, 6.5]
    assert means.flags.tolist() == [UNUSABLE, 0]


def test_a_reference_is_averaged_too_and_flags_are_joined() -> None:
    one = align(readings(minutes(1, 2, 3, 4)), readings(minutes(5, 6, 7, 9), NO2))
    flagged = one.with_flags(np.array([Flag.GAP, Flag.SPIKE, 0, 0], np.uint32))
    means = average(flagged, 120.0)
    assert references(means) == [5.5, 8.0]
    assert means.flags.tolist() == [Flag.GAP | Flag.SPIKE, 0]


def test_an_interval_without_rows_has_no_row() -> None:
    assert seconds(average(readings({0: 1, 60: 1, 120: 1, 600: 1}), 60.0)) == [0.0, 60.0, 120.0, 600.0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2000), min_size=3, max_size=60, unique=True),
    st.integers(2, 300),
    st.integers(0, 1000),
)
def test_every_mean_is_that_of_the_rows_in_its_interval(times: list[int], step: int, phase: int) -> None:
    rows = {float(time): float(time % 97) for time in sorted(times)}
    phase_seconds = START.timestamp() + phase
    means = average(readings(rows), float(step), completeness=0.0, phase_seconds=phase_seconds)
    groups: dict[float, list[float]] = {}
    for time, value in rows.items():
        groups.setdefault(phase + ceil((time - phase) / step) * step, []).append(value)
    assert seconds(means) == list(groups)
    assert_allclose(means.values[:, 0], [np.mean(group) for group in groups.values()])


def test_equal_steps_join_the_nearest_value_within_half_a_step() -> None:
    sensor = readings(minutes(1, 2, 3, 4))
    reference = readings({65: 10, 121: 20, 205: 30, 271: 40}, TEMPERATURE, "station")
    aligned = align(sensor, reference)
    assert aligned.reference == TEMPERATURE
    assert aligned.device == "box-1"
    assert references(aligned) == [10.0, 20.0, 30.0, None]


def test_a_finer_sensor_is_averaged_to_the_reference_and_keeps_to_its_minutes() -> None:
    sensor = readings(minutes(*range(1, 13)))
    aligned = align(sensor, readings({90: 7, 330: 8, 570: 9}))
    assert seconds(aligned) == [90.0, 330.0, 570.0, 810.0]
    assert aligned.frame["no2"].to_list() == [None, 3.5, 7.5, 11.0]
    assert references(aligned) == [7.0, 8.0, 9.0, None]


def test_a_finer_reference_is_averaged_to_the_sensor() -> None:
    aligned = align(readings({120: 1, 240: 2, 360: 3}), readings(minutes(10, 20, 30, 40, 50, None)))
    assert references(aligned) == [15.0, 35.0, None]


def test_unusable_reference_values_are_missing() -> None:
    aligned = align(readings(minutes(1, 2, 3)), readings(minutes(10, -999, 501)))
    assert references(aligned) == [10.0, None, None]


def test_no_shared_time_is_one_sentence_with_both_periods() -> None:
    sensor, reference = readings(minutes(1, 2)), shift(readings(minutes(1, 2)), 86400.0)
    with pytest.raises(DataError) as caught:
        align(sensor, reference)
    assert str(caught.value) == (
        "box-1: no reading has a reference value within 30 seconds; the readings cover 2026-01-01 00:01 to"
        " 2026-01-01 00:02 and the reference 2026-01-02 00:01 to 2026-01-02 00:02"
    )


def test_a_reference_has_one_channel_and_is_given_once() -> None:
    sensor = readings(minutes(1, 2))
    frame = sensor.frame.with_columns(pl.lit(1.0).alias("temperature"))
    with pytest.raises(DataError, match="exactly one channel, not no2, temperature"):
        align(sensor, Readings("station", frame, (NO2, TEMPERATURE)))
    with pytest.raises(DataError, match="already have a reference, no2"):
        align(align(sensor, sensor), sensor)


@given(st.integers(-(10**7), 10**7))
def test_shifting_there_and_back_changes_nothing(milliseconds: int) -> None:
    one = readings(minutes(1, 2, 3))
    there = shift(one, milliseconds / 1000)
    assert_allclose(there.times - one.times, milliseconds / 1000, atol=1e-6)
    assert shift(there, -milliseconds / 1000).frame.equals(one.frame)
