"""Readings from an MQTT broker: taken one by one, acknowledged when they have been published.

What has not been acknowledged stays with the broker. When the pipeline is behind, this stops reading.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from time import time
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.reasoncodes import ReasonCode

from scare.live.adapters import reads_topic
from scare.live.border import RefusedError, check_size
from scare.live.config import Broker
from scare.live.monitor import Monitor
from scare.live.mqtt_client import Connection
from scare.live.pipeline import Pipeline
from scare.live.reader import Reader
from scare.live.waiting import Arrival

QOS = 1
Ready = Callable[[], object]  # is called when the broker has agreed to give messages
LOG = logging.getLogger(__name__)
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
        except RefusedError as refused:
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
            raise RefusedError("no input reads this topic")
        reading = reader.read(payload, message.topic, time())
        if reading is None:
            self._monitor.count("ignored")
            return None
        return reading, reader.adapter.one_number

    def _acknowledge(self, message_id: int, qos: int, connection: int) -> None:
        """Tell the broker; after a new connection it sends the message again, and that one is acknowledged."""
        if connection == self._connection.number:
            self._connection.client.ack(message_id, qos)
