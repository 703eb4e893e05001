"""Messages of devices: each becomes a `Reading`, or is rejected with a reason.

    payload → validation (size, depth, numbers, times) → adapter: device, time, numbers → `Reader` → Reading

Adapters are data: `adapters.toml` says where each kind of device writes its name, the time and its numbers. A rejected
message is counted and shown to the operator, and never stops the process. Called by `mqtt`, `kafka` and `http`.
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
from scare.schema import convert, load_toml, merge, with_names

MAX_PAYLOAD = 64 * 1024  # most bytes of one message
MAX_DEPTH = 12  # most levels of nested lists and objects
EARLIEST, LATEST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2000, 2200))
SECONDS, MILLISECONDS = (1e8, 1e10), (1e11, 1e13)  # since 1970, as in `data/times`
MAX_NAME = 64  # characters of a device's name
SHOWN = 60  # characters of a rejected value
TABLE = Path(__file__).with_name("adapters.toml")
WILDCARDS = ("{device}", "{field}", "+")  # levels of a topic that match anything


class RejectedError(DataError):
    """Why a message or reading is not accepted."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One device's values by channel name, NaN where there is none, at a time in seconds since 1970.

    Channel names are the calibrator's. A message without a time gets the time of its arrival. `offset` is the
    reading's position in a Kafka partition, None if it came another way.
    """

    device: str
    time: float
    values: Mapping[str, float]
    offset: int | None = None
    states_time: bool = field(default=True, compare=False)  # False: `time` is that of its arrival


class Reader:
    """Turns the messages of one kind of device into readings.

    `names` are the channels wanted. `fields` maps a channel to the adapter's field, or to the path in a message, that
    holds it; a channel without an entry is the field of the same name. `zone` is that of times written without one.
    """

    def __init__(
        self, adapter: "Adapter", names: Iterable[str], fields: Mapping[str, str] | None = None, zone: tzinfo = UTC
    ) -> None:
        self.adapter, self._zone = adapter, zone
        self._fields = channel_fields(adapter, fields or {}, names)

    def read(self, payload: bytes, topic: str, now: float) -> Reading | None:
        """Return the reading in a payload that arrived `now`; None for a single number that is not wanted."""
        return self._make_reading(*read_message(self.adapter, payload, topic), now)

    def read_content(self, content: Any, topic: str, now: float) -> Reading | None:
        """Like `read`, for a payload that is already parsed."""
        return self._make_reading(*read_content(self.adapter, content, topic), now)

    def _make_reading(self, device: Any, time: Any, content: Any, now: float) -> Reading | None:
        """Validate what `read_message` returned; None for a single number that no channel wants."""
        values = {name: field_value(field, content) for name, field in self._fields.items()}
        if self.adapter.one_number:
            values = {name: value for name, value in values.items() if not math.isnan(value)}
            if not values:
                return None
        elif all(map(math.isnan, values.values())):
            # A box whose sensors have all failed still sends the keys of its channels: that is a reading.
            paths = (path for field in self._fields.values() for path in field.paths)
            has_a_key = any(True for path in paths for _ in _search(content, _keys(path)))
            if not has_a_key:
                raise RejectedError(f"no number for {', '.join(values)}")
        seconds = now if time is None else parse_time(time, self._zone)
        return Reading(check_device(device), check_time(seconds), values, states_time=time is not None)


@dataclass(frozen=True)
class Field:
    """One number of a message: where it is, and the scale and offset that convert its unit."""

    at: str | tuple[str, ...]
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for path in self.paths:
            if not path.startswith("/"):
                raise UsageError(f"'{path}' is not a path in a message; a path begins with /, as /PMS5003/PM2.5 does")

    @property
    def paths(self) -> tuple[str, ...]:
        """Where a message has the number; the numbers at several paths are averaged."""
        return (self.at,) if isinstance(self.at, str) else self.at


@dataclass(frozen=True)
class Adapter:
    """How one kind of device writes; the header of `adapters.toml` explains the keys."""

    name: str
    topic: str = ""
    device: str = ""
    time: str = ""
    numbers: str = ""
    pairs: tuple[str, str, str] | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.device or "{device}" in self.topic):
            raise UsageError(
                f"the adapter '{self.name}' does not name the device: give device, or {{device}} in its topic"
            )
        levels = self.topic.split("/")
        if any(("{" in level or "+" in level or "#" in level) and level not in WILDCARDS for level in levels):
            raise UsageError(f"the topic '{self.topic}' may contain {{device}}, {{field}} and +, each a whole level")

    @property
    def one_number(self) -> bool:
        """Whether each message holds a single number, so that rows must be assembled from several messages."""
        return "{field}" in self.topic

    @property
    def subscription(self) -> str:
        """The topic with MQTT wildcards.

        >>> find_adapters({})["esphome"].subscription
        '+/sensor/+/state'
        """
        return re.sub(r"\{\w+\}", "+", self.topic)

    def matches(self, topic: str) -> bool:
        """Whether a topic is one of this adapter's."""
        return _topic_pattern(self.topic).fullmatch(topic) is not None


def find_adapters(configured: Mapping[str, Any], where: Path | str = TABLE) -> dict[str, Adapter]:
    """Merge the built-in adapters with those of a config file, which may override single keys.

    A field may be written as its path alone, or as a list of paths, instead of { at = path }.
    """
    adapters = with_names(merge(_built_in_adapters(), configured))
    for name, adapter in adapters.items():
        if isinstance(adapter, Mapping) and isinstance(adapter.get("fields"), Mapping):
            fields = {
                key: {"at": place} if isinstance(place, str | list) else place
                for key, place in adapter["fields"].items()
            }
            adapters[name] = {**adapter, "fields": fields}
    return convert(adapters, dict[str, Adapter], where)


@cache
def _built_in_adapters() -> dict[str, Any]:
    return load_toml(TABLE)


def read_message(adapter: Adapter, payload: bytes, topic: str = "") -> tuple[Any, Any, dict[Any, Any]]:
    """Return the device, the time as written (None without one) and the content of a payload, not yet validated.

    The content of a single number is {field: number}.

    >>> message = b'{"Time": "2026-01-31T12:00:00", "PMS5003": {"PM2.5": 9}, "BME280": {"Temperature": 21.5}}'
    >>> tasmota = find_adapters({})["tasmota"]
    >>> device, time, content = read_message(tasmota, message, "tele/attic/SENSOR")
    >>> device, time, field_value(tasmota.fields["pm25"], content)
    ('attic', '2026-01-31T12:00:00', 9.0)
    """
    if not adapter.one_number:
        return read_content(adapter, parse_json(payload), topic)
    levels = read_topic(adapter, topic)
    return levels.get("device"), None, {levels.get("field"): payload[:SHOWN].decode("utf-8", "replace")}


def read_content(adapter: Adapter, content: Any, topic: str = "") -> tuple[Any, Any, dict[Any, Any]]:
    """Like `read_message`, for a payload that is already parsed."""
    levels = read_topic(adapter, topic) if topic else {}
    if not isinstance(content, dict):
        raise RejectedError(f"not a JSON object: {excerpt(content)}")
    time = find(content, adapter.time) if adapter.time else None
    device = levels.get("device") or find(content, adapter.device)
    if adapter.numbers:
        content = find(content, adapter.numbers)
        if not isinstance(content, dict):
            raise RejectedError(f"no object {adapter.numbers} in the message, which is where its numbers are expected")
    if adapter.pairs is not None:  # a list of names and values
        path, name, value = adapter.pairs
        pairs = find(content, path)
        rows = [row for row in pairs if isinstance(row, dict)] if isinstance(pairs, list) else []
        content = content | {str(row.get(name)): row.get(value) for row in rows}
    return device, time, content


def read_topic(adapter: Adapter, topic: str) -> dict[str, str]:
    """Return the device and field that a topic names, {} if it does not match.

    Where the adapter's topic has several levels {device}, they are joined by slashes.

    >>> read_topic(find_adapters({})["esphome"], "attic/sensor/pm_2_5/state")
    {'device': 'attic', 'field': 'pm_2_5'}
    """
    match = _topic_pattern(adapter.topic).fullmatch(topic)
    names = dict[str, str]()
    if match:
        for key, level in zip(re.findall(r"\{(\w+)\}", adapter.topic), match.groups(), strict=True):
            names[key] = f"{names[key]}/{level}" if key in names else level
    return names


@lru_cache
def _topic_pattern(topic: str) -> re.Pattern[str]:
    """Return the regular expression for an adapter's topic, with a group for each level in braces."""
    patterns = {"{device}": "([^/]+)", "{field}": "([^/]+)", "+": "[^/]+"}
    return re.compile("/".join(patterns.get(level) or re.escape(level) for level in topic.split("/")))


def topic_level(name: str) -> str:
    """Return a device's name as one level of a topic: % / + # percent-encoded, as `urllib.parse.unquote` reverses.

    >>> topic_level("Küche 1/2"), topic_level("box-1")
    ('Küche 1%2F2', 'box-1')
    """
    return re.sub("[%/+#]", lambda sign: f"%{ord(sign[0]):02X}", name)


def channel_fields(adapter: Adapter, fields: Mapping[str, str], names: Iterable[str]) -> dict[str, Field]:
    """Return the `Field` of each channel in `names`; `fields` maps channels to field names or paths in the message.

    A name that the adapter does not define is a key of the message.
    """
    fields_of_channels = {}
    for name in names:
        wanted = fields.get(name, name)
        if wanted.startswith("/"):
            fields_of_channels[name] = Field(wanted)
        else:
            fields_of_channels[name] = adapter.fields.get(wanted) or Field("/" + escape_key(wanted))
    return fields_of_channels


def field_value(field: Field, content: Any) -> float:
    """Return a field's number, scaled and offset: the mean if the field has several paths, NaN without a number."""
    numbers = [parse_number(find(content, path)) for path in field.paths]
    known = [number for number in numbers if not math.isnan(number)]
    return float(np.mean(known)) * field.scale + field.offset if known else math.nan


def find(content: Any, path: str) -> Any:
    """Return the first value at a path (JSON Pointer, RFC 6901, with `*` for any characters of a key), else None.

    >>> find({"a": 1, "SDS_P2": {"a/b": [4, 5]}}, "/*/a~1b/1")
    5
    """
    return next(_search(content, _keys(path)), None)


def escape_key(key: str) -> str:
    """Escape a key for a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")


@lru_cache
def _keys(path: str) -> tuple[str | re.Pattern[str], ...]:
    """Return the keys of a JSON Pointer, unescaped; one with a `*` becomes a regular expression."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]
    return tuple(re.compile(".*".join(map(re.escape, key.split("*")))) if "*" in key else key for key in keys)


def _search(content: Any, keys: Sequence[str | re.Pattern[str]]) -> Iterator[Any]:
    """Yield all values at a sequence of keys, null included; the key of a list element is its index."""
    if not keys:
        yield content
        return
    key, *rest = keys
    below: list[Any] = []
    if isinstance(content, list):
        if isinstance(key, str) and key.isdecimal() and len(key) < 5:  # an index of at most 9999
            below = content[int(key) :][:1]  # empty beyond the end
    elif isinstance(content, dict) and isinstance(key, str):
        below = [content[key]] if key in content else []
    elif isinstance(content, dict) and isinstance(key, re.Pattern):
        below = [value for name, value in content.items() if key.fullmatch(name)]
    for nested in below:
        yield from _search(nested, rest)


def parse_json(payload: bytes, largest: int = MAX_PAYLOAD) -> Any:
    """Return the value of a JSON message; NaN and infinities count as null.

    >>> parse_json(b'{"pm25": NaN, "t": [1, "2.5"]}')
    {'pm25': None, 't': [1, '2.5']}
    """
    check_size(payload, largest)
    try:
        value = json.loads(payload, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"not JSON: {excerpt(payload)}") from error
    _check_depth(value, MAX_DEPTH)
    return value


def check_size(payload: bytes, largest: int = MAX_PAYLOAD) -> None:
    """Reject a message that is too large."""
    if len(payload) > largest:
        raise RejectedError(f"the message has {len(payload):,} bytes; at most {largest:,} are accepted")


def _check_depth(value: Any, left: int) -> None:
    """Reject a value with more than `left` levels of lists and objects."""
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise RejectedError(f"lists and objects are nested more than {MAX_DEPTH} deep")
    for nested in value.values() if isinstance(value, dict) else value:
        _check_depth(nested, left - 1)


def parse_number(value: Any) -> float:
    """Return a number, or one written as text; NaN for anything else.

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
    r"""Return a device name, or reject one that is not valid.

    >>> check_device("Küche, 2. Regal")
    'Küche, 2. Regal'
    >>> check_device("box\n1")
    Traceback (most recent call last):
    scare.live.messages.RejectedError: 'box\n1' is not a device name; use 1 to 64 printable characters
    """
    if not (isinstance(name, str) and name.isprintable() and name.strip() and len(name) <= MAX_NAME):
        raise RejectedError(f"{excerpt(name)} is not a device name; use 1 to {MAX_NAME} printable characters")
    return name


def parse_time(value: Any, zone: tzinfo = UTC) -> float:
    """Return the seconds since 1970 from ISO 8601, or from a number of seconds or milliseconds.

    `zone` is that of a time written without one.

    >>> parse_time("2026-01-01T00:00:00") == parse_time("2026-01-01T01:00:00+01:00") == parse_time(1767225600000)
    True
    """
    number = parse_number(value)
    if SECONDS[0] <= number <= SECONDS[1]:
        return number
    if MILLISECONDS[0] <= number <= MILLISECONDS[1]:
        return number / 1e3
    try:  # some devices write 2026/01/31, or t and z for T and Z
        moment = datetime.fromisoformat(value.replace("/", "-").upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (AttributeError, ValueError, OverflowError) as error:
        raise RejectedError(
            f"{excerpt(value)} is not a time; write 2026-01-31T12:00:00Z or seconds since 1970"
        ) from error


def format_time(time: float) -> str:
    """Return a time in ISO 8601, UTC.

    >>> format_time(1.8e9), format_time(1.8e9 + 0.25)
    ('2027-01-15T08:00:00Z', '2027-01-15T08:00:00.250Z')
    """
    moment = datetime.fromtimestamp(time, UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def check_time(time: float) -> float:
    """Return a time, or reject one that is not plausible in any case; the pipeline rejects times that are ahead.

    >>> check_time(0.0)
    Traceback (most recent call last):
    scare.live.messages.RejectedError: the time 1970-01-01 00:00:00 is before 2000: the device's clock is not set
    """
    if EARLIEST <= time <= LATEST:  # false for NaN
        return time
    reason = "before 2000: the device's clock is not set" if time < EARLIEST else "not plausible"
    raise RejectedError(f"the time {show_time(time)} is {reason}")


def show_time(time: float) -> str:
    """Format a time for a message to a person; a number that is no time is shown as it is."""
    try:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{time:g}"


def excerpt(value: Any) -> str:
    """Return the beginning of a rejected value, safe to print.

    >>> print(excerpt("<b>"), excerpt(b"abc" * 40))
    '<b>' 'abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc...'
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")
