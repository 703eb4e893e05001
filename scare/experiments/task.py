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

from scare.data.readings import Channel, Readings
from scare.data.split import Split
from scare.records import read_json

TASK = "task.json"


@dataclass(frozen=True)
class ReadingsFingerprint:
    """What identifies the readings of one device in a part."""

    device: str
    site: str
    channels: tuple[Channel, ...]
    reference: Channel
    rows: int
    sha256: str


@dataclass(frozen=True)
class Task:
    """How the readings were split, which they are (by part), and facts that every fitted calibrator records."""

    how: str
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    readings: Mapping[str, tuple[ReadingsFingerprint, ...]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_task(folder: Path) -> Task:
    """Read the task of the study in a folder."""
    return read_json(folder / TASK, Task)


def upgrade_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A result row with the current keys: earlier versions wrote `contender` for `method`.

    Their ablation tables had `method` for what is now `change`.

    >>> upgrade_row({"contender": "exp-1", "method": "no patching"})
    {'method': 'exp-1', 'change': 'no patching'}
    """
    renamed = {"contender": "method", "method": "change"} if "contender" in row else {}
    return {renamed.get(name, name): value for name, value in row.items()}


def fingerprint(split: Split) -> dict[str, list[dict[str, Any]]]:
    """The fingerprints of the readings of each part, as JSON holds them."""
    return {part: [_fingerprint(one) for one in readings] for part, readings in split.parts.items()}


def _fingerprint(readings: Readings) -> dict[str, Any]:
    digest = hashlib.sha256()
    for array in (readings.times, readings.values, readings.targets):
        digest.update(np.ascontiguousarray(array).tobytes())
    assert readings.reference is not None
    return {
        "device": readings.device,
        "site": readings.site,
        "channels": [_without_infinity(channel) for channel in readings.channels],
        "reference": _without_infinity(readings.reference),
        "rows": len(readings),
        "sha256": digest.hexdigest(),
    }


def _without_infinity(channel: Channel) -> dict[str, Any]:
    """A channel as JSON can hold it."""
    return {name: value for name, value in asdict(channel).items() if value not in (inf, -inf)}
