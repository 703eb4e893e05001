"""What became of an archive: rows, values and flags by device, what was left out and why, the slowest files."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import Any

import polars as pl

from scare.archive.journal import Line
from scare.data.flags import Flag
from scare.files import replacing

MANIFEST = "_manifest.csv"  # what begins with an underscore is no data, to all that read hive folders
SLOWEST = 5
COLUMNS = ("input", "sha256", "output", "device", "rows", "calibrated", "why")


@dataclass
class Summary:
    """Counts that grow line by line, in memory that does not grow with the files that went well."""

    files: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # by device
    calibrated: Counter[str] = field(default_factory=Counter)
    flags: dict[str, Counter[str]] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Count a file that is done."""
        self.files += 1
        for device, counts in line.counts.items():
            self.rows[device] += counts.rows
            self.calibrated[device] += counts.calibrated
            self.flags.setdefault(device, Counter()).update(counts.flags)
        self.left_out += [{"file": line.look.name, "device": one, "why": why} for one, why in line.left_out.items()]
        if line.why:
            self.left_out.append({"file": line.look.name, "device": "", "why": line.why})
        self.slowest = nlargest(SLOWEST, [*self.slowest, (line.seconds, line.look.name)])

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        totals: Counter[str] = sum(self.flags.values(), Counter())
        names = [name for name in Flag.__members__ if totals[name]]
        devices = {
            device: {"rows": rows, "calibrated": self.calibrated[device], "flags": _some(self.flags[device], names)}
            for device, rows in sorted(self.rows.items())
        }
        return {
            "files": self.files,
            "rows": self.rows.total(),
            "calibrated": self.calibrated.total(),
            "flags": _some(totals, names),
            "devices": devices,
            "left_out": self.left_out,
            "slowest": [{"file": name, "seconds": seconds} for seconds, name in self.slowest],
        }


def _some(counts: Counter[str], names: Sequence[str]) -> dict[str, int]:
    return {name: counts[name] for name in names if counts[name]}


def write_manifest(out: Path, lines: Iterable[Line]) -> Path:
    """The table of all files: a line for each device of each, and for what could not be read."""
    rows = [row for line in lines for row in _rows(line)]
    table = pl.DataFrame(
        rows, dict.fromkeys(COLUMNS, pl.String) | {"rows": pl.Int64, "calibrated": pl.Int64}, orient="row"
    )
    with replacing(out / MANIFEST) as temporary:
        table.sort("input", "device").write_csv(temporary)
    return out / MANIFEST


def _rows(line: Line) -> Iterable[tuple[Any, ...]]:
    head = line.look.name, line.look.sha256
    for device, counts in line.counts.items():
        yield *head, line.output, device, counts.rows, counts.calibrated, ""
    for device, why in line.left_out.items():
        yield *head, "", device, None, None, why
    if line.why:
        yield *head, "", "", None, None, line.why
