"""The config of `scare live`: a TOML file of models, inputs, outputs and limits; docs/live.md describes the keys.

Secrets are in files or in the environment, never in the config.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from annotated_types import Ge, Le, MinLen

from scare.errors import UsageError
from scare.live.messages import Adapter, Reader, find_adapters
from scare.schema import Count, Positive, convert, load_toml
from scare.words import suggestion

Port = Annotated[int, Ge(0), Le(65535)]
Text = Annotated[str, MinLen(1)]
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka allows as the name of a topic
DEFAULT_PORTS = {True: 8883, False: 1883}  # ports of MQTT with TLS and without
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
# Environment variables that hold the secrets.
PASSWORD, KAFKA_PASSWORD, TOKEN = "SCARE_MQTT_PASSWORD", "SCARE_KAFKA_PASSWORD", "SCARE_HTTP_TOKEN"
WEBHOOK, SENSOR_THINGS_PASSWORD = "SCARE_ALERT_WEBHOOK", "SCARE_SENSOR_THINGS_PASSWORD"


@dataclass(frozen=True)
class Model:
    """A calibrator, and the devices that use it: names or glob patterns such as `box-*` (`fleet.Route`).

    Readings that come more often than its step are averaged or rejected. `step_seconds` is for a published correction.
    `index` names the air quality index of its results, if any; `blob` is the file that devices fetch to run the model
    themselves, with {device} for their names.
    """

    file: Text
    devices: tuple[Text, ...] = ("*",)
    finer: Literal["average", "reject"] = "average"
    step_seconds: Positive | None = None
    index: str = ""
    blob: str = ""


@dataclass(frozen=True)
class Input:
    """The messages of some devices: their adapter, and for each channel its field or its path in a message.

    Devices that do not send by themselves are polled at their `addresses`.
    """

    adapter: Text
    topic: str = ""
    time_zone: str = "UTC"
    channels: Mapping[str, Text] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    every_seconds: Positive = 60.0

    def __post_init__(self) -> None:
        self.zone()
        for address in self.addresses:
            if not address.startswith(("http://", "https://")):
                raise UsageError(f"'{address}' is not the address of a device; it begins with http:// or https://")

    def zone(self) -> ZoneInfo:
        """Return the time zone of times that are written without one."""
        try:
            return ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise UsageError(f"time_zone '{self.time_zone}' is unknown; give a name such as Europe/Berlin") from error


@dataclass(frozen=True)
class Broker:
    """The MQTT broker: how to connect, and what is published there; `version` 3 means MQTT 3.1.1."""

    host: Text = "127.0.0.1"
    port: Port = 0
    version: Literal[3, 5] = 5
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
        """Whether TLS is used: by default everywhere except on this computer."""
        return not is_loopback(self.host) if self.tls is None else self.tls

    @property
    def used_port(self) -> int:
        """The port given, or else MQTT's default: 8883 with TLS, 1883 without."""
        return self.port or DEFAULT_PORTS[self.is_encrypted]

    def password(self) -> str:
        """Return the user's password, empty without one."""
        return secret(self.password_file, PASSWORD)


@dataclass(frozen=True)
class Kafka:
    """A Kafka topic, whose partitions the processes of a group share, and the topic of results, if any."""

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
        topics = {"topic": self.topic} | ({"publish": self.publish} if self.publish else {})
        for name, topic in topics.items():
            if not TOPIC.fullmatch(topic):
                raise UsageError(f"kafka.{name} '{topic}' is not a topic name; use 1 to 249 letters, digits or . _ -")
        if self.publish == self.topic:
            raise UsageError(f"kafka.publish is '{self.topic}', the topic of the readings; results need another topic")
        for broker in self.brokers:
            if not broker.rpartition(":")[0]:
                raise UsageError(f"the Kafka broker '{broker}' has no port; write host:port")

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is used: by default everywhere except on this computer."""
        hosts = (broker.rpartition(":")[0].strip("[]") for broker in self.brokers)
        return not all(map(is_loopback, hosts)) if self.tls is None else self.tls

    def password(self) -> str:
        """Return the user's password, empty without one."""
        return secret(self.password_file, KAFKA_PASSWORD)


@dataclass(frozen=True)
class Http:
    """The HTTP server: where it listens, under which names, with which token and certificate.

    `proxy` is the address of a proxy that checks its users itself, such as Home Assistant's ingress. `uploads` is the
    folder for calibrators that are sent from the page.
    """

    host: Text = "127.0.0.1"
    port: Port = 8080
    names: tuple[str, ...] = ()
    token_file: str = ""
    certificate: str = ""
    key: str = ""
    tls: bool = True
    proxy: str = ""
    uploads: str = ""

    def token(self) -> str:
        """Return the token that clients must send, empty if none."""
        return secret(self.token_file, TOKEN)

    @property
    def allowed_names(self) -> frozenset[str]:
        """The host names under which clients may address this server."""
        here = LOOPBACK_NAMES if is_loopback(self.host) else ()
        return frozenset((self.host, *self.names, *here))

    def __post_init__(self) -> None:
        if is_loopback(self.host):
            return
        if self.host in ("0.0.0.0", "::") and not self.names:
            raise UsageError(
                f"http.host {self.host} means every address of this computer: list its host names in names"
            )
        if self.tls and not (self.certificate and self.key):
            raise UsageError(
                f"http.host {self.host} is reachable from other computers: give certificate and key, or set tls = false"
                " behind a proxy that encrypts"
            )


@dataclass(frozen=True)
class Files:
    """The folder of results as Parquet, one file per day and model."""

    folder: Text


@dataclass(frozen=True)
class SensorThings:
    """An OGC SensorThings server that gets all values, by the address of its API, such as https://sta.example/v1.1."""

    address: Text
    user: str = ""
    password_file: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^/]+(/.*)?/v1\.\d/?", self.address):
            raise UsageError(
                f"'{self.address}' is not the address of a SensorThings API; it ends with /v1.1, such as"
                " https://sta.example/v1.1"
            )

    def password(self) -> str:
        """Return the user's password, empty without one."""
        return secret(self.password_file, SENSOR_THINGS_PASSWORD)


@dataclass(frozen=True)
class AlertSettings:
    """When a device counts as silent, and where alerts go: an address to POST them to, and MQTT (`publish`).

    `webhook_file` has the address. `body` gives the text for each key of the JSON that is posted, in which {device},
    {about}, {state}, {model}, {time} and {sentence} are filled in; without it these six are the keys.
    """

    silent_steps: Positive = 10.0
    webhook_file: str = ""
    body: Mapping[str, Text] = field(default_factory=dict)
    publish: bool = True

    def address(self) -> str:
        """Return the address of the webhook, which is a secret; empty without one."""
        address = secret(self.webhook_file, WEBHOOK)
        if address and not address.startswith(("http://", "https://")):
            raise UsageError("the address of the webhook does not begin with http:// or https://")
        return address


@dataclass(frozen=True)
class CoLocationSettings:
    """Devices that stand beside the reference now, and the file of the reference, which is read again as it grows.

    `reference` is its column if the file has several, `targets` are sets of targets by which to grade, `deployment` are
    files, or patterns of files, with readings of the conditions in which the devices will work.
    """

    devices: Annotated[tuple[Text, ...], MinLen(1)]
    reference_file: Text
    reference: str = ""
    targets: str = ""
    deployment: tuple[Text, ...] = ()


@dataclass(frozen=True)
class LiveLimits:
    """Most devices and queued readings, seconds between snapshots, and how readings out of order are treated.

    A reading waits up to `reorder_steps` steps for earlier ones. With `trust_times`, a time in the future is accepted.
    """

    devices: Count = 100_000
    queue: Count = 1000
    snapshot_seconds: Positive = 60.0
    reorder_steps: Annotated[float, Ge(0)] = 2.0
    trust_times: bool = False


@dataclass(frozen=True)
class Config:
    """The whole config file of `scare live`."""

    models: Annotated[Mapping[str, Model], MinLen(1)]
    state: Text = "live"
    sites: str = ""
    inputs: tuple[Input, ...] = ()
    adapters: Mapping[str, Any] = field(default_factory=dict)
    mqtt: Broker | None = None
    kafka: Kafka | None = None
    http: Http | None = None
    files: Files | None = None
    sensor_things: SensorThings | None = None
    alerts: AlertSettings | None = None
    co_location: CoLocationSettings | None = None
    limits: LiveLimits = LiveLimits()

    def __post_init__(self) -> None:
        polls = any(settings.addresses for settings in self.inputs)
        if not (self.mqtt or self.kafka or self.http or polls):
            raise UsageError("no readings can arrive: give [mqtt], [kafka] or [http]")
        if self.kafka and self.co_location:
            raise UsageError("[co_location] needs one process that sees all readings; it does not work with [kafka]")
        if self.kafka and (len(self.inputs) != 1 or polls):
            raise UsageError(
                "[kafka] needs exactly one [[inputs]], without addresses, that says how messages are written"
            )
        for settings in self.inputs:
            if settings.adapter not in self.known_adapters:
                raise UsageError(
                    f"no adapter is called '{settings.adapter}'{suggestion(settings.adapter, self.known_adapters)}"
                )
            adapter = self.known_adapters[settings.adapter]
            if self.kafka and adapter.one_number:
                raise UsageError(
                    f"'{settings.adapter}' sends one number per message; a Kafka message must be a whole reading"
                )
            is_subscribed = self.mqtt and (settings.topic or adapter.topic)
            if not (is_subscribed or settings.addresses or self.kafka or self.http):
                raise UsageError(
                    f"inputs ({settings.adapter}): no messages can reach it; give topic, addresses or [http]"
                )

    @property
    def known_adapters(self) -> dict[str, Adapter]:
        """The built-in adapters and those of this file."""
        return find_adapters(self.adapters, "[adapters]")

    def adapter(self, settings: Input) -> Adapter:
        """Return the adapter of an input, with its topic."""
        adapter = self.known_adapters[settings.adapter]
        return replace(adapter, topic=settings.topic or adapter.topic)

    def readers(self, channels: Sequence[str]) -> list[Reader]:
        """Return a reader for each input, for the channels that models read."""
        return [
            Reader(self.adapter(settings), channels, settings.channels, settings.zone()) for settings in self.inputs
        ]

    def post_readers(self, channels: Sequence[str]) -> dict[str, Reader]:
        """Return the readers of POSTed bodies, by the name of their adapter; `json` is always one.

        Adapters with one number per message are left out: an MQTT topic names its field, and a POST has no topic.
        """
        readers = {"json": Reader(self.known_adapters["json"], channels)}
        return readers | {
            reader.adapter.name: reader for reader in self.readers(channels) if not reader.adapter.one_number
        }

    def check_channels(self, channels: Iterable[str]) -> None:
        """Refuse a channel that no model reads, or a field that its adapter does not have."""
        known = sorted(set(channels))
        for settings in self.inputs:
            adapter = self.known_adapters[settings.adapter]
            for channel, name in settings.channels.items():
                if channel not in known:
                    raise UsageError(
                        f"inputs ({settings.adapter}): no model reads '{channel}'{suggestion(channel, known)}"
                    )
                if adapter.fields and not name.startswith("/") and name not in adapter.fields:
                    raise UsageError(
                        f"inputs ({settings.adapter}): no field '{name}'{suggestion(name, adapter.fields)}"
                    )


def read_config(path: Path | str) -> Config:
    """Read a config file; the paths in it are relative to its folder."""
    path = Path(path)
    config = convert(load_toml(path), Config, path)
    folder = path.resolve().parent

    def resolve(record: Any, *names: str) -> Any:
        """Return the record with these fields, unless empty, as absolute paths; None stays None."""
        paths = {name: str(folder / getattr(record, name)) for name in names if record and getattr(record, name)}
        return record and replace(record, **paths)

    def resolve_co_location(settings: CoLocationSettings | None) -> CoLocationSettings | None:
        settings = resolve(settings, "reference_file")
        return settings and replace(settings, deployment=tuple(str(folder / file) for file in settings.deployment))

    def resolve_model(model: Model) -> Model:
        is_file = model.file.endswith(".scare") or (folder / model.file).exists()
        model = resolve(model, "blob")
        return resolve(model, "file") if is_file else model  # otherwise it names a published correction

    return replace(
        config,
        state=str(folder / config.state),
        sites=str(folder / config.sites) if config.sites else "",
        models={name: resolve_model(model) for name, model in config.models.items()},
        mqtt=resolve(config.mqtt, "certificate_authority", "password_file"),
        kafka=resolve(config.kafka, "certificate_authority", "password_file"),
        http=resolve(config.http, "token_file", "certificate", "key", "uploads"),
        files=resolve(config.files, "folder"),
        sensor_things=resolve(config.sensor_things, "password_file"),
        alerts=resolve(config.alerts, "webhook_file"),
        co_location=resolve_co_location(config.co_location),
    )


def secret(file: str, variable: str) -> str:
    """Return the text of a file if one is given, else an environment variable, else empty."""
    if not file:
        return os.environ.get(variable, "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the secret in {file}: {getattr(error, 'strerror', None) or error}") from error


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this computer.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("broker.lan"), is_loopback("0.0.0.0")
    (True, True, False, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
