"""Table files: read text, spreadsheets, JSON and Parquet in batches, and write CSV and Parquet.

`table_layout` finds the delimiter, the decimal sign and the header; `packed_files` unpacks and decodes.

Every row keeps its line number for messages. Lines count as in an editor: the header is line 1, and a row is one line.
Parquet files are first read by the child process of `parquet_check`.
Called by `column_mapping`, `column_guess` and whatever writes tables.
"""

import csv
import gzip
import io
import json
import logging
import re
import shutil
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, Any, Literal, cast

import polars as pl
import polars.selectors as cs

from scare.data.cells import MISSING, NO_VALUE, NUMBER, cell_unit, is_unit, kind, to_numbers
from scare.data.json_records import read_records
from scare.data.known_formats import TableFormat, recognise, recognise_row
from scare.data.packed_files import NAMES as ENCODINGS
from scare.data.packed_files import Source, find_source
from scare.data.parquet_check import check_readable
from scare.data.reshape import NAME_COLUMN, UNIT_COLUMN, VALUE_COLUMN, VALUE_WORD, has_blocks, reshape
from scare.data.spreadsheets import read_sheets
from scare.data.table_layout import (
    NO_NAME,
    SPACES,
    Layout,
    find_decimal,
    find_delimiter,
    find_layout,
    find_spans,
    has_cut_decimals,
    join_broken,
    split,
)
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.limits import check_table, table_bytes
from scare.schema import Whole
from scare.words import listed, plural, suggestion

logger = logging.getLogger(__name__)
LINE, EXTRA = " line", " extra"  # no name in a header begins with a space: they are stripped
HEAD_LINES, LAYOUT_LINES = 1000, 300  # first lines that are read, and by which the layout is told
ROWS = 200_000  # rows of a batch
MANY_LOST = 10  # so many rows without a time may be a footer
FEW_STATES, MANY_NUMBERS = 5, 20  # distinct texts and numbers in a column of numbers and states of the instrument
EXAMPLES, LONGEST_EXAMPLE = 3, 60  # examples of what could not be read in a message, and characters of each
TAIL_BYTES, FOOTER_LINES = 4096, 8  # end of a file in which a footer is looked for
SMALL_FILE = 20_000_000  # bytes: only in a smaller file, other tables are looked for below the first
SUFFIXES = (  # endings of table files
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet", ".xlsx", ".xls", ".ods", ".dat", ".json"),
)
STATED_UNIT = re.compile(r"^[#\s\"]*(.+?) units? ?[=:] ?\"?([^\"]+?)\"?\s*$", re.IGNORECASE)
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.fZ"
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
CUT_DECIMALS = (
    "The last columns have no names, and no number has decimals: decimal commas seem to have been taken for"
    " delimiters, so that values are in wrong columns. Export the file again with semicolons or decimal points."
)
Dates = Literal["", "day-first", "month-first"]  # how dates like 3/4/2026 are written, if stated


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for how a table file is written; what is not given is guessed, and a note says so.

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
        """Return these options as keyword arguments for another record with the same fields."""
        values = {option.name: getattr(self, option.name) for option in fields(TableOptions)}
        return {name: value for name, value in values.items() if value not in ("", None, ())}


AS_FOUND = TableOptions()  # nothing is stated


@dataclass(frozen=True)
class TableFile:
    """A table file whose columns are known and whose rows are still to be read.

    Plain text has a `delimiter` and is read in blocks. The rows of other text, sheets and JSON are in `frame`. Parquet
    has neither.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ""
    decimal: str = "."
    unreadable: Mapping[str, str] = field(default_factory=dict)  # types of columns that cannot be read, such as lists
    temporal: tuple[str, ...] = ()  # columns with a time type
    notes: tuple[str, ...] = ()  # sentences about what was guessed
    units: Mapping[str, str] = field(default_factory=dict)  # as the file writes them, by column
    remarks: tuple[str, ...] = ()  # lines before and after the table
    format: TableFormat | None = None  # if it is a known one
    options: TableOptions = AS_FOUND
    source: Source | None = None
    first: int = 2  # number of the first line of data
    frame: pl.DataFrame | None = field(default=None, repr=False, compare=False)  # with the line of each row

    def batches(self, columns: Iterable[str], rows: int = ROWS) -> Iterator[pl.DataFrame]:
        """Yield frames of at most `rows` rows: the line of each row and these columns as the file has them.

        Text is stripped, and null where it means missing; blank rows are left out.
        """
        is_plain_text = self.frame is None and bool(self.delimiter)
        names = [*dict.fromkeys(columns), *([EXTRA] if is_plain_text else [])]
        flag_column = self.format.flag if self.format and self.format.flag in self.columns else ""
        text = cs.string().str.strip_chars(" \t\r'\"")
        is_blank = pl.all_horizontal(pl.col(names).is_null())
        rows_read = 0
        try:
            for block in self._blocks(rows):
                if flag_column:
                    block = block.with_columns(self._valid_values(names, flag_column))
                if self.either:  # columns of which each row has one
                    block = block.with_columns(pl.coalesce(self.either).alias(self.either[0]))
                is_missing = text.is_in([*MISSING, *self.missing])
                stripped = block.select(LINE, *names).with_columns(pl.when(~is_missing).then(text))
                batch = stripped.filter(~is_blank).collect()
                rows_read += batch.height
                check_table(self.path, table=table_bytes(rows_read, len(names)))
                if batch.height:
                    yield self._check_extra(batch) if is_plain_text else batch
        except READ_ERRORS as error:
            raise _unreadable(self.path, error) from error

    def _valid_values(self, names: Sequence[str], flag_column: str) -> list[pl.Expr]:
        """Return the references of a known format, null where its flag does not say that they are valid."""
        assert self.format is not None
        is_valid = pl.col(flag_column).cast(pl.String).str.strip_chars(' "').is_in(self.format.valid)
        values = (name for name, column in self.format.columns.items() if column.role == "reference" and name in names)
        return [pl.when(is_valid).then(name).alias(name) for name in values]

    @property
    def either(self) -> tuple[str, ...]:
        """Columns to merge: a row's value is the first one present among them, under the name of the first column."""
        return tuple(name for name in self.format.either if name in self.columns) if self.format else ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The cells that mean "no reading" in this file, besides those that mean it in every file (`MISSING`)."""
        return (*self.options.missing, *(self.format.missing if self.format else ()))

    def _blocks(self, rows: int) -> Iterator[pl.LazyFrame]:
        """Yield the file's rows, `rows` at a time, with `LINE`."""
        if self.frame is not None:
            for start in range(0, self.frame.height, rows):
                yield self.frame.slice(start, rows).lazy()
        elif self.delimiter:
            yield from self._csv_blocks(rows)
        else:
            yield from self._parquet_blocks(rows)

    def _parquet_blocks(self, rows: int) -> Iterator[pl.LazyFrame]:
        plain = [cs.decimal().cast(pl.Float64), (cs.categorical() | cs.enum()).cast(pl.String)]
        table = pl.scan_parquet(self.path, glob=False, row_index_name=LINE, row_index_offset=1).with_columns(*plain)
        for start in range(0, table.select(pl.len()).collect().item(), rows):
            yield table.slice(start, rows)

    def _csv_blocks(self, rows: int) -> Iterator[pl.LazyFrame]:
        assert self.source is not None
        first = self.first
        with closing(self.source.lines()) as handle:
            for _ in islice(handle, first - 1):
                pass
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
        try:
            block.decode()
        except UnicodeDecodeError:  # the first lines were ASCII, and these are not UTF-8
            block = block.decode("cp1252", "replace").encode()
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
        """Drop `EXTRA` and the few lines with more numbers than the header; raises a DataError if there are many.

        A remark after the last column does not count.
        """
        longer = batch.filter(pl.col(EXTRA).is_not_null())
        is_remark = ~pl.col(EXTRA).str.contains(r"^[\s'\"]*[+-]?[.,]?\d")  # it does not begin with a number
        too_long = longer.filter(~is_remark)
        if too_long.height > batch.height / 100:
            hint = "a decimal comma needs a semicolon or tab between columns, and another header --skip-rows"
            raise DataError(f"{self.place(too_long[LINE][0])}: more fields than the header; {hint}")
        if too_long.height:
            lines = plural(too_long.height, "such line")
            logger.warning(f"{self.place(too_long[LINE][0])}: more fields than the header; left out ({lines})")
        if remarks := longer.height - too_long.height:
            first = longer.filter(is_remark).row(0, named=True)
            text = first[EXTRA].strip()[:LONGEST_EXAMPLE]
            lines = plural(remarks, "such line")
            logger.warning(f"{self.place(first[LINE])}: '{text}' after the last column is left out ({lines})")
        return batch.filter(pl.col(EXTRA).is_null() | is_remark).drop(EXTRA)

    def read(self, columns: Iterable[str]) -> pl.DataFrame:
        """Read all rows of `batches` into one frame."""
        batches = list(self.batches(columns))
        if not batches:
            raise DataError(f"{self.path}: the file has a header but no rows")
        return pl.concat(batches)

    def place(self, line: int, column: str = "") -> str:
        """Return the file, line (in Parquet and sheets: row) and column, as error messages write them."""
        is_text = self.source is not None and self.source.content == "text"
        where = f"{self.path}: {'line' if is_text else 'row'} {line}"
        return f"{where}, column '{column}'" if column else where

    def require(self, columns: Iterable[str]) -> None:
        """Raise a DataError for the first of these columns that the file does not have."""
        for name in columns:
            if name in self.unreadable:
                dtype = self.unreadable[name]
                raise DataError(f"{self.path}: the column '{name}' holds {dtype}; write it as numbers, text or times")
            if name not in self.columns:
                raise DataError(f"{self.path}: no column '{name}'{suggestion(name, self.columns)}")


def open_table(
    path: Path | str | TableFile, options: TableOptions = AS_FOUND, probed: bool = False, as_written: bool = False
) -> TableFile:
    """Find the columns of a table file: text, spreadsheet, JSON or Parquet, whatever its name.

    A child process first checks that a Parquet file or spreadsheet can be read, unless it was `probed` before. A table
    that is open stays as it is. `as_written` keeps the shape of a long table.
    """
    if isinstance(path, TableFile):
        return path
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        if path.suffix.lower() == ".parquet":
            return _open_parquet(path, options, probed)
        source = find_source(path, options.encoding)
        match source.content:
            case "parquet":
                return _open_parquet(path, options, probed)
            case "sheet":
                if not probed:
                    check_readable(path)
                table = _open_sheet(source, options)
            case "json":
                table = _open_json(source, options)
            case "text":
                table = _open_text(source, options)
            case "page":
                raise DataError(f"{path}: the file is a web page or XML; open it in a spreadsheet and save it as CSV")
        return table if as_written else _finish(table)
    except READ_ERRORS as error:
        raise _unreadable(path, error) from error


def _open_parquet(path: Path, options: TableOptions, probed: bool) -> TableFile:
    if not probed:
        check_readable(path)
    schema = pl.scan_parquet(path, glob=False).collect_schema()
    columns = cs.expand_selector(schema, READABLE)
    unreadable = {name: str(dtype) for name, dtype in schema.items() if name not in columns}
    temporal = cs.expand_selector(schema, cs.date() | cs.datetime())
    known = recognise(columns)
    notes = (known.sentence,) if known else ()
    table = TableFile(
        path, columns, unreadable=unreadable, temporal=temporal, notes=notes, format=known, options=options
    )
    head = next(table.batches(columns, LAYOUT_LINES), None)
    return table if head is None else replace(table, units=_cell_units(head, ()))


def _open_text(source: Source, options: TableOptions) -> TableFile:
    head = join_broken(source.text(HEAD_LINES))
    if not any(line.strip() for line in head):
        raise DataError(f"{source.path}: the file is empty")
    if any("]: '" in line and "Sending state" in line for line in head[:LAYOUT_LINES]):
        raise DataError(
            f"{source.path}: a log of ESPHome has no dates; take the history of Home Assistant, or messages of MQTT"
        )
    lines = head[:LAYOUT_LINES]
    delimiter = find_delimiter(lines[options.skip_rows or 0 :])
    rows = [split(line, delimiter) for line in lines] if delimiter else []
    layout = find_layout(rows, options.skip_rows, lines, delimiter)
    if layout is None and rows and len({len(row) for row in rows if row}) == 1 and sum(map(any, rows)) > 1:
        layout = Layout(tuple(rows[0]), 0, 1)  # text alone, such as names of devices and models
    if layout is None:
        raise _no_table(source.path, [line for line in head if line.strip()], rows)
    data = [split(line, delimiter) for line in head[layout.first :]]
    check_table(source.path, columns=len(layout.names))
    names, notes = _tidy_names(layout)
    if source.encoding not in ("utf-8", "utf-8-sig", "ascii"):
        notes = (f"Read as {ENCODINGS.get(source.encoding, source.encoding)}.", *notes)
    if source.member:
        notes = (f"Read '{source.member}' from the archive.", *notes)
    if delimiter == "," and has_cut_decimals(names, data):
        notes = (*notes, CUT_DECIMALS)
        logger.warning(f"{source.path}: {CUT_DECIMALS}")
    remarks = (*head[: layout.first], *_footer(source, delimiter, len(names)))
    return TableFile(
        source.path,
        names,
        delimiter,
        find_decimal(source.path, data, delimiter),
        notes=notes,
        units=layout.units,
        remarks=remarks,
        options=options,
        source=source,
        first=layout.first + 1,
        frame=_divide(source, layout.first, names) if delimiter == SPACES else None,
    )


def _tidy_names(layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the distinct names for the columns, and notes about the header."""
    notes, counts, names = [], Counter[str](), []
    if layout.header is None:
        notes.append(f"There is no header; the columns are called column_1 to column_{len(layout.names)}.")
    elif layout.header:
        notes.append(f"Line {layout.header + 1} is the header; the lines before it are skipped.")
    for number, name in enumerate(layout.names, 1):
        name = name.strip() or f"column_{number}"
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    doubled = [name for name, count in counts.items() if count > 1]
    if len(doubled) > EXAMPLES:
        notes.append(
            f"{len(doubled)} names stand twice, such as '{doubled[0]}'; the second is read as '{doubled[0]}_2'."
        )
    else:
        notes += [f"Two columns are called '{name}'; the second is read as '{name}_2'." for name in doubled]
    return tuple(names), tuple(notes)


def _finish(table: TableFile) -> TableFile:
    """Recognise a known format, reshape the table to one row per time, and find the units in its cells."""
    known_format = recognise(table.columns, table.remarks)
    if known_format is None and table.delimiter and table.columns[0] == "column_1":
        assert table.source is not None
        known_format = recognise_row(table.source.text(table.first)[-1])
        if known_format:
            table = replace(table, columns=known_format.names, notes=())
    if known_format:
        table = replace(table, format=known_format, notes=(known_format.sentence, *table.notes))
        if len(table.either) > 1:
            table = replace(table, notes=(*table.notes, f"Of {listed(table.either)} the first with a value counts."))
    head = next(table.batches(table.columns, LAYOUT_LINES), None)
    if head is None:
        return table
    codes = known_format.codes if known_format else {}
    date_in_name = re.search(r"(?<!\d)(20\d\d)[-_.]?([01]\d)[-_.]?([0-3]\d)(?!\d)", table.path.name)
    remarks = (*table.remarks, "-".join(date_in_name.groups()) if date_in_name else "")
    # The first rows tell whether the whole table has to be read to change its shape, except in these two cases.
    may_change = reshape(head, remarks, codes) or _names_change_later(table, head) or _has_blocks(table)
    reshaped = reshape(table.read(table.columns), remarks, codes) if may_change else None
    if reshaped:
        columns = tuple(name for name in reshaped.frame.columns if name != LINE)
        units = {**table.units, **reshaped.units}
        notes = (*table.notes, *reshaped.notes)
        table = replace(table, columns=columns, frame=reshaped.frame, units=units, notes=notes)
        head = reshaped.frame.head(LAYOUT_LINES)
    return replace(table, units={**_cell_units(head, table.remarks), **table.units})


def _names_change_later(table: TableFile, head: pl.DataFrame) -> bool:
    """Whether a column that names one quantity or unit in all of the first rows names another one further on.

    Such a file lists all values of one quantity before those of the next, so its first rows look like a usual table.
    """
    if not any(map(VALUE_WORD.search, head.columns)):
        return False  # no column is called `value` or the like, of which the names could speak
    columns = [name for name in head.columns if NAME_COLUMN.fullmatch(name) or UNIT_COLUMN.fullmatch(name)]
    first_cells = {name: head[name].drop_nulls()[0] for name in columns if head[name].drop_nulls().n_unique() == 1}
    batches = table.batches(first_cells) if first_cells else ()
    return any((batch[name] != cell).any() for batch in batches for name, cell in first_cells.items())


def _has_blocks(table: TableFile) -> bool:
    """Whether a sheet, or a text that is not large, has other tables with a header below the first one."""
    if table.frame is not None:
        return has_blocks(table.frame)
    if not table.delimiter or table.path.stat().st_size > SMALL_FILE:
        return False
    first = table.columns[0]
    lines = [line for batch in table.batches([first]) for line in batch.filter(pl.col(first) == first)[LINE]]
    return bool(lines) and has_blocks(table.read(table.columns))


def _cell_units(head: pl.DataFrame, remarks: Sequence[str]) -> dict[str, str]:
    """Find the units in cells (after a number, or in a column of units) and in lines like `BC units = ng/m^3`."""
    stated = {match[1].strip().lower(): match[2] for line in remarks if (match := STATED_UNIT.search(line))}
    units = {name: stated[name.lower()] for name in head.columns if is_unit(stated.get(name.lower(), ""))}
    # Columns of numbers, of which a column of units may speak: the one called `Value` or the like, or those before it.
    number_columns: list[str] = [name for name in head.columns if VALUE_COLUMN.fullmatch(name)][:1]
    for column in head.drop(LINE):
        if column.dtype.is_numeric() and not number_columns:
            number_columns.append(column.name)
        cells = column.drop_nulls().head(EXAMPLES * 10).to_list() if column.dtype == pl.String else []
        units_of_cells = {cell_unit(cell) for cell in cells}
        # The units that are a whole cell, or what follows the first word of one.
        unit_names = {unit for cell in cells for unit in (cell, cell.partition(" ")[2]) if is_unit(unit)}
        if cells and kind(cells[0]) == "number":
            if not number_columns or not VALUE_COLUMN.fullmatch(number_columns[0]):
                number_columns.append(column.name)
            if len(units_of_cells) == 1 and "" not in units_of_cells:
                units.setdefault(column.name, units_of_cells.pop())
        elif len(unit_names) == 1 and number_columns:
            base = re.sub(r"[ _.]?units?$", "", column.name, flags=re.IGNORECASE)
            matching_name = re.compile(rf"{re.escape(base)}[ _.]?(value|conc.*)?", re.IGNORECASE)
            others = (name for name in head.columns if name != column.name)
            unit = unit_names.pop()
            # It is the unit of the column with a matching name, or of the numbers before it; a single letter, such as
            # C in "TempUnit", is too little for the latter.
            target = next(filter(matching_name.fullmatch, others), "" if len(unit) == 1 else number_columns[-1])
            if target:
                units.setdefault(target, unit)
    return units


def _divide(source: Source, first: int, names: Sequence[str]) -> pl.DataFrame:
    """Split the lines of a text at spaces, or at fixed positions if some cells are empty."""
    lines = source.text()[first:]
    cells = [split(line, SPACES) for line in lines]
    width = len(names)
    spans = find_spans([line for line, row in zip(lines, cells, strict=True) if len(row) == width][:LAYOUT_LINES])
    if len(spans) == width:
        cells = [
            row if len(row) == width else [line[start:end].strip() for start, end in spans]
            for line, row in zip(lines, cells, strict=True)
        ]
    return _as_frame(names, cells, first + 1)


def _as_frame(names: Sequence[str], rows: Sequence[Sequence[str]], first: int) -> pl.DataFrame:
    """Make a frame of text from rows of cells, with `LINE` counted from `first`; extra cells are left out."""
    columns = {name: [row[i] if i < len(row) else None for row in rows] for i, name in enumerate(names)}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))
    return frame.select(pl.int_range(first, first + len(rows), dtype=pl.UInt32).alias(LINE), *names)


def _open_sheet(source: Source, options: TableOptions) -> TableFile:
    """Find the table in a spreadsheet: the named sheet, or the first with a table."""
    sheets = read_sheets(source, options.sheet)
    layouts = ((name, find_layout(rows[:LAYOUT_LINES], options.skip_rows)) for name, rows in sheets.items())
    name, layout = next(((name, layout) for name, layout in layouts if layout), ("", None))
    if layout is None:
        raise DataError(f"{source.path}: no table in the sheet {', '.join(map(repr, sheets))}")
    rows = sheets[name]
    data = rows[layout.first :]
    names, notes = _tidy_names(layout)
    if len(sheets) > 1:
        notes = (f"Read the sheet '{name}' of {len(sheets)}; another one is read with --sheet.", *notes)
    remarks = tuple(" ".join(filter(None, row)) for row in rows[: layout.first])
    return TableFile(
        source.path,
        names,
        decimal=find_decimal(source.path, data, ""),
        notes=notes,
        units=layout.units,
        remarks=remarks,
        options=options,
        source=source,
        frame=_as_frame(names, data, layout.first + 1),
    )


def _open_json(source: Source, options: TableOptions) -> TableFile:
    """Take the longest list of records in a JSON text as the table."""
    name, (header, *rows), outside = read_records(source)
    # ThingSpeak calls its columns field1, field2, … and gives their names outside the records.
    titles = {key.rpartition(".")[2]: text for key, text in outside.items() if kind(text) == "text"}
    columns = [titles.get(column, column) if NO_NAME.fullmatch(column) else column for column in header]
    units = {column: outside.get(f"{name}_units.{column}", "") for column in columns}
    return TableFile(
        source.path,
        tuple(columns),
        notes=(f"Read the list '{name}' of {len(rows)} records.",) if name else (),
        units={column: unit for column, unit in units.items() if is_unit(unit)},
        remarks=tuple(f"{key}: {text}" for key, text in outside.items() if re.search(r"time_?zone|^tz$", key)),
        options=options,
        source=source,
        frame=_as_frame(columns, rows, 1),
    )


def _footer(source: Source, delimiter: str, width: int) -> list[str]:
    """Return the last lines of a text file that are not rows of the table: those with few cells."""
    if source.path.stat().st_size < TAIL_BYTES or source.member or source.encoding.startswith("utf-16"):
        lines = list(deque(source.lines(), FOOTER_LINES))
    else:
        with source.path.open("rb") as handle:
            if handle.read(2) == b"\x1f\x8b":  # gzip, whose end cannot be read by itself
                return []
            handle.seek(-TAIL_BYTES, io.SEEK_END)
            lines = handle.read().splitlines()[1:]  # the first may have lost its beginning
    texts = [line.decode("utf-8", "replace").strip() for line in lines[-FOOTER_LINES:]]
    return [text for text in texts if text and len(split(text, delimiter)) < max(2, width / 2)]


def _no_table(path: Path, lines: Sequence[str], rows: Sequence[Sequence[str]]) -> DataError:
    """Make the error for a text without a row of data; `lines` are those that are not blank."""
    if not rows or max(map(len, rows)) < 2:
        return DataError(
            f"{path}: no line has two columns, as in '{lines[0][:60]}'; separate columns by comma, semicolon or tab"
        )
    if len(lines) == 1:
        return DataError(f"{path}: the file has a header but no rows")
    return DataError(
        f"{path}: no line looks like a row of numbers, as in '{lines[0][:60]}'; is this the right file? If so,"
        " state the number of lines before the header with --skip-rows"
    )


def _unreadable(path: Path, error: BaseException) -> DataError:
    """Make the error for a file that a library could not read, with the beginning of the library's message."""
    reason = " ".join(str(error).split())[:80]
    return DataError(f"{path}: the file is damaged or not a table ({reason})")


class Tally:
    """Counts what cannot be read of a table: rows without a time, and cells that are no numbers, with examples."""

    def __init__(self, table: TableFile) -> None:
        self._table = table
        self._timeless_rows: list[tuple[int, str]] = []  # examples of rows without a time: line and text
        self._timeless_count = self._timed_count = 0
        self._cells = Counter[str]()  # cells without a number, by column
        self._numbers = Counter[str]()  # numbers, by column
        self._examples: dict[str, list[str]] = {}  # cells without a number, by column

    def add_rows(self, timeless: pl.DataFrame, timed_count: int = 0) -> None:
        """Count rows: those without a time, whose line and text are the columns of `timeless`, and all others."""
        self._timeless_count += timeless.height
        self._timed_count += timed_count
        examples = timeless.head(EXAMPLES - len(self._timeless_rows)).rows()
        self._timeless_rows += [(line, (text or "")[:LONGEST_EXAMPLE]) for line, text in examples]

    def add_cells(self, texts: pl.Series, numbers: pl.Series, lines: pl.Series) -> None:
        """Count cells of a column that have a text but no number, with the lines they are in."""
        name = texts.name
        self._numbers[name] += len(numbers) - numbers.null_count()
        if texts.dtype != pl.String or numbers.null_count() == texts.null_count():
            return
        unread = pl.DataFrame({"text": texts, "line": lines}).filter(numbers.is_null() & texts.is_not_null())
        self._cells[name] += unread.height
        examples = self._examples.setdefault(name, [])
        first = unread.unique("text", keep="first", maintain_order=True).head(EXAMPLES - len(examples))
        examples += [f"'{text[:LONGEST_EXAMPLE]}' in line {line}" for text, line in first.rows()]

    def report(self) -> None:
        """Log the sentences of `notes`, unless a column holds only text: that is a DataError."""
        for name in self._cells:
            if not self._numbers[name]:
                example = self._examples[name][0]
                raise DataError(f"{self._table.path}: the column '{name}' holds text, not numbers, such as {example}")
        for note in self.notes():
            logger.warning(f"{self._table.path}: {note}")

    def notes(self) -> list[str]:
        """Return the sentences about what was counted; a DataError if most rows have no time."""
        lines = []
        if count := self._timeless_count:
            shown = ", ".join(
                f"'{text}' in line {line}" if text else f"none in line {line}" for line, text in self._timeless_rows
            )
            if count > max(MANY_LOST, self._timed_count):
                rows = f"{count:,} of {count + self._timed_count:,} rows have no time that can be read"
                raise DataError(
                    f"{self._table.path}: {rows}: {shown}; if the logger's clock had lost its time, correct the times"
                    " or leave these rows out"
                )
            rows_are = "1 row is" if count == 1 else f"{count:,} rows are"
            lines.append(f"{rows_are} left out, without a time that can be read: {shown}.")
        counts = {name: count for name, count in self._cells.items() if count}
        if len(counts) > EXAMPLES:
            names = ", ".join(f"'{name}'" for name in [*counts][:EXAMPLES])
            shown = ", ".join(dict.fromkeys(self._examples[name][0] for name in [*counts][:EXAMPLES]))
            columns = f"{len(counts)} columns ({names} and others)"
            return [*lines, f"{sum(counts.values()):,} cells of {columns} without a number, taken as missing: {shown}."]
        for name, count in counts.items():
            shown = ", ".join(self._examples[name])
            lines.append(f"{plural(count, 'cell')} of '{name}' without a number, taken as missing: {shown}.")
        return lines


def with_numbers(frame: pl.DataFrame, table: TableFile, tally: "Tally | None" = None) -> pl.DataFrame:
    """Drop `LINE` and convert every column that holds numbers to Float64; other cells become null and are counted.

    A column stays text if it has no numbers or if more than a fifth of its cells are other texts, not counting the
    usual marks of a missing value. It becomes numbers all the same if there are at most `FEW_STATES` distinct texts
    among many numbers: these are states that say why there is no value.
    """
    texts = [column for column in frame if column.dtype == pl.String]
    numbers = []
    for text in texts:
        parsed = to_numbers(text, table.decimal)
        if parsed.null_count() > text.null_count():
            unread = text.filter(parsed.is_null() & text.is_not_null())
            other_texts = sum(1 for cell in unread if not NO_VALUE.fullmatch(cell))
            are_states = unread.n_unique() <= FEW_STATES and parsed.n_unique() >= MANY_NUMBERS
            # A quarter of the numbers is a fifth of all cells.
            if (other_texts > parsed.count() / 4 and not are_states) or not parsed.count():
                continue
            if tally:
                tally.add_cells(text, parsed, frame[LINE])
        numbers.append(_without_codes(parsed, table))
    others = [_without_codes(column.cast(pl.Float64), table) for column in frame.drop(LINE).select(cs.numeric())]
    return frame.with_columns(*others, *numbers).drop(LINE)


def _without_codes(numbers: pl.Series, table: TableFile) -> pl.Series:
    """Return the numbers without those that mean "no reading" in this file."""
    codes = [float(code) for code in table.missing if NUMBER.fullmatch(code)]
    if not codes:
        return numbers
    return pl.select(pl.when(~pl.lit(numbers).is_in(codes)).then(numbers).alias(numbers.name)).to_series()


def read_numbers(batch: pl.DataFrame, name: str, table: TableFile, tally: Tally) -> pl.Series:
    """Convert a column of a batch to numbers; other cells become null and are counted."""
    if batch.schema[name].is_temporal():
        raise DataError(f"{table.path}: the column '{name}' holds times, not numbers")
    numbers = to_numbers(batch[name], table.decimal)
    tally.add_cells(batch[name], numbers, batch[LINE])
    return _without_codes(numbers, table)


def read_table(path: Path | str) -> pl.DataFrame:
    """Read a whole file into a frame: columns of numbers are Float64, other text stays text."""
    table = open_table(path, as_written=True)
    return with_numbers(table.read(table.columns), table)


def stem(path: PurePath) -> str:
    """Return a file's name without the suffixes of tables.

    >>> stem(PurePath("box-01.csv.gz")), stem(PurePath("Box 1.xlsx"))
    ('box-01', 'Box 1')
    """
    endings = "|".join(suffix.removesuffix(".gz").lstrip(".") for suffix in SUFFIXES)
    return re.sub(rf"(\.({endings}))?(\.gz|\.zip)?$", "", path.name, count=1, flags=re.IGNORECASE)


def write_table(frame: pl.DataFrame, path: Path | str) -> None:
    """Write a frame as CSV, gzipped CSV or Parquet, by the suffix of `path`; times as ISO 8601 in UTC."""
    with table_writer(path) as write:
        write(frame)


@contextmanager
def table_writer(
    path: Path | str, metadata: Mapping[str, str] | None = None
) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield a function that appends frames to one file, which appears when the block succeeds.

    `metadata` becomes the key-value metadata of a Parquet file; a CSV file gets it as JSON in a file beside it, whose
    name ends in `-metadata.json` as in CSV on the Web.

    >>> from tempfile import TemporaryDirectory
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
    with replacing(path) as temporary, writer(temporary, metadata or {}) as write:
        naive, aware = cs.datetime(time_zone=None), cs.datetime(time_zone="*")
        in_utc = naive.dt.replace_time_zone("UTC"), aware.dt.convert_time_zone("UTC")
        yield lambda frame: write(frame.with_columns(*in_utc))
    if metadata and writer is _csv_writer:
        with replacing(Path(f"{path}-metadata.json")) as temporary:
            plain = {key: json.loads(text) for key, text in metadata.items()}
            temporary.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def _csv_writer(path: Path, _: Mapping[str, str]) -> Iterator[Callable[[pl.DataFrame], None]]:
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
def _parquet_writer(path: Path, metadata: Mapping[str, str]) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Yield a function that appends a frame; frames are written to a temporary folder and joined at the end."""
    parts: list[Path] = []

    def write(frame: pl.DataFrame) -> None:
        parts.append(folder / f"{len(parts)}.parquet")
        frame.write_parquet(parts[-1], metadata=dict(metadata))

    folder = path.with_name(f"{path.name}.parts")
    with ExitStack() as stack:
        for _ in range(2):  # a Ctrl-C may come in the middle of the first
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir()
        yield write
        if len(parts) == 1:
            parts[0].replace(path)
            return
        (pl.scan_parquet(parts, glob=False) if parts else pl.LazyFrame()).sink_parquet(path, metadata=dict(metadata))
