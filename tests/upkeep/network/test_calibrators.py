"""A box's calibrator computes the network's line, carries its evidence, and is one that `scare update` knows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from scare.board.verify_export import verify_export
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.calibrator.plan_passes import LEARNED
from scare.data.readings import CALIBRATED, HIGH, LOW, TIME, Channel, Readings
from scare.data.simulated_city import START, Journey
from scare.export.package import export_calibrator
from scare.upkeep.network.calibrators import as_it_reads, for_box
from scare.upkeep.network.fleet import SolvedNetwork
from scare.upkeep.update import age_of_correction, revert, set_line, update
from tests.calibrator.building import make_calibrator, newest_plan
from tests.upkeep.network.cities import draw_city, solve_city
from tests.upkeep.sessions import HOURLY, air, session

CITY = draw_city(Journey.STATION, 1)
NETWORK: SolvedNetwork = solve_city(CITY)
AS_IT_READS = as_it_reads(Channel("pm25", "ug/m3"), Channel("calibrated", "ug/m3"), 3600.0)


def readings_of(box: str) -> Readings:
    values = CITY.readings[box]
    times = pl.Series(TIME, (START.timestamp() + 3600 * np.arange(len(values))) * 1e6).cast(pl.Int64)
    frame = pl.DataFrame({TIME: times.cast(pl.Datetime("us", "UTC")), "pm25": values}).with_columns(
        pl.col("pm25").fill_nan(None)
    )
    return Readings(box, frame, (Channel("pm25", "ug/m3"),))


def test_a_calibrator_computes_the_line_of_its_box(tmp_path: Path) -> None:
    made = Calibrator.load(for_box(AS_IT_READS, NETWORK.solution, "box-07").save(tmp_path / "a.scare"))
    table = made.predict(readings_of("box-07")).drop_nulls(CALIBRATED)
    known = NETWORK.solution.estimate("box-07").calibrate(table["pm25"].to_numpy())
    assert_allclose(table[CALIBRATED], known, rtol=1e-5, atol=1e-4)
    half = ((table[HIGH] - table[LOW]) / 2).to_numpy()
    expected = NETWORK.solution.interval("box-07", table["pm25"].to_numpy())
    assert np.all((half > 0.6 * expected) & (half < 1.6 * expected))
    learned = made.facts[LEARNED]
    assert learned["network"]["path"][-1].split(" on ")[0].endswith("beside station-a")
    assert learned["network"]["uncertainty"] == pytest.approx(NETWORK.solution.uncertainty("box-07"), abs=1e-4)
    age_days = NETWORK.solution.age_days("box-07")
    assert age_days is not None
    compared = age_of_correction(made)["compared"]
    assert compared == pytest.approx(NETWORK.solution.end - 86400 * age_days, abs=0.06 * 86400)  # rounded to 0.1 days


def test_it_is_undone_and_continued_like_any_update() -> None:
    fleet = replace(HOURLY, intervals=Intervals(0.9, (), (2.0,), (2.0,)))
    made = set_line(fleet, 0.8, 3.0, {"sessions": 1}, widening=1.5)
    box = session(air(4), gain=0.9, offset=1.0)
    before, after = (one.predict(box)[CALIBRATED].to_numpy() for one in (fleet, made))
    assert_allclose(after, 0.8 * before + 3.0, rtol=1e-5, atol=1e-4)
    assert made.intervals is not None
    assert made.intervals.above == (3.0,)
    again = revert(made)
    assert again.intervals == fleet.intervals
    assert_allclose(again.predict(box)[CALIBRATED].to_numpy(), before)
    continued = update(made, [box]).calibrator.facts[LEARNED]
    assert continued["sessions"] == 2
    on_top = set_line(made, 1.1, 2.0, {}, widening=2.0)
    assert_allclose(on_top.predict(box)[CALIBRATED].to_numpy(), 1.1 * after + 2.0, rtol=1e-5, atol=1e-4)
    assert on_top.intervals is not None
    assert on_top.intervals.above == (6.0,)


def test_it_runs_in_c(tmp_path: Path) -> None:
    made = for_box(make_calibrator(newest_plan()), NETWORK.solution, "box-07")
    export_calibrator(made, "c", "float32", tmp_path / "c")
    assert not any(comparison.reasons for comparison in verify_export(tmp_path / "c"))
