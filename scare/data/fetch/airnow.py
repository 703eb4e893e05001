"""Reference stations: AirNow's hourly files (all stations in one) and the yearly files of EPA's Air Quality System.

Both give the beginning of an hour; a time here is the end of what it describes.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import polars as pl

from scare.data.download import RecordFile, read_url
from scare.data.fetch.openaq import LATITUDE, LONGITUDE
from scare.data.fetch.sources import Request, Source
from scare.data.readings import DEVICE, TIME
from scare.errors import DataError

HOURLY = ("date", "clock", DEVICE, "site", "zone", "parameter", "units", "value", "agency")
SITES = {0: DEVICE, 8: LATITUDE, 9: LONGITUDE}  # fields of the list of stations
STATION = ("State Code", "County Code", "Site Num")


def files(request: Request, source: Source, parameters: tuple[str, ...] = ()) -> Iterator[tuple[str, RecordFile]]:
    """The month and the file of every hour; with parameter codes of AQS, the file of each and of each year."""
    if parameters:
        for year in dict.fromkeys(day.year for day in request.days()):
            for code in parameters:
                name = f"hourly_{code}_{year}.zip"
                yield str(year), RecordFile(name, 0, "", f"{source.hosts['aqs']}/{name}")
        return
    for day in request.days():
        for hour in range(24):
            name = f"HourlyData_{day:%Y%m%d}{hour:02}.dat"
            yield f"{day:%Y-%m}", RecordFile(name, 0, "", f"{source.hosts['archive']}/{day:%Y/%Y%m%d}/{name}")


def near(request: Request, source: Source) -> dict[str, tuple[float, float]]:
    """The stations around a place, with where they are."""
    if request.place is None:
        return {}
    lines = read_url(source.hosts["near"]).decode("utf-8", "replace").splitlines()
    rows = ([line.split("|")[field] for field in SITES] for line in lines if line.count("|") > max(SITES))
    found = {_station(name): (float(latitude), float(longitude)) for name, latitude, longitude in rows}
    return {name: where for name, where in found.items() if request.place.holds(*where)}


def read(path: Path, source: Source, stations: frozenset[str]) -> pl.DataFrame:
    """The rows of these stations: device, time, and a column for each quantity."""
    return _read_aqs(path, source, stations) if path.suffix == ".zip" else _read_hourly(path, source, stations)


def _read_hourly(path: Path, source: Source, stations: frozenset[str]) -> pl.DataFrame:
    schema = dict.fromkeys(HOURLY, pl.String())
    table = pl.read_csv(path, separator="|", has_header=False, schema=schema, quote_char=None, encoding="utf8-lossy")
    begins = pl.concat_str("date", "clock", separator=" ").str.to_datetime("%m/%d/%y %H:%M", time_unit="us")
    return _wide(table.with_columns(begins.alias(TIME), pl.col(DEVICE).str.slice(-9)), source, stations)


def _read_aqs(path: Path, source: Source, stations: frozenset[str]) -> pl.DataFrame:
    """The lines of a year's file that begin with a station, without unpacking the others."""
    starts = tuple(f'"{one[:2]}","{one[2:5]}","{one[5:]}"'.encode() for one in stations)
    try:
        with ZipFile(path) as archive, archive.open(archive.namelist()[0]) as handle:
            header, lines = next(handle), [line for line in handle if line.startswith(starts)]
    except (BadZipFile, IndexError, StopIteration) as error:
        raise DataError(f"{path}: not a yearly file of the Air Quality System") from error
    table = pl.read_csv(io.BytesIO(header + b"".join(lines)), infer_schema=False)
    begins = pl.concat_str("Date GMT", "Time GMT", separator=" ").str.to_datetime("%Y-%m-%d %H:%M", time_unit="us")
    named = {"Parameter Code": "parameter", "Sample Measurement": "value"}
    return _wide(
        table.rename(named).with_columns(begins.alias(TIME), pl.concat_str(*STATION).alias(DEVICE)), source, stations
    )


def _wide(table: pl.DataFrame, source: Source, stations: frozenset[str]) -> pl.DataFrame:
    """A row a station and hour, at the end of the hour."""
    known = pl.col("parameter").is_in(list(source.columns)) & pl.col(DEVICE).is_in(list(stations))
    number = pl.col("value").cast(pl.Float64, strict=False)
    ours, times = ({theirs: getattr(one, name) for theirs, one in source.columns.items()} for name in ("name", "times"))
    long = table.filter(known).select(
        DEVICE,
        (pl.col(TIME).dt.replace_time_zone("UTC") + pl.duration(seconds=source.ends)).alias(TIME),
        pl.col("parameter").replace(ours).alias("name"),
        (number * pl.col("parameter").replace_strict(times, return_dtype=pl.Float64)).alias("value"),
    )
    return long.pivot("name", index=[DEVICE, TIME], values="value", aggregate_function="mean")


def _station(name: str) -> str:
    """Nine digits, with or without the country before them."""
    return name[-9:]
