"""Through a real broker: boxes publish as they do, values come out retained, and a broker that goes away comes back."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from socket import create_server
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import quote, unquote
from urllib.request import urlopen

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.provenance import product_version
from scare.errors import UnreachableError, UsageError
from scare.live.broker_check import TopicListener, propose_inputs
from scare.live.config import Broker, Config, Http, Input
from scare.live.gateway import Gateway
from scare.live.messages import Reading, format_time
from scare.live.pipeline import ModelFiles, Monitor
from tests.live.broker import SETTINGS, Listener, free_port, make_certificate, needs_broker, running_broker, wait_for
from tests.live.small_gateway import START, expected, save_models
from tests.live.test_http import as_line
from tests.live.test_http import working as at_work

pytestmark = needs_broker
DUST = {"pm25": "pm25", "current": "/INA219/Current"}
INPUTS = (Input("json"), Input("tasmota", channels=DUST), Input("esphome", channels={"pm25": "pm_2_5"}))


def make_config(folder: Path, port: int, **more: Any) -> Config:
    return Config(save_models(folder), str(folder / "state"), inputs=INPUTS, mqtt=Broker(port=port, **more))


@contextmanager
def listening(port: int, *topics: str) -> Iterator[Listener]:
    listener = Listener(port, *topics)
    try:
        yield listener
    finally:
        listener.close()


@contextmanager
def working(config: Config) -> Iterator[Gateway]:
    """A gateway at work whose subscription the broker has answered: what is published before that is lost."""
    assert config.mqtt is not None
    with at_work(config) as gateway, listening(config.mqtt.used_port, "scare/status") as box:
        wait_for(lambda: box.last("scare/status") == "online")
        yield gateway


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    with running_broker(tmp_path, port):
        yield port


def count(gateway: Gateway, name: str) -> int:
    return gateway.monitor.counts()[name]


def test_values_are_retained_with_raw_flags_and_model(tmp_path: Path, port: int) -> None:
    readings = [Reading("box-1", START + 60 * row, {"pm25": 20.0 + row, "current": 300.0}) for row in range(20)]
    with working(make_config(tmp_path, port)) as gateway, listening(port) as box:
        for one in readings:
            box.send("readings/box-1", as_line(one))
        wait_for(lambda: count(gateway, "published") == len(readings))
    wanted = expected(Calibrator.load(tmp_path / "dust.scare"), readings)[-1]
    with listening(port, "scare/#") as late:
        wait_for(lambda: len(late.messages) == 2)
        state = late.last("scare/box-1/state")
        assert late.last("scare/status") == "offline"
        assert all(retained for _, _, retained in late.messages)
    assert state == {
        "time": format_time(wanted.time),
        "raw": pytest.approx(wanted.raw, abs=1e-6, nan_ok=True),
        "calibrated": pytest.approx(wanted.calibrated, rel=1e-4) if wanted.calibrated == wanted.calibrated else None,
        "low": None if wanted.low != wanted.low else pytest.approx(wanted.low, rel=1e-4),
        "high": None if wanted.high != wanted.high else pytest.approx(wanted.high, rel=1e-4),
        "flags": wanted.flags,
        "flag_names": state["flag_names"],
        "model": "dust",
        "expected_error": None,
        "watch": "cannot be judged",
        "site": None,
        "product": product_version(tmp_path / "dust.scare"),
        "level": "2B",
        "index": None,
        "outside_ranges": state["outside_ranges"],  # tested with the fleet
        "outside_channel": state["outside_channel"],
    }


def test_boxes_write_as_they_do(tmp_path: Path, port: int) -> None:
    with working(make_config(tmp_path, port)) as gateway, listening(port, "scare/#") as box:
        tasmota = {"Time": "2026-01-01T00:00:00", "PMS5003": {"PM2.5": 9}, "INA219": {"Current": 301}}
        box.send("tele/attic/SENSOR", tasmota, qos=0)
        box.send("cellar/sensor/uptime/state", "12345")
        box.send("cellar/sensor/pm_2_5/state", "7.5")
        box.send("cellar/sensor/current/state", "299")
        wait_for(lambda: box.last("scare/attic/state") and box.last("scare/cellar/state"))
        assert (box.last("scare/attic/state")["raw"], box.last("scare/cellar/state")["raw"]) == (9.0, 7.5)
        assert box.last("scare/attic/state")["time"] == "2026-01-01T00:00:00Z"
        assert box.last("scare/attic/state")["calibrated"] is None
        assert count(gateway, "ignored") == 1


@pytest.mark.parametrize("subscribing", [(Input("json"),), ()])
def test_an_adapter_without_a_topic_is_posted(tmp_path: Path, port: int, subscribing: tuple[Input, ...]) -> None:
    inputs, mine = (*subscribing, Input("mine")), {"device": "/id", "fields": {"pm25": "/dust"}}
    config = replace(make_config(tmp_path, port), adapters={"mine": mine}, inputs=inputs, http=Http(port=0))
    with working(config), listening(port, "scare/#") as box:
        wait_for(lambda: box.last("scare/status") == "online")
        box.send("readings/box-1", {"pm25": 9.0})
        wait_for(lambda: not subscribing or box.last("scare/box-1/state"))


def test_what_cannot_be_used_is_told_and_does_not_come_again(tmp_path: Path, port: int) -> None:
    config = make_config(tmp_path, port)
    with working(config) as gateway, listening(port, "scare/rejected") as box:
        for number in range(50):
            box.send("readings/box-1", f"rubbish {number} \u00b5")
        wait_for(lambda: count(gateway, "rejected") == 50)
        wait_for(lambda: box.messages)
        assert box.last("scare/rejected")["source"] == "readings/box-1"
        assert box.last("scare/rejected")["time"].endswith("Z")
        assert "not JSON: 'rubbish 0" in box.last("scare/rejected")["reason"]
        assert len(box.messages) < 5
    with working(config) as gateway, listening(port) as box:
        box.send("readings/box-1", {"time": START, "pm25": 1.0})
        wait_for(lambda: count(gateway, "published") == 1)
        assert count(gateway, "rejected") == 0


def test_a_late_reading_and_a_duplicate_leave_the_newest_value(tmp_path: Path, port: int) -> None:
    with working(make_config(tmp_path, port)) as gateway, listening(port, "scare/box-1/state") as box:
        for minute in (0, 1, 2, 2, 1, 0):
            box.send("readings/box-1", {"time": START + 60 * minute, "pm25": 10.0 + minute, "current": 300.0})
        box.send("readings/box-1", {"time": START + 90, "pm25": 99.0, "current": 300.0})
        wait_for(lambda: count(gateway, "without_value") + count(gateway, "calibrated") == 4)
        assert count(gateway, "duplicates") == 3
        wait_for(lambda: len(box.messages) >= 3)
        assert [json.loads(payload)["raw"] for _, payload, _ in box.messages] == [10.0, 11.0, 12.0]


def test_what_comes_while_nobody_works_is_kept_by_the_broker(tmp_path: Path, port: int) -> None:
    config = make_config(tmp_path, port)
    with working(config):
        pass
    with listening(port, "scare/box-1/state") as box:
        for minute in range(300):
            box.send("readings/box-1", {"time": START + 60 * minute, "pm25": 10.0, "current": 300.0})
        with working(config) as gateway:
            wait_for(lambda: len(box.messages) == 300)
            wait_for(lambda: count(gateway, "calibrated") + count(gateway, "without_value") == 300)


def test_a_subscriber_that_does_not_read_holds_nobody_up(tmp_path: Path, port: int) -> None:
    slow, received = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5), set[float]()
    slow.on_message = lambda client, data, message: received.add(json.loads(message.payload)["raw"])
    slow.on_subscribe = lambda *_: received.add(-1.0)
    slow.connect("127.0.0.1", port)
    slow.subscribe("scare/box-1/state", 1)
    wait_for(lambda: (slow.loop(0.01), received)[1])
    with working(make_config(tmp_path, port)) as gateway, listening(port, "scare/box-1/state") as box:
        for minute in range(300):
            reading = {"time": START + 60 * minute, "pm25": 10.0 + minute, "current": 300.0}
            box.client.publish("readings/box-1", json.dumps(reading), 1)
        wait_for(lambda: len(box.messages) == count(gateway, "published") == 300)
    assert received == {-1.0}
    wait_for(lambda: (slow.loop(0.01), len(received) == 301)[1])
    slow.disconnect()


def test_a_broker_that_goes_away_comes_back(tmp_path: Path) -> None:
    port = free_port()
    kept = SETTINGS + f"user root\npersistence true\npersistence_location {tmp_path}/\n"

    def send(box: Listener, minutes: range) -> None:
        for minute in minutes:
            box.send("readings/box-1", {"time": START + 60 * minute, "pm25": 10.0, "current": 300.0})

    with ExitStack() as first:
        first.enter_context(running_broker(tmp_path, port, kept))
        with working(make_config(tmp_path, port)) as gateway:
            with listening(port) as box:
                send(box, range(20))
            first.close()
            with running_broker(tmp_path, port, kept), listening(port, "scare/box-1/state") as box:
                send(box, range(20, 40))
                wait_for(lambda: count(gateway, "calibrated") + count(gateway, "without_value") == 40)
                wait_for(lambda: len({payload for _, payload, _ in box.messages}) >= 20)


def test_home_assistant_hears_of_devices_once_and_when_it_is_born(tmp_path: Path, port: int) -> None:
    topic = "homeassistant/device/scare_box-1/config"
    config = make_config(tmp_path, port, home_assistant=True)
    with working(config), listening(port, topic) as box:
        for minute in range(3):
            box.send("readings/box-1", {"time": START + 60 * minute, "pm25": 10.0, "current": 300.0})
        wait_for(lambda: box.messages)
        reported = box.last(topic)
        assert reported["state_topic"] == "scare/box-1/state"
        assert reported["components"]["calibrated"]["unit_of_measurement"] == "\u03bcg/m³"
        assert len(box.messages) == 1
        box.send("homeassistant/status", "online")
        wait_for(lambda: len(box.messages) == 2)
        assert box.last(topic) == reported


def test_a_broker_that_is_not_there_or_refuses_is_an_error_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scare.live.mqtt.CONNECT_SECONDS", 0.5)
    gateway = Gateway(make_config(tmp_path, free_port()), Calibrator.load)
    with pytest.raises(UnreachableError, match="does not answer"):
        gateway.start()
    gateway.close()
    port = free_port()
    with running_broker(tmp_path, port, "allow_anonymous false\n"):
        gateway = Gateway(make_config(tmp_path, port), Calibrator.load)
        with pytest.raises(UsageError, match="refuses a client: Not authorized"):
            gateway.start()
        gateway.close()


def test_check_listens_to_what_arrives_and_proposes_inputs(tmp_path: Path, port: int) -> None:
    config = Config(save_models(tmp_path), str(tmp_path / "state"), mqtt=Broker(port=port))
    listener = TopicListener(config, Broker(port=port))
    with listening(port) as box:
        listening_thread = Thread(target=listener.listen, args=(2.0,))
        listening_thread.start()
        wait_for(lambda: box.send("my/own/topic", {"dust": {"fine": 3}}) or listener.numbers)  # until it has subscribed
        box.send("tele/attic/SENSOR", {"Time": "2026-01-01T00:00:00", "PMS5003": {"PM2.5": 9}})
        box.send("tele/attic/SENSOR", "rubbish")
        box.send("scare/attic/state", {"raw": 9})
        listening_thread.join()
    (tasmota,) = listener.heard
    assert tasmota.devices == {"attic"}
    assert tasmota.rejected == {"not JSON: 'rubbish'": 1}
    assert listener.numbers == {"my/own/topic": {"/dust/fine": 3.0}}
    proposed = tomllib.loads(propose_inputs(listener.stats, ["pm25_raw", "current"]))
    assert proposed == {"inputs": [{"adapter": "tasmota", "channels": {"pm25_raw": "pm25"}}]}


def test_check_says_how_often_devices_send(tmp_path: Path, port: int) -> None:
    config = Config(save_models(tmp_path), str(tmp_path / "state"), mqtt=Broker(port=port))
    listener = TopicListener(config, Broker(port=port))
    with listening(port) as box:
        listening_thread = Thread(target=listener.listen, args=(1.5,))
        listening_thread.start()
        message = {"Time": "2026-01-01T00:00:00", "PMS5003": {"PM2.5": 9}}
        wait_for(lambda: box.send("tele/attic/SENSOR", message) or listener.heard)
        for _ in range(4):
            sleep(0.2)
            box.send("tele/attic/SENSOR", message)
        listening_thread.join()
    seconds = listener.heard[0].intervals["attic"]
    assert 0 < seconds < 1
    models = ModelFiles(config.models, Calibrator.load, Monitor())
    assert "its readings are averaged to 1 minute ('dust')." in models.describe_interval("attic", seconds)
    assert models.describe_interval("attic", 61.0) == ""
    assert models.describe_interval("gas-1", 3600) == "gas-1 sends every 1 hour: its readings are rejected ('gas')."


def test_check_keeps_what_the_file_says_of_an_input(tmp_path: Path, port: int) -> None:
    oslo = Input("tasmota", "home/{device}/SENSOR", "Europe/Oslo", {"current": "/INA219/Current"})
    polled = Input("airgradient", addresses=("http://10.0.0.9/measures/current",), every_seconds=30.0)
    config = replace(make_config(tmp_path, port), inputs=(oslo, polled))
    listener = TopicListener(config, Broker(port=port))
    message = {"Time": "2026-01-01T00:00:00", "PMS5003": {"PM2.5": 9}, "INA219": {"Current": 300}}
    with listening(port) as box:
        listening_thread = Thread(target=listener.listen, args=(1.0,))
        listening_thread.start()
        wait_for(lambda: box.send("home/attic/SENSOR", message) or listener.heard)
        box.send("zigbee2mqtt/Upper hall", {"pm25": 4, "temperature": 21})
        listening_thread.join()
    assert [one.name for one in listener.heard] == ["tasmota home/{device}/SENSOR", "zigbee2mqtt"]
    assert listener.heard[1].devices == {"Upper hall"}
    assert tomllib.loads(propose_inputs(listener.stats, ["pm25", "current"]))["inputs"] == [
        {
            "adapter": "tasmota",
            "topic": "home/{device}/SENSOR",
            "time_zone": "Europe/Oslo",
            "channels": {"pm25": "pm25", "current": "/INA219/Current"},
        },
        {"adapter": "airgradient", "addresses": list(polled.addresses), "every_seconds": 30.0, "channels": {}},
        {"adapter": "zigbee2mqtt", "channels": {"pm25": "pm25"}},
    ]


def test_check_hears_that_the_broker_drops_messages(tmp_path: Path) -> None:
    port = free_port()
    with running_broker(tmp_path, port, "allow_anonymous true\nmax_queued_messages 5\nsys_interval 1\n"):
        config = make_config(tmp_path, port)
        with working(config):
            pass  # which leaves a session that is full soon
        with listening(port) as box:
            for minute in range(50):
                box.send("readings/box-1", {"time": START + 60 * minute, "pm25": 10.0, "current": 300.0})
        listener = TopicListener(config, Broker(port=port))
        listener.listen(2.5)
    assert listener.dropped[-1] >= 25


# --- MQTT 3.1.1 ---


def test_version_3_loses_nothing_where_the_broker_keeps_a_session(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_config(tmp_path, port, version=3)
    with working(config):
        pass
    assert "MQTT 3.1.1: if the server sends with QoS 0" in caplog.text
    with listening(port, "scare/box-1/state") as box:
        for minute in range(50):
            box.send("readings/box-1", {"time": START + 60 * minute, "pm25": 10.0, "current": 300.0})
        with working(config) as gateway:
            wait_for(lambda: len(box.messages) == 50)
            wait_for(lambda: count(gateway, "calibrated") + count(gateway, "without_value") == 50)


@pytest.mark.parametrize("version", [3, 5])
def test_a_subscription_that_gets_only_qos_0_is_said_with_what_that_loses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    port = free_port()
    with running_broker(tmp_path, port, SETTINGS + "max_qos 0\n"):
        config = replace(make_config(tmp_path, port, version=version, publish=""), inputs=(Input("the-things-stack"),))
        with at_work(config) as gateway, listening(port) as box:
            uplink = {"uplink_message": {"decoded_payload": {"pm25": 9}, "received_at": "2026-01-31T12:00:00.1Z"}}
            wait_for(lambda: "with QoS 0: readings are lost while" in caplog.text)
            box.send("v3/air@ttn/devices/roof-1/up", uplink, qos=0)
            wait_for(lambda: count(gateway, "without_value") == 1)


def test_a_broker_of_an_older_version_hints_at_version_3(tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            """Answer as 3.1.1 says: CONNACK with return code 1, unacceptable protocol version."""
            client = server.accept()[0]
            client.recv(1000)
            client.sendall(b"\x20\x02\x00\x01")
            client.close()

        Thread(target=refuse, daemon=True).start()
        gateway = Gateway(make_config(tmp_path, server.getsockname()[1]), Calibrator.load)
        with pytest.raises(UsageError, match=r"set mqtt\.version = 3"):
            gateway.start()
        gateway.close()


# --- names ---


def test_a_device_may_have_any_printable_name(tmp_path: Path, port: int) -> None:
    names = ["Küche 1/2", "Küche 1%2F2", "a+b #3", "<b>'\"&"]
    inputs = (Input("json", topic="readings"),)
    config = replace(make_config(tmp_path, port, home_assistant=True), inputs=inputs, http=Http(port=0))
    with working(config) as gateway, listening(port, "scare/+/state", "homeassistant/device/+/config") as box:
        for number, name in enumerate(names):
            box.send("readings", {"device": name, "time": START, "pm25": float(number), "current": 300.0})
        wait_for(lambda: len(box.messages) == 2 * len(names))
        states = {
            unquote(topic.split("/")[1]): box.last(topic)["raw"] for topic, _, _ in box.messages if "/state" in topic
        }
        assert states == {name: float(number) for number, name in enumerate(names)}
        found = [json.loads(payload) for topic, payload, _ in box.messages if "/config" in topic]
        assert {one["device"]["name"]: box.last(one["state_topic"])["raw"] for one in found} == states
        assert gateway.server is not None
        for number, name in enumerate(names):
            with urlopen(f"{gateway.server.address}v1/devices/{quote(name, safe='')}") as answer:
                assert json.load(answer)["raw"] == [float(number)]


# --- TLS ---

# paho does not close a socket whose handshake failed.
left_open = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@left_open
@pytest.mark.parametrize(
    ("has_tls", "asks_tls", "hint"),
    [
        (False, True, "with TLS; if it has none, set mqtt.tls = false"),
        (True, False, "without TLS; set mqtt.tls = true"),
    ],
)
def test_a_broker_with_the_other_encryption_hints_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_tls: bool, asks_tls: bool, hint: str
) -> None:
    monkeypatch.setattr("scare.live.mqtt.CONNECT_SECONDS", 1.0)
    port = free_port()
    with running_broker(tmp_path, port, SETTINGS + (make_certificate(tmp_path) if has_tls else "")):
        gateway = Gateway(make_config(tmp_path, port, tls=asks_tls), Calibrator.load)
        with pytest.raises(UnreachableError, match=hint):
            gateway.start()
        gateway.close()


def test_the_other_default_port_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scare.live.mqtt.CONNECT_SECONDS", 0.5)
    plain, nobody = free_port(), free_port()
    for module in ("mqtt", "config"):
        monkeypatch.setattr(f"scare.live.{module}.DEFAULT_PORTS", {True: nobody, False: plain})
    with running_broker(tmp_path, plain):
        gateway = Gateway(make_config(tmp_path, 0, tls=True), Calibrator.load)
        with pytest.raises(UnreachableError, match=f"but port {plain} does: set mqtt.tls = false"):
            gateway.start()
        gateway.close()


@left_open
def test_a_certificate_that_nobody_signed_needs_its_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scare.live.mqtt.CONNECT_SECONDS", 2.0)
    port = free_port()
    with running_broker(tmp_path, port, SETTINGS + make_certificate(tmp_path)):
        gateway = Gateway(make_config(tmp_path, port, tls=True), Calibrator.load)
        with pytest.raises(UnreachableError, match=r"certificate is refused \(self-signed.*certificate_authority"):
            gateway.start()
        gateway.close()
        trusted = make_config(tmp_path, port, tls=True, certificate_authority=str(tmp_path / "certificate.pem"))
        with at_work(trusted) as gateway:
            wait_for(lambda: gateway.monitor.counts()["rejected"] == 0)
