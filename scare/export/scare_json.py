"""`scare.json` and golden vectors: the description of an export, and the results that it must return.

    package.py -> scare.json, golden.safetensors -> board/build.py, board/verify_export.py

Golden vectors are windows with their results in double precision and a tolerance each, by the rules of
`calibrator/parity_tolerance.py`.
"""

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
from scare.calibrator.parity_tolerance import (
    FLOAT32_TOLERANCE,
    INTEGER_TOLERANCE,
    INTEGER_WEIGHTS_TOLERANCE,
    ROUNDINGS,
    TIE,
    coded_steps,
    deviation,
    magnitudes,
    nearest_to_tie,
    outputs_and_codes,
    rounding,
)
from scare.calibrator.plan import Plan, run
from scare.data.readings import Channel
from scare.errors import DataError
from scare.export.descriptor import scaling_of
from scare.schema import convert, load_json
from scare.windowing.training_range import TrainingRange

SCARE_JSON, GOLDEN = "scare.json", "golden.safetensors"
MOST_NUMBERS = 1 << 15  # in all golden windows of an export; at least one window


@dataclass(frozen=True)
class KeptValue:
    """A value that can be read from scratch memory after a run: offset in bytes, NumPy type, shape."""

    offset: int
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape)) * np.dtype(self.kind).itemsize

    def decode(self, contents: bytearray) -> np.ndarray:
        """Decode the concatenated bytes of n runs to an array [n, …]."""
        return np.frombuffer(contents, self.kind).reshape(-1, *self.shape)


@dataclass(frozen=True)
class ScaledChannel:
    """A channel, its valid range (None: no limit), and its scaling: `(reading - center) / scale`."""

    name: str
    unit: str
    low: float | None
    high: float | None
    center: float
    scale: float


@dataclass(frozen=True)
class FixedPointError:
    """Results of fixed point minus those of float32 on the windows that a file keeps, in the target's unit.

    `mean` and `sd` are those of the differences; `deviation` is the target's standard deviation, as a scale for them.
    """

    windows: int
    mean: float
    sd: float
    deviation: float

    @staticmethod
    def of(calibrator: Calibrator, differences: np.ndarray) -> "FixedPointError":
        """Summarise the differences [n] between fixed point and float32, in the target's unit."""
        target_sd = deviation(calibrator) * float(calibrator.inputs.scaling.target.scale[0])
        return FixedPointError(len(differences), float(differences.mean()), float(differences.std()), target_sd)

    def __str__(self) -> str:
        """Return mean and sd in the target's unit, and as shares of the target's sd."""
        shares = (f"{100 * number / self.deviation:.2g} %" for number in (abs(self.mean), self.sd))
        return f"mean {self.mean:+.2g}, sd {self.sd:.2g} ({' and '.join(shares)} of the target's standard deviation)"


@dataclass(frozen=True)
class Description:
    """The content of `scare.json`; paths are relative to its folder.

    `scare` is the version that wrote it, `device` the device whose scaling it has (empty: the fleet), `sha256` has the
    digests of the files that are run. `intervals`, `training_range` and `floor` are for callers of a model file, which
    does not apply them itself. `fixed_point` is how far fixed point is from float32, where that is known.
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
    kept: Mapping[str, KeptValue] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    intervals: Intervals | None = None
    training_range: TrainingRange | None = None
    floor: float | None = None
    fixed_point: FixedPointError | None = None

    def as_text(self) -> str:
        """Encode as JSON, the text of `scare.json`."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class ExportFolder:
    """An export read back: the folder of its `scare.json`, and the description."""

    folder: Path
    description: Description

    @property
    def model(self) -> Path:
        """The file that is run."""
        return self.folder / self.description.model

    @property
    def golden(self) -> Path:
        """The file of golden vectors."""
        return self.folder / self.description.golden

    @property
    def runtime(self) -> Path:
        """The folder of the C runtime; the export's folder if the target is not in C."""
        return self.folder / self.description.runtime

    def changed(self) -> list[str]:
        """List the files that changed since the export, by their digests."""
        changed = []
        for name, digest in self.description.sha256.items():
            path = self.folder / name
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                changed.append(name)
        return changed


def describe_channels(calibrator: Calibrator, device: str) -> tuple[ScaledChannel, ...]:
    """Describe the input channels with the scaling of a device, or (empty name) of the fleet."""
    inputs = calibrator.inputs
    affine = scaling_of(inputs.scaling, device)
    return tuple(map(_scaled, inputs.channels, affine.center, affine.scale))


def describe_target(calibrator: Calibrator) -> ScaledChannel:
    """Describe the target with its scaling."""
    target = calibrator.inputs.scaling.target
    return _scaled(calibrator.target, target.center[0], target.scale[0])


def find_exports(root: Path, called: Path | None = None) -> list[ExportFolder]:
    """Find every export in a folder: several models may share the folder of a build system.

    `called` is the path that messages show instead, for a folder unpacked from a zip.
    """
    exports = []
    for path in sorted(root.rglob(SCARE_JSON)):
        content = with_current_keys(load_json(path))
        exports.append(ExportFolder(path.parent, convert(content, Description, path, DataError, unknown="ignore")))
    called = called or root
    if not exports:
        raise DataError(
            f"{called} holds no {SCARE_JSON}: it is not an export of scare, or it was made by an old version;"
            " export again"
        )
    for export in exports:
        for path in (export.model, export.golden, export.runtime):
            if not path.resolve().is_relative_to(root.resolve()):
                raise DataError(f"{SCARE_JSON} names {path}, which is not in {called}; export again")
    return exports


@dataclass(frozen=True)
class GoldenVectors:
    """Scaled windows [n, window, channels] with results and tolerances [n] in the target's unit.

    `ties` [n] marks windows in which rounding may decide a hash bit, a comparison in a tree or a choice of branch.
    `tokens` is the total number of hash codes and tree paths in the windows.
    """

    windows: np.ndarray
    results: np.ndarray
    tolerances: np.ndarray
    ties: np.ndarray
    tokens: int = 0

    def as_bytes(self, model: str) -> bytes:
        """Encode as a safetensors file, with the name of the model as metadata."""
        real = {"windows": self.windows, "results": self.results, "allowed": self.tolerances}
        integers = {"ties": self.ties.astype(np.uint8), "tokens": np.array([self.tokens])}
        return save({**real, **integers}, {"model": model})

    @staticmethod
    def read(path: Path) -> "GoldenVectors":
        """Read a file written from `as_bytes`."""
        try:
            with safe_open(path, "numpy") as file:
                parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            windows, results, tolerances = (parts[name] for name in ("windows", "results", "allowed"))
            ties = parts["ties"].astype(bool)
            tokens = int(parts["tokens"][0])
            return GoldenVectors(windows, results, tolerances, ties, tokens)
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path}: golden vectors cannot be read; export again ({error})") from error


def golden_vectors(
    calibrator: Calibrator, integer_weights: bool = False, integer_plan: Plan | None = None
) -> GoldenVectors:
    """Compute the results that an export must return for the calibrator's golden windows, with tolerances.

    With `integer_plan`, a fixed-point plan, results are exact and only the conversion to the target's unit rounds.
    `integer_weights` allows for int8 weights in an otherwise floating-point model.
    """
    plan = calibrator.plan
    most_windows = max(1, MOST_NUMBERS // (plan.window * plan.channels))
    windows = calibrator.golden.windows[:most_windows].astype(np.float32)
    steps_with_codes = coded_steps(plan)
    tokens = 0
    if steps_with_codes:
        _, codes = outputs_and_codes(plan, windows, steps_with_codes)  # of all windows
        tokens = codes.size
    if integer_plan:
        scaled = run(integer_plan, windows).astype(np.float64)
    else:
        scaled = run(plan.astype(np.float64), windows.astype(np.float64))
    target = calibrator.inputs.scaling.target
    results = target.invert(scaled[:, None])[:, 0]
    scale = float(target.scale[0])
    target_sd = deviation(calibrator) * scale
    # A tolerance grows with the numbers that are added up, of which the result may be a small difference.
    sizes = magnitudes(results, np.abs(scaled) * scale, target_sd)
    if integer_plan:
        no_ties = np.zeros(len(windows), bool)  # every runtime computes the same integers
        return GoldenVectors(windows, results, INTEGER_TOLERANCE * sizes, no_ties, tokens)
    tolerances = np.maximum(FLOAT32_TOLERANCE * sizes, ROUNDINGS * rounding(calibrator) * scale)
    if integer_weights:
        tolerances = np.maximum(tolerances, INTEGER_WEIGHTS_TOLERANCE * target_sd)
    return GoldenVectors(windows, results, tolerances, nearest_to_tie(plan, windows) < TIE, tokens)


def reference_rmse(calibrator: Calibrator, values: np.ndarray) -> float:
    """Return the RMSE of the values [n] of the file's validation windows to the reference; NaN without windows."""
    return float(np.sqrt(np.mean((values - calibrator.validation.numbers) ** 2))) if len(values) else float("nan")


def _scaled(channel: Channel, center: float, scale: float) -> ScaledChannel:
    """Describe a channel; JSON has no infinity, so an infinite limit becomes None."""
    low, high = (limit if np.isfinite(limit) else None for limit in (channel.low, channel.high))
    return ScaledChannel(channel.name, channel.unit, low, high, float(center), float(scale))
