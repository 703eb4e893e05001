"""Run jobs in this process, in processes of this computer (joblib's loky), or on a Dask cluster.

A job is a function of this package and plain values: names and content hashes, never objects. Each local process is
a pool of its own, so a job that kills its process takes no other job with it. A job whose process or worker is lost is
tried once more.

A cluster's worker may have no access to a job's folder: `pack` turns the folder into bytes, and `run_on_packed` unpacks
it there and sends back what the job wrote. Equal files give equal bytes, so they are sent and unpacked only once.
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
from scare.files import TEMPORARY, remove_leftovers, replacing

LOCAL, DASK = "local", "dask"
THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("POLARS_MAX_THREADS", "PJRT_NPROC"),  # PJRT_NPROC: JAX
)
ONE_THREAD = dict.fromkeys(THREADS, "1")  # parallel processes would compete for cores
POLL_SECONDS = 1.0  # between checks that the parent process is alive
DASK_TIMEOUT = "10s"  # longest wait for the scheduler's answer
OWN_CLUSTER = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}  # if no scheduler is named
Arguments = tuple[Any, ...]
Files = dict[str, bytes]  # content by name


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra and scikit-learn to one thread in this block.

    With several threads, these wait for each other, and a fit takes twice the processor time.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield


class Executor(Protocol):
    """Runs up to `size` jobs at a time; `shared` is true if a worker may be on another computer."""

    size: int
    shared: bool

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Start a job."""

    def lost(self, future: "Future[Any]") -> str | None:
        """Return why a finished job was lost with its process or worker; None if it returned or raised."""

    def close(self) -> None:
        """Stop the jobs that are running, and wait for them to end."""


@dataclass(frozen=True)
class JobOutcome:
    """A finished job: its arguments, and its result or why it was lost."""

    arguments: Arguments
    result: Any
    lost: str | None


class LocalProcesses:
    """Single-threaded processes that ignore Ctrl-C, each started when first needed; they end with this process."""

    shared = False

    def __init__(self, size: int) -> None:
        self.size = size
        self._pools: list[tuple[Any, Future[Any]]] = []  # pools of one process, each with its latest job

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Start a job in a free process, or in a new one if none is free or the free one died."""
        pool = self._take_free_pool() or self._new_pool()
        with _interrupts_ignored():
            future: Future[Any] = pool.submit(work, *arguments)
        self._pools.append((pool, future))
        return future

    def _take_free_pool(self) -> Any:
        """Remove a pool whose job has ended from the list and return it; None if there is none or its process died."""
        for entry in self._pools:
            pool, latest_job = entry
            if latest_job.done():
                self._pools.remove(entry)
                if not isinstance(latest_job.exception(), BrokenExecutor):
                    return pool
                pool.shutdown(kill_workers=True)
                return None
        return None

    def _new_pool(self) -> Any:
        """Make a pool of one process."""
        from joblib.externals.loky.process_executor import ProcessPoolExecutor  # slow to import

        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # loky replaces a worker that has grown
        return ProcessPoolExecutor(1, initializer=_set_up_process, initargs=(os.getpid(),), env=ONE_THREAD)

    def lost(self, future: "Future[Any]") -> str | None:
        """Return a message with the exit code if the job's process died; otherwise None."""
        error = future.exception()
        if not isinstance(error, BrokenExecutor):
            return None
        code = re.search(r"\((-?\d+)\)", str(error))
        return f"its process ended without a result (exit code {code[1] if code else '?'}), perhaps out of memory"

    def close(self) -> None:
        """Kill running jobs."""
        for pool, _ in self._pools:
            pool.shutdown(kill_workers=True)


class InProcess:
    """Runs jobs in this process: `submit` returns when the job is done."""

    size = 1
    shared = False

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Run a job; its exception reaches the caller."""
        future: Future[Any] = Future()
        future.set_result(work(*arguments))
        return future

    def lost(self, future: "Future[Any]") -> str | None:
        """Return None: a job cannot be lost without this process."""
        return None

    def close(self) -> None:
        """No-op: nothing runs."""


@contextmanager
def open_executor(where: str, jobs: int, out: Path) -> Iterator[Executor]:
    """Open `local` processes, Dask workers on this computer (`dask`) or those of a scheduler (`dask://HOST:PORT`).

    At the end, half-written files of killed jobs are removed from `out`, the folder that jobs write into.
    """
    executor: Executor
    if where == LOCAL:
        executor = LocalProcesses(jobs)
    elif where == DASK or where.startswith(f"{DASK}://"):
        executor = DaskCluster(where.removeprefix(DASK).removeprefix("://"), jobs)
    else:
        raise UsageError(f"no executor '{where}'; there are {LOCAL}, {DASK} and {DASK}://HOST:PORT")
    try:
        yield executor
    finally:
        executor.close()
        remove_leftovers(out.rglob(TEMPORARY))


def run_all(executor: Executor, work: Callable[..., Any], todo: Iterable[Arguments]) -> Iterator[JobOutcome]:
    """Run `work` with each of these arguments, in this order; yield the outcome of each job as soon as it ends.

    A job that was lost is started again once, and its outcome is that of the second attempt.
    """
    waiting = iter(todo)
    running = dict[Future[Any], Arguments]()
    retried = dict[int, Arguments]()  # by id, since arguments may not be hashable; kept alive, so ids stay unique
    while True:
        while len(running) < executor.size and (arguments := next(waiting, None)) is not None:
            running[executor.submit(work, *arguments)] = arguments
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            arguments = running.pop(future)
            reason = executor.lost(future)
            if reason and id(arguments) not in retried:
                retried[id(arguments)] = arguments
                running[executor.submit(work, *arguments)] = arguments
            else:
                yield JobOutcome(arguments, None if reason else future.result(), reason)


def _set_up_process(parent: int) -> None:
    """Make a new local process ignore Ctrl-C, and end with its `parent`, a process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """Exit when the process that started this one is gone, however it ended."""
    while os.getppid() == parent:
        sleep(POLL_SECONDS)
    os._exit(1)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Make processes started in this block ignore Ctrl-C from their first moment, even while they import."""
    if current_thread() is not main_thread():
        yield  # only the main thread may set signal handlers
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


class DaskCluster:
    """Runs jobs on the workers of a Dask scheduler.

    Without an address, that is the scheduler which Dask's own settings name or, if they name none, a new one with
    `jobs` workers on this computer.
    """

    shared = True

    def __init__(self, address: str, jobs: int) -> None:
        require("cluster")
        from dask import config
        from distributed import Client

        address = address or config.get("scheduler-address", "")
        try:
            self._client = Client(address, timeout=DASK_TIMEOUT) if address else Client(n_workers=jobs, **OWN_CLUSTER)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0] or "no answer"
            raise UnreachableError(
                f"could not reach the Dask scheduler at {address} ({reason}); start it with: dask scheduler"
            ) from error
        self._executor = self._client.get_executor(pure=False)  # if pure, equal calls would run only once
        try:
            self.size = self._count_threads()
        except BaseException:
            self.close()
            raise

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Start a job on a free worker; equal bytes are sent only once, however many jobs take them."""
        scattered = [
            self._client.scatter(argument, hash=True) if isinstance(argument, bytes) else argument
            for argument in arguments
        ]
        future: Future[Any] = self._executor.submit(work, *scattered)
        return future

    def lost(self, future: "Future[Any]") -> str | None:
        """Return a message if every worker that tried the job was lost; otherwise None."""
        from distributed import KilledWorker

        if future.cancelled():
            raise UnreachableError("the Dask scheduler is gone; run the same command again to resume")
        error = future.exception()
        return "every worker that tried it was lost, perhaps out of memory" if isinstance(error, KilledWorker) else None

    def close(self) -> None:
        """Cancel what has not started, and disconnect."""
        self._executor.shutdown(wait=False)
        self._client.close()

    def _count_threads(self) -> int:
        """Count how many jobs the workers can run at once; raises a UsageError if one has another version of scare."""
        for worker, version in self._client.run(_version, on_error="return").items():
            if version != scare.__version__:
                problem = f"has scare {version}" if isinstance(version, str) else f"cannot load scare ({version})"
                raise UsageError(
                    f"the Dask worker {worker} {problem}; install scare {scare.__version__} there, as here"
                )
        threads = sum(self._client.nthreads().values())
        if not threads:
            raise UnreachableError("the Dask scheduler has no worker; start one with: dask worker HOST:PORT")
        return int(threads)


def _version() -> str:
    """Return the version of scare; run on every worker."""
    return scare.__version__


def pack(folder: Path, paths: Iterable[Path]) -> bytes:
    """Pack files of a folder into one zip; equal files give equal bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(paths):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return packed.getvalue()


def run_on_packed(packed: bytes, work: Callable[..., object], *arguments: Any) -> Files:
    """Run work(folder, *arguments, results) on a packed folder; returns the files that it wrote to `results`."""
    with TemporaryDirectory() as results:
        work(str(_unpack_once(packed)), *arguments, results)
        return {path.name: path.read_bytes() for path in sorted(Path(results).iterdir())}


def write_files(files: Files, folder: Path) -> None:
    """Write files that a job sent back, each atomically."""
    for name, content in files.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)


def _unpack_once(packed: bytes) -> Path:
    """Unpack into a folder named after the content, unless another job has done so; returns the folder.

    It is renamed when complete, so no job sees a half-unpacked folder.
    """
    folder = Path(gettempdir()) / "scare-sent" / hashlib.sha256(packed).hexdigest()
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as temporary, zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(Path(temporary) / "content")
            try:
                (Path(temporary) / "content").rename(folder)
            except OSError:  # another worker was faster
                if not folder.exists():
                    raise
    return folder
