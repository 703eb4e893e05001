"""Check Parquet files in a child process (`python -m scare.data.parquet_check`): a damaged one can crash its reader.

One child serves this process as long as it lives. It reads every column once, a block of rows at a time, under a
memory limit where the system has one. Comes from `tables`.
"""

import atexit
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer

import polars as pl

from scare.errors import DataError

ROWS = 200_000  # in a block
PROBE_BYTES, PROBE_BYTES_PER_BYTE = 1 << 30, 16  # memory a probe may use: the larger of this and 16 times the file
PROBE_SECONDS, PROBE_BYTES_PER_SECOND = 20.0, 4 << 20  # time a probe may take: this, plus the file at this speed
STATM = Path("/proc/self/statm")  # Linux: its first number is the address space in use, in pages


def check_parquet(path: Path) -> None:
    """Raise a DataError for a Parquet file that cannot be read, or that would crash this process."""
    if problem := PARQUET_PROBE.find_problem(path):
        raise DataError(f"{path}: the file is damaged or not a table ({problem})")


class ParquetProbe:
    """Try to read files in a child process; after a file that crashes it, the next file gets a new child."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.end)

    def find_problem(self, path: Path) -> str:
        """Try to read a file; returns why it cannot be read, empty if it can."""
        with self._lock:
            child = self._running_child()
            assert child.stdin is not None
            assert child.stdout is not None
            timer = Timer(PROBE_SECONDS + path.stat().st_size / PROBE_BYTES_PER_SECOND, child.kill)
            timer.start()
            try:
                child.stdin.write(json.dumps(str(path.resolve())) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            except OSError:  # the child has ended
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                self.end()
            return json.loads(answer) if answer else "reading it crashes or never ends"

    def end(self) -> None:
        """Stop the child process."""
        if self._child is not None:
            with suppress(OSError):  # its pipe is broken
                self._child.communicate()
            self._child = None

    def _running_child(self) -> "subprocess.Popen[str]":
        """The child, started anew if there is none or it has ended."""
        if self._child is not None and self._child.poll() is not None:
            self.end()
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "scare.data.parquet_check"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the parent
            )
        return self._child


PARQUET_PROBE = ParquetProbe()


def _try_reading(path: str) -> str:
    """In the child: read a whole Parquet file within a memory limit; returns the problem, empty if there is none."""
    if sys.platform != "win32":  # which has no such limit
        import resource

        # Address space in use; elsewhere than on Linux a generous guess.
        used = int(STATM.read_text().split()[0]) * resource.getpagesize() if STATM.exists() else 4 << 30
        more = max(PROBE_BYTES, PROBE_BYTES_PER_BYTE * Path(path).stat().st_size)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + more, hard))
    try:
        table = pl.scan_parquet(path, glob=False)
        for start in range(0, table.select(pl.len()).collect().item(), ROWS):
            table.slice(start, ROWS).collect()
    except (Exception, pl.exceptions.PanicException) as error:
        return " ".join(str(error).split())[:80] or type(error).__name__
    return ""


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_try_reading(json.loads(line))), flush=True)
