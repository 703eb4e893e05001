"""Results to a topic of Kafka, keyed by device, as JSON; safe when the brokers have said so."""

import json
from collections.abc import Sequence
from threading import Event

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from scare.errors import UnreachableError, UsageError
from scare.live.config import Kafka
from scare.live.kafka_client import settings
from scare.live.monitor import Monitor
from scare.live.results import Result

LOOK_SECONDS = 0.2
FOR_EVER = {"message.timeout.ms": 0, "enable.idempotence": True}  # what cannot be sent now is sent later, once


class KafkaSink:
    """Publishes, and waits until the brokers have it."""

    def __init__(self, kafka: Kafka, monitor: Monitor) -> None:
        self._topic, self._monitor, self._stopping = kafka.publish, monitor, Event()
        self._refusal: KafkaError | None = None
        try:
            self._producer = Producer(settings(kafka) | FOR_EVER)
        except KafkaException as error:
            raise UsageError(f"[kafka]: {error.args[0].str()}") from error

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._stopping.set()

    def publish(self, results: Sequence[Result]) -> bool:
        """Publish all but late results."""
        sent = [one for one in results if not one.is_late]
        for one in sent:
            told = json.dumps({"device": one.device, **one.as_json()}, ensure_ascii=False, separators=(",", ":"))
            self._producer.produce(self._topic, told, one.device, on_delivery=self._hear)
        self._monitor.count("published", len(sent))
        return self._is_safe()

    def keep(self, number: int) -> None:
        """Nothing: what was published is with the brokers."""

    def _is_safe(self) -> bool:
        while self._producer.flush(LOOK_SECONDS):
            if self._stopping.is_set():
                return False
        if self._refusal is not None:
            raise UnreachableError(f"Kafka does not take results for the topic {self._topic}: {self._refusal.str()}")
        return True

    def _hear(self, error: KafkaError | None, message: Message) -> None:
        self._refusal = self._refusal or error
