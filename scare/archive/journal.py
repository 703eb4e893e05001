"""What is done of a series, on disk: a line for each file, and the state of its devices after the last one.

    OUT/.scare/looks-…            a look at each file, as it was taken
    OUT/.scare/KEY.jsonl          a line for each file that is done, in order
    OUT/.scare/KEY.safetensors    the streams' state after the last of them, with that file's line and chain

A file's result takes its name first, then the state, then the line: whatever a kill leaves out is done again, to the
same bytes, and replaces what is there.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.archive.looking import Look
from scare.files import replacing
from scare.records import convert

KEPT = ".scare"  # the folder, hidden from what reads the data set
State = dict[str, dict[str, np.ndarray]]  # by device


@dataclass(frozen=True)
class Counts:
    """Rows of a device in a file, how many have a value, how many carry each flag (of those that any carries)."""

    rows: int = 0
    calibrated: int = 0
    flags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """What became of a file: by device the counts, or the reason why it was left out."""

    look: Look
    chain: str = ""
    counts: Mapping[str, Counts] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0
    why: str = ""  # nothing of it could be used


class Journal:
    """The lines and the state of one series."""

    def __init__(self, out: Path, key: str) -> None:
        self._lines, self._state = out / KEPT / f"{key}.jsonl", out / KEPT / f"{key}.safetensors"
        self._out = out

    def lines(self) -> list[Line]:
        """The lines that are whole, whose results are there."""
        lines = [convert(json.loads(text), Line, self._lines) for text in _whole_lines(self._lines)]
        there = [line for line in lines if not line.output or (self._out / line.output).exists()]
        return list({line.look.name: line for line in there}.values())

    def resume(self, chains: Sequence[str]) -> tuple[list[Line], State, dict[str, float]]:
        """Lines of the files that need not be done again, the state after them, and each device's last time."""
        done = {line.chain: line for line in self.lines()}
        try:
            with safe_open(self._state, "numpy") as file:
                words = json.loads(file.metadata()["after"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        except (OSError, SafetensorError):
            return [], {}, {}
        last = convert(words["line"], Line, self._state)
        if last.chain in chains and (not last.output or (self._out / last.output).exists()):
            done[last.chain] = last
        before = chains[: chains.index(last.chain) + 1] if last.chain in chains else ()
        if not before or any(chain not in done for chain in before):
            return [], {}, {}
        state: State = {device: {} for device in words["devices"]}
        for name, array in arrays.items():
            number, _, kept = name.partition("/")
            state[words["devices"][int(number)]][kept] = array
        return [done[chain] for chain in before], state, words["until"]

    def begin(self, lines: Sequence[Line]) -> None:
        """Keep these lines and no others."""
        with replacing(self._lines) as temporary:
            temporary.write_text("".join(_written(line) for line in lines), encoding="utf-8")

    def append(self, line: Line, state: State, until: Mapping[str, float]) -> None:
        """A file is done: the state after it, then its line."""
        words = {"line": asdict(line), "devices": list(state), "until": dict(until)}
        arrays = {
            f"{number}/{name}": np.array(one, order="C")  # safetensors writes memory as it lies
            for number, kept in enumerate(state.values())
            for name, one in kept.items()
        }
        with replacing(self._state) as temporary:
            temporary.write_bytes(save(arrays, {"after": json.dumps(words)}))
        with self._lines.open("a", encoding="utf-8") as handle:
            handle.write(_written(line))


class Looks:
    """Looks at files that were taken in any run, so that a run that is killed while it looks around goes on there."""

    def __init__(self, out: Path, terms: Sequence[object]) -> None:
        """`terms` are what a look depends on besides the file."""
        self._path = out / KEPT / f"looks-{hashlib.sha256(repr(terms).encode()).hexdigest()[:8]}"
        found = _whole_lines(self._path)
        self.known = {look.name: look for text in found if (look := convert(json.loads(text), Look, self._path))}
        with replacing(self._path) as temporary:  # without those that were replaced, or not written to the end
            temporary.write_text("".join(_written(look) for look in self.known.values()), encoding="utf-8")

    def keep(self, looks: Sequence[Look]) -> None:
        """Remember looks at files that could be read."""
        with self._path.open("a", encoding="utf-8") as handle:
            handle.write("".join(_written(look) for look in looks if not look.why))


def _whole_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def _written(line: Line | Look) -> str:
    return json.dumps(asdict(line)) + "\n"
