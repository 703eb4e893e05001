"""Adapters are data: where a device's messages carry its name, the time and its numbers. `adapters.toml` is the table.

>>> tasmota = find_adapters({})["tasmota"]
>>> message = b'{"Time": "2026-01-31T12:00:00", "PMS5003": {"PM2.5": 9}, "BME280": {"Temperature": 21.5}}'
>>> read_message(tasmota, message, "tele/attic/SENSOR")
Message(device='attic', time='2026-01-31T12:00:00', content={...})
>>> field_value(tasmota.fields["pm25"], _.content)
9.0
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from scare.errors import UsageError
from scare.live.border import SHOWN, RefusedError, excerpt, parse_json, parse_number
from scare.records import convert, load_toml, merged, named

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
    return convert(_spelled_out(named(merged(_table(), own))), dict[str, Adapter], where)


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
        raise RefusedError(f"not an object of JSON: {excerpt(content)}")
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
