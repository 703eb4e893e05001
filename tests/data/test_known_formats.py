"""Files in the shape of makers', agencies' and loggers' exports, written as bytes and opened."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scare.data.column_guess import inspect_table
from scare.data.known_formats import formats
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


SHEET_FILES = {  # of a workbook with two sheets; the style 1 is that of a date with a clock
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="a" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
    ' Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>'
    '<sheet name="About" sheetId="1" r:id="s1"/><sheet name="Data" sheetId="2" r:id="s2"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    + "".join(
        f'<Relationship Id="{name}" Target="{target}"'
        f' Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}"/>'
        for name, target, kind in (
            ("s1", "worksheets/sheet1.xml", "worksheet"),
            ("s2", "worksheets/sheet2.xml", "worksheet"),
            ("st", "styles.xml", "styles"),
        )
    )
    + "</Relationships>",
    "xl/styles.xml": '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts><font/></fonts>'
    "<fills><fill/></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>"
    '<cellXfs><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>',
}


def sheet(rows: list[list[object]], merged: str = "") -> str:
    """The XML of a sheet; a pair is a number with its style, None a cell that is merged with its neighbour."""
    lines = ""
    for number, row in enumerate(rows, 1):
        cells = ""
        for column, cell in zip("ABCDEFG", row, strict=False):
            place = f'r="{column}{number}"'
            match cell:
                case str():
                    cells += f'<c {place} t="inlineStr"><is><t>{cell}</t></is></c>'
                case (value, style):
                    cells += f'<c {place} s="{style}"><v>{value}</v></c>'
                case float():
                    cells += f"<c {place}><v>{cell}</v></c>"
        lines += f'<row r="{number}">{cells}</row>'
    merges = f'<mergeCells count="1"><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
    name = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return f'<worksheet xmlns="{name}"><sheetData>{lines}</sheetData>{merges}</worksheet>'


def workbook(about: str, data: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in {
            **SHEET_FILES,
            "xl/worksheets/sheet1.xml": about,
            "xl/worksheets/sheet2.xml": data,
        }.items():
            archive.writestr(name, text)
    return buffer.getvalue()


PAIRS = (("44201", "008"), ("88101", "105"))  # codes of the US EPA: ozone in ppb, PM2.5 in µg/m³
PLAIN = "time,pm25\n" + hours("%Y-%m-%dT%H:%M:%SZ,#")


class TestBytes:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
    def test_an_encoding_is_found(self, tmp_path: Path, encoding: str) -> None:
        text = "time,Temp (°C)\n" + hours("%Y-%m-%d %H:%M,#")
        notes = check(tmp_path, text.encode(encoding), "Temp (°C)")
        assert any(note.startswith("Read as") for note in notes) == (not encoding.startswith("utf-8"))

    @pytest.mark.parametrize(
        ("encoding", "header"),
        [("cp949", "측정일시,PM10"), ("gb18030", "时间,PM10"), ("big5", "日期,PM10,測站"), ("cp932", "日時,PM10")],
    )
    def test_an_encoding_of_east_asia_is_told_by_words_of_the_header(
        self, tmp_path: Path, encoding: str, header: str
    ) -> None:
        text = f"{header}\n" + hours("%Y-%m-%d %H:%M,#" + ",x" * (header.count(",") - 1))
        check(tmp_path, text.encode(encoding), "PM10")
        assert open_table(tmp_path / "export.csv").columns[0] == header.partition(",")[0]

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
        by_station = f'[{{"site": "A", "data": [{records}]}}, {{"site": "B", "data": [{records}]}}]'
        found = inspect_table(saved(tmp_path, by_station))
        assert (found.rows, found.device_column, found.duplicates) == (24, "site", 0)
        with pytest.raises(DataError, match="holds one message, not a table"):
            open_table(saved(tmp_path, '{"ts": "2026-01-13T00:00:00Z", "pm25": 3}'))

    def test_json_may_hold_columns_or_rows_without_names(self, tmp_path: Path) -> None:
        times = [f"2026-01-13T{i:02}:00" for i in range(12)]
        values = [i + 0.5 for i in range(12)]
        beside = {"timezone": "Asia/Tokyo", "hourly_units": {"time": "iso8601", "pm10": "mg/m³"}}
        check(tmp_path, json.dumps({**beside, "hourly": {"time": times, "pm10": values}}), "pm10", zone_hours=9)
        assert open_table(tmp_path / "export.csv").units == {"pm10": "mg/m³"}
        check(tmp_path, json.dumps({"fields": ["time", "pm10"], "data": [*zip(times, values, strict=True)]}), "pm10")
        by_row = {name: dict(enumerate(column)) for name, column in (("time", times), ("pm10", values))}
        check(tmp_path, json.dumps(by_row), "pm10")


class TestSpreadsheets:
    ABOUT = sheet([["Made by hand"], ["in Berlin"]])

    @pytest.mark.parametrize("style", [0, 1], ids=["a number", "a date"])
    def test_days_of_a_spreadsheet_are_read_with_and_without_their_style(self, tmp_path: Path, style: int) -> None:
        rows: list[list[object]] = [["Date", "pm25"], *([(46035 + i / 24, style), i + 0.5] for i in range(12))]
        notes = check(tmp_path, workbook(self.ABOUT, sheet(rows)), "pm25", name="a.xlsx")
        assert notes[0] == "Read the sheet 'Data' of 2; another one is read with --sheet."

    def test_merged_titles_and_two_rows_of_names_are_read(self, tmp_path: Path) -> None:
        head: list[list[object]] = [
            ["Station 7", None, None],
            [],
            ["Date", "Roof", None],
            ["", "PM10", "NO2"],
            ["", "µg/m³", "ppb"],
        ]
        rows: list[list[object]] = [[(46035 + i / 24, 1), i + 0.5, 20.0 + i % 3] for i in range(12)]
        path = saved(tmp_path, workbook(self.ABOUT, sheet([*head, *rows], "A1:C1")), "a.xlsx")
        found = inspect_table(path)
        assert found.span[0] == START
        assert [(one.quantity, one.unit) for one in found.columns] == [("PM10", "ug/m3"), ("NO2", "ppb")]

    @pytest.mark.parametrize("clock", [lambda i: (i % 24 / 24, 1), lambda i: float(i % 24)], ids=["time", "hour"])
    def test_a_day_and_its_clock_are_columns_of_their_own(self, tmp_path: Path, clock: Callable[[int], object]) -> None:
        name = "Time" if isinstance(clock(0), tuple) else "Hour"
        rows: list[list[object]] = [
            ["Date", name, "pm25"],
            *([(46035.0 + i // 24, 1), clock(i), i + 0.5] for i in range(72)),
        ]
        found = inspect_table(saved(tmp_path, workbook(self.ABOUT, sheet(rows)), "a.xlsx"))
        assert found.stamps["time"].to_list() == [START + timedelta(hours=i) for i in range(72)]
        assert (found.time, found.device_column) == (("Date", name), "")

    def test_a_named_sheet_is_read_and_an_unknown_one_refused(self, tmp_path: Path) -> None:
        rows: list[list[object]] = [["Date", "pm25"], *([(46035 + i / 24, 1), i + 0.5] for i in range(12))]
        path = saved(tmp_path, workbook(sheet(rows), sheet([["Date", "no2"], *rows[1:]])), "a.xlsx")
        assert open_table(path).columns == ("Date", "pm25")
        assert open_table(path, TableOptions(sheet="Data")).columns == ("Date", "no2")
        with pytest.raises(UsageError, match="no sheet 'Dato'; did you mean 'Data'"):
            open_table(path, TableOptions(sheet="Dato"))


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

    def test_a_cell_of_the_header_may_go_on_in_the_next_line(self, tmp_path: Path) -> None:
        check(tmp_path, 'time;"PM2.5 \n(ug/m3)"\n' + hours("%Y-%m-%d %H:%M;#"), "PM2.5 (ug/m3)")

    def test_names_of_stations_take_what_they_measure_from_the_row_below(self, tmp_path: Path) -> None:
        text = "Station,KpAirpWik,Krakow\nPollutant,PM2.5,PM2.5\nAveraging,1g,1g\n" + hours("%Y-%m-%d %H:%M,#,7.5")
        check(tmp_path, text, "KpAirpWik PM2.5")
        assert inspect_table(tmp_path / "export.csv").column("KpAirpWik PM2.5").unit == "ug/m3"

    def test_remarks_after_the_last_column_are_left_out(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        text = "time,pm25\n" + hours("%Y-%m-%d %H:%M,#")
        check(tmp_path, text.replace(",3.5\n", ",3.5, window opened\n").replace(",4.5\n", ",4.5,closed\n"), "pm25")
        assert "line 5: 'window opened' after the last column is left out (2 such lines)" in caplog.text

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

    def test_states_of_the_instrument_are_missing_even_if_they_are_most_cells(self, tmp_path: Path) -> None:
        rows = [f"2026-01-13 {i // 4:02}:{i % 4 * 15:02},{'out of order' if i % 3 else i * i / 4}\n" for i in range(96)]
        (ozone,) = inspect_table(saved(tmp_path, "time,O3 (ppm)\n" + "".join(rows))).columns
        assert (ozone.name, ozone.unit, round(ozone.missing, 2)) == ("O3 (ppm)", "ppm", 0.67)

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
            ("time", "%a %b %d %H:%M:%S %Y", 0),
            ("time", "%a %b %d %H:%M:%S UTC %Y", 0),
            ("time", "%Y-%jT%H:%M:%SZ", 0),
            ("Year;DOY;Hour", "%Y;%j;%H", 0),
            ("Year;Julian Day;HHMM", "%Y;%j;%H%M", 0),
            ("Date;Hour (PST)", "%d.%m.%Y;%H%M", -8),
            ("MeasurementDateGMT", "%Y-%m-%d %H:%M", 0),
            ("timezone;time", "EST5EDT;%Y-%m-%d %H:%M", -5),
            ("timestamp(America/Denver)", "%Y-%m-%d %H:%M", -7),
            ("Date-Time (EST/EDT)", "%d.%m.%Y %H:%M", -5),
            ("datetime_AEST", "%Y-%m-%d %H:%M", 10),
            ("Year;m;d;Time;Time zone", "%Y;%m;%d;%H:%M;UTC", 0),
            ("Year;Month;Day;Hour;Minute", "%Y;%m;%d;%H;00", 0),
            ("FECHA (YYMMDD);HORA (HHMM)", "%y%m%d;%H%M", 0),
            ("측정일시", "%Y%m%d%H", 0),
            ("date;hour", "%Y%m%d;%-H", 0),
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

    def test_the_order_of_day_and_month_is_found_where_something_shows_it(self, tmp_path: Path) -> None:
        rows = "".join(f"0{1 + i // 24}/02/2026 {i % 24:02}:00,{i * i % 7}\n" for i in range(48))
        one_day = "".join(f"05/02/2026 {hour:02}:00,{hour * hour % 7}\n" for hour in range(24))
        for text, name in (
            (f"time,pm25\n{rows}", "two-days.csv"),
            (f"Fecha,pm25\n{one_day}", "spanish.csv"),
            (f"time,pm25\n{one_day}", "log_20260205.csv"),
            (f"Started at,2026-02-05\n\ntime,pm25\n{one_day}", "preamble.csv"),
        ):
            assert inspect_table(saved(tmp_path, text, name)).span[1].month == 2
        with pytest.raises(DataError, match="'05/02/2026 00:00' may be 5 February or 2 May"):
            inspect_table(saved(tmp_path, f"time,pm25\n{one_day}", "log.csv"))

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

    def test_a_table_in_order_of_its_quantities_is_told_by_all_of_its_rows(self, tmp_path: Path) -> None:
        one = "".join(f"{START + timedelta(hours=i):%Y-%m-%dT%H:%M:%SZ},{{0}},{i % 17}\n" for i in range(400))
        found = inspect_table(saved(tmp_path, "time,parameter,value\n" + one.format("pm25") + one.format("no2")))
        assert ([one.name for one in found.columns], found.rows) == (["pm25", "no2"], 400)

    def test_the_number_of_a_sensor_does_not_divide_its_station(self, tmp_path: Path) -> None:
        rows = "".join(
            f"{station},{10 * station + k},{START + timedelta(hours=i):%Y-%m-%dT%H:%M:%SZ},{name},{i % 7 + k}\n"
            for station in (1, 2)
            for k, name in enumerate(["pm10", "pm25"])
            for i in range(24)
        )
        found = inspect_table(saved(tmp_path, "location_id,sensors_id,datetime,parameter,value\n" + rows))
        assert (found.rows, found.duplicates, found.device_column) == (48, 0, "location_id")
        assert [one.missing for one in found.columns] == [0, 0]

    @pytest.mark.parametrize("cell", ['"{{""pm25"": {0}, ""state"": {{""rssi"": -60}}}}"', '"{{""pm25"": {0}}}"'])
    def test_messages_in_a_column_are_read_as_columns(self, tmp_path: Path, cell: str) -> None:
        lines = [f"box-1,{START + timedelta(hours=i):%Y-%m-%dT%H:%M:%SZ},{cell.format(i + 0.5)}\n" for i in range(12)]
        notes = check(tmp_path, "topic,time,payload\n" + "".join(lines), "pm25")
        assert any(note.startswith("The messages in 'payload' are read as ") for note in notes)

    def test_hours_as_columns_become_rows(self, tmp_path: Path) -> None:
        header = "ANO;MES;DIA;" + ";".join(f"H{i:02};V{i:02}" for i in range(1, 25))
        days = ["2026;01;13;" + ";".join(f"{i:05};{'N' if i == 3 else 'V'}" for i in range(1, 25))] * 1
        _, frame, _ = opened(saved(tmp_path, "\n".join([header, *days, days[0].replace(";13;", ";14;")])))
        assert frame.height == 48
        assert frame["when"][23] == datetime(2026, 1, 14, tzinfo=UTC)
        assert frame["value"].head(4).to_list() == [1, 2, None, 4]

    @pytest.mark.parametrize(
        "names",
        [
            ["Mid", *(f"{i}:00" for i in range(1, 12)), "Noon", *(f"{i}:00" for i in range(1, 12))],
            ["12 AM", *(f"{i} AM" for i in range(1, 12)), "12 PM", *(f"{i} PM" for i in range(1, 12))],
            [f"{i}:00" for i in range(24)],
            [f"Hour {i:02}" for i in range(24)],
            [f"{i}時" for i in range(24)],
        ],
        ids=["Texas", "halves of the day", "clocks", "words", "Japanese"],
    )
    def test_hours_may_be_written_in_many_ways(self, tmp_path: Path, names: list[str]) -> None:
        days = [f"{day}/1/2026," + ",".join(f"{i * day}.5" for i in range(24)) + ",99" for day in (13, 14)]
        _, frame, _ = opened(saved(tmp_path, "\n".join(["Date," + ",".join(names) + ",Max", *days])))
        assert frame.columns == ["when", "value"]  # the day's maximum is no hour
        assert frame["when"].to_list() == [START + timedelta(hours=i) for i in range(48)]
        assert frame["value"].to_list() == [i * day + 0.5 for day in (13, 14) for i in range(24)]

    def test_stations_as_columns_become_rows(self, tmp_path: Path) -> None:
        rows = "".join(f"20260113,{i},{name},{i}.5,{2 * i}.5\n" for i in range(12) for name in ("AQI", "PM2.5", "NO2"))
        found = inspect_table(saved(tmp_path, "date,hour,type,1001A,1002A\n" + rows))
        assert [one.name for one in found.columns] == ["PM2.5", "NO2"]
        assert (found.rows, found.device_column, found.duplicates) == (24, "station", 0)

    def test_rows_of_one_time_are_no_series(self, tmp_path: Path) -> None:
        rows = "".join(f"2026-01-13,{166 + i / 100},{i * i % 9}.5\n" for i in range(20))
        with pytest.raises(DataError, match="all 20 rows have the time 2026-01-13 00:00:00; name all columns"):
            inspect_table(saved(tmp_path, "Date,days,pm25\n" + rows))

    def test_parts_of_the_time_need_no_header(self, tmp_path: Path) -> None:
        notes = check(tmp_path, hours("%Y %m %d %H # -9999"), "column_5")
        assert "The columns 1 to 4 are read as year, month, day, hour." in notes
        check(tmp_path, hours("101,%Y,%-j,%-H00,#"), "column_5")
        check(tmp_path, hours("%Y %-j %-m %-d %-H 0 # 5.5"), "column_7")
        check(tmp_path, "xyz_yr,xyz_mon,xyz_day,xyz_hr,xyz_o3\n" + hours("%Y,%m,%d,%H,#"), "xyz_o3")

    def test_doubled_names_are_told_apart_by_the_rows_above_them(self, tmp_path: Path) -> None:
        header = "Station;Wedding;Wedding\nKomponente;PM10;Stickstoffdioxid\nMesszeit;Stundenwerte;Stundenwerte\n"
        found = inspect_table(saved(tmp_path, f"{header}Einheit;µg/m³;µg/m³\n" + hours("%d.%m.%Y %H:%M;#;#")))
        assert [(one.quantity, one.unit) for one in found.columns] == [("PM10", "ug/m3"), ("NO2", "ug/m3")]

    def test_a_json_list_of_names_and_values_becomes_columns(self, tmp_path: Path) -> None:
        values = '[{{"name": "PM25", "value": {0}.5}}, {{"value_type": "temperature", "value": "{0}.1"}}]'
        records = [f'{{"ts": "2026-01-13T{i:02}:00Z", "values": {values.format(i)}}}' for i in range(12)]
        check(tmp_path, f"[{','.join(records)}]", "values.PM25")

    def test_a_day_of_the_month_alone_is_no_date(self, tmp_path: Path) -> None:
        text = (
            "Day," + ",".join(f"{i}:00" for i in range(24)) + "\n" + "".join(f"{i}{24 * ',5'}\n" for i in range(1, 9))
        )
        with pytest.raises(DataError, match="'Day' alone is no date; add the year, month and day as columns"):
            inspect_table(saved(tmp_path, text))


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

    def test_of_validated_and_preliminary_values_the_first_counts(self, tmp_path: Path) -> None:
        header = "FECHA (YYMMDD);HORA (HHMM);Registros validados;Registros preliminares;Registros no validados;\n"
        text = header + hours("%y%m%d;%H%M;;#;;", 6) + hours("%y%m%d;%H%M;#;;;", 12)[6 * 18 :]
        check(tmp_path, text.replace(".", ","), "Registros validados")
        found = inspect_table(tmp_path / "export.csv")
        assert [one.name for one in found.references] == ["Registros validados"]
        assert found.is_reference

    def test_indices_are_no_reference(self, tmp_path: Path) -> None:
        text = "date, pm25, o3\n" + "".join(f"2026/1/{day}, {day}, {day * 2 % 7}\n" for day in range(1, 20))
        with pytest.raises(DataError, match=r"sensor's \(pm25 is an index, o3 is an index\)"):
            _ = inspect_table(saved(tmp_path, text)).mapping

    def test_values_that_are_flagged_as_invalid_are_missing(self, tmp_path: Path) -> None:
        flags = ["1", "-1", "2", "-99", *"11111111"]
        header = "AirPollutant,Concentration,UnitOfMeasurement,DatetimeBegin,Validity\n"
        rows = "".join(f"NO2,{i}.5,µg/m3,2026-01-13 {i:02}:00:00 +01:00,{flag}\n" for i, flag in enumerate(flags))
        found = inspect_table(saved(tmp_path, header + rows))
        assert found.numbers["Concentration"].head(5).to_list() == [0.5, None, 2.5, None, 4.5]
        frame = pl.DataFrame(
            {
                "Samplingpoint": ["A"] * 12,
                "Pollutant": [6001] * 12,
                "Start": [datetime(2026, 1, 13, i) for i in range(12)],
                "Value": [i + 0.5 for i in range(12)],
                "Unit": ["ug.m-3"] * 12,
                "Validity": [int(flag) for flag in flags],
            }
        )
        frame.write_parquet(tmp_path / "eea.parquet")
        found = inspect_table(tmp_path / "eea.parquet")
        assert found.span[0] == START - timedelta(hours=1)
        assert [(one.name, one.quantity, one.unit, one.is_reference) for one in found.columns] == [
            ("Value", "PM2.5", "ug/m3", True)
        ]
        assert found.numbers["Value"].head(5).to_list() == [0.5, None, 2.5, None, 4.5]

    def test_numbers_of_stations_are_devices_if_the_format_says_so(self, tmp_path: Path) -> None:
        header = "NAPS ID//Identifiant SNPA,Date//Date," + ",".join(f"H{i:02}//H{i:02}" for i in range(1, 25))
        rows = [f"{site},2026011{day},{','.join('-999' if i == 5 else str(i * i % 9) for i in range(24))}"
                for day in (3, 4) for site in (10102, 50103)]  # fmt: skip
        found = inspect_table(saved(tmp_path, "\n".join([header, *rows])))
        assert (found.rows, found.duplicates, found.device_column) == (96, 0, "NAPS ID//Identifiant SNPA")
        assert found.columns[0].missing == pytest.approx(1 / 24)

    def test_codes_name_quantities_and_units(self, tmp_path: Path) -> None:
        header = "Transaction Type,Parameter Cd,Unit Cd,Date,Time,Value\n"
        rows = "".join(
            f"RD,{code},{unit},20260113,{i:02}:00,{i * i % 7}.5\n" for i in range(12) for code, unit in PAIRS
        )
        found = inspect_table(saved(tmp_path, header + rows))
        assert [(one.quantity, one.unit) for one in found.columns] == [("O3", "ppb"), ("PM2.5", "ug/m3")]

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
        assert any("RH (median 959). Check whether columns are shifted" in note for note in found.notes)

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


def test_thousands_marks_beside_decimal_points(tmp_path: Path) -> None:
    rows = "".join(f'2026-01-{day:02}T00:00Z,"{day},234",{day}.5\n' for day in range(1, 29))
    found = inspect_table(saved(tmp_path, f"time,count_0.3um,pm25\n{rows}"))
    assert [column.high for column in found.columns] == [28234, 28.5]


def test_units_in_cells_may_have_brackets_of_their_own(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{day:02}T00:00Z,{day}.5 ug/m3 (LC)\n" for day in range(1, 29))
    (pm,) = inspect_table(saved(tmp_path, f"time,PM2.5\n{rows}")).columns
    assert (pm.high, pm.unit) == (28.5, "ug/m3")


def test_names_that_look_like_units(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{day:02}T00:00Z,{day}.5,{day}.25,101.{day}\n" for day in range(1, 29))
    found = inspect_table(saved(tmp_path, f"time,PA_pm25,Temp 1Hour [ºC],PA\n{rows}"))
    assert [(one.quantity, one.unit) for one in found.columns] == [
        *(("PM2.5", "ug/m3"), ("T", "degC"), ("pressure", "kPa"))
    ]


def test_a_pollutant_without_numbers_is_named(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{day:02}T00:00Z,high,,{day}.5\n" for day in range(1, 29))
    found = inspect_table(saved(tmp_path, f"time,NO2,O3,PM10\n{rows}"))
    assert dict(found.left_out) == {"NO2": "text, such as 'high'", "O3": "without a value"}


def test_names_of_references(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{day:02}T00:00Z,{day}.5,{day % 9}.5,1{day % 7}.5\n" for day in range(1, 29))
    found = inspect_table(saved(tmp_path, f"time,Sensor_PM2.5,FEM_PM2.5,NO2_station\n{rows}"))
    assert [column.name for column in found.references] == ["FEM_PM2.5", "NO2_station"]


def test_an_embassy_file_counts_valid_hours_alone(tmp_path: Path) -> None:
    rows = "".join(
        f"Delhi,PM2.5 - Principal,2026-01-{day:02} 02:00 AM,9.5,30,{day}.5,UG/M3,{'Invalid' if day == 3 else 'Valid'}\n"
        for day in range(1, 29)
    )
    header = "Site,Parameter,Date (LT),NowCast Conc.,AQI,Raw Conc.,Conc. Unit,QC Name\n"
    found = inspect_table(saved(tmp_path, header + rows))
    assert (found.columns[0].quantity, found.numbers["Raw Conc."].to_list()[1:4]) == ("PM2.5", [2.5, None, 4.5])


def test_an_iport_file_writes_the_month_first(tmp_path: Path) -> None:
    rows = "".join(f"00:{minute:02} 01-05-26 0C100000 2.5{minute % 10}E+01 25.4\n" for minute in range(30))
    found = inspect_table(saved(tmp_path, f"49i 1152230054\nTime Date Flags o3 bncht\n{rows}"))
    assert (found.span[0], found.columns[0].quantity) == (datetime(2026, 1, 5, tzinfo=UTC), "O3")


def test_the_page_lists_every_format_and_whether_it_was_checked() -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    for one in formats().values():
        assert f"| {one.title} | {one.kind} | {one.stamp} | {one.checked} |" in page
