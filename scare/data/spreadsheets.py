"""Spreadsheets (.xlsx, .xls, .ods) as rows of cells. Called by `tables` and `parquet_check`."""

import io
import re
from pathlib import Path
from zipfile import ZipFile

import polars as pl

from scare.data.packed_files import Source
from scare.errors import DataError, UsageError
from scare.limits import check_table
from scare.words import suggestion

NO_DAY = re.compile(r"^1899-12-3[01][ T](?=\d\d:\d\d)")  # a spreadsheet stores a clock as a time on its day 0


def read_sheets(source: Source, sheet: str) -> dict[str, list[list[str]]]:
    """Return the cells of each sheet as text, by the sheet's name; only those of `sheet` if it is not empty."""
    frames = load_sheets(source, sheet)
    return {
        name: [[NO_DAY.sub("", (cell or "").strip()) for cell in row] for row in frame.rows()]
        for name, frame in frames.items()
    }


def load_sheets(source: Source, sheet: str) -> dict[str, pl.DataFrame]:
    """Like `read_sheets`, as frames of text with null for an empty cell."""
    import fastexcel

    try:
        with source.open() as handle:
            content = handle.read()
        _check_unpacked(source.path, content)
        book = fastexcel.read_excel(content)
        if sheet and sheet not in book.sheet_names:
            raise UsageError(f"{source.path}: no sheet '{sheet}'{suggestion(sheet, book.sheet_names)}")
        return {
            name: book.load_sheet(name, header_row=None, dtypes="string").to_polars()
            for name in ([sheet] if sheet else book.sheet_names)
        }
    except fastexcel.FastExcelError as error:
        reason = " ".join(str(error).split())[:80]
        raise DataError(f"{source.path}: the spreadsheet cannot be read ({reason}); save it as CSV") from error


def _check_unpacked(path: Path, content: bytes) -> None:
    """Raise a DataError if a spreadsheet would unpack to too much, or declares less than it holds (`testzip`)."""
    if content[:2] == b"PK":
        with ZipFile(io.BytesIO(content)) as archive:
            check_table(path, document=sum(entry.file_size for entry in archive.infolist()))
            if bad := archive.testzip():
                raise DataError(f"{path}: the spreadsheet is damaged in '{bad[:60]}'; save it again, or as CSV")
