"""Tables in memory as readings: pandas, Polars or a dict of columns, by the rules that files are read by.

Rows are numbered, so that what is computed by device and in the order of time can be given back in the order of the
table. pandas is never imported here: a table of pandas is recognised by its type.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from scare.data.column_mapping import ColumnMapping, iterate_tables
from scare.data.readings import DEVICE, RESERVED, TIME, Channel, Readings
from scare.data.tables import LINE, READABLE, TableFile
from scare.errors import DataError, UsageError

ROW = " row"  # no name in a header begins with a space
ONLY_DEVICE = "device"  # the name of the device in a table that names none
NAME = Path("the table")  # what messages call it in the place of a file's name


@dataclass(frozen=True)
class DeviceRows:
    """The readings of one device, and the index in the table of each of them [rows]."""

    readings: Readings
    numbers: np.ndarray


def read_frame(
    table: Any,
    channels: Sequence[Channel | str] = (),
    reference: Channel | str | None = None,
    time: str = TIME,
    device_column: str = "",
    device: str = ONLY_DEVICE,
) -> list[DeviceRows]:
    """Return the readings of each device in a table, in the order of time.

    Without `channels`, every column of numbers but the reference is a channel. Without a device column, all rows belong
    to `device`.
    """
    frame = as_polars(table, time)
    target = Channel(reference) if isinstance(reference, str) else reference
    if not channels:
        labels = {time, device_column, *RESERVED} | ({target.name} if target else set())
        channels = [name for name in cs.expand_selector(frame, cs.numeric()) if name not in labels]
    inputs = tuple(Channel(channel) if isinstance(channel, str) else channel for channel in channels)
    if not inputs:
        raise UsageError(f"the table has no column of numbers besides {', '.join(frame.columns)}; name the channels")
    temporal = cs.expand_selector(frame, cs.date() | cs.datetime())
    numbered = frame.with_row_index(ROW).with_row_index(LINE, 1)
    source = TableFile(NAME, (*cs.expand_selector(frame, READABLE), ROW), temporal=temporal, frame=numbered)
    names = [time, *(channel.name for channel in inputs), target.name if target else "", device_column]
    source.require(filter(None, names))
    # The index of a row is read like a channel, so that it stays with the row.
    mapping = ColumnMapping((time,), (*inputs, Channel(ROW)), target, device_column)
    rows = pl.concat(list(iterate_tables(source, mapping, device=device)))
    return [_device_rows(part, inputs, target) for part in rows.partition_by(DEVICE, maintain_order=True)]


def _device_rows(rows: pl.DataFrame, channels: tuple[Channel, ...], reference: Channel | None) -> DeviceRows:
    """Make the readings of one device, in order of time; raises a DataError if a time is there twice."""
    device = str(rows[DEVICE][0])
    ordered = rows.sort(TIME, maintain_order=True)
    repeated = ordered.filter(~pl.col(TIME).is_first_distinct())
    if repeated.height:
        number = int(repeated[ROW][0]) + 1
        time = repeated[TIME][0]
        raise DataError(
            f"row {number} of the table: {time:%Y-%m-%d %H:%M:%S} is there twice for '{device}'; name the column of"
            " the device (device_column), or drop one of the rows"
        )
    readings = Readings(device, ordered.drop(DEVICE, ROW), channels, reference)
    return DeviceRows(readings, ordered[ROW].to_numpy().astype(int))


def as_polars(table: Any, time: str = TIME) -> pl.DataFrame:
    """Return a table as a Polars frame; the index of a pandas table becomes the column `time` if it has none.

    >>> as_polars({"time": [1.8e9], "pm25": [None]}).columns
    ['time', 'pm25']
    """
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if is_pandas(table):
        if not table.columns.is_unique:
            twice = ", ".join(map(str, table.columns[table.columns.duplicated()]))
            raise UsageError(f"the table has two columns called {twice}; rename one of them")
        columns = {str(name): _from_pandas(table[name]) for name in table.columns}
        index = table.index.to_timestamp() if hasattr(table.index, "to_timestamp") else table.index
        if time not in columns and (index.dtype.kind == "M" or index.name == time):
            columns = {time: _from_pandas(index.to_series()), **columns}
    elif isinstance(table, Mapping):
        columns = {str(name): _as_series(values) for name, values in table.items()}
    elif isinstance(table, pl.DataFrame):
        columns = {column.name: column for column in table}
    else:
        raise UsageError(
            f"a {type(table).__name__} has no names of columns and no times; give a table of pandas or Polars, or a"
            f" dict of columns, with the column '{time}'"
        )
    if time not in columns:
        index_too = ", nor are they its index" if is_pandas(table) else ""
        raise UsageError(f"the table has no column '{time}'{index_too}; name the column of times with time=")
    frame = pl.DataFrame([column.alias(name) for name, column in columns.items()])
    return frame.with_columns(cs.decimal().cast(pl.Float64), (cs.categorical() | cs.enum()).cast(pl.String))


def is_pandas(table: Any) -> bool:
    """Whether this is a table of pandas; found by its type's module, so that pandas is never imported here."""
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def with_columns(table: Any, columns: Sequence[pl.Series], time: str = TIME) -> Any:
    """Return a table with more columns [rows]: of pandas if it is one, otherwise of Polars."""
    if is_pandas(table):
        return table.assign(**{column.name: column.to_numpy() for column in columns})
    return as_polars(table, time).with_columns(columns)


def _from_pandas(column: Any) -> pl.Series:
    """Convert a column of pandas, with null for missing values.

    `pl.Series` would need pyarrow for text columns of pandas, so the values are converted one by one.
    """
    kind = column.dtype.kind
    if kind == "M":  # datetimes; NumPy has them in UTC, if there is a zone
        times = pl.Series(np.asarray(column, "datetime64[us]"))
        return times if getattr(column.dtype, "tz", None) is None else times.dt.replace_time_zone("UTC")
    if kind in "iufb":  # numbers and truth values
        return pl.Series(column.to_numpy(float, na_value=np.nan)).fill_nan(None)
    return pl.Series(column.astype(object).where(column.notna(), None).tolist(), strict=False)


def _as_series(values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values
    array = np.asarray(values)
    if array.dtype == object:  # Polars would keep Python objects; from a list it finds the type
        array = array.tolist()
    return pl.Series(array, strict=False)
