"""Sensor.Community's archive: CSV with semicolons, a file a sensor and day; older years are in folders and gzipped."""

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import polars as pl

from scare.data.download import MissingError, RecordFile, read_url
from scare.data.fetch.openaq import LATITUDE, LONGITUDE
from scare.data.fetch.sources import Request, Source
from scare.data.readings import DEVICE, TIME
from scare.data.tables import read_table

FILE = re.compile(r'href="(\d{4}-\d\d-\d\d_[\w-]+_sensor_(\d+)(?:_indoor)?\.csv(?:\.gz)?)"')


def files(request: Request, source: Source) -> Iterator[tuple[str, RecordFile]]:
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


def _near(request: Request, source: Source) -> Iterator[str]:
    """Sensors that have reported from around a place in the last minutes."""
    if request.place:
        around = f"{request.place.latitude},{request.place.longitude},{request.place.kilometres:g}"
        yield from (str(one["sensor"]["id"]) for one in json.loads(read_url(f"{source.hosts['near']}{around}")))


def read(path: Path, source: Source) -> pl.DataFrame:
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
