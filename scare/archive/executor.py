"""Where jobs run: in processes of this computer (loky, of joblib) or on a Dask cluster, behind one seam.

A job is a function of this package and plain values: names and content hashes, never objects. A process is a pool of
one: a job that kills its process takes no other with it. A job whose process or worker is lost is tried once more.
"""

import os
import re
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import sleep
from typing import Any, Protocol

from scare.errors import UsageError
from scare.files import HIDDEN, remove_left

LOCAL, DASK = "local", "dask"
THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("POLARS_MAX_THREADS", "PJRT_NPROC"),  # PJRT_NPROC: JAX
)
ONE_THREAD = dict.fromkeys(THREADS, "1")  # processes beside each other would take each other's cores
LOOKS_EVERY = 1.0  # seconds
Arguments = tuple[Any, ...]


class Executor(Protocol):
    """Takes up to `size` jobs at a time; `shared` where a worker may be another computer."""

    size: int
    shared: bool

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Begin a job."""

    def lost(self, future: "Future[Any]") -> str | None:
        """Why a job that has ended could not give its own result; None if it could."""

    def close(self) -> None:
        """End what still runs, and wait until it has."""


@dataclass(frozen=True)
class Ended:
    """A job that has ended: its arguments, and its result or why it has none."""

    arguments: Arguments
    result: Any
    lost: str | None


class Processes:
    """Processes of this computer, of one thread, deaf to Ctrl-C, each started when first needed; they end with us."""

    shared = False

    def __init__(self, size: int) -> None:
        self.size = size
        self._pools: list[tuple[Any, Future[Any]]] = []

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Begin a job in a process that is free, or in a new one."""
        free = next((one for one in self._pools if one[1].done()), None)
        if free:
            self._pools.remove(free)
        if free and isinstance(free[1].exception(), BrokenExecutor):
            free[0].shutdown(kill_workers=True)
            free = None
        pool = free[0] if free else self._pool()
        with _deaf_to_interrupts():
            future: Future[Any] = pool.submit(work, *arguments)
        self._pools.append((pool, future))
        return future

    def _pool(self) -> Any:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor  # only those who need it wait for it

        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # it had grown, another goes on
        return ProcessPoolExecutor(1, initializer=_begin, initargs=(os.getpid(),), env=ONE_THREAD)

    def lost(self, future: "Future[Any]") -> str | None:
        """Why a job that has ended took its process with it, if it did."""
        error = future.exception()
        if not isinstance(error, BrokenExecutor):
            return None
        code = re.search(r"\((-?\d+)\)", str(error))
        return f"its process ended without a result (exit code {code[1] if code else '?'}); out of memory?"

    def close(self) -> None:
        """Kill what still runs."""
        for pool, _ in self._pools:
            pool.shutdown(kill_workers=True)


class Here:
    """This process: a job is done when it is begun."""

    size, shared = 1, False

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Do a job; what stops it stops the caller."""
        future: Future[Any] = Future()
        future.set_result(work(*arguments))
        return future

    def lost(self, future: "Future[Any]") -> str | None:
        """Nobody is left to tell."""
        return None

    def close(self) -> None:
        """Nothing runs."""


@contextmanager
def open_executor(where: str, jobs: int, out: Path) -> Iterator[Executor]:
    """`local` processes, workers of Dask on this computer (`dask`) or those of a scheduler (`dask://HOST:PORT`).

    In the end nothing half written by one that was killed is left in `out`, the folder that jobs write into.
    """
    executor = _open(where, jobs)
    try:
        yield executor
    finally:
        executor.close()
        remove_left(out.rglob(HIDDEN))


def _open(where: str, jobs: int) -> Executor:
    if where == LOCAL:
        return Processes(jobs)
    if where == DASK or where.startswith(f"{DASK}://"):
        from scare.archive.cluster import Cluster

        return Cluster(where.removeprefix(DASK).removeprefix("://"), jobs)
    raise UsageError(f"no executor '{where}'; there are {LOCAL}, {DASK} and {DASK}://HOST:PORT")


def run_all(executor: Executor, work: Callable[..., Any], todo: Iterable[Arguments]) -> Iterator[Ended]:
    """Do this work with each of these arguments, begun in this order; each is told when it has ended."""
    waiting, running, again = iter(todo), dict[Future[Any], Arguments](), dict[int, Arguments]()
    while True:
        while len(running) < executor.size and (arguments := next(waiting, None)) is not None:
            running[executor.submit(work, *arguments)] = arguments
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            arguments = running.pop(future)
            reason = executor.lost(future)
            if reason and id(arguments) not in again:
                again[id(arguments)] = arguments
                running[executor.submit(work, *arguments)] = arguments
            else:
                yield Ended(arguments, None if reason else future.result(), reason)


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Leave when the process that started this one is gone, however it went."""
    while os.getppid() == parent:
        sleep(LOOKS_EVERY)
    os._exit(1)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A process started in here never hears Ctrl-C, not even while it imports."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
