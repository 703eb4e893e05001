"""The task of a study, `task.json`: which readings are compared, how they were split, what is told of the results."""

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
class Described:
    """What identifies the readings of one device in a part."""

    device: str
    site: str
    channels: tuple[Channel, ...]
    reference: Channel
    rows: int
    sha256: str


@dataclass(frozen=True)
class Task:
    """What is compared: how the readings were split, which they are, and what is told of every calibrator."""

    how: str
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    readings: Mapping[str, tuple[Described, ...]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_task(folder: Path) -> Task:
    """The task of a study."""
    return read_json(folder / TASK, Task)


def describe(split: Split) -> dict[str, list[dict[str, Any]]]:
    """What identifies the readings of each part."""
    return {part: [_describe_readings(one) for one in readings] for part, readings in split.parts.items()}


def _describe_readings(readings: Readings) -> dict[str, Any]:
    digest = hashlib.sha256()
    for array in (readings.times, readings.values, readings.targets):
        digest.update(np.ascontiguousarray(array).tobytes())
    assert readings.reference is not None
    return {
        "device": readings.device,
        "site": readings.site,
        "channels": [_finite(channel) for channel in readings.channels],
        "reference": _finite(readings.reference),
        "rows": len(readings),
        "sha256": digest.hexdigest(),
    }


def _finite(channel: Channel) -> dict[str, Any]:
    """A channel as JSON can hold it: no infinite limits."""
    return {name: value for name, value in asdict(channel).items() if value not in (inf, -inf)}
