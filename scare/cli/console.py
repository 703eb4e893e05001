"""What a command says: results on stdout (a table, or JSON for machines), everything else on stderr."""

import json
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

STDOUT = Console(highlight=False, soft_wrap=True, emoji=False)
STDERR = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def say(text: str) -> None:
    """One line for the person watching, on stderr."""
    STDERR.print(text, markup=False)


def emit(result: dict[str, Any]) -> None:
    """The result as JSON on stdout; a number that JSON does not have becomes null."""
    STDOUT.print(json.dumps(_jsonable(result), indent=2, default=str, allow_nan=False), markup=False)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on stdout; the first column is text, the others numbers."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    STDOUT.print(title, style="bold", markup=False)
    STDOUT.print(table)


@contextmanager
def progress(description: str, *fields: str) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar with text fields, on a terminal only; it goes away when what it shows fails."""
    texts: dict[str, Any] = dict.fromkeys(fields, "")
    columns = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in fields]
    bar = Progress(TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn(), console=STDERR)
    task = bar.add_task(description, total=None, **texts)
    if not STDERR.is_terminal:
        yield bar, task
        return
    with bar:
        try:
            yield bar, task
        except BaseException:
            bar.live.transient = True
            raise


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
