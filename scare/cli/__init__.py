"""The commands of `scare`, one or two to a file: thin layers over the packages that do the work."""

import atexit
import os
import signal
from typing import NoReturn

from scare.errors import ExitCode


def main() -> None:
    """Run the console script; Ctrl-C ends it with one line and exit code 130, even while it imports or exits."""
    signal.signal(signal.SIGINT, exit_interrupted)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # registered first, so it runs as Python shuts down
    from scare.cli.app import main as run

    run()


def exit_interrupted(*_: object) -> NoReturn:
    """Exit at once: before a command begins and after it has ended there is nothing to clean up."""
    os.write(2, b"scare: interrupted\n")
    os._exit(ExitCode.INTERRUPTED)
