"""The length of a window: in readings, as a duration, or chosen for the data.

A sensor reacts and recovers in minutes to hours whatever its time step, so the window of choice is an hour, or a few
hours if readings come slowly. It is shorter for a short co-location: the first window after each border of a split by
time is not scored. Comes from options, config files and `Recipe`; goes to `split` and `inputs`, which count readings.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from annotated_types import Ge, Predicate

from scare.data.readings import Readings
from scare.data.split import FEWEST_READINGS, shortest_part
from scare.errors import UsageError
from scare.words import as_option, duration, parse_duration

AUTO = "auto"
# A window chosen for the data (`auto`):
USUAL_SECONDS = 3600.0  # its length, unless
SHORTEST, LONGEST = 12, 360  # it would then have fewer or more readings than these,
MOST_UNSCORED = 0.25  # or leave more than this share of validation or test unscored


def is_window(text: str) -> bool:
    """such as 1h, 90min or auto"""  # printed in error messages, see `records.BOUNDS`
    return text == AUTO or parse_duration(text) is not None


WindowLength = Annotated[int, Ge(FEWEST_READINGS)] | Annotated[str, Predicate(is_window)]


def parse_window(text: str) -> int | str:
    """Parse the window of an option.

    >>> parse_window("60"), parse_window("1h")
    (60, '1h')
    """
    try:
        return checked_window(int(text) if text.strip().isdecimal() else text.strip())
    except UsageError as error:
        raise UsageError(f"--window: {error}") from error


def checked_window(window: int | str) -> int | str:
    """Return the window, or raise a UsageError if it is too short or no length at all."""
    if isinstance(window, int) and window < FEWEST_READINGS:
        raise UsageError(f"a window needs at least {FEWEST_READINGS} readings, not {window}")
    if isinstance(window, str) and not is_window(window):
        raise UsageError(f"a window is a number of readings, a duration such as 1h or 90min, or auto, not '{window}'")
    return window


def window_readings(window: int | str, readings: Sequence[Readings]) -> int:
    """Convert the length of a window (readings, a duration or `auto`) to readings, at their time step."""
    if isinstance(window, int):
        return window
    step = float(np.median([one.step_seconds for one in readings if len(one) > 1] or [USUAL_SECONDS]))
    seconds = parse_duration(window)
    if seconds is None:  # auto
        usual = min(max(round(USUAL_SECONDS / step), SHORTEST), LONGEST)
        return max(FEWEST_READINGS, min(usual, int(MOST_UNSCORED * shortest_part(readings) / step)))
    if (count := round(seconds / step)) < FEWEST_READINGS:
        raise UsageError(
            f"a window of {window} is too short for a reading every {duration(step)}: use --window"
            f" {as_option(FEWEST_READINGS * step)}, which has {FEWEST_READINGS} readings, or longer"
        )
    return count
