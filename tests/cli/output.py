"""What running one command line gives."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str


RunCli = Callable[[str], Output]
