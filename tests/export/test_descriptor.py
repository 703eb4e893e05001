"""A calibrator's inputs in float32: the same readings are valid, the same windows come out, the rest is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import QualitySettings, usable_values
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.export.descriptor import choose_device, encode_windows, make_descriptor
from scare.windowing.scaling import Affine
from scare.windowing.windows import RECENT
from tests.calibrator.building import make_calibrator, newest_plan, with_edges

LIMITS = st.floats(-1e38, 1e38)


def changed(**fields: object) -> Calibrator:
    calibrator = make_calibrator()
    return replace(calibrator, inputs=replace(calibrator.inputs, **fields))


def scaled_by(center: float, scale: float) -> Calibrator:
    fleet = Affine(np.array([center, 0.0]), np.array([scale, 1.0]))
    return changed(scaling=replace(make_calibrator().inputs.scaling, fleet=fleet))


@given(low=LIMITS, high=LIMITS, reading=st.floats(width=32, allow_nan=False), near=st.booleans())
def test_a_float32_reading_is_in_range_as_in_python(low: float, high: float, reading: float, near: bool) -> None:
    channel = Channel("any", "", low, high)
    limits = make_descriptor(changed(channels=(channel, channel)), "").channels[0].valid
    reading = float(np.float32(low)) if near else reading
    usable, _ = usable_values(np.array([[reading]]), (channel,), QualitySettings(sentinels=()))
    assert (limits.low <= reading <= limits.high) == np.isfinite(usable[0, 0])


@given(center=st.floats(-1e6, 1e6), scale=st.floats(1e-3, 1e6), offset=st.floats(-50, 50))
def test_scaling_in_float32_keeps_six_digits(center: float, scale: float, offset: float) -> None:
    channel = make_descriptor(scaled_by(center, scale), "").channels[0]
    reading = np.float32(center + offset * scale)
    near, rest, inverse = (np.float32(number) for number in (channel.center, channel.rest, channel.inverse))
    exact = (float(reading) - center) / scale
    assert ((reading - near) - rest) * inverse == pytest.approx(
        exact, rel=3e-7, abs=(1e-13 * abs(center) + 1e-37) / scale
    )


def test_a_row_clamped_at_the_training_range_still_lies_outside_it() -> None:
    inputs = with_edges(make_calibrator()).inputs
    edges = replace(inputs.training_range, clamp_low=inputs.training_range.low, clamp_high=inputs.training_range.high)
    for channel in make_descriptor(changed(training_range=edges), "").channels:
        assert channel.clamp.low < channel.trained.low
        assert channel.clamp.high > channel.trained.high
        assert np.allclose(channel.clamp, channel.trained, rtol=1e-6, atol=1e-37)


def test_the_gap_policy_is_in_rows() -> None:
    calibrator = make_calibrator(newest_plan(100), policy=RECENT)
    found = make_descriptor(calibrator, "box-2")
    assert (found.step_ms, found.checked, found.needed, found.hold) == (60000, 60, 48, 15)
    assert (found.target_scale, found.target_center) == (6.0, 18.0)
    assert [channel.center for channel in found.channels] == [25.0, 250.0]


def test_sentinels_are_told_once_in_float32() -> None:
    found = make_descriptor(changed(quality=QualitySettings(sentinels=(-99.9, -999.0, -999.0, 1e300))), "")
    assert found.absent == (float(np.float32(-99.9)), -999.0)


@pytest.mark.parametrize("seconds", [0.0005, 1 / 3, 0.0001, 60.0001, 3e6])
def test_a_step_that_is_not_whole_milliseconds_is_refused(seconds: float) -> None:
    with pytest.raises(DataError, match="whole milliseconds"):
        make_descriptor(changed(step_seconds=seconds), "")


def test_a_step_may_be_short() -> None:
    assert make_descriptor(changed(step_seconds=0.1), "").step_ms == 100


@pytest.mark.parametrize(("center", "scale"), [(1e39, 1.0), (0.0, 1e-39), (0.0, 1e60)])
def test_a_scaling_beyond_float32_is_refused(center: float, scale: float) -> None:
    with pytest.raises(DataError, match="does not fit into 32 bits"):
        make_descriptor(scaled_by(center, scale), "")


def test_a_device_is_the_one_named_or_the_only_one() -> None:
    scaling = make_calibrator().inputs.scaling
    assert choose_device(scaling, "box-2") == "box-2"
    assert choose_device(scaling, "") == ""
    assert choose_device(replace(scaling, devices={"box-1": scaling.fleet}), "") == "box-1"
    with pytest.raises(UsageError, match="no device called 'box-22'; did you mean 'box-2'"):
        choose_device(scaling, "box-22")
    with pytest.raises(UsageError, match="no device called 'x'; there are box-1, box-2"):
        choose_device(scaling, "x")
    with pytest.raises(UsageError, match="it scales all devices alike"):
        choose_device(replace(scaling, devices={}), "x")


def test_a_window_in_whole_steps_holds_whatever_comes() -> None:
    window = np.array([[[np.nan, 0.5], [np.inf, -0.5], [-np.inf, 0.25], [1e38, -0.75]]], np.float32)
    whole = encode_windows(window, (1000.0, 2.0))
    assert_array_equal(whole, [[[0, 32767, -32767, 32767], [1, -1, 1, -1]]])
    assert encode_windows(window).dtype == np.float32
