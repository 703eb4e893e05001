"""A calibrator is scaling and a plan: raw readings in, calibrated readings and flags out.

Made by `training`, described by `manifest`, stored by `bundle`. Predicting needs NumPy and polars only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.calibrator import bundle, manifest
from scare.calibrator.plan import Plan, run
from scare.data.quality import Flag, QualitySettings, usable_values
from scare.data.readings import FLAGS, Channel, Readings
from scare.errors import DataError
from scare.windowing.ring import Ring
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import GapPolicy, Grid, lay, row_flags

CALIBRATED = "calibrated"
CHUNK = 512  # windows computed at once: few enough to stay in a core's cache


@dataclass(frozen=True)
class Sample:
    """Scaled windows as the plan sees them [n, window, channels], each with a number in the target's unit [n]."""

    windows: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True)
class Calibrator:
    """Everything needed to calibrate readings of these channels.

    `golden` windows carry the outputs the plan gave when it was made, `validation` windows the reference's
    values. `facts` say where it came from (model, preset, seed, data, scores).
    """

    plan: Plan
    scaling: Scaling
    channels: tuple[Channel, ...]
    target: Channel
    step_seconds: float
    policy: GapPolicy
    quality: QualitySettings
    golden: Sample
    validation: Sample
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def window(self) -> int:
        """Rows in a window."""
        return self.plan.window

    def predict(self, readings: Readings) -> pl.DataFrame:
        """The rows of one device with `calibrated` (null where there is none) and `flags`."""
        calibrated, flags = self.stream(readings.device).push_many(readings.times, self.select(readings))
        return readings.frame.with_columns(
            pl.Series(CALIBRATED, calibrated).fill_nan(None), pl.Series(FLAGS, readings.flags | flags)
        )

    def predict_windows(self, scaled: np.ndarray) -> np.ndarray:
        """Calibrated values, in the target's unit, of scaled windows [n, window, channels]: [n]."""
        parts = [run(self.plan, scaled[start : start + CHUNK]) for start in range(0, len(scaled), CHUNK)]
        return self.unscale(np.concatenate(parts) if parts else np.empty(0))

    def predict_one(self, window: np.ndarray, device: str = "") -> float:
        """The calibrated value at the newest row of one raw window [window, channels]; NaN in, NaN out."""
        if window.shape != (self.window, len(self.channels)):
            raise DataError(f"a window here has shape {(self.window, len(self.channels))}, not {window.shape}")
        usable, _ = usable_values(window, self.channels, self.quality)
        if not np.isfinite(usable).all():
            return float("nan")
        affine = self.scaling.known(device) or self.scaling.fleet
        return float(self.predict_windows(affine.apply(usable)[None].astype(np.float32))[0])

    def stream(self, device: str = "") -> "Stream":
        """A calibration of one device fed chunk by chunk."""
        return Stream(self, device)

    def live(self, device: str = "") -> "Live":
        """A calibration of one device fed reading by reading."""
        return Live(self, device)

    def select(self, readings: Readings) -> np.ndarray:
        """The values of this calibrator's channels, in its order, [rows, channels]."""
        names = [channel.name for channel in readings.channels]
        missing = [channel.name for channel in self.channels if channel.name not in names]
        if missing:
            raise DataError(f"{readings.device}: this calibrator needs {', '.join(missing)}; there are {', '.join(names)}")
        return readings.values[:, [names.index(channel.name) for channel in self.channels]]

    def unscale(self, outputs: np.ndarray) -> np.ndarray:
        """The plan's outputs [n] in the target's unit."""
        return self.scaling.target.invert(outputs.astype(np.float64)[:, None])[:, 0]

    def with_facts(self, **facts: Any) -> "Calibrator":
        """The same calibrator with facts added."""
        return replace(self, facts={**self.facts, **facts})

    def save(self, path: Path | str) -> Path:
        """Write a `.scare` file."""
        return bundle.write(Path(path), *manifest.describe(self))

    @staticmethod
    def load(path: Path | str) -> "Calibrator":
        """Read a `.scare` file; a bad one is refused with the reason."""
        with bundle.refusing(Path(path)):
            parts = manifest.restore(*bundle.read(Path(path)))
            samples = {name: Sample(*parts.pop(name)) for name in ("golden", "validation")}
            return Calibrator(**parts, **samples)


class _Settling:
    """Finds the scaling of one device: known, or its own after its first `settle` real rows."""

    def __init__(self, scaling: Scaling, device: str) -> None:
        self._scaling, self._first = scaling, [np.empty((0, len(scaling.fleet.center)))]
        self.affine = scaling.known(device)

    def see(self, rows: np.ndarray) -> int:
        """Take real rows in order; the index of the row that settles the scaling, or their number."""
        if self.affine is not None:
            return 0
        missing = self._scaling.settle - sum(map(len, self._first))
        self._first.append(rows[:missing])
        if len(rows) < missing:
            return len(rows)
        self.affine = self._scaling.own(np.concatenate(self._first))
        return missing - 1


class Stream:
    """One device's calibration, chunk by chunk: chunks of any size give what the whole would."""

    def __init__(self, calibrator: Calibrator, device: str) -> None:
        self._calibrator, self._settling = calibrator, _Settling(calibrator.scaling, device)
        self._history: Grid | None = None

    def push_many(self, times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Calibrated values (NaN where there is none) and flags of rows (`times` in seconds), [rows] each."""
        calibrator = self._calibrator
        values, flags = usable_values(values, calibrator.channels, calibrator.quality)
        grid = lay(times, values, calibrator.step_seconds, calibrator.window, calibrator.policy, self._history)
        self._history = grid.tail()
        usable = grid.usable(calibrator.policy)
        flags |= row_flags(grid, usable)
        real = np.flatnonzero((grid.slots >= 0) & grid.real[grid.slots])
        known = self._settling.affine is not None
        settled = self._settling.see(values[real])
        rows = real[usable[grid.slots[real]]]
        border = 0 if known else (real[settled] if settled < len(real) else len(times))
        calibrated = np.full(len(times), np.nan)
        for part, affine in ((rows[rows < border], calibrator.scaling.fleet), (rows[rows >= border], self._settling.affine)):
            if len(part):
                calibrated[part] = self._calibrate(grid, grid.slots[part], affine)
        flags[:border] |= np.where(np.isfinite(calibrated[:border]), Flag.UNSETTLED, 0).astype(np.uint32)
        return calibrated, flags

    def _calibrate(self, grid: Grid, ends: np.ndarray, affine: Affine | None) -> np.ndarray:
        assert affine is not None
        scaled = replace(grid, values=affine.apply(grid.values).astype(np.float32))
        chunks = [ends[start : start + CHUNK] for start in range(0, len(ends), CHUNK)]
        return self._calibrator.unscale(
            np.concatenate([run(self._calibrator.plan, scaled.windows(chunk)) for chunk in chunks])
        )


class Live:
    """One device's calibration, reading by reading, in the memory of one window."""

    def __init__(self, calibrator: Calibrator, device: str) -> None:
        self._calibrator, self._settling = calibrator, _Settling(calibrator.scaling, device)
        self._ring = Ring(calibrator.window, len(calibrator.channels), calibrator.step_seconds, calibrator.policy)

    def push(self, time: float, row: np.ndarray) -> tuple[float, Flag]:
        """The calibrated value of the reading at `time` (seconds) and its flags; NaN where there is none."""
        calibrator = self._calibrator
        usable, flags = usable_values(np.asarray(row, float)[None], calibrator.channels, calibrator.quality)
        reason = self._ring.push(time, usable[0])
        flag = Flag(int(flags[0])) | reason
        if not reason & (Flag.EARLY | Flag.MISSING):
            self._settling.see(usable)
        if reason:
            return float("nan"), flag
        affine = self._settling.affine
        if affine is None:
            affine, flag = calibrator.scaling.fleet, flag | Flag.UNSETTLED
        scaled = affine.apply(self._ring.window())[None].astype(np.float32)
        return float(calibrator.predict_windows(scaled)[0]), flag
