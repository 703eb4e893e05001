"""Table files: read CSV (comma, semicolon or tab, decimal comma, gzip) and Parquet in batches, and write both.

Every row keeps its line number for messages. Lines count as in an editor: the header is line 1, and a row is one line.

A damaged Parquet file can crash the process that reads it, so a child process (`python -m scare.data.tables`) reads
it first and reports what it found. One child serves this process as long as it lives. It reads every column once, a
block of rows at a time, under a memory limit where the system has one.
Comes from whatever a logger wrote; goes to `times`, `column_mapping` and `column_guess`.
"""

import atexit
import csv
import gzip
import io
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from itertools import islice, zip_longest
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from threading import Lock, Timer
from typing import IO, Any, Literal, cast

import polars as pl
import polars.selectors as cs

from scare.data.formats import TableFormat
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.records import Whole
from scare.words import suggestion

LINE, EXTRA = " line", " extra"  # no name in a header begins with a space: they are stripped
HEAD_LINES, ROWS = 1000, 200_000
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet")  # endings of table files
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.fZ"
DELIMITERS = (",", ";", "\t")
DECIMAL = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
THOUSANDS, WHOLE = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"), re.compile(r"\s*[+-]?\d+\s*")
MISSING = (
    *("", "-", "--", "?", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "-nan", "-NaN", "<NA>"),
    *("null", "NULL", "Null", "None", "NONE", "none", "inf", "-inf", "Inf", "-Inf", "INF", "-INF", "#DIV/0!"),
)
READ_ERRORS = (OSError, EOFError, zlib.error, csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException)
READABLE = (
    cs.numeric()
    | cs.boolean()
    | cs.string()
    | cs.categorical()
    | cs.enum()
    | cs.date()
    | cs.datetime()
    | cs.by_dtype(pl.Null)
)
PROBE_BYTES, PROBE_BYTES_PER_BYTE = 1 << 30, 16  # memory a probe may use: the larger of this and 16 times the file
PROBE_SECONDS, PROBE_BYTES_PER_SECOND = 20.0, 4 << 20  # time a probe may take: this, plus the file at this speed
STATM = Path("/proc/self/statm")  # Linux: its first number is the address space in use, in pages


Dates = Literal["", "day-first", "month-first"]  # how dates like 3/4/2026 are written, if stated


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What a person may state about how a table file is written; what is not given is guessed, and the guess is said.

    Parameters
    ----------
    dates
        `day-first` or `month-first`, for dates like 3/4/2026 in a file that does not show it.
    timezone
        Time zone of times that state none, such as `Europe/Berlin`, `UTC` or `+05:30`.
    encoding
        Character encoding of a text file, such as `cp1252`.
    skip_rows
        Number of lines before the header.
    sheet
        Name of the sheet of a spreadsheet.
    missing
        Cells that mean "no reading", such as `-999`.
    """

    dates: Dates = ""
    timezone: str = ""
    encoding: str = ""
    skip_rows: Whole | None = None
    sheet: str = ""
    missing: tuple[str, ...] = ()

    @property
    def table_options(self) -> dict[str, Any]:
        """What is stated, as keywords for another record with the same fields."""
        values = {one.name: getattr(self, one.name) for one in fields(TableOptions)}
        return {name: value for name, value in values.items() if value not in ("", None, ())}


AS_FOUND = TableOptions()  # nothing is stated


@dataclass(frozen=True)
class TableFile:
    """A table file whose columns are known and whose rows are still to be read; Parquet has no delimiter.

    `unreadable` are columns that cannot be read, such as lists, with their types; `temporal` ones have a time type.
    `notes` are sentences about what was guessed, `units` the units that the file states, by column and as it writes
    them, and `format` is the known format that it has, if any.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ""
    decimal: str = "."
    unreadable: Mapping[str, str] = field(default_factory=dict)
    temporal: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    format: TableFormat | None = None

    def batches(self, columns: Iterable[str], rows: int = ROWS) -> Iterator[pl.DataFrame]:
        """Yield frames of at most `rows` rows: the line of each row and these columns as the file has them.

        Text is stripped, and null where it means missing; blank rows are left out.
        """
        names = [*dict.fromkeys(columns), *([EXTRA] if self.delimiter else [])]
        text = cs.string().str.strip_chars()
        filled = pl.any_horizontal(pl.col(names).is_not_null())
        try:
            for block in self._csv_blocks(rows) if self.delimiter else self._parquet_blocks(rows):
                raw = block.select(LINE, *names).with_columns(pl.when(~text.is_in(MISSING)).then(text))
                batch = raw.filter(filled).collect()
                if batch.height:
                    yield self._check_extra(batch)
        except READ_ERRORS as error:
            raise _unreadable(self.path, error) from error

    def _parquet_blocks(self, rows: int) -> Iterator[pl.LazyFrame]:
        """The file's rows, `rows` at a time, with `LINE`; decimals become floats and categories text."""
        plain = [cs.decimal().cast(pl.Float64), (cs.categorical() | cs.enum()).cast(pl.String)]
        table = pl.scan_parquet(self.path, glob=False, row_index_name=LINE, row_index_offset=1).with_columns(*plain)
        for start in range(0, table.select(pl.len()).collect().item(), rows):
            yield table.slice(start, rows)

    def _csv_blocks(self, rows: int) -> Iterator[pl.LazyFrame]:
        """The file's lines after the header, `rows` at a time."""
        first = 2
        with _open_bytes(self.path) as handle:
            next(handle)  # the header
            while lines := list(islice(handle, rows)):
                yield self._csv_block(lines, first)
                first += len(lines)

    def _csv_block(self, lines: list[bytes], first: int) -> pl.LazyFrame:
        """Parse lines, of which the first has the number `first`, as text; fields beyond the header go to `EXTRA`."""
        block = b"".join(lines)
        if b'"' in block:  # a quoted line break would shift the line numbers
            for number, line in enumerate(lines, first):
                if line.count(b'"') % 2:
                    raise DataError(f"{self.place(number)}: quoted text does not end on its line")
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

    def _check_extra(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Raise a DataError for a line with more fields than the header; returns the batch without `EXTRA`."""
        if EXTRA not in batch.columns:
            return batch
        too_long = batch.filter(pl.col(EXTRA).is_not_null())
        if too_long.height:
            hint = "a decimal comma needs a semicolon or tab between columns"
            raise DataError(f"{self.place(too_long[LINE][0])}: more fields than the header; {hint}")
        return batch.drop(EXTRA)

    def read(self, columns: Iterable[str]) -> pl.DataFrame:
        """Read all rows of `batches` into one frame."""
        batches = list(self.batches(columns))
        if not batches:
            raise DataError(f"{self.path}: the file has a header but no rows")
        return pl.concat(batches)

    def place(self, line: int, column: str = "") -> str:
        """File, line (in Parquet: row) and column, as error messages write them."""
        where = f"{self.path}: {'line' if self.delimiter else 'row'} {line}"
        return f"{where}, column '{column}'" if column else where

    def require(self, columns: Iterable[str]) -> None:
        """Raise a DataError for the first of these columns that the file does not have."""
        for name in columns:
            if name in self.unreadable:
                kind = self.unreadable[name]
                raise DataError(f"{self.path}: the column '{name}' holds {kind}; write it as numbers, text or times")
            if name not in self.columns:
                raise DataError(f"{self.path}: no column '{name}'{suggestion(name, self.columns)}")


def open_table(path: Path | str | TableFile, options: TableOptions = AS_FOUND, probed: bool = False) -> TableFile:
    """Find the columns of a Parquet or (gzipped) CSV file, and the delimiter and decimal sign from its first lines.

    A child process first checks that a Parquet file can be read, unless it was `probed` before. A table that is open
    stays as it is.
    """
    if isinstance(path, TableFile):
        return path
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        if path.suffix.lower() == ".parquet":
            if not probed:
                check_parquet(path)
            schema = pl.scan_parquet(path, glob=False).collect_schema()
            columns = cs.expand_selector(schema, READABLE)
            unreadable = {name: str(kind) for name, kind in schema.items() if name not in columns}
            temporal = cs.expand_selector(schema, cs.date() | cs.datetime())
            table = TableFile(path, columns, unreadable=unreadable, temporal=temporal)
        else:
            table = _open_csv(path)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the text is not UTF-8; save the file as UTF-8") from error
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error
    for name in table.columns:
        if table.columns.count(name) > 1:
            raise DataError(f"{path}: two columns are called '{name}'; rename one of them")
    return table


def _open_csv(path: Path) -> TableFile:
    """Find header, delimiter and decimal sign from the first `HEAD_LINES` lines."""
    with _open_bytes(path) as handle:
        lines = [line.decode("utf-8-sig").rstrip("\r\n") for line in islice(handle, HEAD_LINES)]
    if not any(lines):
        raise DataError(f"{path}: the file is empty")
    header, filled = lines[0], [line for line in lines[1:] if line.strip()]
    delimiter = find_delimiter([header, *filled[:20]])
    names = _split(header, delimiter)
    if len(names) < 2:
        raise DataError(f"{path}: the header '{header[:60]}' is one field; separate columns by comma, semicolon or tab")
    if not filled:
        raise DataError(f"{path}: the file has a header but no rows")
    columns = tuple(name.strip() or f"column_{number}" for number, name in enumerate(names, 1))
    return TableFile(path, columns, delimiter, _find_decimal(path, filled, delimiter))


def _open_bytes(path: Path) -> IO[bytes]:
    """Open a file that may be gzipped, whatever its name."""
    with path.open("rb") as handle:
        zipped = handle.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], io.BufferedReader(cast(Any, gzip.open(path)))) if zipped else path.open("rb")


def find_delimiter(lines: list[str]) -> str:
    r"""Find the delimiter that splits header and first rows into the same number of fields, more than one.

    >>> find_delimiter(["time;pm25;pm10", "2026-01-01;1,5;2,5"])
    ';'
    """
    widths = {sign: [len(_split(line, sign)) for line in lines] for sign in DELIMITERS}
    agreeing = [sign for sign, counts in widths.items() if counts[0] > 1 and len(set(counts)) == 1]
    return max(agreeing or DELIMITERS, key=lambda sign: widths[sign][0])


def _find_decimal(path: Path, lines: list[str], delimiter: str) -> str:
    """The decimal sign; raises a DataError for a comma that may also group thousands."""
    if delimiter == ",":
        return "."
    split = [_split(line, delimiter) for line in lines]
    found = [text for fields in split for text in fields if "," in text and DECIMAL.fullmatch(text)]
    if found and all(map(THOUSANDS.fullmatch, found)):
        for column in zip_longest(*split, fillvalue=""):
            grouped = next(filter(THOUSANDS.fullmatch, column), "").strip()
            if grouped and any(map(WHOLE.fullmatch, column)):
                both = f"{grouped.replace(',', '.')} or {grouped.replace(',', '')}"
                raise DataError(
                    f"{path}: '{grouped}' may be {both}; write numbers with a point, or without thousands marks"
                )
    return "," if found else "."


def _split(line: str, delimiter: str) -> list[str]:
    """Split a line of CSV into fields; a delimiter inside quotes does not count."""
    return next(csv.reader([line], delimiter=delimiter), [])


def _unreadable(path: Path, error: BaseException) -> DataError:
    """The error for a file that a library could not read, with the beginning of the library's message."""
    reason = " ".join(str(error).split())[:80]
    return DataError(f"{path}: the file is damaged or not a table ({reason})")


def with_numbers(frame: pl.DataFrame, decimal: str = ".") -> pl.DataFrame:
    """Convert every column that holds nothing but numbers to Float64.

    >>> with_numbers(pl.DataFrame({"a": ["1,5", None], "b": ["1,5", "x"]}), ",").dtypes
    [Float64, String]
    """
    texts = [column for column in frame if column.dtype == pl.String]
    found = {text.name: _to_numbers(text, decimal) for text in texts}
    numbers = [found[text.name] for text in texts if found[text.name].null_count() == text.null_count()]
    return frame.with_columns(cs.numeric().cast(pl.Float64)).with_columns(numbers)


def _to_numbers(column: pl.Series, decimal: str) -> pl.Series:
    """Convert to Float64, with null for what is not a finite number."""
    if column.dtype == pl.String and decimal == ",":
        # A point would group thousands, so it becomes a character that no number has.
        column = column.str.replace_many([".", ","], ["_", "."])
    numbers = column.cast(pl.Float64, strict=False)
    return pl.select(pl.when(numbers.is_finite()).then(numbers).alias(column.name)).to_series()


def strict_numbers(batch: pl.DataFrame, name: str, table: TableFile) -> pl.Series:
    """Convert a column of a batch to numbers; a DataError names the first line with something else."""
    if batch.schema[name].is_temporal():
        raise DataError(f"{table.path}: the column '{name}' holds times, not numbers")
    numbers = _to_numbers(batch[name], table.decimal)
    if batch.schema[name] == pl.String and numbers.null_count() > batch[name].null_count():
        line, text = batch.filter(numbers.is_null() & batch[name].is_not_null()).select(LINE, name).row(0)
        raise DataError(f"{table.place(line, name)}: '{text}' is not a number")
    return numbers


def read_table(path: Path | str) -> pl.DataFrame:
    """Read a whole file into a frame: columns of numbers are Float64, other text stays text."""
    table = open_table(path)
    return with_numbers(table.read(table.columns).drop(LINE), table.decimal)


def stem(path: PurePath) -> str:
    """A file's name without the suffixes of tables.

    >>> stem(PurePath("box-01.csv.gz"))
    'box-01'
    """
    return re.sub(r"(\.(csv|tsv|txt|parquet))?(\.gz)?$", "", path.name, count=1, flags=re.IGNORECASE)


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
    """Yield a function that appends frames to a CSV file, gzipped if it ends in .gz; the first brings the header."""
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


def check_parquet(path: Path) -> None:
    """Raise a DataError for a Parquet file that cannot be read, or that would crash this process."""
    if problem := PARQUET_PROBE.find_problem(path):
        raise DataError(f"{path}: the file is damaged or not a table ({problem})")


class ParquetProbe:
    """Try to read files in a child process; after a file that crashes it, the next file gets a new child."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.end)

    def find_problem(self, path: Path) -> str:
        """Try to read a file; returns why it cannot be read, empty if it can."""
        with self._lock:
            child = self._running_child()
            assert child.stdin is not None
            assert child.stdout is not None
            timer = Timer(PROBE_SECONDS + path.stat().st_size / PROBE_BYTES_PER_SECOND, child.kill)
            timer.start()
            try:
                child.stdin.write(json.dumps(str(path.resolve())) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            except OSError:  # the child has ended
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                self.end()
            return json.loads(answer) if answer else "reading it crashes or never ends"

    def end(self) -> None:
        """Stop the child process."""
        if self._child is not None:
            with suppress(OSError):  # its pipe is broken
                self._child.communicate()
            self._child = None

    def _running_child(self) -> "subprocess.Popen[str]":
        """The child, started anew if there is none or it has ended."""
        if self._child is not None and self._child.poll() is not None:
            self.end()
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "scare.data.tables"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the parent
            )
        return self._child


PARQUET_PROBE = ParquetProbe()


def _try_reading(path: str) -> str:
    """In the child: read a whole Parquet file within a memory limit; returns the problem, empty if there is none."""
    if sys.platform != "win32":  # which has no such limit
        import resource

        # Address space in use; elsewhere than on Linux a generous guess.
        used = int(STATM.read_text().split()[0]) * resource.getpagesize() if STATM.exists() else 4 << 30
        more = max(PROBE_BYTES, PROBE_BYTES_PER_BYTE * Path(path).stat().st_size)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
    try:
        table = pl.scan_parquet(path, glob=False)
        for start in range(0, table.select(pl.len()).collect().item(), ROWS):
            table.slice(start, ROWS).collect()
    except (Exception, pl.exceptions.PanicException) as error:
        return " ".join(str(error).split())[:80] or type(error).__name__
    return ""


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_try_reading(json.loads(line))), flush=True)
