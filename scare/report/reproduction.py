"""The pages of a reproduction: every result as Markdown, CSV and JSON, each with what it was made from."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scare.experiments.reproduction.result_tables import PAPER, Result, Table
from scare.files import replacing
from scare.report.numbers import readable

IN_MS = " [ms]"  # ends the heading of a column of times


def write_result(result: Result, folder: Path, origin: Mapping[str, Any]) -> list[Path]:
    """Write NAME.md, NAME.json and a CSV for each table; `origin` has `notes`, which every page begins with."""
    written = [_write(folder / f"{result.name}.md", as_markdown(result, origin["notes"]))]
    tables = {table.name: [dict(row) for row in table.rows] for table in result.tables}
    facts = {"experiment": result.name, "title": result.title, **origin, "reading": result.notes}
    facts |= {"unfinished": dict(result.unfinished), "tables": tables}
    text = json.dumps(facts, indent=1, ensure_ascii=False, default=str)
    written.append(_write(folder / f"{result.name}.json", text + "\n"))
    return written + [_write_csv(folder / f"{table.name}.csv", table, origin["notes"]) for table in result.tables]


def as_markdown(result: Result, notes: Sequence[str]) -> str:
    """The result as a page."""
    lines = [f"# {result.title}", "", *(f"- **{note}**" for note in notes), *(f"- {note}" for note in result.notes)]
    lines += [f"- Not finished: {name}: {', '.join(tasks)}" for name, tasks in result.unfinished.items()]
    for table in result.tables:
        bracket = " (in brackets: the paper's)" if _has_paper(table) else ""
        head, cells = shown(table)
        lines += ["", f"## {table.title}{bracket}", ""]
        lines += [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)]
    return "\n".join(lines) + "\n"


def shown(table: Table) -> tuple[list[str], list[list[str]]]:
    """Headings and cells as a person reads them, times each with its unit, the paper's value in brackets."""
    headings = [heading.removesuffix(IN_MS) for heading in table.columns.values()]
    return headings, [[_cell(row, name, heading) for name, heading in table.columns.items()] for row in table.rows]


def _has_paper(table: Table) -> bool:
    return any(name.startswith(PAPER) for row in table.rows for name in row)


def _cell(row: Mapping[str, Any], name: str, heading: str) -> str:
    show = _time if heading.endswith(IN_MS) else _plain
    ours, theirs = show(row.get(name)), show(row.get(f"{PAPER}{name}"))
    return f"{ours or '–'} ({theirs})" if theirs else ours


def _time(milliseconds: float | None) -> str:
    """A time with the unit in which it is read best.

    >>> _time(0.0001569), _time(1.31), _time(None)
    ('0.1569 µs', '1.31 ms', '')
    """
    if milliseconds is None:
        return ""
    value, unit = readable(milliseconds, "ms")
    return f"{_plain(value)} {unit}"


def _plain(value: Any) -> str:
    """A value as a cell: four digits of a number that is not whole.

    >>> _plain(3.14159), _plain(152340), _plain(None), _plain(0.00001234), _plain(17616.0), _plain("a|b")
    ('3.142', '152,340', '', '1.234e-05', '17,616', 'a/b')
    """
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1e4 else f"{value:.4g}"
    return str(value).replace("|", "/").replace("\n", " ")


def _write_csv(path: Path, table: Table, notes: Sequence[str]) -> Path:
    """All values; the last column of every row says what they were made from."""
    rows = [{**row, "notes": " ".join(notes)} for row in table.rows]
    names = list(dict.fromkeys(name for row in rows for name in row if name != "notes"))
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, [*names, "notes"], restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
