"""What a command says: results on stdout (a table, or JSON for machines), everything else on stderr."""

import json
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

STDOUT = Console(highlight=False, soft_wrap=True)
STDERR = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """One line for the person watching, on stderr."""
    STDERR.print(text, markup=False)


def emit(result: dict[str, Any]) -> None:
    """The result as JSON on stdout; a number that JSON does not have becomes null."""
    json.dump(_jsonable(result), sys.stdout, indent=2, default=str, allow_nan=False)
    sys.stdout.write("\n")


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on stdout; the first column is text, the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    STDOUT.print(table)


@contextmanager
def progress(description: str, *fields: str) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar on stderr with text fields."""
    texts: dict[str, Any] = dict.fromkeys(fields, "")
    columns = [TextColumn(f"{{task.fields[{name}]}}") for name in fields]
    bar = Progress(TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn(), console=STDERR)
    with bar:
        yield bar, bar.add_task(description, total=None, **texts)


def show_warnings() -> None:
    """Let rooms speak through `logging`, on stderr."""
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=STDERR, show_path=False, show_time=False)],
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
