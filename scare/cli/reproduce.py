"""`scare reproduce`: the paper's tables and figures, on its data or on a simulated stand-in."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.cli import options
from scare.cli.console import emit, progress, say, show_table
from scare.cli.training import training_room
from scare.errors import DataError
from scare.extras import require
from scare.report.numbers import several


class Experiment(StrEnum):
    """The paper's tables and figures."""

    CHECKLIST = "checklist"
    MAIN = "main"
    ABLATION = "ablation"
    ADAPTABILITY = "adaptability"
    BOARD = "board"
    ALL = "all"


EVERY = tuple(one for one in Experiment if one is not Experiment.ALL)


def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="A table or figure of the paper, or all.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="SensEURCity: its zip or folder. Without it, simulated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes, not hours: shows that it works, no accuracy.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder; run again to resume.", show_default="out/…")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Fits at the same time.")] = 2,
    config: Annotated[Path | None, typer.Option("--config", help="TOML instead of configs/reproduce.toml.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run the paper's experiments and put its numbers beside ours.

    Without --data everything runs on simulated readings, and every output says so.

    Examples:
      scare reproduce all --quick
      scare reproduce main --data senseurcity_data_v02.zip
    """
    if data is not None and not data.exists():  # the board reads none, but its page would name it
        raise DataError(f"--data {data}: there is no such file or folder")
    training_room()
    require("board")
    from scare.experiments.reproduction.protocol import read_protocol
    from scare.experiments.reproduction.reproduction import Reproduction

    protocol = read_protocol(config, data is None, quick)
    name = f"reproduce{'' if data else '-simulated'}{'-quick' if quick else ''}"
    reproduction = Reproduction(out or Path("out") / name, protocol, data)
    for note in protocol.notes:
        say(note)
    chosen = EVERY if experiment is Experiment.ALL else (experiment,)
    _fit(reproduction, chosen, jobs)
    written = [str(path) for one in chosen for path in _make(reproduction, one, as_json)]
    if as_json:
        emit({"notes": protocol.notes, "folder": str(reproduction.folder), "files": written})
    say(f"tables, figures and rows are in {reproduction.folder}")


def _fit(reproduction: Any, experiments: tuple[Experiment, ...], jobs: int) -> None:
    """Make the fits that these experiments need, saying first how many and how long."""
    from scare.experiments.reproduction.reproduction import wanted

    contenders = wanted(reproduction.protocol, experiments)
    if not contenders:
        return
    count = reproduction.open(contenders)
    reproduction.write_protocol()
    minutes = reproduction.expected_seconds(contenders) / 60
    say(f"{count} fits to make; expected: {_duration(minutes)} on two cores, and then the measurements")
    with progress("fitting", "job") as (bar, task):
        reproduction.fit(contenders, jobs, _advance(bar, task))


def _make(reproduction: Any, experiment: Experiment, quiet: bool) -> list[Path]:
    """Run one experiment, write its pages and figure, show its first table."""
    from scare.experiments.reproduction.catalogue import MAKERS
    from scare.experiments.reproduction.reproduction import versions
    from scare.report.reproduction import shown, write_result
    from scare.report.reproduction_figures import draw_result

    protocol, folder = reproduction.protocol, reproduction.folder
    with progress(f"{experiment}", "job") as (bar, task):
        result = MAKERS[experiment](reproduction, _advance(bar, task))
    origin = {"notes": protocol.notes, "protocol": protocol.as_dict(), "versions": versions()}
    written = write_result(result, folder, origin)
    written += draw_result(result, folder, protocol.notes, with_paper=not protocol.simulated)
    if not quiet:
        show_table(result.title, *shown(result.tables[0]))
    return written


def _advance(bar: Any, task: Any) -> Callable[[int, int, str], None]:
    def advance(done: int, total: int, what: str) -> None:
        bar.update(task, completed=done, total=total, job=what)
        if not bar.console.is_terminal:  # a log shows no bar
            say(f"{done}/{total} {what}")

    return advance


def _duration(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    return f"about {several(round(minutes), 'minute') if minutes < 90 else several(round(minutes / 60), 'hour')}"
