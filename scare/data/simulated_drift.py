"""What time does to a simulated sensor: a drift begins on some day and is all there after a ramp.

Goes into what a box senses (`simulated_air`), so that a drift of gain is one of the sensor and not of its numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scare.errors import UsageError

DAY = 86400.0


class DriftKind(StrEnum):
    """What can drift."""

    GAIN = "gain"
    OFFSET = "offset"
    HUMIDITY = "humidity"
    DYING = "dying"


SIZES = {DriftKind.GAIN: -0.3, DriftKind.OFFSET: 5.0, DriftKind.HUMIDITY: 1.0, DriftKind.DYING: 1.0}


@dataclass(frozen=True)
class Drift:
    """A drift of one box's first channel, from `day` on and all there `ramp_days` later.

    `size` (0: the usual one of its kind) is, of a gain, the share it changes by; of an offset, in the sensor's unit; of
    humidity, how many times as strongly it acts in addition; of a dying cell, the share of it that is dead.
    """

    kind: DriftKind
    box: int = 0
    day: float = 30.0
    ramp_days: float = 14.0
    size: float = 0.0

    def __post_init__(self) -> None:
        if self.box < 0 or self.day < 0 or self.ramp_days < 0:
            raise UsageError(f"a drift of box {self.box} from day {self.day:g} on within {self.ramp_days:g} days")
        if self.kind is DriftKind.DYING and not 0 <= self.size <= 1:
            raise UsageError(f"{self.size:g} of a dying cell cannot be dead; give a share up to 1")

    def course(self, days: np.ndarray) -> np.ndarray:
        """How much of it is there on each of these days.

        >>> Drift(DriftKind.GAIN, day=1, ramp_days=2, size=0.1).course(np.arange(5.0))
        array([0.  , 0.  , 0.05, 0.1 , 0.1 ])
        """
        grown = np.clip((days - self.day) / self.ramp_days, 0, 1) if self.ramp_days else days >= self.day
        return (self.size or SIZES[self.kind]) * grown


@dataclass(frozen=True)
class Wear:
    """What drifts have made of a sensor, [rows] each: a factor, an addition, swelling in addition, the dead share."""

    gain: np.ndarray
    offset: np.ndarray
    humidity: np.ndarray
    dead: np.ndarray

    @staticmethod
    def of(drifts: Sequence[Drift], days: np.ndarray) -> "Wear":
        """The wear of a box with these drifts, at rows so many days after the start."""
        courses = {kind: np.zeros(len(days)) for kind in DriftKind}
        for drift in drifts:
            courses[drift.kind] = courses[drift.kind] + drift.course(days)
        gain, offset, humidity, dead = (courses[kind] for kind in DriftKind)
        return Wear(1 + gain, offset, humidity, np.minimum(dead, 1.0))
