"""What a command prints: results on stdout (a table, or JSON for programs), everything else on stderr."""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from time import monotonic
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from scare.schema import nan_to_none

COUNT_SECONDS = 0.2  # minimum time between two JSON lines of a task that only advances
STDOUT = Console(highlight=False, soft_wrap=True, emoji=False)
STDERR = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
LATEX = str.maketrans(  # characters that LaTeX would take for commands, or may not have
    {sign: f"\\{sign}" for sign in "%_&#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"★": r"$\star$", "±": r"$\pm$", "−": "$-$", "²": "$^2$", "µ": r"\textmu{}", "÷": r"$\div$"}
)


def note(text: str) -> None:
    """Print a message on stderr."""
    STDERR.print(text, markup=False)


def emit(result: dict[str, Any]) -> None:
    """Print the result as JSON on stdout; NaN and infinities become null."""
    STDOUT.print(json.dumps(nan_to_none(result), indent=2, default=str, allow_nan=False), markup=False)


class TableForm(StrEnum):
    """How a table is printed: for a terminal, or as the source of a document."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], form: TableForm = TableForm.TEXT
) -> None:
    """Print a table on stdout; the first column is text, the others numbers."""
    if form is not TableForm.TEXT:
        source = markdown_table if form is TableForm.MARKDOWN else latex_table
        STDOUT.print(source(title, columns, rows), markup=False)
        return
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    STDOUT.print(title, style="bold", markup=False)
    STDOUT.print(table)


def markdown_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return the source of a table in Markdown, with its title above.

    >>> print(markdown_table("two methods", ["", "RMSE"], [["a|b", "1.5"]]))
    two methods
    <BLANKLINE>
    |  | RMSE |
    |---|---:|
    | a\|b | 1.5 |
    <BLANKLINE>
    """
    rule = "|".join(["---", *["---:"] * (len(columns) - 1)])
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (columns, *rows)]
    return "\n".join([title, "", head, f"|{rule}|", *body, ""])


def latex_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return the source of a table in LaTeX, for the package booktabs, with its title as a comment.

    >>> print(latex_table("two methods", ["", "top-5 %"], [["a_b", "1.5 ±0.1"]]))
    % two methods
    \begin{tabular}{lr}
    \toprule
     & top-5 \% \\
    \midrule
    a\_b & 1.5 $\pm$0.1 \\
    \bottomrule
    \end{tabular}
    <BLANKLINE>
    """
    head, *body = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in (columns, *rows)]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}"
    return "\n".join([f"% {title}", begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


class JsonProgress(Progress):
    """Progress for a program that reads stderr: a line of JSON for every update, but not for every advance."""

    printed = 0.0  # when an advance was last printed, by `monotonic`

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task and print it."""
        super().update(task_id, **changes)
        self._print(self.tasks[task_id])

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Advance a task and print it, at most every `COUNT_SECONDS`."""
        super().advance(task_id, advance)
        if monotonic() > self.printed + COUNT_SECONDS:
            self.printed = monotonic()
            self._print(self.tasks[task_id])

    def _print(self, task: Task) -> None:
        facts = {"progress": task.description, "completed": task.completed, "total": task.total, **task.fields}
        note(json.dumps(nan_to_none(facts)))


@contextmanager
def progress(description: str, *fields: str) -> Iterator[tuple[Progress, TaskID]]:
    """Show a progress bar with text fields while the block runs; it disappears if the block fails.

    Yields the bar and its task, which the block updates. Without a terminal nothing is shown. With SCARE_PROGRESS=json
    in the environment, lines of JSON on stderr take the place of the bar.
    """
    texts: dict[str, Any] = dict.fromkeys(fields, "")
    columns = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in fields]
    kind = JsonProgress if is_json_progress() else Progress
    bar = kind(TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn(), console=STDERR)
    task = bar.add_task(description, total=None, **texts)
    if not STDERR.is_terminal or is_json_progress():
        yield bar, task
        return
    with bar:
        try:
            yield bar, task
        except BaseException:
            bar.live.transient = True
            raise


def is_json_progress() -> bool:
    """Whether a program, not a person, reads the progress."""
    return os.environ.get("SCARE_PROGRESS") == "json"


def show_warnings() -> None:
    """Print warnings of all packages (`logging`) on stderr.

    A warning about the data is printed once, although a file may be read more than once and warn each time.
    """
    shown: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        if not record.name.startswith("scare.data."):
            return True
        known = len(shown)
        shown.add(record.getMessage())
        return len(shown) > known

    handler = RichHandler(console=STDERR, show_path=False, show_time=False)
    handler.addFilter(is_new)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
