"""A gateway is everything at work, wired as a config file says: sources, the pipeline, sinks, the server."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from scare.data.quantities import display_unit
from scare.errors import UsageError
from scare.extras import require
from scare.live.config import Broker, Config, Kafka
from scare.live.home_assistant import Announcing, Topics
from scare.live.http import Server, Watched
from scare.live.mqtt import MqttSink, MqttSource
from scare.live.parquet import ParquetFiles
from scare.live.pipeline import ModelFiles, Monitor, Open, Pipeline, Sink
from scare.live.polling import Polling
from scare.live.reader import Reader, make_readers, posted
from scare.live.recent import Recent
from scare.live.store import Store

if TYPE_CHECKING:
    from scare.live.kafka import KafkaSink, Partitions


class Gateway:
    """Built, it has checked all that can be checked; `start`, then `run` until `stop`."""

    def __init__(self, config: Config, open_calibrator: Open) -> None:
        self.monitor, self.recent = Monitor(), Recent()
        self.models = ModelFiles(config.models, open_calibrator, self.monitor)
        config.check_channels(self.models.channels)
        if config.mqtt and not config.inputs:
            raise UsageError("[mqtt] without [[inputs]]: scare live check listens, and prints some to paste")
        self.server: Server | None = None
        self._config, self._open = config, open_calibrator
        self.pipeline: Pipeline | None = None
        self._partitions: Partitions | None = None
        self._mqtt_sink: MqttSink | None = None
        self._kafka_sink: KafkaSink | None = None
        self._mqtt_source: MqttSource | None = None
        self._polling: list[Polling] = []
        with ExitStack() as opened:
            self._wire(config, opened)
            self._opened = opened.pop_all()  # closed now only if the wiring failed

    def _wire(self, config: Config, opened: ExitStack) -> None:
        readers = make_readers(config, self.models.channels)
        if config.mqtt and config.mqtt.publish:
            self._mqtt_sink = self._make_mqtt_sink(config.mqtt)
            opened.callback(self._mqtt_sink.close)
        if config.kafka:
            self._wire_kafka(config.kafka, readers[0], opened)
        else:
            self._wire_sources(config, readers, opened)
        if config.http:
            units = {name: display_unit(one.target.unit) for name, one in self.models.calibrators.items()}
            watched = Watched(self.pipeline, lambda: self._worker.backlog, self.monitor, self.recent, units)
            self.server = Server(config.http, watched, posted(readers, config, self.models.channels))
            opened.callback(self.server.stop)

    def _wire_sources(self, config: Config, readers: Sequence[Reader], opened: ExitStack) -> None:
        """One pipeline for what comes over MQTT, is posted or asked for."""
        store = Store(config.state)
        opened.callback(store.close)
        self.pipeline = Pipeline(self.models, store, self._make_sinks(), self.monitor, config.limits)
        subscribing = [one for one in readers if one.adapter.topic]  # others are posted, or asked
        if config.mqtt and subscribing:
            ready = self._mqtt_sink.say_online if self._mqtt_sink else lambda: None
            self._mqtt_source = MqttSource(config.mqtt, subscribing, self.pipeline, self.monitor, ready)
            opened.callback(self._mqtt_source.close)
        for wanted, reader in zip(config.inputs, readers, strict=True):
            if wanted.addresses:
                self._polling.append(Polling(wanted, reader, self.pipeline, self.monitor))
                opened.callback(self._polling[-1].close)

    def _wire_kafka(self, kafka: Kafka, reader: Reader, opened: ExitStack) -> None:
        """A pipeline for each partition that this process is given."""
        require("kafka")
        from scare.live.kafka import KafkaSink, Partitions

        if kafka.publish:
            self._kafka_sink = KafkaSink(kafka, self.monitor)
        self._partitions = Partitions(kafka, self._config.state, reader, self._make_pipeline, self.monitor)
        opened.callback(self._partitions.close)

    def _make_pipeline(self, name: str, store: Store) -> Pipeline:
        """The pipeline of a partition: its models change and its files are written when its own state is kept."""
        models = ModelFiles(self._config.models, self._open, self.monitor)
        return Pipeline(models, store, self._make_sinks(name), self.monitor, self._config.limits)

    def _make_sinks(self, below: str = "") -> list[Sink]:
        """Where results go; files to a folder `below` that of the config."""
        others = [one for one in (self._mqtt_sink, self._kafka_sink) if one is not None]
        files = [ParquetFiles(Path(self._config.files.folder) / below)] if self._config.files else []
        return [self.recent, *others, *files]

    @property
    def _worker(self) -> "Pipeline | Partitions":
        found = self.pipeline or self._partitions
        assert found is not None
        return found

    def _make_mqtt_sink(self, broker: Broker) -> MqttSink:
        topics = Topics(broker.home_assistant_prefix, broker.publish)
        announcing = Announcing(topics, self.models.calibrators) if broker.home_assistant else None
        return MqttSink(broker, self.monitor, announcing)

    def start(self) -> None:
        """Go on where the last process ended, then let readings come."""
        if self._mqtt_sink is not None:
            self._mqtt_sink.start()
        if self.pipeline is not None:
            self.pipeline.restore()
        if self._partitions is not None:
            self._partitions.start()
        if self._mqtt_source is not None:
            self._mqtt_source.start()
        elif self._mqtt_sink is not None:
            self._mqtt_sink.say_online()
        if self.server is not None:
            self.server.start()
        for one in self._polling:
            one.start()

    def run(self) -> None:
        """Work until `stop`; what has come by then is finished and kept."""
        self._worker.run()

    def stop(self) -> None:
        """End `run` soon."""
        for one in (self._mqtt_source, self._mqtt_sink, self._kafka_sink, *self._polling):
            if one is not None:
                one.stop()
        self._worker.stop()

    def close(self) -> None:
        """Leave everything to others."""
        self._opened.close()
