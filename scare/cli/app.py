"""The `scare` command: its sub-commands, and what each kind of failure prints and returns."""

import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import polars
import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from scare import __version__
from scare.calibrator.bundle import raised
from scare.cli import (
    align,
    board,
    compare,
    data,
    demo,
    export,
    fetch,
    info,
    inspect,
    leave,
    live,
    open,
    predict,
    report,
    reproduce,
    score,
    simulate,
    train,
    tune,
    update,
    verify,
    watch,
)
from scare.cli.config import MOVED, as_settings
from scare.cli.console import STDERR, STDOUT, note, show_warnings
from scare.errors import ExitCode, ScareError

# Ctrl-C that never arrives inside an import, or inside Polars, whose Rust half panics when Python is interrupted.
#
# Nor is it lost where Python drops what is raised: in finalisers, and in what the garbage collector calls.


OURS = str(Path(__file__).parents[1])
CLOSED = (str(Path(polars.__path__[0])), "<frozen importlib._bootstrap")  # files whose calls return first
AGAIN = 0.01  # seconds until a Ctrl-C that came at a bad moment is tried again


def interrupt_between_calls() -> None:
    """Make Ctrl-C wait until such a call has returned; where there is no timer it is as Python has it."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGALRM, _interrupt)
        sys.unraisablehook = _dropped
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_no_more() -> None:
    """What still waits to be tried again comes too late: the command has ended."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise now, or ring again soon."""
    if _within_closed(frame):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        raise KeyboardInterrupt


def _dropped(what: "sys.UnraisableHookArgs") -> None:
    """Ring again for a Ctrl-C that was dropped; anything else is told as Python tells it."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        sys.__unraisablehook__(what)


def _within_closed(frame: FrameType | None) -> bool:
    """Whether code of ours is waiting for an import or for Polars."""
    while frame and not frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_filename.startswith(CLOSED):
            return True
        frame = frame.f_back
    return False


USUAL = """\
From a co-location CSV to calibrated readings on a board. What people do:

  scare inspect box.csv --out box.toml      its columns, as a config file
  scare train box.csv --config box.toml     model.scare, scored on later rows
  scare predict model.scare raw.csv         calibrated values and flags
  scare export c model.scare --out model_c  C for a board; proof: scare verify
  scare score model.scare --data later.csv  grades; a page of it: scare report

In a browser instead: scare open. No data yet: scare demo.
All commands: scare --help. One: scare train --help."""


class Configured(TyperCommand):
    """A command that takes keys of its config file as options too, though its help lists only the usual ones."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write such options as settings first."""
        own = {name for param in self.params for name in param.opts}
        return super().parse_args(ctx, as_settings(args, own) if "--set" in own else args)


app = typer.Typer(
    name="scare",
    help="From a co-location CSV to calibrated sensor readings on a board, with proof.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (
    inspect.inspect,
    align.align,
    simulate.simulate,
    train.train,
    compare.compare,
    reproduce.reproduce,
    tune.tune,
    predict.predict,
    info.info,
    update.update,
    verify.verify,
    score.score,
    report.report,
    watch.watch,
    demo.demo,
):
    app.command(cls=Configured)(command)
app.command(name="open", cls=Configured)(open.open_page)
app.add_typer(board.app, name="board")
app.add_typer(data.app, name="data")
app.add_typer(export.app, name="export")
app.add_typer(fetch.app, name="fetch")
app.add_typer(live.app, name="live")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    limits: int = typer.Option(1, "--limits", help="Open model files so many times as large as is usually allowed."),
) -> None:
    """From a co-location CSV to calibrated sensor readings on a board, with proof."""
    context.with_resource(raised(limits))
    if version:
        STDOUT.print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        STDOUT.print(USUAL, markup=False)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/exit-codes.md)."""
    show_warnings()
    try:
        code = app(args=arguments, prog_name="scare", standalone_mode=False)
    except TyperException as error:
        return _fail(_usage(error), ExitCode.USAGE)
    except ScareError as error:
        return _fail(str(error), error.exit_code)
    except SystemExit:  # how rich leaves when nobody reads stdout any more
        return ExitCode.OK
    except Exception:
        _fail("This should not have happened. Please report it with the lines below.", ExitCode.UNEXPECTED)
        traceback.print_exc()
        return ExitCode.UNEXPECTED
    if code == ExitCode.INTERRUPTED:
        return _fail("interrupted", ExitCode.INTERRUPTED)
    return code if isinstance(code, int) else ExitCode.OK


def main() -> None:
    """The console script."""
    try:
        interrupt_between_calls()
        try:
            code = run()
        finally:
            signal.signal(signal.SIGINT, leave)
            interrupt_no_more()
    except KeyboardInterrupt:  # before or after the command, or again while the first one was being dealt with
        leave()
    sys.exit(code)


def _fail(sentence: str, code: ExitCode) -> ExitCode:
    """Say what went wrong, if it has not been said."""
    if sentence:
        STDERR.print("scare:", style="red", end=" ")
        note(sentence)
    return code


def _usage(error: TyperException) -> str:
    """What was wrong with a line, and where its options are listed; nothing if the help was shown instead."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if not message:
        return ""
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", "")
    takes_config = context and "config" in {one.name for one in context.command.params}
    moved = MOVED.get(option.removeprefix("--").replace("-", "_")) if takes_config else None
    if moved and message.startswith("No such option"):
        return f"{option} is now {moved} in a --config file (docs/config.md)"
    return f"{message}{'' if message[-1] == '?' else ';'} see {context.command_path if context else 'scare'} --help"
