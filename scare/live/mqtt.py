"""MQTT 5 or 3.1.1: readings in (`MqttSource`), results out (`MqttSink`), over a connection that is restored.

A reading is acknowledged when its result has been published. The order (journal, calibrate, publish, acknowledge) is
kept by `pipeline`, not here. The broker keeps a reading until it is acknowledged, and a full queue makes the source
wait. Results go to `PREFIX/DEVICE/state` (retained), rejections to `PREFIX/rejected`, and `PREFIX/status` is `online`
or, by the last will, `offline`. A result counts as published when the broker has confirmed it. Connections to other
computers are encrypted.
"""

import json
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from socket import create_connection
from threading import Event
from time import monotonic, time
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage, MQTTMessageInfo, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from scare.errors import UnreachableError, UsageError
from scare.live.arrivals import Delivery
from scare.live.config import DEFAULT_PORTS, Broker
from scare.live.home_assistant import Discovery
from scare.live.messages import Reader, Reading, RejectedError, check_size, format_time, topic_level
from scare.live.pipeline import Monitor, Pipeline, Rejection, Result

QOS = 1
KEEPALIVE_SECONDS = 30
CONNECT_SECONDS = 10.0  # longest wait for the first connection
PROBE_SECONDS = 3.0  # for a connection that finds out why there was none
FULL_QUEUE_SECONDS = 0.5  # how often, while the queue is full, we check whether the process is stopping
CONFIRM_SECONDS = 0.2  # how often, while the broker has not confirmed, we check whether the process is stopping
REJECTION_SECONDS = 1.0  # least time between two published rejections
LOST_AT_QOS_0 = "readings are lost while this process or the connection is down, and none is sent again"
OnReady = Callable[[], object]  # called when the broker has accepted the subscriptions
LOG = logging.getLogger(__name__)


class Connection:
    """A client with its own thread; `on_connect` is called after every connection, the first one and later ones.

    With `max_unacknowledged` above 0, the broker keeps the session, queues messages while we are away, and sends at
    most that many before one is acknowledged. With 0, the session ends with the connection.
    """

    def __init__(
        self, broker: Broker, client_id: str, on_connect: Callable[[], Any], max_unacknowledged: int = 0
    ) -> None:
        self.broker, self._on_connect, self._max_unacknowledged = broker, on_connect, max_unacknowledged
        self.connections = 0  # made so far
        self._answered = Event()
        self._failure = ""  # why the broker refused the first connection
        options: dict[str, Any] = {"protocol": MQTTv5}
        if broker.version == 3:  # version 3 sets `clean_session` on the client, version 5 `clean_start` per connection
            options = {"protocol": MQTTv311, "clean_session": not max_unacknowledged}
        self.client = Client(
            CallbackAPIVersion.VERSION2, client_id, manual_ack=True, reconnect_on_failure=True, **options
        )
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        self.client.reconnect_delay_set(1, 30)
        if broker.user:
            self.client.username_pw_set(broker.user, broker.password() or None)
        self._context: ssl.SSLContext | None = None
        if broker.is_encrypted:
            try:
                self._context = ssl.create_default_context(cafile=broker.certificate_authority or None)
            except (OSError, ssl.SSLError) as error:
                raise UsageError(f"mqtt.certificate_authority {broker.certificate_authority}: {error}") from error
            self.client.tls_set_context(self._context)

    def open(self) -> None:
        """Connect, or raise an error with the reason."""
        broker, options = self.broker, dict[str, Any]()
        if broker.version == 5:
            properties = Properties(PacketTypes.CONNECT)
            if self._max_unacknowledged:
                properties.SessionExpiryInterval = 0xFFFFFFFF  # never
                properties.ReceiveMaximum = min(self._max_unacknowledged, 65535)  # MQTT's limit
            options = {"clean_start": not self._max_unacknowledged, "properties": properties}
        self.client.connect_async(broker.host, broker.used_port, KEEPALIVE_SECONDS, **options)
        self.client.loop_start()
        if not self._answered.wait(CONNECT_SECONDS):
            self.close()
            reason = explain_silence(broker, self._context)
            raise UnreachableError(f"the broker at {broker.host} port {broker.used_port} does not answer{reason}")
        if self._failure:
            self.close()
            hint = (
                "; set mqtt.version = 3" if "protocol version" in self._failure.lower() and broker.version == 5 else ""
            )
            raise UsageError(f"the broker at {broker.host} refuses {broker.user or 'a client'}: {self._failure}{hint}")

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        self.client.disconnect()
        self.client.loop_stop()

    def _connected(
        self, client: Client, _: Any, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        """Note whether the broker accepts the connection, for which `open` waits; called by paho."""
        if reason.is_failure:
            self._failure = str(reason)
            LOG.warning("the broker at %s refuses the connection: %s", self.broker.host, reason)
        else:
            self.connections += 1
            if self.connections > 1:
                LOG.warning("reconnected to the broker at %s", self.broker.host)
            self._on_connect()
        self._answered.set()

    def _disconnected(
        self, client: Client, _: Any, flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            LOG.warning("lost the connection to the broker at %s (%s); reconnecting", self.broker.host, reason)


def explain_silence(broker: Broker, context: ssl.SSLContext | None) -> str:
    """Find out by another connection why a broker does not answer; returns the end of an error message.

    It says what to change, if that is clear. `context` is that of the connection that failed, None without TLS.
    """
    host = broker.host
    port = broker.used_port
    we_use_tls = context is not None
    server_has_tls = speaks_tls(host, port)
    if server_has_tls is None:
        other = DEFAULT_PORTS[not we_use_tls]
        # Nobody listens. If the config file names no port, a broker may listen at the other default port.
        if not broker.port and speaks_tls(host, other) is (not we_use_tls):
            return f", but port {other} does: set mqtt.tls = {str(not we_use_tls).lower()}"
        return "; check mqtt.host and mqtt.port"
    if server_has_tls is not we_use_tls:
        return " with TLS; if it has none, set mqtt.tls = false" if we_use_tls else " without TLS; set mqtt.tls = true"
    if context is not None:
        try:
            with create_connection((host, port), PROBE_SECONDS) as socket:
                context.wrap_socket(socket, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            return f": its certificate is refused ({error.verify_message}); set mqtt.certificate_authority"
        except OSError as error:
            return f": {error}"
    return " as an MQTT broker does"


def speaks_tls(host: str, port: int) -> bool | None:
    """Whether a server answers a TLS handshake, whatever its certificate; None if there is no connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        socket = create_connection((host, port), PROBE_SECONDS)
    except OSError:
        return None
    with socket:
        try:
            context.wrap_socket(socket, server_hostname=host).close()
        except OSError:  # also `ssl.SSLError`
            return False
    return True


class MqttSource:
    """Subscribes to the topics of readers in a session that outlives the process."""

    def __init__(
        self, broker: Broker, readers: Sequence[Reader], pipeline: Pipeline, monitor: Monitor, on_ready: OnReady
    ) -> None:
        self._readers, self._pipeline, self._monitor, self._on_ready = readers, pipeline, monitor, on_ready
        self._stopping = Event()
        self._connection = Connection(broker, broker.client_id, self._subscribe, pipeline.limits.queue)
        self._connection.client.on_message = self._receive
        self._connection.client.on_subscribe = self._subscribed

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the broker now."""
        return self._connection.client.is_connected()

    def start(self) -> None:
        """Connect and subscribe; queued messages of a persistent session may arrive first."""
        if self._connection.broker.version == 3:
            # The Things Stack grants QoS 1 and sends with QoS 0, so its answer to a subscription does not tell.
            LOG.warning("MQTT 3.1.1: if the server sends with QoS 0, as The Things Stack does, %s", LOST_AT_QOS_0)
        self._connection.open()

    def stop(self) -> None:
        """Accept no more messages; those accepted can still be acknowledged."""
        self._stopping.set()

    def close(self) -> None:
        """Disconnect; the broker queues what arrives."""
        self._stopping.set()
        self._connection.close()

    def _subscribe(self) -> None:
        self._connection.client.subscribe([(reader.adapter.subscription, QOS) for reader in self._readers])

    def _subscribed(self, client: Client, _: Any, __: int, answers: Sequence[ReasonCode], ___: Any) -> None:
        """Log subscriptions that the broker refuses or weakens, and go on with the others."""
        for reader, answer in zip(self._readers, answers, strict=True):
            topic = reader.adapter.subscription
            if answer.is_failure:
                LOG.error("the broker refuses the subscription to %s: %s", topic, answer)
            elif answer.value < QOS:
                LOG.warning("the broker sends %s with QoS 0: %s", topic, LOST_AT_QOS_0)
        self._on_ready()

    def _receive(self, client: Client, _: Any, message: MQTTMessage) -> None:
        """Parse and submit a message; one that cannot be used is acknowledged at once."""
        if self._stopping.is_set():
            return
        self._monitor.count("received")
        acknowledge = partial(self._acknowledge, message.mid, message.qos, self._connection.connections)
        try:
            reader, reading = self._read(message)
        except RejectedError as rejected:
            self._monitor.reject(message.topic, str(rejected))
            acknowledge()
            return
        if reading is None or (message.retain and not reading.states_time):  # nobody knows how old the latter is
            self._monitor.count("ignored")
            acknowledge()
            return
        delivery = Delivery((reading,), acknowledge, partial=reader.adapter.one_number)
        while not self._pipeline.submit(delivery, FULL_QUEUE_SECONDS):
            if self._stopping.is_set():
                return

    def _read(self, message: MQTTMessage) -> tuple[Reader, Reading | None]:
        """Return the first reader whose topic matches, and the reading (None for a number that no channel wants)."""
        payload = bytes(message.payload)
        check_size(payload)
        reader = next((known for known in self._readers if known.adapter.matches(message.topic)), None)
        if reader is None:
            raise RejectedError("no input reads this topic")
        return reader, reader.read(payload, message.topic, time())

    def _acknowledge(self, message_id: int, qos: int, connections: int) -> None:
        """Acknowledge a message, unless we have reconnected: then the broker has sent it again."""
        if connections == self._connection.connections:
            self._connection.client.ack(message_id, qos)


class MqttSink:
    """Publishes results, and waits until the broker has confirmed them."""

    def __init__(self, broker: Broker, monitor: Monitor, discovery: Discovery | None) -> None:
        self._prefix, self._monitor, self._discovery = broker.publish, monitor, discovery
        self._stopping = Event()
        self._next_rejection = 0.0
        self._is_online = False
        self._connection = Connection(broker, f"{broker.client_id}-out", self._announce)
        self._client = self._connection.client
        self._client.will_set(f"{self._prefix}/status", "offline", QOS, retain=True)
        if discovery is not None:
            self._client.message_callback_add(discovery.birth_topic, self._republish_discovery)
        monitor.on_rejection = self._publish_rejection

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the broker now."""
        return self._connection.client.is_connected()

    def start(self) -> None:
        """Connect; `announce_online` publishes that readings are accepted."""
        self._connection.open()

    def announce_online(self) -> None:
        """Publish that readings are accepted, now and after every new connection."""
        self._is_online = True
        self._announce()

    def stop(self) -> None:
        """From now on, stop waiting for confirmations whenever there is no connection."""
        self._stopping.set()

    def close(self) -> None:
        """Publish `offline` and disconnect."""
        self._stopping.set()
        if self._client.is_connected():
            self._client.publish(f"{self._prefix}/status", "offline", QOS, retain=True).wait_for_publish(2)
        self._connection.close()

    def publish(self, results: Sequence[Result]) -> bool:
        """Publish all results except late ones; the broker retains the newest of each device.

        False if the process stops before the broker has confirmed them.
        """
        sent = [self._send(result) for result in results if not result.is_late]
        self._monitor.count("published", len(sent))
        return all(map(self._wait_until_confirmed, sent))

    def keep(self, number: int) -> None:
        """Do nothing: the broker keeps the results itself."""

    def publish_retained(self, topic: str, payload: str) -> None:
        """Publish a retained message on a topic below our prefix, without waiting for the broker's confirmation."""
        self._client.publish(f"{self._prefix}/{topic}", payload, QOS, retain=True)

    def _send(self, result: Result) -> MQTTMessageInfo:
        """Publish a result without waiting, after the discovery message of a new device."""
        if self._discovery is not None:
            self._publish_all(self._discovery.update(result))
        payload = json.dumps(result.as_json(), ensure_ascii=False, separators=(",", ":"))
        return self._client.publish(f"{self._prefix}/{topic_level(result.device)}/state", payload, QOS, retain=True)

    def _wait_until_confirmed(self, sent: MQTTMessageInfo) -> bool:
        """Wait for the broker; False if the process stops first. After a reconnection paho sends the message again."""
        # Otherwise paho raises "not connected", which may have been true when the message was queued.
        sent.rc = MQTTErrorCode.MQTT_ERR_SUCCESS
        while not sent.is_published():
            if self._stopping.is_set() and not self._client.is_connected():
                return False
            sent.wait_for_publish(CONFIRM_SECONDS)
        return True

    def _announce(self) -> None:
        """Publish `online`, once readings are accepted, and listen for Home Assistant; called after each connection."""
        if self._is_online:
            self._client.publish(f"{self._prefix}/status", "online", QOS, retain=True)
        if self._discovery is not None:
            self._client.subscribe(self._discovery.birth_topic, QOS)
            self._publish_all(self._discovery.co_location())

    def _republish_discovery(self, client: Any, _: Any, message: MQTTMessage) -> None:
        """Publish all discovery messages again when Home Assistant announces that it has started."""
        client.ack(message.mid, message.qos)
        if self._discovery is not None and message.payload == b"online":
            self._publish_all(self._discovery.all())

    def _publish_all(self, messages: dict[str, str]) -> None:
        for topic, payload in messages.items():
            self._client.publish(topic, payload, QOS, retain=True)

    def _publish_rejection(self, rejection: Rejection) -> None:
        """Publish a rejection, at most one every `REJECTION_SECONDS`; the others are only counted."""
        now = monotonic()
        if now >= self._next_rejection:
            self._next_rejection = now + REJECTION_SECONDS
            payload = asdict(rejection) | {"time": format_time(rejection.time)}
            self._client.publish(f"{self._prefix}/rejected", json.dumps(payload))
