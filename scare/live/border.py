"""The border: what comes from outside is held against limits before anything is made of it.

A refusal is one sentence for the operator; it is counted and shown, and never stops the process.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from scare.errors import DataError

LARGEST_PAYLOAD = 64 * 1024  # bytes of one message
DEEPEST = 12  # lists and objects within each other
MOST_AHEAD_SECONDS = 300.0
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
SECONDS, MILLISECONDS = (
    (1e8, 1e10),
    (1e11, 1e13),
)  # since 1970, as `data/times` has them
DEVICE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
SHOWN = 60  # characters of what was refused


class RefusedError(DataError):
    """A message or reading that is not taken, and why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One device's numbers, by channel name, at a time in seconds since 1970; NaN where there is none.

    Names of channels are the calibrator's. What was not sent with a time has that of its arrival. `offset` is its place
    in a Kafka partition, None where it came another way.
    """

    device: str
    time: float
    values: Mapping[str, float]
    offset: int | None = None


def parse_json(payload: bytes, largest: int = LARGEST_PAYLOAD) -> Any:
    """The values of a JSON message; NaN and the like count as null.

    >>> parse_json(b'{"pm25": NaN, "t": [1, "2.5"]}')
    {'pm25': None, 't': [1, '2.5']}
    """
    check_size(payload, largest)
    try:
        value = json.loads(payload, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not JSON: {excerpt(payload)}") from error
    _check_depth(value, DEEPEST)
    return value


def check_size(payload: bytes, largest: int = LARGEST_PAYLOAD) -> None:
    """Refuse a message that is too large."""
    if len(payload) > largest:
        raise RefusedError(f"{len(payload):,} bytes; a message has at most {largest:,}")


def _check_depth(value: Any, left: int) -> None:
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise RefusedError(f"lists and objects lie more than {DEEPEST} deep")
    for one in value.values() if isinstance(value, dict) else value:
        _check_depth(one, left - 1)


def parse_number(value: Any) -> float:
    """A number, also one written as text; NaN for what is none.

    >>> [parse_number(value) for value in (3, "12.5", "unavailable", None, True, 10**400)]
    [3.0, 12.5, nan, nan, nan, nan]
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        number = float(value[:SHOWN] if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def check_device(name: Any) -> str:
    """A device's name, if it is one.

    >>> check_device("AA:BB:cc-1.x_")
    'AA:BB:cc-1.x_'
    >>> check_device("box 1/<b>")
    Traceback (most recent call last):
    scare.live.border.RefusedError: 'box 1/<b>' is no name of a device: 1 to 64 letters, digits or _ . : -
    """
    if not (isinstance(name, str) and DEVICE.fullmatch(name)):
        raise RefusedError(f"{excerpt(name)} is no name of a device: 1 to 64 letters, digits or _ . : -")
    return name


def parse_time(value: Any, zone: tzinfo = UTC) -> float:
    """Seconds since 1970 of a time in ISO 8601, or of a number of seconds or milliseconds.

    `zone` is where a time without one was written.

    >>> parse_time("2026-01-01T00:00:00") == parse_time("2026-01-01T01:00:00+01:00") == parse_time(1767225600000)
    True
    """
    number = parse_number(value)
    if SECONDS[0] <= number <= SECONDS[1]:
        return number
    if MILLISECONDS[0] <= number <= MILLISECONDS[1]:
        return number / 1e3
    try:
        moment = datetime.fromisoformat(value.replace("/", "-").upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (AttributeError, ValueError, OverflowError) as error:
        raise RefusedError(f"{excerpt(value)} is not a time; 2026-01-31T12:00:00Z or seconds since 1970 are") from error


def format_time(time: float) -> str:
    """A time as others read it.

    >>> format_time(1.8e9), format_time(1.8e9 + 0.25)
    ('2027-01-15T08:00:00Z', '2027-01-15T08:00:00.250Z')
    """
    moment = datetime.fromtimestamp(time, UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def check_time(time: float, now: float) -> float:
    """A time that the receiver's clock (`now`) can believe.

    >>> check_time(0.0, 1.8e9)
    Traceback (most recent call last):
    scare.live.border.RefusedError: the time 1970-01-01 00:00:00 is before 2000: the device's clock is not set
    """
    if not EARLIEST <= time <= now + MOST_AHEAD_SECONDS:  # NaN is in no range
        raise RefusedError(_unbelievable(time))
    return time


def _unbelievable(time: float) -> str:
    try:
        shown = f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{time:g} is not a time"
    late = f"more than {MOST_AHEAD_SECONDS / 60:g} minutes ahead of this computer's clock"
    return f"the time {shown} is " + (late if time > EARLIEST else "before 2000: the device's clock is not set")


def excerpt(value: Any) -> str:
    """The beginning of what was refused, safe to print.

    >>> print(excerpt("<b>"), excerpt(b"abc" * 40))
    '<b>' 'abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc...'
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")
