"""The building blocks of pages, as plain records, and numbers formatted for people.

`templates/blocks.html.j2` renders the blocks. No text here is HTML: the templates (Jinja2) escape every value, and a
name that is not given is an error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import floor, isfinite, log10
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scare.data.quantities import display_unit

NOTHING = "–"  # instead of a number that is not known
MOST_ROWS = 100  # of a table on a page that has its tables as files beside it


@dataclass(frozen=True)
class Badge:
    """A word on a colour; `kind` is good, fair, bad or none."""

    kind: str
    words: str


@dataclass(frozen=True)
class Cell:
    """A table cell: text with a small remark, a badge next to it (or `below`), or a bar.

    `ours` gives it the colour by which our calibrator is told from other methods.
    """

    text: str
    remark: str = ""
    badge: Badge | None = None
    below: bool = False
    bar: float | None = None  # per cent
    ours: bool = False


@dataclass(frozen=True)
class ReportTable:
    """A table whose first column names its rows; a row of one cell is a heading for those below it.

    On a narrow page the rows are stacked, each cell under the name of its column.
    """

    template: ClassVar[str] = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    kind: str = ""


@dataclass(frozen=True)
class Note:
    """A paragraph in a muted colour."""

    template: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Banner:
    """A badge followed by a sentence."""

    template: ClassVar[str] = "banner"
    badge: Badge
    text: str


@dataclass(frozen=True)
class Facts:
    """Nested facts as a list of names and values, without those that are None or empty."""

    template: ClassVar[str] = "facts"
    heading: str
    facts: Mapping[str, Any]


Block = ReportTable | Note | Banner | Facts


def shorten(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield blocks with at most `MOST_ROWS` rows of each table, and a note where there are more."""
    for block in blocks:
        if not isinstance(block, ReportTable) or len(block.rows) <= MOST_ROWS:
            yield block
            continue
        yield replace(block, rows=block.rows[:MOST_ROWS])
        yield Note(f"The first {MOST_ROWS} of {len(block.rows):,} rows. The CSV file beside the page has all of them.")


def render(template: str, **values: Any) -> str:
    """Render a template of the folder `templates` with these values."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """Set up Jinja2: every value is escaped, and a missing one is an error."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": number, "unit": display_unit}
    environment.tests |= {"channel": _is_channel, "nested": _is_nested}
    return environment


def _is_channel(value: Any) -> bool:
    """Whether a fact is a channel, which is written in one line."""
    return isinstance(value, Mapping) and value.keys() == {"name", "unit"}


def _is_nested(value: Any) -> bool:
    """Whether a fact is a list of facts, or contains one."""
    if isinstance(value, list | tuple):
        return any(map(_is_nested, value))
    return isinstance(value, Mapping) and not _is_channel(value)


def number(value: Any) -> str:
    """Format a number with three significant digits, or whole with separators from 1,000 on; a dash if unknown.

    >>> number(0.012345), number(0.0000643), number(12345.6), number(2), number(None), number(float("nan"))
    ('0.0123', '0.0000643', '12,346', '2', '–', '–')
    """
    if value is None or isinstance(value, bool) or not isfinite(value):
        return NOTHING
    if abs(value) >= 1000 or value == int(value):
        text = f"{value:,.0f}"
    elif 1e-6 < abs(value) < 1e-3:  # %g would write some of these with an exponent
        text = f"{value:.{2 - floor(log10(abs(value)))}f}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−")


def plain(cell: str | Cell) -> str:
    """Write a cell without colours, for a terminal or a CSV file.

    >>> plain(Cell("0.9", badge=Badge("good", "within")))
    '0.9 within'
    """
    if isinstance(cell, str):
        return cell
    return " ".join(filter(None, [cell.text, cell.badge.words if cell.badge else "", cell.remark]))


def readable(value: float, unit: str) -> tuple[float, str]:
    """Convert a time below a millisecond to microseconds; other numbers stay as they are.

    >>> readable(0.25, "ms"), readable(0.25, "B"), readable(0.0, "ms")
    ((250.0, 'µs'), (0.25, 'B'), (0.0, 'µs'))
    """
    return (1e3 * value, "µs") if unit == "ms" and abs(value) < 1 else (value, unit)


def quantity(value: Any, unit: str) -> str:
    """Format a number with its unit, spelt for people.

    >>> quantity(3.14159, "ug/m3"), quantity(5, ""), quantity(0.0001569, "ms")
    ('3.14 µg/m³', '5', '0.157 µs')
    """
    if value is not None:
        value, unit = readable(value, unit)
    return f"{number(value)} {display_unit(unit)}".strip()


def percent(share: float, digits: int = 0) -> str:
    """Format a share as a percentage.

    >>> percent(0.123), percent(0.123, 1)
    ('12 %', '12.3 %')
    """
    return f"{100 * share:.{digits}f} %"
