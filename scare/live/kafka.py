"""Kafka: readings from a topic whose partitions several processes share, results to another topic.

Every partition has a pipeline, whose state is in a folder that all processes can reach and one at a time locks. A
process that is assigned a partition continues from its snapshot and journal, at the offset recorded there; one that
loses a partition saves the state first. Results are JSON, keyed by device; they count as published when the brokers
have confirmed them.
"""

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
from scare.live.arrivals import Delivery
from scare.live.config import Kafka
from scare.live.journal import InUseError, Store
from scare.live.messages import Reader, Reading, RejectedError, check_size, excerpt
from scare.live.pipeline import IDLE_SECONDS, MAX_BATCH, Monitor, Pipeline, Result

LOG = logging.getLogger(__name__)
TIMEOUT_SECONDS = 10.0  # longest wait for an answer of the brokers
LOCKED_SECONDS = 0.5  # between two attempts to open a state that another process has locked
CONFIRM_SECONDS = 0.2  # how often, while brokers have not confirmed, we check whether the process is stopping
RETRY_FOR_EVER = {"message.timeout.ms": 0, "enable.idempotence": True}  # 0: no timeout; a repeated send is stored once
MakePipeline = Callable[[str, Store], Pipeline]  # from a partition's name and state


def settings(kafka: Kafka) -> dict[str, Any]:
    """Return the librdkafka settings of consumer and producer.

    >>> settings(Kafka("readings", ("kafka.lan:9093",)))["security.protocol"]
    'ssl'
    """
    keys = {
        "bootstrap.servers": ",".join(kafka.brokers),
        "security.protocol": ("sasl_" if kafka.user else "") + ("ssl" if kafka.is_encrypted else "plaintext"),
        "error_cb": lambda error: LOG.warning("Kafka: %s", error.str()),
        "log_level": 3,
    }
    if kafka.certificate_authority:
        keys["ssl.ca.location"] = kafka.certificate_authority
    if kafka.user:
        keys |= {"sasl.mechanism": kafka.mechanism, "sasl.username": kafka.user, "sasl.password": kafka.password()}
    return keys


class Partitions:
    """The partitions assigned to this process; call `start`, then `run` in the same thread until `stop`."""

    def __init__(
        self, kafka: Kafka, state: Path | str, reader: Reader, make_pipeline: MakePipeline, monitor: Monitor
    ) -> None:
        self._kafka, self._state, self._reader, self._monitor = kafka, Path(state), reader, monitor
        self._make_pipeline = make_pipeline
        self._pipelines: dict[int, tuple[Pipeline, Store]] = {}  # by number of the partition
        self._paused: set[int] = set()
        self._stopping = Event()
        self.backlog = 0  # readings fetched and not processed yet
        try:
            self._consumer = Consumer(
                settings(kafka)
                | {
                    "group.id": kafka.group,
                    "enable.auto.commit": False,  # offsets are committed when results have been published
                    "auto.offset.reset": "earliest",
                    "session.timeout.ms": round(1000 * kafka.session_seconds),
                    "heartbeat.interval.ms": round(1000 * min(3.0, kafka.session_seconds / 3)),
                }
            )
        except KafkaException as error:
            raise UsageError(f"[kafka]: {error.args[0].str()}") from error

    def start(self) -> None:
        """Join the consumer group, or raise an error with the reason."""
        topic = self._kafka.topic
        try:
            metadata = self._consumer.list_topics(topic, TIMEOUT_SECONDS).topics[topic]
        except KafkaException as error:
            raise UnreachableError(f"Kafka at {', '.join(self._kafka.brokers)}: {error.args[0].str()}") from error
        if metadata.error is not None:
            raise UsageError(f"Kafka has no topic {topic} that this user may read: {metadata.error.str()}")
        on_revoke = on_lost = self._revoke
        self._consumer.subscribe([topic], self._assign, on_revoke, on_lost)

    def run(self) -> None:
        """Process messages until `stop`, and finish those fetched by then."""
        while not self._stopping.is_set():
            self._pause_waiting()
            messages = self._consumer.consume(MAX_BATCH, IDLE_SECONDS)
            self.backlog = len(messages)
            messages.sort(key=lambda message: (_partition(message), _offset(message)))
            for number, group in groupby(messages, _partition):
                self._process(number, list(group))
            self.backlog = 0
            for pipeline, _ in self._pipelines.values():
                pipeline.poll()

    def _pause_waiting(self) -> None:
        """Fetch nothing for partitions whose readings wait because this computer's clock is behind (`is_holding`).

        A committed offset says that all messages before it are done. So no later message may be fetched and committed
        while earlier ones wait: a restart would skip them.
        """
        for number, (pipeline, _) in self._pipelines.items():
            partition = [TopicPartition(self._kafka.topic, number)]
            if pipeline.is_holding and number not in self._paused:
                self._consumer.pause(partition)
                self._paused.add(number)
            elif number in self._paused and not pipeline.is_holding:
                self._consumer.resume(partition)
                self._paused.remove(number)
            if pipeline.is_holding:
                pipeline.process([])  # look at the clock again

    def stop(self) -> None:
        """Let `run` return soon."""
        self._stopping.set()

    def close(self) -> None:
        """Save and release all partitions, and leave the group."""
        self._stopping.set()
        self._consumer.close()
        self._revoke(self._consumer, [TopicPartition(self._kafka.topic, number) for number in self._pipelines])

    def _process(self, number: int, messages: Sequence[Message]) -> None:
        """Calibrate and publish messages of a partition, then commit its offset."""
        for message in messages:
            if (error := message.error()) is not None:
                LOG.warning("Kafka, partition %d: %s", number, error.str())
        valid = [message for message in messages if message.error() is None]
        if not valid or number not in self._pipelines:  # the partition was lost after they had been fetched
            return
        readings = [reading for message in valid if (reading := self._read(message)) is not None]
        commit = partial(self._commit, number, _offset(valid[-1]) + 1)
        self._pipelines[number][0].process([Delivery(readings, commit)])

    def _read(self, message: Message) -> Reading | None:
        """Return the reading of a message, None if the message is rejected."""
        self._monitor.count("received")
        try:
            return replace(self._parse(message), offset=message.offset())
        except RejectedError as rejected:
            self._monitor.reject(f"{message.topic()} {message.partition()}:{message.offset()}", str(rejected))
            return None

    def _parse(self, message: Message) -> Reading:
        """Parse a message, whose key must be the name of its device, so that a device stays in one partition."""
        payload = _bytes(message.value())
        key = _bytes(message.key()).decode("utf-8", "replace")
        check_size(payload)
        # An adapter that reads the device from an MQTT topic gets a topic with the key in place of the device.
        topic = self._reader.adapter.topic.replace("{device}", key) if key and "/" not in key else ""
        kind, milliseconds = message.timestamp()
        # The arrival at Kafka is the same however often a message is read.
        arrival = time() if kind == TIMESTAMP_NOT_AVAILABLE else min(milliseconds / 1000, time())
        reading = self._reader.read(payload, topic, arrival)
        if reading is None or reading.device != key:
            raise RejectedError(f"the key is {excerpt(key)}; the key of a message must be the name of its device")
        return reading

    def _commit(self, number: int, offset: int) -> None:
        """Commit an offset; a failure is harmless, because the state records the offset too."""
        with suppress(KafkaException):
            self._consumer.commit(offsets=[TopicPartition(self._kafka.topic, number, offset)])

    def _assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Continue newly assigned partitions where the last process ended."""
        for partition in partitions:
            self._restore(partition.partition)
        committed = self._committed(consumer, partitions)
        for partition in partitions:
            if partition.partition in self._pipelines:
                _, store = self._pipelines[partition.partition]
                # The later of the two; 0 (neither is known) leaves it to `auto.offset.reset`.
                partition.offset = max(committed[partition.partition], store.position) or partition.offset
        consumer.assign(list(partitions))

    def _restore(self, number: int) -> None:
        """Open the state of a partition and start its pipeline; nothing if this process stops first."""
        name = f"kafka-{self._kafka.topic}-{number}"
        store = self._open_store(name)
        if store is not None:
            pipeline = self._make_pipeline(name, store)
            self._pipelines[number] = pipeline, store
            pipeline.restore()

    def _open_store(self, name: str) -> Store | None:
        """Return a partition's state, once no other process has locked it; None if this process stops first."""
        with suppress(InUseError):
            return Store(self._state / name)
        LOG.warning("waiting for another process to release %s", name)
        while not self._stopping.wait(LOCKED_SECONDS):
            with suppress(InUseError):
                return Store(self._state / name)
        return None

    def _committed(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[int, int]:
        """Return the offset last committed for each partition, 0 if none."""
        try:
            committed = consumer.committed(list(partitions), TIMEOUT_SECONDS)
        except KafkaException as error:
            raise UnreachableError(
                f"Kafka does not return the offsets of {self._kafka.group}: {error.args[0].str()}"
            ) from error
        return {partition.partition: max(partition.offset, 0) for partition in committed}

    def _revoke(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        """Save and release the state of partitions that this process loses."""
        for partition in partitions:
            if partition.partition in self._pipelines:
                pipeline, store = self._pipelines.pop(partition.partition)
                self._paused.discard(partition.partition)
                try:
                    pipeline.finish()
                finally:
                    store.close()


def _partition(message: Message) -> int:
    return message.partition() or 0


def _offset(message: Message) -> int:
    return message.offset() or 0


def _bytes(value: str | bytes | None) -> bytes:
    """Return a key or value as bytes; empty if the message has none."""
    return value.encode() if isinstance(value, str) else value or b""


class KafkaSink:
    """Publishes results and waits until the brokers have confirmed them."""

    def __init__(self, kafka: Kafka, monitor: Monitor) -> None:
        self._topic, self._monitor, self._stopping = kafka.publish, monitor, Event()
        self._failure: KafkaError | None = None
        try:
            self._producer = Producer(settings(kafka) | RETRY_FOR_EVER)
        except KafkaException as error:
            raise UsageError(f"[kafka]: {error.args[0].str()}") from error

    def stop(self) -> None:
        """Stop waiting for confirmations."""
        self._stopping.set()

    def publish(self, results: Sequence[Result]) -> bool:
        """Publish all results except late ones; False if the process stops before the brokers have confirmed them."""
        sent = [result for result in results if not result.is_late]
        for result in sent:
            payload = json.dumps(
                {"device": result.device, **result.as_json()}, ensure_ascii=False, separators=(",", ":")
            )
            self._producer.produce(self._topic, payload, result.device, on_delivery=self._confirm)
        self._monitor.count("published", len(sent))
        while self._producer.flush(CONFIRM_SECONDS):
            if self._stopping.is_set():
                return False
        if self._failure is not None:
            raise UnreachableError(f"Kafka does not accept results for the topic {self._topic}: {self._failure.str()}")
        return True

    def keep(self, number: int) -> None:
        """Do nothing: the brokers keep the results themselves."""

    def _confirm(self, error: KafkaError | None, message: Message) -> None:
        """Keep the first error for `publish`; the producer calls this for each result."""
        self._failure = self._failure or error
