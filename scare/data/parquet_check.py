"""Check Parquet files and spreadsheets in a child process, because a damaged file can crash its reader.

The child (`python -m scare.data.parquet_check`) serves this process until it dies or this process ends; a dead one is
replaced. It reads everything once, Parquet a block of rows at a time, under a memory limit where the system has one.
Called by `tables`.
"""

import atexit
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer

import polars as pl

from scare.data.packed_files import find_source
from scare.data.spreadsheets import load_sheets
from scare.errors import DataError
from scare.limits import check_table, table_bytes, table_limit

ROWS = 200_000  # rows read at once
CELL_BYTES = 64  # estimated bytes of the text of a spreadsheet's cell
PROBE_BYTES, PROBE_BYTES_PER_BYTE = 1 << 30, 16  # memory a probe may use: the larger of this and 16 times the file
PROBE_SECONDS, PROBE_BYTES_PER_SECOND = 20.0, 4 << 20  # time a probe may take: this, plus the file at this speed
STATM = Path("/proc/self/statm")  # Linux: its first number is the address space in use, in pages


def check_readable(path: Path) -> None:
    """Raise a DataError for a Parquet file or spreadsheet that is too large, damaged, or would crash this process."""
    problem, size = PROBE.find_problem(path)
    check_table(path, table=size)
    if problem:
        raise DataError(f"{path}: the file is damaged or not a table ({problem})")


class ReadingProbe:
    """Try to read files in a child process; after a file that crashes it, the next file gets a new child."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        atexit.register(self.end)

    def find_problem(self, path: Path) -> tuple[str, int]:
        """Try to read a file; returns why it cannot be read, empty if it can, and how large it says its table is."""
        with self._lock:
            child = self._running_child()
            assert child.stdin is not None
            assert child.stdout is not None
            timer = Timer(PROBE_SECONDS + path.stat().st_size / PROBE_BYTES_PER_SECOND, child.kill)
            timer.start()
            try:
                child.stdin.write(json.dumps([str(path.resolve()), table_limit(path, "table")]) + "\n")
                child.stdin.flush()
                answer = child.stdout.readline()
            except OSError:  # the child has ended
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                self.end()
                return "reading it crashed, used too much memory or timed out", 0
            problem, size = json.loads(answer)
            return problem, size

    def end(self) -> None:
        """Stop the child process."""
        if self._child is not None:
            with suppress(OSError):  # its pipe is broken
                self._child.communicate()
            self._child = None

    def _running_child(self) -> "subprocess.Popen[str]":
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


PROBE = ReadingProbe()


def _try_reading(path: str, largest: int) -> tuple[str, int]:
    """Read a whole file within a memory limit, in the child; return the problem, if any, and the table's size in bytes.

    The rows of a Parquet file are not read if its table would take more than `largest` bytes.
    """
    size = 0
    if sys.platform != "win32":  # Windows has no memory limit for a process
        import resource

        # Address space in use, in bytes; on systems other than Linux, a generous guess.
        used = int(STATM.read_text().split()[0]) * resource.getpagesize() if STATM.exists() else 4 << 30
        allowed = max(PROBE_BYTES, PROBE_BYTES_PER_BYTE * Path(path).stat().st_size)
        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + allowed, hard_limit))
    try:
        if Path(path).suffix.lower() != ".parquet" and (source := find_source(Path(path))).content == "sheet":
            return "", sum(CELL_BYTES * sheet.height * sheet.width for sheet in load_sheets(source, "").values())
        table = pl.scan_parquet(path, glob=False)
        rows = table.select(pl.len()).collect().item()
        size = table_bytes(rows, len(table.collect_schema()))
        for start in range(0, rows if size <= largest else 0, ROWS):
            table.slice(start, ROWS).collect()
    except (Exception, pl.exceptions.PanicException) as error:
        return " ".join(str(error).split())[:80] or type(error).__name__, size  # the beginning, in one line
    return "", size


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(_try_reading(*json.loads(line))), flush=True)
