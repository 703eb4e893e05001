"""From a request to a folder: files are downloaded, read, and written as a month a file and a device a folder.

OUT/device=12345/2026-01.parquet   time (UTC, the end of what a row describes) and a column a quantity
OUT/_source.json                   where it came from, licence, units, where devices are
OUT/.downloaded/                   the files as they were, so that the same request downloads only what is new
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from scare.data.download import MissingError, Progress, RecordFile, download_file
from scare.data.fetch.openaq import LATITUDE, LONGITUDE
from scare.data.fetch.sources import Request, Source
from scare.data.readings import DEVICE, TIME
from scare.errors import DataError
from scare.files import replacing

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


def keep_months(
    months: Iterable[tuple[str, pl.DataFrame]], out: Path, request: Request | None = None
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


def _within(frame: pl.DataFrame, request: Request | None) -> pl.DataFrame:
    """The rows of the days that were asked for; a row at midnight is of the day before."""
    if request is None:
        return frame
    return frame.filter(pl.col(TIME).dt.offset_by("-1us").dt.date().is_between(request.first, request.last))


def write_sidecar(out: Path, name: str, source: Source, found: Mapping[str, Any]) -> Path:
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
