"""Tables: CSV and Parquet files become readings, whole or in pieces, and frames become files.

Comes from whatever a logger wrote; goes to `readings` (`read_readings`) or, a block of rows at a time, to a
calibrator (`iterate_tables`). `inspection` proposes the `ColumnMapping` of a file nobody has described yet.

A time without an offset is UTC. A slash date is day first, unless a second number above 12 anywhere in the
file proves month first. Messages count lines as an editor does: the header is line 1.
"""

import csv
import gzip
import json
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
import polars.selectors as cs

from scare.data.files import replacing
from scare.data.readings import REFERENCE, RESERVED, TIME, TIME_TYPE, Channel, Readings
from scare.errors import DataError, ScareError, UsageError

DEVICE = "device"
LINE, EXTRA, SITE = " line", " extra", " site"  # names in a CSV header are stripped, so none begins with a space
DELIMITERS = (",", ";", "\t")
MISSING = (
    *("", "-", "--", "?", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "-nan", "-NaN", "<NA>"),
    *("null", "NULL", "Null", "None", "NONE", "none", "inf", "-inf", "Inf", "-Inf", "INF", "-INF", "#DIV/0!"),
)
HEAD_LINES, ROWS = 1000, 200_000
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y")
CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%H.%M.%S")
OFFSETS = ("", "%#z", " %#z")
HAS_OFFSET = re.compile(r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$")
TIME_FORMATS = (*(a + j + b + c for a, j, b, c in product(DATES, "T ", CLOCKS, OFFSETS)), *DATES)
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.fZ"
STEP_BLOCK = 8  # a shorter run of another step is a few gaps in a row, not a change of step

TimeParser = Callable[[pl.Series], pl.Series]


@dataclass(frozen=True)
class ColumnMapping:
    """Which columns of a table hold the time, the channels, the reference, the device and the site.

    Several time columns are joined by a space; `sort` orders each device's rows and keeps the first of equal times.

    >>> print(ColumnMapping(("date",), (Channel("pm25", "ug/m3"),), Channel("Ref.PM2.5", "ug/m3")).to_toml())
    time = "date"
    reference = {name = "Ref.PM2.5", unit = "ug/m3"}
    <BLANKLINE>
    [[channels]]
    name = "pm25"
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
        names = [channel.name for channel in (*self.channels, *filter(None, [self.reference]))]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"the column '{name}' is mapped twice")
        for name in names[: len(self.channels)]:
            if name in (*RESERVED, DEVICE):
                raise UsageError(f"a channel cannot be called '{name}'; rename the column in the file")

    @classmethod
    def from_toml(cls, path: Path | str) -> "ColumnMapping":
        """The mapping a TOML file describes, in the form `to_toml` writes."""
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot be read as TOML ({error})") from error
        kinds = {"time": str | list, "channels": list, "reference": dict, "sort": bool}
        _check_table(table, {"device_column": str, "site_column": str, **kinds}, ("time", "channels"), str(path))
        time = table["time"]
        table["time"] = (time,) if isinstance(time, str) else tuple(map(str, time))
        table["channels"] = tuple(_channel(channel, str(path)) for channel in table["channels"])
        if "reference" in table:
            table["reference"] = _channel(table["reference"], str(path))
        return cls(**table)

    def to_toml(self) -> str:
        """The mapping as TOML, without the settings that are at their default."""
        time = self.time[0] if len(self.time) == 1 else list(self.time)
        lines = [f"time = {_toml(time)}"]
        if self.reference:
            lines.append(f"reference = {{{', '.join(_settings(self.reference))}}}")
        lines += [line for line in _settings(self) if line.split()[0] in ("device_column", "site_column", "sort")]
        for channel in self.channels:
            lines += ["", "[[channels]]", *_settings(channel)]
        return "\n".join(lines) + "\n"


def _settings(described: ColumnMapping | Channel) -> list[str]:
    pairs = [(field, getattr(described, field.name)) for field in fields(described)]
    return [f"{field.name} = {_toml(value)}" for field, value in pairs if value != field.default]


def _toml(value: object) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _channel(table: dict[str, Any], where: str) -> Channel:
    kinds = {"name": str, "unit": str, "low": int | float, "high": int | float}
    _check_table(table, kinds, ("name",), f"{where}: channel")
    return Channel(**{key: float(value) if key in ("low", "high") else value for key, value in table.items()})


def _check_table(table: object, kinds: dict[str, Any], needed: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where}: {table!r} should be a table of settings")
    for key, value in table.items():
        if key not in kinds:
            raise UsageError(f"{where}: unknown setting '{key}'{suggestion(key, kinds)}")
        if not isinstance(value, kinds[key]):
            raise UsageError(f"{where}: '{key}' cannot be {_toml(value)}")
    for key in needed:
        if key not in table:
            raise UsageError(f"{where}: the setting '{key}' is missing")


def suggestion(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them.

    >>> suggestion("pm25", ["date", "PM2.5"])
    "; did you mean 'PM2.5'?"
    """
    known = {other.lower(): other for other in names}
    near = get_close_matches(name.lower(), known, 1)
    return f"; did you mean '{known[near[0]]}'?" if near else f"; there are {', '.join(known.values())}"


@dataclass(frozen=True)
class TableFile:
    """A table file of which the columns are known and the rows still to be read; Parquet has no delimiter."""

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ""
    decimal: str = "."

    def scan(self) -> pl.LazyFrame:
        """Every row with its line; text is stripped, and null where it means missing."""
        if not self.delimiter:
            lazy = pl.scan_parquet(self.path, glob=False, row_index_name=LINE, row_index_offset=1)
        else:
            lazy = pl.scan_csv(
                self.path,
                separator=self.delimiter,
                has_header=False,
                skip_lines=1,
                schema=dict.fromkeys([*self.columns, EXTRA], pl.String()),
                missing_columns="insert",
                extra_columns="ignore",
                truncate_ragged_lines=True,
                row_index_name=LINE,
                row_index_offset=2,
                glob=False,
            )
        text = cs.string().str.strip_chars()
        return lazy.with_columns(pl.when(~text.is_in(MISSING)).then(text))

    def batches(self, columns: Iterable[str], rows: int = ROWS) -> Iterator[pl.DataFrame]:
        """Frames of at most `rows` rows with these columns and each row's line; blank rows are left out."""
        names = [*dict.fromkeys(columns), *([EXTRA] if self.delimiter else [])]
        lazy = self.scan().select(LINE, *names).filter(pl.any_horizontal(pl.col(names).is_not_null()))
        try:
            for batch in lazy.collect_batches(chunk_size=rows, maintain_order=True):
                yield self._without_extra(batch)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise _unreadable(self.path, error) from error

    def _without_extra(self, batch: pl.DataFrame) -> pl.DataFrame:
        if EXTRA not in batch.columns:
            return batch
        for line in batch.filter(pl.col(EXTRA).is_not_null())[LINE].head(1):
            raise DataError(
                f"{self.place(line)}: more fields than the header"
                " (a decimal comma needs another delimiter than a comma)"
            )
        return batch.drop(EXTRA)

    def read(self, columns: Iterable[str]) -> pl.DataFrame:
        """All rows of `batches` in one frame."""
        batches = list(self.batches(columns))
        if not batches:
            raise DataError(f"{self.path}: there is a header but no row of numbers")
        return pl.concat(batches)

    def place(self, line: int, column: str = "") -> str:
        """Where a message points to: the file, the line (of Parquet the row) and the column."""
        where = f"{self.path}: {'line' if self.delimiter else 'row'} {line}"
        return f"{where}, column '{column}'" if column else where

    def require(self, columns: Iterable[str]) -> None:
        """Raises a DataError for the first of these columns the file does not have."""
        for name in columns:
            if name not in self.columns:
                raise DataError(f"{self.path}: no column '{name}'{suggestion(name, self.columns)}")


def open_table(path: Path | str) -> TableFile:
    """The columns of a Parquet or a (gzipped) CSV file, with the delimiter and decimal sign found in its head."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    table = _open_parquet(path) if path.suffix.lower() == ".parquet" else _open_csv(path)
    for name in table.columns:
        if table.columns.count(name) > 1:
            raise DataError(f"{path}: two columns are called '{name}'; rename one of them")
    return table


def _open_parquet(path: Path) -> TableFile:
    try:
        return TableFile(path, tuple(pl.read_parquet_schema(path)))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from error


def _open_csv(path: Path) -> TableFile:
    lines = _head(path)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: the file is empty")
    delimiter = find_delimiter(lines[:20])
    header = _split(lines[0], delimiter)
    if len(header) < 2:
        raise DataError(
            f"{path}: the header '{lines[0].strip()}' is one field; separate columns by comma, semicolon or tab"
        )
    if not any(line.strip() for line in lines[1:]):
        raise DataError(f"{path}: there is a header but no row of numbers")
    columns = tuple(name.strip() or f"column_{number}" for number, name in enumerate(header, 1))
    return TableFile(path, columns, delimiter, _find_decimal(lines[1:], delimiter))


def _head(path: Path) -> list[str]:
    with path.open("rb") as raw:
        opened = gzip.open if raw.read(2) == b"\x1f\x8b" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as handle:
            return cast(list[str], list(islice(handle, HEAD_LINES)))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the text is not UTF-8; save the file as UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def find_delimiter(lines: list[str]) -> str:
    r"""The delimiter that splits header and first rows into the same number of fields, more than one.

    >>> find_delimiter(["time;pm25;pm10", "2026-01-01;1,5;2,5"])
    ';'
    """
    widths = {sign: [len(_split(line, sign)) for line in lines if line.strip()] for sign in DELIMITERS}
    agreeing = [sign for sign, counts in widths.items() if counts[0] > 1 and len(set(counts)) == 1]
    return max(agreeing or DELIMITERS, key=lambda sign: widths[sign][0])


def _find_decimal(lines: list[str], delimiter: str) -> str:
    decimal = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
    split = (field for line in lines if "," in line for field in _split(line, delimiter))
    return "," if delimiter != "," and any(map(decimal.fullmatch, split)) else "."


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = str(error).strip().splitlines()[0]
    return DataError(f"{path}: the file is damaged or no table ({reason})")


def read_table(path: Path | str) -> pl.DataFrame:
    """The whole file as a frame: columns of numbers are Float64, other text stays text."""
    table = open_table(path)
    return with_numbers(table.read(table.columns).drop(LINE), table.decimal)


def with_numbers(frame: pl.DataFrame, decimal: str = ".") -> pl.DataFrame:
    """The frame with every column that holds nothing but numbers as Float64.

    >>> with_numbers(pl.DataFrame({"a": ["1,5", None], "b": ["1,5", "x"]}), ",").schema
    Schema({'a': Float64, 'b': String})
    """
    texts = [column for column in frame if column.dtype == pl.String]
    found = {text.name: _to_numbers(text, decimal) for text in texts}
    numbers = [found[text.name] for text in texts if found[text.name].null_count() == text.null_count()]
    return frame.with_columns(cs.numeric().cast(pl.Float64)).with_columns(numbers)


def _to_numbers(column: pl.Series, decimal: str) -> pl.Series:
    if column.dtype == pl.String and decimal == ",":
        column = column.str.replace_many([".", ","], ["_", "."])  # a point would group thousands: no number
    numbers = column.cast(pl.Float64, strict=False)
    return pl.select(pl.when(numbers.is_finite()).then(numbers).alias(column.name)).to_series()


def _strict_numbers(batch: pl.DataFrame, name: str, table: TableFile) -> pl.Series:
    numbers = _to_numbers(batch[name], table.decimal)
    if batch.schema[name] == pl.String and numbers.null_count() > batch[name].null_count():
        row = (numbers.is_null() & batch[name].is_not_null()).arg_max()
        raise DataError(f"{table.place(batch[LINE][row], name)}: '{batch[name][row]}' is not a number")
    return numbers


def _joined(columns: tuple[str, ...]) -> pl.Expr:
    return pl.col(columns[0]) if len(columns) == 1 else pl.concat_str(columns, separator=" ")


def find_time_parser(rows: pl.LazyFrame, columns: tuple[str, ...]) -> TimeParser | None:
    """The way the first time of these rows can be read, or None; each parser gives null for what it cannot read."""
    text = rows.select(_joined(columns).alias(TIME))
    sample = text.drop_nulls().head(1).collect().to_series()
    if sample.dtype.is_temporal():
        return _from_temporal
    formats: tuple[str, ...] = TIME_FORMATS if sample.dtype == pl.String else ()
    if any("/" in str(value)[:3] for value in sample):
        second = pl.col(TIME).str.extract(r"^\d{1,2}/(\d{1,2})/").cast(pl.Int8, strict=False)
        if text.select((second > 12).any()).collect(engine="streaming").item():
            formats = tuple(form.replace("%d/%m", "%m/%d") for form in formats)
    parsers: list[TimeParser] = [_from_epoch, *(partial(_from_text, form) for form in formats)]
    return next((parse for parse in parsers if parse(sample).count()), None)


def _from_temporal(times: pl.Series) -> pl.Series:
    return times.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _from_epoch(times: pl.Series) -> pl.Series:
    numbers = pl.lit(times.cast(pl.Float64, strict=False))
    microseconds = (
        pl.when(numbers.is_between(1e8, 1e10)).then(numbers * 1e6).when(numbers.is_between(1e11, 1e13)).then(numbers * 1e3)
    )
    return pl.select(microseconds.round().cast(pl.Int64).cast(TIME_TYPE)).to_series()


def _from_text(form: str, times: pl.Series) -> pl.Series:
    parsed = times.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
    return pl.select(pl.when(parsed.dt.year() >= 1970).then(parsed)).to_series()  # two-digit years are years 0-99


def parse_times(batch: pl.DataFrame, columns: tuple[str, ...], parse: TimeParser, table: TableFile) -> pl.Series:
    """The times of a batch of `table` in UTC; a DataError names the first line without a readable one."""
    written = batch.select(_joined(columns).alias(TIME)).to_series()
    times = parse(written).alias(TIME)
    if not times.null_count():
        return times
    row = times.is_null().arg_max() or 0
    place, value = table.place(batch[LINE][row], " ".join(columns)), written[row]
    if value is None:
        raise DataError(f"{place}: the time is missing")
    near = str(written[row - 1 if row else written.len() - 1])
    if bool(HAS_OFFSET.search(str(value))) != bool(HAS_OFFSET.search(near)):
        raise DataError(f"{place}: '{value}' mixes times with and without a time zone; write all of them alike")
    raise DataError(f"{place}: '{value}' is not a time in the form of the first row")
