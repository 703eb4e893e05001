"""A Dask cluster as an executor: workers on other computers, asked for their version before they are given a job."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import scare
from scare.errors import UnreachableError, UsageError
from scare.extras import require

TIMEOUT = "10s"  # for the scheduler to answer
HERE = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}  # of workers that are our own


class Cluster:
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
