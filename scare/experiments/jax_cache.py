"""What JAX compiles: kept for the next process that trains the same shapes, dropped where there is too much of it."""

import itertools
import os
import sys

from scare.board.build import cache_folder

COMPILED_FOR = 20  # jobs, before a process forgets what it has compiled for them


JOBS = itertools.count(1)  # of this process


def keep_compiled() -> None:
    """What JAX compiles, in this process if it is not loaded yet and in those started from here, is kept.

    The next training of the same shapes reads it: seconds in place of half a minute, and the same numbers.
    """
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def forget_compiled() -> None:
    """After every twentieth job drop what JAX has compiled in this process: after some hundred no more fits."""
    if next(JOBS) % COMPILED_FOR == 0 and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
