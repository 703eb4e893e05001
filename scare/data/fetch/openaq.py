"""OpenAQ's archive: gzipped CSV in long form, a file a location and day, in a public bucket that needs no key."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import polars as pl

from scare.data.download import RecordFile, read_url
from scare.data.fetch.sources import Place, Request, Source
from scare.data.readings import DEVICE, TIME
from scare.data.tables import read_table
from scare.errors import DataError, UsageError

KEY = "OPENAQ_API_KEY"
LATITUDE, LONGITUDE = "latitude", "longitude"


def files(request: Request, source: Source) -> Iterator[tuple[str, RecordFile]]:
    """The month (2026-01) and the file of each location and day that the bucket has."""
    wanted = request.devices or tuple(_near(request.place, source))
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


def _near(place: Place | None, source: Source) -> Iterator[str]:
    """Locations around a place, which only the interface with a key tells."""
    if place is None or not os.environ.get(KEY):
        raise UsageError(f"OpenAQ tells what is near only to those with a key: set {KEY}, or name the locations")
    around = {"coordinates": f"{place.latitude},{place.longitude}", "radius": round(1000 * place.kilometres)}
    url = f"{source.hosts['near']}?{urlencode({**around, 'limit': 1000})}"
    answer = json.loads(read_url(url, {"X-API-Key": os.environ[KEY]}))
    yield from (str(one["id"]) for one in answer["results"])


def read(path: Path, source: Source) -> pl.DataFrame:
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


def _named(source: Source) -> pl.Expr:
    """Our name of a quantity; a gas has its unit behind it, which differs from provider to provider."""
    ours = {theirs: column.name for theirs, column in source.columns.items()}
    open_unit = [theirs for theirs, column in source.columns.items() if not column.unit]
    unit = pl.col("units").str.replace("µg/m³", "ugm3").str.replace("/", "")
    name = pl.col("parameter").replace(ours)
    return pl.when(pl.col("parameter").is_in(open_unit)).then(name + "_" + unit).otherwise(name)
