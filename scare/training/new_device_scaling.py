"""How far a new device's own mean may move its scaling: only for raw electrical channels, by variance components.

A new device has the fleet's scaling. A raw channel (a cell's voltage, a resistance, counts) has an offset that differs
from device to device, so a device's own mean tells more about the sensor than about the air. How much more follows from
the variance within devices and the variance between them, after regressing on the reference. Called by
`data.prepare_inputs`, for `windowing.scaling`; docs/decisions/devices.md has what was measured.
"""

from collections.abc import Sequence

import numpy as np

from scare.data.flags import DEFAULT_SETTINGS, usable_values
from scare.data.quantities import find_quantity, spell_unit
from scare.data.readings import Channel, Readings

VOLTS, AMPERES, OHMS = ("V", "mV", "µV"), ("A", "mA", "µA", "nA"), ("Ω", "kΩ", "ohm", "Ohm", "kohm", "kOhm")
RAW_UNITS = frozenset(map(spell_unit, (*VOLTS, *AMPERES, *OHMS, "counts", "count")))
WEATHER = frozenset({"temperature", "humidity", "pressure", "atmospheric_pressure"})
PRIOR_SPREAD = 3.0  # prior standard deviation of the offsets between devices, in standard deviations within a device
PRIOR_WEIGHT = 2.0  # number of devices that the prior counts as
LEAST_NOISE = 0.3  # least noise variance of a settled mean, as a share of the variance within a device
# A channel whose mean is farther from the reference's, in the reference's standard deviations, has another unit.
FAR_FROM_TARGET = 2.0  # standard deviations of the reference
FEW_DEVICES = 5  # with at least this many, the farthest device is left out of the variance between devices


def own_share(readings: Sequence[Readings], settle: int) -> np.ndarray:
    """Compute how far each channel's centre moves to a new device's own mean over `settle` readings.

    Returns shares from 0 (it stays the fleet's) to 1 [channels].
    """
    shares = [
        _share(readings, index, settle) if is_raw(readings, index, channel) else 0.0
        for index, channel in enumerate(readings[0].channels)
    ]
    return np.array(shares)


def is_raw(readings: Sequence[Readings], index: int, channel: Channel) -> bool:
    """Whether a channel is a raw electrical one: by its unit, or because its values are unlike the reference's.

    Readings in the reference's unit have means near the reference's. Those that are often zero have no offset, which
    would lift their lowest values.
    """
    if channel.unit:
        return spell_unit(channel.unit) in RAW_UNITS
    quantity = find_quantity(channel.name)
    if quantity is not None and quantity.device_class in WEATHER:
        return False
    # Of each device: distance of its mean from the reference's, a low percentile, and the spread of its values.
    distances, lows, spreads = [], [], []
    for box in readings:
        values, targets = _pairs(box, index)
        if len(values) > 1:
            distances.append(abs(values.mean() - targets.mean()) / max(targets.std(), 1e-12))
            lows.append(float(np.percentile(values, 10)))
            spreads.append(float(values.std()))
    if not distances:
        return False
    is_often_zero = 0 <= np.median(lows) < 1.5 * np.median(spreads)  # an offset would lift the low values further
    return bool(np.median(distances) > FAR_FROM_TARGET and not is_often_zero)


def _share(readings: Sequence[Readings], index: int, settle: int) -> float:
    """Compute between / (between + noise), of a channel.

    `between` is the variance of offsets between devices, `noise` that of a device's mean over `settle` readings. If a
    device's centre moves by this share to its own mean, the expected squared error of its offset is least (random
    effects, James–Stein).
    """
    pairs = [(values, targets) for values, targets in (_pairs(box, index) for box in readings) if len(values) > 1]
    if not pairs:
        return 0.0
    # One slope for all devices, and an offset for each.
    centred = [(values - values.mean(), targets - targets.mean()) for values, targets in pairs]
    variance = float(np.mean([np.square(values).mean() for values, _ in centred]))  # within a device
    products = sum(float(values @ targets) for values, targets in centred)
    slope = products / max(sum(float(targets @ targets) for _, targets in centred), 1e-12)
    offsets = np.array([values.mean() - slope * targets.mean() for values, targets in pairs])
    count = len(offsets)
    between = float(offsets.var(ddof=1)) if count > 1 else 0.0
    if count >= FEW_DEVICES:
        # Leave out the farthest device: a single faulty one would make all look different. The factor makes up for a
        # part of the variance that this takes away; the prior below adds to it.
        others = np.delete(offsets, np.argmax(np.abs(offsets - np.median(offsets))))
        between = float(others.var(ddof=1)) * (1 + 1.5 / count)
    prior = PRIOR_WEIGHT * PRIOR_SPREAD**2 * variance
    between = ((count - 1) * between + prior) / (count - 1 + PRIOR_WEIGHT)  # mean of what was found and the prior
    # Means over `settle` successive readings, of each device; the incomplete rest is dropped.
    block_means = [values[: len(values) // settle * settle].reshape(-1, settle).mean(axis=1) for values, _ in pairs]
    mean_variances = [float(means.var()) for means in block_means if len(means) > 1]
    noise = max(LEAST_NOISE * variance, float(np.mean(mean_variances)) if mean_variances else 0.0)
    return between / (between + noise) if between + noise else 0.0


def _pairs(readings: Readings, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the usable values of a channel at rows with a reference, and the references."""
    usable, _ = usable_values(readings.values, readings.channels, DEFAULT_SETTINGS)
    known = np.isfinite(usable[:, index]) & np.isfinite(readings.targets)
    return usable[known, index], readings.targets[known]
