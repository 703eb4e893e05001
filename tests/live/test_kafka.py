"""Processes that share a topic of Kafka: each reading is calibrated by one state, whoever is killed, comes or goes.

The brokers are the mock cluster in librdkafka, which lives in this process, or a real Kafka (`kafka_server`).
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.errors import ExitCode
from scare.live.journal import read_snapshot
from scare.live.messages import format_time
from tests.live.broker import free_port, wait_for
from tests.live.kafka_server import CLIENT, PREPARE, needs_kafka, running_kafka
from tests.live.small_gateway import START, save_models
from tests.needs import needs

pytestmark = [needs("live", "kafka"), pytest.mark.slow]
DEVICES, PARTITIONS, PAUSE_SECONDS = 24, 4, 0.05
CONFIG = """
state = "state"
[models.dust]
file = "dust.scare"
[models.gas]
file = "gas.scare"
devices = ["gas-*"]
[kafka]
brokers = ["{address}"]
topic = "readings"
publish = "results"
session_seconds = 6
[[inputs]]
adapter = "json"
[http]
port = {port}
[files]
folder = "calibrated"
[limits]
snapshot_seconds = 30
"""
NAMES = [f"{'gas' if index % 3 == 0 else 'box'}-{index}" for index in range(DEVICES)]
Found = dict[tuple[str, str], set[tuple[float | None, int]]]


class Cluster:
    """The brokers at an address, or else the mock cluster; one who produces, and one who keeps all results."""

    def __init__(self, address: str = "") -> None:
        from confluent_kafka import Producer

        self.is_real = bool(address)
        self._client: dict[str, Any] = dict(CLIENT) if address else {}
        brokers = {"bootstrap.servers": address} if address else {"test.mock.num.brokers": 3}
        self.producer = Producer({**brokers, "log_level": 3, **self._client})
        for topic in ("readings", "results"):  # which are made when they are asked for
            wait_for(lambda topic=topic: self._has(topic), 30, 0.2)
        known = self.producer.list_topics(timeout=10).brokers.values()
        self.address = next(f"{one.host}:{one.port}" for one in known)
        self.results: Found = {}
        self._stop, self._listening = Event(), Thread(target=self._listen)

    def _has(self, topic: str) -> bool:
        from confluent_kafka import KafkaException

        try:
            return self.producer.list_topics(topic, 10).topics[topic].error is None
        except KafkaException:  # the answer of an old Kafka that is about to make it
            return False

    def send(self, key: str, content: object) -> None:
        self.producer.produce("readings", json.dumps(content), key)

    def listen(self) -> None:
        self._listening.start()

    def close(self) -> None:
        self._stop.set()
        if self._listening.ident:
            self._listening.join()

    def _listen(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "test", "log_level": 0, **self._client})
        consumer.assign([TopicPartition("results", number, 0) for number in range(PARTITIONS)])
        while not self._stop.is_set():
            for one in consumer.consume(1000, 0.1):
                if one.error() is None:
                    reported = json.loads(one.value())
                    assert one.key() == reported["device"].encode()
                    kept = self.results.setdefault((reported["device"], reported["time"]), set())
                    kept.add((reported["calibrated"], reported["flags"]))
        consumer.close()


class Sender:
    """Every device's rows, minute by minute, until it is told to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._rng = cluster, np.random.default_rng(4)
        self.rows: list[np.ndarray] = []
        self._stop, self._sending = Event(), Thread(target=self._send)

    def start(self) -> None:
        self._sending.start()

    def stop(self) -> None:
        self._stop.set()
        if self._sending.ident:
            self._sending.join()

    def _send(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self.send_row()

    def send_row(self) -> None:
        row = np.stack([self._rng.uniform(1, 60, DEVICES), self._rng.uniform(200, 400, DEVICES)], axis=-1).round(3)
        for name, (dust, current) in zip(NAMES, row.tolist(), strict=True):
            self._cluster.send(name, {"time": START + 60 * len(self.rows), "pm25": dust, "current": current})
        self._cluster.producer.flush(10)
        self.rows.append(row)


class Process:
    """`scare live run` with a port of its own on the folder that all share."""

    def __init__(self, folder: Path, cluster: Cluster, name: str) -> None:
        self._port = free_port()
        (folder / f"{name}.toml").write_text(CONFIG.format(address=cluster.address, port=self._port))
        program = (PREPARE if cluster.is_real else "") + "from scare.cli import main; main()"
        command = [sys.executable, "-c", program, "live", "run", f"{name}.toml"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log)

    def count(self, name: str) -> int:
        """A count of its metrics, 0 while it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                found = re.search(rf"^scare_{name}_total (\d+)", answer.read().decode(), re.MULTILINE)
        except (URLError, OSError):
            return 0
        return int(found[1]) if found else 0

    def end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        return self._process.wait(30)


@contextmanager
def running(folder: Path, is_real: bool = False) -> Iterator[tuple[Cluster, Sender, Callable[[str], Process]]]:
    """A cluster, one who sends, and how processes are started, which are killed with the block."""
    with ExitStack() as ending:

        def start(name: str) -> Process:
            process = Process(folder, cluster, name)
            ending.callback(process.end, signal.SIGKILL)
            return process

        cluster = Cluster(ending.enter_context(running_kafka(folder, PARTITIONS)) if is_real else "")
        ending.callback(cluster.close)
        sender = Sender(cluster)
        ending.callback(sender.stop)
        yield cluster, sender, start


@pytest.mark.parametrize("is_real", [False, pytest.param(True, marks=needs_kafka)])
def test_two_processes_share_a_topic_while_one_is_killed(tmp_path: Path, is_real: bool) -> None:
    save_models(tmp_path)
    with running(tmp_path, is_real) as (cluster, sender, start):
        sender.send_row()
        cluster.send("box-1", {"device": "box-1", "time": START, "pm25": "?", "current": None})  # known already
        cluster.send("other/1", {"device": "box-1", "time": START, "pm25": 1.0})  # another key than its device
        cluster.send("box-2", ["no reading"])
        sender.start()
        first, second = start("first"), start("second")
        goes_on(first, second)
        assert first.count("rejected") + second.count("rejected") >= 2
        cluster.listen()
        first.end(signal.SIGKILL)
        wait_for(lambda: second.count("replayed"), 60, 0.2)  # what the first had journaled
        third = start("third")
        goes_on(second, third)
        assert second.end(signal.SIGTERM) == 0
        goes_on(third)
        sender.stop()
        wait_for(lambda: len(cluster.results) == DEVICES * len(sender.rows), 60, 0.2)
        assert third.end(signal.SIGTERM) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
    check_values(tmp_path, cluster.results, np.array(sender.rows))
    check_states(tmp_path)


def test_a_damaged_state_ends_the_process_with_a_sentence(tmp_path: Path) -> None:
    save_models(tmp_path)
    folder = tmp_path / "state" / "kafka-readings-0"
    folder.mkdir(parents=True)
    (folder / "snapshot-00000001.safetensors").write_bytes(b"nothing")
    with running(tmp_path) as (_, sender, start):
        sender.send_row()
        assert start("one").wait() == ExitCode.DATA
    log = (tmp_path / "log").read_text()
    assert "not a snapshot" in log
    assert "Traceback" not in log


def goes_on(*processes: Process) -> None:
    """Wait until each of these has calibrated more."""
    wanted = [(one, one.count("calibrated")) for one in processes]
    wait_for(lambda: all(one.count("calibrated") > 100 + count for one, count in wanted), 60, 0.2)


def check_values(folder: Path, found: Found, rows: np.ndarray) -> None:
    """What was published is what one uninterrupted stream of each device gives, also where it was published twice."""
    models = {name: Calibrator.load(folder / f"{name}.scare") for name in ("dust", "gas")}
    times = START + 60.0 * np.arange(len(rows))
    assert found.keys() == {(name, format_time(one)) for name in NAMES for one in times.tolist()}
    for index, name in enumerate(NAMES):
        wanted, _, _, flags = models["gas" if "gas" in name else "dust"].stream(name).push(times, rows[:, index])
        for time, value, flag in zip(times.tolist(), wanted.tolist(), flags.tolist(), strict=True):
            for reported, reported_flags in found[name, format_time(time)]:
                assert reported_flags == flag
                number = np.nan if reported is None else reported
                assert number == pytest.approx(value, rel=1e-4, abs=1e-4, nan_ok=True)


def check_states(folder: Path) -> None:
    """Each device is in the state of one partition, and each state knows where to read on."""
    states = [read_snapshot(next(one.glob("snapshot-*"))) for one in (folder / "state").glob("kafka-readings-*")]
    kept = [name for state, _ in states for some in state.devices.values() for name in some]
    assert sorted(kept) == sorted(NAMES)
    assert all(position for _, position in states)
    assert {one.name for one in (folder / "calibrated").iterdir()} == {one.name for one in (folder / "state").iterdir()}
