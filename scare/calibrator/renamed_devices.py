"""A few training rows of each device, by which it is recognised under another name, such as that of a renamed file.

Means, spreads and regressions between channels do not tell devices apart (docs/decisions/devices.md has what was
measured). Equal readings at equal times do, so readings from other times are never recognised.
"""

from collections.abc import Sequence

import numpy as np

from scare.data.readings import Readings
from scare.windowing.inputs import Inputs

ROWS_OF_DEVICE, ROWS_OF_ALL = 16, 4096  # most rows that are kept
LEAST_ROWS = 5  # different rows that must be found again, each of them equal


def keep_rows(inputs: Inputs, readings: Sequence[Readings]) -> np.ndarray:
    """Select complete rows of each device, evenly spread: device number, time (seconds), channels [n, 2 + channels]."""
    devices = list(dict.fromkeys(box.device for box in readings))
    kept = []
    for number, device in enumerate(devices):
        own = [box for box in readings if box.device == device]
        rows = np.concatenate([np.column_stack([box.times, inputs.select(box)]) for box in own])
        rows = rows[np.isfinite(rows).all(axis=1)]
        count = min(len(rows), ROWS_OF_DEVICE, max(LEAST_ROWS, ROWS_OF_ALL // len(devices)))
        rows = rows[np.rint(np.linspace(0, len(rows) - 1, count)).astype(int)]
        kept.append(np.column_stack([np.full(len(rows), number), rows]))
    return np.concatenate(kept)


def recognise(known: np.ndarray, times: np.ndarray, values: np.ndarray) -> int | None:
    """Find the number of the device whose rows these readings [n, channels] repeat; None without a unique match.

    `known` are rows of `keep_rows`.

    >>> times, values = 60.0 * np.arange(5), np.arange(5.0)[:, None]
    >>> known = np.column_stack([np.full(5, 3), times, values])
    >>> recognise(known, times, values), recognise(known, times, values + 1)
    (3, None)
    """
    devices, known_times, known_values = known[:, 0], known[:, 1], known[:, 2:]
    order = np.argsort(times, kind="stable")
    place = np.searchsorted(times, known_times, sorter=order).clip(max=len(times) - 1)
    at = order[place]  # for each known row, the first reading that is not earlier
    same_time = times[at] == known_times
    equal = (values[at] == known_values).all(axis=1)
    found = []
    for number in np.unique(devices[same_time]).astype(int).tolist():
        own = same_time & (devices == number)
        if equal[own].all() and len(np.unique(known_values[own], axis=0)) >= LEAST_ROWS:
            found.append(number)
    return found[0] if len(found) == 1 else None
