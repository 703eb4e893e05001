"""Training examples: windows with a target, kept as indices into one long scaled series.

Windows overlap, so none is stored: a window is the index of its newest slot. A network with a fixed basis reads a few
features of each window instead, computed once if they fit in `STORED_BYTES`. Made by `inputs`, for `training`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scare.data.readings import Readings
from scare.data.split import FEWEST_READINGS
from scare.errors import DataError
from scare.windowing.inputs import Inputs, WindowStream
from scare.windowing.scaling import NO_EFFECT, DeviceEffect
from scare.windowing.windows import longest_run, make_grid
from scare.words import plural

STORED_BYTES = 1 << 30  # most memory for features computed in advance
BATCH = 8192  # windows turned into features at once


@dataclass(frozen=True)
class Examples:
    """n windows with targets. Window i is rows ends[i] − window + 1 … ends[i] of `series`."""

    window: int  # rows
    series: np.ndarray  # [slots, channels], scaled: the grids of all devices one after another
    ends: np.ndarray  # [n] the newest slot of each window
    targets: np.ndarray  # [n], scaled
    times: np.ndarray  # [n] seconds
    devices: np.ndarray  # [n] indices into `names`
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ends)

    def windows(self, which: np.ndarray) -> np.ndarray:
        """Gather the scaled windows with the indices `which`: [len(which), window, channels]."""
        return self.series[self.ends[which][:, None] + np.arange(1 - self.window, 1)]

    def without_effects(self, effects: Mapping[str, DeviceEffect]) -> "Examples":
        """Subtract each device's effect from its targets, because a plan does not know the device of a window."""
        if not effects:
            return self
        effect_of_name = np.array([effects.get(name, NO_EFFECT) for name in self.names]).reshape(-1, 2)
        offset, slope = effect_of_name[self.devices].T  # [n] each
        effect = offset + slope * self.series[self.ends, 0]
        return replace(self, targets=(self.targets - effect).astype(np.float32))

    def spread(self, count: int) -> np.ndarray:
        """Return the indices of at most `count` examples, evenly spread over all of them."""
        return np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).astype(int))

    def take(self, which: np.ndarray) -> "Examples":
        """Select the examples with the indices `which`."""
        arrays = {name: getattr(self, name)[which] for name in ("ends", "targets", "times", "devices")}
        return replace(self, **arrays)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the arrays, which identifies the data that a calibrator was made from."""
        digest = hashlib.sha256()
        for array in (self.series, self.ends, self.targets):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def make_examples(readings: Sequence[Readings], inputs: Inputs) -> Examples:
    """Collect the usable windows of these readings whose newest row has a reference."""
    series = [np.empty((0, len(inputs.channels)), np.float32)]
    parts = [np.empty((4, 0))]  # ends, targets, times and devices
    start = 0  # slots of the series so far, which the indices of the next segment follow
    names = tuple(dict.fromkeys(box.device for box in readings))
    for box in readings:
        for segment in WindowStream(inputs, box.device).segments(box.times, inputs.select(box)):
            has_target = np.isfinite(box.targets[segment.rows])
            rows = segment.rows[has_target]
            devices = np.full(len(rows), names.index(box.device))
            series.append(segment.grid.values)
            parts.append(np.stack([segment.ends[has_target] + start, box.targets[rows], box.times[rows], devices]))
            start += len(segment.grid.values)
    ends, targets, times, devices = np.concatenate(parts, axis=1)
    return Examples(
        inputs.window,
        np.concatenate(series),
        ends.astype(np.int64),
        inputs.scaling.target.apply(targets[:, None])[:, 0].astype(np.float32),
        times,
        devices.astype(np.int64),
        names,
    )


class DesignMatrix(NamedTuple):
    """Features and targets for a closed-form fit (ridge regression) or for its selection."""

    features: np.ndarray  # [n, rows, channels]: rows of a window, or its projections onto a basis
    targets: np.ndarray  # [n], scaled
    times: np.ndarray  # [n] seconds
    devices: np.ndarray  # [n] indices into `names`
    names: tuple[str, ...]


def design_matrix(examples: Examples, basis: np.ndarray | None, most: int | None = None) -> DesignMatrix:
    """Make the design matrix of at most `most` evenly spread examples (default: as many as can be stored).

    Its features are the windows or, with a `basis` [window, rows], the projections of the windows onto it.
    """
    which = examples.spread(most or storable(examples, basis))
    chosen = examples.take(which)
    return DesignMatrix(features(examples, which, basis), chosen.targets, chosen.times, chosen.devices, examples.names)


def features(examples: Examples, which: np.ndarray, basis: np.ndarray | None) -> np.ndarray:
    """Compute a network's inputs for the examples `which` [n]: [n, rows, channels].

    They are the windows or, with a `basis` [window, rows], the projections of the windows onto it.
    """
    if basis is None:
        return examples.windows(which)
    matrix = basis.T.astype(np.float32)
    out = np.empty((len(which), len(matrix), examples.series.shape[1]), np.float32)
    for start in range(0, len(which), BATCH):
        np.matmul(matrix, examples.windows(which[start : start + BATCH]), out=out[start : start + BATCH])
    return out


def storable(examples: Examples, basis: np.ndarray | None) -> int:
    """Count how many examples have float32 `features` that fit in `STORED_BYTES`."""
    rows = examples.window if basis is None else basis.shape[1]
    bytes_of_example = 4 * rows * examples.series.shape[1]
    return STORED_BYTES // bytes_of_example


def check_examples(examples: Examples, readings: Sequence[Readings], inputs: Inputs, part: str) -> None:
    """Raise a DataError with the reason if `part` of the data, such as "validation", has no usable window."""
    if len(examples):
        return
    rows = sum(map(len, readings))
    longest = 0  # the longest run of steps with a usable row
    step, window, policy = inputs.step_seconds, inputs.window, inputs.policy
    for box in filter(len, readings):
        grid = make_grid(box.times, inputs.usable(box), step, window, policy, None)
        longest = max(longest, longest_run(grid.real))
    needed = policy.rows_checked(window)
    if longest >= needed:
        raise DataError(
            f"{part}: sensor and reference do not overlap, so no window of {inputs.window} readings"
            " ends in a row with a reference"
        )
    raise DataError(
        f"{part}: too few rows for one window: {rows} rows, the longest run without a gap is {longest} readings,"
        f" and a window of {inputs.window} needs {needed}; use --window {max(longest, FEWEST_READINGS)},"
        f" or data with {plural(needed, 'reading')} without a gap"
    )
