"""`scare reproduce`: make the paper's tables and figures from its data, your own or simulated data."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.cli import options
from scare.cli.config import parse_settings
from scare.cli.console import emit, note, progress, show_table
from scare.cli.train import require_training
from scare.errors import DataError, UsageError
from scare.executor import LOCAL
from scare.extras import require
from scare.words import duration


class Experiment(StrEnum):
    """The paper's tables and figures."""

    CHECKLIST = "checklist"
    MAIN = "main"
    ABLATION = "ablation"
    ADAPTABILITY = "adaptability"
    BOARD = "board"
    ALL = "all"


EVERY = tuple(experiment for experiment in Experiment if experiment is not Experiment.ALL)


def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="A table or figure of the paper, or all.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="SensEURCity's zip or folder, or a TOML that describes a data set."),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option("--files", help="Folder of a described data set's files.", show_default="the description's"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes, not hours: a smoke test, not accuracy.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder; run again to resume.", show_default="out/…")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", min=0, help="Parallel fits; 0 only makes tables of finished fits.")
    ] = 2,
    executor: options.ExecutorName = LOCAL,
    config: Annotated[Path | None, typer.Option("--config", help="TOML instead of configs/reproduce.toml.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Any key of that file: --set window=60.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's experiments and compare its numbers with ours.

    Without --data everything runs on simulated readings, and every output is marked so.

    Examples:
      scare reproduce all --quick
      scare reproduce main --data senseurcity_data_v02.zip
      scare reproduce all --data configs/jrc_ispra.toml --files jrc_ispra --set window=60
    """
    for option, path in (("--data", data), ("--files", files)):
        # The board experiment reads no data, but a wrong path is an error all the same.
        if path is not None and not path.exists():
            raise DataError(f"{option} {path}: there is no such file or folder")
    require_training()
    require("board")
    try:
        import benchmarks.reproduce  # noqa: F401
    except ModuleNotFoundError:
        message = "scare reproduce is not part of the installed package: run it in a clone of the repository"
        raise UsageError(message) from None
    from benchmarks.reproduce.protocol import read_protocol
    from benchmarks.reproduce.run import Reproduction
    from benchmarks.reproduce.tasks import open_source, readings_kind

    protocol = read_protocol(config, readings_kind(data), quick, parse_settings(settings or (), "window=60"))
    name = f"reproduce{'' if data else '-simulated'}{'-quick' if quick else ''}"
    reproduction = Reproduction(out or Path("out") / name, protocol, open_source(protocol, data, files))
    for line in reproduction.notes:
        note(line)
    experiments = EVERY if experiment is Experiment.ALL else (experiment,)
    _fit(reproduction, experiments, jobs, executor)
    written = [str(path) for chosen in experiments for path in _make(reproduction, chosen, as_json)]
    if as_json:
        emit({"notes": reproduction.notes, "folder": str(reproduction.folder), "files": written})
    note(f"Wrote tables, figures and rows to {reproduction.folder}.")


def _fit(reproduction: Any, experiments: tuple[Experiment, ...], jobs: int, executor: str) -> None:
    """Print how many fits these experiments need and how long they take, then run them."""
    from benchmarks.reproduce.run import expected_minutes, fit_all, methods_to_fit, missing_fits
    from scare.experiments.study import open_workers

    methods = methods_to_fit(reproduction.protocol, experiments)
    if not methods:
        return
    count = len(list(missing_fits(reproduction, methods)))
    reproduction.write_protocol()
    together = max(jobs, 1)  # without jobs nothing runs, but the estimate is still printed
    minutes = expected_minutes(reproduction, methods) / together
    rounded = duration(60 * round(minutes) if minutes < 90 else 3600 * round(minutes / 60))
    expected = f"about {rounded}" if minutes >= 1 else "less than a minute"
    note(f"{count} fits to run, {together} at a time. Expected: {expected}, then the measurements.")
    if not jobs:
        return
    with progress("fitting", "job") as (bar, task), open_workers(executor, jobs, reproduction.folder) as workers:
        fit_all(reproduction, methods, workers, _advance(bar, task))


def _make(reproduction: Any, experiment: Experiment, quiet: bool) -> list[Path]:
    """Make one experiment's tables and figures from its fits, print the first table, and return the files written."""
    from benchmarks.reproduce.figures import draw_result, format_table, write_result
    from benchmarks.reproduce.tables import MAKERS

    protocol, folder = reproduction.protocol, reproduction.folder
    with progress(f"{experiment}", "job") as (bar, task):
        result = MAKERS[experiment](reproduction, _advance(bar, task))
    # A result that has readings or training of its own brings its own notes on them.
    notes = result.origin or reproduction.notes
    written = write_result(result, folder, reproduction.origin | {"notes": notes})
    written += draw_result(result, folder, notes, with_paper=not protocol.simulated)
    if not quiet:
        show_table(result.title, *format_table(result.tables[0]))
    return written


def _advance(bar: Any, task: Any) -> Callable[[int, int, str], None]:
    """Return a callback that shows on the bar, or in a log, how many jobs are done and the name of the newest."""

    def advance(done: int, total: int, what: str) -> None:
        bar.update(task, completed=done, total=total, job=what)
        if not bar.console.is_terminal:  # a log shows no bar
            note(f"{done}/{total} {what}")

    return advance
