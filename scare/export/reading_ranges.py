"""The range of each channel in a calibrator's own windows, for examples that make plausible readings up."""

import numpy as np

from scare.export.compiled import Compiled


def reading_ranges(compiled: Compiled) -> list[tuple[float, float]]:
    """The least and the largest valid reading of each channel in the calibrator's windows; 0 where there is none."""
    calibrator = compiled.calibrator
    scaling = calibrator.inputs.scaling
    affine = scaling.devices[compiled.device] if compiled.device else scaling.fleet
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    values = affine.invert(windows.reshape(-1, windows.shape[-1]).astype(np.float64))
    ranges = []
    for column, channel in zip(values.T, compiled.descriptor.channels, strict=True):
        valid = np.clip(column[np.isfinite(column)], *channel.valid).astype(np.float32)
        ranges.append((float(valid.min()), float(valid.max())) if len(valid) else (0.0, 0.0))
    return ranges
