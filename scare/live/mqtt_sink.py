"""Results to an MQTT broker: `PREFIX/DEVICE/state` retained, `PREFIX/status` with a last will, `PREFIX/rejected`.

A result is safe when the broker has said so; until then the readings it came from are not acknowledged.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from threading import Event
from time import monotonic
from typing import Any

from paho.mqtt.client import MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode

from scare.live.border import format_time
from scare.live.config import Broker
from scare.live.home_assistant import Announcing
from scare.live.monitor import Monitor, Refusal
from scare.live.mqtt_client import Connection
from scare.live.results import Result

QOS = 1
REFUSALS_SECONDS = 1.0  # between two refusals that are told
LOOK_SECONDS = 0.2


class MqttSink:
    """Publishes, and waits until the broker has it."""

    def __init__(self, broker: Broker, monitor: Monitor, announcing: Announcing | None) -> None:
        self._prefix, self._monitor, self._announcing = broker.publish, monitor, announcing
        self._stopping, self._next_refusal, self._is_online = Event(), 0.0, False
        self._connection = Connection(broker, f"{broker.client_id}-out", self._greet)
        self._client = self._connection.client
        self._client.will_set(f"{self._prefix}/status", "offline", QOS, retain=True)
        if announcing is not None:
            self._client.message_callback_add(announcing.birth_topic, self._announce_again)
        monitor.on_refusal = self._tell_refusal

    def start(self) -> None:
        """Connect."""
        self._connection.open()

    def say_online(self) -> None:
        """Let others know that readings are taken, now and after each new connection."""
        self._is_online = True
        self._greet()

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._stopping.set()

    def close(self) -> None:
        """Say goodbye and end the connection."""
        self._stopping.set()
        if self._client.is_connected():
            self._client.publish(f"{self._prefix}/status", "offline", QOS, retain=True).wait_for_publish(2)
        self._connection.close()

    def publish(self, results: Sequence[Result]) -> bool:
        """Publish all but late results; of a device's only the newest is retained in the end."""
        sent = [self._send(one) for one in results if not one.is_late]
        self._monitor.count("published", len(sent))
        return all(map(self._is_safe, sent))

    def keep(self, number: int) -> None:
        """Nothing: what was published is with the broker."""

    def _send(self, result: Result) -> MQTTMessageInfo:
        if self._announcing is not None:
            self._announce(self._announcing.news(result))
        payload = json.dumps(result.as_json(), ensure_ascii=False, separators=(",", ":"))
        return self._client.publish(f"{self._prefix}/{result.device}/state", payload, QOS, retain=True)

    def _is_safe(self, sent: MQTTMessageInfo) -> bool:
        """Whether the broker has a message; what could not be sent is sent as soon as there is a connection again."""
        sent.rc = MQTTErrorCode.MQTT_ERR_SUCCESS  # of the moment when it was handed over
        while not sent.is_published():
            if self._stopping.is_set() and not self._client.is_connected():
                return False
            sent.wait_for_publish(LOOK_SECONDS)
        return True

    def _greet(self) -> None:
        if self._is_online:
            self._client.publish(f"{self._prefix}/status", "online", QOS, retain=True)
        if self._announcing is not None:
            self._client.subscribe(self._announcing.birth_topic, QOS)

    def _announce_again(self, client: Any, _: Any, message: MQTTMessage) -> None:
        client.ack(message.mid, message.qos)
        if self._announcing is not None and message.payload == b"online":
            self._announce(self._announcing.all())

    def _announce(self, configs: dict[str, str]) -> None:
        for topic, payload in configs.items():
            self._client.publish(topic, payload, QOS, retain=True)

    def _tell_refusal(self, refusal: Refusal) -> None:
        """Publish a refusal now and then."""
        now = monotonic()
        if now >= self._next_refusal:
            self._next_refusal = now + REFUSALS_SECONDS
            told = asdict(refusal) | {"time": format_time(refusal.time)}
            self._client.publish(f"{self._prefix}/rejected", json.dumps(told))
