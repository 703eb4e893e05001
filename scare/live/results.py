"""Results are what readings become, and sinks are where they go."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from scare.data.flags import Flag, flag_names
from scare.live.border import format_time
from scare.upkeep.watching import NOT_YET, state_words


@dataclass(frozen=True, slots=True)
class Result:
    """What a reading became: the raw number of the calibrated channel, the value with its interval, flags, the model.

    NaN where there is no number. `watch` is whether its device drifts, as of the last day that has ended.
    """

    device: str
    time: float
    raw: float
    calibrated: float
    low: float
    high: float
    flags: int
    model: str
    watch: int = NOT_YET

    @property
    def is_late(self) -> bool:
        """Whether it came too soon after, or before, the one before it: such a one never takes that one's place."""
        return bool(self.flags & Flag.EARLY)

    def as_json(self) -> dict[str, Any]:
        """Plain values; null where there is no number.

        >>> Result("box-1", 1.8e9, 3.5, 2.5, 1.0, 5.5, 8, "pm").as_json()
        {'time': '2027-01-15T08:00:00Z', 'raw': 3.5, 'calibrated': 2.5, 'low': 1.0, 'high': 5.5, 'flags': 8,
         'flag_names': ['SPIKE'], 'model': 'pm', 'watch': None}
        """
        return {
            "time": format_time(self.time),
            "raw": finite(self.raw),
            "calibrated": finite(self.calibrated),
            "low": finite(self.low),
            "high": finite(self.high),
            "flags": self.flags,
            "flag_names": flag_names(self.flags),
            "model": self.model,
            "watch": state_words(self.watch),
        }


class Sink(Protocol):
    """Where results go."""

    def publish(self, results: Sequence[Result]) -> bool:
        """Take results; False if they are not safe because the process ends, and have to be published again."""

    def keep(self, number: int) -> None:
        """Make safe what has been taken since the last time: snapshot `number` will forget the readings."""


def finite(number: float) -> float | None:
    """A number that JSON has, rounded to six digits after the point."""
    return round(number, 6) if isfinite(number) else None
