"""Limits on what a file may ask for, so that a small one cannot take all memory (docs/limits.md).

A usual file asks for a thousandth of these limits. For a larger file that you trust, raise all of them together:
`scare --limits 4 predict …`, or `with raised(4): Calibrator.load(…)`. Limits of messages and HTTP bodies are in
`live/http.py` and `web/server.py`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scare.errors import DataError, UsageError

LIMITS_VARIABLE = "SCARE_LIMITS"  # in the environment, so that child processes have the same limits
UNPACKED_PER_BYTE = 100  # a table may always unpack to this many times the size of its file


@dataclass(frozen=True)
class Limit:
    """The largest number of something, and what it is called in messages."""

    maximum: int
    what: str


LIMITS = {  # of a .scare file
    "file": Limit(128 << 20, "bytes of the file"),
    "manifest": Limit(2 << 20, "bytes of manifest.json"),
    "weights": Limit(64 << 20, "bytes of weights.safetensors, unpacked"),
    "windows": Limit(128 << 20, "bytes of windows.safetensors, unpacked"),
    "card": Limit(1 << 20, "bytes of card.md"),
    "window": Limit(1 << 16, "readings in a window"),
    "channels": Limit(256, "channels"),
    "devices": Limit(1 << 16, "known devices"),
    "stored": Limit(4096, "stored windows"),
    "steps": Limit(1000, "plan steps"),
    "numbers": Limit(1 << 24, "weights read by plan steps"),
    "memory": Limit(1 << 24, "numbers computed from one window"),
    "operations": Limit(10**8, "operations per window"),
}
LIMITS |= {  # of a table file; a row takes 32 bytes and 8 for each column, a cell of a spreadsheet 64
    "table": Limit(1 << 29, "bytes of a table, unpacked"),
    "document": Limit(1 << 26, "bytes of a spreadsheet, JSON or text in columns, unpacked"),
    "line": Limit(1 << 22, "bytes of a line"),
    "columns": Limit(1 << 14, "columns"),
}
PACKED = ("table", "document")  # limits that a large file may exceed, see `UNPACKED_PER_BYTE`


def current_limit(name: str) -> int:
    """Look up a limit, multiplied by the factor of `raised`."""
    return LIMITS[name].maximum * int(os.environ.get(LIMITS_VARIABLE, 1))


def check_limits(**requested: int) -> None:
    """Reject a file that asks for more than is allowed.

    >>> check_limits(channels=3, steps=1001)
    Traceback (most recent call last):
    ValueError: it asks for 1,001 plan steps; the limit is 1,000. If you trust the file, raise it: scare --limits 2 …
    """
    for name, number in requested.items():
        if number > current_limit(name):
            # Rounded up; `ceil` fails for numbers that no float can hold. A factor of 1000 or more is not suggested.
            times = -(-number // LIMITS[name].maximum)
            raise ValueError(
                f"it asks for {number:,} {LIMITS[name].what}; the limit is {current_limit(name):,}. If you trust the"
                f" file, raise it: scare --limits {times if times < 1000 else 'N'} …"
            )


def table_limit(path: Path, name: str) -> int:
    """Look up a limit for a table file; the limits on its unpacked size grow with the file."""
    limit = current_limit(name)
    return max(limit, UNPACKED_PER_BYTE * path.stat().st_size) if name in PACKED else limit


def table_bytes(rows: int, columns: int) -> int:
    """Estimate the bytes that rows take in memory: 8 for each cell, and 32 for a row's line, time, device and site."""
    return rows * (32 + 8 * columns)


def check_table(path: Path, **requested: int) -> None:
    """Like `check_limits`, for a table file: raises a DataError that names it."""
    for name, number in requested.items():
        # `table_limit` asks for the file's size, so only if it matters.
        if number > current_limit(name) and number > table_limit(path, name):
            try:
                check_limits(**{name: number})
            except ValueError as error:
                raise DataError(f"{path}: {error}") from error


@contextmanager
def raised(times: int) -> Iterator[None]:
    """Multiply all limits by a whole number within this block, also for processes started in it."""
    if times < 1:
        raise UsageError(f"--limits is {times}; give a whole number from 1 on")
    before = os.environ.get(LIMITS_VARIABLE)
    os.environ[LIMITS_VARIABLE] = str(times)
    try:
        yield
    finally:
        if before is None:
            del os.environ[LIMITS_VARIABLE]
        else:
            os.environ[LIMITS_VARIABLE] = before
