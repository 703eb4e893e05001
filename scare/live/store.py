"""A journal is a file of readings that are in no snapshot yet, in their order: appended and synced before use.

A line is a checksum and a JSON list, so that a line cut off by a power failure is known for what it is.
"""

import json
import os
from collections.abc import Iterable, Iterator
from math import isnan, nan
from pathlib import Path
from time import time
from zlib import crc32

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.errors import DataError, UsageError
from scare.files import lock_file, replacing
from scare.live.fleet import FleetState
from scare.live.messages import Reading


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


# A snapshot is all that a fleet remembers, in one file that appears whole; a journal begins where it ends.
#
# Snapshots are numbered. Number n holds what came before `journal n`; older journals are kept for some minutes, to know
# again what a broker or a box sends a second time. Of a Kafka partition both hold the position: where to read on.


KEPT_SECONDS = 180.0  # for which an older journal stays


class InUseError(UsageError):
    """The folder belongs to another process."""


class Store:
    """The folder of snapshots and journals; one process at a time."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / "lock").open("a")
        except OSError as error:
            raise UsageError(f"cannot write to the folder {folder}: {error.strerror or error}") from error
        if not lock_file(self._lock.fileno()):
            self._lock.close()
            raise InUseError(f"{folder} is in use by another scare live; give each its own state folder")
        self.number = max(map(_number, self._folder.glob("snapshot-*")), default=0)
        self.oldest = self.number  # journal
        self._journal: Journal | None = None
        self.position = 0  # the offset after the last reading of a Kafka partition that is here

    def state(self) -> FleetState | None:
        """What the newest snapshot holds, None before the first."""
        if not self.number:
            return None
        state, self.position = read_snapshot(self._snapshot(self.number))
        return state

    def readings(self) -> Iterator[Reading]:
        """What came after the newest snapshot."""
        for one in read_journal(self._path(self.number)):
            self._go_to(one)
            yield one

    def older(self) -> Iterator[tuple[int, Reading]]:
        """What came before the newest snapshot and is still kept, with the number of its journal."""
        for path in sorted(self._folder.glob("journal-*")):
            number = _number(path)
            if number < self.number:
                yield from ((number, reading) for reading in read_journal(path))

    def append(self, readings: list[Reading]) -> None:
        """Write readings to the journal; they are on disk when this returns."""
        if self._journal is None:
            raise RuntimeError("no journal is open: take a snapshot first")
        self._journal.append(readings)
        self._go_to(readings[-1])

    def take(self, state: FleetState) -> None:
        """Write a snapshot, begin a journal, and remove what is no longer needed."""
        number = self.number + 1
        write_snapshot(self._snapshot(number), state, self.position)
        if self._journal is not None:
            self._journal.close()
        self._journal, self.number = Journal(self._path(number)), number
        sync(self._folder)
        self._snapshot(number - 1).unlink(missing_ok=True)
        self.oldest = min(_number(path) for path in self._folder.glob("journal-*") if not self._remove_old(path))

    def close(self) -> None:
        """Leave the folder to others."""
        if self._journal is not None:
            self._journal.close()
        self._lock.close()

    def _go_to(self, reading: Reading) -> None:
        if reading.offset is not None:
            self.position = reading.offset + 1

    def _remove_old(self, path: Path) -> bool:
        """Remove a journal that is no longer needed."""
        needed = _number(path) >= self.number - 1 or time() - path.stat().st_mtime < KEPT_SECONDS
        if not needed:
            path.unlink()
        return not needed

    def _snapshot(self, number: int) -> Path:
        return self._folder / f"snapshot-{number:08d}.safetensors"

    def _path(self, number: int) -> Path:
        return self._folder / f"journal-{number:08d}.log"


def _number(path: Path) -> int:
    return int(path.stem.split("-")[1])


def write_snapshot(path: Path, state: FleetState, position: int) -> None:
    """Write a state; the file is on disk when this returns."""
    words = {"devices": {name: list(some) for name, some in state.devices.items()}, "histories": dict(state.histories)}
    with replacing(path) as temporary:
        temporary.write_bytes(save(dict(state.arrays), {"fleet": json.dumps(words), "position": str(position)}))
        sync(temporary)
    sync(path.parent)


def read_snapshot(path: Path) -> tuple[FleetState, int]:
    """The state in a file, and where a Kafka partition is read on after it."""
    try:
        with safe_open(path, "numpy") as file:
            words, position = json.loads(file.metadata()["fleet"]), int(file.metadata().get("position", 0))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return FleetState(arrays, words["devices"], words["histories"]), position
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a snapshot ({error}); move it away to begin without histories") from error


def sync(path: Path) -> None:
    """Put a file, or the names in a folder, on disk, where it can be opened for that."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
