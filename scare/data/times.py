"""Times as loggers write them: ISO 8601, day-first dates, Unix seconds or milliseconds; all become UTC.

A time without an offset is UTC. A slash date is day first, unless a second number above 12 anywhere in the
file proves month first.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import polars as pl

from scare.data.readings import TIME, TIME_TYPE
from scare.data.table_files import HEAD_LINES, LINE, TableFile
from scare.errors import DataError

DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y")
CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%H.%M.%S")
OFFSETS = ("", "%#z", " %#z")
HAS_OFFSET = re.compile(r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$")
TIME_FORMATS = [*map("".join, product(DATES, "T ", CLOCKS, OFFSETS)), *DATES]
TimeReader = Callable[[pl.Series], pl.Series]  # gives null for what it cannot read


@dataclass(frozen=True)
class TimeFormat:
    """How a table writes its times: in which columns, the first of them, and what reads all like it."""

    columns: tuple[str, ...]
    sample: str
    read: TimeReader


def _joined(columns: tuple[str, ...]) -> pl.Expr:
    return (pl.col(columns[0]) if len(columns) == 1 else pl.concat_str(columns, separator=" ")).alias(TIME)


def find_time_format(table: TableFile, columns: tuple[str, ...]) -> TimeFormat:
    """The format of the first time in these columns of a table; a DataError if that is not a time."""
    first = _first_time(table, columns)
    for read in _time_readers(first[TIME], table, columns):
        if read(first[TIME]).count():
            return TimeFormat(columns, str(first[TIME][0]), read)
    place, known = table.place(first[LINE][0], " ".join(columns)), "2026-01-31T12:00:00Z or 31/01/2026 12:00"
    raise DataError(f"{place}: '{first[TIME][0]}' is not a time; write it like {known}")


def _first_time(table: TableFile, columns: tuple[str, ...]) -> pl.DataFrame:
    for batch in table.batches(columns, HEAD_LINES):
        written = batch.select(LINE, _joined(columns)).drop_nulls()
        if written.height:
            return written.head(1)
    raise DataError(f"{table.path}: the column '{' '.join(columns)}' has no time at all")


def _time_readers(first: pl.Series, table: TableFile, columns: tuple[str, ...]) -> list[TimeReader]:
    if first.dtype.is_temporal():
        return [_from_temporal]
    formats = TIME_FORMATS if first.dtype == pl.String else []
    if formats and "/" in first[0][:3] and _is_month_first(table, columns):
        formats = [form.replace("%d/%m", "%m/%d") for form in formats]
    return [_from_epoch, *(partial(_from_text, form) for form in formats)]


def _is_month_first(table: TableFile, columns: tuple[str, ...]) -> bool:
    second = _joined(columns).str.extract(r"^\d{1,2}/(\d{1,2})/").cast(pl.Int8, strict=False)
    return any(batch.select((second > 12).any()).item() for batch in table.batches(columns))


def _from_temporal(times: pl.Series) -> pl.Series:
    return times.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _from_epoch(times: pl.Series) -> pl.Series:
    numbers = pl.lit(times.cast(pl.Float64, strict=False))
    seconds = pl.when(numbers.is_between(1e8, 1e10)).then(numbers)
    microseconds = 1e6 * seconds.when(numbers.is_between(1e11, 1e13)).then(numbers / 1e3)
    return pl.select(microseconds.round().cast(pl.Int64).cast(TIME_TYPE)).to_series()


def _from_text(form: str, times: pl.Series) -> pl.Series:
    parsed = times.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
    return pl.select(pl.when(parsed.dt.year() >= 1970).then(parsed)).to_series()  # 01/02/20 is the year 20


def parse_times(batch: pl.DataFrame, form: TimeFormat, table: TableFile) -> pl.Series:
    """The times of a batch of `table` in UTC; a DataError names the first line without a readable one."""
    written = batch.select(LINE, _joined(form.columns))
    times = form.read(written[TIME]).alias(TIME)
    for line, value in written.filter(times.is_null()).head(1).rows():
        place = table.place(line, " ".join(form.columns))
        if value is None:
            raise DataError(f"{place}: the time is missing")
        if bool(HAS_OFFSET.search(str(value))) != bool(HAS_OFFSET.search(form.sample)):
            raise DataError(f"{place}: '{value}' and '{form.sample}' mix times with and without a time zone")
        raise DataError(f"{place}: '{value}' is not a time like '{form.sample}'")
    return times
