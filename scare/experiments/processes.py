"""Work in processes of its own: deaf to Ctrl-C, told plain values, with a reason when one dies, none left behind."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import Any

from scare.board.toolchain import cache_folder


def keep_compiled() -> None:
    """What JAX compiles, in this process if it is not loaded yet and in those started from here, is kept.

    The next training of the same shapes reads it: seconds in place of half a minute, and the same numbers.
    """
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def forget_compiled() -> None:
    """Drop what JAX has compiled in this process, if it has been loaded: after some hundred trainings no more fits."""
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


def start(work: Callable[..., None], *arguments: Any) -> SpawnProcess:
    """A process that does this work."""
    process = get_context("spawn").Process(target=work, args=arguments, daemon=True)
    with _deaf_to_interrupts():
        process.start()
    return process


def death(process: SpawnProcess) -> str | None:
    """Why a process that has ended could not write its own result; None if it could."""
    code = process.exitcode
    return f"its process ended without a result (exit code {code}); out of memory?" if code else None


def end(processes: Iterable[SpawnProcess]) -> None:
    """Stop these, and wait until they have."""
    stopped = list(processes)
    for process in stopped:
        process.terminate()
    for process in stopped:
        process.join()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A process started in here never hears Ctrl-C, not even while it imports."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
