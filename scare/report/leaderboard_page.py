"""The page of a leaderboard, as Markdown and as one offline HTML page: methods by track, then every task."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scare.experiments.leaderboard import Leaderboard, Score
from scare.experiments.suite_tasks import Track
from scare.files import replacing
from scare.report.blocks import NOTHING, ReportTable, percent, render
from scare.report.page import style
from scare.words import plural

ABOUT = (
    "A ratio is the RMSE of a method ÷ that of the best of six simple baselines on the same rows: below 1 it is better"
    " than all six. Means of ratios are geometric. Everything is fitted to training and validation, nothing to the"
    " test. Methods with scores on fewer tasks are further down."
)
COLUMNS = {
    "tasks": "number of tasks with a score",
    "ratio": "mean over these tasks",
    "worst": "the largest ratio of a task",
    **{str(track): "mean ratio over the tasks of this track" for track in Track},
    "coverage": "share of references inside the 90 % interval, mean over tasks",
    "width": "mean width of the interval ÷ RMSE of the best baseline, geometric mean over tasks",
    "bytes": "of the model's numbers, median over tasks",
    "instructions": "for one value on a Cortex-M4F, median over tasks",
}


def page_markdown(board: Leaderboard) -> str:
    """Return the page as Markdown."""
    lines = ["# Leaderboard", "", _lead(board), ""]
    for table in filter(lambda table: table.rows, make_tables(board)):
        rows = [table.head, ["---"] * len(table.head), *table.rows]
        lines += [f"## {table.caption}", "", *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]
    return "\n".join([*lines, "## Columns", "", *(f"- *{name}*: {about}" for name, about in COLUMNS.items()), ""])


def page_html(board: Leaderboard) -> str:
    """Return the page as HTML that needs no other file."""
    columns = list(COLUMNS.items())
    return render("leaderboard.html.j2", css=style(), lead=_lead(board), tables=make_tables(board), columns=columns)


def write_page(board: Leaderboard, path: Path) -> None:
    """Write the page as HTML if the path ends in .html, otherwise as Markdown."""
    text = page_html(board) if path.suffix.lower() == ".html" else page_markdown(board)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def make_tables(board: Leaderboard) -> list[ReportTable]:
    """Make the tables of the page: methods, tasks, and what has no score."""
    names = rank_methods(board)
    methods = [[name, *_cells(board, name)] for name in names]
    tasks, reasons = [], []
    for task in board.tasks:
        best = f"{task.scores[task.best].rmse:.4g}"
        ratios = [_ratio([score.ratio]) if (score := task.scores.get(name)) else NOTHING for name in names]
        tasks.append([task.facts.task, task.facts.track, f"{task.rows:,}", task.best, best, *ratios])
        reasons += [[task.facts.task, name, reason] for name, reason in task.failed.items()]
    return [
        ReportTable("Methods", ["method", *COLUMNS], methods),
        ReportTable("Tasks", ["task", "track", "rows", "best baseline", "its RMSE", *names], tasks),
        ReportTable("Without a score", ["task", "method", "reason"], reasons, "words"),
    ]


def rank_methods(board: Leaderboard) -> list[str]:
    """Return the methods with a score: first those with scores on most tasks, then by their mean ratio."""
    ratios = {name: [score.ratio for score in _scores(board, name)] for name in board.predictions}
    scored = [name for name in ratios if ratios[name]]
    return sorted(scored, key=lambda name: (-len(ratios[name]), _geometric_mean(ratios[name])))


def _cells(board: Leaderboard, name: str) -> list[str]:
    scores = _scores(board, name)
    ratios = [score.ratio for score in scores]
    coverage = [score.coverage for score in scores if score.coverage is not None]
    sizes = [score.bytes for score in scores if score.bytes is not None]
    instructions = [score.instructions for score in scores if score.instructions is not None]
    return [
        f"{len(scores)}",
        _ratio(ratios),
        _ratio([max(ratios)]),
        *(_ratio([score.ratio for score in _scores(board, name, track)]) for track in Track),
        percent(float(np.mean(coverage))) if coverage else NOTHING,
        _ratio([score.width for score in scores if score.width is not None]),
        *(f"{np.median(costs):,.0f}" if costs else NOTHING for costs in (sizes, instructions)),
    ]


def _scores(board: Leaderboard, name: str, track: Track | None = None) -> list[Score]:
    """Return a method's scores on the tasks of a track, or on all tasks."""
    of_track = [task for task in board.tasks if track in (None, task.facts.track)]
    return [score for task in of_track if (score := task.scores.get(name))]


def _ratio(ratios: Sequence[float]) -> str:
    """Return the geometric mean as a cell, with two decimals below 100."""
    if not ratios:
        return NOTHING
    mean = _geometric_mean(ratios)
    return f"{mean:.2f}" if mean < 100 else f"{mean:,.0f}"


def _geometric_mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def _lead(board: Leaderboard) -> str:
    """Return the first paragraph: how much was scored, and what a ratio is."""
    sets = {task.facts.set for task in board.tasks}
    rows = sum(task.rows for task in board.tasks)
    return f"{plural(len(board.tasks), 'task')} of {plural(len(sets), 'set')}, {rows:,} rows. {ABOUT}"
