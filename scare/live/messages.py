"""The border: what comes from outside is held against limits before anything is made of it.

A refusal is one sentence for the operator; it is counted and shown, and never stops the process.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from scare.errors import DataError, UsageError
from scare.records import convert, load_toml, merge, with_names

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


class RejectedError(DataError):
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
        raise RejectedError(f"not JSON: {excerpt(payload)}") from error
    _check_depth(value, DEEPEST)
    return value


def check_size(payload: bytes, largest: int = LARGEST_PAYLOAD) -> None:
    """Refuse a message that is too large."""
    if len(payload) > largest:
        raise RejectedError(f"{len(payload):,} bytes; a message has at most {largest:,}")


def _check_depth(value: Any, left: int) -> None:
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise RejectedError(f"lists and objects lie more than {DEEPEST} deep")
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
    scare.live.messages.RejectedError: 'box 1/<b>' is no name of a device: 1 to 64 letters, digits or _ . : -
    """
    if not (isinstance(name, str) and DEVICE.fullmatch(name)):
        raise RejectedError(f"{excerpt(name)} is no name of a device: 1 to 64 letters, digits or _ . : -")
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
        raise RejectedError(
            f"{excerpt(value)} is not a time; 2026-01-31T12:00:00Z or seconds since 1970 are"
        ) from error


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
    scare.live.messages.RejectedError: the time 1970-01-01 00:00:00 is before 2000: the device's clock is not set
    """
    if not EARLIEST <= time <= now + MOST_AHEAD_SECONDS:  # NaN is in no range
        raise RejectedError(_unbelievable(time))
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


# Adapters are data: where a device's messages carry its name, the time and its numbers. `adapters.toml` is the table.
#
# >>> tasmota = find_adapters({})["tasmota"]
# >>> message = b'{"Time": "2026-01-31T12:00:00", "PMS5003": {"PM2.5": 9}, "BME280": {"Temperature": 21.5}}'
# >>> read_message(tasmota, message, "tele/attic/SENSOR")
# Message(device='attic', time='2026-01-31T12:00:00', content={...})
# >>> field_value(tasmota.fields["pm25"], _.content)
# 9.0


# A reader makes readings of one input's messages; numbers that come one by one are assembled to rows.


TABLE = Path(__file__).with_name("adapters.toml")


LEVELS = {"{device}": "(?P<device>[^/]+)", "{field}": "(?P<field>[^/]+)", "+": "[^/]+"}  # that stand for any


@dataclass(frozen=True)
class Field:
    """A number of a message: where it is, and how it becomes the unit that is wanted."""

    at: str | tuple[str, ...]
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for place in self.places:
            if not place.startswith("/"):
                raise UsageError(f"'{place}' is not a place in a message; it begins with /, as /PMS5003/PM2.5")

    @property
    def places(self) -> tuple[str, ...]:
        """Where the number is; their mean counts if there are several."""
        return (self.at,) if isinstance(self.at, str) else self.at


@dataclass(frozen=True)
class Adapter:
    """How one kind of device writes; the header of `adapters.toml` says what each key is."""

    name: str
    topic: str = ""
    device: str = ""
    time: str = ""
    pairs: tuple[str, str, str] | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.device or "{device}" in self.topic):
            raise UsageError(f"the adapter '{self.name}' says nowhere which device writes: give device, or {{device}}")
        levels = self.topic.split("/")
        if any(("{" in level or "+" in level or "#" in level) and level not in LEVELS for level in levels):
            raise UsageError(f"the topic '{self.topic}' may hold {{device}}, {{field}} and +, each a whole level")

    @property
    def one_number(self) -> bool:
        """Whether a message is one number of a row."""
        return "{field}" in self.topic

    @property
    def subscription(self) -> str:
        """The topic as a broker takes it.

        >>> find_adapters({})["esphome"].subscription
        '+/sensor/+/state'
        """
        return re.sub(r"\{\w+\}", "+", self.topic)


@dataclass(frozen=True)
class Message:
    """What an adapter finds: the device's name, the time as it was written if it was, and the rest."""

    device: Any
    time: Any
    content: Any


def find_adapters(own: Mapping[str, Any], where: Path | str = TABLE) -> dict[str, Adapter]:
    """The adapters of the table and of a config file, which may change some of the keys of the table's."""
    return convert(_spelled_out(with_names(merge(_table(), own))), dict[str, Adapter], where)


@cache
def _table() -> dict[str, Any]:
    return load_toml(TABLE)


def _spelled_out(adapters: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are only a place as tables."""
    return {
        name: {**one, "fields": {key: as_field(value) for key, value in one["fields"].items()}}
        if isinstance(one, Mapping) and isinstance(one.get("fields"), Mapping)
        else one
        for name, one in adapters.items()
    }


def as_field(value: Any) -> Any:
    """A place alone as the table of a field."""
    return {"at": value} if isinstance(value, str | list) else value


def read_message(adapter: Adapter, payload: bytes, topic: str = "") -> Message:
    """What a payload holds; of an adapter of one number a message, an object of that field alone."""
    if not adapter.one_number:
        return read_content(adapter, parse_json(payload), topic)
    levels = read_topic(adapter, topic)
    return Message(levels.get("device"), None, {levels.get("field"): payload[:SHOWN].decode("utf-8", "replace")})


def read_content(adapter: Adapter, content: Any, topic: str = "") -> Message:
    """What an object holds."""
    levels = read_topic(adapter, topic) if topic else {}
    if not isinstance(content, dict):
        raise RejectedError(f"not an object of JSON: {excerpt(content)}")
    time = find(content, adapter.time) if adapter.time else None
    device = levels.get("device") or find(content, adapter.device)
    return Message(device, time, content | _from_pairs(adapter, content))


def read_topic(adapter: Adapter, topic: str) -> dict[str, str]:
    """What the levels of a topic say.

    >>> read_topic(find_adapters({})["esphome"], "attic/sensor/pm_2_5/state")
    {'device': 'attic', 'field': 'pm_2_5'}
    """
    found = _pattern(adapter.topic).fullmatch(topic)
    return found.groupdict() if found else {}


def reads_topic(adapter: Adapter, topic: str) -> bool:
    """Whether a topic is of an adapter's."""
    return _pattern(adapter.topic).fullmatch(topic) is not None


@lru_cache
def _pattern(topic: str) -> re.Pattern[str]:
    return re.compile("/".join(LEVELS.get(level) or re.escape(level) for level in topic.split("/")))


def _from_pairs(adapter: Adapter, content: Any) -> dict[str, Any]:
    """A list of names and values as an object."""
    if adapter.pairs is None:
        return {}
    place, name, value = adapter.pairs
    found = find(content, place)
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return {str(row.get(name)): row.get(value) for row in rows}


def field_value(one: Field, content: Any) -> float:
    """The number of a field, NaN if it is not there."""
    numbers = [parse_number(find(content, place)) for place in one.places]
    there = [number for number in numbers if not np.isnan(number)]
    return float(np.mean(there)) * one.scale + one.offset if there else float("nan")


def find(content: Any, place: str) -> Any:
    """The value at a place, the first if several fit; None if there is nothing.

    >>> find({"a": 1, "SDS_P2": {"a/b": [4, 5]}}, "/*/a~1b/1")
    5
    """
    return next(_found(content, _keys(place)), None)


def is_there(content: Any, place: str) -> bool:
    """Whether there is anything at a place, null included."""
    return any(True for _ in _found(content, _keys(place)))


@lru_cache
def _keys(place: str) -> tuple[str | re.Pattern[str], ...]:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in place.split("/")[1:]]
    return tuple(re.compile(".*".join(map(re.escape, key.split("*")))) if "*" in key else key for key in keys)


def _found(content: Any, keys: Sequence[str | re.Pattern[str]]) -> Iterator[Any]:
    if not keys:
        yield content
        return
    for below in _below(content, keys[0]):
        yield from _found(below, keys[1:])


def _below(content: Any, key: str | re.Pattern[str]) -> list[Any]:
    """What lies under a key of an object, or under the number of a list's element."""
    if isinstance(content, list):
        return content[int(key) :][:1] if isinstance(key, str) and key.isdecimal() and len(key) < 5 else []
    if not isinstance(content, dict):
        return []
    if isinstance(key, str):
        return [content[key]] if key in content else []
    return [value for name, value in content.items() if key.fullmatch(name)]


def channel_fields(adapter: Adapter, channels: Mapping[str, str], names: Iterable[str]) -> dict[str, Field]:
    """Where an adapter's messages hold each channel: as `channels` say, else in the field of the same name.

    A field is named, or a place is given. Without such a field a name is a key of the message.
    """
    return {name: _field(adapter, channels.get(name, name)) for name in names}


def _field(adapter: Adapter, name: str) -> Field:
    return Field(name) if name.startswith("/") else adapter.fields.get(name) or Field("/" + _escaped(name))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
