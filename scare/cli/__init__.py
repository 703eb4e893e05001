"""Thin commands over the rooms above, one file each."""

import os
import signal

from scare.errors import ExitCode


def main() -> None:
    """The console script. From its first line to its last Ctrl-C ends it with one line and its exit code."""
    signal.signal(signal.SIGINT, leave)
    from scare.cli.application import main as run

    run()


def leave(*_: object) -> None:
    """End now: there is nothing to clean up before a command begins or after it has ended."""
    os.write(2, b"scare: interrupted\n")
    os._exit(ExitCode.INTERRUPTED)
