"""A simulated fleet is watched from its readings to its report: which box drifts, why, and what is unknown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.data.simulate import simulate
from scare.data.simulated_air import Drift, DriftKind
from scare.errors import DataError
from scare.upkeep.drift import DriftState, align_boxes, box_hours, drift_meter, hourly, watch, watch_hours
from tests.upkeep.conftest import BORDER, FLEET


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
    assert first.score == pytest.approx(first.history[-1], abs=1e-3)
    assert max(first.history[:14]) < 1 < first.history[-1]
    assert (found.days, first.days, found.notes) == (30, 30, ())


def test_a_box_alone_is_watched_and_the_rules_of_neighbours_say_why_they_are_silent(calibrator: Calibrator) -> None:
    found = watch(calibrator, later()[:1])
    assert found.boxes[0].state == DriftState.FINE
    assert "one box has no neighbours" in found.notes[0]


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
    fleet = [one.rows(one.times < BORDER + 2 * 86400) for one in later()]
    found = watch(calibrator, fleet)
    assert "cannot be measured in 2 days" in found.notes[0]
    assert all(one.state == DriftState.FINE for one in found.boxes)


def test_a_box_that_was_hardly_there_is_named(calibrator: Calibrator) -> None:
    fleet = later()
    fleet[2] = fleet[2].rows(fleet[2].times > BORDER + 20 * 86400)
    (note,) = watch(calibrator, fleet).notes
    assert note.startswith("box-03: fewer than 21 days")


def test_a_model_that_reads_once_a_day_cannot_be_watched(calibrator: Calibrator) -> None:
    daily = replace(calibrator, inputs=replace(calibrator.inputs, step_seconds=86400.0))
    with pytest.raises(DataError, match="reads every 24 hours; to watch boxes a reading is needed every 2 hours"):
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


def test_what_training_had_is_in_the_file_or_comes_from_its_windows(calibrator: Calibrator) -> None:
    older = replace(calibrator, training_hours=None, validation=calibrator.golden)
    new, old = drift_meter(calibrator).borders, drift_meter(older).borders
    assert new.shape == old.shape == (7, 4)
    assert (np.diff(new, axis=0) > 0).all()
    assert "does not hold the hours of training" in watch(older, later()[:1]).notes[-1]


def test_a_file_keeps_the_hours_of_training_and_hours_that_do_not_fit_are_refused(
    calibrator: Calibrator, tmp_path: Path
) -> None:
    path = calibrator.save(tmp_path / "no2.scare")
    np.testing.assert_array_equal(Calibrator.load(path).training_hours, calibrator.training_hours)
    for wrong in (np.zeros((7, 3)), np.full((7, 4), np.nan)):
        with pytest.raises(DataError, match="the hours of training do not fit the channels"):
            Calibrator.load(replace(calibrator, training_hours=wrong).save(path))


def test_an_hour_without_a_number_has_no_mean() -> None:
    hours, means = hourly(np.array([7200.0, 7300.0, 10800.0]), np.array([[1.0, np.nan], [3.0, np.nan], [5.0, 2.0]]))
    np.testing.assert_array_equal(hours, [2, 3])
    np.testing.assert_array_equal(means, [[2.0, np.nan], [5.0, 2.0]])
