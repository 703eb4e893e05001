"""Readings POSTed to a real server on loopback, and what it answers to whom."""

import base64
import gzip
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_connection
from threading import Thread
from time import sleep, time
from typing import Any

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.errors import UsageError
from scare.live.arrivals import Delivery
from scare.live.config import TOKEN, Config, Http, Input, LiveLimits
from scare.live.gateway import Gateway
from scare.live.messages import Reading, format_time
from tests.live.broker import wait_for
from tests.live.small_gateway import START, Kept, close, draw_readings, expected, make_pipeline, save_models
from tests.live.test_messages import PURPLEAIR

READINGS = draw_readings(4, 30)


@contextmanager
def working(config: Config, *more: Any) -> Iterator[Gateway]:
    """A gateway at work in a thread."""
    gateway = Gateway(config, Calibrator.load, *more)
    thread = Thread(target=gateway.run)
    try:
        gateway.start()
        thread.start()
        yield gateway
    finally:
        gateway.stop()
        if thread.is_alive():
            thread.join(20)
        gateway.close()
    assert not thread.is_alive()


def make_config(folder: Path, **more: Any) -> Config:
    settings = {"inputs": (Input("sensor-community", channels={"pm25": "pm25", "current": "humidity"}),)} | more
    return Config(save_models(folder), str(folder / "state"), http=Http(port=0), **settings)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with working(make_config(tmp_path)) as gateway:
        yield gateway


def ask(gateway: Gateway, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    """An answer's code, and what it says."""
    assert gateway.server is not None
    connection = HTTPConnection("127.0.0.1", gateway.server.port, timeout=10)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    printed = answer.read()
    connection.close()
    is_json = answer.headers["content-type"] == "application/json"
    return answer.status, json.loads(printed) if is_json else printed.decode()


def as_line(reading: Reading) -> dict[str, Any]:
    values = {name: None if value != value else value for name, value in reading.values.items()}
    return {"device": reading.device, "time": reading.time, **values}


def lines(readings: list[Reading]) -> bytes:
    return "\n".join(json.dumps(as_line(one)) for one in readings).encode()


def test_json_lines_are_calibrated_and_shown(gateway: Gateway, tmp_path: Path) -> None:
    for start in range(0, len(READINGS), 37):
        part = READINGS[start : start + 37]
        code, printed = ask(gateway, "POST", "/v1/readings", lines(part))
        assert (code, printed) == (200, {"accepted": len(part), "rejected": 0, "reasons": []})
    mine = [one for one in READINGS if one.device == "box-1"]
    code, shown = ask(gateway, "GET", "/v1/devices/box-1")
    wanted = expected(Calibrator.load(tmp_path / "dust.scare"), mine)
    assert shown["time"] == [one.time for one in mine]
    numbers = [None if one.calibrated != one.calibrated else one.calibrated for one in wanted]
    assert [one is None for one in shown["calibrated"]] == [one is None for one in numbers]
    assert [one for one in shown["calibrated"] if one] == pytest.approx([one for one in numbers if one], rel=1e-4)
    assert shown["flags"] == [one.flags for one in wanted]
    assert (shown["unit"], shown["model"], shown["correction"]) == ("µg/m³", "dust", {})
    _, all_devices = ask(gateway, "GET", "/v1/devices")
    counts = Counter(one.device for one in READINGS)
    assert {row[0]: len(row[-1]) for row in all_devices["devices"]} == {name: min(30, n) for name, n in counts.items()}


def test_the_same_comes_as_csv_as_gzip_and_as_one_object(gateway: Gateway) -> None:
    table = "device,time,pm25,current\nbox-1,2026-01-01T00:00:00Z,3.5,300\nbox-1,2026-01-01T00:01:00Z,,300\n"
    assert ask(gateway, "POST", "/v1/readings", table.encode(), content_type="text/csv; charset=utf-8")[0] == 200
    packed = gzip.compress(lines(READINGS[:5]))
    assert ask(gateway, "POST", "/v1/readings", packed, content_encoding="gzip")[1]["accepted"] == 5
    assert ask(gateway, "POST", "/v1/readings", json.dumps(as_line(READINGS[6])).encode())[1]["accepted"] == 1
    many = json.dumps([as_line(one) for one in READINGS[7:10]]).encode()
    assert ask(gateway, "POST", "/v1/readings", many)[1]["accepted"] == 3
    community = {"esp8266id": "77", "sensordatavalues": [{"value_type": "SDS_P2", "value": "7.1"}]}
    code, printed = ask(gateway, "POST", "/v1/readings/sensor-community", json.dumps(community).encode())
    assert (code, printed["accepted"]) == (200, 1)
    assert ask(gateway, "GET", "/v1/devices/77")[1]["raw"] == [7.1]
    assert ask(gateway, "GET", "/v1/devices/box-1")[1]["raw"][:2] == [3.5, None]


def test_a_bad_line_spoils_no_other_and_is_told(gateway: Gateway) -> None:
    bad = [b"{", b'{"device": "a\\nb", "pm25": 1}', b'{"device": "x", "time": 0, "pm25": 1}', b'{"device": "x"}']
    code, printed = ask(gateway, "POST", "/v1/readings", b"\n".join([*bad, lines(READINGS[:2])]))
    assert (code, printed["accepted"], printed["rejected"]) == (200, 2, 4)
    assert [one["line"] for one in printed["reasons"]] == [1, 2, 3, 4]
    assert ask(gateway, "POST", "/v1/readings", b"\n".join(bad))[0] == 400
    counts = gateway.monitor.counts()
    assert (counts["rejected"], counts["received"]) == (8, 10)
    assert "scare_rejected_total 8" in ask(gateway, "GET", "/metrics")[1]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code"),
    [
        ("POST", "/v1/readings", b" " * (1 << 20) + b"xx", {}, 413),
        ("POST", "/v1/readings", gzip.compress(b" " * (1 << 24), mtime=0), {"content_encoding": "gzip"}, 413),
        ("POST", "/v1/readings", b"no gzip", {"content_encoding": "gzip"}, 400),
        ("POST", "/v1/readings", gzip.compress(b"{}", mtime=0)[:-1], {"content_encoding": "gzip"}, 400),
        ("POST", "/v1/readings", b"", {}, 400),
        ("POST", "/v1/readings/nobody", b"", {}, 404),
        ("GET", "/v1/devices/nobody", b"", {}, 404),
        ("GET", "/healthz", b"", {"host": "evil.example"}, 421),
        ("POST", "/v1/readings", b"", {"host": "127.0.0.1", "origin": "http://evil.example"}, 403),
        ("GET", "/healthz", b"", {"host": "localhost:1"}, 200),
    ],
)
def test_what_is_wrong_has_its_code(
    gateway: Gateway, method: str, path: str, body: bytes, headers: dict[str, str], code: int
) -> None:
    assert ask(gateway, method, path, body, **headers)[0] == code


def test_a_token_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "hush")
    with working(make_config(tmp_path)) as gateway:
        basic = "Basic " + base64.b64encode(b"anyone:hush").decode()
        assert ask(gateway, "GET", "/healthz")[0] == 200
        for shown, code in (("", 401), ("Bearer hush", 200), ("Bearer hus", 401), (basic, 200), ("Basic ?", 401)):
            assert ask(gateway, "GET", "/v1/devices", authorization=shown)[0] == code
        for shown, code in (("Bearer hush", 200), (basic, 401), ("", 401)):
            assert ask(gateway, "POST", "/v1/readings", lines(READINGS[:1]), authorization=shown)[0] == code


@pytest.mark.parametrize(("proxy", "code"), [("", 401), ("127.0.0.9", 401), ("127.0.0.1", 200)])
def test_a_proxy_that_checks_its_users_may_read_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str, code: int
) -> None:
    monkeypatch.setenv(TOKEN, "hush")
    config = make_config(tmp_path)
    with working(replace(config, http=replace(config.http, proxy=proxy))) as gateway:
        assert ask(gateway, "GET", "/v1/devices", host="localhost")[0] == code
        assert ask(gateway, "GET", "/v1/devices", host="home.example")[0] == (200 if code == 200 else 421)
        forwarded = {"x_forwarded_for": "127.0.0.9"}  # anybody can claim that
        assert ask(gateway, "GET", "/v1/devices", host="localhost", **forwarded)[0] == code
        assert ask(gateway, "POST", "/v1/readings", lines(READINGS[:1]), host="localhost")[0] == 401


def test_who_is_behind_says_so(tmp_path: Path) -> None:
    gateway = Gateway(make_config(tmp_path, limits=LiveLimits(queue=1)), Calibrator.load)
    gateway.start()  # and nobody works
    try:
        first = Thread(target=ask, args=(gateway, "POST", "/v1/readings", lines(READINGS[:1])))
        first.start()
        until = time() + 5
        while gateway.pipeline is not None and gateway.pipeline.backlog < 1 and time() < until:
            pass
        code, printed = ask(gateway, "POST", "/v1/readings", lines(READINGS[1:2]))
        assert (code, "send them again later" in printed["error"]) == (429, True)
    finally:
        gateway.stop()
        gateway.run()
        first.join(10)
        gateway.close()


def test_events_tell_what_changes(gateway: Gateway) -> None:
    ask(gateway, "POST", "/v1/readings", lines(READINGS[:8]))
    assert gateway.server is not None
    connection = HTTPConnection("127.0.0.1", gateway.server.port, timeout=10)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    while not (line := answer.readline()).startswith(b"data: "):
        pass
    reported = json.loads(line[6:])
    assert {row[0] for row in reported["devices"]} == {one.device for one in READINGS[:8]}
    assert (reported["counts"]["received"], reported["waiting"]) == (8, 0)
    connection.close()
    assert reported["now"] > START


class Answering(BaseHTTPRequestHandler):
    """A PurpleAir on the local network."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/json" else 404)
        self.end_headers()
        self.wfile.write(json.dumps(PURPLEAIR | {"DateTime": format_time(time())}).encode())

    def log_message(self, *_: object) -> None:
        pass


def test_devices_that_have_to_be_asked_are_asked(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as device:
        Thread(target=device.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{device.server_port}"
        channels = {"pm25": "pm25_atm_b", "current": "humidity"}
        asked = Input(
            "purpleair", channels=channels, addresses=(f"{address}/json", f"{address}/none"), every_seconds=0.2
        )
        with working(make_config(tmp_path, inputs=(asked,))) as gateway:
            until = time() + 20
            while not len(gateway.recent) and time() < until:
                sleep(0.05)
            assert ask(gateway, "GET", "/v1/devices/84:f3:eb:7b:c8:ee")[1]["raw"][0] == 10.0
        assert "no answer: Not Found" in {one.reason for one in gateway.monitor.rejections()}
        device.shutdown()


def test_polling_goes_on_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(2_000_000_000, 0, -86_400))  # a day earlier whenever someone looks
    monkeypatch.setattr("scare.live.http.time", lambda: float(next(clock)))
    polled = Input("purpleair", addresses=("http://127.0.0.1:9/",), every_seconds=0.05)
    with working(make_config(tmp_path, inputs=(polled,))) as gateway:
        until = time() + 10
        while gateway.monitor.counts()["received"] < 3 and time() < until:
            sleep(0.02)
        assert gateway.monitor.counts()["received"] >= 3


def test_an_adapter_of_topics_cannot_be_polled(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as device:
        Thread(target=device.serve_forever, daemon=True).start()
        polled = Input("esphome", addresses=(f"http://127.0.0.1:{device.server_port}/json",), every_seconds=0.2)
        with working(make_config(tmp_path, inputs=(polled,))) as gateway:
            until = time() + 20
            while not gateway.monitor.rejections() and time() < until:
                sleep(0.05)
        reasons = {one.reason for one in gateway.monitor.rejections()}
        assert reasons == {"the adapter takes the field from an MQTT topic, so it cannot be polled"}
        device.shutdown()


def test_beyond_this_computer_there_is_tls_and_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl would run it")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *subject]
    subprocess.run(made, check=True, capture_output=True)
    settings = Http("0.0.0.0", 0, ("localhost",), certificate=str(certificate), key=str(key))
    config = replace(make_config(tmp_path), http=settings)
    with pytest.raises(UsageError, match="give token_file"):
        Gateway(config, Calibrator.load)
    monkeypatch.setenv(TOKEN, "hush")
    with working(config) as gateway:
        assert gateway.server is not None
        assert gateway.server.address.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate))
        connection = HTTPSConnection("localhost", gateway.server.port, timeout=10, context=trusting)
        connection.request("GET", "/v1/devices", headers={"authorization": "Bearer hush"})
        assert connection.getresponse().status == 200
        connection.close()


def test_what_is_refused_is_counted_by_reason(tmp_path: Path) -> None:
    models = {"gas": save_models(tmp_path)["gas"]}
    config = replace(make_config(tmp_path, limits=LiveLimits(devices=1), inputs=()), models=models)
    with working(config) as gateway:
        some = [Reading(name, START, {"pm25": 1.0, "current": 1.0}) for name in ("gas-1", "gas-2", "box-1")]
        code, printed = ask(gateway, "POST", "/v1/readings", lines([*some, replace(some[0], time=time() + 9000)]))
        assert (code, printed["accepted"], printed["rejected"]) == (200, 1, 3)
        assert sorted(printed["refused"].values()) == [1, 2]
        assert any("limits.devices allows 1" in reason for reason in printed["refused"])


def test_a_body_takes_bounded_time_and_a_bad_origin_is_told(gateway: Gateway) -> None:
    code, printed = ask(gateway, "POST", "/v1/readings", b"[" + b"{}," * 340_000 + b"{}]")
    assert (code, printed["error"]) == (413, "the body has more than 20,000 readings; send fewer at once")
    assert ask(gateway, "POST", "/v1/readings", b"{}", origin="http://[bad")[0] == 400


def test_connections_that_send_nothing_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scare.http_server.HEADER_SECONDS", 0.5)
    monkeypatch.setattr("scare.http_server.max_connections", lambda: 20)
    with working(make_config(tmp_path)) as gateway:
        assert gateway.server is not None
        opened = [create_connection(("127.0.0.1", gateway.server.port), 5) for _ in range(60)]
        for one in opened[:5]:
            one.send(b"POST /v1/readings HTTP/1.1\r\nHost: ")  # and no more
        for one in opened:
            with suppress(ConnectionResetError):  # beyond the limit
                assert one.recv(1) == b""
            one.close()
        assert ask(gateway, "POST", "/v1/readings", lines(READINGS[:3]))[0] == 200


def test_finer_readings_are_averaged_and_coarser_ones_refused_and_both_are_shown(gateway: Gateway) -> None:
    begin = 60 * (START // 60)
    fine = [Reading("fast", begin + 10 * row, {"pm25": 20.0, "current": 300.0}) for row in range(100)]
    coarse = [Reading("slow", begin + 3600 * row, {"pm25": 20.0, "current": 300.0}) for row in range(20)]
    assert ask(gateway, "POST", "/v1/readings", lines(fine))[1]["accepted"] == 100
    reason = "it sends a reading every 1 hour, but its model expects one every 1 minute"
    answer = ask(gateway, "POST", "/v1/readings", lines(coarse))[1]
    assert (answer["accepted"], answer["refused"]) == (8, {reason: 12})  # eight gaps are known from the ninth on
    rows = ask(gateway, "GET", "/v1/devices/fast")[1]
    assert [time % 60 for time in rows["time"]] == [0.0] * len(rows["time"])
    assert len(rows["time"]) == 17
    metrics = ask(gateway, "GET", "/metrics")[1]
    assert "scare_averaged_total 99" in metrics
    assert "scare_wrong_step_total 12" in metrics
    assert gateway.pipeline is not None
    assert gateway.pipeline.remarks() == [
        "Some devices send more often than their model's step, so their readings are averaged: fast.",
        "Some devices send at another step than their model's, so their readings are rejected: slow (every 1 hour).",
    ]


def test_health_names_a_problem(gateway: Gateway) -> None:
    assert gateway.pipeline is not None
    assert ask(gateway, "GET", "/healthz")[1]["status"] == "ok"
    gateway.pipeline.problems["disk"] = "full"
    code, printed = ask(gateway, "GET", "/healthz")
    assert (code, printed["status"], printed["problems"]) == (503, "degraded", {"disk": "full"})
    metrics = ask(gateway, "GET", "/metrics")[1]
    assert 'scare_problem{about="disk"} 1' in metrics
    assert 'scare_problem{about="clock"} 0' in metrics


def test_health_is_told_while_the_journal_is_not_yet_replayed(tmp_path: Path) -> None:
    make_pipeline(tmp_path, Kept(is_safe=False))[0].process([Delivery(READINGS[:12])])
    close()
    gateway = Gateway(make_config(tmp_path), Calibrator.load)
    worker = Thread(target=gateway.run)
    gateway.start()
    try:
        code, printed = ask(gateway, "GET", "/healthz")
        assert (code, printed["status"], printed["restoring"], printed["devices"]) == (200, "ok", 12, 0)
        worker.start()
        wait_for(lambda: "scare_replayed_total 12" in ask(gateway, "GET", "/metrics")[1])
        printed = ask(gateway, "GET", "/healthz")[1]
        assert (printed["restoring"], printed["devices"]) == (0, 4)
    finally:
        gateway.stop()
        if worker.is_alive():
            worker.join(20)
        gateway.close()


WITHOUT_PAHO = """
import sys
sys.modules["paho"] = None  # as if it were not installed
from scare.errors import UsageError
from scare.live.config import read_config
from scare.live.gateway import Gateway
from scare.cli.options import open_calibrator
model = '[models.pm]\\nfile = "barkjohn-2021"\\n'
for settings in ("[http]\\nport = 0\\n", '[mqtt]\\n[[inputs]]\\nadapter = "json"\\n'):
    open("live.toml", "w").write(model + settings)
    try:
        Gateway(read_config("live.toml"), open_calibrator).close()
        print("opened")
    except UsageError as error:
        print(error)
"""


def test_without_paho_readings_come_over_http_only(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, "-c", WITHOUT_PAHO]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    http, mqtt = done.stdout.splitlines()
    assert http == "opened"
    assert mqtt.startswith("paho is not installed; run")
