"""JAX's compilation cache: kept on disk between processes, and dropped from memory in long ones."""

import itertools
import os
import sys

from scare.board.build import cache_folder

JOBS_PER_CLEAR = 20  # finished jobs after which JAX's memory is cleared
JOBS = itertools.count(1)  # counts the jobs finished in this process


def keep_compiled() -> None:
    """Keep on disk what JAX compiles in this process, if JAX is not loaded yet, and in processes started from it.

    The next training of the same shapes starts in seconds instead of half a minute, with the same numbers.
    """
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def forget_compiled() -> None:
    """Count a finished job, and clear JAX's caches after every twentieth; a few hundred jobs would fill the memory."""
    if next(JOBS) % JOBS_PER_CLEAR == 0 and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
