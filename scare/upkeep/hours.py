"""Hours: what boxes calibrated and read, as means by the hour in scales that make boxes and channels alike.

Comes from readings and a calibrator; goes, a day at a time, to `measures`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import Flag, usable_values
from scare.data.readings import CALIBRATED, FLAGS, Readings
from scare.upkeep.measures import BINS, Yardstick, borders_of
from scare.windowing.feeding import Inputs

HOUR, DAY = 3600.0, 86400.0
LEFT_OUT = Flag.SPIKE | Flag.WARM_UP | Flag.EARLY  # rows that are of no hour


@dataclass(frozen=True)
class Hours:
    """Means of boxes side by side [boxes, days, 24, 1 + channels], NaN for none, from day `first` (since 1970) on."""

    devices: tuple[str, ...]
    first: int
    values: np.ndarray


def yardstick(calibrator: Calibrator) -> Yardstick:
    """What days of this calibrator's boxes are measured by; an older file's from the windows that it kept."""
    names = tuple(channel.name for channel in calibrator.inputs.channels)
    if calibrator.training_hours is not None:
        return Yardstick(names, calibrator.training_hours)
    rows = max(1, round(HOUR / calibrator.inputs.step_seconds))
    kept = calibrator.validation.windows[:, -rows:].mean(axis=1)
    if not len(kept):  # a published correction has seen no air
        return Yardstick(names, np.full((BINS - 1, len(names)), np.nan))
    return Yardstick(names, borders_of(kept))


def training_hours(inputs: Inputs, readings: Sequence[Readings]) -> np.ndarray:
    """What a calibrator keeps of the hours that it was trained on: borders of bins [7, channels], scaled."""
    rows = [_scaled(inputs, one.device, inputs.select(one)) for one in readings]
    hours = [hourly(one.times, part)[1] for one, part in zip(readings, rows, strict=True)]
    return borders_of(np.concatenate(hours)).astype(np.float32)


def box_hours(calibrator: Calibrator, readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    """The hours since 1970 in which a box has rows, and their means [hours, 1 + channels]."""
    table, inputs = calibrator.predict(readings), calibrator.inputs
    calibrated = table[CALIBRATED].fill_null(np.nan).to_numpy()
    rows = scaled_rows(inputs, readings.device, calibrated, inputs.select(readings))
    kept = (table[FLAGS].to_numpy() & LEFT_OUT) == 0
    return hourly(readings.times[kept], rows[kept])


def scaled_rows(inputs: Inputs, device: str, calibrated: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Calibrated values [n] and readings [n, channels] of a device in scales [n, 1 + channels]."""
    return np.column_stack([inputs.scaling.target.apply(calibrated[:, None]), _scaled(inputs, device, values)])


def _scaled(inputs: Inputs, device: str, values: np.ndarray) -> np.ndarray:
    """The usable readings [n, channels] of a device in its scales, in the fleet's if it was not in training."""
    usable, _ = usable_values(values, inputs.channels, inputs.quality)
    return (inputs.scaling.known(device) or inputs.scaling.fleet).apply(usable)


def hourly(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hours of `times` (seconds), and the mean of what is known of the rows [n, columns] in each.

    >>> hourly(np.array([0.0, 1800.0, 3600.0]), np.array([[1.0], [2.0], [np.nan]]))
    (array([0, 1]), array([[1.5], [nan]]))
    """
    hours, place = np.unique((times // HOUR).astype(np.int64), return_inverse=True)
    known = np.isfinite(rows)
    totals, counts = np.zeros((len(hours), rows.shape[1])), np.zeros((len(hours), rows.shape[1]))
    np.add.at(totals, place, np.where(known, rows, 0.0))
    np.add.at(counts, place, known)
    return hours, np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)


def side_by_side(boxes: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Hours:
    """Boxes (device, hours since 1970, means) on one calendar, which begins and ends at midnight UTC."""
    known = [hours for _, hours, _ in boxes if len(hours)]
    first, last = min(hours[0] for hours in known) // 24, max(hours[-1] for hours in known) // 24
    columns = boxes[0][2].shape[1]
    values = np.full((len(boxes), (last - first + 1) * 24, columns), np.nan)
    for index, (_, hours, means) in enumerate(boxes):
        values[index, hours - first * 24] = means
    return Hours(tuple(device for device, _, _ in boxes), int(first), values.reshape(len(boxes), -1, 24, columns))
