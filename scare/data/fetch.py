"""From a request to a folder: files are downloaded, read, and written as a month a file and a device a folder.

OUT/device=12345/2026-01.parquet   time (UTC, the end of what a row describes) and a column a quantity
OUT/_source.json                   where it came from, licence, units, where devices are
OUT/.downloaded/                   the files as they were, so that the same request downloads only what is new
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from math import asin, cos, radians, sin, sqrt
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

import polars as pl

from scare.data.download import MissingError, Progress, RecordFile, download_file, read_url
from scare.data.readings import DEVICE, TIME
from scare.data.table_files import open_table
from scare.data.tables import read_table, stem
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.records import read_toml

# What a source is and what may be asked of it: addresses and columns are data (`sources.toml`).


SOURCES = Path(__file__).with_name("fetch_sources.toml")
EARTH_KM = 6371.0


@dataclass(frozen=True)
class Column:
    """What a column of a source is called here; its numbers become (number + plus) · times, in `unit`."""

    name: str
    unit: str = ""
    plus: float = 0.0
    times: float = 1.0


@dataclass(frozen=True)
class FetchSource:
    """Addresses, licence and columns of a source; `ends` seconds after its time a row's interval is over."""

    about: str
    licence: str
    columns: Mapping[str, Column]
    ends: float = 0.0
    hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchArea:
    """A point, and how far around it devices are wanted."""

    latitude: float
    longitude: float
    kilometres: float

    def holds(self, latitude: float, longitude: float) -> bool:
        """Whether a point is within.

        >>> SearchArea(48.78, 9.18, 200.0).holds(50.11, 8.68), SearchArea(48.78, 9.18, 100.0).holds(50.11, 8.68)
        (True, False)
        """
        north, east = radians(latitude - self.latitude), radians(longitude - self.longitude)
        both = cos(radians(latitude)) * cos(radians(self.latitude))
        return 2 * EARTH_KM * asin(sqrt(sin(north / 2) ** 2 + both * sin(east / 2) ** 2)) <= self.kilometres


@dataclass(frozen=True)
class FetchRequest:
    """Devices by name or by place, from the first day to the last."""

    devices: tuple[str, ...]
    first: date
    last: date
    place: SearchArea | None = None

    def __post_init__(self) -> None:
        if not (self.devices or self.place):
            raise UsageError("name devices, or a place with --near LAT,LON --within KM")
        if self.last < self.first:
            raise UsageError(f"--to {self.last} is before --from {self.first}")

    def days(self) -> Iterator[date]:
        """Every day."""
        for number in range((self.last - self.first).days + 1):
            yield self.first + timedelta(days=number)


def read_source(name: str, path: Path = SOURCES) -> FetchSource:
    """The source of this name."""
    sources = read_toml(path, dict[str, FetchSource])
    if name not in sources:
        raise UsageError(f"{path}: there is no [{name}]")
    return sources[name]


# OpenAQ's archive: gzipped CSV in long form, a file a location and day, in a public bucket that needs no key.


KEY = "OPENAQ_API_KEY"
LATITUDE, LONGITUDE = "latitude", "longitude"


def openaq_files(request: FetchRequest, source: FetchSource) -> Iterator[tuple[str, RecordFile]]:
    """The month (2026-01) and the file of each location and day that the bucket has."""
    wanted = request.devices or tuple(_near_openaq(request.place, source))
    months = dict.fromkeys((day.year, day.month) for day in request.days())
    for location in wanted:
        for year, month in months:
            prefix = f"records/csv.gz/locationid={location}/year={year}/month={month:02}/"
            for one in _listed(source.hosts["archive"], prefix):
                day = one.name.removesuffix(".csv.gz")[-8:]
                if f"{request.first:%Y%m%d}" <= day <= f"{request.last:%Y%m%d}":
                    yield f"{year}-{month:02}", one


def _listed(bucket: str, prefix: str) -> Iterator[RecordFile]:
    """The files of a folder of a bucket; the tag of a file that was stored in one piece is its MD5."""
    token = ""
    while True:
        query = {"list-type": "2", "prefix": prefix} | ({"continuation-token": token} if token else {})
        url = f"{bucket}/?{urlencode(query)}"
        try:
            answer = ElementTree.fromstring(read_url(url))
        except ElementTree.ParseError as error:
            raise DataError(f"the answer of {url} is not a list of files") from error
        for entry in answer.iterfind("{*}Contents"):
            key, size, tag = (str(entry.findtext(f"{{*}}{name}")) for name in ("Key", "Size", "ETag"))
            checksum = "" if "-" in tag else f"md5:{tag.strip(chr(34))}"
            yield RecordFile(key.rpartition("/")[2], int(size), checksum, f"{bucket}/{quote(key)}")
        token = answer.findtext("{*}NextContinuationToken") or ""
        if not token:
            return


def _near_openaq(place: SearchArea | None, source: FetchSource) -> Iterator[str]:
    """Locations around a place, which only the interface with a key tells."""
    if place is None or not os.environ.get(KEY):
        raise UsageError(f"OpenAQ tells what is near only to those with a key: set {KEY}, or name the locations")
    around = {"coordinates": f"{place.latitude},{place.longitude}", "radius": round(1000 * place.kilometres)}
    url = f"{source.hosts['near']}?{urlencode({**around, 'limit': 1000})}"
    answer = json.loads(read_url(url, {"X-API-Key": os.environ[KEY]}))
    yield from (str(one["id"]) for one in answer["results"])


def read_openaq(path: Path, source: FetchSource) -> pl.DataFrame:
    """The rows of a file: device, time, place, and a column for each quantity."""
    table = read_table(path).with_columns(pl.col("parameter").cast(pl.String), pl.col("units").cast(pl.String))
    known = table.filter(pl.col("parameter").is_in(list(source.columns)))
    times = pl.col("datetime").str.replace(" ", "T").str.to_datetime("%+", time_unit="us", time_zone="UTC")
    long = known.select(
        pl.col("location_id").cast(pl.Int64).cast(pl.String).alias(DEVICE),
        times.alias(TIME),
        pl.col("lat").cast(pl.Float64).alias(LATITUDE),
        pl.col("lon").cast(pl.Float64).alias(LONGITUDE),
        _named(source).alias("name"),
        pl.col("value").cast(pl.Float64),
    )
    return long.pivot("name", index=[DEVICE, TIME, LATITUDE, LONGITUDE], values="value", aggregate_function="mean")


def _named(source: FetchSource) -> pl.Expr:
    """Our name of a quantity; a gas has its unit behind it, which differs from provider to provider."""
    ours = {theirs: column.name for theirs, column in source.columns.items()}
    open_unit = [theirs for theirs, column in source.columns.items() if not column.unit]
    unit = pl.col("units").str.replace("µg/m³", "ugm3").str.replace("/", "")
    name = pl.col("parameter").replace(ours)
    return pl.when(pl.col("parameter").is_in(open_unit)).then(name + "_" + unit).otherwise(name)


DOWNLOADED, SIDECAR = ".downloaded", "_source.json"
Read = Callable[[Path], pl.DataFrame]


def fetch(
    files: Iterable[tuple[str, RecordFile]], read: Read, out: Path, progress: Progress | None = None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each month, its files downloaded first; a file that is not there is left out."""
    for month, some in groupby(sorted(files, key=lambda one: one[0]), key=lambda one: one[0]):
        frames = []
        for _, file in some:
            try:
                path = download_file(file, out / DOWNLOADED, progress)
            except MissingError:
                continue
            frames.append(read(path))
        if frames:
            yield month, pl.concat(frames, how="diagonal_relaxed")


def write_months(
    months: Iterable[tuple[str, pl.DataFrame]], out: Path, request: FetchRequest | None = None
) -> dict[str, Any]:
    """Write months, each device by itself; rows by device, and where devices are."""
    rows: dict[str, int] = {}
    places: dict[str, dict[str, float]] = {}
    for month, frame in months:
        for part in _within(frame, request).partition_by(DEVICE):
            device = str(part[DEVICE][0])
            table = part.drop(DEVICE, LATITUDE, LONGITUDE, strict=False).sort(TIME).unique(TIME, maintain_order=True)
            kept = [name for name in table.columns if table[name].count()]
            with replacing(out / f"device={quote(device, safe='')}" / f"{month}.parquet") as temporary:
                table.select(kept).write_parquet(temporary)
            rows[device] = rows.get(device, 0) + table.height
            if LATITUDE in part.columns and part[LATITUDE].count():
                places[device] = {name: part[name].drop_nulls()[-1] for name in (LATITUDE, LONGITUDE)}
    if not rows:
        raise DataError("nothing was found: no file of these devices and days is there")
    return {"rows": rows, "places": places}


def _within(frame: pl.DataFrame, request: FetchRequest | None) -> pl.DataFrame:
    """The rows of the days that were asked for; a row at midnight is of the day before."""
    if request is None:
        return frame
    return frame.filter(pl.col(TIME).dt.offset_by("-1us").dt.date().is_between(request.first, request.last))


def write_sidecar(out: Path, name: str, source: FetchSource, found: Mapping[str, Any]) -> Path:
    """What a reader of the folder should know."""
    units = {column.name: column.unit for column in source.columns.values() if column.unit}
    facts = {
        "source": name,
        "about": source.about,
        "licence": source.licence,
        "time": "UTC, the end of what a row describes",
        "units": units,
        "devices": {
            device: {"rows": rows, **found["places"].get(device, {})} for device, rows in found["rows"].items()
        },
    }
    with replacing(out / SIDECAR) as temporary:
        temporary.write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
    return out / SIDECAR


# Reference stations: AirNow's hourly files (all stations in one) and the yearly files of EPA's Air Quality System.
#
# Both give the beginning of an hour; a time here is the end of what it describes.


HOURLY = ("date", "clock", DEVICE, "site", "zone", "parameter", "units", "value", "agency")
SITES = {0: DEVICE, 8: LATITUDE, 9: LONGITUDE}  # fields of the list of stations
STATION = ("State Code", "County Code", "Site Num")


def airnow_files(
    request: FetchRequest, source: FetchSource, parameters: tuple[str, ...] = ()
) -> Iterator[tuple[str, RecordFile]]:
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


def near(request: FetchRequest, source: FetchSource) -> dict[str, tuple[float, float]]:
    """The stations around a place, with where they are."""
    if request.place is None:
        return {}
    lines = read_url(source.hosts["near"]).decode("utf-8", "replace").splitlines()
    rows = ([line.split("|")[field] for field in SITES] for line in lines if line.count("|") > max(SITES))
    found = {_station(name): (float(latitude), float(longitude)) for name, latitude, longitude in rows}
    return {name: where for name, where in found.items() if request.place.holds(*where)}


def read_airnow(path: Path, source: FetchSource, stations: frozenset[str]) -> pl.DataFrame:
    """The rows of these stations: device, time, and a column for each quantity."""
    return _read_aqs(path, source, stations) if path.suffix == ".zip" else _read_hourly(path, source, stations)


def _read_hourly(path: Path, source: FetchSource, stations: frozenset[str]) -> pl.DataFrame:
    schema = dict.fromkeys(HOURLY, pl.String())
    table = pl.read_csv(path, separator="|", has_header=False, schema=schema, quote_char=None, encoding="utf8-lossy")
    begins = pl.concat_str("date", "clock", separator=" ").str.to_datetime("%m/%d/%y %H:%M", time_unit="us")
    return _wide(table.with_columns(begins.alias(TIME), pl.col(DEVICE).str.slice(-9)), source, stations)


def _read_aqs(path: Path, source: FetchSource, stations: frozenset[str]) -> pl.DataFrame:
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


def _wide(table: pl.DataFrame, source: FetchSource, stations: frozenset[str]) -> pl.DataFrame:
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


# Files of PurpleAir's download tool, new and old: the sensor is the number that their names begin with.


TIMES = ("time_stamp", "created_at")


def read_purpleair(path: Path, source: FetchSource) -> pl.DataFrame:
    """The rows of a file: device, time, and a column for each quantity."""
    table = open_table(path)
    time = next((name for name in TIMES if name in table.columns), None)
    there = {theirs: column for theirs, column in source.columns.items() if theirs in table.columns}
    if time is None or not there:
        raise DataError(f"{path}: no file of PurpleAir: it has no column {' or '.join(TIMES)}, or none that we know")
    batch = table.read([time, *there])
    text = pl.col(time).cast(pl.String).str.replace(" UTC", "Z").str.replace(" ", "T")
    seconds = pl.from_epoch(text.cast(pl.Int64, strict=False)).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    times = pl.coalesce(seconds, text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False))
    if batch.select(times.is_null().any()).item():
        raise DataError(f"{path}: a row of '{time}' is no time like 2023-01-31T12:00:00Z")
    numbers = [
        ((pl.col(theirs).cast(pl.Float64, strict=False) + one.plus) * one.times).alias(one.name)
        for theirs, one in there.items()
    ]
    return batch.select(pl.lit(_sensor(path)).alias(DEVICE), times.alias(TIME), *numbers)


def _sensor(path: Path) -> str:
    """The sensor's number, or the whole name where there is none.

    >>> _sensor(Path("12345 2023-01-01 2023-02-01 60-Minute Average.csv")), _sensor(Path("roof.csv"))
    ('12345', 'roof')
    """
    found = re.match(r"\d+(?=[ _])", path.name)
    return found[0] if found else stem(path)


# Sensor.Community's archive: CSV with semicolons, a file a sensor and day; older years are in folders and gzipped.


FILE = re.compile(r'href="(\d{4}-\d\d-\d\d_[\w-]+_sensor_(\d+)(?:_indoor)?\.csv(?:\.gz)?)"')


def sensor_community_files(request: FetchRequest, source: FetchSource) -> Iterator[tuple[str, RecordFile]]:
    """The month and the file of each sensor and day that the archive has."""
    wanted = set(request.devices) | set(_near(request, source))
    for day in request.days():
        folder, page = _day(source.hosts["archive"], day)
        for name, sensor in FILE.findall(page):
            if sensor in wanted:
                yield f"{day:%Y-%m}", RecordFile(name, 0, "", f"{folder}/{name}")


def _day(host: str, day: date) -> tuple[str, str]:
    """The folder of a day and its page; no page where the archive has no such day."""
    for folder in (f"{host}/{day}", f"{host}/{day.year}/{day}"):
        try:
            return folder, read_url(f"{folder}/").decode("utf-8", "replace")
        except MissingError:
            continue
    return "", ""


def _near(request: FetchRequest, source: FetchSource) -> Iterator[str]:
    """Sensors that have reported from around a place in the last minutes."""
    if request.place:
        around = f"{request.place.latitude},{request.place.longitude},{request.place.kilometres:g}"
        yield from (str(one["sensor"]["id"]) for one in json.loads(read_url(f"{source.hosts['near']}{around}")))


def read_sensor_community(path: Path, source: FetchSource) -> pl.DataFrame:
    """The rows of a file: device, time, place, and a column for each quantity."""
    table = read_table(path)
    there = {theirs: column for theirs, column in source.columns.items() if theirs in table.columns}
    numbers = [
        ((pl.col(theirs).cast(pl.Float64, strict=False) + one.plus) * one.times).alias(one.name)
        for theirs, one in there.items()
    ]
    return table.select(
        pl.col("sensor_id").cast(pl.Int64).cast(pl.String).alias(DEVICE),
        pl.col("timestamp").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", time_zone="UTC").alias(TIME),
        pl.col("lat").cast(pl.Float64).alias(LATITUDE),
        pl.col("lon").cast(pl.Float64).alias(LONGITUDE),
        *numbers,
    )
