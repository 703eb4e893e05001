"""The `scare` command: its sub-commands, and what each kind of failure prints and returns."""

import sys
import traceback
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from scare import __version__
from scare.cli import data, demo, info, inspect, predict, simulate, train
from scare.cli.console import STDERR, show_warnings
from scare.errors import ExitCode, ScareError

app = typer.Typer(
    name="scare",
    help="From a co-location CSV to calibrated sensor readings on a board, with proof.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (inspect.inspect, simulate.simulate, train.train, predict.predict, info.info, demo.demo):
    app.command()(command)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    """From a co-location CSV to calibrated sensor readings on a board, with proof."""
    if version:
        print(__version__)
        raise typer.Exit


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/exit-codes.md)."""
    show_warnings()
    try:
        code = app(args=arguments, standalone_mode=False)
    except TyperException as error:
        STDERR.print(f"[red]scare:[/] {_plain(error.format_message())}; 'scare --help' lists what there is")
        return ExitCode.USAGE
    except ScareError as error:
        STDERR.print(f"[red]scare:[/] {_plain(str(error))}")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        STDERR.print("[red]scare:[/] interrupted; nothing was written")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.OK
    except Exception:
        STDERR.print("[red]scare:[/] this should not have happened; please report it with the lines below")
        traceback.print_exc()
        return ExitCode.UNEXPECTED
    return code if isinstance(code, int) else ExitCode.OK


def main() -> None:
    """The console script."""
    sys.exit(run())


def _plain(text: str) -> str:
    """Text in which no bracket is taken for markup."""
    return text.strip().rstrip(".").replace("[", r"\[")
