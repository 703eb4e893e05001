"""Tables: CSV and Parquet files become readings, at once or in batches, and frames become files.

Comes from whatever a logger wrote; goes to `readings` (`read_readings`) or, a block of rows at a time, to a
calibrator (`iterate_tables`). `inspection` proposes the `ColumnMapping` of a file nobody has described yet.
"""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import IO, cast

import numpy as np
import polars as pl
import polars.selectors as cs

from scare.data.mapping import ColumnMapping
from scare.data.readings import DEVICE, TIME, Readings
from scare.data.table_files import LINE, ROWS, TableFile, open_table, strict_numbers, with_numbers
from scare.data.times import find_time_format, parse_times
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.words import duration

SITE = " site"  # no name in a header begins with a space
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.fZ"
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet")  # of table files
STEP_BLOCK = 8  # a shorter run of another step is a few gaps in a row, not a change of step


def read_table(path: Path | str) -> pl.DataFrame:
    """Read a whole file into a frame: columns of numbers are Float64, other text stays text."""
    table = open_table(path)
    return with_numbers(table.read(table.columns).drop(LINE), table.decimal)


def iterate_tables(
    path: Path | str, mapping: ColumnMapping, rows: int = ROWS, device: str = "", probed: bool = False
) -> Iterator[pl.DataFrame]:
    """Stream a file in its order as frames of `device`, `time`, the channels and, if there, `reference`.

    Without a device column all rows belong to `device`, by default the file's name. A Parquet file that was `probed`
    is not read by a child process first.
    """
    table = open_table(path, probed)
    if mapping.reference and mapping.reference.name not in table.columns:
        mapping = replace(mapping, reference=None)
    for frame in _canonical_frames(table, mapping, device or stem(table.path), rows):
        yield frame.drop(LINE, SITE)


def stem(path: PurePath) -> str:
    """A file's name without the suffixes of tables.

    >>> stem(PurePath("box-01.csv.gz"))
    'box-01'
    """
    return re.sub(r"(\.(csv|tsv|txt|parquet))?(\.gz)?$", "", path.name, count=1, flags=re.IGNORECASE)


def _canonical_frames(table: TableFile, mapping: ColumnMapping, device: str, rows: int) -> Iterator[pl.DataFrame]:
    labels = filter(None, [mapping.device_column, mapping.site_column])
    columns = [*mapping.time, *mapping.quantities.values(), *labels]
    table.require(columns)
    form = find_time_format(table, mapping.time, mapping.dates)
    for batch in table.batches(columns, rows):
        site = pl.col(mapping.site_column).cast(pl.String) if mapping.site_column else pl.lit("")
        frame = batch.select(LINE, site.alias(SITE), device_series(batch, mapping.device_column, device, table))
        quantities = mapping.quantities.items()
        numbers = [strict_numbers(batch, column, table).alias(name) for name, column in quantities]
        yield frame.with_columns(parse_times(batch, form, table), *numbers)


def device_series(batch: pl.DataFrame, column: str, device: str, table: TableFile) -> pl.Series:
    """The device of each row: from the column, if there is one, otherwise `device`."""
    if not column:
        return pl.repeat(device, batch.height, eager=True).alias(DEVICE)
    for line in batch.filter(pl.col(column).is_null())[LINE].head(1):
        raise DataError(f"{table.place(line, column)}: the device is missing")
    return batch[column].cast(pl.String).alias(DEVICE)


def read_readings(path: Path | str, mapping: ColumnMapping, device: str | None = None) -> list[Readings]:
    """Read the readings of each device in a file.

    Parameters
    ----------
    path
        CSV (separated by comma, semicolon or tab; also gzipped) or Parquet.
    mapping
        Which columns to read.
    device
        Name of the device if there is no device column; the file's name if not given.

    Returns
    -------
    list of Readings
        One for each device, in the order of the file.

    Raises
    ------
    DataError
        If the file, a column, a time or a number cannot be read; the message has file, row and column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from scare import Channel, ColumnMapping
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "box.csv"
    ...     pl.DataFrame({"when": ["2026-01-01T00:00Z", "2026-01-01T00:01Z"], "NO2": [20.5, 21.0]}).write_csv(file)
    ...     (box,) = read_readings(file, ColumnMapping(("when",), (Channel("NO2", "ppb"),)))
    >>> box.device, len(box), box.step_seconds
    ('box', 2, 60.0)
    """
    table = open_table(path)
    frame = pl.concat(list(_canonical_frames(table, mapping, device or stem(table.path), ROWS)))
    groups = frame.partition_by(DEVICE, maintain_order=True)
    return [_device_readings(group, mapping, table) for group in groups]


def _device_readings(group: pl.DataFrame, mapping: ColumnMapping, table: TableFile) -> Readings:
    if mapping.sort:
        group = group.unique(TIME, keep="first", maintain_order=True).sort(TIME)
    late = group.filter(pl.col(TIME) <= pl.col(TIME).shift())
    for line, time in late.select(LINE, TIME).head(1).rows():
        raise DataError(
            f"{table.place(line)}: {time:%Y-%m-%d %H:%M:%S} is not later than the row before it;"
            " data.sort in a --config file orders the rows and drops repeated times"
        )
    device, site = group[DEVICE][0], next(iter(group[SITE].drop_nulls()), "")
    return Readings(device, group.drop(LINE, SITE, DEVICE), mapping.channels, mapping.reference, site)


def read_labels(path: Path | str, mapping: ColumnMapping, column: str) -> dict[str, pl.DataFrame]:
    """Read the text of one more column at each `time`, as `label`, by device."""
    table = open_table(path)
    frames = list(_canonical_frames(table, replace(mapping, site_column=column), stem(table.path), ROWS))
    labelled = pl.concat(frames).select(DEVICE, TIME, pl.col(SITE).alias("label")).unique([DEVICE, TIME], keep="first")
    return {str(group[DEVICE][0]): group.drop(DEVICE) for group in labelled.partition_by(DEVICE)}


def check_step(readings: Readings) -> None:
    """Raise a DataError if over a tenth of the rows, in one block, have another step than the rest.

    Steps within a fifth of each other are alike; the block is the run of rows in which the other step
    outnumbers all else the most, so scattered gaps and jitter never add up to one.
    """
    if len(readings) <= STEP_BLOCK:
        return
    usual, steps = readings.step_seconds, np.diff(readings.times)
    sizes = np.rint(np.log(steps / usual) / np.log(1.5)).astype(int)
    others, counts = np.unique(sizes[sizes != 0], return_counts=True)
    if not len(others):
        return
    alike = sizes == others[counts.argmax()]
    start, end, surplus = _densest_block(alike)
    if surplus < max(STEP_BLOCK, len(steps) / 10):
        return
    other = float(np.median(steps[start:end][alike[start:end]]))
    begins = start >= len(steps) - end
    before, after, change = (usual, other, start) if begins else (other, usual, end)
    raise DataError(
        f"{readings.device}: the time step changes from {duration(before)} to {duration(after)} at"
        f" {readings.frame[TIME][change]:%Y-%m-%d %H:%M:%S}; split the file there or average it to the"
        " coarser step with data.step in a --config file"
    )


def _densest_block(hits: np.ndarray) -> tuple[int, int, int]:
    """Start, end and surplus of the block of `hits` (bool [n]) in which true outnumbers false the most."""
    sums = np.concatenate([[0], np.cumsum(np.where(hits, 1, -1))])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    return int(np.argmin(sums[: end + 1])), end, int(sums[end] - lowest[end])


def write_table(frame: pl.DataFrame, path: Path | str) -> None:
    """Write a frame as CSV, gzipped CSV or Parquet, by the suffix of `path`; times as ISO 8601 in UTC."""
    with table_writer(path) as write:
        write(frame)


@contextmanager
def table_writer(path: Path | str) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield a function that appends frames to one file, which appears when the block succeeds.

    >>> folder = TemporaryDirectory()
    >>> with table_writer(Path(folder.name) / "a.csv") as write:
    ...     write(pl.DataFrame({"pm25": [1.0]}))
    ...     write(pl.DataFrame({"pm25": [2.5]}))
    >>> (Path(folder.name) / "a.csv").read_text().split()
    ['pm25', '1.0', '2.5']
    >>> folder.cleanup()
    """
    kinds = {".csv": _csv_writer, ".csv.gz": _csv_writer, ".parquet": _parquet_writer}
    writer = next((kinds[suffix] for suffix in kinds if str(path).lower().endswith(suffix)), None)
    if writer is None:
        raise UsageError(f"cannot write {path}: the name should end in .csv, .csv.gz or .parquet")
    with replacing(path) as temporary, writer(temporary) as write:
        naive, aware = cs.datetime(time_zone=None), cs.datetime(time_zone="*")
        in_utc = naive.dt.replace_time_zone("UTC"), aware.dt.convert_time_zone("UTC")
        yield lambda frame: write(frame.with_columns(*in_utc))


@contextmanager
def _csv_writer(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    header = True

    def write(frame: pl.DataFrame) -> None:
        nonlocal header
        frame.write_csv(handle, include_header=header, datetime_format=WRITTEN_TIME)
        header = False

    with ExitStack() as stack:
        handle: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix.lower() == ".gz":  # without name and date in its header, equal tables are equal files
            zipped = gzip.GzipFile("", "wb", 6, handle, mtime=0)
            handle = cast(IO[bytes], stack.enter_context(zipped))
        yield write


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Write parts to a temporary folder and join them at the end, a row group at a time."""
    parts: list[Path] = []

    def write(frame: pl.DataFrame) -> None:
        parts.append(Path(folder) / f"{len(parts)}.parquet")
        frame.write_parquet(parts[-1])

    with TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:
        yield write
        if len(parts) == 1:
            parts[0].replace(path)
            return
        (pl.scan_parquet(parts, glob=False) if parts else pl.LazyFrame()).sink_parquet(path)
