"""The gateway: sources, pipeline, sinks and server, wired as a config file says; or a recorded file in their place."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import TYPE_CHECKING

import polars as pl

from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import display_unit
from scare.errors import DataError, UsageError
from scare.extras import require
from scare.live.alerts import Alerts
from scare.live.arrivals import Delivery
from scare.live.blobs import Blobs
from scare.live.co_location import Assess, CoLocation
from scare.live.config import Config, Kafka
from scare.live.day_files import ParquetFiles, as_table
from scare.live.fleet import choose_route
from scare.live.home_assistant import Discovery
from scare.live.http import LiveStatus, Poller, Server, parse_body
from scare.live.journal import Store, read_journal
from scare.live.messages import Reader, Reading
from scare.live.pipeline import ModelFiles, Monitor, OpenCalibrator, Pipeline, Result, Sink
from scare.live.recent_results import Recent
from scare.live.sensor_things import SensorThingsSink

if TYPE_CHECKING:
    from scare.live.kafka import KafkaSink, Partitions
    from scare.live.mqtt import MqttSink, MqttSource

MAX_LAG_SECONDS = 30.0  # a longer wait in the queue is a problem
REPLAYED_LINES = 1000  # parsed at once


class Gateway:
    """A running `scare live`: the constructor checks the config and opens files; `start`, then `run` until `stop`."""

    def __init__(self, config: Config, open_calibrator: OpenCalibrator, assess: Assess | None = None) -> None:
        self.monitor, self.recent = Monitor(), Recent()
        self.models = ModelFiles(config.models, open_calibrator, self.monitor, config.sites)
        config.check_channels(self.models.channels)
        if config.mqtt and not config.inputs:
            raise UsageError(
                "[mqtt] needs [[inputs]]; run scare live check, which listens to the broker and prints inputs to paste"
            )
        self.server: Server | None = None
        self._config, self._open, self._assess = config, open_calibrator, assess
        self._co_location: CoLocation | None = None
        self._blobs = Blobs(config.models, lambda device: choose_route(self.models.routes, device))
        self.pipeline: Pipeline | None = None
        self._partitions: Partitions | None = None
        self._mqtt_sink: MqttSink | None = None
        self._kafka_sink: KafkaSink | None = None
        self._mqtt_source: MqttSource | None = None
        self._pollers: list[Poller] = []
        self._alerts: Alerts | None = None
        self._sensor_things: SensorThingsSink | None = None
        with ExitStack() as opened:
            self._wire(config, opened)
            self._opened = opened.pop_all()  # an error above closes what was opened

    def _wire(self, config: Config, opened: ExitStack) -> None:
        """Create sinks, sources, pipelines and server; what needs closing is registered in `opened`."""
        readers = config.readers(self.models.channels)
        if config.mqtt:
            require("live")  # the optional packages, of which MQTT needs paho
        if config.mqtt and config.mqtt.publish:
            from scare.live.mqtt import MqttSink

            discovery = None
            if config.mqtt.home_assistant:
                prefix = config.mqtt.home_assistant_prefix
                indices = {name: index.of for name, index in self.models.indices.items()}
                discovery = Discovery(
                    prefix,
                    config.mqtt.publish,
                    self.models.calibrators,
                    indices,
                    has_sites=bool(config.sites),
                    reference_unit=self._reference_unit(config),
                )
            self._mqtt_sink = MqttSink(config.mqtt, self.monitor, discovery)
            opened.callback(self._mqtt_sink.close)
        if config.sensor_things:
            self._sensor_things = SensorThingsSink(config.sensor_things, self.models.calibrators, self.monitor)
            opened.callback(self._sensor_things.close)
        if config.alerts:
            steps = {name: model.inputs.step_seconds for name, model in self.models.calibrators.items()}
            publish = self._mqtt_sink.publish_retained if self._mqtt_sink else None
            file = Path(config.state) / "alerts.json"
            self._alerts = Alerts(config.alerts, steps, self.problems, file, publish)
            opened.callback(self._alerts.close)
        if config.co_location and self._assess:
            for device in config.co_location.devices:
                if choose_route(self.models.routes, device) is None:
                    raise UsageError(f"co_location.devices: no model reads '{device}'; add it to one's devices")
            folder = Path(config.state) / "co-location"
            publish = self._mqtt_sink.publish_retained if self._mqtt_sink else None
            self._co_location = CoLocation(config.co_location, folder, self._calibrator_of, self._assess, publish)
            opened.callback(self._co_location.close)
        if config.kafka:
            self._wire_kafka(config.kafka, readers[0], opened)
        else:
            self._wire_sources(config, readers, opened)
        if config.http:
            models = self.models.calibrators.items()
            status = LiveStatus(
                pipeline=self.pipeline,
                problems=self.problems,
                remarks=self._remarks,
                backlog=lambda: self._worker.backlog,
                monitor=self.monitor,
                recent=self.recent,
                units={name: display_unit(model.target.unit) for name, model in models},
                steps={name: model.inputs.step_seconds for name, model in models},
                alerts=self._alerts.counts if self._alerts else dict,  # `dict()` counts nothing
                blobs=self._blobs,
                co_location=lambda: self._co_location.latest if self._co_location else None,
                models=self.models,
                uploads=Path(config.http.uploads) if config.http.uploads else None,
            )
            self.server = Server(config.http, status, config.post_readers(self.models.channels))
            opened.callback(self.server.stop)

    def _wire_sources(self, config: Config, readers: Sequence[Reader], opened: ExitStack) -> None:
        """Make one pipeline for the readings that arrive over MQTT, are POSTed or polled, and their sources."""
        store = Store(config.state)
        opened.callback(store.close)
        self.pipeline = Pipeline(self.models, store, self._make_sinks(), self.monitor, config.limits)
        if (beside := self._co_location) is not None:
            self.pipeline.on_readings = beside.take
            self.pipeline.widths = lambda: beside.widths
        subscribing = [reader for reader in readers if reader.adapter.topic]  # the others are POSTed or polled
        if config.mqtt and subscribing:
            from scare.live.mqtt import MqttSource

            on_ready = self._mqtt_sink.announce_online if self._mqtt_sink else lambda: None
            self._mqtt_source = MqttSource(config.mqtt, subscribing, self.pipeline, self.monitor, on_ready)
            opened.callback(self._mqtt_source.close)
        for settings, reader in zip(config.inputs, readers, strict=True):
            if settings.addresses:
                self._pollers.append(Poller(settings, reader, self.pipeline, self.monitor))
                opened.callback(self._pollers[-1].close)

    def _reference_unit(self, config: Config) -> str | None:
        """Return the unit of the reference beside which devices stand; None if none do."""
        if config.co_location is None:
            return None
        name = choose_route(self.models.routes, config.co_location.devices[0])
        return self.models.calibrators[name].target.unit if name else ""

    def _calibrator_of(self, device: str) -> Calibrator:
        """Return the calibrator of a device beside the reference."""
        return self.models.calibrators[choose_route(self.models.routes, device) or ""]

    def _remarks(self) -> list[str]:
        remarks = self.pipeline.remarks() if self.pipeline else []
        return [*remarks, *self._blobs.remarks(), *(self._co_location.remarks() if self._co_location else ())]

    def _wire_kafka(self, kafka: Kafka, reader: Reader, opened: ExitStack) -> None:
        """Make a pipeline for each partition assigned to this process."""
        require("kafka")
        from scare.live.kafka import KafkaSink, Partitions

        if kafka.publish:
            self._kafka_sink = KafkaSink(kafka, self.monitor)
        self._partitions = Partitions(kafka, self._config.state, reader, self._make_pipeline, self.monitor)
        opened.callback(self._partitions.close)

    def _make_pipeline(self, name: str, store: Store) -> Pipeline:
        """Make the pipeline of a Kafka partition, with its own copy of the models and its own folder of files."""
        models = ModelFiles(self._config.models, self._open, self.monitor, self._config.sites)
        return Pipeline(models, store, self._make_sinks(name), self.monitor, self._config.limits)

    def _make_sinks(self, below: str = "") -> list[Sink]:
        """Return where results go: memory (for the page), MQTT, Kafka, and Parquet files in the subfolder `below`."""
        sinks = (self._alerts, self._mqtt_sink, self._kafka_sink, self._sensor_things, self._co_location)
        others = [sink for sink in sinks if sink is not None]
        files = [ParquetFiles(Path(self._config.files.folder) / below)] if self._config.files else []
        return [self.recent, *others, *files]

    def problems(self) -> dict[str, str]:
        """Return the present problems as sentences, by subject: clock, disk, lag, broker, sensor_things."""
        problems = dict(self.pipeline.problems) if self.pipeline else {}
        if self.pipeline and self.pipeline.lag > MAX_LAG_SECONDS:
            problems["lag"] = f"readings have been waiting for {self.pipeline.lag:.0f} seconds"
        connections = [connection for connection in (self._mqtt_source, self._mqtt_sink) if connection is not None]
        if not all(connection.is_connected for connection in connections):
            problems["broker"] = "there is no connection to the MQTT broker"
        if self._sensor_things is not None and self._sensor_things.problem:
            problems["sensor_things"] = self._sensor_things.problem
        return problems

    @property
    def _worker(self) -> "Pipeline | Partitions":
        """What `run` runs: the one pipeline, or the pipelines of Kafka's partitions."""
        worker = self.pipeline or self._partitions
        assert worker is not None
        return worker

    def start(self) -> None:
        """Load the state of the last process, then accept readings; `run` first replays the journal."""
        if self._mqtt_sink is not None:
            self._mqtt_sink.start()
        if self._co_location is not None:
            self._co_location.look()  # how wide intervals are, before readings are restored
        if self.pipeline is not None:
            self.pipeline.load()
            if self._alerts is not None:
                self._alerts.expect(self.pipeline.devices)
            gc.freeze()  # of 100,000 devices: looking through them for garbage would stop all work for 0.1 s each time
        if self._partitions is not None:
            self._partitions.start()
        if self._mqtt_source is not None:
            self._mqtt_source.start()
        elif self._mqtt_sink is not None:
            self._mqtt_sink.announce_online()
        if self.server is not None:
            self.server.start()
        for poller in self._pollers:
            poller.start()
        for thread in (self._alerts, self._co_location):
            if thread is not None:
                thread.start()

    def run(self) -> None:
        """Work until `stop`; finish and save what arrived by then."""
        self._worker.run()

    def stop(self) -> None:
        """Let `run` return soon."""
        for part in (self._mqtt_source, self._mqtt_sink, self._kafka_sink, self._sensor_things, *self._pollers):
            if part is not None:
                part.stop()
        self._worker.stop()

    def close(self) -> None:
        """Close all connections and files."""
        self._opened.close()


def replay(config: Config, file: Path, adapter: str, open_calibrator: OpenCalibrator) -> tuple[pl.DataFrame, Monitor]:
    """Send recorded readings through a pipeline without broker, server or lasting state: `scare live replay`.

    The file is a journal, or holds what a device would have POSTed (JSON lines or CSV). Returns a table of device,
    time, raw, calibrated, low, high and flags, and the counts.
    """
    monitor, sink = Monitor(), _TableSink()
    models = ModelFiles(config.models, open_calibrator, monitor, config.sites)
    readers = config.post_readers(models.channels)
    if adapter not in readers:
        raise UsageError(f"no input has the adapter '{adapter}'; there are {', '.join(readers)}")
    with TemporaryDirectory() as folder:
        store = Store(folder)
        try:
            limits = replace(config.limits, trust_times=True)  # the clock of today does not judge recorded times
            pipeline = Pipeline(models, store, [sink], monitor, limits)
            pipeline.restore()
            for readings in _read_recording(file, readers[adapter], monitor):
                pipeline.process([Delivery(readings)])
            pipeline.flush()
        finally:
            store.close()
    table = pl.concat(sink.tables)
    rejections = monitor.rejections()
    if table.is_empty() and rejections:
        raise DataError(f"{file}: no reading in it is usable; the last one: {rejections[0].reason}")
    return table, monitor


def _read_recording(file: Path, reader: Reader, monitor: Monitor) -> Iterator[list[Reading]]:
    """Yield the readings of a file, `REPLAYED_LINES` lines at a time; rejected lines are counted in `monitor`."""
    if file.suffix == ".log":
        journal = (reading for reading in read_journal(file) if reading is not None)
        while readings := list(islice(journal, REPLAYED_LINES)):
            monitor.count("received", len(readings))
            yield readings
        return
    for number, body in enumerate(_read_pieces(file)):
        intake = parse_body(body, "text/csv" if file.suffix == ".csv" else "application/x-ndjson", reader, time())
        monitor.count("received", len(intake.readings) + intake.rejected)
        monitor.count("rejected", intake.rejected - len(intake.reasons))  # `reject` counts the rest
        for rejection in intake.reasons:
            monitor.reject(str(file), f"line {number * REPLAYED_LINES + rejection['line']}: {rejection['reason']}")
        yield intake.readings


def _read_pieces(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, `REPLAYED_LINES` at a time; each piece of a CSV file begins with the header."""
    try:
        with file.open("rb") as lines:
            header = lines.readline() if file.suffix == ".csv" else b""
            while piece := list(islice(lines, REPLAYED_LINES)):
                yield header + b"".join(piece)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}") from error


class _TableSink:
    """A sink that collects results as tables, for `replay`."""

    def __init__(self) -> None:
        self.tables = [as_table([])]

    def publish(self, results: Sequence[Result]) -> bool:
        self.tables.append(as_table(results))
        return True

    def keep(self, number: int) -> None:
        pass
