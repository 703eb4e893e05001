"""The task of a study, `task.json`: which readings are compared, how they were split, what its calibrators record.

Imports no JAX, so that `scare score` and the report read the results of a study quickly.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.data.readings import Channel, Readings
from scare.data.split import Split
from scare.schema import read_json

TASK = "task.json"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class ReadingsFingerprint:
    """Identifies the readings of one device in a part of the split."""

    device: str
    site: str
    channels: tuple[Channel, ...]
    reference: Channel
    rows: int
    sha256: str


@dataclass(frozen=True)
class Task:
    """How readings were split, fingerprints of each part's readings, and facts that every fitted calibrator records."""

    how: str
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    readings: Mapping[str, tuple[ReadingsFingerprint, ...]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_task(folder: Path) -> Task:
    """Read the task of the study in a folder."""
    return read_json(folder / TASK, Task)


def read_parts(folder: Path) -> dict[str, list[Readings]]:
    """Read the split readings of a study, by part."""
    task = read_task(folder)
    parts: dict[str, list[Readings]] = {part: [] for part in PARTS}
    for part, readings in parts.items():
        for number, known in enumerate(task.readings[part]):
            frame = pl.read_parquet(folder / "data" / f"{part}-{number}.parquet")
            readings.append(Readings(known.device, frame, known.channels, known.reference, known.site))
    return parts


def upgrade_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the keys of a result row from an earlier version, which wrote `contender` for `method`.

    Its ablation tables had `method` for what is now `change`.

    >>> upgrade_row({"contender": "exp-1", "method": "no patching"})
    {'method': 'exp-1', 'change': 'no patching'}
    """
    renamed = {"contender": "method", "method": "change"} if "contender" in row else {}
    return {renamed.get(name, name): value for name, value in row.items()}


def fingerprint(split: Split) -> dict[str, list[dict[str, Any]]]:
    """Identify the readings of each part: each a `ReadingsFingerprint` as plain values for JSON."""
    parts: dict[str, list[dict[str, Any]]] = {part: [] for part in split.parts}
    for part, readings in split.parts.items():
        for box in readings:
            digest = hashlib.sha256()
            for array in (box.times, box.values, box.targets):
                digest.update(np.ascontiguousarray(array).tobytes())
            assert box.reference is not None  # a split has only readings with a reference
            parts[part].append(
                {
                    "device": box.device,
                    "site": box.site,
                    "channels": [_without_infinity(channel) for channel in box.channels],
                    "reference": _without_infinity(box.reference),
                    "rows": len(box),
                    "sha256": digest.hexdigest(),
                }
            )
    return parts


def _without_infinity(channel: Channel) -> dict[str, Any]:
    """Return a channel for JSON, which has no infinity: limits that are not set are left out."""
    return {name: value for name, value in asdict(channel).items() if value not in (inf, -inf)}
