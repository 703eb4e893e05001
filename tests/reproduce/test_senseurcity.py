"""The paper's data: files found and cut as stated, windows and splits worked out by hand."""

import logging
import re
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reproduce.senseurcity import (
    SENSORS,
    City,
    Pollutant,
    ReferenceKind,
    SensorOrder,
    WindowRule,
    close_gaps,
    complete_rows,
    read_senseurcity,
    split_readings,
    split_sensors,
    strict_windows,
    tesla_windows,
)
from scare.errors import DataError

HEADER = (
    "date,latitude,Location.ID,SHT31TE,5301CAT,5325CAT,5310CAT,OPCN3PM1,OPCN3PM25,OPCN3PM10,"
    "5301CAT_flag,Ref.Long,Ref.PM10,Ref.PM2.5,Ref.PM1"
)
SITE = "ANT_REF_R801"


def row(minute, location=SITE, sensor="10", truth="20"):
    return (
        f"2020-04-02T12:{minute:02d}:00Z,51.2,{location},,1{sensor},2{sensor},{sensor},"
        f"1{truth},2{truth},{truth},W,,3{truth},4{truth},5{truth}"
    )


def write(folder, name, rows, header=HEADER):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder


def read(path, **options):
    return read_senseurcity(path, City.ANTWERP, Pollutant.PM10, **options)


def minutes(readings):
    return ((readings.times // 60) % 60).astype(int).tolist()


@pytest.fixture
def two_sensors(tmp_path):
    write(tmp_path / "dataset", "Antwerp_4043AE.csv", [row(1), row(2)])
    return write(tmp_path / "dataset", "Antwerp_402B00.csv", [row(3), row(4, sensor="11.5")]).parent


@pytest.fixture
def archive(two_sensors, tmp_path):
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(two_sensors.rglob("*.csv")):
            packed.write(file, f"senseurcity_data_v02/dataset/{file.name}")
            packed.writestr(f"__MACOSX/dataset/._{file.name}", b"\0")
    return path


def test_a_folder_is_read_in_list_order(two_sensors):
    first, second = read(two_sensors)
    assert (first.device, second.device) == ("402B00", "4043AE")
    assert first.site == SITE
    assert [(c.name, c.unit) for c in (*first.channels, first.reference)] == [
        ("5310CAT", "ug/m3"),
        ("OPCN3PM10", "ug/m3"),
    ]
    assert minutes(first) == [3, 4]
    assert first.values.tolist() == [[10.0], [11.5]]
    assert first.targets.tolist() == [20.0, 20.0]


def test_the_zip_gives_what_the_folder_gives(two_sensors, archive):
    for packed, unpacked in zip(read(archive), read(two_sensors), strict=True):
        assert packed.device == unpacked.device
        assert packed.frame.equals(unpacked.frame)


@pytest.mark.parametrize(
    ("pollutant", "kind", "sensor", "truth"),
    [
        (Pollutant.PM10, ReferenceKind.OPC, 10, 20),
        (Pollutant.PM25, ReferenceKind.OPC, 210, 220),
        (Pollutant.PM1, ReferenceKind.OPC, 110, 120),
        (Pollutant.PM10, ReferenceKind.MONITOR, 10, 320),
        (Pollutant.PM25, ReferenceKind.MONITOR, 210, 420),
        (Pollutant.PM1, ReferenceKind.MONITOR, 110, 520),
    ],
)
def test_each_pollutant_has_its_columns(tmp_path, pollutant, kind, sensor, truth):
    write(tmp_path, "Zagreb_64C52B.csv", [row(1, "ZAG_REF_IMI")])
    (readings,) = read_senseurcity(tmp_path, City.ZAGREB, pollutant, kind)
    assert readings.values.tolist() == [[sensor]]
    assert readings.targets.tolist() == [truth]


@pytest.mark.parametrize(
    ("places", "site", "kept"),
    [
        ([SITE, SITE, "", SITE], SITE, [0, 1]),
        (["", "VITO", SITE, SITE, "ANT_REF_R802"], SITE, [2, 3]),
        (["ANT_REF_R802", SITE, SITE], "ANT_REF_R802", [0]),
        (["NA", SITE], SITE, [1]),
    ],
)
def test_the_first_stay_at_a_reference_site_is_kept(tmp_path, places, site, kept):
    write(tmp_path, "Antwerp_402B00.csv", [row(m, place) for m, place in enumerate(places)])
    (readings,) = read(tmp_path)
    assert readings.site == site
    assert minutes(readings) == kept


def test_stays_follow_time_not_the_file(tmp_path):
    rows = [row(5, sensor="7"), row(1), row(3, ""), row(0), row(1, sensor="8")]
    write(tmp_path, "Antwerp_402B00.csv", rows)
    (readings,) = read(tmp_path)
    assert minutes(readings) == [0, 1]
    assert readings.values.tolist() == [[10.0], [10.0]]


def test_a_missing_value_does_not_end_a_stay(tmp_path):
    rows = [row(1), row(2, sensor=""), row(3, truth="NA"), row(4)]
    rows[1] = rows[1].replace(",1,2,,", ",,,,")
    rows[2] = re.sub(r"\dNA", "", rows[2])
    write(tmp_path, "Antwerp_402B00.csv", rows)
    (readings,) = read(tmp_path)
    assert minutes(readings) == [1, 2, 3, 4]
    assert np.isnan(readings.values[:, 0]).tolist() == [False, True, False, False]
    assert np.isnan(readings.targets).tolist() == [False, False, True, False]
    assert minutes(complete_rows(readings)) == [1, 4]


def test_a_sensor_never_at_a_reference_site_is_left_out_with_a_note(tmp_path, caplog):
    write(tmp_path, "Antwerp_402B00.csv", [row(1, "VITO"), row(2, "")])
    write(tmp_path, "Antwerp_4043AE.csv", [row(1)])
    assert [readings.device for readings in read(tmp_path)] == ["4043AE"]
    assert caplog.messages == ["Antwerp_402B00.csv is left out: the box was never at a reference site"]


def test_sensors_outside_the_list_are_ignored(two_sensors):
    write(two_sensors, "Antwerp_402B01.csv", [row(1)])
    write(two_sensors, "Oslo_64A291.csv", [row(1)])
    assert [readings.device for readings in read(two_sensors)] == ["402B00", "4043AE"]


def test_a_file_found_twice_is_refused(two_sensors):
    write(two_sensors / "older", "Antwerp_402B00.csv", [row(1)])
    with pytest.raises(DataError, match=r"has both .*Antwerp_402B00.csv and .*Antwerp_402B00.csv"):
        read(two_sensors)


def test_a_folder_without_listed_sensors_is_refused(tmp_path):
    write(tmp_path, "Antwerp_402B01.csv", [row(1)])
    with pytest.raises(DataError, match=r"such as Antwerp_402B00\.csv; name the record.s zip"):
        read(tmp_path)


def test_a_path_to_nothing_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*nowhere: No such file"):
        read(tmp_path / "nowhere")


def test_a_truncated_zip_is_refused(archive):
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"data\.zip is not a complete zip archive"):
        read(archive)


def test_a_damaged_file_in_the_zip_is_named(archive):
    content = bytearray(archive.read_bytes())
    start = content.index(b"Antwerp_402B00.csv") + len("Antwerp_402B00.csv")
    content[start + 20 : start + 60] = bytes(40)
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read senseurcity_data_v02/dataset/Antwerp_402B00\.csv in"):
        read(archive)


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("date", {}),
        ("Location.ID", {}),
        ("5310CAT", {}),
        ("OPCN3PM10", {}),
        ("Ref.PM10", {"reference": ReferenceKind.MONITOR}),
    ],
)
def test_a_missing_column_is_named(tmp_path, column, options):
    write(tmp_path, "Antwerp_402B00.csv", [row(1)], HEADER.replace(column, "other", 1))
    with pytest.raises(DataError, match=re.escape(f"Antwerp_402B00.csv has no column {column}")):
        read(tmp_path, **options)


@pytest.mark.parametrize("content", ["", HEADER + "\n" + row(1, sensor="ten"), HEADER + "\n" + row(1)[6:]])
def test_an_unreadable_file_is_named_in_one_line(tmp_path, content):
    (tmp_path / "Antwerp_402B00.csv").write_text(content)
    with pytest.raises(DataError, match=r"^cannot read Antwerp_402B00\.csv: [^\n]+$"):
        read(tmp_path)


# Windows of 5 rows: TESLA tests 5 to 90,000 minutes over 6 rows, strict at most 6 minutes over 5 rows.


def windows(rule, at_minutes, window=5):
    return rule(np.array(at_minutes, dtype=float) * 60, window).tolist()


def test_every_row_with_enough_past_ends_a_window():
    assert windows(tesla_windows, range(8)) == [4, 5, 6]
    assert windows(strict_windows, range(8)) == [4, 5, 6, 7]


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_too_few_rows_give_no_window(rows):
    assert windows(tesla_windows, range(rows)) == []
    assert windows(strict_windows, range(rows)) == []


def test_one_full_window_counts_for_strict_only():
    assert windows(tesla_windows, range(5)) == []
    assert windows(strict_windows, range(5)) == [4]


def test_a_gap_passes_tesla_and_not_strict():
    rows = [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert windows(tesla_windows, rows) == [4, 5, 6, 7, 8]
    assert windows(strict_windows, rows) == [4, 9]


def test_strict_allows_a_fifth_more_time_than_rows():
    assert windows(strict_windows, [0, 1, 2, 3, 6]) == [4]
    assert windows(strict_windows, [0, 1, 2, 3, 6.02]) == []


def test_tesla_has_an_upper_bound_of_months():
    assert windows(tesla_windows, [0, 1, 2, 3, 4, 90_000]) == [4]
    assert windows(tesla_windows, [0, 1, 2, 3, 4, 90_001]) == []
    assert windows(tesla_windows, [0, 1, 8_640_000], window=2) == []


def test_dense_rows_fail_tesla_and_pass_strict():
    rows = [0, 1, 2, 3, 3.5, 4, 5, 6, 7, 8, 9, 10]
    assert windows(tesla_windows, rows) == [9, 10]
    assert windows(strict_windows, rows) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_a_duplicate_fails_tesla_wherever_the_tested_span_holds_it():
    rows = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]
    assert windows(tesla_windows, rows) == [9]


def test_a_gap_hides_dense_rows_from_tesla():
    assert windows(tesla_windows, [0, 0.1, 0.2, 0.3, 0.4, 50]) == [4]


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 12))
def test_windows_follow_the_rule_read_row_by_row(steps, window):
    times = np.cumsum(steps) if steps else np.empty(0)
    tesla = [
        i - 1
        for i in range(window, len(times))
        if window <= (times[i] - times[i - window]) / 60 <= int(1.2 * window) * 15000
    ]
    strict = [i - 1 for i in range(window, len(times) + 1) if (times[i - 1] - times[i - window]) * 5 <= 6 * window * 60]
    assert tesla_windows(times, window).tolist() == tesla
    assert strict_windows(times, window).tolist() == strict


@pytest.mark.parametrize(
    ("city", "order", "count", "validation", "test"),
    [
        (City.ANTWERP, SensorOrder.PUBLISHED, 30, "408175", "408178"),
        (City.ANTWERP, SensorOrder.ALPHABETICAL, 30, "408175", "408178"),
        (City.OSLO, SensorOrder.PUBLISHED, 21, "649526", "653257"),
        (City.OSLO, SensorOrder.ALPHABETICAL, 21, "652FAF", "653257"),
        (City.ZAGREB, SensorOrder.PUBLISHED, 14, "648169", "649738"),
        (City.ZAGREB, SensorOrder.ALPHABETICAL, 14, "652A38", "652FA1"),
    ],
)
def test_the_splits_are_those_of_the_protocol(city, order, count, validation, test):
    training, *held_out = split_sensors(city, order)
    assert held_out == [validation, test]
    assert len({*training, *held_out}) == len(SENSORS[city]) == count
    assert {*training, *held_out} == set(SENSORS[city])


@pytest.fixture
def antwerp(tmp_path):
    for sensor in ("402B00", "408175", "408178"):
        write(tmp_path, f"Antwerp_{sensor}.csv", [row(1)])
    return read(tmp_path)


def test_missing_training_sensors_are_noted(antwerp, caplog):
    training, validation, test = split_readings(antwerp, City.ANTWERP)
    assert [one.device for one in (*training, validation, test)] == ["402B00", "408175", "408178"]
    (message,) = caplog.messages
    assert message.startswith("Antwerp: no readings of training sensors 4043AE, 4043B1,")
    assert message.endswith("408165, 408168")


def test_nothing_is_noted_when_all_sensors_are_there(tmp_path, caplog):
    for sensor in SENSORS[City.ZAGREB]:
        write(tmp_path, f"Zagreb_{sensor}.csv", [row(1)])
    readings = read_senseurcity(tmp_path, City.ZAGREB, Pollutant.PM1)
    training, _, test = split_readings(readings, City.ZAGREB, SensorOrder.ALPHABETICAL)
    assert [one.device for one in training] == sorted(SENSORS[City.ZAGREB])[:-2]
    assert test.device == "652FA1"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(("sensor", "role"), [("408175", "validation"), ("408178", "test")])
def test_a_missing_held_out_sensor_is_refused(antwerp, sensor, role):
    rest = [readings for readings in antwerp if readings.device != sensor]
    with pytest.raises(DataError, match=f"no readings of Antwerp {sensor}, the {role} sensor of the published"):
        split_readings(rest, City.ANTWERP)


def test_closed_gaps_give_each_rule_its_windows(tmp_path):
    at = [0, 1, 2, 3, 4, 20, 21, 22, 23, 24]
    write(tmp_path, "Antwerp_402B00.csv", [row(minute, sensor=str(minute)) for minute in at])
    (readings,) = read(tmp_path)
    for rule, ends in ((WindowRule.TESLA, [4, 5, 6, 7, 8]), (WindowRule.STRICT, [4, 9])):
        closed = close_gaps(readings, rule, 5)
        assert np.flatnonzero(np.isfinite(closed.targets)).tolist() == ends
        assert np.diff(closed.times).tolist() == [60.0] * 9
        assert closed.values[:, 0].tolist() == at
