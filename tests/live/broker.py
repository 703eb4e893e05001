"""A real Mosquitto on a free port of this computer, and clients that publish to it and listen."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, create_server
from time import monotonic, sleep
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
needs_broker = pytest.mark.skipif(PROGRAM is None, reason="mosquitto (Debian) would run it")
SETTINGS = "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 1000\n"


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_for(what: Callable[[], object], seconds: float = 20.0, every: float = 0.01) -> None:
    until = monotonic() + seconds
    while not what():
        assert monotonic() < until, "it did not happen in time"
        sleep(every)


@contextmanager
def running_broker(folder: Path, port: int, settings: str = SETTINGS) -> Iterator[subprocess.Popen[bytes]]:
    """Mosquitto at work, which is ended with the block."""
    assert PROGRAM is not None
    path = folder / "mosquitto.conf"
    path.write_text(f"listener {port} 127.0.0.1\n{settings}")
    with subprocess.Popen([PROGRAM, "-c", path], stderr=subprocess.DEVNULL) as broker:
        try:
            wait_for(lambda: answers(port))
            yield broker
        finally:
            broker.terminate()


def answers(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def make_certificate(folder: Path) -> str:
    """Settings of a broker that speaks TLS, with a certificate for this computer in `folder`."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl would make a certificate")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return f"user root\ncertfile {certificate}\nkeyfile {key}\n"


class Listener:
    """A client that keeps every message."""

    def __init__(self, port: int, *topics: str, user: str = "", password: str = "") -> None:
        self.messages: list[tuple[str, bytes, bool]] = []
        self.client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        self.client.on_message = self._keep
        self.client.max_inflight_messages_set(1000)
        if user:
            self.client.username_pw_set(user, password)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        if topics:
            self.client.subscribe([(topic, 1) for topic in topics])

    def _keep(self, client: Client, _: Any, message: MQTTMessage) -> None:
        self.messages.append((message.topic, bytes(message.payload), message.retain))

    def send(self, topic: str, content: Mapping[str, Any] | str, qos: int = 1) -> None:
        """Publish, and wait until the broker has it."""
        payload = content if isinstance(content, str) else json.dumps(content)
        self.client.publish(topic, payload, qos).wait_for_publish(10)

    def last(self, topic: str) -> Any:
        """The newest message of a topic."""
        found = [payload for name, payload, _ in self.messages if name == topic]
        return json.loads(found[-1]) if found and found[-1][:1] in b"{[" else found[-1].decode() if found else None

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
