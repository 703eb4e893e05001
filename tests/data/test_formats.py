"""Files in the shape of makers', agencies' and loggers' exports, written as bytes and opened."""

import gzip
import io
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scare.data.column_guess import inspect_table
from scare.data.formats import formats
from scare.data.tables import AS_FOUND, LINE, TableFile, TableOptions, Tally, open_table, with_numbers
from scare.data.times import find_time_columns, find_time_format, parse_times
from scare.errors import DataError, UsageError

START = datetime(2026, 1, 13, 0, 0, tzinfo=UTC)


def saved(folder: Path, content: str | bytes, name: str = "export.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def opened(path: Path, options: TableOptions = AS_FOUND) -> tuple[TableFile, pl.DataFrame, list[str]]:
    """The table, its numbers with `time` first, and all notes."""
    table = open_table(path, options)
    form, tally = find_time_format(table, find_time_columns(table)), Tally(table)
    rows, times = parse_times(table.read(table.columns), form, table, tally)
    frame = with_numbers(rows, table, tally).drop(form.columns)
    return table, pl.DataFrame([times.alias("when"), *frame]), [*table.notes, *form.notes, *tally.notes()]


def hours(pattern: str, rows: int = 12, step: timedelta = timedelta(hours=1)) -> str:
    """Lines of a pattern with the time and the number of each row."""
    return "".join(f"{(START + i * step).strftime(pattern).replace('#', str(i + 0.5))}\n" for i in range(rows))


def check(
    folder: Path, content: str | bytes, column: str, zone_hours: float = 0, name: str = "export.csv"
) -> list[str]:
    """Open a file whose column counts 0.5, 1.5 … by the hour from START in its zone; returns the notes."""
    _, frame, notes = opened(saved(folder, content, name))
    assert frame["when"].to_list() == [START - timedelta(hours=zone_hours) + timedelta(hours=i) for i in range(12)]
    assert frame[column].to_list() == [i + 0.5 for i in range(12)]
    return notes


PLAIN = "time,pm25\n" + hours("%Y-%m-%dT%H:%M:%SZ,#")


class TestBytes:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
    def test_an_encoding_is_found(self, tmp_path: Path, encoding: str) -> None:
        text = "time,Temp (°C)\n" + hours("%Y-%m-%d %H:%M,#")
        notes = check(tmp_path, text.encode(encoding), "Temp (°C)")
        assert any(note.startswith("Read as") for note in notes) == (not encoding.startswith("utf-8"))

    def test_a_stated_encoding_counts_and_an_unknown_one_is_refused(self, tmp_path: Path) -> None:
        path = saved(tmp_path, ("time,Ток\n" + hours("%Y-%m-%d %H:%M,#")).encode("cp1251"))
        assert "Ток" in open_table(path, TableOptions(encoding="cp1251")).columns
        with pytest.raises(UsageError, match="no encoding is called 'cp1521'"):
            open_table(path, TableOptions(encoding="cp1521"))

    def test_gzip_zip_and_a_wrong_name_do_not_matter(self, tmp_path: Path) -> None:
        check(tmp_path, gzip.compress(PLAIN.encode()), "pm25", name="a.txt")
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("inner.csv", PLAIN)
        assert "Read 'inner.csv' from the archive." in check(tmp_path, buffer.getvalue(), "pm25", name="a.zip")
        check(tmp_path, PLAIN, "pm25", name="a.xls")

    def test_a_zip_of_several_tables_is_refused(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("a.csv", PLAIN)
            archive.writestr("b.csv", PLAIN)
        with pytest.raises(DataError, match=r"should hold one table, but it holds a.csv, b.csv; unpack it"):
            open_table(tmp_path / "a.zip")

    def test_a_web_page_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="a web page or XML; open it in a spreadsheet"):
            open_table(saved(tmp_path, "<html><table></table></html>"))

    def test_json_records_are_a_table_and_one_message_is_none(self, tmp_path: Path) -> None:
        records = ",".join(f'{{"ts": "2026-01-13T{i:02}:00:00Z", "pm25": {{"conc": {i}.5}}}}' for i in range(12))
        notes = check(tmp_path, f'{{"history": [{records}]}}', "pm25.conc")
        assert notes[0] == "Read the list 'history' of 12 records."
        with pytest.raises(DataError, match="holds one message, not a table"):
            open_table(saved(tmp_path, '{"ts": "2026-01-13T00:00:00Z", "pm25": 3}'))


class TestLayouts:
    @pytest.mark.parametrize(
        ("before", "note"),
        [
            ("", ""),
            ("sep=,\n", "Line 2 is the header"),
            ("Station 7\nprinted by hand\n\n", "Line 4 is the header"),
            ("# a remark\n# another, with a comma\n", "Line 3 is the header"),
            (",MEAN VALUE:,3.5\n,DEVIATION:,0.1\n", "Line 3 is the header"),
        ],
    )
    def test_what_stands_before_the_header_is_skipped(self, tmp_path: Path, before: str, note: str) -> None:
        text = before + "Date,Time,pm25\n" + hours("%Y-%m-%d,%H:%M,#")
        assert note in " ".join(check(tmp_path, text, "pm25"))

    def test_stated_lines_are_skipped(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "time,pm10\n" + PLAIN)
        assert open_table(path, TableOptions(skip_rows=1)).columns == ("time", "pm25")

    def test_units_stand_under_or_above_the_header_in_brackets_or_in_cells(self, tmp_path: Path) -> None:
        rows = hours("%Y-%m-%d %H:%M,#")
        for text in (
            f"time,pm25\nyyyy-mm-dd,mg/m^3\n{rows}",
            f"time,pm25 [mg/m^3]\n{rows}",
            f"time,pm25\n{hours('%Y-%m-%d %H:%M,# mg/m^3')}",
            f"pm25 units = mg/m^3\ntime,pm25\n{rows}",
            f"time,pm25,unit\n{hours('%Y-%m-%d %H:%M,#,mg/m^3')}",
        ):
            table = open_table(saved(tmp_path, text))
            assert [unit for name, unit in table.units.items() if name.startswith("pm25")] == ["mg/m^3"]

    def test_a_footer_and_a_second_header_are_left_out_and_counted(self, tmp_path: Path) -> None:
        text = PLAIN + "time,pm25\n\nEnd of data\n"
        assert "2 rows are left out" in " ".join(check(tmp_path, text, "pm25"))

    def test_columns_at_fixed_places_take_their_names_from_two_lines(self, tmp_path: Path) -> None:
        lines = ["                     Hi     Low    Out", "  Date    Time     Temp    Temp    Hum", "-" * 38]
        for i in range(12):
            clock, humidity = f"{START + timedelta(hours=i):%d/%m/%y  %H:%M}", "---" if i == 5 else "99"
            lines.append(f"{clock}   {i + 0.5:6.1f}  {i:6.1f}    {humidity:>3}")
        _, frame, _ = opened(saved(tmp_path, "\n".join(lines), "export.txt"))
        assert frame.columns == ["when", "Hi Temp", "Low Temp", "Out Hum"]
        assert frame["Hi Temp"].to_list() == [i + 0.5 for i in range(12)]
        assert frame["Out Hum"].null_count() == 1

    def test_no_header_names_columns_by_number_or_by_their_cells(self, tmp_path: Path) -> None:
        notes = check(tmp_path, hours("%Y/%m/%d;%H:%M:%S;T=17C;P2.5;#"), "P2.5")
        assert "Columns are named by their cells: T, P2.5." in notes
        check(tmp_path, hours("%Y/%m/%d,%H:%M:%S,#,nan"), "column_3")

    def test_doubled_and_empty_names_are_replaced(self, tmp_path: Path) -> None:
        notes = check(tmp_path, "time,pm25,pm25,\n" + hours("%Y-%m-%d %H:%M,#,7,"), "pm25")
        assert "Two columns are called 'pm25'; the second is read as 'pm25_2'." in notes

    def test_prose_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"no line looks like a row of numbers.*--skip-rows"):
            open_table(saved(tmp_path, "Details\nThis is a logger, made in 2019\nIts memory, full\n", "details.txt"))


class TestCells:
    def test_cells_without_a_number_are_missing_and_named(self, tmp_path: Path) -> None:
        odd = ["<LOD", "<0.5", "Error", "---", "n/a", "warm-up"]
        text = "time,pm25\n" + "".join(f"2026-01-{13 + i} 00:00,{odd[i] if i < 6 else i}\n" for i in range(16))
        _, frame, notes = opened(saved(tmp_path, text))
        assert frame["pm25"].to_list() == [None] * 6 + [float(i) for i in range(6, 16)]
        shown = "'<LOD' in line 2, '<0.5' in line 3, 'Error' in line 4."
        assert notes[-1] == f"4 cells of 'pm25' without a number, taken as missing: {shown}"

    def test_stated_codes_are_missing_however_they_are_written(self, tmp_path: Path) -> None:
        path = saved(tmp_path, "time,pm25\n2026-01-13,-999.00\n2026-01-14,3\n2026-01-15,bad\n")
        _, frame, _ = opened(path, TableOptions(missing=("-999", "bad")))
        assert frame["pm25"].to_list() == [None, 3.0, None]

    @pytest.mark.parametrize("cell", ["+00011.5", "11,5", "11.5 ug/m3", "1.15E+01"])
    def test_numbers_are_read_however_they_are_written(self, tmp_path: Path, cell: str) -> None:
        _, frame, _ = opened(saved(tmp_path, f"time;pm25\n2026-01-13;{cell}\n2026-01-14;{cell}\n"))
        assert frame["pm25"].to_list() == [11.5, 11.5]


class TestTimes:
    @pytest.mark.parametrize(
        ("header", "pattern", "zone_hours"),
        [
            ("Time", "%d/%m/%Y %I:%M:%S %p", 0),
            ("Datum;Uhrzeit", "%d.%m.%Y;%H:%M", 0),
            ("Tag;Stunde", "%d.%m.%Y;%H:%M", 0),
            ("Fecha;Hora", "%d/%m/%Y;%H:%M", 0),
            ("year;month;day;hour", "%Y;%m;%d;%H", 0),
            ("created_at", "%Y-%m-%d %H:%M:%S UTC", 0),
            ("time", "%Y-%m-%dT%H:%M:%S+05:30", 5.5),
            ("Date Time, GMT+02:00", "%d.%m.%y %H:%M", 2),
            ("stamp", "%Y%m%d%H", 0),
            ("time", "%d-%b-%Y %H:%M", 0),
            ("time", "%d. Januar %Y %H:%M", 0),
            ("Date", "'%Y-%m-%d %H:%M'", 0),
            ("timestamp", "%s", 0),
            ("timestamp", "%s000", 0),
        ],
    )
    def test_a_time_is_read_however_it_is_written(
        self, tmp_path: Path, header: str, pattern: str, zone_hours: float
    ) -> None:
        seconds = START.timestamp()
        rows = "".join(
            (START + timedelta(hours=i)).strftime(pattern.replace("%s", f"{seconds + 3600 * i:.0f}")) + f";{i + 0.5}\n"
            for i in range(12)
        )
        check(tmp_path, f"{header};pm25\n{rows}", "pm25", zone_hours)

    def test_24_00_is_the_next_day_and_an_impossible_date_is_left_out(self, tmp_path: Path) -> None:
        text = "Date,Time,NO2\n2026-01-13,23:00,1\n2026-01-13,24:00,2\n2000-36-00,01:00,3\n"
        _, frame, notes = opened(saved(tmp_path, text))
        assert [time.isoformat() for time in frame["when"]] == [
            "2026-01-13T23:00:00+00:00",
            "2026-01-14T00:00:00+00:00",
        ]
        assert "1 row is left out" in notes[-1]

    def test_a_spreadsheets_days_are_read(self, tmp_path: Path) -> None:
        check(tmp_path, "date,pm25\n" + "".join(f"{46035 + i / 24:.9f},{i + 0.5}\n" for i in range(12)), "pm25")

    def test_utc_goes_before_local_time(self, tmp_path: Path) -> None:
        text = "Date Local,Time Local,Date GMT,Time GMT,NO2\n" + hours("2020-01-01,00:00,%Y-%m-%d,%H:%M,#")
        check(tmp_path, text, "NO2")

    @pytest.mark.parametrize(
        ("remark", "zone_hours"),
        [
            ("Zeit: MEZ/CET", 1),
            ("(UTC-05:00) Eastern Time (US & Canada)", -5),
            ("All data GMT", 0),
            ("Europe/Athens", 2),
        ],
    )
    def test_a_remark_states_the_zone(self, tmp_path: Path, remark: str, zone_hours: float) -> None:
        check(tmp_path, f"{remark}\nDate,Time,NO2\n" + hours("%Y-%m-%d,%H:%M,#"), "NO2", zone_hours)

    def test_the_hour_that_comes_twice_is_resolved_by_order(self, tmp_path: Path) -> None:
        local = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]
        text = "time,pm25\n" + "".join(f"2026-10-25 {clock},1\n" for clock in local)
        _, frame, _ = opened(saved(tmp_path, text), TableOptions(timezone="Europe/Berlin"))
        assert frame["when"].diff().drop_nulls().unique().to_list() == [timedelta(minutes=30)]

    def test_an_unknown_zone_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"no time zone is called 'Europe/Berlim'; did you mean 'Europe/Berlin'"):
            opened(saved(tmp_path, PLAIN.replace("Z,", ",")), TableOptions(timezone="Europe/Berlim"))

    def test_the_date_may_stand_before_the_table(self, tmp_path: Path) -> None:
        text = "Start Date,01/13/26\nModel,3007\n\nTime,Concentration\n" + hours("%H:%M:%S,#")
        check(tmp_path, text, "Concentration")


class TestShapes:
    def test_one_value_a_row_becomes_a_column_for_each_quantity(self, tmp_path: Path) -> None:
        rows = "".join(
            f"{START + timedelta(hours=i):%Y-%m-%dT%H:%M:%SZ},{name},{i + shift},{unit}\n"
            for name, shift, unit in (("pm25", 0.5, "µg/m³"), ("no2", 9, "ppb"))
            for i in range(12)
        )
        text = "utc,parameter,value,unit\n" + rows
        notes = check(tmp_path, text, "pm25")
        assert "One value a row: 'value' is read as 2 columns by 'parameter'." in notes
        assert open_table(tmp_path / "export.csv").units == {"pm25": "µg/m³", "no2": "ppb"}

    def test_hours_as_columns_become_rows(self, tmp_path: Path) -> None:
        header = "ANO;MES;DIA;" + ";".join(f"H{i:02};V{i:02}" for i in range(1, 25))
        days = ["2026;01;13;" + ";".join(f"{i:05};{'N' if i == 3 else 'V'}" for i in range(1, 25))] * 1
        _, frame, _ = opened(saved(tmp_path, "\n".join([header, *days, days[0].replace(";13;", ";14;")])))
        assert frame.height == 48
        assert frame["when"][23] == datetime(2026, 1, 14, tzinfo=UTC)
        assert frame["value"].head(4).to_list() == [1, 2, None, 4]


class TestKnownFormats:
    def test_a_format_says_what_it_is_and_cites_where_it_is_described(self) -> None:
        for one in formats().values():
            assert one.source.startswith("https://")
            assert one.header or one.preamble or (one.row and one.names)

    @pytest.mark.parametrize("name", sorted(name for name, one in formats().items() if one.header and one.time))
    def test_a_file_with_the_columns_of_a_format_is_recognised(self, tmp_path: Path, name: str) -> None:
        one = formats()[name]
        columns = list(dict.fromkeys([*one.time, *one.header]))
        cells = dict.fromkeys(columns, "7") | {one.time[0]: "2026-01-13 00:00"}
        if len(one.time) > 1:
            cells |= {one.time[0]: "2026-01-13", one.time[1]: "00:00"}
        text = ",".join(columns) + "\n" + 3 * (",".join(cells[column] for column in columns) + "\n")
        table = open_table(saved(tmp_path, text))
        assert table.format is not None
        assert table.format.title == one.title

    def test_inspect_says_the_format(self, tmp_path: Path) -> None:
        header = "Parameter Code,Date Local,Time Local,Date GMT,Time GMT,Sample Measurement,Units of Measure\n"
        text = header + hours("44201,2020-01-01,00:00,%Y-%m-%d,%H:%M,#,Parts per million")
        found = inspect_table(saved(tmp_path, text))
        assert "This looks like an AQS hourly file." in found.notes
        assert found.span[0] == START

    def test_rows_without_a_header_are_recognised(self, tmp_path: Path) -> None:
        rows = "06/13/26|{0:02}:00|000020401|Quay|-4|{1}|{2}|{3}.5|An agency\n"
        text = "".join(
            rows.format(hour, *one, hour * hour % 7)
            for hour in range(12)
            for one in (("PM2.5", "UG/M3"), ("OZONE", "PPB"))
        )
        found = inspect_table(saved(tmp_path, text))
        assert "This looks like an AirNow hourly file." in found.notes
        assert found.span[0] == datetime(2026, 6, 13, tzinfo=UTC)
        assert [(one.quantity, one.unit, one.is_reference) for one in found.columns] == [
            ("PM2.5", "ug/m3", True),
            ("O3", "ppb", True),
        ]

    def test_instruments_of_one_file_are_told_apart_and_said(self, tmp_path: Path) -> None:
        header = "State Code,County Code,Site Num,POC,Parameter Name,Date GMT,Time GMT,Sample Measurement\n"
        rows = "".join(
            f"27,3,1002,{poc},Ozone,2026-01-13,{hour:02}:00,0.0{hour}\n" for hour in range(9) for poc in (1, 3)
        )
        found = inspect_table(saved(tmp_path, header + rows))
        assert (found.device_column, found.duplicates) == ("monitor", 0)
        assert found.stamps["device"].unique(maintain_order=True).to_list() == ["27-3-1002-1", "27-3-1002-3"]
        assert "There are 2 instruments (27-3-1002-1, 27-3-1002-3)" in " ".join(found.notes)


class TestOddities:
    def test_repeated_values_of_a_long_table_are_counted(self, tmp_path: Path) -> None:
        rows = "".join(f"2026-01-13 {hour:02}:00,pm25,{hour}.5\n" * 2 for hour in range(9))
        found = inspect_table(saved(tmp_path, "time,parameter,value\n" + rows + "2026-01-13 10:00,pm10,4\n"))
        assert "9 values repeat a time of their 'parameter'; the first counts." in found.notes

    def test_repeated_times_are_counted_with_the_column_in_which_they_differ(self, tmp_path: Path) -> None:
        rows = "".join(f"2026-01-13 {hour:02}:00,{hour}.5,{run}\n" for hour in range(9) for run in (1, 2))
        found = inspect_table(saved(tmp_path, "time,pm25,run\n" + rows))
        assert "9 rows repeat a time and differ in 'run' (1.0, 2.0); the first of equal times counts." in found.notes

    def test_a_file_with_hardly_a_time_is_refused(self, tmp_path: Path) -> None:
        rows = "2026/1/13 10:00,1.5\n2026/1/13 11:00,1.6\n" + 20 * "2000/36/0 0:53,1.7\n"
        with pytest.raises(DataError, match="20 of 22 rows have no time that can be read: '2000/36/0 0:53' in line 4"):
            inspect_table(saved(tmp_path, "time,pm25\n" + rows))

    def test_values_that_cannot_be_what_their_columns_are_called_are_said(self, tmp_path: Path) -> None:
        rows = hours("%Y-%m-%d %H:%M,13,6,959")  # 13,6 degC and 95,9 %
        found = inspect_table(saved(tmp_path, "time,pm25,T,RH\n" + rows))
        assert any("RH (959 in the middle). Check whether columns are shifted" in note for note in found.notes)

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text.replace("\n", "\r"),
            lambda text: text.replace("3", "\u0663").replace("0", "\u0660"),
            lambda text: text.replace("1", "\uff11"),
            lambda text: text[:80] + "\0\0" + text[80:],
            lambda text: text.replace("AM", "").replace("2026-01-13 ", "2026-01-13 오전 "),
        ],
        ids=["old line ends", "Arabic digits", "wide digits", "zero bytes", "Korean half of the day"],
    )
    def test_other_characters_are_read_as_their_equals(self, tmp_path: Path, change: Callable[[str], str]) -> None:
        text = "time,pm25\n" + "".join(f"2026-01-13 {hour:02}:00 AM,{hour * hour % 12}.5\n" for hour in range(1, 12))
        found = inspect_table(saved(tmp_path, change(text)))
        assert found.span == (datetime(2026, 1, 13, 1, tzinfo=UTC), datetime(2026, 1, 13, 11, tzinfo=UTC))
        assert (found.rows, found.columns[0].high) == (11, 9.5)

    def test_days_of_matlab_are_read(self, tmp_path: Path) -> None:
        rows = "".join(f"{739995 + hour / 24:.6f},{hour % 5}.5\n" for hour in range(12))
        found = inspect_table(saved(tmp_path, "datenum,pm25\n" + rows))
        assert found.span[0] == datetime(2026, 1, 13, tzinfo=UTC)

    @pytest.mark.parametrize("before", ["", "tele/box/SENSOR ", "10:00:01.123 MQT: tele/box/SENSOR = "])
    def test_a_log_of_messages_is_a_table(self, tmp_path: Path, before: str) -> None:
        line = '{{"Time":"2026-01-13T{0:02}:00:00","PMS5003":{{"PM2.5":{1}}},"TempUnit":"C"}}\n'
        found = inspect_table(
            saved(tmp_path, "".join(before + line.format(hour, hour * hour % 7) for hour in range(12)))
        )
        assert [(one.name, one.unit) for one in found.columns] == [("PMS5003.PM2.5", "ug/m3")]

    def test_a_log_without_dates_is_refused(self, tmp_path: Path) -> None:
        line = "[10:00:00][D][sensor:094]: 'PM': Sending state 5.0 µg/m³ with 0 decimals of accuracy\n"
        with pytest.raises(DataError, match="a log of ESPHome has no dates"):
            inspect_table(saved(tmp_path, line * 5))


NAMES = st.text("abcdefghij", min_size=3, max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.floats(-1e6, 1e6).map(lambda one: round(one, 4)), min_size=6, max_size=20),
    delimiter=st.sampled_from(",;\t|"),
    comma=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    before=st.lists(NAMES, max_size=4),
    after=st.booleans(),
)
def test_any_table_is_read_back_the_same(
    tmp_path: Path, values: list[float], delimiter: str, comma: bool, encoding: str, before: list[str], after: bool
) -> None:
    sign = "," if comma and delimiter != "," else "."
    lines = [*before, delimiter.join(["Datum", "Größe"])]
    for i, value in enumerate(values):
        lines.append(
            delimiter.join([f"{START + timedelta(hours=i):%d.%m.%Y %H:%M}", f"{value:.4f}".replace(".", sign)])
        )
    text = "\r\n".join([*lines, *(["", "Ende"] if after else [])])
    table, frame, _ = opened(saved(tmp_path, text.encode(encoding)))
    assert frame["Größe"].to_list() == values
    assert frame["when"][-1] == START + timedelta(hours=len(values) - 1)
    assert table.read(table.columns)[LINE][0] == len(before) + 2


def test_the_page_lists_every_format_and_whether_it_was_checked() -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    for one in formats().values():
        assert f"| {one.title} | {one.kind} | {one.stamp} | {'yes' if one.checked else ''} |" in page
