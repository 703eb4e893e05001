"""A few training rows of each device, by which it is recognised under another name, such as that of a renamed file.

Means, spreads and regressions between channels do not tell devices apart (docs/decisions/devices.md has what was
measured). Equal readings at equal times do, so readings from other times are never recognised.
"""

from collections.abc import Sequence

import numpy as np

from scare.data.readings import Readings
from scare.windowing.inputs import Inputs

KEPT, MOST = 16, 4096  # rows of a device, of all devices
FEWEST = 5  # different rows that must be found again, each of them equal


def keep_rows(inputs: Inputs, readings: Sequence[Readings]) -> np.ndarray:
    """Select complete rows of each device, evenly spread: device number, time (seconds), channels [n, 2 + channels]."""
    devices = list(dict.fromkeys(one.device for one in readings))
    kept = []
    for number, device in enumerate(devices):
        own = [one for one in readings if one.device == device]
        rows = np.concatenate([np.column_stack([one.times, inputs.select(one)]) for one in own])
        rows = rows[np.isfinite(rows).all(axis=1)]
        spread = np.linspace(0, len(rows) - 1, min(len(rows), KEPT, max(FEWEST, MOST // len(devices))))
        rows = rows[np.rint(spread).astype(int)]
        kept.append(np.column_stack([np.full(len(rows), number), rows]))
    return np.concatenate(kept)


def recognise(known: np.ndarray, times: np.ndarray, values: np.ndarray) -> int | None:
    """Find the number of the device whose rows these readings [n, channels] repeat; None without a unique match.

    >>> times, values = 60.0 * np.arange(5), np.arange(5.0)[:, None]
    >>> known = np.column_stack([np.full(5, 3), times, values])
    >>> recognise(known, times, values), recognise(known, times, values + 1)
    (3, None)
    """
    order = np.argsort(times, kind="stable")
    place = np.searchsorted(times, known[:, 1], sorter=order).clip(max=len(times) - 1)
    at = order[place]
    common = times[at] == known[:, 1]
    equal = (values[at] == known[:, 2:]).all(axis=1)
    found = [
        number
        for number in np.unique(known[common, 0]).astype(int).tolist()
        if equal[own := common & (known[:, 0] == number)].all() and len(np.unique(known[own, 2:], axis=0)) >= FEWEST
    ]
    return found[0] if len(found) == 1 else None
