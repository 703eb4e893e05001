"""The `scare` command: its sub-commands, what each kind of failure prints and returns, and Ctrl-C.

Ctrl-C waits for the end of imports and of calls to Polars, whose Rust half panics when Python is interrupted. It is
raised again if it was lost where Python ignores exceptions: in finalisers and in callbacks of the garbage collector.
"""

import dataclasses
import errno
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FrameType

import polars
import typer
from typer.exceptions import TyperException
from typer.main import get_command

from scare import __version__
from scare.cli import (
    align,
    board,
    compare,
    exit_interrupted,
    export,
    federate,
    fetch,
    inspect,
    live,
    network,
    open,
    predict,
    progress,
    reproduce,
    score,
    simulate,
    stream,
    suite,
    train,
    tune,
    update,
    verify,
    watch,
)
from scare.cli.console import STDERR, STDOUT, note, show_warnings
from scare.errors import ExitCode, ScareError
from scare.limits import raised

SCARE_FILES = str(Path(__file__).parents[1])
# Files whose calls return first; an interrupt within dataclasses may become another error (`__set_name__`).
UNINTERRUPTIBLE = (str(Path(polars.__path__[0])), "<frozen importlib._bootstrap", str(dataclasses.__file__))
# Errors of the system that no code of ours can cause: a name too long, nothing to be written there, a full disk.
NO_BUGS = {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}
RETRY_SECONDS = 0.01  # until a Ctrl-C that came during an uninterruptible call is tried again
OVERVIEW = """\
From a co-location CSV to calibrated readings on a board. The usual steps:

  scare inspect box.csv --out box.toml      guess the columns, write a config
  scare train box.csv --config box.toml     write model.scare, score later rows
  scare predict model.scare raw.csv         add calibrated values and flags
  scare export c model.scare --out model_c  write C for a board
  scare verify model.scare                  prove that the C computes the same
  scare score model.scare --data later.csv  grade it; scare report makes a page

Run scare open to do this in a browser, scare demo to try it without data.
Run scare --help for all commands, scare train --help for one of them."""


build_command = cache(get_command)  # once for a process that runs several lines

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
    progress.progress,
    simulate.simulate,
    train.train,
    compare.compare,
    reproduce.reproduce,
    tune.tune,
    predict.predict,
    stream.stream,
    inspect.info,
    update.update,
    verify.verify,
    score.score,
    score.report,
    watch.watch,
    simulate.demo,
):
    app.command()(command)
app.command(name="open")(open.open_page)
app.add_typer(board.app, name="board")
app.add_typer(fetch.data_app, name="data")
app.add_typer(export.app, name="export")
app.add_typer(federate.app, name="federate")
app.add_typer(fetch.app, name="fetch")
app.add_typer(live.app, name="live")
app.add_typer(network.app, name="network")
app.add_typer(suite.app, name="suite")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    limits: int = typer.Option(1, "--limits", help="Allow files this many times larger than usual."),
) -> None:
    """From a co-location CSV to calibrated sensor readings on a board, with proof."""
    context.with_resource(raised(limits))
    if version:
        STDOUT.print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        STDOUT.print(OVERVIEW, markup=False)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/exit-codes.md)."""
    show_warnings()
    try:
        code = build_command(app)(args=arguments, prog_name="scare", standalone_mode=False)
    except TyperException as error:
        return _fail(_usage_message(error), ExitCode.USAGE)
    except ScareError as error:
        return _fail(str(error), error.exit_code)
    except SystemExit:  # rich exits like this when stdout is closed, as by `| head`
        return ExitCode.OK
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_BUGS:
            return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), ExitCode.USAGE)
        _fail("This should not have happened. Please report it with the lines below.", ExitCode.UNEXPECTED)
        traceback.print_exc()
        return ExitCode.UNEXPECTED
    if code == ExitCode.INTERRUPTED:
        return _fail("interrupted", ExitCode.INTERRUPTED)
    return code if isinstance(code, int) else ExitCode.OK


def main() -> None:
    """Run the command that the console script was called with, and exit with its code."""
    try:
        enable_interrupts()
        try:
            code = run()
        finally:
            signal.signal(signal.SIGINT, exit_interrupted)
            disable_retries()
    except KeyboardInterrupt:  # before or after the command, or again while the first one was being handled
        exit_interrupted()
    sys.exit(code)


def enable_interrupts() -> None:
    """Make Ctrl-C wait until an uninterruptible call has returned; Windows, which has no timers, keeps Python's own."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGALRM, _interrupt)
        sys.unraisablehook = _retry_dropped_interrupt
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def disable_retries() -> None:
    """Cancel a Ctrl-C that was to be tried again: the command has ended."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise a KeyboardInterrupt, unless code called from ours is uninterruptible: then try again a little later."""
    while frame and not frame.f_code.co_filename.startswith(SCARE_FILES):
        if frame.f_code.co_filename.startswith(UNINTERRUPTIBLE):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _retry_dropped_interrupt(dropped: "sys.UnraisableHookArgs") -> None:
    """Re-raise a KeyboardInterrupt that a finaliser swallowed; show anything else as Python does."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
    else:
        sys.__unraisablehook__(dropped)


def _fail(message: str, code: ExitCode) -> ExitCode:
    """Print an error message, unless it is empty, and return `code`."""
    if message:
        STDERR.print("scare:", style="red", end=" ")
        note(message)
    return code


def _usage_message(error: TyperException) -> str:
    """Return what is wrong with a command line, and where its options are listed; empty if the help was shown."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if not message:
        return ""
    context = getattr(error, "ctx", None)
    has_settings = context and "settings" in {parameter.name for parameter in context.command.params}
    other = ", docs/config.md for other settings (--set KEY=VALUE)" if has_settings else ""
    end = "" if message[-1] == "?" else ";"
    return f"{message}{end} see {context.command_path if context else 'scare'} --help{other}"
