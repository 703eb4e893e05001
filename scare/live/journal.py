"""A journal is a file of readings that are in no snapshot yet, in their order: appended and synced before use.

A line is a checksum and a JSON list, so that a line cut off by a power failure is known for what it is.
"""

import json
import os
from collections.abc import Iterable, Iterator
from math import isnan, nan
from pathlib import Path
from zlib import crc32

from scare.live.border import Reading


class Journal:
    """Readings on disk.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal"
    >>> with Journal(path) as journal:
    ...     journal.append([Reading("box-1", 1.8e9, {"pm25": 3.5})])
    >>> list(read_journal(path))
    [Reading(device='box-1', time=1800000000.0, values={'pm25': 3.5}, offset=None)]
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def append(self, readings: Iterable[Reading]) -> None:
        """Write readings; they are on disk when this returns."""
        self._file.write(b"".join(map(_line, readings)))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[Reading]:
    """The readings of a journal, up to the first line that is not whole."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            body = line[9:-1]
            if line[:9] != b"%08x " % crc32(body) or not line.endswith(b"\n"):
                return
            device, time, values, *offset = json.loads(body.decode("ascii"))
            yield Reading(device, time, {name: nan if one is None else one for name, one in values.items()}, *offset)


def _line(reading: Reading) -> bytes:
    values = {name: None if isnan(one) else one for name, one in reading.values.items()}
    offset = [] if reading.offset is None else [reading.offset]
    told = [reading.device, reading.time, values, *offset]
    body = json.dumps(told, separators=(",", ":"), allow_nan=False).encode()
    return b"%08x %b\n" % (crc32(body), body)
