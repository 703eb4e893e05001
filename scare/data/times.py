"""Times as loggers write them: ISO 8601, day-first dates, Unix seconds or milliseconds; all become UTC.

A time without an offset is UTC. Whether a slash date is day first or month first is decided by the whole column: a
number above 12 anywhere proves it, and a warning reports it. Where nothing proves it, the user must state it.
Comes from `tables`; goes to `column_mapping` and `column_guess`.
"""

import logging
import re
from calendar import month_name
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import polars as pl

from scare.data.readings import TIME, TIME_TYPE
from scare.data.tables import HEAD_LINES, LINE, Dates, TableFile
from scare.errors import DataError

logger = logging.getLogger(__name__)
SLASHES = re.compile(r"^\s*(\d{1,2})/(\d{1,2})/")
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y")
CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%H.%M.%S")
OFFSETS = ("", "%#z", " %#z")
HAS_OFFSET = re.compile(r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$")
TIME_FORMATS = [*map("".join, product(DATES, "T ", CLOCKS, OFFSETS)), *DATES]
TimeReader = Callable[[pl.Series], pl.Series]  # returns null for what it cannot parse


@dataclass(frozen=True)
class TimeFormat:
    """How a table writes its times: columns, a sample, and the function that parses all times of this format."""

    columns: tuple[str, ...]
    sample: str
    read: TimeReader
    doubt: str = ""  # why its dates are ambiguous, if they are


def _joined_text(columns: tuple[str, ...]) -> pl.Expr:
    """The time as written: one column as it is, several (date and clock) joined with a space."""
    written = pl.col(columns[0]) if len(columns) == 1 else pl.concat_str(columns, separator=" ")
    return written.alias(TIME)


def find_time_format(table: TableFile, columns: tuple[str, ...], dates: Dates = "") -> TimeFormat:
    """Find the format of the first time in these columns; a DataError if it is not a time."""
    table.require(columns)
    if columns[0] in table.temporal and len(columns) == 1:
        return TimeFormat(columns, "", _from_temporal)
    written = (batch.select(LINE, _joined_text(columns)).drop_nulls() for batch in table.batches(columns, HEAD_LINES))
    first = next((rows.head(1) for rows in written if rows.height), None)
    if first is None:
        raise DataError(f"{table.path}: the column '{' '.join(columns)}' has no times")
    sample, doubt = str(first[TIME][0]), ""
    if SLASHES.match(sample) and not dates:
        dates, doubt = _date_order(table, columns)
    formats = TIME_FORMATS if first[TIME].dtype == pl.String else []
    if dates == "month-first":
        formats = [form.replace("%d/%m", "%m/%d") for form in formats]
    readers: list[TimeReader] = [_from_epoch, *(partial(_from_text, form) for form in formats)]
    if first[TIME].dtype.is_temporal():
        readers = [_from_temporal]
    for read in readers:
        if read(first[TIME]).count():
            return TimeFormat(columns, sample, read, doubt)
    place, known = table.place(first[LINE][0], " ".join(columns)), "2026-01-31T12:00:00Z or 31/01/2026 12:00"
    raise DataError(f"{place}: '{first[TIME][0]}' is not a time; write it like {known}")


def _date_order(table: TableFile, columns: tuple[str, ...]) -> tuple[Dates, str]:
    """Decide the order of slash dates by the whole column; returns the order, and "" or why it is ambiguous."""
    numbers = [
        _joined_text(columns).str.extract(SLASHES.pattern, group).cast(pl.Int64).alias(f"{group}") for group in (1, 2)
    ]
    dates: dict[tuple[int, int], str] = {}  # the first two numbers of every date, each pair with a text that has them
    for batch in table.batches(columns):
        rows = batch.select(*numbers, _joined_text(columns)).drop_nulls()
        for first, second, text in rows.unique(["1", "2"], keep="first", maintain_order=True).rows():
            dates.setdefault((first, second), text)
    day = next((text for (first, _), text in dates.items() if first > 12), "")
    month = next((text for (_, second), text in dates.items() if second > 12), "")
    either = next((text for pair, text in dates.items() if 1 <= min(pair) < max(pair) <= 12), "")
    if day and month:
        return "", f"'{day}' is day first and '{month}' month first, in one column; write dates like 2026-01-31"
    if either and not day and not month:
        first, second = (int(number) for number in SLASHES.findall(either)[0])
        return "", (
            f"'{either}' may be {first} {month_name[second]} or {second} {month_name[first]}, and no row of the column"
            " proves which; use --dates day-first or --dates month-first (data.dates in a --config file)"
        )
    order: Dates = "month-first" if month else "day-first"
    if either:
        _warn_once(f"{table.path}: dates like '{either}' are read {order.replace('-', ' ')}, as '{day or month}' shows")
    return order, ""


@cache  # a file may be read several times, and each message is logged once
def _warn_once(message: str) -> None:
    logger.warning(message)


def _from_temporal(times: pl.Series) -> pl.Series:
    """Convert dates and datetimes; without a time zone they are UTC."""
    return times.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _from_epoch(times: pl.Series) -> pl.Series:
    """Convert Unix seconds or milliseconds from 1973 to 2286, which cannot be confused."""
    numbers = pl.lit(times.cast(pl.Float64, strict=False))
    is_seconds, is_milliseconds = numbers.is_between(1e8, 1e10), numbers.is_between(1e11, 1e13)
    seconds = pl.when(is_seconds).then(numbers).when(is_milliseconds).then(numbers / 1e3)
    return pl.select((1e6 * seconds).round().cast(pl.Int64).cast(TIME_TYPE)).to_series()


def _from_text(form: str, times: pl.Series) -> pl.Series:
    """Parse text with a `strftime` format, null where it does not match."""
    parsed = times.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
    # %Y reads 01/02/20 as the year 20: such a date counts as not parsed.
    return pl.select(pl.when(parsed.dt.year() >= 1970).then(parsed)).to_series()


def parse_times(batch: pl.DataFrame, form: TimeFormat, table: TableFile) -> pl.Series:
    """Parse the times of a batch of `table` to UTC; a DataError names the first line without one."""
    if form.doubt:
        raise DataError(f"{table.path}: {form.doubt}")
    written = batch.select(LINE, _joined_text(form.columns))
    times = form.read(written[TIME]).alias(TIME)
    unparsed = written.filter(times.is_null())
    if unparsed.height:
        line, value = unparsed.row(0)
        place = table.place(line, " ".join(form.columns))
        if value is None:
            raise DataError(f"{place}: the time is missing")
        if bool(HAS_OFFSET.search(str(value))) != bool(HAS_OFFSET.search(form.sample)):
            raise DataError(f"{place}: '{value}' and '{form.sample}' mix times with and without a time zone")
        raise DataError(f"{place}: '{value}' is not a time like '{form.sample}'")
    return times
