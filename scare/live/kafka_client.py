"""What both clients of Kafka are told: where the brokers are, how to reach them, what to say of errors."""

import logging
from typing import Any

from confluent_kafka import KafkaError

from scare.live.config import Kafka

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
