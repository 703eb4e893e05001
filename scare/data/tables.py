"""Tables: CSV and Parquet files become readings, whole or in pieces, and frames become files.

Comes from whatever a logger wrote; goes to `readings` (`read_readings`) or, a block of rows at a time, to a
calibrator (`iterate_tables`). `inspection` proposes the `ColumnMapping` of a file nobody has described yet.

A time without an offset is UTC. A slash date is day first, unless a second number above 12 anywhere in the
file proves month first. Messages count lines as an editor does: the header is line 1.
"""

import csv
import gzip
import io
import json
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

import numpy as np
import polars as pl
import polars.selectors as cs

from scare.data.files import replacing
from scare.data.readings import REFERENCE, RESERVED, TIME, TIME_TYPE, Channel, Readings
from scare.errors import DataError, UsageError

DEVICE = "device"
LINE, EXTRA, SITE = " line", " extra", " site"  # no name in a header begins with a space: they are stripped
DELIMITERS = (",", ";", "\t")
MISSING = (
    *("", "-", "--", "?", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "-nan", "-NaN", "<NA>"),
    *("null", "NULL", "Null", "None", "NONE", "none", "inf", "-inf", "Inf", "-Inf", "INF", "-INF", "#DIV/0!"),
)
HEAD_LINES, ROWS = 1000, 200_000
READ_ERRORS = (OSError, EOFError, zlib.error, csv.Error, pl.exceptions.PolarsError)
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d.%m.%Y")
CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%H.%M.%S")
OFFSETS = ("", "%#z", " %#z")
HAS_OFFSET = re.compile(r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$")
TIME_FORMATS = [*map("".join, product(DATES, "T ", CLOCKS, OFFSETS)), *DATES]
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.fZ"
TimeReader = Callable[[pl.Series], pl.Series]  # gives null for what it cannot read
MAPPING_KINDS = {
    **{"time": str | list, "channels": list, "reference": dict},
    **{"device_column": str, "site_column": str, "sort": bool},
}
CHANNEL_KINDS = {"name": str, "unit": str, "low": int | float, "high": int | float}
STEP_BLOCK = 8  # a shorter run of another step is a few gaps in a row, not a change of step


@dataclass(frozen=True)
class ColumnMapping:
    """Which columns of a table hold the time, the channels, the reference, the device and the site.

    Time columns are joined by a space; `sort` orders a device's rows and keeps the first of equal times.

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
        names = [channel.name for channel in self.channels]
        for name in names:
            if name in (*RESERVED, DEVICE):
                raise UsageError(f"a channel cannot be called '{name}'; rename the column in the file")
            if names.count(name) > 1 or (self.reference and name == self.reference.name):
                raise UsageError(f"the column '{name}' is mapped twice")

    @property
    def quantities(self) -> dict[str, str]:
        """The file's column of each channel and of `reference`."""
        named = {channel.name: channel.name for channel in self.channels}
        return {**named, REFERENCE: self.reference.name} if self.reference else named

    @classmethod
    def from_toml(cls, path: Path | str) -> "ColumnMapping":
        """The mapping a TOML file describes, in the form `to_toml` writes."""
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot be read as TOML ({error})") from error
        _check_table(table, MAPPING_KINDS, ("time", "channels"), str(path))
        time = table["time"]
        table["time"] = (time,) if isinstance(time, str) else tuple(map(str, time))
        table["channels"] = tuple(_channel(channel, str(path)) for channel in table["channels"])
        if "reference" in table:
            table["reference"] = _channel(table["reference"], str(path))
        return cls(**table)

    def to_toml(self) -> str:
        """The mapping as TOML, without the settings that are at their default."""
        lines = [f"time = {_toml(self.time[0] if len(self.time) == 1 else self.time)}"]
        if self.reference:
            lines.append(f"reference = {{{', '.join(_settings(self.reference, *CHANNEL_KINDS))}}}")
        lines += _settings(self, "device_column", "site_column", "sort")
        for channel in self.channels:
            lines += ["", "[[channels]]", *_settings(channel, *CHANNEL_KINDS)]
        return "\n".join(lines) + "\n"


def _settings(described: ColumnMapping | Channel, *names: str) -> list[str]:
    defaults = {field.name: field.default for field in fields(described)}
    pairs = [(name, getattr(described, name)) for name in names]
    return [f"{name} = {_toml(value)}" for name, value in pairs if value != defaults[name]]


def _toml(value: object) -> str:
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _channel(table: dict[str, Any], where: str) -> Channel:
    _check_table(table, CHANNEL_KINDS, ("name",), f"{where}: channel")
    limits = {key: float(table[key]) for key in ("low", "high") if key in table}
    return Channel(table["name"], table.get("unit", ""), **limits)


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

    def batches(self, columns: Iterable[str], rows: int = ROWS) -> Iterator[pl.DataFrame]:
        """Frames of at most `rows` rows with the line of each row and these columns as the file has them.

        Text is stripped, and null where it means missing; blank rows are left out.
        """
        names = [*dict.fromkeys(columns), *([EXTRA] if self.delimiter else [])]
        text = cs.string().str.strip_chars()
        filled = pl.any_horizontal(pl.col(names).is_not_null())
        try:
            for piece in self._csv_pieces(rows) if self.delimiter else self._parquet_pieces(rows):
                raw = piece.select(LINE, *names).with_columns(pl.when(~text.is_in(MISSING)).then(text))
                batch = raw.filter(filled).collect()
                if batch.height:
                    yield self._without_extra(batch)
        except READ_ERRORS as error:
            raise _unreadable(self.path, error) from error

    def _parquet_pieces(self, rows: int) -> Iterator[pl.LazyFrame]:
        table = pl.scan_parquet(self.path, glob=False, row_index_name=LINE, row_index_offset=1)
        for start in range(0, table.select(pl.len()).collect().item(), rows):
            yield table.slice(start, rows)

    def _csv_pieces(self, rows: int) -> Iterator[pl.LazyFrame]:
        first = 2
        with _opened(self.path) as handle:
            next(handle)
            while lines := list(islice(handle, rows)):
                yield self._csv_piece(lines, first)
                first += len(lines)

    def _csv_piece(self, lines: list[bytes], first: int) -> pl.LazyFrame:
        block = b"".join(lines)
        for line, text in enumerate(lines if b'"' in block else [], first):
            if text.count(b'"') % 2:
                raise DataError(f"{self.place(line)}: a quoted text does not end on its line")
        return pl.scan_csv(
            block,
            separator=self.delimiter,
            has_header=False,
            schema=dict.fromkeys([*self.columns, EXTRA], pl.String()),
            missing_columns="insert",
            extra_columns="ignore",
            truncate_ragged_lines=True,
            row_index_name=LINE,
            row_index_offset=first,
        )

    def _without_extra(self, batch: pl.DataFrame) -> pl.DataFrame:
        if EXTRA not in batch.columns:
            return batch
        for line in batch.filter(pl.col(EXTRA).is_not_null())[LINE].head(1):
            hint = "a decimal comma needs a semicolon or tab between columns"
            raise DataError(f"{self.place(line)}: more fields than the header; {hint}")
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
    """The columns of a Parquet or (gzipped) CSV file, with the delimiter and decimal sign its head shows."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        table = _open_parquet(path) if path.suffix.lower() == ".parquet" else _open_csv(path)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the text is not UTF-8; save the file as UTF-8") from error
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error
    for name in table.columns:
        if table.columns.count(name) > 1:
            raise DataError(f"{path}: two columns are called '{name}'; rename one of them")
    return table


def _open_parquet(path: Path) -> TableFile:
    return TableFile(path, tuple(pl.read_parquet_schema(path)))


def _open_csv(path: Path) -> TableFile:
    with _opened(path) as handle:
        lines = [line.decode("utf-8-sig").rstrip("\r\n") for line in islice(handle, HEAD_LINES)]
    if not any(lines):
        raise DataError(f"{path}: the file is empty")
    header, filled = lines[0], [line for line in lines[1:] if line.strip()]
    delimiter = find_delimiter([header, *filled[:20]])
    names = _split(header, delimiter)
    if len(names) < 2:
        raise DataError(f"{path}: the header '{header}' is one field; divide it by comma, semicolon or tab")
    if not filled:
        raise DataError(f"{path}: there is a header but no row of numbers")
    columns = tuple(name.strip() or f"column_{number}" for number, name in enumerate(names, 1))
    return TableFile(path, columns, delimiter, _find_decimal(filled, delimiter))


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as handle:
        zipped = handle.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], io.BufferedReader(cast(Any, gzip.open(path)))) if zipped else path.open("rb")


def find_delimiter(lines: list[str]) -> str:
    r"""The delimiter that splits header and first rows into the same number of fields, more than one.

    >>> find_delimiter(["time;pm25;pm10", "2026-01-01;1,5;2,5"])
    ';'
    """
    widths = {sign: [len(_split(line, sign)) for line in lines] for sign in DELIMITERS}
    agreeing = [sign for sign, counts in widths.items() if counts[0] > 1 and len(set(counts)) == 1]
    return max(agreeing or DELIMITERS, key=lambda sign: widths[sign][0])


def _find_decimal(lines: list[str], delimiter: str) -> str:
    decimal = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
    split = (field for line in lines if "," in line for field in _split(line, delimiter))
    return "," if delimiter != "," and any(map(decimal.fullmatch, split)) else "."


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:80]
    return DataError(f"{path}: the file is damaged or not a table ({reason})")


def read_table(path: Path | str) -> pl.DataFrame:
    """The whole file as a frame: columns of numbers are Float64, other text stays text."""
    table = open_table(path)
    return with_numbers(table.read(table.columns).drop(LINE), table.decimal)


def with_numbers(frame: pl.DataFrame, decimal: str = ".") -> pl.DataFrame:
    """The frame with every column that holds nothing but numbers as Float64.

    >>> with_numbers(pl.DataFrame({"a": ["1,5", None], "b": ["1,5", "x"]}), ",").dtypes
    [Float64, String]
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
        line, text = batch.filter(numbers.is_null() & batch[name].is_not_null()).select(LINE, name).row(0)
        raise DataError(f"{table.place(line, name)}: '{text}' is not a number")
    return numbers


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


def iterate_tables(path: Path | str, mapping: ColumnMapping, rows: int = ROWS) -> Iterator[pl.DataFrame]:
    """Streams a file in its order as frames of `device`, `time`, the channels and, if there, `reference`."""
    table = open_table(path)
    if mapping.reference and mapping.reference.name not in table.columns:
        mapping = replace(mapping, reference=None)
    for frame in _canonical_frames(table, mapping, _stem(table.path), rows):
        yield frame.drop(LINE, SITE)


def _stem(path: Path) -> str:
    return re.sub(r"(\.(csv|tsv|txt|parquet))?(\.gz)?$", "", path.name, count=1, flags=re.IGNORECASE)


def _canonical_frames(
    table: TableFile, mapping: ColumnMapping, device: str, rows: int
) -> Iterator[pl.DataFrame]:
    labels = filter(None, [mapping.device_column, mapping.site_column])
    columns = [*mapping.time, *mapping.quantities.values(), *labels]
    table.require(columns)
    form = find_time_format(table, mapping.time)
    for batch in table.batches(columns, rows):
        site = pl.col(mapping.site_column).cast(pl.String) if mapping.site_column else pl.lit("")
        frame = batch.select(LINE, site.alias(SITE), _devices(batch, mapping.device_column, device, table))
        quantities = mapping.quantities.items()
        numbers = [_strict_numbers(batch, column, table).alias(name) for name, column in quantities]
        yield frame.with_columns(parse_times(batch, form, table), *numbers)


def _devices(batch: pl.DataFrame, column: str, device: str, table: TableFile) -> pl.Series:
    if not column:
        return pl.repeat(device, batch.height, eager=True).alias(DEVICE)
    for line in batch.filter(pl.col(column).is_null())[LINE].head(1):
        raise DataError(f"{table.place(line, column)}: the device is missing")
    return batch[column].cast(pl.String).alias(DEVICE)


def read_readings(path: Path | str, mapping: ColumnMapping, device: str | None = None) -> list[Readings]:
    """The readings of each device in a file; without a device column, one called `device` or as the file."""
    table = open_table(path)
    frame = pl.concat(list(_canonical_frames(table, mapping, device or _stem(table.path), ROWS)))
    for name, column in mapping.quantities.items():
        if not frame[name].count():
            raise DataError(f"{path}: the column '{column}' has no number at all; take another one")
    groups = frame.partition_by(DEVICE, maintain_order=True)
    return [_device_readings(group, mapping, table) for group in groups]


def _device_readings(group: pl.DataFrame, mapping: ColumnMapping, table: TableFile) -> Readings:
    if mapping.sort:
        group = group.unique(TIME, keep="first", maintain_order=True).sort(TIME)
    late = group.filter(pl.col(TIME) <= pl.col(TIME).shift())
    for line, time in late.select(LINE, TIME).head(1).rows():
        raise DataError(
            f"{table.place(line)}: {time:%Y-%m-%d %H:%M:%S} is not later than the row before it;"
            " --sort orders the rows and drops repeated times"
        )
    device, site = group[DEVICE][0], next(iter(group[SITE].drop_nulls()), "")
    return Readings(device, group.drop(LINE, SITE, DEVICE), mapping.channels, mapping.reference, site)


def check_step(readings: Readings) -> None:
    """Raises a DataError if over a tenth of the rows, in one block, follow another step than the rest.

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
        f"{readings.device}: the time step changes from {round(before, 3):g} s to {round(after, 3):g} s at"
        f" {readings.frame[TIME][change]:%Y-%m-%d %H:%M:%S}; split the file there or average it to the"
        " coarser step with --step"
    )


def _densest_block(hits: np.ndarray) -> tuple[int, int, int]:
    """Start, end and surplus of the block of bool [n] in which true outnumbers false the most."""
    sums = np.concatenate([[0], np.cumsum(np.where(hits, 1, -1))])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    return int(np.argmin(sums[: end + 1])), end, int(sums[end] - lowest[end])


def write_table(frame: pl.DataFrame, path: Path | str) -> None:
    """Writes a frame as CSV, gzipped CSV or Parquet, by the suffix of `path`; times as ISO 8601 in UTC."""
    with writing_table(path) as write:
        write(frame)


@contextmanager
def writing_table(path: Path | str) -> Iterator[Callable[[pl.DataFrame], None]]:
    """A function that appends frames to one file, which appears when the block ends well.

    >>> folder = TemporaryDirectory()
    >>> with writing_table(Path(folder.name) / "a.csv") as write:
    ...     write(pl.DataFrame({"pm25": [1.0]}))
    ...     write(pl.DataFrame({"pm25": [2.5]}))
    >>> (Path(folder.name) / "a.csv").read_text().split()
    ['pm25', '1.0', '2.5']
    >>> folder.cleanup()
    """
    kinds = {".csv": _writing_csv, ".csv.gz": _writing_csv, ".parquet": _writing_parquet}
    writing = next((kinds[suffix] for suffix in kinds if str(path).lower().endswith(suffix)), None)
    if writing is None:
        raise UsageError(f"cannot write {path}: the name should end in .csv, .csv.gz or .parquet")
    with replacing(path) as temporary, writing(temporary) as write:
        yield lambda frame: write(_in_utc(frame))


def _in_utc(frame: pl.DataFrame) -> pl.DataFrame:
    naive, aware = cs.datetime(time_zone=None), cs.datetime(time_zone="*")
    return frame.with_columns(naive.dt.replace_time_zone("UTC"), aware.dt.convert_time_zone("UTC"))


@contextmanager
def _writing_csv(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    header = True

    def write(frame: pl.DataFrame) -> None:
        nonlocal header
        frame.write_csv(handle, include_header=header, datetime_format=WRITTEN_TIME)
        header = False

    with ExitStack() as stack:
        handle: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix.lower() == ".gz":  # no name or date in its header: equal tables are equal files
            zipped = gzip.GzipFile("", "wb", 6, handle, mtime=0)
            handle = cast(IO[bytes], stack.enter_context(zipped))
        yield write


@contextmanager
def _writing_parquet(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Collects parts beside the file and joins them at the end, a row group at a time."""
    parts: list[Path] = []

    def write(frame: pl.DataFrame) -> None:
        parts.append(Path(folder) / f"{len(parts)}.parquet")
        frame.write_parquet(parts[-1])

    with TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:
        yield write
        whole = pl.scan_parquet(parts, glob=False) if parts else pl.LazyFrame()
        whole.sink_parquet(path)
