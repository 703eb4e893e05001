"""The index of devices as they report: that of a table of the same results, through restarts and a replaced model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scare.calibrator.air_index import HourlyIndex, find_index
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.data.readings import Channel
from scare.errors import UsageError
from scare.live.config import Model
from scare.live.day_files import as_table
from scare.live.journal import Store
from scare.live.live_index import LiveIndex
from scare.live.messages import Reading
from scare.live.pipeline import ModelFiles, Monitor, Pipeline
from tests.calibrator.building import curve_plan, make_calibrator
from tests.live.small_gateway import LIMITS, START, STORES, Kept, close
from tests.live.test_pipeline import push

PM25 = find_index("us-aqi", Channel("PM2.5", "ug/m3"))
HOUR = 3600.0


def with_index(folder: Path, sink: Kept) -> Pipeline:
    calibrator = make_calibrator(curve_plan(8))
    if not (folder / "dust.scare").exists():
        sure = Intervals(0.9, (), (4.0,), (6.0,))
        replace(calibrator, target=Channel("PM2.5", "ug/m3"), intervals=sure).save(folder / "dust.scare")
    files = ModelFiles({"dust": Model(str(folder / "dust.scare"), index="us-aqi")}, Calibrator.load, Monitor())
    STORES.append(Store(folder / "state"))
    pipeline = Pipeline(files, STORES[-1], [sink], Monitor(), LIMITS)
    pipeline.restore()
    return pipeline


@pytest.mark.parametrize("cuts", [(), (90, 91, 700)])
def test_the_index_is_that_of_a_table_of_the_results_however_often_the_process_dies(
    tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    begin = HOUR * (START // HOUR)
    readings = [
        Reading(device, begin + 60 * row, {"pm25": rng.uniform(1, 60), "current": rng.uniform(200, 400)})
        for row in range(14 * 60)
        for device in ("a", "b")
        if not (device == "b" and 300 <= row < 380)
    ]
    sink = Kept()
    pipeline = with_index(tmp_path, sink)
    for number, start in enumerate(range(0, len(readings), 40)):
        push(pipeline, readings[start : start + 40])
        if any(start <= 2 * cut < start + 40 for cut in cuts):
            close()  # killed: the snapshot is older than the newest results
            pipeline = with_index(tmp_path, sink)
        elif number % 7 == 0:
            pipeline.snapshot()
    close()
    results = list(sink.by_reading().values())
    table = HourlyIndex(PM25, 0.9, 60.0)
    table.add(as_table(results))
    for device in ("a", "b"):
        *_, last = (row for row in table.table().iter_rows(named=True) if row["device"] == device)
        newest = max((one for one in results if one.device == device), key=lambda one: one.time)
        assert newest.index is not None
        assert newest.index.concentration == pytest.approx(last["concentration"])
        assert (newest.index.value, newest.index.category) == (last["index"], last["category"])
        assert sum(newest.index.probabilities.values()) == pytest.approx(1.0)
        plain = newest.as_json()["index"]
        assert plain["probabilities"]["moderate"] == pytest.approx(last["p_moderate"], abs=1e-3)
    assert as_table([newest])["index"].to_list() == [newest.index.value]


def test_an_hour_counts_when_it_is_over_or_has_all_its_readings() -> None:
    index = LiveIndex(PM25, 0.9, 1800.0)
    expected = [None, None, None, 10.5, 10.5, 11.1]  # weights 10 / 11 and 10 / 12
    found = [index.add("a", 1800.0 * row, 10.0 + row // 2, 9.0, 12.0) for row in range(6)]
    assert [one and round(one.concentration, 1) for one in found] == expected


def test_an_index_that_is_not_for_the_quantity_is_refused_at_the_start(tmp_path: Path) -> None:
    replace(make_calibrator(), target=Channel("NO2", "ppb")).save(tmp_path / "gas.scare")
    with pytest.raises(UsageError, match=r"models.gas.index: the index us-aqi is for PM2.5, PM10, O3; NO2 is none"):
        ModelFiles({"gas": Model(str(tmp_path / "gas.scare"), index="us-aqi")}, Calibrator.load, Monitor())
