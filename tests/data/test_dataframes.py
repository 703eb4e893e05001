"""Tables in memory become the readings that the same table in a file does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare.data.column_mapping import ColumnMapping, read_readings
from scare.data.dataframes import as_polars, is_pandas, read_frame, with_columns
from scare.data.readings import Channel
from scare.errors import DataError, UsageError

TIMES = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute) for minute in range(6)]
TABLE = pl.DataFrame({"time": TIMES, "pm": [1.0, 2.0, None, 4.0, 5.0, 6.0], "ref": [2.0, 4.0, 6.0, None, 10.0, 12.0]})


@pytest.mark.parametrize(
    "times",
    [
        TABLE["time"],
        TABLE["time"].dt.replace_time_zone(None),
        TABLE["time"].dt.convert_time_zone("Asia/Kolkata"),
        TABLE["time"].dt.strftime("%Y-%m-%d %H:%M:%S"),
        TABLE["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        TABLE["time"].dt.strftime("%d.%m.%Y %H:%M"),
        TABLE["time"].dt.epoch("s"),
        TABLE["time"].dt.epoch("ms"),
        TABLE["time"].dt.epoch("s").cast(pl.Float64),
    ],
    ids=["utc", "naive", "zone", "text", "iso", "german", "seconds", "milliseconds", "floats"],
)
def test_times_are_read_however_they_are_written(times: pl.Series) -> None:
    (one,) = read_frame(TABLE.with_columns(times.alias("time")), reference="ref")
    assert one.readings.frame["time"].to_list() == TIMES
    assert [channel.name for channel in one.readings.channels] == ["pm"]
    np.testing.assert_array_equal(one.readings.targets, [2.0, 4.0, 6.0, np.nan, 10.0, 12.0])


def test_a_table_and_its_file_are_the_same_readings(tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "box.csv")
    (of_file,) = read_readings(tmp_path / "box.csv", ColumnMapping(("time",), (Channel("pm"),), Channel("ref")))
    (of_table,) = read_frame(TABLE, ["pm"], "ref", device="box")
    assert of_table.readings.frame.equals(of_file.frame)
    assert of_table.readings.device == of_file.device


def test_devices_are_apart_in_the_order_of_time_with_the_numbers_of_their_rows() -> None:
    both = pl.concat([TABLE.with_columns(pl.lit(name).alias("box")) for name in ("b", "a")])
    shuffled = both.with_row_index("number")[np.random.default_rng(0).permutation(both.height)]
    parts = read_frame(shuffled, ["pm", "number"], device_column="box")
    assert {part.readings.device for part in parts} == {"a", "b"}
    for part in parts:
        assert part.readings.frame["time"].to_list() == TIMES
        np.testing.assert_array_equal(shuffled["number"].to_numpy()[part.numbers], part.readings.values[:, 1])


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.zeros((3, 2)), "a ndarray has no names of columns"),
        ([1, 2], "a list has no names of columns"),
        ({"when": [1.8e9], "pm": [1.0]}, "no column 'time'; name the column of times"),
        ({"time": [1.8e9], "place": ["roof"]}, "no column of numbers"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_frame(table)


def test_a_missing_column_a_bad_time_and_a_bad_number_are_named() -> None:
    with pytest.raises(DataError, match="the table: no column 'pn'; there are time, pm, ref"):
        read_frame(TABLE, ["pn"])
    with pytest.raises(DataError, match="row 1, column 'time': 'noon' is not a time"):
        read_frame({"time": ["noon"], "pm": [1.0]})


# --- pandas ---


def pandas_table(**changed: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    columns = {"time": TABLE["time"].dt.replace_time_zone(None).to_numpy()}
    columns |= {name: TABLE[name].to_numpy() for name in ("pm", "ref")}
    return pandas.DataFrame(columns | changed)


@pytest.mark.parametrize("form", ["column", "index", "zone", "period", "text index", "text", "epoch"])
def test_pandas_has_its_times_in_a_column_or_in_the_index(form: str) -> None:
    table = pandas_table()
    if form == "zone":
        table["time"] = table["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Oslo")
    if form in ("text", "text index"):
        table["time"] = table["time"].dt.strftime("%Y-%m-%d %H:%M")
    if form == "epoch":
        table["time"] = [int(time.timestamp()) for time in TIMES]
    if form in ("index", "zone", "period", "text index"):
        table = table.set_index("time")
    if form == "period":
        table = table.to_period("min")
    if form in ("index", "period"):
        table.index.name = None
    (one,) = read_frame(table, reference="ref")
    assert one.readings.frame["time"].to_list() == TIMES
    np.testing.assert_array_equal(one.readings.values[:, 0], [1.0, 2.0, np.nan, 4.0, 5.0, 6.0])


def test_types_of_pandas_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas_table()
    table["whole"] = pandas.array([1, None, 3, 4, 5, 6], "Int64")
    table["box"] = pandas.Series(["a", "a", "a", "b", "b", None], dtype="category")
    frame = as_polars(table)
    assert frame["whole"].to_list() == [1.0, None, 3.0, 4.0, 5.0, 6.0]
    assert frame["box"].to_list() == ["a", "a", "a", "b", "b", None]


def test_a_table_of_pandas_stays_one_and_keeps_its_index() -> None:
    table = pandas_table().set_index("time")
    found = with_columns(table, [pl.Series("calibrated", [1.0, None, 3.0, 4.0, 5.0, 6.0])])
    assert is_pandas(found)
    assert found.index.equals(table.index)
    assert found["calibrated"].isna().tolist() == [False, True, False, False, False, False]
