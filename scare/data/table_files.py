"""Table files: CSV (any of , ; tab, decimal comma, gzip) and Parquet as batches of rows whose lines are known.

Messages count lines as an editor does: the header is line 1. A row is one line.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any, cast

import polars as pl
import polars.selectors as cs

from scare.errors import DataError
from scare.words import suggestion

LINE, EXTRA = " line", " extra"  # no name in a header begins with a space: they are stripped


DELIMITERS = (",", ";", "\t")


DECIMAL = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")


THOUSANDS, WHOLE = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"), re.compile(r"\s*[+-]?\d+\s*")


MISSING = (
    *("", "-", "--", "?", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "-nan", "-NaN", "<NA>"),
    *("null", "NULL", "Null", "None", "NONE", "none", "inf", "-inf", "Inf", "-Inf", "INF", "-INF", "#DIV/0!"),
)


HEAD_LINES, ROWS = 1000, 200_000


READ_ERRORS = (OSError, EOFError, zlib.error, csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException)


READ = (
    cs.numeric()
    | cs.boolean()
    | cs.string()
    | cs.categorical()
    | cs.enum()
    | cs.date()
    | cs.datetime()
    | cs.by_dtype(pl.Null)
)


@dataclass(frozen=True)
class TableFile:
    """A table file of which the columns are known and the rows still to be read; Parquet has no delimiter.

    `others` are columns that are not read, such as lists, each with its type; `temporal` ones hold times as such.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ""
    decimal: str = "."
    others: Mapping[str, str] = field(default_factory=dict)
    temporal: tuple[str, ...] = ()

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
        plain = [cs.decimal().cast(pl.Float64), (cs.categorical() | cs.enum()).cast(pl.String)]
        table = pl.scan_parquet(self.path, glob=False, row_index_name=LINE, row_index_offset=1).with_columns(*plain)
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
            if name in self.others:
                kind = self.others[name]
                raise DataError(f"{self.path}: the column '{name}' holds {kind}; write it as numbers, text or times")
            if name not in self.columns:
                raise DataError(f"{self.path}: no column '{name}'{suggestion(name, self.columns)}")


def open_table(path: Path | str, probed: bool = False) -> TableFile:
    """The columns of a Parquet or (gzipped) CSV file, with the delimiter and decimal sign its head shows.

    A Parquet file is first read by another process, which it may end, unless that was `probed` before.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        table = _open_parquet(path, probed) if path.suffix.lower() == ".parquet" else _open_csv(path)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the text is not UTF-8; save the file as UTF-8") from error
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error
    for name in table.columns:
        if table.columns.count(name) > 1:
            raise DataError(f"{path}: two columns are called '{name}'; rename one of them")
    return table


def _open_parquet(path: Path, probed: bool) -> TableFile:
    if not probed:
        check_parquet(path)
    schema = pl.scan_parquet(path, glob=False).collect_schema()
    columns = cs.expand_selector(schema, READ)
    others = {name: str(kind) for name, kind in schema.items() if name not in columns}
    temporal = cs.expand_selector(schema, cs.date() | cs.datetime())
    return TableFile(path, columns, others=others, temporal=temporal)


def _open_csv(path: Path) -> TableFile:
    with _opened(path) as handle:
        lines = [line.decode("utf-8-sig").rstrip("\r\n") for line in islice(handle, HEAD_LINES)]
    if not any(lines):
        raise DataError(f"{path}: the file is empty")
    header, filled = lines[0], [line for line in lines[1:] if line.strip()]
    delimiter = find_delimiter([header, *filled[:20]])
    names = _split(header, delimiter)
    if len(names) < 2:
        raise DataError(f"{path}: the header '{header[:60]}' is one field; divide it by comma, semicolon or tab")
    if not filled:
        raise DataError(f"{path}: there is a header but no row of numbers")
    columns = tuple(name.strip() or f"column_{number}" for number, name in enumerate(names, 1))
    return TableFile(path, columns, delimiter, _find_decimal(path, filled, delimiter))


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


def _find_decimal(path: Path, lines: list[str], delimiter: str) -> str:
    """The decimal sign; a comma that may divide thousands as well is refused."""
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
    return next(csv.reader([line], delimiter=delimiter), [])


def _unreadable(path: Path, error: BaseException) -> DataError:
    reason = " ".join(str(error).split())[:80]
    return DataError(f"{path}: the file is damaged or not a table ({reason})")


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


def strict_numbers(batch: pl.DataFrame, name: str, table: TableFile) -> pl.Series:
    """A column of a batch as numbers; a DataError names the first line with something else."""
    if batch.schema[name].is_temporal():
        raise DataError(f"{table.path}: the column '{name}' holds times, not numbers")
    numbers = _to_numbers(batch[name], table.decimal)
    if batch.schema[name] == pl.String and numbers.null_count() > batch[name].null_count():
        line, text = batch.filter(numbers.is_null() & batch[name].is_not_null()).select(LINE, name).row(0)
        raise DataError(f"{table.place(line, name)}: '{text}' is not a number")
    return numbers


TRIAL_ROWS = 200_000  # read at once


MEMORY = 1 << 30  # bytes that reading may take, or this many times the file:


TIMES = 16


STATM = Path("/proc/self/statm")  # how much memory is in use, on Linux


SECONDS, BYTES_A_SECOND = 20.0, 4 << 20  # that reading may take, and that it manages at least


class Trial:
    """A child that reads files; another takes its place when one has ended it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.end)

    def why_not(self, path: Path) -> str:
        """Why a file cannot be read; empty if it can."""
        with self._lock:
            child = self._running()
            assert child.stdin is not None
            assert child.stdout is not None
            timer = Timer(SECONDS + path.stat().st_size / BYTES_A_SECOND, child.kill)
            timer.start()
            try:
                child.stdin.write(json.dumps(str(path.resolve())) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            except OSError:  # it has ended already
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                self.end()
            return json.loads(answer) if answer else "whatever reads it ends, or never does"

    def end(self) -> None:
        """Let the child go."""
        if self._child is not None:
            with suppress(OSError):  # what could not be written to one that had ended
                self._child.communicate()
            self._child = None

    def _running(self) -> "subprocess.Popen[str]":
        if self._child is not None and self._child.poll() is not None:
            self.end()
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "scare.data.table_files"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for us
            )
        return self._child


@cache
def _trial() -> Trial:
    return Trial()


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file that cannot be read, or that would end this process."""
    if reason := _trial().why_not(path):
        raise DataError(f"{path}: the file is damaged or not a table ({reason})")


def _read(path: str) -> str:
    """Read a file; what is wrong with it."""
    _limit_memory(max(MEMORY, TIMES * Path(path).stat().st_size))
    try:
        table = pl.scan_parquet(path, glob=False)
        for start in range(0, table.select(pl.len()).collect().item(), TRIAL_ROWS):
            table.slice(start, TRIAL_ROWS).collect()
    except (Exception, pl.exceptions.PanicException) as error:
        return " ".join(str(error).split())[:80] or type(error).__name__
    return ""


def _limit_memory(size: int) -> None:
    """So much more memory than is in use already; Windows has no such limit."""
    if sys.platform == "win32":
        return
    import resource

    used = int(STATM.read_text().split()[0]) * resource.getpagesize() if STATM.exists() else 4 << 30
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + size, hard))


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_read(json.loads(line))), flush=True)
