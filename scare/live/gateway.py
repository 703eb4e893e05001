"""The gateway: sources, pipeline, sinks and server, wired as a config file says."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from scare.data.quantities import display_unit
from scare.errors import UsageError
from scare.extras import require
from scare.live.config import Config, Kafka
from scare.live.home_assistant import Discovery
from scare.live.http import LiveStatus, Server
from scare.live.messages import Reader
from scare.live.mqtt import MqttSink, MqttSource
from scare.live.parquet import ParquetFiles
from scare.live.pipeline import ModelFiles, Monitor, OpenCalibrator, Pipeline, Sink
from scare.live.polling import Poller
from scare.live.recent import Recent
from scare.live.store import Store

if TYPE_CHECKING:
    from scare.live.kafka import KafkaSink, Partitions


class Gateway:
    """Everything at work: the constructor checks the config and opens files; `start`, then `run` until `stop`."""

    def __init__(self, config: Config, open_calibrator: OpenCalibrator) -> None:
        self.monitor, self.recent = Monitor(), Recent()
        self.models = ModelFiles(config.models, open_calibrator, self.monitor)
        config.check_channels(self.models.channels)
        if config.mqtt and not config.inputs:
            raise UsageError("[mqtt] needs [[inputs]]; scare live check listens to the broker and prints some to paste")
        self.server: Server | None = None
        self._config, self._open = config, open_calibrator
        self.pipeline: Pipeline | None = None
        self._partitions: Partitions | None = None
        self._mqtt_sink: MqttSink | None = None
        self._kafka_sink: KafkaSink | None = None
        self._mqtt_source: MqttSource | None = None
        self._pollers: list[Poller] = []
        with ExitStack() as opened:
            self._wire(config, opened)
            self._opened = opened.pop_all()  # an error above closes what was opened

    def _wire(self, config: Config, opened: ExitStack) -> None:
        readers = config.readers(self.models.channels)
        if config.mqtt and config.mqtt.publish:
            discovery = None
            if config.mqtt.home_assistant:
                prefix = config.mqtt.home_assistant_prefix
                discovery = Discovery(prefix, config.mqtt.publish, self.models.calibrators)
            self._mqtt_sink = MqttSink(config.mqtt, self.monitor, discovery)
            opened.callback(self._mqtt_sink.close)
        if config.kafka:
            self._wire_kafka(config.kafka, readers[0], opened)
        else:
            self._wire_sources(config, readers, opened)
        if config.http:
            units = {name: display_unit(one.target.unit) for name, one in self.models.calibrators.items()}
            status = LiveStatus(self.pipeline, lambda: self._worker.backlog, self.monitor, self.recent, units)
            self.server = Server(config.http, status, config.post_readers(self.models.channels))
            opened.callback(self.server.stop)

    def _wire_sources(self, config: Config, readers: Sequence[Reader], opened: ExitStack) -> None:
        """One pipeline for what arrives over MQTT, is POSTed or polled."""
        store = Store(config.state)
        opened.callback(store.close)
        self.pipeline = Pipeline(self.models, store, self._make_sinks(), self.monitor, config.limits)
        subscribing = [one for one in readers if one.adapter.topic]  # the others are POSTed or polled
        if config.mqtt and subscribing:
            on_ready = self._mqtt_sink.announce_online if self._mqtt_sink else lambda: None
            self._mqtt_source = MqttSource(config.mqtt, subscribing, self.pipeline, self.monitor, on_ready)
            opened.callback(self._mqtt_source.close)
        for settings, reader in zip(config.inputs, readers, strict=True):
            if settings.addresses:
                self._pollers.append(Poller(settings, reader, self.pipeline, self.monitor))
                opened.callback(self._pollers[-1].close)

    def _wire_kafka(self, kafka: Kafka, reader: Reader, opened: ExitStack) -> None:
        """A pipeline for each partition assigned to this process."""
        require("kafka")
        from scare.live.kafka import KafkaSink, Partitions

        if kafka.publish:
            self._kafka_sink = KafkaSink(kafka, self.monitor)
        self._partitions = Partitions(kafka, self._config.state, reader, self._make_pipeline, self.monitor)
        opened.callback(self._partitions.close)

    def _make_pipeline(self, name: str, store: Store) -> Pipeline:
        """The pipeline of a partition; it reloads models and writes files with its own snapshots."""
        models = ModelFiles(self._config.models, self._open, self.monitor)
        return Pipeline(models, store, self._make_sinks(name), self.monitor, self._config.limits)

    def _make_sinks(self, below: str = "") -> list[Sink]:
        """Where results go; Parquet files go to the folder `below` that of the config."""
        others = [one for one in (self._mqtt_sink, self._kafka_sink) if one is not None]
        files = [ParquetFiles(Path(self._config.files.folder) / below)] if self._config.files else []
        return [self.recent, *others, *files]

    @property
    def _worker(self) -> "Pipeline | Partitions":
        worker = self.pipeline or self._partitions
        assert worker is not None
        return worker

    def start(self) -> None:
        """Restore the state of the last process, then accept readings."""
        if self._mqtt_sink is not None:
            self._mqtt_sink.start()
        if self.pipeline is not None:
            self.pipeline.restore()
        if self._partitions is not None:
            self._partitions.start()
        if self._mqtt_source is not None:
            self._mqtt_source.start()
        elif self._mqtt_sink is not None:
            self._mqtt_sink.announce_online()
        if self.server is not None:
            self.server.start()
        for one in self._pollers:
            one.start()

    def run(self) -> None:
        """Work until `stop`; finish and save what arrived by then."""
        self._worker.run()

    def stop(self) -> None:
        """Let `run` return soon."""
        for one in (self._mqtt_source, self._mqtt_sink, self._kafka_sink, *self._pollers):
            if one is not None:
                one.stop()
        self._worker.stop()

    def close(self) -> None:
        """Close all connections and files."""
        self._opened.close()
