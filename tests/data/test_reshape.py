"""Tables of another shape, as files in the shape of exports that have it: what each column then holds."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from scare.data.column_guess import Inspection, inspect_table
from scare.errors import DataError

START = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = 48


@pytest.fixture
def inspected(tmp_path: Path):
    def inspect(*lines: str, name: str = "export.csv") -> Inspection:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return inspect_table(path)

    return inspect


def each_hour(pattern: str, rows: int = ROWS, first: int = 0) -> list[str]:
    """A line for each hour: the pattern with its time, and `#` and `@` for its number and ten times that."""
    return [
        (START + timedelta(hours=i)).strftime(pattern).replace("#", str(i)).replace("@", str(10 * i))
        for i in range(first, first + rows)
    ]


def times(found: Inspection) -> list[datetime]:
    return found.stamps["time"].to_list()


HOURS = [START + timedelta(hours=i) for i in range(ROWS)]


def test_tables_one_below_the_other_are_joined_by_their_times(inspected) -> None:
    """As in reports of India's agency that have more columns than fit in one table."""
    lines = ["From Date,To Date,PM2.5,NO2", *each_hour("%d-%m-%Y %H:%M,%d-%m-%Y %H:59,#.5,1#")]
    lines += ["Prescribed Standards,,0-60,0-80", "From Date,To Date,CO,RH"]
    found = inspected(*lines, *each_hour("%d-%m-%Y %H:%M,%d-%m-%Y %H:59,0.#,3#"), name="site_20260301.csv")
    assert times(found) == HOURS
    assert [column.name for column in found.columns] == ["PM2.5", "NO2", "CO", "RH"]
    assert found.numbers["PM2.5"].to_list() == [i + 0.5 for i in range(ROWS)]
    assert found.numbers["RH"].to_list() == [float(f"3{i}") for i in range(ROWS)]
    assert "2 tables that stand one below the other are joined by 'From Date'." in found.notes


def test_a_file_appended_with_its_columns_in_another_order(inspected) -> None:
    first, later = each_hour("%Y-%m-%d %H:%M,#,@", 24), each_hour("%Y-%m-%d %H:%M,@,#", 24, 24)
    found = inspected("time,pm25,temp", *first, "time,temp,pm25", *later)
    assert times(found) == HOURS
    assert found.numbers["pm25"].to_list() == list(range(ROWS))
    first, later = each_hour("#,%Y-%m-%d %H:%M,@", 24), each_hour("@,%Y-%m-%d %H:%M,#", 24, 24)
    with pytest.raises(DataError, match="line 26: the header comes again, with the columns in another order"):
        inspected("pm25,time,temp", *first, "temp,time,pm25", *later)


def test_series_of_an_annotated_influx_file_become_columns(inspected) -> None:
    """Each series has its own comments and header, all equal."""
    lines = []
    for number, field in enumerate(("pm2_5", "temperature")):
        lines += ["#group,false,false,true,false,false,true,true"]
        lines += ["#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,double,string,string"]
        lines += ["#default,last,,,,,,", ",result,table,_start,_time,_value,_field,device"]
        pattern = f",,{number},2026-02-01T00:00:00Z,%Y-%m-%dT%H:%M:%SZ,{number + 1}#,{field},box1"
        lines += [*each_hour(pattern), ""]
    found = inspected(*lines)
    assert times(found) == HOURS
    assert found.numbers["pm2_5"].to_list() == [float(f"1{i}") for i in range(ROWS)]
    assert found.numbers["temperature"].to_list() == [float(f"2{i}") for i in range(ROWS)]
    assert found.numbers.width == 2


def test_stations_one_below_the_other_with_lines_before_each(inspected) -> None:
    """As in yearly files of Ontario: a preamble, a header and a row a day for each station."""
    hours = ",".join(f"H{hour:02}" for hour in range(1, 25))
    lines = []
    for station in (47045, 54012):
        lines += [
            f"Station,Town ({station})",
            "Pollutant,Fine Particulate Matter",
            f"Station ID,Pollutant,Date,{hours}",
        ]
        values = ",".join(str(hour) for hour in range(1, 25))
        lines += [f"{station},Fine Particulate Matter,2026-03-{day:02},{values}" for day in range(1, 29)]
    found = inspected(*lines)
    assert found.device_column == "Station ID"
    assert found.stamps["device"].unique(maintain_order=True).to_list() == ["47045", "54012"]
    ours = found.stamps.with_columns(found.numbers.to_series()).filter(pl.col("device") == "54012")
    assert ours.height == 24 * 28
    assert ours.sort("time").to_series(2).head(24).to_list() == [float(hour) for hour in range(1, 25)]


def test_tenths_with_a_code_of_their_quality(inspected) -> None:
    """As in NOAA's hourly files; +9999 is no reading, and 3 and 7 say that a value is an error."""
    pattern = '"007",%Y-%m-%dT%H:%M:%S,FM-15,"+{:04},1","-0010,1","10132,1"'
    rows = [line.format(10 * i) for i, line in enumerate(each_hour(pattern, 45))]
    rows += ['"007",2026-03-03T00:00:00,FM-15,"+9999,9","-0010,1","99999,9"']
    rows += ['"007",2026-03-03T01:00:00,FM-15,"+0200,3","-0010,1","10132,1"']
    found = inspected("STATION,DATE,REPORT_TYPE,TMP,DEW,SLP", *rows)
    assert found.numbers["TMP"].to_list() == [*(float(i) for i in range(45)), None, None]
    assert found.column("TMP").unit == "degC"
    assert "Times are UTC, as in every NOAA hourly file." in found.notes


def test_a_date_that_stands_only_in_the_first_row_of_its_day(inspected) -> None:
    rows = [line if " 00:00," in line else "," + line.partition(" ")[2] for line in each_hour("%Y-%m-%d %H:%M,#")]
    found = inspected("Date,Time,pm25", *(row.replace(" ", ",") for row in rows))
    assert times(found) == HOURS
    assert "Rows without a date in 'Date' have that of the row above." in found.notes


def test_a_file_of_clocks_whose_name_states_the_date(inspected) -> None:
    found = inspected("Time,Concentration", *each_hour("%H:%M:%S,#"), name="20260301_tour.csv")
    assert times(found) == HOURS
    assert any("in the file's name" in note for note in found.notes)
    with pytest.raises(DataError, match="times of day without a date"):
        inspected("Time,Concentration", *each_hour("%H:%M:%S,#"), name="tour.csv")


@pytest.mark.parametrize("first", [24, 400], ids=["near", "beyond the first rows"])
def test_values_in_two_units_get_one(inspected, first: int) -> None:
    rows = each_hour("%Y-%m-%d %H:%M,A,1#,mb", first) + each_hour("%Y-%m-%d %H:%M,A,1.5#,kPa", 12, first)
    found = inspected("DATE_PST,STATION,PRESSURE_VALUE,UNIT", *rows)
    assert found.numbers["PRESSURE_VALUE"].to_list()[first:] == pytest.approx(
        [10 * float(f"1.5{first + i}") for i in range(12)]
    )
    assert "Values are converted from kPa to mb." in found.notes
    assert times(found)[0] == START + timedelta(hours=8)


def test_dates_and_clocks_as_numbers_without_a_header(inspected) -> None:
    """As in the files of the US climate network: a station, then a date and hours and minutes."""
    found = inspected(*(f"53131 {hour:%Y%m%d %H00} {hour.hour % 5}.5 20.25" for hour in HOURS), name="station.txt")
    assert times(found) == HOURS
    assert found.numbers["column_4"].to_list() == [hour.hour % 5 + 0.5 for hour in HOURS]


def test_hours_from_1_to_24_are_not_taken_for_minutes(inspected) -> None:
    """As in the hourly files of the Dutch weather service, whose header is a comment and whose units are tenths."""
    rows = [
        f"  260,{START + timedelta(hours=i):%Y%m%d},{i % 24 + 1:5},{10 * (i % 20) - 40:5},{10000 + i:5},{50 + i % 40:5}"
        for i in range(ROWS)
    ]
    found = inspected("# SOURCE: KNMI", "# T = temperature", "", "# STN,YYYYMMDD,   HH,    T,    P,    U", "", *rows)
    assert times(found) == [hour + timedelta(hours=1) for hour in HOURS]
    assert (found.column("T").unit, found.column("P").unit) == ("0.1 degC", "0.1 hPa")
    mapping = found.propose("T")[0]
    assert mapping.channels[0].name == "T"


def test_year_and_day_of_the_year_with_a_clock_named_by_its_zone(inspected) -> None:
    rows = [f"0,2026,60,{hour}{minute:02},1.{hour}" for hour in range(24) for minute in (0, 30)]
    found = inspected("Unnamed: 0,Year,DOY,MST,Global Horiz [W/m^2]", *(row.replace(",000", ",0") for row in rows))
    assert times(found)[:3] == [START + timedelta(hours=7, minutes=30 * i) for i in range(3)]
    assert times(found)[-1] == START + timedelta(hours=30, minutes=30)


def test_an_interval_is_read_as_its_beginning(inspected) -> None:
    rows = [
        f"{HOURS[i]:%Y-%m-%dT%H:%M:%S.0}/{HOURS[i] + timedelta(hours=1):%Y-%m-%dT%H:%M:%S.0};{i}" for i in range(ROWS)
    ]
    found = inspected("# Observation period;GHI", *rows)
    assert times(found) == HOURS


@pytest.mark.parametrize("space", [" ", "  ", "\u00a0", "\u202f"], ids=["one", "two", "no-break", "narrow"])
def test_any_space_before_am_and_pm(inspected, space: str) -> None:
    found = inspected('"Date Time, GMT-07:00",Temp', *each_hour(f"%m/%d/%y %I:%M:%S{space}%p,#"))
    assert times(found) == [hour + timedelta(hours=7) for hour in HOURS]


def test_a_quoted_delimiter_in_the_preamble_opens_no_cell(inspected) -> None:
    found = inspected(
        "Sep = ,", '"Delimiter = ,"', "BC units = ng/m^3", "", "Date,Time,BC", *each_hour('"%Y/%m/%d","%H:%M",#')
    )
    assert found.time == ("Date", "Time")
    assert found.column("BC").unit == "ng/m3"


def test_values_by_a_column_that_names_quantities_whatever_it_is_called(inspected) -> None:
    """As of Libelium, with a number for each row, and of two boxes."""
    lines = each_hour('"#","%Y-%m-%d %H:%M:%S"')
    rows = [
        f"{i}{kind}{box},{line},{box},{kind},{value}"
        for i, line in enumerate(lines)
        for box in "AB"
        for kind, value in (("PM2_5", i + 0.5), ("TC", 20.5), ("HUM", i % 7 + 40.5))
    ]
    found = inspected("id,frame,timestamp,box,sensor,value", *rows)
    assert (found.rows, found.device_column) == (2 * ROWS, "box")
    assert [column.quantity for column in found.columns] == ["PM2.5", "T", "RH"]
    assert found.numbers["PM2_5"].to_list() == [i + 0.5 for i in range(ROWS) for _ in "AB"]


def test_a_header_under_the_table_of_an_instruments_bins(inspected) -> None:
    bins = ",".join(f"Bin{number}" for number in range(6))
    lines = ["OPC-N3", "", f"Bin:,{bins}", "Bin low boundary (um),0.35,0.46,0.66,1,1.3,1.7", "", "Data:"]
    header = f"OADateTime,{bins},RH(%),PM_A(ug/m^3),PM_B(ug/m^3)"
    rows = [f"{46000 + i / 24:.8f},{i},2,3,4,5,6,40.5,{i}.25,{i}.5" for i in range(ROWS)]
    found = inspected(*lines, header, *rows)
    assert found.numbers["PM_B(ug/m^3)"].to_list() == [i + 0.5 for i in range(ROWS)]
    assert (found.column("PM_B(ug/m^3)").quantity, found.column("PM_A(ug/m^3)").quantity) == ("PM2.5", "PM")


def test_lines_that_are_quoted_as_a_whole(inspected) -> None:
    rows = each_hour('"%Y-%m-%d %H:%M,""Roof, west"",#.5"')
    found = inspected('"time,place,pm25"', *rows)
    assert times(found) == HOURS
    assert found.numbers["pm25"].to_list() == [i + 0.5 for i in range(ROWS)]


def test_moments_need_no_name(inspected) -> None:
    rows = [f"{i}.5,{START.timestamp() + 3600 * i:.0f}000,0" for i in range(ROWS)]
    assert times(inspected(*rows)) == HOURS


def test_json_that_names_its_fields_elsewhere(inspected) -> None:
    feeds = [
        {"created_at": f"{hour:%Y-%m-%dT%H:%M:%SZ}", "entry_id": i, "field1": f"{i}.5"} for i, hour in enumerate(HOURS)
    ]
    channel = {"name": "Roof", "field1": "PM2.5 (ug/m3)", "created_at": "2025-01-01T00:00:00Z"}
    found = inspected(json.dumps({"channel": channel, "feeds": feeds}), name="feeds.json")
    assert [(column.name, column.quantity) for column in found.columns] == [("PM2.5 (ug/m3)", "PM2.5")]
    assert times(found) == HOURS


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("#YY  MM DD hh mm PRES ATMP", "%Y %m %d %H %M 1010.5 #"),
        ('"Vuosi","Kuukausi","Päivä","Aika [UTC]","PM2.5 [µg/m³]"', '"%Y","%-m","%-d","%H:%M","#.5"'),
        ("time,offset (mins),pm25", "%Y-%m-%d %H:%M,0,#.5"),
        ("Time,CO2", "%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time),4#"),
    ],
    ids=["buoy", "Finnish", "minutes ahead of UTC", "JavaScript"],
)
def test_times_as_they_are_written(inspected, header: str, row: str) -> None:
    assert times(inspected(header, *each_hour(row))) == HOURS


def test_a_column_of_minutes_ahead_of_utc(inspected) -> None:
    found = inspected("Date / time local,Timezone offset (mins),IR BCc", *each_hour("%Y-%m-%dT%H:%M:%S,-90,#.5"))
    assert times(found)[0] == START + timedelta(minutes=90)
    assert found.columns[0].quantity == "black carbon"


def test_hours_with_their_letter_and_in_french(inspected) -> None:
    rows = [f"{hour:%d/%m/%Y};{hour.hour + 1}h;{i}" for i, hour in enumerate(HOURS)]
    assert times(inspected("Date;Heure;PM10", *rows)) == [hour + timedelta(hours=1) for hour in HOURS]


def test_numbered_boxes_are_columns_of_values(inspected) -> None:
    rows = [f"{hour:%Y-%m-%d %H:%M},{i % 9 + 0.5},{i % 7},{i % 5 + 0.25}" for i, hour in enumerate(HOURS)]
    found = inspected("time,Box1,Box2,Reference", ",ug/m3,ug/m3,ug/m3", *rows)
    assert (found.device_column, [column.name for column in found.channels]) == ("", ["Box1", "Box2"])


def test_raw_and_rounded_values_by_their_parameter(inspected) -> None:
    """As of British Columbia, whose times are named by their zone."""
    lines = each_hour("%Y-%m-%d %H:%M,PM25,#.5,#,ug/m3") + each_hour("%Y-%m-%d %H:%M,O3,1#.5,1#,ppb")
    found = inspected("DATE_PST,PARAMETER,RAW_VALUE,ROUNDED_VALUE,UNIT", *lines)
    assert times(found) == [hour + timedelta(hours=8) for hour in HOURS]
    assert [(one.name, one.unit) for one in found.columns] == [("PM25", "ug/m3"), ("O3", "ppb")]
    assert found.numbers["PM25"].to_list() == [i + 0.5 for i in range(ROWS)]


def test_a_long_table_of_moments(inspected) -> None:
    rows = [f"{START.timestamp() + 3600 * i:.0f}000,{name},{i}.5" for name in ("pm25", "pm10") for i in range(ROWS)]
    found = inspected("_time,_field,_value", *rows)
    assert times(found) == HOURS
    assert [column.quantity for column in found.columns] == ["PM2.5", "PM10"]


def test_the_quantity_may_stand_before_the_table(inspected) -> None:
    lines = ['"Komponente";"PM10"', '"Einheit";"µg/m³"', "", "Datum;Uhrzeit;Messwert"]
    rows = [f"{hour:%d.%m.%Y;%H:%M};{i * i % 37},5" for i, hour in enumerate(HOURS)]
    (column,) = inspected(*lines, *rows).columns
    assert (column.quantity, column.unit, column.high) == ("PM10", "ug/m3", 36.5)


def test_hours_in_chinese(inspected) -> None:
    found = inspected("监测时间,PM2.5,温度(℃)", *each_hour("%Y年%m月%d日 %H时,#.5,9.#"))
    assert (times(found), [column.quantity for column in found.columns]) == (HOURS, ["PM2.5", "T"])


@pytest.mark.parametrize("name", ["{0:%Y-%m-%dT%H:%M:%SZ}", "-Mx{1}a"], ids=["by its time", "by a name"])
def test_json_of_records_under_keys(inspected, name: str) -> None:
    """As databases export them; a record under a name has a time of its own."""
    own = {} if "%" in name else {"ts": 0}
    records = {
        name.format(hour, i): {**({"ts": int(hour.timestamp())} if own else {}), "pm2_5": i + 0.5, "rh": 40 + i % 9}
        for i, hour in enumerate(HOURS)
    }
    found = inspected(json.dumps({"boxes": {"info": {"place": "Roof"}, "readings": records}}), name="export.json")
    assert times(found) == HOURS
    assert found.numbers["pm2_5"].to_list() == [i + 0.5 for i in range(ROWS)]


def test_stations_are_told_apart_in_other_languages(inspected) -> None:
    rows = [f"{station};{line}" for station in (4, 8) for line in each_hour("%Y-%m-%d %H:%M;1#")]
    assert inspected("ESTACION;fecha;NO2", *rows).device_column == "ESTACION"


def test_saturated_air_is_no_doubt(inspected) -> None:
    found = inspected(
        "time,RH,T", *(f"{hour:%Y-%m-%d %H:%M},{100.2 + i % 5 / 10},1{i % 7}" for i, hour in enumerate(HOURS))
    )
    assert not [note for note in found.notes if "cannot be" in note]


def test_a_log_that_names_its_values_without_a_header(inspected) -> None:
    """As of FHEM."""
    lines = [
        line
        for pair in zip(
            each_hour("%Y-%m-%d_%H:%M:%S Box PM2.5: #.5"), each_hour("%Y-%m-%d_%H:%M:%S Box PM10: @"), strict=True
        )
        for line in pair
    ]
    found = inspected(*lines, name="box.log")
    assert (times(found), [column.quantity for column in found.columns]) == (HOURS, ["PM2.5", "PM10"])
    assert found.numbers["PM2.5:"].to_list() == [i + 0.5 for i in range(ROWS)]


def test_the_minus_sign_of_mathematics_and_bars(inspected) -> None:
    found = inspected("time;P1 [bar];temp", *each_hour("%Y-%m-%d %H:%M;0.9#;−1#"))
    assert [(one.quantity, one.unit) for one in found.columns] == [("pressure", "bar"), ("T", "degC")]
    assert found.column("temp").high == -10
