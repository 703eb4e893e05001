"""What both clients of Kafka are told: where the brokers are, how to reach them, what to say of errors."""

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Event
from time import time
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from scare.errors import UnreachableError, UsageError
from scare.live.config import Kafka
from scare.live.messages import Reading, RejectedError, check_size, excerpt
from scare.live.pipeline import IDLE_SECONDS, LARGEST_BATCH, Arrival, Monitor, Pipeline, Result
from scare.live.reader import Reader
from scare.live.store import InUseError, Store

LOG = logging.getLogger(__name__)


def settings(kafka: Kafka) -> dict[str, Any]:
    """Keys of librdkafka.

    >>> settings(Kafka("readings", ("kafka.lan:9093",)))["security.protocol"]
    'ssl'
    """
    found = {
        "bootstrap.servers": ",".join(kafka.brokers),
        "security.protocol": f"{'sasl_' * bool(kafka.user)}{'ssl' if kafka.is_encrypted else 'plaintext'}",
        "error_cb": _tell,
        "log_level": 3,
    }
    if kafka.certificate_authority:
        found["ssl.ca.location"] = kafka.certificate_authority
    if kafka.user:
        found |= {"sasl.mechanism": kafka.mechanism, "sasl.username": kafka.user, "sasl.password": kafka.password()}
    return found


def _tell(error: KafkaError) -> None:
    LOG.warning("Kafka: %s", error.str())


# Readings from a topic of Kafka whose partitions several processes share: each partition has a pipeline of its own.
#
# A partition's state lies in a folder that all processes see and one at a time holds. Who is given the partition goes
# on from its snapshot and journal, at the offset that they hold; who has to give it back keeps all first.


PATIENCE_SECONDS = 10.0  # for brokers that are asked
WAIT_SECONDS = 0.5  # between two looks whether another process has left a folder

MakePipeline = Callable[[str, Store], Pipeline]  # of the partition's name and state


class Partitions:
    """The partitions that this process has been given; `start`, then `run` in the same thread until `stop`."""

    def __init__(
        self, kafka: Kafka, state: Path | str, reader: Reader, make_pipeline: MakePipeline, monitor: Monitor
    ) -> None:
        self._kafka, self._state, self._reader, self._monitor = kafka, Path(state), reader, monitor
        self._make_pipeline = make_pipeline
        self._pipelines: dict[int, tuple[Pipeline, Store]] = {}
        self._stopping = Event()
        self.backlog = 0  # readings that were fetched and are worked on
        try:
            self._consumer = Consumer(settings(kafka) | _group(kafka))
        except KafkaException as error:
            raise UsageError(f"[kafka]: {error.args[0].str()}") from error

    def start(self) -> None:
        """Join the group, or say why that is not possible."""
        topic = self._kafka.topic
        try:
            found = self._consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic]
        except KafkaException as error:
            raise UnreachableError(f"Kafka at {', '.join(self._kafka.brokers)}: {error.args[0].str()}") from error
        if found.error is not None:
            raise UsageError(f"Kafka has no topic {topic} for us: {found.error.str()}")
        self._consumer.subscribe([topic], self._take_up, self._give_back, self._give_back)

    def run(self) -> None:
        """Work until `stop`; what has been fetched by then is finished and kept."""
        while not self._stopping.is_set():
            messages = self._consumer.consume(LARGEST_BATCH, IDLE_SECONDS)
            self.backlog = len(messages)
            for number, some in groupby(sorted(messages, key=_place), _partition):
                self._process(number, list(some))
            self.backlog = 0
            for pipeline, _ in self._pipelines.values():
                pipeline.poll()

    def stop(self) -> None:
        """End `run` soon."""
        self._stopping.set()

    def close(self) -> None:
        """Give all partitions back and leave the group."""
        self._stopping.set()
        self._consumer.close()
        self._give_back(self._consumer, [TopicPartition(self._kafka.topic, number) for number in self._pipelines])

    def _process(self, number: int, messages: Sequence[Message]) -> None:
        """Calibrate and publish what came of a partition, then tell the brokers how far it is."""
        for one in messages:
            if (error := one.error()) is not None:
                LOG.warning("Kafka, partition %d: %s", number, error.str())
        taken = [one for one in messages if one.error() is None]
        if not taken or number not in self._pipelines:
            return
        readings = [reading for one in taken if (reading := self._read(one)) is not None]
        done = partial(self._commit, number, _offset(taken[-1]) + 1)
        self._pipelines[number][0].process([Arrival(readings, done)])

    def _read(self, message: Message) -> Reading | None:
        """The reading of a message; one that cannot be used is refused."""
        self._monitor.count("received")
        try:
            return replace(self._parse(message), offset=message.offset())
        except RejectedError as refused:
            self._monitor.refuse(f"{message.topic()} {message.partition()}:{message.offset()}", str(refused))
            return None

    def _parse(self, message: Message) -> Reading:
        payload, key = _bytes(message.value()), _bytes(message.key()).decode("utf-8", "replace")
        check_size(payload)
        topic = self._reader.adapter.topic.replace("{device}", key) if key and "/" not in key else ""
        reading = self._reader.read(payload, topic, _arrival(message))
        if reading is None or reading.device != key:
            raise RejectedError(f"its key is {excerpt(key)}: the key of a message is the name of its device")
        return reading

    def _commit(self, number: int, offset: int) -> None:
        """Tell the brokers where to go on; the state knows it better, so it does not matter if they do not hear it."""
        with suppress(KafkaException):
            self._consumer.commit(offsets=[TopicPartition(self._kafka.topic, number, offset)])

    def _take_up(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Go on with partitions where the last process ended."""
        for one in partitions:
            self._restore(one.partition)
        known = self._committed(consumer, partitions)
        for one in partitions:
            if one.partition in self._pipelines:
                one.offset = max(known[one.partition], self._pipelines[one.partition][1].position) or one.offset
        consumer.assign(list(partitions))

    def _restore(self, number: int) -> None:
        name = f"kafka-{self._kafka.topic}-{number}"
        store = self._open(name)
        if store is not None:
            pipeline = self._make_pipeline(name, store)
            self._pipelines[number] = pipeline, store
            pipeline.restore()

    def _open(self, name: str) -> Store | None:
        """A partition's state as soon as nobody else holds it; None if the process ends before."""
        with suppress(InUseError):
            return Store(self._state / name)
        LOG.warning("waiting for another process to leave %s", name)
        while not self._stopping.wait(WAIT_SECONDS):
            with suppress(InUseError):
                return Store(self._state / name)
        return None

    def _committed(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[int, int]:
        """What the brokers were told last, 0 if nothing."""
        try:
            found = consumer.committed(list(partitions), PATIENCE_SECONDS)
        except KafkaException as error:
            raise UnreachableError(f"Kafka does not say where {self._kafka.group} is: {error.args[0].str()}") from error
        return {one.partition: max(one.offset, 0) for one in found}

    def _give_back(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        """Keep the state of partitions and leave it to others."""
        for one in partitions:
            if one.partition in self._pipelines:
                pipeline, store = self._pipelines.pop(one.partition)
                try:
                    pipeline.finish()
                finally:
                    store.close()


def _group(kafka: Kafka) -> dict[str, Any]:
    """Keys of librdkafka for one of a group that says itself how far it is."""
    return {
        "group.id": kafka.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": round(1000 * kafka.session_seconds),
        "heartbeat.interval.ms": round(1000 * min(3.0, kafka.session_seconds / 3)),
    }


def _place(message: Message) -> tuple[int, int]:
    return _partition(message), _offset(message)


def _partition(message: Message) -> int:
    return message.partition() or 0


def _offset(message: Message) -> int:
    return message.offset() or 0


def _bytes(told: str | bytes | None) -> bytes:
    return told.encode() if isinstance(told, str) else told or b""


def _arrival(message: Message) -> float:
    """When a message came to Kafka, so that it has the same time whenever it is read."""
    kind, milliseconds = message.timestamp()
    return time() if kind == TIMESTAMP_NOT_AVAILABLE else min(milliseconds / 1000, time())


# Results to a topic of Kafka, keyed by device, as JSON; safe when the brokers have said so.


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
