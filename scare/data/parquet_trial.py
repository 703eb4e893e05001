"""A damaged Parquet file can end the process that reads it, so a child process reads it first and says what it found.

One child serves this process as long as it lives. It reads every column once, a block of rows at a time, within a
limit of memory where the system has one; what it survives is read here again.
"""

import atexit
import json
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock, Timer

import polars as pl

from scare.errors import DataError

ROWS = 200_000  # read at once
MEMORY = 1 << 30  # bytes that reading may take, or this many times the file:
TIMES = 16
STATM = Path("/proc/self/statm")  # how much memory is in use, on Linux
SECONDS, BYTES_A_SECOND = 20.0, 4 << 20  # that reading may take, and that it manages at least


class Trial:
    """A child that reads files; another takes its place when one has ended it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.end)

    def why_not(self, path: Path) -> str:
        """Why a file cannot be read; empty if it can."""
        with self._lock:
            child = self._running()
            assert child.stdin is not None
            assert child.stdout is not None
            timer = Timer(SECONDS + path.stat().st_size / BYTES_A_SECOND, child.kill)
            timer.start()
            try:
                child.stdin.write(json.dumps(str(path.resolve())) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            except OSError:  # it has ended already
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                self.end()
            return json.loads(answer) if answer else "whatever reads it ends, or never does"

    def end(self) -> None:
        """Let the child go."""
        if self._child is not None:
            with suppress(OSError):  # what could not be written to one that had ended
                self._child.communicate()
            self._child = None

    def _running(self) -> "subprocess.Popen[str]":
        if self._child is not None and self._child.poll() is not None:
            self.end()
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "scare.data.parquet_trial"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for us
            )
        return self._child


@cache
def _trial() -> Trial:
    return Trial()


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file that cannot be read, or that would end this process."""
    if reason := _trial().why_not(path):
        raise DataError(f"{path}: the file is damaged or not a table ({reason})")


def _read(path: str) -> str:
    """Read a file; what is wrong with it."""
    _limit_memory(max(MEMORY, TIMES * Path(path).stat().st_size))
    try:
        table = pl.scan_parquet(path, glob=False)
        for start in range(0, table.select(pl.len()).collect().item(), ROWS):
            table.slice(start, ROWS).collect()
    except (Exception, pl.exceptions.PanicException) as error:
        return " ".join(str(error).split())[:80] or type(error).__name__
    return ""


def _limit_memory(size: int) -> None:
    """So much more memory than is in use already; Windows has no such limit."""
    if sys.platform == "win32":
        return
    import resource

    used = int(STATM.read_text().split()[0]) * resource.getpagesize() if STATM.exists() else 4 << 30
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + size, hard))


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_read(json.loads(line))), flush=True)
