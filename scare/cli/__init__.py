"""Thin commands over the rooms above, one file each."""

import atexit
import os
import signal
from typing import NoReturn

from scare.errors import ExitCode


def main() -> None:
    """The console script. From its first line to its last Ctrl-C ends it with one line and its exit code."""
    signal.signal(signal.SIGINT, leave)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the last to be done: then Python itself ends
    from scare.cli.app import main as run

    run()


def leave(*_: object) -> NoReturn:
    """End now: there is nothing to clean up before a command begins or after it has ended."""
    os.write(2, b"scare: interrupted\n")
    os._exit(ExitCode.INTERRUPTED)
