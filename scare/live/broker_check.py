"""`scare live check`: listen to a broker, count what arrives, and propose the inputs for it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from math import isnan
from threading import Lock
from time import monotonic, sleep
from typing import Any

import tomli_w
from paho.mqtt.client import Client, MQTTMessage

from scare.data.quantities import find_quantity
from scare.live.config import Broker, Config, Input
from scare.live.messages import (
    Adapter,
    RejectedError,
    check_device,
    escape_key,
    field_value,
    parse_json,
    parse_number,
    read_message,
)
from scare.live.mqtt import Connection

DROPPED = "$SYS/broker/publish/messages/dropped"
MOST_SHOWN = 20  # topics without an adapter that are shown, and numbers shown for each
MAX_NUMBERS = 100  # most numbers shown of one message
MAX_DEVICES = 10_000  # of an input, whose messages are counted one by one
FEW_MESSAGES = 3  # from which the time between messages is known


@dataclass
class InputStats:
    """What arrived for an input: the count of messages, their devices and numbers, and the reasons of rejections.

    `is_given` says whether the config file has this input; the others are the adapters that it does not use.
    """

    adapter: Adapter
    settings: Input
    is_given: bool
    messages: int = 0
    devices: set[str] = field(default_factory=set)
    arrivals: dict[str, tuple[float, float, int]] = field(default_factory=dict)  # first, last and count, by device
    numbers: dict[str, float] = field(default_factory=dict)  # the last one of each field
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """What to call the input in a report: its adapter, with the topic if the config file sets one."""
        return f"{self.adapter.name} {self.settings.topic}".rstrip()

    @property
    def intervals(self) -> dict[str, float]:
        """The mean seconds between messages of each device that sent at least `FEW_MESSAGES`.

        Empty if each message holds a single number: then messages come more often than readings.
        """
        arrivals = {} if self.adapter.one_number else self.arrivals
        return {
            device: (last - first) / (count - 1)
            for device, (first, last, count) in arrivals.items()
            if count >= FEW_MESSAGES and last > first
        }


class TopicListener:
    """Listens to all topics of a broker for a while, in a separate session, so a running gateway misses nothing."""

    def __init__(self, config: Config, broker: Broker) -> None:
        used = {settings.adapter for settings in config.inputs}
        unused = [Input(name) for name in config.known_adapters if name not in used]
        # The inputs of the file come first, because a topic may match several.
        self.stats = [
            InputStats(config.adapter(settings), settings, settings.adapter in used)
            for settings in (*config.inputs, *unused)
        ]
        self._own_prefixes = tuple(f"{prefix}/" for prefix in (broker.publish, broker.home_assistant_prefix) if prefix)
        self._lock = Lock()
        self.unknown: Counter[str] = Counter()
        self.numbers: dict[str, dict[str, float]] = {}  # in messages that no adapter reads, by topic and path
        self.dropped: list[int] = []  # how many messages the broker has dropped so far, each time it says so
        self._connection = Connection(broker, f"{broker.client_id}-check", self._subscribe)
        self._connection.client.on_message = self._receive

    @property
    def heard(self) -> list[InputStats]:
        """The inputs for which messages arrived."""
        return [stats for stats in self.stats if stats.messages]

    def listen(self, seconds: float) -> None:
        """Connect, listen for `seconds`, disconnect."""
        self._connection.open()
        try:
            sleep(seconds)
        finally:
            self._connection.close()

    def _subscribe(self) -> None:
        self._connection.client.subscribe([("#", 0), (DROPPED, 0)])

    def _receive(self, client: Client, _: Any, message: MQTTMessage) -> None:
        """Count a message under the first input whose topic matches."""
        payload = bytes(message.payload)
        with self._lock:
            if message.topic == DROPPED:
                self.dropped.append(int(payload) if payload.isdigit() else 0)
                return
            stats = next((known for known in self.stats if known.adapter.matches(message.topic)), None)
            if stats is None:
                self._add_unknown(message.topic, payload)
            else:
                add_message(stats, message.topic, payload)

    def _add_unknown(self, topic: str, payload: bytes) -> None:
        """Keep numbers of a message that no adapter reads: `MOST_SHOWN` topics, and as many numbers of each."""
        if topic.startswith(self._own_prefixes):  # published by a gateway
            return
        if topic in self.unknown or len(self.unknown) < MOST_SHOWN:
            self.unknown[topic] += 1
            self.numbers[topic] = dict(list(numbers_in(payload).items())[:MOST_SHOWN])


def add_message(stats: InputStats, topic: str, payload: bytes) -> None:
    """Update `stats` with a message: its device and numbers, or the reason of its rejection."""
    adapter = stats.adapter
    stats.messages += 1
    try:
        name, _, content = read_message(adapter, payload, topic)
        device = check_device(name)
    except RejectedError as rejected:
        stats.rejected[str(rejected)] += 1
        return
    if len(stats.devices) < MAX_DEVICES:
        stats.devices.add(device)
    if device in stats.devices:
        first, _, count = stats.arrivals.get(device, (monotonic(), 0.0, 0))
        stats.arrivals[device] = first, monotonic(), count + 1
    if adapter.fields:
        numbers = {name: field_value(where, content) for name, where in adapter.fields.items()}
    else:  # its keys are its fields
        numbers = {}
        for path, number in islice(_numbers(content, ""), MAX_NUMBERS):
            is_key = "/" not in path[1:] and "~" not in path  # of the message itself; others are given by their path
            numbers[path[1:] if is_key else path] = number
    stats.numbers |= {name: number for name, number in numbers.items() if not isnan(number)}


def numbers_in(payload: bytes) -> dict[str, float]:
    """Return all numbers in a JSON message, by path (JSON Pointer).

    >>> numbers_in(b'{"a": {"b/c": "1.5"}, "d": [2, "x"]}')
    {'/a/b~1c': 1.5, '/d/0': 2.0}
    """
    try:
        return dict(_numbers(parse_json(payload), ""))
    except RejectedError:
        return {}


def _numbers(value: Any, path: str) -> Iterable[tuple[str, float]]:
    """Yield the path and value of every number at or below `path`."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, nested in pairs:
            yield from _numbers(nested, f"{path}/{escape_key(str(key))}")
    elif not isnan(number := parse_number(value)):
        yield path or "/", number


def propose_inputs(stats: Sequence[InputStats], channels: Sequence[str]) -> str:
    """Return TOML `[[inputs]]` for the messages that arrived, with the most likely field of each channel.

    Inputs already in the config file keep all their settings, even if nothing arrived for them. Empty if no number
    arrived at all.
    """
    if not any(heard.numbers for heard in stats):
        return ""
    inputs = []
    for heard in stats:
        if heard.is_given or heard.numbers:
            changed = {}  # settings that are not the default
            for key in fields(Input):
                setting = getattr(heard.settings, key.name)
                if setting != key.default:
                    changed[key.name] = setting
            guessed = guess_channels(heard.numbers, channels)
            inputs.append(changed | {"channels": guessed | dict(heard.settings.channels)})
    return tomli_w.dumps({"inputs": inputs})


def guess_channels(fields: Iterable[str], channels: Sequence[str]) -> dict[str, str]:
    """Map each channel to the field of its name, or else to the first field of its quantity.

    >>> guess_channels(["pm25", "pm25_cf1", "humidity"], ["pm25_raw", "humidity", "NO2"])
    {'pm25_raw': 'pm25', 'humidity': 'humidity'}
    """
    names = list(fields)
    guesses = {}
    for channel in channels:
        quantity = find_quantity(channel)
        same_quantity = [name for name in names if quantity is not None and find_quantity(name) == quantity]
        if channel in names:
            guesses[channel] = channel
        elif same_quantity:
            guesses[channel] = same_quantity[0]
    return guesses
