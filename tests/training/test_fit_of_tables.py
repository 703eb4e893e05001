"""`scare.fit` and `Calibrator.predict` take a table as it is, and give back its rows."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import scare
from scare.calibrator.corrections import bind, find_correction
from scare.errors import UsageError
from tests.training.small_fits import line_recipe, make_readings

NOISE = np.random.default_rng(7).normal(size=(200, 3))
VALUES = 20 + NOISE[:, :2].cumsum(axis=0)
READINGS = make_readings(VALUES, 2 * VALUES[:, 0] + 5 + NOISE[:, 2], channels=("raw", "humidity"))
TABLE = READINGS.frame.select(pl.col("time").alias("when"), "raw", "humidity", pl.col("reference").alias("truth"))
NAMES: dict[str, Any] = {"reference": "truth", "time": "when"}


@pytest.fixture(scope="module")
def calibrator() -> scare.Calibrator:
    return scare.fit(TABLE, recipe="multiple-linear", **NAMES)


def test_a_table_and_its_readings_give_the_same_calibrator() -> None:
    of_table, of_readings = scare.fit(TABLE, recipe=line_recipe(), **NAMES), scare.fit(READINGS, recipe=line_recipe())
    windows = of_table.golden.windows
    np.testing.assert_array_equal(of_table.compute(windows), of_readings.compute(windows))
    assert of_table.target.name == "truth"


def test_the_values_of_a_table_are_those_of_its_readings(calibrator: scare.Calibrator) -> None:
    (one,) = scare.data.dataframes.read_frame(TABLE, ["raw", "humidity"], time="when")
    expected, found = calibrator.predict(one.readings), calibrator.predict(TABLE, time="when")
    assert found.columns == [*TABLE.columns, "calibrated", "low", "high", "flags"]
    for name in ("calibrated", "low", "high", "flags"):
        assert found[name].equals(expected[name])
    order = np.random.default_rng(0).permutation(TABLE.height)
    assert calibrator.predict(TABLE[order], time="when").equals(found[order])


def test_devices_of_a_table_have_streams_of_their_own(calibrator: scare.Calibrator) -> None:
    both = pl.concat([TABLE.with_columns(pl.lit(name).alias("box")) for name in ("a", "b")]).sort("when", "box")
    found = calibrator.predict(both, time="when", device_column="box")
    alone = calibrator.predict(TABLE, time="when", device="a")
    assert found.filter(box="a")["calibrated"].equals(alone["calibrated"])
    assert found["box"].equals(both["box"])


def test_flags_of_a_table_are_kept(calibrator: scare.Calibrator) -> None:
    flagged = TABLE.with_columns(pl.lit(int(scare.Flag.STUCK), pl.UInt32).alias("flags"))
    plain, found = calibrator.predict(TABLE, time="when"), calibrator.predict(flagged, time="when")
    assert (found["flags"] == (plain["flags"] | int(scare.Flag.STUCK))).all()


def test_a_table_of_pandas_comes_back_with_its_index(calibrator: scare.Calibrator) -> None:
    pandas = pytest.importorskip("pandas")
    columns = {name: TABLE[name].to_numpy() for name in ("raw", "humidity", "truth")}
    table = pandas.DataFrame(columns, index=pandas.DatetimeIndex(TABLE["when"].to_numpy(), name="when"))
    again = scare.fit(table, recipe="multiple-linear", **NAMES)
    found = again.predict(table)
    assert found.index.equals(table.index)
    expected = calibrator.predict(TABLE, time="when")["calibrated"].to_numpy()
    np.testing.assert_allclose(found["calibrated"].to_numpy(), expected)


def test_a_table_needs_the_name_of_its_reference() -> None:
    with pytest.raises(UsageError, match="name the column of the reference"):
        scare.fit(TABLE, time="when")


@pytest.mark.parametrize("table", [np.zeros((9, 2)), [1, 2, 3]])
def test_what_is_no_table_is_refused(calibrator: scare.Calibrator, table: Any) -> None:
    with pytest.raises(UsageError, match="has no names of columns and no times"):
        scare.fit(table, **NAMES)
    with pytest.raises(UsageError, match="has no names of columns and no times"):
        calibrator.predict(table)


def test_a_baseline_without_a_plan_is_for_the_estimator() -> None:
    with pytest.raises(UsageError, match=r"use SensorCalibrator\(model='boosting'\)"):
        scare.fit(TABLE, recipe="boosting", **NAMES)


def test_what_is_printed_is_a_few_lines(calibrator: scare.Calibrator) -> None:
    assert repr(calibrator).splitlines() == [
        "Calibrator of truth by multiple-linear",
        "  from raw, humidity",
        "  a reading every 1 minute, 1 in a window",
    ]
    assert len(repr(READINGS)) < 200
    assert "windows" in repr(calibrator.golden)
    barkjohn = find_correction("barkjohn-2021")
    assert "barkjohn-2021" in repr(bind(barkjohn, {role.name: role.channel for role in barkjohn.roles}, 60.0))


def test_a_fitted_table_is_saved_and_loaded(calibrator: scare.Calibrator, tmp_path: Path) -> None:
    loaded = scare.Calibrator.load(calibrator.save(tmp_path / "line.scare"))
    found, expected = (one.predict(TABLE, time="when")["calibrated"] for one in (loaded, calibrator))
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-5)
