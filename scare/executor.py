"""Where jobs run: in processes of this computer (loky, of joblib) or on a Dask cluster, behind one seam.

A job is a function of this package and plain values: names and content hashes, never objects. A process is a pool of
one: a job that kills its process takes no other with it. A job whose process or worker is lost is tried once more.
"""

import hashlib
import io
import os
import re
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Thread, current_thread, main_thread
from time import sleep
from typing import Any, Protocol

import scare
from scare.errors import UnreachableError, UsageError
from scare.extras import require
from scare.files import HIDDEN, remove_leftovers, replacing

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
class JobOutcome:
    """A job that has ended: its arguments, and its result or why it has none."""

    arguments: Arguments
    result: Any
    lost: str | None


class LocalProcesses:
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


class InProcess:
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
        remove_leftovers(out.rglob(HIDDEN))


def _open(where: str, jobs: int) -> Executor:
    if where == LOCAL:
        return LocalProcesses(jobs)
    if where == DASK or where.startswith(f"{DASK}://"):
        return DaskCluster(where.removeprefix(DASK).removeprefix("://"), jobs)
    raise UsageError(f"no executor '{where}'; there are {LOCAL}, {DASK} and {DASK}://HOST:PORT")


def run_all(executor: Executor, work: Callable[..., Any], todo: Iterable[Arguments]) -> Iterator[JobOutcome]:
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
                yield JobOutcome(arguments, None if reason else future.result(), reason)


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


# A Dask cluster as an executor: workers on other computers, asked for their version before they are given a job.


TIMEOUT = "10s"  # for the scheduler to answer
HERE = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}  # of workers that are our own


class DaskCluster:
    """The workers of a Dask scheduler; without an address that of Dask's own settings, or `jobs` of this computer."""

    shared = True

    def __init__(self, address: str, jobs: int) -> None:
        require("cluster")
        from dask import config
        from distributed import Client

        address = address or config.get("scheduler-address", "")
        try:
            self._client = Client(address, timeout=TIMEOUT) if address else Client(n_workers=jobs, **HERE)
        except (OSError, ValueError) as error:
            raise UnreachableError(
                f"could not reach the Dask scheduler at {address} ({_first_line(error)}); start it with: dask scheduler"
            ) from error
        self._futures = self._client.get_executor(pure=False)
        try:
            self.size = self._count()
        except BaseException:
            self.close()
            raise

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Begin a job on a worker that is free; bytes are sent once, however many jobs are told them."""
        told = [self._client.scatter(one, hash=True) if isinstance(one, bytes) else one for one in arguments]
        future: Future[Any] = self._futures.submit(work, *told)
        return future

    def lost(self, future: "Future[Any]") -> str | None:
        """Why a job has no result though Dask has tried it on other workers, if that is so."""
        from distributed import KilledWorker

        if future.cancelled():
            raise UnreachableError("the Dask scheduler is gone; running the same command again resumes")
        error = future.exception()
        return "every worker that tried it was lost; out of memory?" if isinstance(error, KilledWorker) else None

    def close(self) -> None:
        """Cancel what has not begun, and leave the cluster as it was found."""
        self._futures.shutdown(wait=False)
        self._client.close()

    def _count(self) -> int:
        """How many jobs the workers take at once; those of another version are refused."""
        for worker, version in self._client.run(_version, on_error="return").items():
            if version != scare.__version__:
                has = f"has scare {version}" if isinstance(version, str) else f"cannot load scare ({version})"
                raise UsageError(f"the Dask worker {worker} {has}; here it is {scare.__version__}: install that there")
        threads = sum(self._client.nthreads().values())
        if not threads:
            raise UnreachableError("the Dask scheduler has no worker; start one with: dask worker HOST:PORT")
        return int(threads)


def _version() -> str:
    return scare.__version__


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or "no answer"


# Work on a folder that a worker does not see: packed and sent once, unpacked there, what it writes sent back.
#
# The same content is the same bytes: a cluster is sent it once however many jobs there are, and a worker unpacks it
# once.


Files = dict[str, bytes]  # by name


def pack(folder: Path, paths: Iterable[Path]) -> bytes:
    """Files of a folder as one archive; the same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(paths):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return packed.getvalue()


def run_on_packed(packed: bytes, work: Callable[..., object], *arguments: Any) -> Files:
    """Do work(folder, *arguments, results) on what was sent; what it has written to the folder of results."""
    with TemporaryDirectory() as results:
        work(str(_unpacked(packed)), *arguments, results)
        return {path.name: path.read_bytes() for path in sorted(Path(results).iterdir())}


def write_files(files: Files, folder: Path) -> None:
    """Write what was sent back."""
    for name, content in files.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)


def _unpacked(packed: bytes) -> Path:
    """The folder with this content on this computer, unpacked unless it is there."""
    folder = Path(gettempdir()) / "scare-sent" / hashlib.sha256(packed).hexdigest()
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as beside, zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(Path(beside) / "whole")
            try:
                (Path(beside) / "whole").rename(folder)
            except OSError:  # another worker was faster
                if not folder.exists():
                    raise
    return folder
