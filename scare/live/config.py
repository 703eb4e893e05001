"""What `scare live` is told: a TOML file of models, what comes in, what goes out, and limits; docs/live.md has all.

Secrets stand in files or in the environment, never here.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from annotated_types import Ge, Le, MinLen

from scare.errors import UsageError
from scare.live.messages import Adapter, find_adapters
from scare.records import Count, Positive, convert, load_toml
from scare.words import suggestion

Port = Annotated[int, Ge(0), Le(65535)]
Text = Annotated[str, MinLen(1)]
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
PASSWORD, TOKEN = "SCARE_MQTT_PASSWORD", "SCARE_HTTP_TOKEN"  # variables of the environment
KAFKA_PASSWORD = "SCARE_KAFKA_PASSWORD"


@dataclass(frozen=True)
class Model:
    """A calibrator, and the devices that use it: names, or patterns as of files (`fleet.Route`)."""

    file: Text
    devices: tuple[Text, ...] = ("*",)


@dataclass(frozen=True)
class Input:
    """One way in which devices write: an adapter, and which of its fields (or which place) is which channel.

    Devices that have to be asked are asked at their `addresses`.
    """

    adapter: Text
    topic: str = ""
    time_zone: str = "UTC"
    channels: Mapping[str, Text] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    every_seconds: Positive = 60.0

    def __post_init__(self) -> None:
        self.zone()
        for one in self.addresses:
            if not one.startswith(("http://", "https://")):
                raise UsageError(f"the address '{one}' of a device begins with http:// or https://")

    def zone(self) -> ZoneInfo:
        """Where a time without a zone was written."""
        try:
            return ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise UsageError(f"time_zone is '{self.time_zone}'; it takes a name such as Europe/Berlin") from error


@dataclass(frozen=True)
class Broker:
    """The MQTT broker, and what is published there."""

    host: Text = "127.0.0.1"
    port: Port = 0
    tls: bool | None = None
    certificate_authority: str = ""
    client_id: Text = "scare"
    user: str = ""
    password_file: str = ""
    publish: str = "scare"
    home_assistant: bool = False
    home_assistant_prefix: Text = "homeassistant"

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is used: unless it is switched off, everywhere but on this computer."""
        return not is_loopback(self.host) if self.tls is None else self.tls

    @property
    def used_port(self) -> int:
        """The port; MQTT's own unless one is given."""
        return self.port or (8883 if self.is_encrypted else 1883)

    def password(self) -> str:
        """What proves the user; empty without one."""
        return secret(self.password_file, PASSWORD)


@dataclass(frozen=True)
class Kafka:
    """A topic of Kafka whose partitions several processes share as one group, and the topic of results, if any."""

    topic: Text
    brokers: Annotated[tuple[Text, ...], MinLen(1)] = ("127.0.0.1:9092",)
    group: Text = "scare"
    publish: str = ""
    tls: bool | None = None
    certificate_authority: str = ""
    user: str = ""
    password_file: str = ""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    session_seconds: Positive = 45.0

    def __post_init__(self) -> None:
        for name, one in {"topic": self.topic, "publish": self.publish or "-"}.items():
            if not TOPIC.fullmatch(one):
                raise UsageError(f"kafka.{name} is '{one}'; it takes 1 to 249 letters, digits or . _ -")
        if self.publish == self.topic:
            raise UsageError(f"kafka.publish is '{self.topic}', where readings come from; results need another topic")
        for one in self.brokers:
            if not one.rpartition(":")[0]:
                raise UsageError(f"the broker '{one}' of kafka has no port; write host:port")

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is used: unless it is switched off, everywhere but on this computer."""
        hosts = (one.rpartition(":")[0].strip("[]") for one in self.brokers)
        return not all(map(is_loopback, hosts)) if self.tls is None else self.tls

    def password(self) -> str:
        """What proves the user; empty without one."""
        return secret(self.password_file, KAFKA_PASSWORD)


@dataclass(frozen=True)
class Http:
    """The HTTP server: readings in, values out, the page."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    names: tuple[str, ...] = ()
    token_file: str = ""
    certificate: str = ""
    key: str = ""
    tls: bool = True

    def token(self) -> str:
        """What a client has to show; empty if none."""
        return secret(self.token_file, TOKEN)

    @property
    def allowed_names(self) -> frozenset[str]:
        """What a client may call this server: its names, its address."""
        here = LOOPBACK_NAMES if is_loopback(self.host) else ()
        return frozenset((self.host, *self.names, *here))

    def __post_init__(self) -> None:
        if is_loopback(self.host):
            return
        if self.host in ("0.0.0.0", "::") and not self.names:
            raise UsageError(f"http.host {self.host} is every address of this computer: say in names how it is called")
        if self.tls and not (self.certificate and self.key):
            raise UsageError(
                f"http.host {self.host} is reached from other computers: give certificate and key, or set tls = false"
                " where something before it encrypts"
            )


@dataclass(frozen=True)
class Files:
    """Where values are kept as Parquet: a file a day and model."""

    folder: Text


@dataclass(frozen=True)
class Limits:
    """What is kept within bounds: devices, messages that wait, seconds between snapshots."""

    devices: Count = 100_000
    queue: Count = 1000
    snapshot_seconds: Positive = 60.0


@dataclass(frozen=True)
class Config:
    """Everything that `scare live run` needs to know."""

    models: Annotated[Mapping[str, Model], MinLen(1)]
    state: Text = "live"
    inputs: tuple[Input, ...] = ()
    adapters: Mapping[str, Any] = field(default_factory=dict)
    mqtt: Broker | None = None
    kafka: Kafka | None = None
    http: Http | None = None
    files: Files | None = None
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        is_asked = any(one.addresses for one in self.inputs)
        if not (self.mqtt or self.kafka or self.http or is_asked):
            raise UsageError("nothing can come in: give [mqtt], [kafka] or [http]")
        if self.kafka and (len(self.inputs) != 1 or is_asked):
            raise UsageError("[kafka] takes one of [[inputs]], without addresses: how its messages are written")
        for one in self.inputs:
            if one.adapter not in self.known_adapters:
                raise UsageError(f"no adapter is called '{one.adapter}'{suggestion(one.adapter, self.known_adapters)}")
            adapter = self.known_adapters[one.adapter]
            if self.kafka and adapter.one_number:
                raise UsageError(f"'{one.adapter}' writes one number a message; a message of Kafka is a whole reading")
            heard = self.mqtt and (one.topic or adapter.topic)
            if not (heard or one.addresses or self.kafka or self.http):
                raise UsageError(f"inputs ({one.adapter}): nothing reaches it; give topic, addresses or [http]")

    @property
    def known_adapters(self) -> dict[str, Adapter]:
        """The adapters of the table and of this file."""
        return find_adapters(self.adapters, "[adapters]")

    def check_channels(self, channels: Iterable[str]) -> None:
        """Refuse a channel that no model reads, and a field that its adapter does not have."""
        known = sorted(set(channels))
        for one in self.inputs:
            adapter = self.known_adapters[one.adapter]
            for channel, name in one.channels.items():
                if channel not in known:
                    raise UsageError(f"inputs ({one.adapter}): no model reads '{channel}'{suggestion(channel, known)}")
                if adapter.fields and not name.startswith("/") and name not in adapter.fields:
                    raise UsageError(f"inputs ({one.adapter}): no field '{name}'{suggestion(name, adapter.fields)}")


def read_config(path: Path | str) -> Config:
    """The record of a file; files that it names lie beside it."""
    path = Path(path)
    config = convert(load_toml(path), Config, path)
    here = path.resolve().parent
    return replace(
        config,
        state=str(here / config.state),
        models={name: replace(one, file=_beside(here, one.file)) for name, one in config.models.items()},
        mqtt=config.mqtt and _lying(here, config.mqtt, "certificate_authority", "password_file"),
        kafka=config.kafka and _lying(here, config.kafka, "certificate_authority", "password_file"),
        http=config.http and _lying(here, config.http, "token_file", "certificate", "key"),
        files=config.files and _lying(here, config.files, "folder"),
    )


def _lying(here: Path, record: Any, *names: str) -> Any:
    """A record whose files lie in a folder."""
    return replace(record, **{name: str(here / getattr(record, name)) for name in names if getattr(record, name)})


def _beside(here: Path, model: str) -> str:
    """A file beside the config; what is none there is the name of a published correction."""
    return str(here / model) if model.endswith(".scare") or (here / model).exists() else model


def secret(file: str, variable: str) -> str:
    """The first line of a file, else a variable of the environment, else nothing."""
    if not file:
        return os.environ.get(variable, "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the secret in {file}: {getattr(error, 'strerror', None) or error}") from error


def is_loopback(host: str) -> bool:
    """Whether a host is this computer.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("broker.lan"), is_loopback("0.0.0.0")
    (True, True, False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
