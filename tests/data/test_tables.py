"""What files become, what they are refused for, and what is written."""

import gzip
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars._typing import TimeUnit

from scare.data.alignment import check_step
from scare.data.column_guess import inspect_table
from scare.data.column_mapping import ColumnMapping, iterate_tables, read_readings
from scare.data.readings import TIME_TYPE, Channel, Readings
from scare.data.tables import open_table, read_table, table_writer, write_table
from scare.data.time_zones import zone_of_remark
from scare.data.times import find_time_columns
from scare.errors import DataError, UsageError
from scare.words import duration
from tests.data.column_mappings import read_mapping

FINDINGS = Path(__file__).parents[1] / "fuzz" / "findings"
PM25, PM10 = Channel("pm25", "ug/m3"), Channel("pm10", "ug/m3")
MAPPING = ColumnMapping(("time",), (PM25,))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)
GOOD = "time,pm25\n2026-01-01 12:00:00,1.5\n2026-01-01 12:01:00,\n2026-01-01 12:02:00,3\n"


def saved(folder: Path, text: str, name: str = "box.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def times_of(folder: Path, *times: str) -> list[datetime]:
    rows = "".join(f"{time};{number}\n" for number, time in enumerate(times))
    (readings,) = read_readings(saved(folder, "time;pm25\n" + rows), MAPPING)
    return readings.frame["time"].to_list()


def refusal(folder: Path, text: str, mapping: ColumnMapping = MAPPING) -> str:
    with pytest.raises(DataError) as caught:
        read_readings(saved(folder, text), mapping)
    return str(caught.value).removeprefix(str(folder / "box.csv"))


def evenly(*blocks: tuple[int, float]) -> Readings:
    steps = np.concatenate([np.full(rows, step) for rows, step in blocks])
    return at_steps(steps)


def at_steps(steps: np.ndarray) -> Readings:
    seconds = np.concatenate([[0.0], np.cumsum(steps)])
    times = pl.Series("time", np.rint(seconds * 1e6).astype(np.int64) + int(NOON.timestamp() * 1e6)).cast(TIME_TYPE)
    return Readings("box", pl.DataFrame([times, pl.Series("pm25", seconds)]), (PM25,))


class TestReading:
    def test_a_file_becomes_readings_named_after_it(self, tmp_path: Path) -> None:
        (readings,) = read_readings(saved(tmp_path, GOOD), MAPPING)
        assert (readings.device, readings.channels, len(readings)) == ("box", (PM25,), 3)
        np.testing.assert_equal(readings.values[:, 0], [1.5, np.nan, 3])

    def test_the_given_name_wins_over_the_file_name(self, tmp_path: Path) -> None:
        assert read_readings(saved(tmp_path, GOOD), MAPPING, "kitchen")[0].device == "kitchen"

    @pytest.mark.parametrize("name", ["box.csv", "box.csv.gz", "box.parquet", "box.CSV", "box.tsv"])
    def test_the_device_is_the_name_without_its_suffix(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        if name.endswith("parquet"):
            pl.DataFrame({"time": ["2026-01-01"], "pm25": [1.0]}).write_parquet(path)
        else:
            path.write_bytes(gzip.compress(GOOD.encode()) if name.endswith("gz") else GOOD.encode())
        assert read_readings(path, MAPPING)[0].device == "box"

    def test_each_device_of_a_device_column_has_its_readings_and_site(self, tmp_path: Path) -> None:
        rows = ["b,,2026-01-01,1", "a,yard,2026-01-01,2", "b,roof,2026-01-02,3", "a,,2026-01-02,4"]
        text = "\n".join(["id,place,time,pm25", *rows])
        mapping = ColumnMapping(("time",), (PM25,), device_column="id", site_column="place")
        found = read_readings(saved(tmp_path, text), mapping)
        assert [(r.device, r.site, r.values[:, 0].tolist()) for r in found] == [
            ("b", "roof", [1, 3]),
            ("a", "yard", [2, 4]),
        ]

    def test_the_reference_keeps_its_name_and_unit(self, tmp_path: Path) -> None:
        text = "time,pm25,Ref.PM\n2026-01-01,1,10\n2026-01-02,2,\n"
        reference = Channel("Ref.PM", "ug/m3")
        (readings,) = read_readings(saved(tmp_path, text), ColumnMapping(("time",), (PM25,), reference))
        assert readings.reference == reference
        np.testing.assert_equal(readings.targets, [10, np.nan])

    def test_sorting_orders_rows_and_keeps_the_first_of_equal_times(self, tmp_path: Path) -> None:
        text = "time,pm25\n2026-01-03,3\n2026-01-01,1\n2026-01-03,9\n2026-01-02,2\n"
        (readings,) = read_readings(saved(tmp_path, text), ColumnMapping(("time",), (PM25,), sort=True))
        assert readings.values[:, 0].tolist() == [1, 2, 3]

    def test_byte_order_mark_windows_ends_quotes_and_blank_lines_do_not_matter(self, tmp_path: Path) -> None:
        text = '\ufeff"time", pm25 \r\n"2026-01-01",1\r\n\r\n 2026-01-02 ,"2"\r\n,\r\n'
        assert read_readings(saved(tmp_path, text), MAPPING)[0].values[:, 0].tolist() == [1, 2]

    @pytest.mark.parametrize("word", ["", "NA", "NaN", "nan", "null", "NULL", "None", "-", " NA ", "inf"])
    def test_words_for_missing_are_null(self, tmp_path: Path, word: str) -> None:
        frame = read_table(saved(tmp_path, f"time;pm25\n2026-01-01;1\n2026-01-02;{word}\n"))
        assert frame["pm25"].to_list() == [1, None]

    def test_numbers_become_floats_and_text_stays_text(self, tmp_path: Path) -> None:
        frame = read_table(saved(tmp_path, "time,pm25,flag,\n2026-01-01,1,W,\n2026-01-02,2,3,\n"))
        assert dict(frame.schema) == {
            "time": pl.String,
            "pm25": pl.Float64,
            "flag": pl.String,
            "column_4": pl.Float64,
        }

    def test_an_unnamed_first_column_of_a_tab_file_keeps_its_place(self, tmp_path: Path) -> None:
        frame = read_table(saved(tmp_path, "\ttime\tpm25\n0\t2026-01-01\t7\n1\t2026-01-02\t8\n"))
        assert frame["pm25"].to_list() == [7, 8]

    def test_a_point_in_a_file_with_decimal_commas_marks_thousands(self, tmp_path: Path) -> None:
        text = "time;pm25\n2026-01-01;1,5\n2026-01-02;1.500\n2026-01-03;12.5\n"
        (readings,) = read_readings(saved(tmp_path, text), MAPPING)
        np.testing.assert_equal(readings.values[:, 0], [1.5, 1500, np.nan])

    def test_parquet_times_and_numbers_are_taken_as_they_are(self, tmp_path: Path) -> None:
        path = tmp_path / "box.parquet"
        local = pl.Series("time", [NOON, NOON + timedelta(hours=1)]).dt.convert_time_zone("Asia/Tokyo")
        pl.DataFrame([local, pl.Series("pm25", [1, None])]).write_parquet(path)
        (readings,) = read_readings(path, MAPPING)
        assert readings.frame["time"].to_list() == [NOON, NOON + timedelta(hours=1)]
        np.testing.assert_equal(readings.values[:, 0], [1, np.nan])

    def test_a_parquet_error_names_the_row(self, tmp_path: Path) -> None:
        path = tmp_path / "box.parquet"
        pl.DataFrame({"time": ["2026-01-01 00:00", "2026-01-02 00:00Z"], "pm25": ["1", "2"]}).write_parquet(path)
        with pytest.raises(DataError, match=r"box.parquet: row 2, column 'time': '2026-01-02 00:00Z' and"):
            read_readings(path, MAPPING)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=12),
    delimiter=st.sampled_from(",;\t"),
    comma=st.booleans(),
    rows=st.integers(1, 13),
)
def test_any_numbers_come_back_whole_and_streamed(
    tmp_path: Path, values: list[tuple[float | None, ...]], delimiter: str, comma: bool, rows: int
) -> None:
    point = "," if comma and delimiter != "," else "."
    lines = [delimiter.join(["time", "pm25", "pm10"])]
    for day, row in enumerate(values):
        numbers = ["" if value is None else repr(value).replace(".", point) for value in row]
        lines.append(delimiter.join([f"{NOON + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ}", *numbers]))
    path = saved(tmp_path, "\n".join(lines))
    assert read_table(path).select("pm25", "pm10").rows() == values
    streamed = list(iterate_tables(path, ColumnMapping(("time",), (PM25, PM10)), rows))
    assert pl.concat(streamed).select("pm25", "pm10").rows() == values


class TestTimes:
    @pytest.mark.parametrize(
        "written",
        [
            *("2026-01-01T12:00:00Z", "2026-01-01 12:00:00", "2026-01-01T12:00", "2026-01-01 12:00:00.000"),
            *("2026-01-01T14:00:00+02:00", "2026-01-01 14:00+0200", "2026-01-01 14:00:00 +02:00"),
            *("01/01/2026 12:00", "01/01/2026 12:00:00", "01/01/2026 12.00.00", "1/1/2026 12:00"),
            *("01.01.2026 12:00", "01.01.2026 12:00:00", "2026/01/01 12:00", "1767268800", "1767268800000"),
        ],
    )
    def test_every_known_form_is_noon_in_utc(self, tmp_path: Path, written: str) -> None:
        assert times_of(tmp_path, written) == [NOON]

    def test_date_and_time_columns_are_joined(self, tmp_path: Path) -> None:
        text = "Date,Time,pm25\n10/03/2004,18.00.00,1\n10/03/2004,19.00.00,2\n13/03/2004,19.00.00,2\n"
        (readings,) = read_readings(saved(tmp_path, text), ColumnMapping(("Date", "Time"), (PM25,)))
        assert readings.frame["time"][1] == datetime(2004, 3, 10, 19, tzinfo=UTC)

    def test_different_offsets_are_converted(self, tmp_path: Path) -> None:
        times = times_of(tmp_path, "2026-01-01T12:00:00Z", "2026-01-01T14:30:00+02:00")
        assert times == [NOON, NOON + timedelta(minutes=30)]

    @pytest.mark.parametrize(
        ("column", "cell", "hour"),
        [
            *(("utc_offset_minutes", "120", 10), ("UTC Offset Min", "-300", 17), ("Offset (min)", "+60", 11)),
            *(("utc_offset", "+0200", 10), ("utc_offset", "-5", 17), ("utc_offset", "+14:00", -2)),
            # Neither minutes, seconds nor fractions of an hour are taken for hours.
            *(("utc_offset", "-300", 12), ("utc_offset", "-18000", 12), ("utc_offset", "+5.5", 12)),
        ],
    )
    def test_a_column_of_offsets_counts_if_it_says_what_they_are(
        self, column: str, cell: str, hour: int, tmp_path: Path
    ) -> None:
        path = saved(tmp_path, f"local_time,{column},pm25\n2026-01-01 12:00,{cell},1\n2026-01-01 13:00,{cell},2\n")
        (readings,) = read_readings(path, ColumnMapping(("local_time",), (PM25,)))
        assert readings.frame["time"][0] == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)

    def test_some_fractions_are_kept(self, tmp_path: Path) -> None:
        assert times_of(tmp_path, "2026-01-01 12:00:00", "2026-01-01 12:00:00.25")[1].microsecond == 250_000

    @pytest.mark.parametrize(("later", "order", "months"), [("13/2", "day", [1, 2]), ("2/13", "month", [2, 2])])
    def test_slash_dates_are_what_a_number_above_twelve_proves(
        self, later: str, order: str, months: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert [time.month for time in times_of(tmp_path, "02/01/2026 00:00", f"{later}/2026 00:00")] == months
        warning = f"dates like '02/01/2026 00:00' are read {order} first, as '{later}/2026 00:00' shows"
        assert [warning in one for one in caplog.messages] == [True]

    def test_slash_dates_that_nothing_decides_are_refused_with_both_readings(self, tmp_path: Path) -> None:
        text = "time,pm25\n3/4/2026 12:00,1\n3/4/2026 12:01,2\n"
        message = refusal(tmp_path, text)
        assert message.startswith(
            ": '3/4/2026 12:00' may be 3 April or 4 March, and no row of the column proves which; use"
        )
        for dates, month in (("day-first", 4), ("month-first", 3)):
            (readings,) = read_readings(tmp_path / "box.csv", replace(MAPPING, dates=dates))
            assert readings.frame["time"][0].month == month

    def test_slash_dates_of_both_orders_are_refused(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, "time,pm25\n13/4/2026,1\n4/14/2026,2\n")
        assert message.startswith(": '13/4/2026' is day first and '4/14/2026' month first, in one column")

    def test_a_time_that_is_none_is_refused(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, "time,pm25\n\nyesterday,1\n")
        assert message.startswith(": line 3, column 'time': 'yesterday' is not a time; write it like 2026")

    @pytest.mark.parametrize("time", ["2026-13-01 12:00:00", "yesterday"])
    def test_a_row_without_a_time_is_left_out_and_named(
        self, time: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (readings,) = read_readings(saved(tmp_path, GOOD + f"{time},1\n"), MAPPING)
        assert len(readings) == 3
        assert f"1 row is left out, without a time that can be read: '{time}' in line 5." in caplog.text

    @pytest.mark.parametrize("unit", ["ms", "us", "ns"])
    @pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
    @pytest.mark.parametrize("moment", [-(2**63) + 1, -162 * 10**15])
    def test_a_moment_before_1970_is_no_time(
        self, unit: TimeUnit, zone: str | None, moment: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        moments = pl.Series([0, moment, 60_000]).cast(pl.Datetime(unit, zone))
        pl.DataFrame({"time": moments, "pm25": [1.0, 2.0, 3.0]}).write_parquet(tmp_path / "box.parquet")
        (readings,) = read_readings(tmp_path / "box.parquet", MAPPING)
        assert readings.values.ravel().tolist() == [1, 3]
        assert "1 row is left out, without a time that can be read: " in caplog.text

    def test_two_digit_years_are_of_this_century(self, tmp_path: Path) -> None:
        assert times_of(tmp_path, "01/01/26 12:00") == [NOON]

    def test_an_empty_column_of_years_is_no_part_of_the_time(self, tmp_path: Path) -> None:
        path = tmp_path / "box.csv"
        path.write_text("time,year,doy,pm25\n" + "".join(f"2026-01-01T0{i}:00Z,,1,{i}.5\n" for i in range(4)))
        assert find_time_columns(open_table(path)) == ("time",)

    @pytest.mark.parametrize(("first", "zone"), [("CET", "+01:00"), ("UTC", "UTC"), ("JST", "+09:00")])
    def test_of_several_zones_in_a_remark_the_first_counts(self, first: str, zone: str) -> None:
        others = {"CET", "UTC", "JST", "EST"} - {first}
        assert {zone_of_remark(f"times in {first}, upload in {other}") for other in others} == {zone}

    def test_mixed_time_zones_are_refused(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, GOOD + "2026-01-01 12:03:00Z,1\n")
        assert message.startswith(": line 5, column 'time': '2026-01-01 12:03:00Z' and '2026-01-01 12:00:00'")
        assert message.endswith("mix times with and without a time zone")

    def test_a_column_without_times_is_refused(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "time,pm25\n,1\n") == ": the column 'time' has no times"


class TestRefusals:
    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="there is no such file"):
            read_table(tmp_path / "box.csv")

    @pytest.mark.parametrize("text", ["", "\n\n"])
    def test_an_empty_file(self, tmp_path: Path, text: str) -> None:
        assert refusal(tmp_path, text) == ": the file is empty"

    def test_a_header_alone(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "time,pm25\n\n") == ": the file has a header but no rows"

    def test_lines_of_one_field(self, tmp_path: Path) -> None:
        assert ": no line has two columns, as in 'time'" in refusal(tmp_path, "time\n2026-01-01\n")

    def test_a_missing_column_with_the_nearest_name(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "time,PM2.5\n2026-01-01,1\n") == ": no column 'pm25'; did you mean 'PM2.5'?"

    def test_a_column_of_text(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, "time,pm25,pm10\n2026-01-01,abc,1\n")
        assert message == ": the column 'pm25' holds text, not numbers, such as 'abc' in line 2"

    def test_a_decimal_comma_in_a_comma_file(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, GOOD + "2026-01-02,1,5\n")
        assert message.startswith(": line 5: more fields than the header; a decimal comma needs")

    def test_a_column_without_numbers_is_missing_everywhere(self, tmp_path: Path) -> None:
        (readings,) = read_readings(saved(tmp_path, "time,pm25\n2026-01-01,NA\n"), MAPPING)
        assert np.isnan(readings.values).all()

    def test_a_quote_that_does_not_end(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, GOOD + '2026-01-02,"1\n')
        assert message == ": line 5: quoted text does not end on its line"

    @pytest.mark.parametrize("time", ["2026-01-01 12:02:00", "2025-01-01 12:02:00"])
    def test_repeated_or_unsorted_times(self, tmp_path: Path, time: str) -> None:
        message = refusal(tmp_path, GOOD + f"{time},1\n")
        assert message.startswith(f": line 5: {time} is not later than the row before it; data.sort")

    def test_a_row_without_a_device(self, tmp_path: Path) -> None:
        mapping = ColumnMapping(("time",), (PM25,), device_column="id")
        message = refusal(tmp_path, "id,time,pm25\na,2026-01-01,1\n,2026-01-02,2\n", mapping)
        assert message == ": line 3, column 'id': the device is missing"

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "box.csv").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"x" * 100)
        with pytest.raises(DataError, match="not a text table, a spreadsheet or Parquet; export it as CSV"):
            read_table(tmp_path / "box.csv")

    @pytest.mark.parametrize("name", ["box.csv.gz", "box.parquet"])
    def test_a_file_that_breaks_off(self, tmp_path: Path, name: str) -> None:
        write_table(pl.DataFrame({"time": ["2026-01-01"], "pm25": [1.0]}), tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-20])
        with pytest.raises(DataError, match=f"{name}: the file is damaged or not a table"):
            read_table(tmp_path / name)


class TestStreaming:
    MAPPING = ColumnMapping(("time",), (PM25, PM10), Channel("ref"), device_column="id")

    @pytest.fixture(params=["box.csv", "box.csv.gz", "box.parquet"])
    def path(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        stamps = [f"{NOON + timedelta(minutes=row):%Y-%m-%d %H:%M}" for row in range(7)]
        numbers = {"pm25": [1.0, None, 3, 4, 5, 6, 7], "pm10": [None] * 6 + [2.0], "ref": [9.0] * 7}
        frame = pl.DataFrame({"id": list("abababa"), "time": stamps, **numbers})
        write_table(frame, tmp_path / request.param)
        return tmp_path / request.param

    def test_pieces_of_any_size_make_the_whole(self, path: Path) -> None:
        (whole,) = iterate_tables(path, self.MAPPING)
        assert whole.columns == ["device", "time", "pm25", "pm10", "reference"]
        assert whole.dtypes == [pl.String, TIME_TYPE, *[pl.Float64] * 3]
        for rows in range(1, 8):
            pieces = list(iterate_tables(path, self.MAPPING, rows))
            assert {piece.height for piece in pieces[:-1]} <= {rows}
            assert pl.concat(pieces).equals(whole)

    def test_the_stream_holds_what_the_readings_hold(self, path: Path) -> None:
        streamed = pl.concat(iterate_tables(path, self.MAPPING, 2))
        for readings in read_readings(path, self.MAPPING):
            rows = streamed.filter(pl.col("device") == readings.device).drop("device")
            assert rows.equals(readings.frame.drop("flags"))

    def test_an_absent_reference_is_left_out(self, tmp_path: Path) -> None:
        mapping = ColumnMapping(("time",), (PM25,), Channel("ref"))
        (frame,) = iterate_tables(saved(tmp_path, GOOD), mapping)
        assert frame.columns == ["device", "time", "pm25"]
        assert frame["device"].unique().to_list() == ["box"]

    @pytest.mark.parametrize("rows", [1, 2, 3, 100])
    def test_a_later_piece_knows_its_line(self, tmp_path: Path, rows: int) -> None:
        path = saved(tmp_path, GOOD + "\n2026-01-02 00:00:00Z,1\n")
        with pytest.raises(DataError, match=r"line 6, column 'time': '2026-01-02 00:00:00Z' and"):
            list(iterate_tables(path, MAPPING, rows))


class TestStep:
    @pytest.mark.parametrize(("before", "after"), [(60, 600), (600, 60), (1, 0.1), (60, 120)])
    def test_a_change_of_step_is_refused_with_its_time(self, before: float, after: float) -> None:
        when = NOON + timedelta(seconds=40 * before)
        with pytest.raises(DataError) as caught:
            check_step(evenly((40, before), (30, after)))
        expected = (
            f"changes from {duration(before)} to {duration(after)} at {when:%Y-%m-%d %H:%M:%S}; split the file there"
        )
        assert expected in str(caught.value)

    def test_a_short_start_at_another_step_is_refused_at_its_end(self) -> None:
        with pytest.raises(DataError, match=r"from 10 minutes to 1 minute at 2026-01-01 15:20:00.*data.step"):
            check_step(evenly((20, 600), (100, 60)))

    def test_gaps_and_jitter_are_no_change_of_step(self) -> None:
        random = np.random.default_rng(7)
        steps = 60 * random.uniform(0.85, 1.15, 2000)
        steps[random.random(2000) < 0.3] *= 2
        steps[random.integers(0, 2000, 20)] *= 500
        check_step(at_steps(steps))

    def test_a_short_block_is_no_change_of_step(self) -> None:
        check_step(evenly((100, 60), (8, 600), (100, 60)))

    def test_few_rows_have_no_change_of_step(self) -> None:
        check_step(evenly((3, 60), (3, 600)))


class TestMapping:
    FULL = ColumnMapping(
        ("Date", "Time"),
        (Channel("a.b [°C]", "degC", -40, 85.5), Channel('say "hi"\\', low=0.0), Channel("x")),
        Channel("Ref.NO2", "ppb", high=1e22),
        device_column="id",
        site_column="place",
        sort=True,
    )

    @pytest.mark.parametrize("mapping", [MAPPING, FULL])
    def test_toml_gives_the_mapping_back(self, tmp_path: Path, mapping: ColumnMapping) -> None:
        assert read_mapping(saved(tmp_path, mapping.to_toml(), "columns.toml")) == mapping

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("tmie = 'a'", "unknown key 'tmie'; did you mean 'time'?"),
            ("time = 'a'", "needs a time column and at least one channel"),
            ("time = 1\nchannels = []", "time is 1; it takes a list"),
            ("time = 'a'\nchannels = []", "needs a time column and at least one channel"),
            ("time = 'a'\nchannels = [1]", "channels[0] is 1; it takes a table of settings"),
            ("time = 'a'\nchannels = [{name = 'b', units = 'c'}]", "'units' in [channels[0]]; did you mean 'unit'?"),
            ("time = 'a'\nchannels = [{unit = 'c'}]", "the key 'name' is missing in [channels[0]]"),
            ("time = 'a'\nchannels = [{name = 'b', low = '1'}]", "channels[0].low is '1'; it takes a number"),
            ("time = 'a'\nchannels = ['b', {name = 'b'}]", "the column 'b' is mapped twice"),
            ("time = 'a'\nreference = 'b'\nchannels = [{name = 'b'}]", "'b' is mapped twice"),
            ("time = 'a'\nchannels = [{name = 'device'}]", "a channel cannot be called 'device'"),
            ("time = ", "cannot be read as TOML"),
        ],
    )
    def test_a_wrong_file_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(UsageError) as caught:
            read_mapping(saved(tmp_path, f"[data]\n{text}", "columns.toml"))
        assert message in str(caught.value)


class TestWriting:
    FRAME = pl.DataFrame({"time": [NOON, NOON + timedelta(milliseconds=500)], "pm25": [0.1, None]})

    @pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
    def test_frames_are_appended_and_read_back(self, tmp_path: Path, name: str) -> None:
        with table_writer(tmp_path / "new" / name) as write:
            for row in range(2):
                write(self.FRAME[row])
            assert not (tmp_path / "new" / name).exists()
        (frame,) = iterate_tables(tmp_path / "new" / name, MAPPING)
        assert frame.drop("device").equals(self.FRAME.cast({"time": TIME_TYPE}))
        assert [path.name for path in (tmp_path / "new").iterdir()] == [name]

    def test_times_are_iso_8601_with_fractions_only_where_there_are_any(self, tmp_path: Path) -> None:
        write_table(self.FRAME, tmp_path / "a.csv")
        written = (tmp_path / "a.csv").read_text().split()
        assert written == ["time,pm25", "2026-01-01T12:00:00Z,0.1", "2026-01-01T12:00:00.500Z,"]

    def test_times_of_other_zones_are_written_in_utc(self, tmp_path: Path) -> None:
        tokyo = self.FRAME.with_columns(pl.col("time").dt.convert_time_zone("Asia/Tokyo"))
        naive = self.FRAME.with_columns(pl.col("time").dt.replace_time_zone(None))
        for name, frame in {"utc": self.FRAME, "tokyo": tokyo, "naive": naive}.items():
            write_table(frame, tmp_path / f"{name}.csv")
        assert len({path.read_text() for path in tmp_path.iterdir()}) == 1

    def test_equal_tables_are_equal_files(self, tmp_path: Path) -> None:
        for name in ("a.csv.gz", "b.csv.gz"):
            write_table(self.FRAME, tmp_path / name)
        assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()

    @pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
    def test_a_failure_leaves_the_old_file(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("old")

        def fail() -> None:
            with table_writer(tmp_path / name) as write:
                write(self.FRAME)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fail()
        assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]

    def test_nothing_written_is_an_empty_file(self, tmp_path: Path) -> None:
        for name in ("a.csv", "a.csv.gz", "a.parquet"):
            with table_writer(tmp_path / name):
                pass
            assert (tmp_path / name).exists()

    def test_another_suffix_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"a\.xlsx: the name should end in \.csv"):
            write_table(self.FRAME, tmp_path / "a.xlsx")


KINDS = {
    "lists": ([[1.0], [2.0]], None),
    "structs": ([{"a": 1}, {"a": 2}], None),
    "times of day": ([clock(1), clock(2)], None),
    "durations": ([timedelta(1), timedelta(2)], None),
    "binary": ([b"1", b"2"], None),
    "nothing": ([None, None], pl.Null),
    "categories": (["1.5", "2.5"], pl.Categorical),
    "decimals": ([Decimal("1.5"), Decimal("2.5")], pl.Decimal(8, 2)),
    "truths": ([True, False], None),
    "dates": ([date(2026, 1, 1), date(2026, 1, 2)], None),
    "times": ([NOON, NOON + timedelta(1)], None),
    "text": (["2026-01-01", "2026-01-02"], None),
}


class TestParquet:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_column_of_any_type_is_read_or_refused_with_a_sentence(self, kind: str, tmp_path: Path) -> None:
        values, dtype = KINDS[kind]
        column, path = pl.Series(values, dtype=dtype), tmp_path / "box.parquet"
        pl.DataFrame({"time": [NOON, NOON + timedelta(1)], "pm25": column}).write_parquet(path)
        assert outcome(path, MAPPING) == AS_NUMBERS[kind]
        pl.DataFrame({"time": column, "pm25": [1.0, 2.0]}).write_parquet(path)
        assert outcome(path, MAPPING) == AS_TIMES[kind]
        labels = replace(MAPPING, device_column="box", site_column="box")
        pl.DataFrame({"time": [NOON, NOON + timedelta(1)], "pm25": [1.0, 2.0], "box": column}).write_parquet(path)
        assert isinstance(outcome(path, labels), list | str)
        inspect_table(path)

    def test_a_damaged_file_is_a_sentence_wherever_it_is_damaged(self, tmp_path: Path) -> None:
        path, chance = tmp_path / "box.parquet", Random(3)
        pl.DataFrame({"time": [NOON, NOON + timedelta(1)] * 50, "pm25": [1.0, 2.0] * 50}).write_parquet(path)
        sound = path.read_bytes()
        for _ in range(10):
            damaged = bytearray(sound)
            damaged[chance.randrange(len(sound))] = chance.randrange(256)
            path.write_bytes(damaged)
            outcome(path, replace(MAPPING, sort=True))

    def test_a_file_that_ends_whoever_reads_it_is_a_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "box.parquet"
        path.write_bytes((FINDINGS / "parquet-aborts.parquet").read_bytes())
        with pytest.raises(DataError, match=r"box\.parquet: the file is damaged or not a table \("):
            read_table(path)
        pl.DataFrame({"time": ["2026-01-01"], "pm25": [1.0]}).write_parquet(path)
        assert read_table(path).height == 1


def outcome(path: Path, mapping: ColumnMapping) -> list[float | None] | str:
    """The numbers of a file, or what it is refused with."""
    try:
        return read_readings(path, mapping)[0].frame["pm25"].to_list()
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")


AS_NUMBERS = {
    "lists": "the column 'pm25' holds List(Float64); write it as numbers, text or times",
    "structs": "the column 'pm25' holds Struct({'a': Int64}); write it as numbers, text or times",
    "times of day": "the column 'pm25' holds Time; write it as numbers, text or times",
    "durations": "the column 'pm25' holds Duration(time_unit='us'); write it as numbers, text or times",
    "binary": "the column 'pm25' holds Binary; write it as numbers, text or times",
    "nothing": [None, None],
    "categories": [1.5, 2.5],
    "decimals": [1.5, 2.5],
    "truths": [1.0, 0.0],
    "dates": "the column 'pm25' holds times, not numbers",
    "times": "the column 'pm25' holds times, not numbers",
    "text": "the column 'pm25' holds text, not numbers, such as '2026-01-01' in line 1",
}
AS_TIMES = {
    **{name: text.replace("pm25", "time") for name, text in AS_NUMBERS.items() if isinstance(text, str)},
    "nothing": "the column 'time' has no times",
    "categories": "row 1, column 'time': '1.5' is not a time; write it like 2026-01-31T12:00:00Z or 31/01/2026 12:00",
    "decimals": "row 1, column 'time': '1.5' is not a time; write it like 2026-01-31T12:00:00Z or 31/01/2026 12:00",
    "truths": "row 1, column 'time': 'true' is not a time; write it like 2026-01-31T12:00:00Z or 31/01/2026 12:00",
    "dates": [1.0, 2.0],
    "times": [1.0, 2.0],
    "text": [1.0, 2.0],
}


class TestMarks:
    def test_a_comma_that_may_divide_thousands_is_refused(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, "time;pm25\n2026-01-01;987\n2026-01-02;1,234\n")
        assert message.startswith(": '1,234' may be 1.234 or 1234; write numbers with a point")

    @pytest.mark.parametrize("proof", ["0,987", "12,5", "1234,567"])
    def test_a_comma_that_is_proved_is_a_decimal_comma(self, proof: str, tmp_path: Path) -> None:
        text = f"time;pm25\n2026-01-01;987\n2026-01-02;1,234\n2026-01-03;{proof}\n"
        (readings,) = read_readings(saved(tmp_path, text), MAPPING)
        assert readings.values[1, 0] == 1.234

    def test_three_decimals_throughout_are_decimals(self, tmp_path: Path) -> None:
        (readings,) = read_readings(saved(tmp_path, "time;pm25\n2026-01-01;21,435\n2026-01-02;22,100\n"), MAPPING)
        assert readings.values[:, 0].tolist() == [21.435, 22.1]

    @pytest.mark.parametrize(("mixed", "number"), [("1.234,5", 1234.5), ("1,234.5", None), ("12.5", None)])
    def test_a_second_sign_marks_thousands_or_the_cell_is_missing(
        self, mixed: str, number: float | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (readings,) = read_readings(saved(tmp_path, f"time;pm25\n2026-01-01;0,5\n2026-01-02;{mixed}\n"), MAPPING)
        assert readings.frame["pm25"].to_list() == [0.5, number]
        assert (f"'{mixed}' in line 3" in caplog.text) == (number is None)

    def test_an_hour_that_comes_twice_is_refused_without_offsets_and_read_with_them(self, tmp_path: Path) -> None:
        hours = ["2026-10-25T02:30:00", "2026-10-25T02:00:00"]
        assert "is not later than the row before it" in refusal(tmp_path, f"time,pm25\n{hours[0]},1\n{hours[1]},2\n")
        assert times_of(tmp_path, f"{hours[0]}+02:00", f"{hours[1]}+01:00") == [
            datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
            datetime(2026, 10, 25, 1, 0, tzinfo=UTC),
        ]

    def test_an_offset_with_seconds_is_refused(self, tmp_path: Path) -> None:
        assert "is not a time" in refusal(tmp_path, "time,pm25\n2026-01-01T12:00:00+00:19:32,1\n")


def test_decimal_commas_that_became_delimiters_are_pointed_out(tmp_path: Path) -> None:
    rows = [f"2026-01-01 {hour:02d}:00,{hour},{hour % 7 or ''}".rstrip(",") for hour in range(24)]
    cut, right = tmp_path / "cut.csv", tmp_path / "right.csv"
    cut.write_text("\n".join(["time,co,col1", *rows]), encoding="utf-8")
    right.write_text("\n".join(["time,co,no2", *rows]), encoding="utf-8")
    assert [any("decimal commas seem" in note for note in open_table(one).notes) for one in (cut, right)] == [
        True,
        False,
    ]
