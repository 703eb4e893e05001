"""A silenced stderr, for packages that write to the terminal from C++, past Python."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Nothing written to stderr in here is seen; what goes wrong is an exception all the same."""
    if sys.stderr is None:  # closed by the caller: nobody sees anything
        yield
        return
    sys.stderr.flush()
    before = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
        os.close(nothing)
