"""A connection to an MQTT broker, version 5: encrypted beyond this computer, made again whenever it breaks."""

import logging
import ssl
from collections.abc import Callable
from threading import Event
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from scare.errors import UnreachableError, UsageError
from scare.live.config import Broker

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
