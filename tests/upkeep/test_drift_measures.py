"""Measures tell a box from its fleet: what was put in comes out, what all boxes share does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.upkeep.drift import PENALTY, DriftMeter, bin_borders, median
from tests.upkeep.fleets import BORDERS, METER, make_hours, sums_of


def measured(hours: np.ndarray) -> dict[str, np.ndarray]:
    """The measures of a whole stretch, by name [boxes]."""
    return dict(zip(METER.measures, METER.measure(sums_of(hours).sum(axis=1)).T, strict=True))


def test_a_line_put_into_a_box_comes_out_as_least_squares_finds_it() -> None:
    def worse(hours: np.ndarray) -> None:
        fleet, wet = np.median(hours[1:, ..., 0], axis=0), hours[0, ..., 3]
        hours[0, ..., 0] = 0.5 + 0.7 * fleet + 0.2 * wet

    hours = make_hours(7, 20, change=worse)
    found = measured(hours)
    fleet = np.median(hours[..., 0], axis=0).ravel()
    design = np.column_stack([np.ones(len(fleet)), fleet, hours[0, ..., 3].ravel()])
    wanted = design.T @ (hours[0, ..., 0].ravel() - fleet)
    line = np.linalg.solve(design.T @ design + PENALTY * np.eye(3), wanted)
    got = [found[name][0] for name in ("neighbours", "gain", "humidity")]
    np.testing.assert_allclose(got, [line[0], 1 + line[1], line[2]])
    np.testing.assert_allclose(got, [0.5, 0.7, 0.2], atol=0.03)


def test_boxes_that_are_alike_have_nothing_to_say_whatever_the_weather() -> None:
    for seed, far in ((1, 0.0), (2, 3.0)):
        found = measured(make_hours(seed=seed) + far)
        assert np.abs(found["neighbours"]).max() < 0.03
        np.testing.assert_allclose(found["gain"], 1, atol=0.03)
        np.testing.assert_allclose(found["response"], 1, atol=0.03)
        assert np.abs(found["night"]).max() < 0.03
        assert (found["PSI pm25"] > 2).all() == (far > 0)  # which is what training tells


def test_a_slow_sensor_follows_less_of_what_changes() -> None:
    def slow(hours: np.ndarray) -> None:
        sensor = hours[0, ..., 1].reshape(-1)
        kept = np.convolve(sensor, 0.75 ** np.arange(60) * 0.25)[: len(sensor)]
        hours[0, ..., 1] = kept.reshape(hours.shape[1:3])

    found = measured(make_hours(change=slow))
    assert found["response"][0] < 0.4
    assert found["liveliness"][0] < found["liveliness"][1:].min() - 0.5


def test_stuck_and_silent_hours_are_shares_of_hours() -> None:
    def fault(hours: np.ndarray) -> None:
        hours[0, :, 12:, 1] = 3.0  # 11 of 24 hours repeat the one before
        hours[1, :, :6] = np.nan

    found = measured(make_hours(change=fault))
    np.testing.assert_allclose(found["stuck"][:3], [11 / 24, 0, 0])
    np.testing.assert_allclose(found["silent"][:3], [0, 0.25, 0], atol=1e-12)


def test_without_humidity_nothing_is_said_of_it() -> None:
    drift_meter = DriftMeter(("pm25", "T"), BORDERS[:, :2])
    sums = sums_of(make_hours()[..., :3], drift_meter).sum(axis=1)
    np.testing.assert_allclose(drift_meter.measure(sums)[:, 2], 0)


def test_what_was_hardly_there_is_not_measured() -> None:
    found = METER.measure(sums_of(make_hours(days=1)).sum(axis=1))
    reported = [name for name, known in zip(METER.measures, np.isfinite(found).any(axis=0), strict=True) if known]
    assert reported == ["silent"]
    alone = measured(make_hours(boxes=1))
    assert np.isnan([alone[name] for name in ("neighbours", "gain", "night", "response", "shift T")]).all()
    assert np.isfinite([alone[name] for name in ("liveliness", "stuck", "PSI T")]).all()


@settings(max_examples=8, deadline=None)
@given(cut=st.integers(1, 9), seed=st.integers(0, 99))
def test_days_add_up_to_periods(cut: int, seed: int) -> None:
    sums = sums_of(make_hours(3, 10, seed))
    np.testing.assert_allclose(sums[:, :cut].sum(axis=1) + sums[:, cut:].sum(axis=1), sums.sum(axis=1))


@given(st.lists(st.one_of(st.floats(-9, 9), st.just(np.nan)), min_size=1, max_size=9))
def test_the_median_is_of_what_is_known(values: list[float]) -> None:
    known = [value for value in values if np.isfinite(value)]
    np.testing.assert_allclose(median(np.array(values), 0), np.median(known) if known else np.nan)


def test_bins_hold_equal_shares_of_training() -> None:
    rows = np.random.default_rng(3).standard_normal((8000, 1))
    counts = np.bincount(np.searchsorted(bin_borders(rows)[:, 0], rows[:, 0]))
    assert counts == pytest.approx([1000] * 8, abs=1)
