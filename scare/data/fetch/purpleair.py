"""Files of PurpleAir's download tool, new and old: the sensor is the number that their names begin with."""

import re
from pathlib import Path

import polars as pl

from scare.data.fetch.sources import Source
from scare.data.readings import DEVICE, TIME
from scare.data.table_files import open_table
from scare.data.tables import stem
from scare.errors import DataError

TIMES = ("time_stamp", "created_at")


def read(path: Path, source: Source) -> pl.DataFrame:
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
