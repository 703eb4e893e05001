"""Windows to try a model on: those it was checked with, the strangest there can be, and any others."""

from collections.abc import Iterator

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.windowing.feeding import Inputs

LARGE = (1.0, 10.0, 1e4, 1e30)  # scaled: a spread is 1
SEED = 20_240_229


def trial_windows(calibrator: Calibrator, count: int) -> np.ndarray:
    """So many scaled windows [n, window, channels]: strange, golden, of validation, then random ones."""
    window, channels = calibrator.window, len(calibrator.inputs.channels)
    known = (strange_windows(calibrator.inputs), calibrator.golden.windows, calibrator.validation.windows)
    found = np.concatenate([windows.astype(np.float32) for windows in known])[:count]
    random = np.random.default_rng(SEED)
    spreads = random.choice([0.1, 1.0, 5.0], (count - len(found), 1, 1))
    steps = random.normal(size=(count - len(found), window, channels)) * spreads
    walks = np.cumsum(steps, axis=1) / np.sqrt(window)
    kind = random.random((len(steps), 1, 1)) < 0.5
    return np.concatenate([found, np.where(kind, walks, steps).astype(np.float32)])


def strange_windows(inputs: Inputs) -> np.ndarray:
    """Zeros, constants, the ends of the valid range, steps, combs, spikes, and what is not a number."""
    rows = np.arange(inputs.window, dtype=np.float32)[:, None]
    shapes = [
        np.ones_like(rows),
        (rows >= inputs.window // 2).astype(np.float32),
        (rows == inputs.window - 1).astype(np.float32),
        1 - 2 * (rows % 2),
        2 * rows / max(inputs.window - 1, 1) - 1,
    ]
    levels = [0.0, *(sign * size for size in LARGE for sign in (1, -1)), np.nan, np.inf, -np.inf]
    ones = np.ones((inputs.window, len(inputs.channels)), np.float32)
    with np.errstate(invalid="ignore"):
        drawn = [np.float32(level) * shape * ones for level in levels for shape in shapes]
    return np.stack([*drawn, *(ones * end for end in _ends(inputs))])


def _ends(inputs: Inputs) -> Iterator[np.ndarray]:
    """The lowest and the highest valid reading, scaled as the fleet is; no limit: a large number."""
    largest = np.finfo(np.float32).max
    for side in ("low", "high"):
        limits = np.clip([getattr(channel, side) for channel in inputs.channels], -largest, largest)
        with np.errstate(over="ignore"):
            yield inputs.scaling.fleet.apply(limits[None])[0].clip(-largest, largest).astype(np.float32)
