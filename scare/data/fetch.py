"""Fetch public archives (OpenAQ, Sensor.Community, AirNow, PurpleAir): one file per month, one folder per device.

    OUT/device=12345/2026-01.parquet   time (UTC, the end of the interval) and one column per quantity
    OUT/_source.json                   origin, licence, units, and where the devices are
    OUT/.downloaded/                   the original files, so that the same request downloads only what is new

Each source lists the files of a request (`openaq_files` …) and reads one of them (`read_openaq` …); addresses and
columns are data (`fetch_sources.toml`). Called by `scare fetch`; `scare archive` reads the result.
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

import polars as pl

from scare.data.download import MissingError, Progress, RecordFile, download_file, read_url
from scare.data.readings import DEVICE, TIME
from scare.data.sites import Place
from scare.data.tables import open_table, read_table, stem
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.schema import read_toml

SOURCES = Path(__file__).with_name("fetch_sources.toml")
DOWNLOADED, SIDECAR = ".downloaded", "_source.json"
LATITUDE, LONGITUDE = "latitude", "longitude"

Read = Callable[[Path], pl.DataFrame]

OPENAQ_KEY = "OPENAQ_API_KEY"
SENSOR_COMMUNITY_LINK = re.compile(r'href="(\d{4}-\d\d-\d\d_[\w-]+_sensor_(\d+)(?:_indoor)?\.csv(?:\.gz)?)"')
AIRNOW_COLUMNS = ("date", "clock", DEVICE, "site", "zone", "parameter", "units", "value", "agency")
AIRNOW_SITE_FIELDS = {0: DEVICE, 8: LATITUDE, 9: LONGITUDE}  # positions in a line of the list of stations
AQS_STATION = ("State Code", "County Code", "Site Num")  # columns that make up a station's number
PURPLEAIR_TIMES = ("time_stamp", "created_at")  # time columns of the new and of the old download tool


@dataclass(frozen=True)
class Column:
    """What we call a source's column; its numbers are converted to `unit` by (number + plus) · times."""

    name: str
    unit: str = ""
    plus: float = 0.0
    times: float = 1.0


@dataclass(frozen=True)
class FetchSource:
    """Addresses, licence and columns of a source."""

    about: str
    licence: str
    columns: Mapping[str, Column]  # by the source's name of the column
    ends: float = 0.0  # seconds from the time of a row to the end of the interval that it describes
    hosts: Mapping[str, str] = field(default_factory=dict)  # addresses by what is found there


@dataclass(frozen=True)
class SearchArea:
    """A point and the radius within which devices are wanted."""

    latitude: float
    longitude: float
    kilometres: float

    def contains(self, latitude: float, longitude: float) -> bool:
        """Whether a point lies within the radius.

        >>> SearchArea(48.78, 9.18, 200.0).contains(50.11, 8.68), SearchArea(48.78, 9.18, 100.0).contains(50.11, 8.68)
        (True, False)
        """
        metres = Place(self.latitude, self.longitude).metres_to(Place(latitude, longitude))
        return metres <= 1000 * self.kilometres


@dataclass(frozen=True)
class FetchRequest:
    """Devices, named or within an area, from the first day to the last."""

    devices: tuple[str, ...]
    first: date
    last: date
    area: SearchArea | None = None

    def __post_init__(self) -> None:
        if not (self.devices or self.area):
            raise UsageError("name devices, or a place with --near LAT,LON --within KM")
        if self.last < self.first:
            raise UsageError(f"--to {self.last} is before --from {self.first}")

    def days(self) -> Iterator[date]:
        """Yield every day of the request."""
        for number in range((self.last - self.first).days + 1):
            yield self.first + timedelta(days=number)


def read_source(name: str, path: Path = SOURCES) -> FetchSource:
    """Read one source's table from a TOML file of sources."""
    sources = read_toml(path, dict[str, FetchSource])
    if name not in sources:
        raise UsageError(f"{path}: there is no [{name}]")
    return sources[name]


def fetch(
    files: Iterable[tuple[str, RecordFile]], read: Read, out: Path, progress: Progress | None = None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Download the files of each month and yield the month and its rows; a file that the server lacks is skipped."""

    def month_of(pair: tuple[str, RecordFile]) -> str:
        return pair[0]

    for month, pairs in groupby(sorted(files, key=month_of), key=month_of):
        frames = []
        for _, file in pairs:
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
    """Write each month's rows, one file per device; returns the `rows` and the `places` (degrees) of the devices.

    Rows outside the days of `request` are dropped.
    """
    rows: dict[str, int] = {}  # number of rows, by device
    places: dict[str, dict[str, float]] = {}  # degrees, by device
    for month, frame in months:
        if request is not None:  # a row at midnight belongs to the day before
            day = pl.col(TIME).dt.offset_by("-1us").dt.date()
            frame = frame.filter(day.is_between(request.first, request.last))
        for part in frame.partition_by(DEVICE):
            device = str(part[DEVICE][0])
            table = part.drop(DEVICE, LATITUDE, LONGITUDE, strict=False).sort(TIME).unique(TIME, maintain_order=True)
            filled = [name for name in table.columns if table[name].count()]  # other devices' columns are all null
            with replacing(out / f"device={quote(device, safe='')}" / f"{month}.parquet") as temporary:
                table.select(filled).write_parquet(temporary)
            rows[device] = rows.get(device, 0) + table.height
            if LATITUDE in part.columns and part[LATITUDE].count():
                places[device] = {name: part[name].drop_nulls()[-1] for name in (LATITUDE, LONGITUDE)}
    if not rows:
        raise DataError("nothing was found: the source has no files for these devices and days")
    return {"rows": rows, "places": places}


def write_sidecar(out: Path, name: str, source: FetchSource, summary: Mapping[str, Any]) -> Path:
    """Write origin, licence, units and devices beside the data; `summary` is what `write_months` returns."""
    units = {column.name: column.unit for column in source.columns.values() if column.unit}
    facts = {
        "source": name,
        "about": source.about,
        "licence": source.licence,
        "time": "UTC, the end of what a row describes",
        "units": units,
        "devices": {
            device: {"rows": rows, **summary["places"].get(device, {})} for device, rows in summary["rows"].items()
        },
    }
    with replacing(out / SIDECAR) as temporary:
        temporary.write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
    return out / SIDECAR


def openaq_files(request: FetchRequest, source: FetchSource) -> Iterator[tuple[str, RecordFile]]:
    """Yield (month, file) for each location and day: gzipped CSV in a public bucket that needs no key."""
    locations = request.devices
    if not locations:
        area, key = request.area, os.environ.get(OPENAQ_KEY)
        if area is None or not key:
            raise UsageError(f"OpenAQ searches by place only with an API key: set {OPENAQ_KEY}, or name the locations")
        query = {"coordinates": f"{area.latitude},{area.longitude}", "radius": round(1000 * area.kilometres)}
        url = f"{source.hosts['near']}?{urlencode({**query, 'limit': 1000})}"
        locations = tuple(str(location["id"]) for location in json.loads(read_url(url, {"X-API-Key": key}))["results"])
    months = dict.fromkeys((day.year, day.month) for day in request.days())
    for location in locations:
        for year, month in months:
            prefix = f"records/csv.gz/locationid={location}/year={year}/month={month:02}/"
            for file in _list_bucket(source.hosts["archive"], prefix):
                day = file.name.removesuffix(".csv.gz")[-8:]  # location-2178-20260131.csv.gz
                if f"{request.first:%Y%m%d}" <= day <= f"{request.last:%Y%m%d}":
                    yield f"{year}-{month:02}", file


def _list_bucket(bucket: str, prefix: str) -> Iterator[RecordFile]:
    """List the files of a folder of an S3 bucket; the ETag of a file stored in one part is its MD5."""
    token = ""
    while True:
        query = {"list-type": "2", "prefix": prefix} | ({"continuation-token": token} if token else {})
        url = f"{bucket}/?{urlencode(query)}"
        try:
            listing = ElementTree.fromstring(read_url(url))
        except ElementTree.ParseError as error:
            raise DataError(f"{url} did not return a list of files") from error
        for entry in listing.iterfind("{*}Contents"):
            key, size, tag = (str(entry.findtext(f"{{*}}{name}")) for name in ("Key", "Size", "ETag"))
            md5 = tag.strip('"')
            checksum = "" if "-" in tag else f"md5:{md5}"  # a minus: stored in several parts
            yield RecordFile(key.rpartition("/")[2], int(size), checksum, f"{bucket}/{quote(key)}")
        token = listing.findtext("{*}NextContinuationToken") or ""
        if not token:
            return


def read_openaq(path: Path, source: FetchSource) -> pl.DataFrame:
    """Read a file with one value per row, and pivot it: device, time, place, and a column for each quantity.

    A gas has its unit appended to its name, since the unit differs from provider to provider.
    """
    table = read_table(path).with_columns(pl.col("parameter").cast(pl.String), pl.col("units").cast(pl.String))
    known = table.filter(pl.col("parameter").is_in(list(source.columns)))
    times = pl.col("datetime").str.replace(" ", "T").str.to_datetime("%+", time_unit="us", time_zone="UTC")
    name = pl.col("parameter").replace({theirs: column.name for theirs, column in source.columns.items()})
    unit = pl.col("units").str.replace("µg/m³", "ugm3").str.replace("/", "")
    without_unit = [theirs for theirs, column in source.columns.items() if not column.unit]  # gases
    long = known.select(
        pl.col("location_id").cast(pl.Int64).cast(pl.String).alias(DEVICE),
        times.alias(TIME),
        pl.col("lat").cast(pl.Float64).alias(LATITUDE),
        pl.col("lon").cast(pl.Float64).alias(LONGITUDE),
        pl.when(pl.col("parameter").is_in(without_unit)).then(name + "_" + unit).otherwise(name).alias("name"),
        pl.col("value").cast(pl.Float64),
    )
    return long.pivot("name", index=[DEVICE, TIME, LATITUDE, LONGITUDE], values="value", aggregate_function="mean")


def sensor_community_files(request: FetchRequest, source: FetchSource) -> Iterator[tuple[str, RecordFile]]:
    """Yield (month, file) for each sensor and day: CSV with semicolons, gzipped in a folder per year for older years.

    A day that the archive lacks is skipped.
    """
    sensors = set(request.devices)
    if area := request.area:  # the API lists the sensors that reported in the last minutes
        query = f"{area.latitude},{area.longitude},{area.kilometres:g}"
        sensors |= {str(entry["sensor"]["id"]) for entry in json.loads(read_url(f"{source.hosts['near']}{query}"))}
    for day in request.days():
        for folder in (f"{source.hosts['archive']}/{day}", f"{source.hosts['archive']}/{day.year}/{day}"):
            try:
                page = read_url(f"{folder}/").decode("utf-8", "replace")
            except MissingError:
                continue
            for name, sensor in SENSOR_COMMUNITY_LINK.findall(page):
                if sensor in sensors:
                    yield f"{day:%Y-%m}", RecordFile(name, 0, "", f"{folder}/{name}")
            break  # a day is in one of the two folders


def read_sensor_community(path: Path, source: FetchSource) -> pl.DataFrame:
    """Read one sensor's day: device, time, place, and a column for each quantity."""
    table = read_table(path)
    return table.select(
        pl.col("sensor_id").cast(pl.Int64).cast(pl.String).alias(DEVICE),
        pl.col("timestamp").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", time_zone="UTC").alias(TIME),
        pl.col("lat").cast(pl.Float64).alias(LATITUDE),
        pl.col("lon").cast(pl.Float64).alias(LONGITUDE),
        *_converted_columns(source, table.columns),
    )


def _converted_columns(source: FetchSource, present: Iterable[str]) -> list[pl.Expr]:
    """Return the source's columns that are in `present`, converted to our names and units."""
    return [
        ((pl.col(theirs).cast(pl.Float64, strict=False) + column.plus) * column.times).alias(column.name)
        for theirs, column in source.columns.items()
        if theirs in present
    ]


def airnow_files(
    request: FetchRequest, source: FetchSource, parameters: tuple[str, ...] = ()
) -> Iterator[tuple[str, RecordFile]]:
    """Yield (month, file) for each hour of AirNow, whose files hold all stations.

    With `parameters` (codes of EPA's Air Quality System, AQS), yield (year, file) for each code and year of AQS.
    """
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


def find_airnow_stations(request: FetchRequest, source: FetchSource) -> dict[str, tuple[float, float]]:
    """Return the latitude and longitude of the stations in the request's area, by nine-digit number."""
    if request.area is None:
        return {}
    stations = {}
    for line in read_url(source.hosts["near"]).decode("utf-8", "replace").splitlines():
        if line.count("|") > max(AIRNOW_SITE_FIELDS):
            number, latitude, longitude = (line.split("|")[position] for position in AIRNOW_SITE_FIELDS)
            if request.area.contains(float(latitude), float(longitude)):
                # Some have the code of their country before the nine digits.
                stations[number[-9:]] = float(latitude), float(longitude)
    return stations


def read_airnow(path: Path, source: FetchSource, stations: frozenset[str]) -> pl.DataFrame:
    """Read the rows of these stations: device, time (the end of the hour), and a column for each quantity."""
    if path.suffix == ".zip":
        table = _read_aqs(path, stations)
    else:
        schema = dict.fromkeys(AIRNOW_COLUMNS, pl.String())
        lines = pl.read_csv(
            path, separator="|", has_header=False, schema=schema, quote_char=None, encoding="utf8-lossy"
        )
        begins = pl.concat_str("date", "clock", separator=" ").str.to_datetime("%m/%d/%y %H:%M", time_unit="us")
        table = lines.with_columns(begins.alias(TIME), pl.col(DEVICE).str.slice(-9))
    known = pl.col("parameter").is_in(list(source.columns)) & pl.col(DEVICE).is_in(list(stations))
    names = {theirs: column.name for theirs, column in source.columns.items()}
    factors = {theirs: column.times for theirs, column in source.columns.items()}
    factor = pl.col("parameter").replace_strict(factors, return_dtype=pl.Float64)
    long = table.filter(known).select(
        DEVICE,
        # Both archives give the beginning of an hour, `ends` seconds before its end.
        (pl.col(TIME).dt.replace_time_zone("UTC") + pl.duration(seconds=source.ends)).alias(TIME),
        pl.col("parameter").replace(names).alias("name"),
        (pl.col("value").cast(pl.Float64, strict=False) * factor).alias("value"),
    )
    return long.pivot("name", index=[DEVICE, TIME], values="value", aggregate_function="mean")


def _read_aqs(path: Path, stations: frozenset[str]) -> pl.DataFrame:
    """Read the lines of these stations from a zipped yearly file, which is too large to hold in memory."""
    # A line starts with the station's number, divided into state, county and site as in `AQS_STATION`.
    starts = tuple(f'"{number[:2]}","{number[2:5]}","{number[5:]}"'.encode() for number in stations)
    try:
        with ZipFile(path) as archive, archive.open(archive.namelist()[0]) as handle:
            header = next(handle)
            lines = [line for line in handle if line.startswith(starts)]
    except (BadZipFile, IndexError, StopIteration) as error:
        raise DataError(f"{path}: not a yearly file of the Air Quality System") from error
    table = pl.read_csv(io.BytesIO(header + b"".join(lines)), infer_schema=False)
    begins = pl.concat_str("Date GMT", "Time GMT", separator=" ").str.to_datetime("%Y-%m-%d %H:%M", time_unit="us")
    table = table.rename({"Parameter Code": "parameter", "Sample Measurement": "value"})
    return table.with_columns(begins.alias(TIME), pl.concat_str(*AQS_STATION).alias(DEVICE))


def read_purpleair(path: Path, source: FetchSource) -> pl.DataFrame:
    """Read a file of PurpleAir's download tool: device, time, and a column for each quantity."""
    table = open_table(path)
    time = next((name for name in PURPLEAIR_TIMES if name in table.columns), None)
    numbers = _converted_columns(source, table.columns)
    if time is None or not numbers:
        columns = " or ".join(PURPLEAIR_TIMES)
        raise DataError(f"{path}: not a PurpleAir file: it has no column {columns}, or no known quantity")
    batch = table.read([time, *(theirs for theirs in source.columns if theirs in table.columns)])
    text = pl.col(time).cast(pl.String).str.replace(" UTC", "Z").str.replace(" ", "T")
    seconds = pl.from_epoch(text.cast(pl.Int64, strict=False)).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    times = pl.coalesce(seconds, text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False))
    if batch.select(times.is_null().any()).item():
        raise DataError(f"{path}: column '{time}' has a value that is not a time like 2023-01-31T12:00:00Z")
    return batch.select(pl.lit(_purpleair_sensor(path)).alias(DEVICE), times.alias(TIME), *numbers)


def _purpleair_sensor(path: Path) -> str:
    """Return the sensor's number at the beginning of the file name, or else the whole name.

    >>> _purpleair_sensor(Path("12345 2023-01-01 60-Minute Average.csv")), _purpleair_sensor(Path("roof.csv"))
    ('12345', 'roof')
    """
    number = re.match(r"\d+(?=[ _])", path.name)
    return number[0] if number else stem(path)
