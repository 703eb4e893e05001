"""`scare suite`: run methods on open data sets, check a leaderboard from the files, make its page."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note, progress, show_table
from scare.cli.options import Json, split_names
from scare.cli.train import require_training
from scare.errors import ExitCode
from scare.experiments.leaderboard import SIMPLE, find_problems, make_leaderboard, write_leaderboard
from scare.experiments.suite_tasks import SUITE, Track, download_sets, read_suite
from scare.extras import require
from scare.report.leaderboard_page import make_tables, write_page

app = typer.Typer(help="Compare methods on open data sets: a public leaderboard.", no_args_is_help=True)
SuiteFiles = Annotated[
    list[Path],
    typer.Option("--suite", help="TOML of sets and tasks; more than one can be given.", show_default="built in"),
]
Files = Annotated[Path, typer.Option("--files", help="Folder of the sets' files.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the results; run again to resume.")]
Folder = Annotated[Path, typer.Argument(help="Folder of the results of scare suite run.")]


@app.command("run")
def run_suite(
    out: Out,
    methods: Annotated[str, typer.Option("--methods", help="Names, or tables of predictions: scare,ridge,mine.csv.")],
    files: Files = Path("."),
    suite: SuiteFiles = [SUITE],  # noqa: B006
    tasks: Annotated[str, typer.Option("--tasks", help="Only tasks with one of these words: NO2,PurpleAir.")] = "",
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Download files that are missing, where a set allows it.")
    ] = False,
    board: Annotated[str, typer.Option("--board", help="Count instructions on this virtual board: nano33ble.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Fits to run in parallel.")] = 1,
    as_json: Json = False,
) -> None:
    """Run methods on all tasks and write a leaderboard; the six simple baselines always run too.

    A method is a name that scare compare knows, an entry point of an installed package (group scare.methods), or a CSV
    of predictions with the columns task, device, time, value and perhaps low and high.

    Examples:
      scare suite run --methods scare,ridge --files data --out suite
      scare suite run --methods lightgbm.csv --files data --out suite
    """
    require_training()
    if board:
        require("board")
    from scare.experiments.study import choose
    from scare.experiments.suite_run import collect_predictions, import_predictions, prepare_tasks, run_tasks

    sets_and_tasks, names = read_suite(suite), split_names(methods)
    tables = [name for name in names if name.endswith((".csv", ".csv.gz", ".parquet"))]
    methods_to_fit = choose([*SIMPLE, *(name for name in names if name not in tables)])
    if fetch:
        with progress("downloading", "file") as (bar, task):

            def report(done: int, total: int, name: str) -> None:
                bar.update(task, completed=done, total=total, file=name)

            download_sets(sets_and_tasks, files, report)
    chosen_tasks = sets_and_tasks.choose(tasks)
    studies = prepare_tasks(sets_and_tasks, chosen_tasks, files, out, methods_to_fit, note)
    for table in tables:
        import_predictions(Path(table), sets_and_tasks, out, note)
    with progress("running", "job") as (bar, task):
        run_tasks(studies, jobs, out, lambda done, total, job: bar.update(task, completed=done, total=total, job=job))
    for name in methods_to_fit:
        collect_predictions(name, out, board, note)
    _publish(out, as_json)


@app.command("table")
def make_table(
    folder: Folder,
    out: Annotated[Path | None, typer.Option("--out", help="Page to write as well: .md or .html.")] = None,
    as_json: Json = False,
) -> None:
    """Score all tables in FOLDER/predictions again, and write the leaderboard as JSON, Markdown and HTML.

    Examples:
      scare suite table suite
      scare suite table suite --out leaderboard.html
    """
    _publish(folder, as_json, out)


@app.command()
def verify(folder: Folder, files: Files = Path("."), suite: SuiteFiles = [SUITE], as_json: Json = False) -> None:  # noqa: B006
    """Check a leaderboard: files, rows and predictions by sha256, and every score computed again.

    It shows that the numbers are of these predictions on these files, not how the predictions were made.
    Exit code 5: something differs.

    Examples:
      scare suite verify suite --files data
    """
    problems = list(find_problems(folder, read_suite(suite), files))
    if as_json:
        emit({"folder": str(folder), "problems": problems})
    for problem in problems:
        note(problem)
    if problems:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    note(f"All files, rows, predictions and scores of {folder} are as published.")


def _publish(folder: Path, as_json: bool, out: Path | None = None) -> None:
    """Score what a folder holds, write the leaderboard and its pages there (and to `out`), and print it."""
    board = make_leaderboard(folder)
    write_leaderboard(folder, board)
    for path in (folder / "leaderboard.md", folder / "leaderboard.html", *([out] if out else [])):
        write_page(board, path)
    if as_json:
        emit(asdict(board))
    else:
        methods = make_tables(board)[0]
        shown = [index for index, name in enumerate(methods.head) if name not in {*Track}]  # tracks are on the pages
        rows = ([str(row[index]) for index in shown] for row in methods.rows)
        show_table(methods.caption, [methods.head[index] for index in shown], rows)
    note(f"Wrote leaderboard.json, leaderboard.md and leaderboard.html to {folder}.")
