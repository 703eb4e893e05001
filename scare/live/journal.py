"""The state of the pipeline on disk: numbered snapshots, and the readings since the newest one.

    snapshot n  everything that a fleet remembers, in one file that is complete or not there
    journal n   the readings since snapshot n, in order; on disk (fsync) before they are calibrated

A line of a journal is a checksum and a JSON list, so that a line cut off by a power failure is recognised. Older
journals are kept for some minutes, to recognise readings that a broker or a box sends again. Snapshots and journals
also hold the position in a Kafka partition: where to continue reading.
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
        self.number = max(map(_number, self._folder.glob("snapshot-*")), default=0)  # number of the newest snapshot
        self.oldest = self.number  # number of the oldest journal that is kept
        self._journal: Journal | None = None
        self.position = 0  # Kafka offset after the last reading stored

    def state(self) -> FleetState | None:
        """Read the newest snapshot, None before the first; sets `position` to the one stored with it."""
        if not self.number:
            return None
        state, self.position = read_snapshot(self._snapshot_path(self.number))
        return state

    def readings(self) -> Iterator[Reading]:
        """Yield the readings after the newest snapshot; `position` advances with them."""
        for reading in read_journal(self._journal_path(self.number)):
            self._advance(reading)
            yield reading

    def older(self) -> Iterator[tuple[int, Reading]]:
        """Yield the readings of older journals that are still kept, as (number of the journal, reading)."""
        for path in sorted(self._folder.glob("journal-*")):
            number = _number(path)
            if number < self.number:
                yield from ((number, reading) for reading in read_journal(path))

    def append(self, readings: list[Reading]) -> None:
        """Append readings to the journal; they are on disk (fsync) when this returns."""
        if self._journal is None:
            raise RuntimeError("no journal is open; take a snapshot first")
        self._journal.append(readings)
        self._advance(readings[-1])

    def take(self, state: FleetState) -> None:
        """Write a snapshot, start its journal, and remove files that are no longer needed."""
        number = self.number + 1
        write_snapshot(self._snapshot_path(number), state, self.position)
        if self._journal is not None:
            self._journal.close()
        self._journal, self.number = Journal(self._journal_path(number)), number
        sync(self._folder)
        self._snapshot_path(number - 1).unlink(missing_ok=True)
        journals = {_number(path): path for path in self._folder.glob("journal-*")}
        for old, path in journals.items():
            if old < number - 1 and time() - path.stat().st_mtime >= KEPT_SECONDS:
                path.unlink()
        self.oldest = min(old for old, path in journals.items() if path.exists())

    def close(self) -> None:
        """Close the journal and unlock the folder."""
        if self._journal is not None:
            self._journal.close()
        self._lock.close()

    def _advance(self, reading: Reading) -> None:
        """Set `position` to the Kafka offset after this reading, if it has one."""
        if reading.offset is not None:
            self.position = reading.offset + 1

    def _snapshot_path(self, number: int) -> Path:
        return self._folder / f"snapshot-{number:08d}.safetensors"

    def _journal_path(self, number: int) -> Path:
        return self._folder / f"journal-{number:08d}.log"


def _number(path: Path) -> int:
    """The number in a name such as journal-00000012.log."""
    return int(path.stem.split("-")[1])


def write_snapshot(path: Path, state: FleetState, position: int) -> None:
    """Write a state; the file is on disk (fsync) when this returns."""
    devices = {name: list(names) for name, names in state.devices.items()}
    fleet = json.dumps({"devices": devices, "histories": dict(state.histories)})
    with replacing(path) as temporary:
        temporary.write_bytes(save(dict(state.arrays), {"fleet": fleet, "position": str(position)}))
        sync(temporary)
    sync(path.parent)


def read_snapshot(path: Path) -> tuple[FleetState, int]:
    """The state in a file, and the Kafka offset where reading continues."""
    try:
        with safe_open(path, "numpy") as file:
            fleet, position = json.loads(file.metadata()["fleet"]), int(file.metadata().get("position", 0))
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
    >>> list(read_journal(path))
    [Reading(device='box-1', time=1800000000.0, values={'pm25': 3.5}, offset=None)]
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def append(self, readings: Iterable[Reading]) -> None:
        """Write readings; they are on disk (fsync) when this returns."""
        lines = []
        for one in readings:
            values = {name: None if isnan(number) else number for name, number in one.values.items()}
            offset = [] if one.offset is None else [one.offset]
            fields = [one.device, one.time, values, *offset]
            body = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
            lines.append(b"%08x %b\n" % (crc32(body), body))
        self._file.write(b"".join(lines))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[Reading]:
    """The readings of a journal, up to the first damaged line."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            body = line[9:-1]  # between the checksum (eight hex digits and a space) and the line break
            if line[:9] != b"%08x " % crc32(body) or not line.endswith(b"\n"):
                return  # cut off by a power failure: nothing after it was acknowledged
            device, time, values, *offset = json.loads(body.decode("ascii"))
            yield Reading(device, time, {name: nan if one is None else one for name, one in values.items()}, *offset)
