"""`scare.json`: what an export is, written beside its golden vectors and read back by those who run it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.data.readings import Channel
from scare.errors import DataError
from scare.records import convert, load_json
from scare.windowing.validity import Validity

SCARE_JSON = "scare.json"


@dataclass(frozen=True)
class Kept:
    """A value that can be read in scratch memory after a run: bytes from its start, NumPy's name of its numbers."""

    offset: int
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """What it takes in memory."""
        return int(np.prod(self.shape)) * np.dtype(self.kind).itemsize

    def decode(self, contents: bytearray) -> np.ndarray:
        """The numbers of many runs, one after the other, [n, …]."""
        return np.frombuffer(contents, self.kind).reshape(-1, *self.shape)


@dataclass(frozen=True)
class ScaledChannel:
    """A channel, its valid range as far as it has one, and its scaling: `(reading - center) / scale`."""

    name: str
    unit: str
    low: float | None
    high: float | None
    center: float
    scale: float


@dataclass(frozen=True)
class Description:
    """What an export is; paths are seen from the folder that this lies in.

    `scare` is the version that wrote it, `device` whose scaling it has (empty: the fleet's), `sha256` what is run.
    What a model file leaves to its caller is here too: how sure a value is, which readings lie beyond training and how
    they are held, the floor.
    """

    scare: str
    target: str
    arithmetic: str
    name: str
    device: str
    window: int
    step_seconds: float
    channels: tuple[ScaledChannel, ...]
    calibrated: ScaledChannel
    sizes: Mapping[str, Any]
    model: str
    golden: str
    golden_header: str = ""
    runtime: str = ""
    kept: Mapping[str, Kept] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    intervals: Intervals | None = None
    validity: Validity | None = None
    floor: float | None = None

    def as_text(self) -> str:
        """As it is written."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class ExportFolder:
    """An export that was read back: its description, and the folder that it lies in."""

    folder: Path
    description: Description

    @property
    def model(self) -> Path:
        """The file that is run."""
        return self.folder / self.description.model

    @property
    def golden(self) -> Path:
        """Its golden vectors."""
        return self.folder / self.description.golden

    @property
    def runtime(self) -> Path:
        """The folder of the C runtime."""
        return self.folder / self.description.runtime

    def changed(self) -> list[str]:
        """The files that are run and are not those that were exported."""
        return [name for name, known in self.description.sha256.items() if _digest(self.folder / name) != known]


def describe_channels(calibrator: Calibrator, device: str) -> tuple[ScaledChannel, ...]:
    """The channels of a reading, with the scaling of a device or (an empty name) of the fleet."""
    inputs = calibrator.inputs
    affine = inputs.scaling.devices[device] if device else inputs.scaling.fleet
    return tuple(map(_scaled, inputs.channels, affine.center, affine.scale))


def describe_target(calibrator: Calibrator) -> ScaledChannel:
    """What is calibrated."""
    target = calibrator.inputs.scaling.target
    return _scaled(calibrator.target, target.center[0], target.scale[0])


def find_exports(root: Path, called: Path | None = None) -> list[ExportFolder]:
    """Every export in a folder, for which a user has another name if it was unpacked.

    Several models may share the folder of a build system.
    """
    found = [ExportFolder(path.parent, _read(path)) for path in sorted(root.rglob(SCARE_JSON))]
    called = called or root
    if not found:
        raise DataError(f"{called} holds no {SCARE_JSON}: no export of ours, or one of an older version; export again")
    for path in (path for one in found for path in (one.model, one.golden, one.runtime)):
        if not path.resolve().is_relative_to(root.resolve()):
            raise DataError(f"{SCARE_JSON} names {path}, which is not in {called}; export again")
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _read(path: Path) -> Description:
    return convert(load_json(path), Description, path, DataError, unknown="ignore")


def _scaled(channel: Channel, center: float, scale: float) -> ScaledChannel:
    low, high = (limit if np.isfinite(limit) else None for limit in (channel.low, channel.high))
    return ScaledChannel(channel.name, channel.unit, low, high, float(center), float(scale))
