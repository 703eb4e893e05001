"""The series behind a card: which rows are scored, accuracy worked by hand, windows to time."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.data.flags import Flag
from scare.data.readings import REFERENCE, Channel, Readings
from scare.errors import DataError
from scare.scorecard.requirements import Finding
from scare.scorecard.series import calibrate, coverage_of, successive_windows
from tests.calibrator.building import DUST, make_calibrator, make_readings, newest_plan

START = 1_700_000_000.0  # 2023-11-14T22:13:20Z
TRUTH = Channel("truth", "ug/m3")


def colocation(rows: int = 40, device: str = "box-1", reference: np.ndarray | None = None) -> Readings:
    """A walk of dust and current next to a reference."""
    draw = np.random.default_rng(rows)
    values = np.stack([40 + draw.normal(size=rows).cumsum(), 300 + draw.normal(size=rows)], axis=1)
    readings = make_readings(START + 60.0 * np.arange(rows), values, device=device)
    truth = values[:, 0] / 2 + draw.normal(size=rows) if reference is None else reference
    return replace(readings, frame=readings.frame.with_columns(pl.Series(REFERENCE, truth)), reference=TRUTH)


def trained(calibrator: Calibrator, **facts: Any) -> Calibrator:
    return replace(calibrator, facts={**calibrator.facts, **facts})


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {one.measure: one for one in findings}


def test_accuracy_is_that_of_an_independent_computation() -> None:
    calibrator, readings = make_calibrator(), [colocation(), colocation(60, "box-2")]
    series = calibrate(calibrator, readings)
    pieces = []
    for one in readings:
        estimate = calibrator.predict(one)["calibrated"].fill_null(np.nan).to_numpy()
        changes = np.concatenate([[np.nan], np.diff(one.values[:, 0])])
        turns = np.concatenate([[np.nan], np.diff(one.targets)])
        pieces.append(np.stack([estimate, one.targets, one.values[:, 0], changes, turns], axis=1))
    rows = np.concatenate(pieces)
    rows = rows[np.isfinite(rows[:, :2]).all(axis=1)]
    error = rows[:, 0] - rows[:, 1]
    fast = np.argsort(-np.nan_to_num(np.abs(rows[:, 3])), kind="stable")[: int(np.ceil(0.05 * len(rows)))]
    turning = np.argsort(-np.nan_to_num(np.abs(rows[:, 4])), kind="stable")[: len(fast)]
    line = np.polyfit(rows[:, 2], rows[:, 1], 1)
    found = by_name(series.findings(calibrator, "float32"))
    assert found["rmse"].value == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["rmse"].per == pytest.approx(rows[:, 1].std())
    assert found["top5_rmse"].value == pytest.approx(np.sqrt(np.mean(error[fast] ** 2)))
    assert found["top5_rmse"].per == pytest.approx(rows[fast, 1].std())
    assert found["top5_rmse_reference"].value == pytest.approx(np.sqrt(np.mean(error[turning] ** 2)))
    assert set(turning) != set(fast)
    detail = found["rmse"].detail
    assert detail["line_rmse"] == pytest.approx(np.sqrt(np.mean((np.polyval(line, rows[:, 2]) - rows[:, 1]) ** 2)))
    assert detail["raw_rmse"] == pytest.approx(np.sqrt(np.mean((rows[:, 2] - rows[:, 1]) ** 2)))
    assert detail["rows"] == len(rows)


def test_coverage_is_that_of_an_independent_computation() -> None:
    sure = Intervals(0.8, edges=(18.0,), below=(28.0, 30.0), above=(4.0, 1.0))
    calibrator, readings = replace(make_calibrator(), intervals=sure), colocation(60)
    table = calibrator.predict(readings).drop_nulls("low")
    low, high, truth = (table[name].to_numpy() for name in ("low", "high", "reference"))
    outside = np.select([truth < low, truth > high], [low - truth, truth - high])
    found = by_name(calibrate(calibrator, [readings]).findings(calibrator, "float32"))
    coverage = found["interval_coverage"]
    assert coverage.value == pytest.approx(100 * np.mean(outside == 0))
    assert 0 < np.mean(outside == 0) < 1
    assert coverage.per == pytest.approx(80.0)
    assert coverage.detail["winkler"] == pytest.approx(np.mean(high - low + 2 / 0.2 * outside))
    assert coverage.detail["origin"] == "made at fit"
    assert coverage.detail["not_flagged"]["rows"] == len(truth)
    assert "flagged" not in coverage.detail
    assert found["interval_width"].value == pytest.approx(np.mean(high - low))


def test_coverage_of_flagged_rows_is_counted_apart() -> None:
    level, flags = 0.9, np.array([0, 0, Flag.SPIKE, Flag.OUTSIDE | Flag.GAP, Flag.GAP], np.uint32)
    low, high, truth = np.zeros(5), np.ones(5), np.array([0.5, 2.0, 0.5, 3.0, np.nan])
    table = pl.DataFrame({"low": low, "high": high, "flags": flags})
    calibrator = replace(make_calibrator(), intervals=Intervals(level, (), (1.0,), (1.0,)))
    found = coverage_of(calibrator, [table], [colocation(5, reference=truth)])
    assert found is not None
    assert (found["rows"], found["share"]) == (4, 0.5)
    assert [(found[name]["rows"], found[name]["share"]) for name in ("not_flagged", "flagged")] == [(2, 0.5)] * 2


def test_a_calibrator_without_intervals_has_no_coverage() -> None:
    found = by_name(calibrate(make_calibrator(), [colocation()]).findings(make_calibrator(), "float32"))
    assert not any("interval" in name for name in found)


def test_rows_it_was_trained_on_are_shown_but_not_scored() -> None:
    readings = [colocation(), colocation(60, "box-2")]
    period = ["2023-11-14T22:13:20Z", "2023-11-14T22:32:20Z"]  # the first 20 rows
    validation = {"devices": ["box-2"], "period": ["2023-11-14T22:13:20Z", "2023-11-14T22:17:20Z"]}  # its first 5 rows
    calibrator = trained(make_calibrator(), devices=["box-1"], period=period, validation=validation)
    series = calibrate(calibrator, readings)
    assert series.rows.trained.tolist() == [True] * 20 + [False] * 20 + [True] * 5 + [False] * 55
    assert not series.rows.is_scored[:20].any()
    assert series.rows.is_scored[20:40].all()
    facts = series.facts(readings, calibrator)
    assert (facts["rows"], facts["rows_of_training"]) == (100, 25)
    shown = int(series.frame["calibrated"].is_not_null().filter(series.rows.trained).sum())
    assert shown > 15
    assert facts["rows_scored"] == facts["rows_calibrated"] - shown
    assert facts["devices"] == ["box-1", "box-2"]
    assert facts["reference"] == {"name": "truth", "unit": "ug/m3"}
    answers = ["calibrated", "low", "high", "flags", "outside_ranges", "outside_channel"]
    assert series.frame.columns == ["device", "time", "pm25", "current", "reference", *answers]


def test_what_counts_as_missing_is_null_in_its_own_column_alone() -> None:
    calibrator, readings = make_calibrator(), colocation()
    odd = readings.values.copy()
    odd[20, 1] = -999.0
    spoiled = replace(readings, frame=readings.frame.with_columns(pl.Series("current", odd[:, 1])))
    series = calibrate(calibrator, [spoiled])
    assert series.frame["current"].is_null().arg_true().to_list() == [20]
    np.testing.assert_array_equal(series.frame["pm25"].to_numpy(), readings.values[:, 0])
    np.testing.assert_array_equal(series.rows.raw, readings.values[:, 0])


def test_a_reading_in_another_unit_has_no_error_of_its_own() -> None:
    calibrator = replace(make_calibrator(), target=Channel("no2", "ppb"))
    found = by_name(calibrate(calibrator, [colocation()]).findings(calibrator, "float32"))
    assert found["rmse"].detail["raw_rmse"] is None


@pytest.mark.parametrize("level", [0.1, 20.0])  # the mean of the first is not exactly its value
def test_a_constant_reference_is_no_baseline(level: float) -> None:
    calibrator = make_calibrator()
    series = calibrate(calibrator, [colocation(reference=np.full(40, level))])
    found = by_name(series.findings(calibrator, "float32"))["rmse"]
    assert np.isnan(found.per)
    assert found.detail["line_rmse"] is None


@pytest.mark.parametrize(
    ("facts", "reference", "message"),
    [
        ({"devices": ["box-1"], "period": ["2023-01-01T00:00:00Z", "2024-01-01T00:00:00Z"]}, 9.0, "trained on all"),
        ({}, np.nan, "no row has a reference"),
    ],
)
def test_nothing_to_score_is_refused_with_the_reason(facts: dict[str, Any], reference: float, message: str) -> None:
    calibrator = trained(make_calibrator(), **facts)
    series = calibrate(calibrator, [colocation(reference=np.full(40, reference))])
    with pytest.raises(DataError, match=message):
        series.findings(calibrator, "float32")


def test_no_calibrated_value_is_refused_with_the_flags() -> None:
    calibrator, one = make_calibrator(), colocation()
    dust = one.frame.with_columns(pl.lit(5000.0).alias("pm25"))
    series = calibrate(calibrator, [replace(one, frame=dust)])
    with pytest.raises(DataError, match="RANGE"):
        series.findings(calibrator, "float32")


def test_windows_to_time_are_those_of_successive_rows() -> None:
    calibrator, readings = make_calibrator(newest_plan(3)), colocation(rows=30)
    windows = successive_windows(calibrator, [readings], 10)
    scaled = (readings.values - [20.0, 300.0]) / [8.0, 60.0]
    assert windows.shape == (10, 3, 2)
    at = [int(np.argmin(np.abs(scaled[:, 0] - window[-1, 0]))) for window in windows]
    assert np.diff(at).tolist() == [1] * 9
    for row, window in zip(at[2:], windows[2:], strict=True):
        np.testing.assert_allclose(window, scaled[row - 2 : row + 1], rtol=1e-5)


def test_fewer_windows_than_asked_for_are_all_there_are_and_one_is_too_few() -> None:
    calibrator = make_calibrator(newest_plan(3))
    few = successive_windows(calibrator, [colocation(rows=9)], 50)
    assert 2 <= len(few) < 10
    with pytest.raises(DataError, match="fewer than two rows"):
        successive_windows(calibrator, [colocation(rows=1)], 50)


def test_a_channel_that_is_missing_is_named() -> None:
    one = colocation()
    lacking = replace(one, frame=one.frame.drop("current"), channels=(DUST,))
    with pytest.raises(DataError, match="no channel current"):
        calibrate(make_calibrator(), [lacking])
