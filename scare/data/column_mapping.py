"""Column mappings: which column of a table is what, and the readings that a mapping selects from a file.

A mapping comes from options, from `column_guess` or from the TOML of a `--config` file. `read_readings` reads all rows
at once, `iterate_tables` a block at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w

from scare.data.known_formats import Stamp
from scare.data.laser_pairs import find_laser_pairs, mean_of_lasers
from scare.data.quantities import STANDARD_TEMPERATURE
from scare.data.readings import DEVICE, REFERENCE, RESERVED, TIME, Channel, Readings
from scare.data.tables import LINE, ROWS, TableFile, TableOptions, Tally, open_table, read_numbers, stem
from scare.data.times import find_time_format, parse_times
from scare.errors import DataError, UsageError
from scare.schema import Positive

SITE = " site"  # no name in a header begins with a space


@dataclass(frozen=True)
class LabelColumns(TableOptions):
    """Columns of the time and of the device (empty if there is none), and how the files are written."""

    time: tuple[str, ...]
    device_column: str = ""


@dataclass(frozen=True)
class ColumnMapping(TableOptions):
    """Which columns of a table hold the time, the channels, the reference, the device and the site.

    Parameters
    ----------
    time
        Time column, or columns to join with a space.
    channels
        Input columns, first the channel to calibrate.
    reference
        Column of the reference instrument.
    device_column, site_column
        Columns that name the device and the site; empty if there are none.
    sort
        Order a device's rows and keep the first of equal times.
    dates, timezone, encoding, skip_rows, sheet, missing
        How the file is written, by keyword, as for `TableOptions`.

    Raises
    ------
    UsageError
        If there is no time column or no channel, or if a column is mapped twice.

    Examples
    --------
    >>> print(ColumnMapping(("date",), (Channel("pm25", "ug/m3"),), Channel("Ref.PM2.5", "ug/m3")).to_toml())
    [data]
    time = "date"
    channels = [
        { name = "pm25", unit = "ug/m3" },
    ]
    <BLANKLINE>
    [data.reference]
    name = "Ref.PM2.5"
    unit = "ug/m3"
    """

    time: tuple[str, ...]
    channels: tuple[Channel, ...]
    reference: Channel | None = None
    device_column: str = ""
    site_column: str = ""
    sort: bool = False

    def __post_init__(self) -> None:
        if not self.time or not self.channels:
            raise UsageError("a column mapping needs a time column and at least one channel")
        names = [channel.name for channel in self.channels]
        for name in names:
            if name in (*RESERVED, DEVICE):
                raise UsageError(f"a channel cannot be called '{name}'; rename the column in the file")
            if names.count(name) > 1 or (self.reference and name == self.reference.name):
                raise UsageError(f"the column '{name}' is mapped twice")

    @property
    def quantities(self) -> dict[str, str]:
        """The file's name of each numeric column, by our name of it: a channel's own name, or `reference`."""
        names = {channel.name: channel.name for channel in self.channels}
        return {**names, REFERENCE: self.reference.name} if self.reference else names

    def to_toml(self) -> str:
        """Return the mapping as the text of a `--config` file, without defaults."""
        table = {**_non_defaults(self), "time": self.time[0] if len(self.time) == 1 else list(self.time)}
        if self.reference:
            table["reference"] = _non_defaults(self.reference)
        table["channels"] = [_non_defaults(channel) for channel in self.channels]
        return tomli_w.dumps({"data": table})


@dataclass(frozen=True, kw_only=True)
class ReferenceTable(TableOptions):
    """The table [data.reference_table]: how the reference's own file is written, and its time columns."""

    time: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataSection(TableOptions):
    """The section [data] of a `--config` file: columns, as far as they are stated, and how rows are prepared."""

    time: tuple[str, ...] = ()
    channels: tuple[Channel, ...] = ()
    reference: Channel | None = None
    device_column: str = ""
    site_column: str = ""
    external: tuple[str, ...] = ()
    sort: bool = False
    step: Positive | None = None
    reference_file: str = ""
    reference_table: ReferenceTable | None = None
    apply_offset: bool = False
    quantity: str = ""
    stamp: Stamp = ""
    standard_temperature: float = STANDARD_TEMPERATURE


def tidy_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    """Expand the columns of [data]: a time column becomes a list of one, a channel's name becomes a table.

    >>> tidy_columns({"time": "date", "channels": ["NO2"], "reference": "Ref.NO2"})
    {'time': ['date'], 'channels': [{'name': 'NO2'}], 'reference': {'name': 'Ref.NO2'}}
    """
    tidy = dict(data)
    if isinstance(time := tidy.get("time"), str):
        tidy["time"] = [time]
    if isinstance(channels := tidy.get("channels"), list):
        tidy["channels"] = [{"name": channel} if isinstance(channel, str) else channel for channel in channels]
    if isinstance(reference := tidy.get("reference"), str):
        tidy["reference"] = {"name": reference}
    if "missing" in tidy:
        codes = tidy["missing"]
        tidy["missing"] = [str(code) for code in (codes if isinstance(codes, list) else [codes])]
    if isinstance(table := tidy.get("reference_table"), Mapping):
        tidy["reference_table"] = tidy_columns(table)
    return tidy


def _non_defaults(record: ColumnMapping | Channel) -> dict[str, Any]:
    """Return the fields that differ from their defaults, so that the TOML states no more than it must."""
    return {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if getattr(record, field.name) != field.default
    }


def iterate_tables(
    path: Path | str | TableFile, mapping: ColumnMapping, rows: int = ROWS, device: str = "", probed: bool = False
) -> Iterator[pl.DataFrame]:
    """Yield a file's rows in order, as frames of `device`, `time`, the channels and, if the file has it, `reference`.

    Without a device column all rows belong to `device`, by default the file's name. `probed` skips the check that a
    Parquet file can be read, for one that was checked before.
    """
    table = open_table(path, mapping, probed)
    if mapping.reference and mapping.reference.name not in table.columns:
        mapping = replace(mapping, reference=None)
    for frame in _canonical_frames(table, mapping, device or stem(table.path), rows):
        yield frame.drop(LINE, SITE)


def _canonical_frames(table: TableFile, mapping: ColumnMapping, device: str, rows: int) -> Iterator[pl.DataFrame]:
    """Read the file in batches: line, site, device and time of each row, and the mapped columns under our names."""
    labels = filter(None, [mapping.device_column, mapping.site_column])
    pairs = find_laser_pairs(table.columns)
    # The columns of the file behind each mapped one: two laser counters, or the column itself.
    sources = {column: pairs.get(column, (column,)) for column in mapping.quantities.values()}
    columns = [*mapping.time, *chain.from_iterable(sources.values()), *labels]
    table.require(columns)
    form = find_time_format(table, mapping.time)
    tally = Tally(table)
    units = {channel.name: channel.unit for channel in mapping.channels}

    def read_column(batch: pl.DataFrame, column: str, unit: str) -> pl.Series:
        first, *second = (read_numbers(batch, source, table, tally) for source in sources[column])
        return mean_of_lasers(first, second[0], unit) if second else first

    for batch in table.batches(columns, rows):
        batch, times = parse_times(batch, form, table, tally)
        site = pl.col(mapping.site_column).cast(pl.String) if mapping.site_column else pl.lit("")
        frame = batch.select(LINE, site.alias(SITE), device_series(batch, mapping.device_column, device, table))
        quantities = mapping.quantities.items()
        columns_of_numbers = [
            read_column(batch, column, units.get(name, "")).alias(name) for name, column in quantities
        ]
        yield frame.with_columns(times, *columns_of_numbers)
    tally.report()


def device_series(batch: pl.DataFrame, column: str, device: str, table: TableFile) -> pl.Series:
    """Return the device of each row: from the column, if there is one, otherwise `device`."""
    if not column:
        return pl.repeat(device, batch.height, eager=True).alias(DEVICE)
    unnamed = batch.filter(pl.col(column).is_null())
    if unnamed.height:
        raise DataError(f"{table.place(unnamed[LINE][0], column)}: the device is missing")
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
    table = open_table(path, mapping)
    frame = pl.concat(list(_canonical_frames(table, mapping, device or stem(table.path), ROWS)))
    readings = []
    for group in frame.partition_by(DEVICE, maintain_order=True):
        rows = group.unique(TIME, keep="first", maintain_order=True).sort(TIME) if mapping.sort else group
        late = rows.filter(pl.col(TIME) <= pl.col(TIME).shift())
        if late.height:
            line, time = late.select(LINE, TIME).row(0)
            raise DataError(
                f"{table.place(line)}: {time:%Y-%m-%d %H:%M:%S} is not later than the row before it;"
                " data.sort in a --config file orders the rows and drops repeated times"
            )
        site = next(iter(rows[SITE].drop_nulls()), "")
        columns = rows.drop(LINE, SITE, DEVICE)
        readings.append(Readings(rows[DEVICE][0], columns, mapping.channels, mapping.reference, site))
    return readings


def read_labels(path: Path | str, mapping: ColumnMapping, column: str) -> dict[str, pl.DataFrame]:
    """Read the text of one more column: for each device a frame of `time` and `label`."""
    table = open_table(path, mapping)
    # The column is read in the place of the site, the only text that `_canonical_frames` keeps besides the device.
    frames = list(_canonical_frames(table, replace(mapping, site_column=column), stem(table.path), ROWS))
    labelled = pl.concat(frames).select(DEVICE, TIME, pl.col(SITE).alias("label")).unique([DEVICE, TIME], keep="first")
    return {str(group[DEVICE][0]): group.drop(DEVICE) for group in labelled.partition_by(DEVICE)}
