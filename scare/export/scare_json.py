"""`scare.json`: what an export is, written beside its golden vectors and read back by those who run it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.calibrator.bundle import with_current_keys
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.calibrator.parity import (
    FLOAT32_TOLERANCE,
    INTEGER_TOLERANCE,
    INTEGER_WEIGHTS_TOLERANCE,
    ROUNDINGS,
    TIE,
    deviation,
    hash_steps,
    magnitudes,
    nearest_to_tie,
    rounding,
)
from scare.calibrator.plan import Plan, run
from scare.data.readings import Channel
from scare.errors import DataError
from scare.records import convert, load_json
from scare.windowing.training_range import TrainingRange

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
    training_range: TrainingRange | None = None
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
    return convert(with_current_keys(load_json(path)), Description, path, DataError, unknown="ignore")


def _scaled(channel: Channel, center: float, scale: float) -> ScaledChannel:
    low, high = (limit if np.isfinite(limit) else None for limit in (channel.low, channel.high))
    return ScaledChannel(channel.name, channel.unit, low, high, float(center), float(scale))


# Golden vectors: windows that an export carries, the results it must give for them, and how far off each may be.
#
# Results are in double precision, tolerances by the rule of `parity`. Comes from `calibrator`; every target writes
# them, `board.verifying` runs them.


GOLDEN = "golden.safetensors"
MOST_NUMBERS = 1 << 15  # in all golden windows of an export, but one window always


@dataclass(frozen=True)
class GoldenVectors:
    """Scaled windows [n, window, channels], results in the target's unit [n], how far off each may be [n].

    `ties` [n] says which have a hash activation, or a choice of a branch, that is as good as undecided; `tokens` are
    hashed in all of them.
    """

    windows: np.ndarray
    results: np.ndarray
    tolerances: np.ndarray
    ties: np.ndarray
    tokens: int = 0

    def as_bytes(self, model: str) -> bytes:
        """A safetensors file for the model of this name."""
        real = {"windows": self.windows, "results": self.results, "allowed": self.tolerances}
        whole = {"ties": self.ties.astype(np.uint8), "tokens": np.array([self.tokens])}
        return save({**real, **whole}, {"model": model})

    @staticmethod
    def read(path: Path) -> "GoldenVectors":
        """From such a file."""
        try:
            with safe_open(path, "numpy") as file:
                parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            windows, results, tolerances = (parts[name] for name in ("windows", "results", "allowed"))
            ties, tokens = parts["ties"].astype(bool), int(parts["tokens"][0])
            return GoldenVectors(windows, results, tolerances, ties, tokens)
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path}: golden vectors cannot be read from it; export again ({error})") from error


def golden_vectors(
    calibrator: Calibrator, integer_weights: bool = False, integer_plan: Plan | None = None
) -> GoldenVectors:
    """What an export of a calibrator must give for its golden windows.

    Where a plan in integers is what was exported, its results are exact: only the target's unit is left to round.
    """
    plan = calibrator.plan
    most = max(1, MOST_NUMBERS // (plan.window * plan.channels))
    windows = calibrator.golden.windows[:most].astype(np.float32)
    tokens = sum(plan.shapes[step.output][0] for step in hash_steps(plan)) * len(windows)
    exact = run(integer_plan or plan.astype(np.float64), windows if integer_plan else windows.astype(np.float64))
    target = calibrator.inputs.scaling.target
    results, scale = target.invert(exact.astype(np.float64)[:, None])[:, 0], float(target.scale[0])
    spread = deviation(calibrator) * scale
    sizes = magnitudes(results, np.abs(exact) * scale, spread)
    if integer_plan:
        return GoldenVectors(windows, results, INTEGER_TOLERANCE * sizes, np.zeros(len(windows), bool), tokens)
    tolerances = np.maximum(FLOAT32_TOLERANCE * sizes, ROUNDINGS * rounding(calibrator) * scale)
    tolerances = np.maximum(tolerances, INTEGER_WEIGHTS_TOLERANCE * spread * integer_weights)
    return GoldenVectors(windows, results, tolerances, nearest_to_tie(plan, windows) < TIE, tokens)


def reference_rmse(calibrator: Calibrator, values: np.ndarray) -> float:
    """The root mean squared error of values [n] to the reference on the file's validation windows; NaN without any."""
    return float(np.sqrt(np.mean((values - calibrator.validation.numbers) ** 2))) if len(values) else float("nan")
