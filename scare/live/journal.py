"""The state of the pipeline on disk: numbered snapshots, and the readings since the newest one.

    snapshot n  everything that a fleet remembers, in one file that is complete or not there
    journal n   the readings since snapshot n, in order; on disk (fsync) before they are calibrated

A large snapshot takes seconds to write, so a child process can write it while readings go on: the next journal has
begun, and until the snapshot is complete the one before it stays.

A line of a journal is a checksum and a JSON list; one that a power failure cut off or a disk has damaged is skipped,
and a damaged file is kept under another name. A restart reads the newest snapshot and all journals from it on; without
a snapshot, all journals there are. Older journals are kept for some minutes, to recognise readings that a broker or a
box sends again. Snapshots and journals also hold the position in a Kafka partition: where to continue reading.
"""

import json
import logging
import os
import re
import shutil
import signal
import struct
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from time import time
from typing import IO, Any
from zlib import crc32

import numpy as np
from safetensors import SafetensorError, safe_open

from scare.errors import DataError, UsageError
from scare.files import lock_file, replacing
from scare.live.fleet import FleetState
from scare.live.messages import Reading

LOG = logging.getLogger(__name__)
NAME = re.compile(r"(?:snapshot-(\d{8})\.safetensors|journal-(\d{8})\.log)")
KEY = re.compile(rb'\[("(?:[^"\\]|\\.)*"),([^,]+),')  # device and time at the beginning of a journal's line
SLICE = 1 << 23  # bytes of a snapshot between two calls of fsync: one of the journal never waits for more
KEPT_SECONDS = 180.0  # a journal that a newer snapshot made superfluous is kept this long


class InUseError(UsageError):
    """Another process has locked the folder."""


class Store:
    """A folder of snapshots and journals, locked for one process at a time."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / "lock").open("a")
        except OSError as error:
            raise UsageError(f"cannot write to the folder {folder}: {error.strerror or error}") from error
        if not lock_file(self._lock.fileno()):
            self._lock.close()
            raise InUseError(f"{folder} is in use by another scare live; give each process its own state folder")
        self._base = max(self._find("snapshot-*"), default=0)  # number of the newest snapshot, 0 without one
        self.number = max([self._base, *self._find("journal-*")])  # number of the newest journal
        self.oldest = min([self._base, *self._find("journal-*")])  # number of the oldest journal that is kept
        self.damaged = 0  # lines skipped so far
        self._journal: Journal | None = None
        self._writing: tuple[int, int] | None = None  # process that writes a snapshot, and the snapshot's number
        self.position = 0  # Kafka offset after the last reading stored

    def state(self) -> FleetState | None:
        """Read the newest snapshot, None if there is none; sets `position` to the one stored with it."""
        if not self._base:
            return None
        state, self.position = read_snapshot(self._snapshot_path(self._base))
        return state

    def readings(self) -> Iterator[Reading]:
        """Yield the readings after the newest snapshot; `position` advances with them."""
        for number in sorted(self._find("journal-*")):
            if number >= self._base:
                for body in self._read(number):
                    reading = _parse(body)
                    self._advance(reading.offset)
                    yield reading

    def older(self) -> Iterator[tuple[int, str, float]]:
        """Yield (number of the journal, device, time) of the readings in older journals that are still kept."""
        for number in sorted(self._find("journal-*")):
            if number < self._base:
                for body in self._read(number):
                    device, time = KEY.match(body).groups()  # type: ignore[union-attr]
                    yield number, json.loads(device), float(time)

    def _read(self, number: int) -> Iterator[bytes]:
        """Yield the bodies of a journal's lines; if some are damaged, say so and keep a copy of the file."""
        path, damaged = self._journal_path(number), 0
        for body in _read_bodies(path):
            if body is None:
                damaged += 1
            else:
                yield body
        if damaged:
            self.damaged += damaged
            copy = path.with_name(f"damaged-{path.name}")
            shutil.copyfile(path, copy)
            LOG.error("%s: skipped %d damaged lines and used the others; the file is kept as %s", path, damaged, copy)

    def _find(self, pattern: str) -> list[int]:
        """Return the numbers in the names of our files that match a pattern; foreign files are ignored."""
        matches = (NAME.fullmatch(path.name) for path in self._folder.glob(pattern) if path.is_file())
        return [int(match[1] or match[2]) for match in matches if match]

    def append(self, readings: Sequence[Reading]) -> None:
        """Append one reading or more to the journal; they are on disk (fsync) when this returns.

        Before the first snapshot of this process that is a new journal, which follows those of the last process.
        `position` advances to the Kafka offset after them, if they come from Kafka.
        """
        if self._journal is None:
            self._journal = Journal(self._journal_path(self.number + 1))
            self.number += 1
            sync(self._folder)
        # Readings are in order of time, not of offset. Only the last line states an offset, the largest of all: if a
        # power failure cuts it off, everything from the first of these readings on is fetched again.
        offset = max((reading.offset for reading in readings if reading.offset is not None), default=None)
        *others, last = _without_offsets(readings)
        self._journal.append([*others, replace(last, offset=offset)])
        self._advance(offset)

    def take(self, state: FleetState, waiting: Sequence[Reading] = (), aside: bool = False) -> None:
        """Write a snapshot, start its journal, and remove files that are no longer needed.

        The journal begins with the readings that wait, which the state does not have yet. It is written first: whatever
        fails, the old snapshot and all journals since restore everything. With `aside` a child process writes the
        snapshot, where there can be one, and `finish_snapshot` does the rest.
        """
        self._wait_for_writer()
        number = self.number + 1
        journal, snapshot = Journal(self._journal_path(number)), self._snapshot_path(number)
        try:
            journal.append(_without_offsets(waiting))  # `position`, which the snapshot has, is after them already
            if aside and sys.platform == "linux":
                self._writing = write_aside(snapshot, state, self.position), number
            else:
                write_snapshot(snapshot, state, self.position)
        except (OSError, UsageError):
            journal.close()
            self._journal_path(number).unlink(missing_ok=True)
            raise
        if self._journal is not None:
            self._journal.close()
        self._journal, self.number = journal, number
        sync(self._folder)
        if not self._writing:
            self._start_from(number)

    @property
    def is_writing(self) -> bool:
        """Whether a child process writes a snapshot, or has ended without `finish_snapshot` having noticed it."""
        return self._writing is not None

    def finish_snapshot(self) -> bool:
        """Remove the files that a snapshot written aside has made superfluous, if it is complete.

        Returns whether one has become complete since the last call; raises an OSError if it could not be written.
        """
        if self._writing is None:
            return False
        process, number = self._writing
        ended, status = os.waitpid(process, os.WNOHANG)
        if not ended:
            return False
        self._writing = None
        if code := os.waitstatus_to_exitcode(status):
            raise OSError(code, os.strerror(code) if code > 0 else f"its writer was ended by signal {-code}")
        self._start_from(number)
        return True

    def _wait_for_writer(self) -> None:
        """Wait until no process writes a snapshot; one that fails leaves everything as it was."""
        if self._writing is not None:
            os.waitid(os.P_PID, self._writing[0], os.WEXITED | os.WNOWAIT)
            with suppress(OSError):
                self.finish_snapshot()

    def _start_from(self, number: int) -> None:
        """Make this the snapshot that a restart begins with, and remove files that are no longer needed."""
        self._base = number
        for old in self._find("snapshot-*"):
            if old < number:
                self._snapshot_path(old).unlink()
        journals = {old: self._journal_path(old) for old in self._find("journal-*")}
        for old, path in journals.items():  # the one before this snapshot stays, to recognise what is sent again
            if old < number - 1 and time() - path.stat().st_mtime >= KEPT_SECONDS:
                path.unlink()
        self.oldest = min(old for old, path in journals.items() if path.exists())

    def close(self) -> None:
        """Close the journal and unlock the folder."""
        self._wait_for_writer()
        if self._journal is not None:
            self._journal.close()
        self._lock.close()

    def _advance(self, offset: int | None) -> None:
        """Set `position` to the Kafka offset after this one; None, of a reading without an offset, changes nothing."""
        if offset is not None:
            self.position = offset + 1

    def _snapshot_path(self, number: int) -> Path:
        return self._folder / f"snapshot-{number:08d}.safetensors"

    def _journal_path(self, number: int) -> Path:
        return self._folder / f"journal-{number:08d}.log"


def _without_offsets(readings: Iterable[Reading]) -> list[Reading]:
    return [replace(reading, offset=None) for reading in readings]


def write_snapshot(path: Path, state: FleetState, position: int) -> None:
    """Write a state; the file is on disk (fsync) when this returns."""
    devices = {name: list(names) for name, names in state.devices.items()}
    fleet = json.dumps({"devices": devices, "histories": dict(state.histories)})
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            _write_arrays(file, state.arrays, {"fleet": fleet, "position": str(position)})
        sync(temporary)
    sync(path.parent)


def write_aside(path: Path, state: FleetState, position: int) -> int:
    """Fork a child process that writes a state as it is now; returns the id of the child.

    The child shares the memory of this process, so nothing is copied before. It only writes, and its exit code is the
    number of the error, 0 without one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this process has threads, and perhaps JAX: the child needs neither
        process = os.fork()
    if process:
        return process
    code = 1
    try:
        for stop_signal in (signal.SIGINT, signal.SIGTERM):  # the parent waits for the child when it ends
            signal.signal(stop_signal, signal.SIG_IGN)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the lock and the connections are the parent's
        write_snapshot(path, state, position)
        code = 0
    except OSError as error:
        code = error.errno or 1
    finally:
        os._exit(code)


def _write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray], facts: Mapping[str, str]) -> None:
    """Write a safetensors file array by array: the library's own writer needs the memory of all of them again.

    The file is an 8-byte length, a JSON header of that length, and the arrays one after the other. It is synced every
    `SLICE` bytes.
    """
    header: dict[str, Any] = {"__metadata__": dict(facts)}
    start = 0
    for name, array in arrays.items():
        kind = "BOOL" if array.dtype == bool else f"{array.dtype.kind.upper()}{8 * array.itemsize}"
        end = start + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays are aligned
    file.write(struct.pack("<Q", len(text)) + text)
    for array in arrays.values():
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for start in range(0, len(content), SLICE):
            file.write(content[start : start + SLICE])
            if len(content) > SLICE:
                file.flush()
                os.fsync(file.fileno())


def read_snapshot(path: Path) -> tuple[FleetState, int]:
    """Return the state in a file, and the Kafka offset where reading continues."""
    try:
        with safe_open(path, "numpy") as file:
            fleet = json.loads(file.metadata()["fleet"])
            position = int(file.metadata().get("position", 0))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return FleetState(arrays, fleet["devices"], fleet["histories"]), position
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not a snapshot ({error}); move it away to start without the histories of devices"
        ) from error


def sync(path: Path) -> None:
    """Call fsync on a file or a folder (not on Windows, where a folder cannot be opened)."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Journal:
    """Readings on disk, one line each.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal"
    >>> with Journal(path) as journal:
    ...     journal.append([Reading("box-1", 1.8e9, {"pm25": 3.5})])
    >>> [(reading.device, reading.time, reading.values) for reading in read_journal(path)]
    [('box-1', 1800000000.0, {'pm25': 3.5})]
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def append(self, readings: Iterable[Reading]) -> None:
        """Write readings; they are on disk (fsync) when this returns."""
        lines = []
        for reading in readings:
            values = {name: None if isnan(number) else number for name, number in reading.values.items()}
            offset = [] if reading.offset is None else [reading.offset]
            fields = [reading.device, reading.time, values, *offset]
            body = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
            lines.append(b"%08x %b\n" % (crc32(body), body))
        size_before = os.fstat(self._file.fileno()).st_size  # `tell` is wrong after a line was cut off
        rest = memoryview(b"".join(lines))
        try:
            while rest:  # a write may take only a part
                written = self._file.write(rest) or 0
                rest = rest[written:]
            os.fsync(self._file.fileno())
        except OSError:  # such as a full disk: no half a line may stay
            self._file.truncate(size_before)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[Reading | None]:
    """Return the readings of a journal, None for a damaged line; a last line that was cut off is left out."""
    return (None if body is None else _parse(body) for body in _read_bodies(path))


def _parse(body: bytes) -> Reading:
    """Return the reading in the body of a journal's line."""
    device, time, values, *offset = json.loads(body)
    return Reading(device, time, {name: nan if number is None else number for name, number in values.items()}, *offset)


def _read_bodies(path: Path) -> Iterator[bytes | None]:
    """Yield the lines of a journal without their checksums, None for a damaged line."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return  # cut off by a power failure: it was not acknowledged
            body = line[9:-1]  # between the checksum (eight hex digits and a space) and the line break
            yield body if line[:9] == b"%08x " % crc32(body) else None
