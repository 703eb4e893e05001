"""Numbers and tables as HTML; every text that comes from data passes through `escape`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10
from typing import Any

from scare.data.quantities import display_unit

NOTHING = "–"


def number(value: Any) -> str:
    """A number with three digits that count, or whole with separators from 1,000; a dash for none.

    >>> number(0.012345), number(0.0000643), number(12345.6), number(2), number(None), number(float("nan"))
    ('0.0123', '0.0000643', '12,346', '2', '–', '–')
    """
    if value is None or isinstance(value, bool) or not isfinite(value):
        return NOTHING
    if abs(value) >= 1000 or value == int(value):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{2 - floor(log10(abs(value)))}f}" if 1e-6 < abs(value) < 1e-3 else f"{value:.3g}"
    return text.replace("-", "−")


def readable(value: float, of: str) -> tuple[float, str]:
    """A number and its unit; a time below a millisecond in microseconds.

    >>> readable(0.25, "ms"), readable(0.25, "B"), readable(0.0, "ms")
    ((250.0, 'µs'), (0.25, 'B'), (0.0, 'µs'))
    """
    return (1e3 * value, "µs") if of == "ms" and abs(value) < 1 else (value, of)


def quantity(value: Any, of: str) -> str:
    """A number with its unit.

    >>> quantity(3.14159, "ug/m3"), quantity(5, ""), quantity(0.0001569, "ms")
    ('3.14 µg/m³', '5', '0.157 µs')
    """
    if value is not None:
        value, of = readable(value, of)
    return f"{number(value)} {display_unit(of)}".strip()


def several(count: int, what: str) -> str:
    """A count of things.

    >>> several(1, "row"), several(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def percent(share: float, digits: int = 0) -> str:
    """A share of one.

    >>> percent(0.123), percent(0.123, 1)
    ('12 %', '12.3 %')
    """
    return f"{100 * share:.{digits}f} %"


@dataclass(frozen=True)
class Html:
    """Text that is HTML already and must not be escaped again."""

    text: str


Cell = str | Html


def html(cell: Cell) -> str:
    """A cell as HTML."""
    return cell.text if isinstance(cell, Html) else escape(cell)


def note(text: str) -> str:
    """A paragraph in a quieter voice."""
    return f'<p class="note">{escape(text)}</p>'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], kind: str = "") -> str:
    """A table whose first column names its rows; a row of one cell heads those below it.

    Where the page is narrow its rows are stacked, each cell under the name of its column.
    """
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(_row(row, head) for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="{kind}">'
        f"<caption>{escape(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[Cell], head: Sequence[str]) -> str:
    first, *rest = row
    if not rest:
        return f'<tr class="group"><th scope="rowgroup" colspan="{len(head)}">{html(first)}</th></tr>'
    named = zip(head[1:], rest, strict=True)
    cells = "".join(f'<td data-label="{escape(name)}">{html(cell)}</td>' for name, cell in named)
    return f'<tr><th scope="row">{html(first)}</th>{cells}</tr>'


def facts(mapping: Mapping[str, Any]) -> str:
    """Nested facts as a list of names and values; what is None or empty is left out."""
    items = "".join(
        f"<div><dt>{escape(_label(name))}</dt><dd>{_fact(value)}</dd></div>"
        for name, value in mapping.items()
        if value not in (None, "", [], {}, ())
    )
    return f"<dl>{items}</dl>"


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        if value.keys() == {"name", "unit"}:
            return escape(f"{value['name']} [{display_unit(value['unit'])}]" if value["unit"] else value["name"])
        return facts(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list | tuple):
        parts = [_fact(one) for one in value]
        return ("" if any("<dl>" in part for part in parts) else ", ").join(parts)
    return escape(str(value))


def _label(name: str) -> str:
    return name.replace("_", " ")
