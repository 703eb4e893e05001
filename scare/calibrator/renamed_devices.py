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
    selected = []
    for number, device in enumerate(devices):
        of_device = [box for box in readings if box.device == device]
        rows = np.concatenate([np.column_stack([box.times, inputs.select(box)]) for box in of_device])
        rows = rows[np.isfinite(rows).all(axis=1)]
        count = min(len(rows), ROWS_OF_DEVICE, max(LEAST_ROWS, ROWS_OF_ALL // len(devices)))
        rows = rows[np.rint(np.linspace(0, len(rows) - 1, count)).astype(int)]
        selected.append(np.column_stack([np.full(len(rows), number), rows]))
    return np.concatenate(selected)


def recognise(known: np.ndarray, times: np.ndarray, values: np.ndarray) -> int | None:
    """Find the number of the device whose rows the readings at `times` [n] repeat; None without a unique match.

    `known` are the rows that `keep_rows` selected in training; `values` are the readings [n, channels].

    >>> times, values = 60.0 * np.arange(5), np.arange(5.0)[:, None]
    >>> known = np.column_stack([np.full(5, 3), times, values])
    >>> recognise(known, times, values), recognise(known, times, values + 1)
    (3, None)
    """
    devices, known_times, known_values = known[:, 0], known[:, 1], known[:, 2:]
    order = np.argsort(times, kind="stable")
    positions = np.searchsorted(times, known_times, sorter=order).clip(max=len(times) - 1)
    reading = order[positions]  # for each known row, the index of the first reading that is not earlier
    same_time = times[reading] == known_times
    same_values = (values[reading] == known_values).all(axis=1)
    matches = []
    for number in np.unique(devices[same_time]).astype(int).tolist():
        compared = same_time & (devices == number)  # the device's rows
        if same_values[compared].all() and len(np.unique(known_values[compared], axis=0)) >= LEAST_ROWS:
            matches.append(number)
    return matches[0] if len(matches) == 1 else None
