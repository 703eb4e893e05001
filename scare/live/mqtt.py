"""A connection to an MQTT broker, version 5: encrypted beyond this computer, made again whenever it breaks."""

import json
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from threading import Event
from time import monotonic, time
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, MQTTMessageInfo, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from scare.errors import UnreachableError, UsageError
from scare.live.config import Broker
from scare.live.home_assistant import Announcing
from scare.live.messages import RejectedError, check_size, format_time, reads_topic
from scare.live.pipeline import Arrival, Monitor, Pipeline, Refusal, Result
from scare.live.reader import Reader

KEEPALIVE_SECONDS = 30
PATIENCE_SECONDS = 10.0  # for the first connection
LOG = logging.getLogger(__name__)


class Connection:
    """A client at work in a thread; `on_connect` is called after each time it is connected.

    A `session` is kept by the broker for as long as it likes, with what comes meanwhile: at most `receives` messages
    are given before some of them are acknowledged.
    """

    def __init__(self, broker: Broker, client_id: str, on_connect: Callable[[], Any], receives: int = 0) -> None:
        self.broker, self._on_connect, self._receives = broker, on_connect, receives
        self.number = 0  # of connections made
        self._answered, self._refusal = Event(), ""
        self.client = Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5, manual_ack=True, reconnect_on_failure=True
        )
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        self.client.reconnect_delay_set(1, 30)
        if broker.user:
            self.client.username_pw_set(broker.user, broker.password() or None)
        if broker.is_encrypted:
            self.client.tls_set_context(_context(broker))

    def open(self) -> None:
        """Connect, or say why that is not possible."""
        broker = self.broker
        properties = Properties(PacketTypes.CONNECT)
        if self._receives:
            properties.SessionExpiryInterval = 0xFFFFFFFF
            properties.ReceiveMaximum = min(self._receives, 65535)
        self.client.connect_async(
            broker.host, broker.used_port, KEEPALIVE_SECONDS, clean_start=not self._receives, properties=properties
        )
        self.client.loop_start()
        if not self._answered.wait(PATIENCE_SECONDS):
            self.close()
            raise UnreachableError(f"the broker at {broker.host} port {broker.used_port} does not answer")
        if self._refusal:
            self.close()
            raise UsageError(f"the broker at {broker.host} refuses {broker.user or 'a client'}: {self._refusal}")

    def close(self) -> None:
        """End the connection; a session stays."""
        self.client.disconnect()
        self.client.loop_stop()

    def _connected(
        self, client: Client, _: Any, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
            LOG.warning("the broker at %s refuses the connection: %s", self.broker.host, reason)
        else:
            self.number += 1
            if self.number > 1:
                LOG.warning("connected to the broker at %s again", self.broker.host)
            self._on_connect()
        self._answered.set()

    def _disconnected(
        self, client: Client, _: Any, flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            LOG.warning("the connection to the broker at %s broke (%s); trying again", self.broker.host, reason)


def _context(broker: Broker) -> ssl.SSLContext:
    """TLS that checks who answers."""
    try:
        return ssl.create_default_context(cafile=broker.certificate_authority or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"mqtt.certificate_authority {broker.certificate_authority}: {error}") from error


# Readings from an MQTT broker: taken one by one, acknowledged when they have been published.
#
# What has not been acknowledged stays with the broker. When the pipeline is behind, this stops reading.


QOS = 1
Ready = Callable[[], object]  # is called when the broker has agreed to give messages
WAIT_SECONDS = 0.5  # between two looks whether the process ends, while there is no room


class MqttSource:
    """Subscribes for each reader, under a name that the broker knows again."""

    def __init__(
        self, broker: Broker, readers: Sequence[Reader], pipeline: Pipeline, monitor: Monitor, on_ready: Ready
    ) -> None:
        self._readers, self._pipeline, self._monitor, self._on_ready = readers, pipeline, monitor, on_ready
        self._stopping = Event()
        self._connection = Connection(broker, broker.client_id, self._subscribe, receives=pipeline.limits.queue)
        self._connection.client.on_message = self._take
        self._connection.client.on_subscribe = self._hear

    def start(self) -> None:
        """Let messages come; those of a session may come before the broker has answered the subscription."""
        self._connection.open()

    def stop(self) -> None:
        """Take no more; what has been taken can still be acknowledged."""
        self._stopping.set()

    def close(self) -> None:
        """End the connection; the broker keeps what comes."""
        self._stopping.set()
        self._connection.close()

    def _subscribe(self) -> None:
        self._connection.client.subscribe([(one.adapter.subscription, QOS) for one in self._readers])

    def _hear(self, client: Client, _: Any, __: int, answers: Sequence[ReasonCode], ___: Any) -> None:
        for reader, answer in zip(self._readers, answers, strict=True):
            if answer.is_failure:
                LOG.error("the broker refuses to give %s: %s", reader.adapter.subscription, answer)
        self._on_ready()

    def _take(self, client: Client, _: Any, message: MQTTMessage) -> None:
        """Parse a message and hand it over; what cannot be used is acknowledged at once."""
        if self._stopping.is_set():
            return
        self._monitor.count("received")
        done = partial(self._acknowledge, message.mid, message.qos, self._connection.number)
        try:
            arrival = self._read(message)
        except RejectedError as refused:
            self._monitor.refuse(message.topic, str(refused))
            arrival = None
        if arrival is None:
            done()
            return
        reading, partial_row = arrival
        while not self._pipeline.submit(Arrival((reading,), done, partial_row), WAIT_SECONDS):
            if self._stopping.is_set():
                return

    def _read(self, message: MQTTMessage) -> Any:
        """A reading, and whether it is only a part of a row; None where nobody asks for it."""
        payload = bytes(message.payload)
        check_size(payload)
        reader = next((one for one in self._readers if reads_topic(one.adapter, message.topic)), None)
        if reader is None:
            raise RejectedError("no input reads this topic")
        reading = reader.read(payload, message.topic, time())
        if reading is None:
            self._monitor.count("ignored")
            return None
        return reading, reader.adapter.one_number

    def _acknowledge(self, message_id: int, qos: int, connection: int) -> None:
        """Tell the broker; after a new connection it sends the message again, and that one is acknowledged."""
        if connection == self._connection.number:
            self._connection.client.ack(message_id, qos)


# Results to an MQTT broker: `PREFIX/DEVICE/state` retained, `PREFIX/status` with a last will, `PREFIX/rejected`.
#
# A result is safe when the broker has said so; until then the readings it came from are not acknowledged.


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
