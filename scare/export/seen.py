"""What a calibrator has seen: the readings of its own windows, for examples that need plausible ones."""

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.export.descriptor import Descriptor


def seen_ranges(calibrator: Calibrator, device: str, descriptor: Descriptor) -> list[tuple[float, float]]:
    """The least and the largest valid reading of each channel in the calibrator's windows; 0 where there is none."""
    scaling = calibrator.inputs.scaling
    affine = scaling.devices[device] if device else scaling.fleet
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    values = affine.invert(windows.reshape(-1, windows.shape[-1]).astype(np.float64))
    ranges = []
    for column, channel in zip(values.T, descriptor.channels, strict=True):
        valid = np.clip(column[np.isfinite(column)], channel.low, channel.high).astype(np.float32)
        ranges.append((float(valid.min()), float(valid.max())) if len(valid) else (0.0, 0.0))
    return ranges
