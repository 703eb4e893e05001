"""What arrives at a broker, and a mapping for it: `scare live check` listens as `scare inspect` reads a file."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from threading import Lock
from time import sleep
from typing import Any

import tomli_w
from paho.mqtt.client import Client, MQTTMessage

from scare.data.quantities import find_quantity
from scare.live.config import Broker, Config
from scare.live.messages import (
    Adapter,
    RejectedError,
    check_device,
    field_value,
    parse_json,
    parse_number,
    read_message,
    reads_topic,
)
from scare.live.mqtt import Connection

DROPPED = "$SYS/broker/publish/messages/dropped"
KEPT_TOPICS = 20
KEPT_DEVICES = 10_000


@dataclass
class Heard:
    """What came that one adapter can read."""

    messages: int = 0
    devices: set[str] = field(default_factory=set)
    numbers: dict[str, float] = field(default_factory=dict)  # the last of each field
    refused: Counter[str] = field(default_factory=Counter)


class Ear:
    """Keeps what is said on all topics for a while, without taking it from anyone."""

    def __init__(self, config: Config, broker: Broker) -> None:
        self._adapters = adapters_by_use(config)
        self._own = tuple(f"{one}/" for one in (broker.publish, broker.home_assistant_prefix) if one)
        self._lock = Lock()
        self.heard: dict[str, Heard] = {}
        self.unknown: Counter[str] = Counter()
        self.places: dict[str, dict[str, float]] = {}  # numbers in messages that no adapter reads, by topic
        self.dropped: list[int] = []
        self._connection = Connection(broker, f"{broker.client_id}-check", self._subscribe)
        self._connection.client.on_message = self._hear

    def listen(self, seconds: float) -> None:
        """Listen for so long."""
        self._connection.open()
        try:
            sleep(seconds)
        finally:
            self._connection.close()

    def _subscribe(self) -> None:
        self._connection.client.subscribe([("#", 0), (DROPPED, 0)])

    def _hear(self, client: Client, _: Any, message: MQTTMessage) -> None:
        payload = bytes(message.payload)
        with self._lock:
            if message.topic == DROPPED:
                self.dropped.append(int(payload) if payload.isdigit() else 0)
                return
            adapter = next((one for one in self._adapters if reads_topic(one, message.topic)), None)
            if adapter is None:
                self._keep_unknown(message.topic, payload)
            else:
                listen_to(self.heard.setdefault(adapter.name, Heard()), adapter, message.topic, payload)

    def _keep_unknown(self, topic: str, payload: bytes) -> None:
        if topic.startswith(self._own):  # what a gateway publishes is not for it to read
            return
        if topic in self.unknown or len(self.unknown) < KEPT_TOPICS:
            self.unknown[topic] += 1
            self.places[topic] = dict(list(numbers_in(payload).items())[:KEPT_TOPICS])


def adapters_by_use(config: Config) -> list[Adapter]:
    """The adapters of a config file's inputs first, then all others."""
    known = config.known_adapters
    used = [one.adapter for one in config.inputs]
    return [known[name] for name in dict.fromkeys([*used, *known]) if known[name].topic]


def listen_to(heard: Heard, adapter: Adapter, topic: str, payload: bytes) -> None:
    """Add a message to what was heard."""
    heard.messages += 1
    try:
        message = read_message(adapter, payload, topic)
        device = check_device(message.device)
    except RejectedError as refused:
        heard.refused[str(refused)] += 1
        return
    if len(heard.devices) < KEPT_DEVICES:
        heard.devices.add(device)
    named = {name: field_value(one, message.content) for name, one in adapter.fields.items()}
    plain = {str(name): parse_number(value) for name, value in message.content.items()} if not adapter.fields else {}
    heard.numbers |= {name: number for name, number in (named | plain).items() if not isnan(number)}


def numbers_in(payload: bytes) -> dict[str, float]:
    """All numbers of a JSON message, by their places.

    >>> numbers_in(b'{"a": {"b/c": "1.5"}, "d": [2, "x"]}')
    {'/a/b~1c': 1.5, '/d/0': 2.0}
    """
    try:
        return dict(_numbers(parse_json(payload), ""))
    except RejectedError:
        return {}


def _numbers(value: Any, place: str) -> Iterable[tuple[str, float]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in pairs:
            yield from _numbers(below, f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif not isnan(number := parse_number(value)):
        yield place or "/", number


def propose(heard: Mapping[str, Heard], channels: Sequence[str]) -> str:
    """Inputs for what was heard, as TOML: each channel is the field of its name, or of its quantity."""
    found = {name: guess_channels(one.numbers, channels) for name, one in heard.items() if one.numbers}
    inputs = [{"adapter": name, "channels": guesses} for name, guesses in found.items()]
    return tomli_w.dumps({"inputs": inputs}) if inputs else ""


def guess_channels(fields: Iterable[str], channels: Sequence[str]) -> dict[str, str]:
    """Which field may be which channel.

    >>> guess_channels(["pm25", "pm25_cf1", "humidity"], ["pm25_raw", "humidity", "NO2"])
    {'pm25_raw': 'pm25', 'humidity': 'humidity'}
    """
    names = list(fields)
    guesses = {channel: channel if channel in names else _same_quantity(channel, names) for channel in channels}
    return {channel: name for channel, name in guesses.items() if name}


def _same_quantity(channel: str, names: Sequence[str]) -> str:
    wanted = find_quantity(channel)
    return next((name for name in names if wanted is not None and find_quantity(name) == wanted), "")
