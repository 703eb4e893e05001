"""Drift: measures tell a box from its fleet, a box that changes is named, and a watched fleet becomes a report."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.data.readings import Readings
from scare.data.simulate import simulate
from scare.data.simulated_air import Drift, DriftKind
from scare.errors import DataError
from scare.upkeep.drift import (
    ALARM_DAYS,
    FLEET_MEASURES,
    PENALTY,
    RULES,
    Assessment,
    DriftMeter,
    DriftState,
    Hours,
    align_boxes,
    assess,
    box_hours,
    hourly,
    lasting,
    median,
    periods,
    watch,
    watch_hours,
)
from tests.upkeep.conftest import BORDER, FLEET

CHANNELS = ("pm25", "T", "RH")
METER = DriftMeter(CHANNELS)
Change = Callable[[np.ndarray], None]  # of the hours [boxes, days, 24, 1 + channels] in place


def make_hours(boxes: int = 6, days: int = 30, seed: int = 0, change: Change = lambda hours: None) -> np.ndarray:
    """Hours of a fleet: the calibrated value and the sensor follow the air, weather is the same for all."""
    rng = np.random.default_rng(seed)
    air = 0.6 * rng.standard_normal((days, 24)) + rng.standard_normal((days, 1))
    weather = rng.standard_normal((days, 24, 2))
    noise = 0.05 * rng.standard_normal((boxes, days, 24, 2))
    hours = np.concatenate([air[None, ..., None] + noise, np.broadcast_to(weather, (boxes, *weather.shape))], axis=-1)
    change(hours)
    return hours


def sums_of(hours: np.ndarray, meter: DriftMeter = METER) -> np.ndarray:
    """The sums of every day [boxes, days, sums]."""
    return np.stack([meter.sum_day(hours[:, day]) for day in range(hours.shape[1])], axis=1)


def assessed(hours: np.ndarray, usual_days: int = 14, recent_days: int = 7) -> Assessment:
    """The fleet on its last day."""
    return assess(periods(sums_of(hours), METER, usual_days, recent_days), METER)


# Measures


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
    dry = DriftMeter(("pm25", "T"))
    sums = sums_of(make_hours()[..., :3], dry).sum(axis=1)
    np.testing.assert_allclose(dry.measure(sums)[:, 2], 0)


def test_what_was_hardly_there_is_not_measured() -> None:
    found = METER.measure(sums_of(make_hours(days=1)).sum(axis=1))
    reported = [name for name, known in zip(METER.measures, np.isfinite(found).any(axis=0), strict=True) if known]
    assert reported == ["silent"]
    alone = measured(make_hours(boxes=1))
    assert np.isnan([alone[name] for name in ("neighbours", "gain", "night", "response", "shift T")]).all()
    assert np.isfinite([alone[name] for name in ("liveliness", "stuck")]).all()


@settings(max_examples=8, deadline=None)
@given(cut=st.integers(1, 9), seed=st.integers(0, 99))
def test_days_add_up_to_periods(cut: int, seed: int) -> None:
    sums = sums_of(make_hours(3, 10, seed))
    np.testing.assert_allclose(sums[:, :cut].sum(axis=1) + sums[:, cut:].sum(axis=1), sums.sum(axis=1))


@given(st.lists(st.one_of(st.floats(-9, 9), st.just(np.nan)), min_size=1, max_size=9))
def test_the_median_is_of_what_is_known(values: list[float]) -> None:
    known = [value for value in values if np.isfinite(value)]
    np.testing.assert_allclose(median(np.array(values), 0), np.median(known) if known else np.nan, atol=1e-14)


# Assessment


def worse(by: float, box: int = 0) -> Change:
    """A box whose zero rises in the second half."""

    def change(hours: np.ndarray) -> None:
        hours[box, hours.shape[1] // 2 :, :, :2] += by

    return change


def test_a_box_that_changes_is_brought_back_and_the_others_stay() -> None:
    found = assessed(make_hours(change=worse(2.0)))
    assert found.states.tolist() == [DriftState.RECOLLOCATE] + [DriftState.FINE] * 5
    strongest = found.measures[int(np.nanargmax(found.units[0]))]
    assert strongest in ("neighbours", "night")


def test_what_changes_for_all_is_weather() -> None:
    def season(hours: np.ndarray) -> None:
        hours[:, 15:, :, :2] = 1.5 * hours[:, 15:, :, :2] + 2.0
        hours[:, 15:, :, 2:] += 1.5

    assert (assessed(make_hours(change=season)).states == DriftState.FINE).all()


@settings(max_examples=6, deadline=None)
@given(order=st.permutations(range(6)), seed=st.integers(0, 50))
def test_the_order_of_boxes_changes_nothing(order: list[int], seed: int) -> None:
    hours = make_hours(seed=seed, change=worse(1.0))
    here, there = assessed(hours), assessed(hours[order])
    np.testing.assert_allclose(here.scores[order], there.scores)
    np.testing.assert_array_equal(here.states[order], there.states)


@pytest.mark.parametrize("size", [0.5, 1.0, 2.0, 4.0])
def test_a_greater_change_is_never_assessed_milder(size: float) -> None:
    mild, strong = (assessed(make_hours(change=worse(by))) for by in (size, 2 * size))
    assert strong.scores[0] >= mild.scores[0]
    assert strong.states[0] >= mild.states[0]


def test_of_two_boxes_the_drifting_one_is_unknown_and_neither_is_judged() -> None:
    found = assessed(make_hours(2, change=worse(5.0)))
    assert found.states.tolist() == [DriftState.FINE, DriftState.FINE]
    assert not found.compared.any()


def test_a_sensor_that_follows_more_of_the_air_is_no_alarm() -> None:
    def livelier(hours: np.ndarray) -> None:
        hours[0, 15:, :, 1] *= 1.9

    response = METER.measures.index("response")
    found = assessed(make_hours(change=livelier))
    assert found.values[0, response] > 1.5 * RULES["response"].unit
    assert found.units[0, response] == 0


@given(st.lists(st.lists(st.integers(0, 2), min_size=12, max_size=12), min_size=1, max_size=3))
def test_a_state_begins_and_ends_after_three_days_that_agree(states: list[list[int]]) -> None:
    days = np.array(states)
    lasted = lasting(days)
    for day in range(ALARM_DAYS - 1, days.shape[1]):
        last = days[:, day + 1 - ALARM_DAYS : day + 1]
        agreed = (last == last[:, :1]).all(axis=1)
        np.testing.assert_array_equal(lasted[agreed, day], last[agreed, 0])
        rises = lasted[:, day] > lasted[:, day - 1]
        assert (last[rises] > lasted[rises, day - 1, None]).all()
    assert not lasted[:, : ALARM_DAYS - 1].any()


def test_a_few_boxes_do_not_tell_their_scatter() -> None:
    several, few = (assessed(make_hours(boxes, change=worse(0.9))) for boxes in (6, 4))
    assert several.scores[0] > 2 * few.scores[0] > 0


def test_boxes_that_scatter_more_need_more_evidence() -> None:
    def restless(hours: np.ndarray) -> None:
        worse(1.0)(hours)
        hours[1:, 15:, :, :2] += np.array([-0.6, -0.3, 0.2, 0.4, 0.7])[:, None, None, None]

    assert assessed(make_hours(change=restless)).scores[0] < assessed(make_hours(change=worse(1.0))).scores[0] / 2


def test_few_days_ask_for_a_look_at_most() -> None:
    found = assessed(make_hours(days=10, change=worse(5.0)), 5, 5)
    assert found.states[0] == DriftState.LOOK
    assert found.scores[0] > 2


@pytest.mark.parametrize("boxes", [1, 6])
def test_a_stuck_sensor_is_believed_at_once_with_or_without_a_fleet(boxes: int) -> None:
    def stuck(hours: np.ndarray) -> None:
        hours[0, -3:, :, 1] = 0.0

    found = assessed(make_hours(boxes, 6, change=stuck), 3, 3)
    assert found.states[0] == DriftState.RECOLLOCATE
    assert found.units[0, found.measures.index("stuck")] > 1


def test_a_silent_box_needs_a_look() -> None:
    def silent(hours: np.ndarray) -> None:
        hours[2, -7:] = np.nan

    assert assessed(make_hours(change=silent)).states.tolist() == [0, 0, DriftState.LOOK, 0, 0, 0]


def test_a_box_alone_has_no_alarm_for_what_a_season_does() -> None:
    def season(hours: np.ndarray) -> None:
        hours[:, 15:, :, 1:] += 6.0

    found = assessed(make_hours(1, change=season))
    assert found.states[0] == DriftState.FINE
    assert not found.compared[0]


def test_a_box_alone_that_hardly_changes_any_more_needs_a_look() -> None:
    def dead(hours: np.ndarray) -> None:
        hours[:, 15:, :, 1] *= 0.1

    assert assessed(make_hours(1, change=dead)).states[0] == DriftState.LOOK


def test_every_measure_has_a_rule() -> None:
    assert {*FLEET_MEASURES, "shift"} == set(RULES)


# A simulated fleet, from readings to its report


def later(*drifts: Drift) -> list[Readings]:
    """The fleet after its co-location."""
    return [one.rows(one.times >= BORDER) for one in simulate(replace(FLEET, drifts=drifts))]


@pytest.mark.parametrize("kind", [DriftKind.OFFSET, DriftKind.DYING])
def test_the_box_that_drifts_comes_first(calibrator: Calibrator, kind: DriftKind) -> None:
    found = watch(calibrator, later(Drift(kind, box=3, day=29, ramp_days=5, size=1.0 if kind == "dying" else 9.0)))
    assert [one.state for one in found.boxes] == [DriftState.RECOLLOCATE] + [DriftState.FINE] * 5
    first = found.boxes[0]
    assert first.device == "box-04"
    assert first.evidence
    assert [one.units for one in first.evidence] == sorted((one.units for one in first.evidence), reverse=True)
    assert first.score > 1
    assert (found.days, first.days, found.notes) == (30, 30, ())


def test_a_box_alone_is_watched_and_the_rules_of_neighbours_say_why_they_are_silent(calibrator: Calibrator) -> None:
    found = watch(calibrator, later()[:1])
    assert found.boxes[0].state == DriftState.UNKNOWN
    assert "with fewer than 3 boxes a drift cannot be told from weather" in found.notes[0]


def test_a_dead_box_is_silent_and_the_others_are_assessed(calibrator: Calibrator) -> None:
    fleet = later()
    gone = fleet[1].frame.with_columns(pl.lit(None, pl.Float64).alias("no2_cell"))
    fleet[1] = replace(fleet[1], frame=gone)
    found = watch(calibrator, fleet)
    assert [one.state for one in found.boxes] == [DriftState.LOOK] + [DriftState.FINE] * 5
    assert "box-02: fewer than 21 days" in found.notes[0]
    assert found.boxes[0].evidence[0].sentence == "no value in 100 % of the hours in which others have one"
    with pytest.raises(DataError, match="no row of any box has a calibrated value"):
        watch(calibrator, fleet[1:2])


def test_too_few_days_are_said(calibrator: Calibrator) -> None:
    fleet = [one.rows(one.times < BORDER + 7 * 86400) for one in later()]
    found = watch(calibrator, fleet)
    assert "cannot be measured in 7 days" in found.notes[0]
    assert all(one.state == DriftState.UNKNOWN for one in found.boxes)


def test_the_expected_error_follows_the_air_and_comes_first_unless_a_box_drifts(calibrator: Calibrator) -> None:
    """Intervals are 1 wide below a value and 4 above it, where half of the hours of a box's last days are."""
    target = calibrator.inputs.scaling.target
    low, high = target.invert(np.array([[0.0], [2.0]]))[:, 0]
    banded = replace(calibrator, intervals=Intervals(0.9, ((low + high) / 2,), (0.5, 2.0), (0.5, 2.0)))
    values = np.zeros((4, 30, 24, 1 + len(calibrator.inputs.channels)))
    values[..., 1] = np.random.default_rng(1).standard_normal((30, 24))  # no sensor is stuck
    values[2, 23:, ::2, 0] = 2.0  # the last seven days of the third box
    values[3, :20] = np.nan  # too few days for a comparison
    hours = Hours(tuple("abcd"), 20_000, values)
    found = watch_hours(banded, hours)
    wide = np.sqrt((1 + 16) / 2)
    by_name = {box.device: box for box in found.boxes}
    assert [by_name[name].expected_error for name in "abc"] == pytest.approx([1.0, 1.0, wide])
    assert np.isnan(by_name["d"].expected_error)
    assert by_name["c"].history[-1] == by_name["c"].expected_error > by_name["c"].history[-2] > 1
    assert [box.device for box in found.boxes] == ["c", "a", "b", "d"]
    values[1, 20:, :, 1] = 0.0  # this one is stuck
    assert [box.device for box in watch_hours(banded, hours).boxes] == ["b", "c", "a", "d"]
    assert np.isnan(watch_hours(replace(calibrator, intervals=None), hours).boxes[0].expected_error)


def test_a_box_that_was_hardly_there_is_named(calibrator: Calibrator) -> None:
    fleet = later()
    fleet[2] = fleet[2].rows(fleet[2].times > BORDER + 20 * 86400)
    (note,) = watch(calibrator, fleet).notes
    assert note.startswith("box-03: fewer than 21 days")


def test_a_model_that_reads_once_a_day_cannot_be_watched(calibrator: Calibrator) -> None:
    daily = replace(calibrator, inputs=replace(calibrator.inputs, step_seconds=86400.0))
    with pytest.raises(
        DataError, match="every 24 hours, but drift can only be measured with one at least every 2 hours"
    ):
        watch(daily, later()[:1])


def test_hours_are_means_on_one_calendar(calibrator: Calibrator) -> None:
    fleet = later()
    hours = align_boxes([(one.device, *box_hours(calibrator, one)) for one in fleet[:2]])
    assert hours.values.shape == (2, 30, 24, 5)
    table = calibrator.predict(fleet[0])
    clean = table.filter((pl.col("flags") & 0b101000) == 0)
    first = clean.filter(pl.col("time").dt.epoch("s") < BORDER + 10 * 3600, pl.col("time").dt.hour() == 9)
    target = calibrator.inputs.scaling.target
    mean = (first["calibrated"].mean() - target.center[0]) / target.scale[0]
    assert hours.values[0, 0, 9, 0] == pytest.approx(mean)
    assert watch_hours(calibrator, hours).days == 30


def test_an_hour_without_a_number_has_no_mean() -> None:
    hours, means = hourly(np.array([7200.0, 7300.0, 10800.0]), np.array([[1.0, np.nan], [3.0, np.nan], [5.0, 2.0]]))
    np.testing.assert_array_equal(hours, [2, 3])
    np.testing.assert_array_equal(means, [[2.0, np.nan], [5.0, 2.0]])
