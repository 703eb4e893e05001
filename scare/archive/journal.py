"""Journals of an archive's run: what is done, so that an interrupted run goes on where it was.

Each series has a journal with a line for each file that is done, and the streams' state after the last one. Summaries
of files are kept beside them. Written and read by `calibrate`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.archive.input_files import FileSummary, content_hash
from scare.files import replacing
from scare.schema import convert

HIDDEN = ".scare"  # folder of journals, hidden from whatever reads the data set
JOURNAL_KEYS = {"summary": "look", "fingerprint": "chain", "spans": "pieces", "error": "why"}  # keys on disk, by field
DeviceStates = dict[str, dict[str, np.ndarray]]  # state of a stream, by device


@dataclass(frozen=True)
class Counts:
    """How many rows a device has in a file, how many of them have a calibrated value, and how many each flag.

    Flags that no row has are left out.
    """

    rows: int = 0
    calibrated: int = 0
    flags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JournalLine:
    """The outcome of a file: by device, counts or why it was left out; `error` says why the whole file is unusable.

    `changes` says, by device, what was done to its rows first. `output` is the name of the result, empty if there is
    none; `output_bytes` and `output_sha256` are its content's. A journal of an earlier version has neither: its
    results are taken to be unchanged.
    """

    summary: FileSummary
    fingerprint: str = ""
    counts: Mapping[str, Counts] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    output_bytes: int = 0
    output_sha256: str = ""
    seconds: float = 0.0
    error: str = ""


class Journal:
    """Journal of one series on disk: a line for each file that is done, and the streams' state after the last one."""

    def __init__(self, out: Path, key: str) -> None:
        self._out = out
        self._line_file = out / HIDDEN / f"{key}.jsonl"
        self._state_file = out / HIDDEN / f"{key}.safetensors"

    def lines(self) -> list[JournalLine]:
        """Read the newest complete line of each file, if the file's result is still as it was written."""
        return [line for line in self._newest_lines() if self._has_result(line)]

    def damaged(self) -> list[str]:
        """Return the names of the results that exist but have changed since they were written."""
        not_as_written = (line.output for line in self._newest_lines() if not self._has_result(line))
        return [output for output in not_as_written if (self._out / output).exists()]

    def _newest_lines(self) -> list[JournalLine]:
        """Read the complete lines; of several lines about the same file, only the last."""
        lines = [_parse_line(json.loads(text), self._line_file) for text in _complete_lines(self._line_file)]
        return list({line.summary.name: line for line in lines}.values())

    def resume(self, fingerprints: Sequence[str]) -> tuple[list[JournalLine], DeviceStates, dict[str, float]]:
        """Read the lines of files that are done, the state after them, and each device's last time in seconds.

        `fingerprints` are those of the series' files now, in order. Unless all files up to the stored state are done
        and unchanged, everything returned is empty, and the series begins anew.
        """
        done = {line.fingerprint: line for line in self.lines()}
        try:
            with safe_open(self._state_file, "numpy") as file:
                header = json.loads(file.metadata()["after"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        except (OSError, SafetensorError):
            return [], {}, {}
        last = _parse_line(header["line"], self._state_file)
        if last.fingerprint not in fingerprints:
            return [], {}, {}
        if self._has_result(last):  # a kill may have come between the state and its line
            done[last.fingerprint] = last
        up_to_state = fingerprints[: fingerprints.index(last.fingerprint) + 1]
        if any(fingerprint not in done for fingerprint in up_to_state):
            return [], {}, {}
        devices = header["devices"]
        states: DeviceStates = {device: {} for device in devices}
        for key, array in arrays.items():  # keys are NUMBER/NAME, as `append` writes them
            number, _, name = key.partition("/")
            states[devices[int(number)]][name] = array
        return [done[fingerprint] for fingerprint in up_to_state], states, header["until"]

    def begin(self, lines: Sequence[JournalLine]) -> None:
        """Start the journal with these lines and no others."""
        with replacing(self._line_file) as temporary:
            temporary.write_text("".join(map(_json_line, lines)), encoding="utf-8")

    def append(self, line: JournalLine, states: DeviceStates, until: Mapping[str, float]) -> None:
        """Record that a file is done: first the state after it, with each device's last time, then its line."""
        header = {"line": _plain(line), "devices": list(states), "until": dict(until)}
        arrays = {
            f"{number}/{name}": np.array(array, order="C")  # safetensors writes the raw memory layout
            for number, state in enumerate(states.values())
            for name, array in state.items()
        }
        with replacing(self._state_file) as temporary:
            temporary.write_bytes(save(arrays, {"after": json.dumps(header)}))
        with self._line_file.open("a", encoding="utf-8") as handle:
            handle.write(_json_line(line))

    def _has_result(self, line: JournalLine) -> bool:
        """Whether the result that a line names is as it was written, or the line names none."""
        if not line.output:
            return True
        path = self._out / line.output
        try:
            status = path.stat()
            if not line.output_sha256:  # a journal of an earlier version: that the file exists is enough
                return True
            is_same_size = status.st_size == line.output_bytes
            return is_same_size and _result_hash(path, status.st_mtime_ns) == line.output_sha256
        except OSError:
            return False


@cache
def _result_hash(path: Path, modified_ns: int) -> str:
    """Return the SHA-256 of a result, read once per run; a new modification time forces another read."""
    return content_hash(path)


class SummaryCache:
    """Summaries of files, kept on disk, so that an interrupted run does not summarise the same files again."""

    def __init__(self, out: Path, settings: Sequence[object]) -> None:
        """Read the summaries made with the same `settings`: a summary depends on these as well as on the file."""
        # "looks" is the name that earlier versions gave to summaries; their files are still read.
        self._path = out / HIDDEN / f"looks-{hashlib.sha256(repr(settings).encode()).hexdigest()[:8]}"
        records = (_with_field_names(json.loads(text)) for text in _complete_lines(self._path))
        summaries = [convert(record, FileSummary, self._path) for record in records]
        self.known = {summary.name: summary for summary in summaries}
        with replacing(self._path) as temporary:  # drops superseded and incomplete lines
            temporary.write_text("".join(map(_json_line, self.known.values())), encoding="utf-8")

    def add(self, summaries: Sequence[FileSummary]) -> None:
        """Store the summaries of files that could be read."""
        with self._path.open("a", encoding="utf-8") as handle:
            handle.write("".join(_json_line(summary) for summary in summaries if not summary.error))


def _complete_lines(path: Path) -> list[str]:
    """Read the lines that end with a line break: a kill may have cut off the last one. Empty if there is no file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def _json_line(record: JournalLine | FileSummary) -> str:
    return json.dumps(_plain(record)) + "\n"


def _plain(record: JournalLine | FileSummary) -> dict[str, Any]:
    """Convert a record to plain values, under the keys on disk (`JOURNAL_KEYS`)."""
    return asdict(record, dict_factory=lambda pairs: {JOURNAL_KEYS.get(key, key): value for key, value in pairs})


def _parse_line(record: dict[str, Any], where: Path) -> JournalLine:
    """Read a line of a journal from its plain values; error messages begin with `where`."""
    named = _with_field_names(record)
    return convert({**named, "summary": _with_field_names(named["summary"])}, JournalLine, where)


def _with_field_names(record: dict[str, Any]) -> dict[str, Any]:
    """Rename keys on disk to the fields of our records, the inverse of `JOURNAL_KEYS`."""
    fields = {key: name for name, key in JOURNAL_KEYS.items()}
    return {fields.get(key, key): value for key, value in record.items()}
