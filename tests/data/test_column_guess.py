"""What an inspection sees in small tables, and that its mapping reads them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.data.column_guess import Inspection, inspect_table
from scare.data.column_mapping import ColumnMapping, read_readings
from scare.data.quantities import guess_unit
from scare.data.readings import Channel
from scare.data.tables import TableOptions
from scare.errors import DataError
from tests.data.column_mappings import read_mapping


@pytest.fixture
def inspected(tmp_path: Path) -> Callable[[str], Inspection]:
    def inspect(text: str) -> Inspection:
        path = tmp_path / "box.csv"
        path.write_text(text, encoding="utf-8")
        return inspect_table(path)

    return inspect


Inspect = Callable[[str], Inspection]


def test_a_plain_table_is_described_and_read(inspected: Inspect) -> None:
    found = inspected(
        "date;pm25;temperature;Ref.Temp;Ref.PM2.5\n"
        "01/01/2026 12:00;1,5;20;19;3\n01/01/2026 12:01;;21;18;4\n01/01/2026 12:02;2,5;22;17;5\n"
    )
    assert (found.table.delimiter, found.rows, found.time, found.step_seconds) == (";", 3, ("date",), 60)
    assert [f"{time:%H:%M}" for time in found.span] == ["12:00", "12:02"]
    assert found.mapping == ColumnMapping(
        ("date",),
        (Channel("pm25", "ug/m3", -100, 1100), Channel("temperature", "degC", -52.5, 97.5)),
        Channel("Ref.PM2.5", "ug/m3", -100, 1100),
    )
    summary = found.channels[0]
    assert (summary.missing, summary.low, summary.median, summary.high) == (1 / 3, 1.5, 2.0, 2.5)
    assert len(read_readings(found.table.path, found.mapping)[0]) == 3


def test_the_proposed_toml_is_the_mapping(inspected: Inspect, tmp_path: Path) -> None:
    mapping = inspected("time,pm10\n2026-01-01,1\n2026-01-02,2.5\n").mapping
    (tmp_path / "columns.toml").write_text(mapping.to_toml())
    assert read_mapping(tmp_path / "columns.toml") == mapping


def test_date_and_time_columns_are_found_together(inspected: Inspect) -> None:
    found = inspected("Time,Date,CO\n18.00.00,10/03/2004,1\n19.00.00,13/03/2004,2.5\n")
    assert found.time == ("Date", "Time")


def test_a_time_column_needs_no_telling_name(inspected: Inspect) -> None:
    assert inspected("note,when,CO\nx,2026-01-01,1\ny,2026-01-02,2.5\n").time == ("when",)


def test_unix_seconds_are_found_by_name(inspected: Inspect) -> None:
    assert inspected("serial,timestamp,CO\n1,1767268800,1\n1,1767268860,2.5\n").time == ("timestamp",)


def test_disorder_repeats_and_gaps_are_counted_and_sorted_away(inspected: Inspect) -> None:
    minutes = [0, 1, 2, 2, 5, 4, 6, 26]
    rows = "".join(f"2026-01-01 12:{minute:02d},{minute}.5\n" for minute in minutes)
    found = inspected("time,pm25\n" + rows)
    assert (found.duplicates, found.out_of_order, found.step_seconds) == (1, 1, 60)
    assert found.gaps_seconds.tolist() == [1200, 120]
    assert found.mapping.sort
    assert len(read_readings(found.table.path, found.mapping)[0]) == 7


def test_the_column_that_tells_equal_times_apart_is_the_device(inspected: Inspect) -> None:
    rows = "".join(f"{site},{box},2026-01-0{day},{day}.5\n" for site, box in ("xa", "xb", "yc") for day in range(1, 5))
    found = inspected("Location.ID,box,time,pm25\n" + rows)
    assert (found.device_column, found.site_column, found.duplicates) == ("box", "Location.ID", 0)
    assert [r.device for r in read_readings(found.table.path, found.mapping)] == ["a", "b", "c"]


def test_a_single_device_is_found_by_its_name_even_as_a_number(inspected: Inspect) -> None:
    found = inspected("device_id,time,pm25\n7,2026-01-01,1\n7,2026-01-02,2.5\n")
    assert found.device_column == "device_id"
    assert [column.name for column in found.channels] == ["pm25"]


def test_flags_places_ids_and_row_numbers_are_no_channels(inspected: Inspect) -> None:
    header = ",time,lat,Longitude,pm25_flag,station_id,hour,empty,pm25,counts"
    rows = [f"{row},2026-01-01 0{row}:00,50.1,4.2,0,12,{row},,{row}.5,{row * row}" for row in range(4)]
    found = inspected("\n".join([header, *rows]))
    assert [column.name for column in found.columns] == ["pm25", "counts"]


def test_a_count_of_the_rows_is_no_channel(inspected: Inspect) -> None:
    rows = "".join(f"{row},2026-01-01 {row:02d}:00,{row**2}\n" for row in range(1, 13))
    assert [column.name for column in inspected("X,time,co\n" + rows).columns] == ["co"]


@pytest.mark.parametrize(
    "name", ["Ref.NO2", "ref", "reference", "no2_ref", "NO2 reference", "CO(GT)", "PM2.5 FEM", "city monitor"]
)
def test_reference_names_are_known(inspected: Inspect, name: str) -> None:
    found = inspected(f"time,refresh,{name}\n2026-01-01,1,3.5\n2026-01-02,2.5,4\n")
    assert ([c.name for c in found.references], [c.name for c in found.channels]) == ([name], ["refresh"])


@pytest.mark.parametrize(("often", "seen"), [(-200, [-200]), (65535, [65535]), (-1, [-1]), (7, [])])
def test_numbers_that_mean_no_reading_are_seen(inspected: Inspect, often: int, seen: list[int]) -> None:
    values = [3, often, 4, often, 5.5, often]
    rows = "".join(f"2026-01-0{day},{value}\n" for day, value in enumerate(values, 1))
    assert list(inspected("time,co\n" + rows).channels[0].sentinels) == seen


def test_an_ordinary_low_value_is_no_sentinel(inspected: Inspect) -> None:
    values = [-1, -1, -1, -4, 6, 3.5]
    rows = "".join(f"2026-01-0{day},{value}\n" for day, value in enumerate(values, 1))
    assert inspected("time,temp\n" + rows).channels[0].sentinels == ()


def test_one_row_has_no_step(inspected: Inspect) -> None:
    found = inspected("time,co\n2026-01-01,1\n")
    assert np.isnan(found.step_seconds)
    assert len(found.gaps_seconds) == 0


def test_a_table_without_times_is_refused(inspected: Inspect) -> None:
    with pytest.raises(DataError, match=r"box\.csv: no column holds times; there are a, b"):
        inspected("a,b\nx,1\n")


def test_a_table_without_channels_has_no_mapping(inspected: Inspect) -> None:
    with pytest.raises(DataError, match="no column looks like a sensor's"):
        _ = inspected("time,flag\n2026-01-01,W\n").mapping


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *(("PM2.5", "ug/m3"), ("no2_ppb", "ppb"), ("CO [mg/m3]", "mg/m3"), ("NO2 (µg/m³)", "ug/m3")),
        *(("RH", "%"), ("T", "degC"), ("pressure", "hPa"), ("Absolute_humidity", "g/m3"), ("NO2", "")),
    ],
)
def test_units_are_guessed_from_names(name: str, unit: str) -> None:
    assert guess_unit(name) == unit


# --- by evidence ---


def day(columns: str, row: Callable[[int], str], rows: int = 200) -> str:
    """A table of ten-minute rows with these columns."""
    start = datetime(2026, 1, 1)
    stamps = [f"{start + timedelta(minutes=10 * number):%Y-%m-%d %H:%M}" for number in range(rows)]
    return "\n".join([f"time,{columns}", *(f"{stamp},{row(number)}" for number, stamp in enumerate(stamps))])


def wave(row: int, period: float, size: float = 10.0) -> float:
    return round(20 + size * float(np.sin(row / period)) + (row * 7919 % 13) / 10, 2)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("Param_Code", lambda row: 88101, "a code"),
        ("fault", lambda row: row % 3, "a code"),
        ("gain", lambda row: 2.5, "always the same"),
        ("packet", lambda row: 1000 + 2 * row, "a counter"),
        ("Site_Lat", lambda row: 35.89, "a place"),
        ("RSSI_dbm", lambda row: -70 - row % 9, "the state of the device"),
        ("NowCast", lambda row: row / 7, "an index"),
    ],
)
def test_what_is_no_measurement_is_no_channel_and_it_is_said(
    inspected: Inspect, name: str, value: Callable[[int], float], why: str
) -> None:
    found = inspected(day(f"{name},pm25", lambda row: f"{value(row)},{wave(row, 9)}"))
    assert [column.name for column in found.columns] == ["pm25"]
    assert dict(found.left_out) == {name: why}


def test_the_sensor_has_the_quantity_of_the_reference_wherever_it_stands(inspected: Inspect) -> None:
    found = inspected(
        day("RH,T,NO2,CO,Ref.CO,Ref.NO2", lambda row: ",".join(str(wave(row, period)) for period in (5, 6, 7, 8, 9, 7)))
    )
    mapping, notes = found.propose("NO2")
    assert mapping.reference == Channel("Ref.NO2")
    assert [channel.name for channel in mapping.channels] == ["NO2", "RH", "T", "CO"]
    assert found.mapping.reference == Channel("Ref.CO")
    assert found.mapping.channels[0].name == "CO"
    others = "the reference is Ref.CO; there are also Ref.NO2 (choose with --reference or --quantity)"
    assert others in found.propose()[1]
    assert notes == []


def test_of_unknown_cells_the_one_that_correlates_best_is_the_sensor(inspected: Inspect) -> None:
    found = inspected(
        day("cell1,cell2,T,ref", lambda row: ",".join(str(wave(row, period)) for period in (5, 7, 20, 7.01)))
    )
    mapping, notes = found.propose()
    assert [channel.name for channel in mapping.channels] == ["cell2", "cell1", "T"]
    assert any("cell2 correlates best with it (" in note for note in notes)


def test_channels_that_say_the_same_and_other_weather_stay_out(inspected: Inspect) -> None:
    def row(number: int) -> str:
        pm = wave(number, 9)
        return f"{pm},{round(1.1 * pm, 2)},{wave(number, 30)},{wave(number, 25)},{wave(number, 40)},{wave(number, 4)}"

    mapping, notes = inspected(day("pm25,pm10,temperature,humidity,wind,NO2", row)).propose()
    assert [channel.name for channel in mapping.channels] == ["pm25", "temperature", "humidity"]
    assert notes == ["not used: pm10, wind, NO2 (add a column with --channels)"]


def test_humidity_stays_beside_a_temperature_that_mirrors_it_and_fine_particles_come_first(inspected: Inspect) -> None:
    def row(number: int) -> str:
        return f"{wave(number, 9, 4)},{wave(number, 7)},{wave(number, 30)},{90 - wave(number, 30)}"

    mapping, _ = inspected(day("pm1,pm2.5,temperature,humidity", row)).propose()
    assert [channel.name for channel in mapping.channels] == ["pm2.5", "pm1", "temperature", "humidity"]


def test_a_temperature_of_64_to_108_is_in_fahrenheit_and_it_is_said(inspected: Inspect) -> None:
    found = inspected(day("pm25,temperature", lambda row: f"{wave(row, 9)},{86 + 22 * np.sin(row / 20):.1f}"))
    channel = found.mapping.channels[1]
    assert (channel.name, channel.unit) == ("temperature", "degF")
    assert (channel.low, channel.high) == pytest.approx((-62.5, 207.5))
    assert any(note.startswith("temperature: values up to 108 are not in °C; taken as °F") for note in found.notes)


def test_a_dust_monitor_in_milligrams_is_told_by_its_values(inspected: Inspect) -> None:
    found = inspected(day("pm25,Ref.PM2.5", lambda row: f"{wave(row, 9)},{wave(row, 9) / 1000:.4f}"))
    assert found.mapping.reference == Channel("Ref.PM2.5", "mg/m3", -0.1, 1.1)


@pytest.mark.parametrize(
    ("name", "code", "limits"), [("humidity", 255, (-10, 110)), ("temperature", -127, (-52.5, 97.5))]
)
def test_codes_beyond_the_plausible_range_count_as_missing(
    inspected: Inspect, name: str, code: int, limits: tuple[float, float]
) -> None:
    found = inspected(day(f"pm25,{name}", lambda row: f"{wave(row, 9)},{code if row % 20 == 3 else wave(row, 30)}"))
    channel = found.mapping.channels[1]
    assert (channel.low, channel.high) == limits
    assert any(f"{name}: {code} (10 times) means 'no reading' and counts" in note for note in found.notes)


def test_a_parameter_column_gives_the_value_its_quantity(inspected: Inspect) -> None:
    found = inspected(day("Parameter Name,Value", lambda row: f"Ozone,{wave(row, 9)}"))
    assert found.columns[0].quantity == "O3"


def test_a_quantity_may_rise_evenly_in_a_short_file(inspected: Inspect) -> None:
    rows = "".join(f"2026-01-01 {hour:02}:00,{hour + 1},{400 + hour},{hour / 2}\n" for hour in range(20))
    found = inspected("time,No,CO2,Temperature\n" + rows)
    assert [one.name for one in found.columns] == ["CO2", "Temperature"]
    assert dict(found.left_out) == {"No": "a counter"}


def test_a_column_whose_text_comes_late_stays_text_and_codes_of_numbers_count(tmp_path: Path) -> None:
    """Large files become numbers block by block; the first block alone must not decide."""
    rows, path = 270_000, tmp_path / "large.csv"
    times = pl.datetime_range(datetime(2026, 1, 1), interval="1s", end=datetime(2026, 1, 9), eager=True)[:rows]
    boxes = ["007" if i < 200_000 else "box-2" for i in range(rows)]
    values = [-555.0 if i % 50 == 7 else i * i % 97 + 0.25 for i in range(rows)]
    pl.DataFrame({"time": times, "device": boxes, "pm25": values}).write_csv(path)
    found = inspect_table(path, TableOptions(missing=("-555",)))
    assert found.device_column == "device"
    assert found.stamps["device"].unique(maintain_order=True).to_list() == ["007", "box-2"]
    assert found.column("pm25").low == 0.25
    assert found.rows == rows


def test_sizes_in_tenths_of_a_micrometre_are_told_by_the_largest(inspected: Inspect) -> None:
    found = inspected(day("pm10 env,pm25 env,pm100 env", lambda row: f"{wave(row, 9)},{wave(row, 8)},{wave(row, 7)}"))
    assert [one.quantity for one in found.columns] == ["PM", "PM2.5", "PM10"]
    assert [found.columns[0].measures(name) for name in ("PM", "PM10")] == [True, False]


def test_masses_of_one_instrument_are_in_one_unit(inspected: Inspect) -> None:
    found = inspected(day("pm1,pm10", lambda row: f"{wave(row, 9) / 1000:.4f},{wave(row, 9)}"))
    assert [one.unit for one in found.columns] == ["ug/m3", "ug/m3"]


@pytest.mark.parametrize(
    ("name", "quantity", "unit"),
    [
        *(("PM2.5 (particles)", "particle count", ""), ("PM2.5 (µg/m³)", "PM2.5", "ug/m3")),
        *(("Wind Chill [degF]", "T", "degF"), ("Humidity (g/kg)", "", ""), ("CO2 cell temperature (C)", "T", "degC")),
        *(("Registros no validados", "", ""), ("KpAirpWik", "", ""), ("Torremolinos", "", "")),
    ],
)
def test_a_unit_that_contradicts_a_name_counts(inspected: Inspect, name: str, quantity: str, unit: str) -> None:
    (column,) = inspected(day(f'"{name}"', lambda row: wave(row, 9))).columns
    assert (column.quantity, column.unit) == (quantity, unit)


def test_the_quality_of_a_column_is_no_channel(inspected: Inspect) -> None:
    found = inspected(day("pm25,calidad_pm25,air_quality", lambda row: f"{wave(row, 9)},{wave(row, 2)},{wave(row, 5)}"))
    assert dict(found.left_out) == {"calidad_pm25": "a code"}


def test_a_code_far_below_zero_counts_even_once(inspected: Inspect) -> None:
    found = inspected(day("so2", lambda row: "-9999" if row == 7 else wave(row, 9)))
    assert found.columns[0].sentinels == (-9999.0,)
    assert "so2: -9999 (1 time) means 'no reading' and counts as missing" in found.notes


@pytest.mark.parametrize(
    ("header", "label"),
    [("end_device_ids.device_id", "box-{}"), ("Name", "{}"), ("Station code", "{}")],
)
def test_a_device_may_be_named_by_numbers_or_within_a_message(inspected: Inspect, header: str, label: str) -> None:
    rows = [
        f"2026-01-13 {hour:02}:00,{label.format(box)},{hour * box % 7 + box / 2}\n"
        for hour in range(24)
        for box in (1, 2)
    ]
    assert inspected(f"time,{header},pm25\n" + "".join(rows)).device_column == header
