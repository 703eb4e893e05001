"""Mistakes that people make with units, times, columns and files: each is named in a sentence or corrected.

A `Mistake` writes small files made here and gives the command line that a person would type. It is *named* if the
command prints its words, and *corrected* if the values are those of the right file. None may be neither.
"""

import gzip
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.cli.app import run
from scare.errors import ExitCode
from tests.cli.conftest import lines_for_networks
from tests.web.tables import write_workbook

DAYS, STEP = 12, 600  # seconds between readings
START = datetime(2026, 1, 5)
ROWS = DAYS * 86400 // STEP
CHANNELS = "--channels pm25,temperature,humidity --reference station"
PREDICT, TRAIN = "predict model.scare box.csv --out result.csv", f"train box.csv {CHANNELS} --out new.scare"
BESIDE = "train box.csv --channels pm25,temperature,humidity --reference-file station.csv --out new.scare"
Change = Callable[[pl.DataFrame], pl.DataFrame]


def made_air(seed: int = 1) -> pl.DataFrame:
    """Twelve days of a particle sensor that reads high in humid air, and its reference."""
    draw, rows = np.random.default_rng(seed), np.arange(ROWS)
    kept = np.exp(-STEP / 14400)
    noise = draw.normal(0, np.sqrt(1 - kept**2), ROWS + 500)
    station = np.exp(2.4 + 0.6 * np.convolve(noise, kept ** np.arange(500))[500 : 500 + ROWS])
    daily = 2 * np.pi * rows * STEP / 86400
    humidity = 60 - 15 * np.sin(daily) + draw.normal(0, 2, ROWS)
    raw = station * (1.4 + 0.006 * (humidity - 50)) * np.exp(draw.normal(0, 0.03, ROWS))
    columns = {
        "time": [START + timedelta(seconds=STEP * int(row)) for row in rows],
        "pm25": raw,
        "temperature": 18 + 6 * np.sin(daily) + draw.normal(0, 0.5, ROWS),
        "humidity": humidity,
        "station": station,
    }
    return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).round(2))


AIR = made_air()
BOX = AIR.drop("station")


@dataclass(frozen=True)
class Mistake:
    """What is wrong with the files (`make` writes them), the command, and the words that name it; none: corrected."""

    make: Callable[[], object]
    says: str = ""
    line: str = PREDICT


def csv(frame: pl.DataFrame, path: str = "box.csv", separator: str = ",") -> None:
    frame.write_csv(path, separator=separator, datetime_format="%Y-%m-%d %H:%M:%S")


def text(content: str, path: str = "box.csv", encoding: str = "utf-8") -> None:
    Path(path).write_text(content, encoding=encoding, newline="")


def lines(frame: pl.DataFrame = BOX, separator: str = ",") -> str:
    return frame.write_csv(separator=separator, datetime_format="%Y-%m-%d %H:%M:%S")


def box(**columns: pl.Expr) -> Callable[[], object]:
    """Write the file to predict with these columns changed."""
    return lambda: csv(BOX.with_columns(**columns))


def air(**columns: pl.Expr) -> Callable[[], object]:
    """Write the file to train on with these columns changed."""
    return lambda: csv(AIR.with_columns(**columns))


def coded(column: str, code: float, every: int = 97) -> dict[str, pl.Expr]:
    """A column in which every so many rows hold a code."""
    return {column: pl.when(pl.int_range(pl.len()) % every == 5).then(pl.lit(code)).otherwise(pl.col(column))}


def timed(form: str) -> Callable[[], object]:
    """Write the file to predict with times in this form."""
    return box(time=pl.col("time").dt.strftime(form))


def both(sensor: pl.DataFrame, station: pl.DataFrame) -> Callable[[], object]:
    """Write a sensor's file and a station's."""
    return lambda: (csv(sensor), csv(station, "station.csv"))


PM, T, RH, STATION = (pl.col(name) for name in ("pm25", "temperature", "humidity", "station"))
NOW, ROW = pl.col("time"), pl.int_range(pl.len())
HALF = ROW < ROWS // 2
STATION_FILE = AIR.select("time", "station")
TO_BERLIN = NOW.dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin").dt.replace_time_zone(None)
TWO_BOXES = pl.concat([AIR, made_air(2)])


def in_october(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows around the end of daylight saving time."""
    return frame.with_columns(NOW - pl.duration(days=76))


SHUFFLED = pl.Series(np.random.default_rng(2).permutation(AIR["station"].to_numpy()))


def hours(count: float) -> pl.Expr:
    return NOW + pl.duration(minutes=round(60 * count))


UNITS = {
    "temperature in °F": Mistake(box(temperature=1.8 * T + 32), "temperature seems to be in °F"),
    "temperature in K": Mistake(
        box(temperature=T + 273.15), "1,728 values outside -52.5 to 97.5 degC .* temperature seems to be in K"
    ),
    "temperature in tenths": Mistake(box(temperature=10 * T), "temperature seems to be in 0.1 °C instead of °C"),
    "temperature in hundredths": Mistake(box(temperature=100 * T), "temperature is about 100 times as large"),
    "temperature with the wrong sign": Mistake(box(temperature=-T), "OUTSIDE.: temperature is outside"),
    "humidity as a fraction": Mistake(box(humidity=RH / 100), "humidity seems to be in fraction instead of %"),
    "humidity in tenths": Mistake(box(humidity=RH * 10), "humidity is about 10 times as large"),
    "humidity that is the dryness": Mistake(box(humidity=100 - 2 * RH), "humidity: .* values outside"),
    "particles in mg": Mistake(box(pm25=PM / 1000), "pm25 seems to be in mg/m³"),
    "particles in ng": Mistake(box(pm25=PM * 1000), "pm25 seems to be in ng/m³"),
    "particles times 10": Mistake(box(pm25=PM * 10), "pm25 is about 10 times as large"),
    "particles times 100": Mistake(box(pm25=PM * 100), "pm25 is about 100 times as large"),
    "particles divided by 10": Mistake(box(pm25=PM / 10), "OUTSIDE.: pm25 is outside"),
    "particles divided by 100": Mistake(box(pm25=PM / 100), "pm25 is about 100 times smaller"),
    "particles with the wrong sign": Mistake(box(pm25=-PM), "OUTSIDE.: pm25 is outside"),
    "particles as a logarithm": Mistake(box(pm25=PM.log10()), "OUTSIDE.: pm25 is outside"),
    "particles as counts of a litre": Mistake(box(pm25=PM * 150), "pm25 is about 100 times as large"),
    "half of the file in mg": Mistake(
        box(pm25=pl.when(HALF).then(PM / 1000).otherwise(PM)), "pm25 is outside .* in 50 %"
    ),
    "half of the temperatures in °F": Mistake(
        box(temperature=pl.when(HALF).then(1.8 * T + 32).otherwise(T)), "temperature is outside .* in 5. %"
    ),
    "temperature and humidity swapped": Mistake(
        box(temperature=RH, humidity=T), "temperature and humidity seem to be swapped"
    ),
    "particles and temperature swapped": Mistake(
        box(pm25=T, temperature=PM), "(?i)in each other.s place|temperature is outside"
    ),
    "particles and humidity swapped": Mistake(box(pm25=RH, humidity=PM), "pm25 and humidity seem to be swapped"),
    "a units row with another unit": Mistake(
        lambda: text(lines().replace("\n", "\n,mg/m3,C,%\n", 1)),
        "the file states mg/m³ for pm25, and the model reads µg",
    ),
    "µg/m³ for ppb of NO2": Mistake(box(pm25=PM * 1.88), "rows are unlike training .OUTSIDE"),
    "humidity in g/m³": Mistake(box(humidity=RH * 0.12), "OUTSIDE.: humidity is outside"),
    "a thermometer in the sun": Mistake(box(temperature=T + 15), "OUTSIDE.: temperature is outside"),
    "another pollutant under the same name": Mistake(box(pm25=400 + PM), "OUTSIDE.: pm25 is outside"),
    "particles rounded to tens": Mistake(box(pm25=(PM / 20).round() * 20), "OUTSIDE.: pm25 is outside"),
    "all three in another's place": Mistake(box(pm25=T, temperature=RH, humidity=PM), "humidity is outside"),
}
CODES = {
    **{
        f"{code:g} for no particles": Mistake(box(**coded("pm25", code)), f"{code:g}".replace("+", ".") + " ")
        for code in (-999.0, -9999.0, 9999.0, 65535.0, -1.0, 32767.0, -32768.0, 1e30)
    },
    "-127 for no temperature": Mistake(box(**coded("temperature", -127.0)), "temperature: -127 .18 times"),
    "85 for a temperature at power-on": Mistake(box(**coded("temperature", 85.0)), "temperature: 85 is far from"),
    "0 for no humidity": Mistake(box(**coded("humidity", 0.0)), "humidity: 0 "),
    "255 for no humidity": Mistake(box(**coded("humidity", 255.0)), "humidity: 255 .18 times"),
    "humidity above 100": Mistake(box(humidity=RH + 60), "humidity: .* values outside"),
    "a sensor that is stuck": Mistake(box(pm25=pl.lit(17.3)), "repeat one reading .STUCK"),
    "a sensor stuck for half of the time": Mistake(
        box(pm25=pl.when(HALF).then(17.3).otherwise(PM)), "repeat one reading .STUCK"
    ),
    "a sensor that is dead": Mistake(box(pm25=pl.lit(None, pl.Float64)), "pm25 has no reading"),
    "a thermometer that is dead": Mistake(box(temperature=pl.lit(None, pl.Float64)), "temperature has no reading"),
    "a sensor that reads 0": Mistake(box(pm25=pl.lit(0.0)), "repeat one reading .STUCK"),
    "words for no reading": Mistake(
        box(**{"pm25": pl.when(ROW % 50 == 3).then(pl.lit("ERR")).otherwise(PM.cast(pl.String))}), "'ERR' in line"
    ),
    "errors of a spreadsheet": Mistake(
        box(pm25=pl.when(ROW % 50 == 3).then(pl.lit("#DIV/0!")).otherwise(PM.cast(pl.String))), "35 missing"
    ),
    "below the limit of detection": Mistake(
        box(pm25=pl.when(PM < 4).then(pl.lit("<4")).otherwise(PM.cast(pl.String))), "cells of 'pm25' .*'<4' in line"
    ),
    "one number that no sensor can read": Mistake(
        box(pm25=pl.when(ROW == 777).then(1e30).otherwise(PM)), "pm25: 1 value outside -100 to 1100"
    ),
    "a gap of days that was filled": Mistake(
        lambda: csv(BOX.with_columns(pm25=pl.when(ROW.is_between(400, 900)).then(None).otherwise(PM).interpolate())),
        "pm25 lies on a straight line for",
    ),
    "words instead of numbers": Mistake(box(pm25=pl.lit("low")), "holds text, not numbers"),
    "infinite readings": Mistake(
        box(**{"pm25": pl.when(ROW % 50 == 3).then(pl.lit("inf")).otherwise(PM.cast(pl.String))}), "35 missing"
    ),
}
TIMES = {
    "readings ten times as often": Mistake(
        lambda: csv(BOX.upsample("time", every="1m").interpolate().drop_nulls()),
        "a reading every 1 minute is averaged to 10 minutes",
    ),
    "readings at a third of the step": Mistake(
        lambda: csv(BOX.upsample("time", every="200s").interpolate().drop_nulls()), "is averaged to 10 minutes"
    ),
    "readings at a longer step": Mistake(
        lambda: csv(BOX.gather_every(6)), "give finer readings, or train on means of 1 hour"
    ),
    "rows backwards": Mistake(lambda: csv(BOX.reverse())),
    "rows in any order": Mistake(lambda: csv(BOX.sample(fraction=1, shuffle=True, seed=3))),
    "rows twice": Mistake(lambda: csv(pl.concat([BOX, BOX]))),
    "a row with another value at the same time": Mistake(
        lambda: csv(pl.concat([BOX, BOX[:50].with_columns(PM + 5)]).sort("time", maintain_order=True)),
        "50 rows with a repeated time left out",
    ),
    "days before months, which no date shows": Mistake(
        lambda: csv(BOX[:720].with_columns(NOW.dt.strftime("%d/%m/%Y %H:%M"))), "are read day first"
    ),
    "months before days": Mistake(timed("%m/%d/%Y %H:%M")),
    "seconds since 1970": Mistake(box(time=NOW.dt.epoch("s"))),
    "milliseconds since 1970": Mistake(box(time=NOW.dt.epoch("ms"))),
    "days of a spreadsheet": Mistake(box(time=NOW.dt.epoch("s") / 86400 + 25569)),
    "twelve-hour clock": Mistake(timed("%Y-%m-%d %I:%M:%S %p")),
    "twelve-hour clock without AM and PM": Mistake(timed("%Y-%m-%d %I:%M:%S"), "rows with a repeated time left out"),
    "times with an offset": Mistake(box(time=hours(2).dt.strftime("%Y-%m-%dT%H:%M:%S+02:00"))),
    "a clock that begins in 1970": Mistake(box(time=NOW - pl.duration(days=20458)), "was the clock of the logger set"),
    "a clock that jumps to 2000": Mistake(
        box(time=pl.when(HALF).then(NOW).otherwise(NOW - pl.duration(days=9500))), "was the clock of the logger set"
    ),
    "years of two digits": Mistake(timed("%y-%m-%d %H:%M")),
    "no dates": Mistake(timed("%H:%M:%S"), "times of day without a date"),
    "dates without a time of day": Mistake(timed("%Y-%m-%d"), "a reading every 24 hours"),
    "a time that is a counter": Mistake(box(time=ROW), "no column holds times"),
    "times rounded by a spreadsheet": Mistake(
        box(time=pl.format("{}E+12", (NOW.dt.epoch("ms") / 1e12).round(5))), "were rounded by a spreadsheet"
    ),
    "midnight as 24:00": Mistake(
        box(
            time=pl.when(NOW.dt.hour() + NOW.dt.minute() == 0)
            .then((NOW - pl.duration(days=1)).dt.strftime("%Y-%m-%d 24:00:00"))
            .otherwise(NOW.dt.strftime("%Y-%m-%d %H:%M:%S"))
        )
    ),
    "one year that is wrong": Mistake(
        box(time=pl.when(ROW == 500).then(NOW - pl.duration(days=3652)).otherwise(NOW)),
        "not in order of time .1 step back, of up to 3,652 days",
    ),
    "a year in the next century": Mistake(
        box(time=pl.when(ROW == 500).then(NOW + pl.duration(days=36525)).otherwise(NOW)), "was the clock of the logger"
    ),
    "local time when daylight saving time ends": Mistake(
        lambda: csv(in_october(BOX).with_columns(TO_BERLIN)), "1 step back, of up to 50 minutes"
    ),
    "local time when daylight saving time ends, with its zone": Mistake(
        lambda: csv(in_october(BOX).with_columns(TO_BERLIN)), line=f"{PREDICT} --timezone Europe/Berlin"
    ),
    "years before training": Mistake(
        box(time=NOW - pl.duration(days=800)), "end 2.2 years before those that the model"
    ),
    "two boxes in one file": Mistake(
        lambda: csv(TWO_BOXES.drop("station").sort("time", maintain_order=True)), "are several devices in it"
    ),
    "times rounded to the hour": Mistake(timed("%Y-%m-%d %H:00"), "a reading every 1 hour"),
}
COLUMNS = {
    "a column with another case": Mistake(lambda: csv(BOX.rename({"pm25": "PM25"})), "did you mean 'PM25'"),
    "a column with another name": Mistake(lambda: csv(BOX.rename({"pm25": "pm2_5"})), "did you mean 'pm2_5'"),
    "a column that is not there": Mistake(lambda: csv(BOX.drop("humidity")), "no column 'humidity'"),
    "a time column with another name": Mistake(lambda: csv(BOX.rename({"time": "stamp"}))),
    "no header": Mistake(lambda: text(lines().split("\n", 1)[1]), "There is no header"),
    "two columns of one name": Mistake(
        lambda: text(lines(BOX.with_columns(x=PM + 9)).replace("humidity,x", "humidity,pm25")),
        "Two columns are called 'pm25'",
    ),
    "a row of units": Mistake(lambda: text(lines().replace("\n", "\n,ug/m3,C,%\n", 1))),
    "lines before the header": Mistake(lambda: text("Logger 7\nfirmware 1.2\n\n" + lines())),
    "a footer": Mistake(lambda: text(lines() + "Mean,20,18,60\nEnd of data\n"), "'Mean' in line 1730"),
    "a column more in some rows": Mistake(
        lambda: text(lines().replace("\n2026-01-06 00:00:00,", "\n2026-01-06 00:00:00,1,2,3,")),
        "line 146: more fields than the header; left out",
    ),
    "two files joined, with both headers": Mistake(
        lambda: text(lines(BOX[:800]) + lines(BOX[800:])), "1 row is left out, .*'time' in line 802"
    ),
    "two files joined, whose columns differ": Mistake(
        lambda: text(lines(BOX[:800]) + lines(BOX[800:].select("time", "humidity", "pm25", "temperature"))),
        "2 tables that stand one below the other",
    ),
    "a column that was sorted by itself": Mistake(box(pm25=PM.sort()), "pm25 never falls .* sorted by itself"),
    "a result, calibrated again": Mistake(
        lambda: (csv(BOX), run(shlex.split(PREDICT)), Path("result.csv").rename("box.csv"))
    ),
    "a name of the box with a slip": Mistake(
        lambda: csv(BOX), "bxo was not in training, but its readings are those of box", f"{PREDICT} --device bxo"
    ),
    "an index column in front": Mistake(lambda: csv(BOX.with_row_index(""))),
    "columns in another order": Mistake(lambda: csv(BOX.select("humidity", "time", "temperature", "pm25"))),
    "more columns than needed": Mistake(lambda: csv(BOX.with_columns(battery=pl.lit(3.7), remark=pl.lit("ok")))),
}
FILES = {
    "semicolons and decimal commas": Mistake(lambda: text(lines(separator=";").replace(".", ","))),
    "decimal commas between commas": Mistake(
        lambda: text("\n".join(line.replace(".", ",") for line in lines().splitlines())),
        "a decimal comma needs a semicolon or tab",
    ),
    "tabs": Mistake(lambda: text(lines(separator="\t"))),
    "UTF-16": Mistake(lambda: text(lines(), encoding="utf-16")),
    "units in the cells": Mistake(box(pm25=pl.format("{} ug/m3", PM))),
    "gzip under another name": Mistake(lambda: Path("box.csv").write_bytes(gzip.compress(lines().encode()))),
    "a gzip that is cut off": Mistake(
        lambda: Path("box.csv").write_bytes(gzip.compress(lines().encode())[:9000]), "Compressed file ended before"
    ),
    "Parquet under another name": Mistake(lambda: BOX.write_parquet("box.csv")),
    "Parquet that is cut off": Mistake(
        lambda: (BOX.write_parquet("a"), Path("box.csv").write_bytes(Path("a").read_bytes()[:-30])), "damaged"
    ),
    "an empty file": Mistake(lambda: text(""), "empty"),
    "a header alone": Mistake(lambda: csv(BOX[:0]), "no rows"),
    "a header and two rows": Mistake(lambda: csv(BOX[:2]), "2 rows: too little history"),
    "a web page": Mistake(lambda: text("<!DOCTYPE html><html>Please log in</html>"), "web page"),
    "a picture": Mistake(
        lambda: Path("box.csv").write_bytes(bytes(range(256)) * 40), "is not a text table, a spreadsheet or Parquet"
    ),
    "a spreadsheet without a table": Mistake(
        lambda: write_workbook(Path("box.csv"), "<row/>"), "no table in the sheet"
    ),
    "no file": Mistake(lambda: None, "there is no such file or folder"),
    "a folder": Mistake(lambda: Path("box.csv").mkdir(), "no file there ends in"),
    "the table as the model": Mistake(
        lambda: csv(BOX), "box.csv: not a .scare file", "predict box.csv box.csv --out result.csv"
    ),
    "the model as the table": Mistake(
        lambda: None, "model.scare: no column holds times", "predict model.scare model.scare --out result.csv"
    ),
    "model and table swapped": Mistake(
        lambda: csv(BOX), "box.csv: not a .scare file", "predict box.csv model.scare --out result.csv"
    ),
    "a quotation mark too many": Mistake(
        lambda: text(lines().replace("\n2026-01-06 00:00:00,", '\n2026-01-06 00:00:00,"')), "quoted"
    ),
    "a result that would replace the readings": Mistake(
        lambda: csv(BOX), "would replace the readings", "predict model.scare box.csv --out box.csv"
    ),
    "a result of no known format": Mistake(
        lambda: csv(BOX), "should end in", "predict model.scare box.csv --out result.docx"
    ),
}
TRAINING = {
    "a reference in another order": Mistake(
        lambda: csv(AIR.with_columns(station=SHUFFLED)), "nothing to do with the sensor", TRAIN
    ),
    "a reference among the channels": Mistake(
        air(copy=STATION), "is the reference itself", TRAIN.replace("pm25,", "pm25,copy,")
    ),
    "a channel that is the reference": Mistake(
        air(), "the column 'station' is mapped twice", TRAIN.replace("pm25,", "station,")
    ),
    "a reference whose unit changes": Mistake(
        air(station=pl.when(HALF).then(STATION).otherwise(STATION / 1000)), "another unit", TRAIN
    ),
    "a sensor whose unit changes": Mistake(
        air(pm25=pl.when(HALF).then(PM).otherwise(PM * 1000)), "another unit", TRAIN
    ),
    "a reference that never changes": Mistake(air(station=pl.lit(9.0)), "the reference station is constant", TRAIN),
    "a reference stuck for days": Mistake(
        air(station=pl.when(ROW.is_between(300, 700)).then(12.34).otherwise(STATION)), "stays at 12.34", TRAIN
    ),
    "a sensor that never changes": Mistake(air(pm25=pl.lit(9.0)), "pm25 never changes", TRAIN),
    "a sensor of few values": Mistake(air(pm25=(PM / 20).round() * 20), "only 5 different values", TRAIN),
    "two days": Mistake(lambda: csv(AIR[:288]), "The readings cover 2 days", TRAIN),
    "twenty rows": Mistake(lambda: csv(AIR[:20]), "it takes 6 more hours", TRAIN),
    "a reference an hour late": Mistake(air(station=STATION.shift(6)), "shifted by .1 hour", TRAIN),
    "a reference with 9999 for nothing": Mistake(air(**coded("station", 9999.0)), "station: 9999 .18 times", TRAIN),
    "a reference with -999 for nothing": Mistake(air(**coded("station", -999.0)), "station: -999 .18 times", TRAIN),
    "a reference column that is not there": Mistake(
        air(), "no column 'statoin'; did you mean 'station'", TRAIN.replace("reference station", "reference statoin")
    ),
    "a channel that is not there": Mistake(air(), "no column 'pm2'", TRAIN.replace("pm25", "pm2")),
    "a time column that holds none": Mistake(air(), "is not a time", f"{TRAIN} --time humidity"),
    "a station in another time zone": Mistake(
        both(BOX, STATION_FILE.with_columns(hours(-5))), "shifted by -5 hours", BESIDE
    ),
    "a station at another time": Mistake(
        both(BOX, STATION_FILE.with_columns(hours(24 * 400))), "the readings cover .* and the reference", BESIDE
    ),
    "a station's file without its values": Mistake(
        both(BOX, STATION_FILE.select("time")), "no column looks like a reference", BESIDE
    ),
    "the reference among the channels, in another unit": Mistake(
        air(copy=1.9 * STATION + 3), "is one computed from the other", TRAIN.replace("pm25,", "pm25,copy,")
    ),
    "one number that no reference can read": Mistake(
        air(station=pl.when(ROW == 777).then(1e30).otherwise(STATION)), "station: 1 value above 5e.29", TRAIN
    ),
    "the sensor's file as the reference file": Mistake(
        air(), "pm25 is the reference itself", BESIDE.replace("station.csv", "box.csv --reference pm25")
    ),
    "sensor and reference in each other's place": Mistake(
        both(BOX, STATION_FILE),
        "are sensor and reference in each other's place",
        "train station.csv --reference-file box.csv --out new.scare",
    ),
    "a file twice": Mistake(air(), "two files hold a device called 'box'", TRAIN.replace("box.csv", "box.csv box.csv")),
    "a file twice under two names": Mistake(
        lambda: (csv(AIR), csv(AIR, "copy.csv")),
        "box and copy have the same readings",
        TRAIN.replace("box.csv", "box.csv copy.csv"),
    ),
    "a sensor in local time when daylight saving time ends": Mistake(
        both(in_october(BOX).with_columns(TO_BERLIN), in_october(STATION_FILE)),
        "the sensor's clock was set about 2025-10-26.*Europe/Berlin .--timezone. would explain it",
        BESIDE,
    ),
    "a station in local time when daylight saving time ends": Mistake(
        both(in_october(BOX), in_october(STATION_FILE).with_columns(TO_BERLIN)),
        "Europe/Berlin .--reference-timezone. would explain it",
        BESIDE,
    ),
    "hourly means of the reference, repeated": Mistake(
        air(station=pl.Series(np.repeat(AIR["station"].to_numpy()[::6], 6))),
        "the reference changes every 1 hour",
        TRAIN,
    ),
    "daily means of the reference, repeated": Mistake(
        air(station=pl.Series(np.repeat(AIR["station"].to_numpy()[::144], 144))), "nothing to do with the sensor", TRAIN
    ),
    "a reference that was sorted by itself": Mistake(air(station=STATION.sort()), "the reference never falls", TRAIN),
    "sensor and reference, each sorted": Mistake(
        air(station=STATION.sort(), pm25=PM.sort()), "pm25 never falls", TRAIN
    ),
    "a reference of zeros": Mistake(air(station=pl.lit(0.0)), "constant .0. in training", TRAIN),
    "a reference with the wrong sign": Mistake(air(station=-STATION), "falls when pm25 rises", TRAIN),
    "a reference in ng": Mistake(air(station=1000 * STATION), "varies 6.. times as much as pm25", TRAIN),
    "a reference of another size": Mistake(
        lambda: csv(AIR.rename({"station": "station_pm10"})),
        "pm25 measures PM2.5, and the reference station_pm10 is PM10",
        TRAIN.replace("reference station", "reference station_pm10"),
    ),
    "a reference of another pollutant": Mistake(
        lambda: csv(AIR.rename({"station": "station_NO2"})),
        "pm25 measures PM2.5, and the reference station_NO2 is NO2",
        TRAIN.replace("reference station", "reference station_NO2"),
    ),
    "a sensor at its limit": Mistake(
        air(pm25=pl.min_horizontal(PM, 15.0)), "pm25 is 15, its highest value, in 55 % of the rows", TRAIN
    ),
    "a reference with a gap that was filled": Mistake(
        air(station=pl.when(ROW.is_between(300, 600)).then(None).otherwise(STATION).interpolate()),
        "the reference lies on a straight line for",
        TRAIN,
    ),
    "two boxes in a file to train on": Mistake(lambda: csv(TWO_BOXES), "Are several devices in the file", TRAIN),
    "a window longer than the data": Mistake(
        air(), "validation has no rows with a reference.*use --window", f"{TRAIN} --window 30d"
    ),
    "devices to leave out, of one": Mistake(air(), "needs at least three named devices", f"{TRAIN} --split device"),
    "a key that no config has": Mistake(air(), "unknown key 'stepp'", f"{TRAIN} --set training.stepp=5"),
    "a number that is text": Mistake(air(), "it takes true or false", f"{TRAIN} --set data.sort=maybe"),
    "a config that is not there": Mistake(air(), "cannot read no.toml", f"{TRAIN} --config no.toml"),
    "an option that is not there": Mistake(air(), "No such option: --colums", f"{TRAIN} --colums a"),
}
MISTAKES = {**UNITS, **CODES, **TIMES, **COLUMNS, **FILES, **TRAINING}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a model of the right file, and what it makes of it (`right.csv`)."""
    folder = tmp_path_factory.mktemp("mistakes")
    with lines_for_networks(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        csv(AIR)
        assert run(shlex.split(TRAIN.replace("new.scare", "model.scare"))) == 0
        csv(BOX)
        assert run(shlex.split(PREDICT.replace("result.csv", "right.csv"))) == 0
        yield folder


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_or_corrected(
    name: str,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    mistake = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    shutil.copy(trained / "model.scare", "model.scare")
    mistake.make()
    capsys.readouterr()
    code = run(shlex.split(mistake.line))
    printed = " ".join(f"{capsys.readouterr().err} {caplog.text}".split())
    assert code != ExitCode.UNEXPECTED, printed
    if mistake.says:
        assert re.search(mistake.says, printed), printed
    else:
        right, found = (pl.read_csv(path)["calibrated"] for path in (trained / "right.csv", "result.csv"))
        assert found.null_count() == right.null_count()
        np.testing.assert_allclose(found.drop_nulls(), right.drop_nulls(), rtol=1e-6)


def test_they_are_more_than_a_hundred() -> None:
    groups = (UNITS, CODES, TIMES, COLUMNS, FILES, TRAINING)
    assert len(MISTAKES) == sum(map(len, groups)) >= 100
