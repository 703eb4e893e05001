"""Pairs of files that strangers bring, in the shape in which makers and agencies write them, all by script."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

START = datetime(2026, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AQS = (
    *("State Code", "County Code", "Site Num", "Parameter Code", "POC", "Latitude", "Longitude", "Datum"),
    *("Parameter Name", "Date Local", "Time Local", "Date GMT", "Time GMT", "Sample Measurement", "Units of Measure"),
    *("MDL", "Uncertainty", "Qualifier", "Method Type", "Method Code", "Method Name", "State Name", "County Name"),
    "Date of Last Change",
)


def air(minutes: int, seed: int = 3) -> np.ndarray:
    """Fine dust minute by minute, in ug/m3: changes over hours and half hours, and a daily cycle."""
    draw = np.random.default_rng(seed)

    def smooth(length: int) -> np.ndarray:
        noise = np.convolve(draw.normal(size=minutes + length - 1), np.ones(length), "valid")
        return noise / np.sqrt(length)

    return np.maximum(1.0, 25 + 3 * np.sin(np.arange(minutes) / 1440 * 2 * np.pi) + 6 * smooth(480) + 2 * smooth(40))


def box(truth: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a box reads in such air: fine dust, temperature (degC) and humidity (%)."""
    draw, days = np.random.default_rng(seed), np.arange(len(truth)) / 1440
    temperature = 8 - 5 * np.cos(2 * np.pi * days) + 0.2 * draw.normal(size=len(truth))
    humidity = 65 + 15 * np.cos(2 * np.pi * days) + draw.normal(size=len(truth))
    noise = np.repeat(draw.normal(size=len(truth) // 60), 60) + 0.5 * draw.normal(size=len(truth))
    return 1.7 * truth + 3 + noise, temperature, humidity


def means(values: np.ndarray, minutes: int) -> np.ndarray:
    """Means of so many minutes each."""
    return values.reshape(-1, minutes).mean(axis=1)


def write(path: Path, rows: list[list[str]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    """Write rows as CSV."""
    with path.open("w", encoding=encoding, newline="") as handle:
        csv.writer(handle, delimiter=delimiter).writerows(rows)
    return path


def purpleair_and_aqs(folder: Path, days: int = 30) -> tuple[Path, Path]:
    """The history of a PurpleAir (two counters, degF, UTC) and a monitor's hours, stamped at their beginning (AQS)."""
    truth = air(1440 * days)
    dust, temperature, humidity = (means(one, 10) for one in box(truth, 1))
    noise = np.random.default_rng(2).normal(size=(2, len(dust))) * 0.3
    times = [START + timedelta(minutes=10 * (index + 1)) for index in range(len(dust))]
    history = [["time_stamp", "humidity", "temperature", "pm2.5_cf_1_a", "pm2.5_cf_1_b"]]
    history += [
        [f"{time:%Y-%m-%dT%H:%M:%SZ}", f"{h:.0f}", f"{32 + 1.8 * t:.0f}", f"{pm + a:.2f}", f"{pm + b:.2f}"]
        for time, h, t, pm, a, b in zip(times, humidity, temperature, dust, *noise, strict=True)
    ]
    monitor = [list(AQS)]
    for hour, value in enumerate(means(truth, 60)):
        time = START + HOUR * hour
        local, place = time.astimezone(ZoneInfo("Etc/GMT+5")), ["51", "087", "0014", "88101", "1", "37.56", "-77.40"]
        stamps = [f"{local:%Y-%m-%d}", f"{local:%H:%M}", f"{time:%Y-%m-%d}", f"{time:%H:%M}"]
        measured = [f"{value:.1f}", "Micrograms/cubic meter (LC)", "5", "", "", "FEM", "209", "Met One BAM-1022"]
        rest = ["Virginia", "Henrico", "2026-04-01"]
        monitor.append([*place, "WGS84", "PM2.5 - Local Conditions", *stamps, *measured, *rest])
    return write(folder / "purpleair.csv", history), write(folder / "hourly_88101.csv", monitor)


def german_logger_and_station(folder: Path, days: int = 20) -> tuple[Path, Path]:
    """A logger in semicolons, decimal commas, Windows-1252 and central European time; a station in UTC."""
    truth = air(1440 * days)
    columns = [means(one, 10) for one in box(truth, 4)]
    logger = [["Datum", "Uhrzeit", "PM2,5 [µg/m³]", "Temperatur [°C]", "Luftfeuchte [%]"]]
    station = [["time", "PM2.5 [ug/m3]"]]
    for index, (dust, temperature, humidity, value) in enumerate(zip(*columns, means(truth, 10), strict=True)):
        end = START + timedelta(minutes=10 * (index + 1))
        local = end.astimezone(ZoneInfo("Europe/Berlin"))
        numbers = [f"{one:.1f}".replace(".", ",") for one in (dust, temperature, humidity)]
        logger.append([f"{local:%d.%m.%Y}", f"{local:%H:%M:%S}", *numbers])
        station.append([f"{end:%Y-%m-%dT%H:%M:%SZ}", f"{value:.2f}"])
    return write(folder / "Messung.csv", logger, ";", "cp1252"), write(folder / "station.csv", station)


def two_weeks_and_hourly(folder: Path, days: int = 13) -> tuple[Path, Path]:
    """Readings every two minutes and a reference every hour, which stamps the end of its mean."""
    truth = air(1440 * days)
    columns = [means(one, 2) for one in box(truth, 5)]
    readings = [["time", "pm25", "temperature", "humidity"]]
    for index, values in enumerate(zip(*columns, strict=True)):
        end = START + timedelta(minutes=2 * (index + 1))
        readings.append([f"{end:%Y-%m-%dT%H:%M:%SZ}", *(f"{one:.2f}" for one in values)])
    reference = [["time", "PM2.5 [ug/m3]"]]
    for index, value in enumerate(means(truth, 60)):
        reference.append([f"{START + HOUR * (index + 1):%Y-%m-%dT%H:%M:%SZ}", f"{value:.2f}"])
    return write(folder / "box.csv", readings), write(folder / "station.csv", reference)
