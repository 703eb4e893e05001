"""Cells of a text table: what one holds (a number, a time, text or nothing), and how columns of text become numbers.

This is the only place that knows how loggers write a number, a unit or a missing value; `table_layout` decides which
decimal sign a file has. Called by `table_layout`, `tables` and whatever reads columns.
"""

import re
from functools import lru_cache
from typing import Literal

import polars as pl

from scare.data.time_text import is_clock, shape_of
from scare.data.vocabulary import VOCABULARY

Kind = Literal["number", "time", "text", "nothing"]
TRIED = 10_000  # distinct texts of a column: if none of them is a number, the column is taken to hold none
MISSING = tuple(VOCABULARY["missing"])  # cells that mean "no reading"
# Besides MISSING, what a column of numbers has instead of a value: "<LOD" (below the limit of detection), "error".
NO_VALUE = re.compile(
    r"[<>≤≥] ?(?:[\d.,]+.*|(?:[lmi]?d[l]?|lo[dq]|bdl)\b.*)|bdl|err(?:or)?\b.*|fail.*|invalid|over(?:flow|range)", re.I
)
NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
# With thousands marks, such as 1,234.5.
GROUPED = re.compile(r"[+-]?\d{1,3}(?:[,.'’ \u00a0\u202f]\d{3})+(?:[.,]\d+)?")
# A number, perhaps after "T=", and a unit, such as "28.2 C".
WITH_UNIT = re.compile(r"(?:[A-Za-z][\w.]*=)?([+-]?(?:\d[\d.,]*|[.,]\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d].*)?")
# Translates the letters of units to ASCII, and removes ^, blanks and _.
SPELLINGS = str.maketrans(
    {"µ": "u", "μ": "u", "³": "3", "²": "2", "⁻": "-", "¹": "1", "*": "°", "º": "°", "˚": "°"} | dict.fromkeys("^ _")
)
UNITS = frozenset(VOCABULARY["units"])
# Formats in a line above or below a header: dd-MM-yyyy, hh:mm:ss, the widths 5s and 14n of an RDB file.
FORMATS = re.compile(r"[dmyhsap:./\-, ]*(?:y{2,4}|d{1,2}|h{1,2})[dmyhsap:./\-, ]*|\d{1,2}[sdn]", re.IGNORECASE)


@lru_cache(maxsize=1 << 15)
def kind(cell: str) -> Kind:
    """Return what a cell holds; a number may have a unit after it.

    >>> [kind(cell) for cell in ("+00011.5", "28.2 C", "1,5", "<LOD", "n/a", "7/8/25 01:06:00 PM", "Sample")]
    ['number', 'number', 'number', 'nothing', 'nothing', 'time', 'text']
    """
    cell = cell.strip(" \t'\"")
    if cell in MISSING:
        return "nothing"
    if NUMBER.fullmatch(cell) or GROUPED.fullmatch(cell):
        return "number"
    if is_clock(cell) or shape_of(cell):
        return "time"
    if NO_VALUE.fullmatch(cell):
        return "nothing"
    return "number" if cell_unit(cell) else "text"


def spell(unit: str) -> str:
    """Return a unit in lower case and ASCII, without spaces and the brackets around it."""
    unit = unit.strip()
    bare = unit[1:-1] if unit[:1] + unit[-1:] in ("()", "[]") else unit
    return bare.lower().translate(SPELLINGS)


def is_unit(text: str) -> bool:
    """Whether a text is the name of a unit.

    >>> is_unit("µg/m³"), is_unit("Deg C"), is_unit("PM2.5")
    (True, True, False)
    """
    return spell(text) in UNITS


def cell_unit(cell: str) -> str:
    """Return the unit after the number in a cell, "" if there is none.

    >>> cell_unit("28.2 C"), cell_unit("T=17C"), cell_unit("12")
    ('C', 'C', '')
    """
    match = WITH_UNIT.fullmatch(cell.strip())
    return match[2] if match and match[2] and is_unit(match[2]) else ""


def plain_numbers(column: pl.Series, decimal: str = ".") -> pl.Series | None:
    """Convert text to Float64 if every cell is a number without thousands marks or a unit, otherwise return None."""
    numbers = _cast(column, decimal)
    return numbers if numbers.null_count() == column.null_count() and numbers.is_finite().all() else None


def _cast(column: pl.Series, decimal: str) -> pl.Series:
    """Convert text to Float64, with null where a text is more or less than a plain number."""
    if decimal != ".":  # a point in "1.5" is then a thousands mark: it becomes _, which is not read as a number
        column = column.str.replace_many([".", ","], ["_", "."])
    return column.cast(pl.Float64, strict=False)


def to_numbers(column: pl.Series, decimal: str = ".") -> pl.Series:
    """Convert to Float64, with null for what is no finite number; thousands marks and units after a number are read.

    >>> to_numbers(pl.Series(["1,234.5", "28.2 C", "<0.5", "7"])).to_list()
    [1234.5, 28.2, None, 7.0]
    >>> to_numbers(pl.Series(["1.234,5", ",86"]), ",").to_list()
    [1234.5, 0.86]
    """
    if column.dtype != pl.String:
        numbers = column.cast(pl.Float64, strict=False)
    else:
        numbers = _cast(column, decimal)
        unread = column.filter(numbers.is_null() & column.is_not_null()).unique()
        if any(_parse_number(text, decimal) is not None for text in unread.head(TRIED)):
            parsed = {text: number for text in unread if (number := _parse_number(text, decimal)) is not None}
            parsed_column = column.replace_strict(parsed, default=None, return_dtype=pl.Float64)
            numbers = pl.select(pl.coalesce(numbers, parsed_column)).to_series()
    return pl.select(pl.when(numbers.is_finite()).then(numbers).alias(column.name)).to_series()


def _parse_number(text: str, decimal: str) -> float | None:
    """Parse a number with a unit after it, thousands marks or quotation marks; None if the text is none."""
    text = text.strip(" \t'\"")
    if (match := WITH_UNIT.fullmatch(text)) and (not match[2] or is_unit(match[2])):
        digits = match[1]
    elif GROUPED.fullmatch(text):
        digits = text
    else:
        return None
    thousands = "," if decimal == "." else "."
    in_groups = rf"[+-]?\d{{1,3}}(?:\{thousands}\d{{3}})+(?:\{decimal}\d*)?"  # groups of three digits
    if thousands in digits and not re.fullmatch(in_groups, digits):
        return None
    digits = re.sub(r"['’\s]", "", digits.replace(thousands, "")).replace(decimal, ".")  # 1’000 and 1 000
    try:
        return float(digits)
    except ValueError:
        return None
