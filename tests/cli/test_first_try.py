"""A stranger's first try: two files as they were exported, and no option but their names."""

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from scare.calibrator.calibrator import Calibrator
from tests.cli.output import RunCli

DAY, HOUR = 86400, 3600
START = datetime(2026, 1, 5, tzinfo=UTC)


def air(days: int, step: int) -> dict[str, np.ndarray]:
    """Made air with a value at the end of each step, and what a laser counter makes of it: more in humid air."""
    draw, seconds = np.random.default_rng(1), np.arange(step, days * DAY + 1, step)
    kept = np.exp(-step / (4 * HOUR))
    noise = draw.normal(0, np.sqrt(1 - kept**2), len(seconds) + 2000)
    pm = np.exp(2.4 + 0.6 * np.convolve(noise, kept ** np.arange(2000))[2000 : 2000 + len(seconds)])
    hours = 2 * np.pi * seconds / DAY
    humidity = 60 - 15 * np.sin(hours) + draw.normal(0, 1, len(seconds))
    raw = pm * (1.4 + 0.006 * (humidity - 50)) * np.exp(draw.normal(0, 0.03, len(seconds)))
    return {"seconds": seconds, "pm": pm, "T": 18 + 6 * np.sin(hours), "RH": humidity, "raw": raw}


def hourly(made: dict[str, np.ndarray]) -> list[tuple[datetime, float]]:
    """The end of each hour and its mean."""
    means = made["pm"].reshape(-1, HOUR // int(made["seconds"][0])).mean(axis=1)
    return [(START + timedelta(hours=hour), float(value)) for hour, value in enumerate(means, 1)]


def write(path: str, rows: list[list[object]], delimiter: str = ",", encoding: str = "utf-8") -> None:
    with Path(path).open("w", encoding=encoding, newline="") as handle:
        csv.writer(handle, delimiter=delimiter).writerows(rows)


def write_purpleair(made: dict[str, np.ndarray]) -> None:
    """The history of PurpleAir's API: Unix seconds, degrees Fahrenheit, two laser counters, B blind for a day."""
    rows: list[list[object]] = [
        ["time_stamp", "rssi", "uptime", "humidity", "temperature", "pm2.5_cf_1_a", "pm2.5_cf_1_b"]
    ]
    for row, second in enumerate(made["seconds"]):
        blind = 10 * DAY <= second < 11 * DAY
        raw, hour = made["raw"][row], START + timedelta(seconds=int(second))
        state = [int(hour.timestamp()), -60 - row % 7, row * 2]
        weather = [f"{made['RH'][row]:.0f}", f"{1.8 * made['T'][row] + 32:.0f}"]
        rows.append([*state, *weather, f"{0.98 * raw:.2f}", f"{(0.2 if blind else 1.02) * raw:.2f}"])
    write("purpleair.csv", rows)


def write_aqs(values: list[tuple[datetime, float]]) -> None:
    """An hourly file of EPA's Air Quality System: local standard time and GMT of the beginning of each hour."""
    place = ["State Code", "County Code", "Site Num", "Parameter Code", "POC", "Latitude", "Longitude", "Datum"]
    value_columns = ["Sample Measurement", "Units of Measure", "MDL", "Uncertainty", "Qualifier", "Method Code"]
    times = ["Parameter Name", "Date Local", "Time Local", "Date GMT", "Time GMT"]
    rows: list[list[object]] = [[*place, *times, *value_columns]]
    for end, value in values:
        begin = end - timedelta(hours=1)
        local = begin - timedelta(hours=5)
        stamps = [f"{one:{form}}" for one in (local, begin) for form in ("%Y-%m-%d", "%H:%M")]
        site = ["37", "063", "0099", "88101", 3, 35.889402, -78.874699, "WGS84", "PM2.5 - Local Conditions"]
        rows.append([*site, *stamps, f"{value:.1f}", "Micrograms/cubic meter (LC)", 5, "", "", 238])
    write("aqs.csv", rows)


def test_a_purpleair_history_and_an_aqs_file_give_a_model(scare: RunCli) -> None:
    made = air(30, 600)
    write_purpleair(made)
    write_aqs(hourly(made))
    output = scare("scare train purpleair.csv --reference-file aqs.csv --json")
    assert output.code == 0, output.err
    model = Calibrator.load("model.scare")
    assert [(one.name, one.unit) for one in model.inputs.channels] == [
        *(("pm2.5_cf_1", "ug/m3"), ("temperature", "degF"), ("humidity", "%"))
    ]
    assert (model.target.name, model.target.unit, model.inputs.step_seconds) == ("PM2.5", "ug/m3", 3600.0)
    for sentence in (
        "pm2.5_cf_1 is the mean of pm2.5_cf_1_a and pm2.5_cf_1_b; it is missing in 1",
        "purpleair.csv: This looks like a PurpleAir history file.",
        "Sample Measurement is PM2.5 in µg/m³",
        "a time is the beginning of its 1 hour; moved to the end",
        "purpleair: the clocks agree (correlation 0.9",
        "purpleair: averaged readings from 10 minutes to 1 hour",
    ):
        assert sentence in output.err, output.err
    found = json.loads(output.out)
    assert "aqs.csv: Sample Measurement is PM2.5 in µg/m³" in found["notes"]
    assert found["scores"]["linear, all"]["rmse"] < found["scores"]["raw"]["rmse"] / 4
    assert scare("scare predict model.scare purpleair.csv").code == 0


def write_german_logger(made: dict[str, np.ndarray]) -> None:
    """Semicolons, decimal commas, date and time of day apart, Windows-1252, clock of Berlin."""
    rows: list[list[object]] = [["Datum", "Uhrzeit", "Luftfeuchte (%)", "Temperatur (°C)", "PM2,5 (µg/m³)"]]
    for second, *values in zip(*(made[name] for name in ("seconds", "RH", "T", "raw")), strict=True):
        local = (START + timedelta(seconds=int(second))).astimezone(ZoneInfo("Europe/Berlin"))
        numbers = [f"{value:.1f}".replace(".", ",") for value in values]
        rows.append([f"{local:%d.%m.%Y}", f"{local:%H:%M:%S}", *numbers])
    write("logger.csv", rows, ";", "cp1252")


def test_a_german_logger_and_a_station_in_utc_differ_by_a_time_zone_that_is_named(scare: RunCli) -> None:
    made = air(20, 600)
    write_german_logger(made)
    station = [[f"{end:%Y-%m-%dT%H:%M}Z", f"{value:.1f}"] for end, value in hourly(made)]
    write("station.csv", [["time", "PM2.5 [µg/m³]"], *station])
    output = scare("scare train logger.csv --reference-file station.csv")
    assert output.code == 0, output.err
    assert "logger.csv: the times state no zone, but fit the reference's in Europe/Berlin; read so" in output.err
    assert "logger: the clocks agree (correlation 0.9" in output.err
    stated = scare("scare train logger.csv --reference-file station.csv --timezone UTC")
    assert "with the sensor shifted by -1 hour" in stated.err
    assert "sensor times in Europe/Berlin (--timezone) would explain it" in stated.err
    right = scare("scare train logger.csv --reference-file station.csv --timezone Europe/Berlin --json")
    assert right.code == 0, right.err
    assert Calibrator.load("model.scare").inputs.channels[0].name == "PM2,5 (µg/m³)"


def test_a_station_without_a_zone_is_read_in_the_one_that_fits_unless_both_files_lack_it(scare: RunCli) -> None:
    made, zone = air(10, 600), ZoneInfo("Asia/Kolkata")
    rows = [
        [f"{START + timedelta(seconds=int(second)):%Y-%m-%dT%H:%M}", f"{raw:.2f}"]
        for second, raw in zip(made["seconds"], made["raw"], strict=True)
    ]
    station = [[f"{end.astimezone(zone):%Y-%m-%d %H:%M}", f"{value:.1f}"] for end, value in hourly(made)]
    write("station.csv", [["time", "PM2.5"], *station])
    write("box.csv", [["time", "pm25"], *([time + "Z", raw] for time, raw in rows)])
    output = scare("scare train box.csv --reference-file station.csv")
    assert "station.csv: the times state no zone, but fit the sensor's in Asia/Kolkata; read so" in output.err
    assert "box: the clocks agree" in output.err
    write("box.csv", [["time", "pm25"], *rows])
    output = scare("scare train box.csv --reference-file station.csv")
    assert "read so" not in output.err
    assert "box: the clocks disagree" in output.err


def test_two_weeks_of_two_minutes_beside_an_hourly_reference_train_without_an_option(scare: RunCli) -> None:
    made = air(13, 120)
    times = [f"{START + timedelta(seconds=int(second)):%Y-%m-%d %H:%M:%S}" for second in made["seconds"]]
    columns = [[f"{value:.2f}" for value in made[name]] for name in ("raw", "T", "RH")]
    write("box.csv", [["time", "pm25", "temperature", "humidity"], *map(list, zip(times, *columns, strict=True))])
    write(
        "station.csv", [["time", "PM2.5"], *([f"{end:%Y-%m-%d %H:%M}", f"{value:.1f}"] for end, value in hourly(made))]
    )
    output = scare("scare train box.csv --reference-file station.csv --json")
    assert output.code == 0, output.err
    assert "box: averaged readings from 2 minutes to 1 hour" in output.err
    scores = json.loads(output.out)["scores"]
    assert scores["linear, all"]["rmse"] < scores["raw"]["rmse"] / 2


def test_what_a_person_states_about_a_file_counts_in_every_command(scare: RunCli) -> None:
    """Ambiguous dates, a code that is a likely reading, an encoding and a zone, which no file tells by itself."""
    made = air(6, 600)
    rows: list[list[object]] = [["when", "pm25", "humidity", "remark"]]
    for row, second in enumerate(made["seconds"]):
        local = (START + timedelta(seconds=int(second))).astimezone(ZoneInfo("Asia/Kolkata"))
        raw = 55.5 if row % 50 == 7 else made["raw"][row]
        rows.append([f"{local:%d/%m/%Y %H:%M}", f"{raw:.2f}", f"{made['RH'][row]:.0f}", "Zürich"])
    write("logger.csv", rows, encoding="cp1252")
    write("station.csv", [["time", "pm25"], *([f"{end:%Y-%m-%dT%H:%M}", f"{pm:.2f}"] for end, pm in hourly(made))])
    stated = "--dates day-first --timezone Asia/Kolkata --encoding cp1252 --missing 55.50 --reference-timezone UTC"
    aligned = scare(f"scare align logger.csv station.csv {stated} --out pair.csv --json")
    assert aligned.code == 0, aligned.err
    assert "logger: the clocks agree" in aligned.err
    assert "55.5" not in Path("pair.csv").read_text(encoding="utf-8")
    both = f"logger.csv --reference-file station.csv {stated}"
    trained = scare(f"scare train {both} --json")
    assert trained.code == 0, trained.err
    assert json.loads(trained.out)["scores"]["linear"]["r2"] > 0.8
    compared = scare(f"scare compare {both} --models linear --windows 4 --seeds 1 --json")
    assert compared.code == 0, compared.err
    assert json.loads(compared.out)["rows"][0]["r2"] > 0.8


def _write_hours(name: str, hours: np.ndarray, values: np.ndarray, column: str) -> None:
    """A table of local times that state no zone, with semicolons and a code for 'no reading'."""
    start = datetime(2026, 1, 5)
    pairs = zip(hours, values, strict=True)
    rows = [f"{start + timedelta(hours=float(hour)):%Y-%m-%d %H:%M};{value:.3f}" for hour, value in pairs]
    rows[5] = rows[5].split(";")[0] + ";-777"
    Path(name).write_text("\n".join([f"time;{column}", *rows]) + "\n")


def test_one_shift_is_refused_for_a_clock_that_was_set(scare: RunCli) -> None:
    hours, values = np.arange(1000.0), 20 + np.cumsum(np.random.default_rng(4).normal(0, 1, 1000))
    _write_hours("box.csv", np.where(hours < 500, hours, hours + 6), 0.7 * values, "pm25")
    _write_hours("station.csv", hours, values, "PM2.5")
    output = scare("scare align box.csv station.csv --apply-offset --out a.csv")
    assert output.code != 0
    assert "so one shift cannot correct it; split the file there" in output.err
