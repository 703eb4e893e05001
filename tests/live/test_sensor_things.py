"""Values arrive on a SensorThings server as the standard asks, each once, and none is lost when it was away."""

from base64 import b64encode
from collections.abc import Iterator
from math import nan
from pathlib import Path
from threading import Thread

import pytest

from scare.errors import UsageError
from scare.live import sensor_things as module
from scare.live.config import SENSOR_THINGS_PASSWORD, SensorThings
from scare.live.pipeline import Monitor, Result
from scare.live.sensor_things import SensorThingsSink
from tests.calibrator.building import make_calibrator, with_edges
from tests.live.broker import free_port, wait_for
from tests.live.sensor_things_server import SensorThingsServer, running_server
from tests.live.small_gateway import draw_readings
from tests.live.test_http import ask, lines, make_config, working

MODELS = {"pm": with_edges(make_calibrator()), "plain": make_calibrator()}


def result(device: str, minute: int, value: float = 12.5, model: str = "pm", flags: int = 0) -> Result:
    ends = (nan, nan) if model == "plain" else (value - 2, value + 3)
    return Result(device, 1.8e9 + 60 * minute, 30.0, value, *ends, flags, model, product="pm 1.2", site="")


SINKS: list[SensorThingsSink] = []  # in use


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while SINKS:
        SINKS.pop().close()


def make(address: str, monitor: Monitor | None = None, user: str = "") -> SensorThingsSink:
    SINKS.append(SensorThingsSink(SensorThings(address, user), MODELS, monitor or Monitor()))
    return SINKS[-1]


@pytest.mark.parametrize("texts", [False, True])
def test_a_value_becomes_an_observation_of_its_thing(texts: bool) -> None:
    server = SensorThingsServer(texts)
    with running_server(server) as address:
        sink = make(address)
        sent = [result("box 'a'/1", 0), result("box-2", 0, model="plain"), result("box 'a'/1", 1, 14.25, flags=8192)]
        assert sink.publish(sent)
    first, second = server.values("box 'a'/1")
    assert (first["result"], first["phenomenonTime"]) == (12.5, "2027-01-15T08:00:00Z")
    interval, flags = second["resultQuality"]
    assert interval["result"] == {"low": 12.25, "high": 17.25, "level": 0.9}
    assert flags["result"] == {"bits": 8192, "names": ["OUTSIDE"]}
    assert second["parameters"] == {"raw": 30.0, "model": "pm", "product": "pm 1.2"}
    (plain,) = server.values("box-2")
    assert [one["nameOfMeasure"] for one in plain["resultQuality"]] == ["flags"]
    assert {one["name"] for one in server.entities["Things"].values()} == {"box 'a'/1", "box-2"}
    assert len(server.entities["Datastreams"]) == len(server.entities["FeaturesOfInterest"]) == 2


def test_another_process_uses_the_entities_that_are_there() -> None:
    server = SensorThingsServer()
    with running_server(server) as address:
        for minute in range(2):
            sink = make(address)
            assert sink.publish([result("box-1", minute)])
    assert len(server.values("box-1")) == 2
    assert {name: len(found) for name, found in server.entities.items()} == {
        **dict.fromkeys(("Things", "Sensors", "ObservedProperties", "Datastreams", "FeaturesOfInterest"), 1),
        "Observations": 2,
    }


def test_a_result_without_a_value_is_not_sent() -> None:
    server = SensorThingsServer()
    with running_server(server) as address:
        assert make(address).publish([result("box-1", 0, nan, flags=256)])
    assert not server.entities["Things"]


def test_what_the_server_refuses_holds_nothing_up() -> None:
    server, monitor = SensorThingsServer(), Monitor()
    with running_server(server) as address:
        sink = make(address, monitor)
        assert sink.publish([result("box-1", 0)])
        server.answers = [400]
        assert sink.publish([result("box-1", 1), result("box-1", 2)])
        (stream,) = server.entities["Datastreams"]
        del server.entities["Datastreams"][stream]  # someone has deleted it
        assert sink.publish([result("box-1", 3), result("box-1", 4)])
    times = [one["phenomenonTime"][14:16] for one in server.entities["Observations"].values()]
    assert times == ["00", "02", "04"]
    assert [one.reason.partition(":")[0] for one in monitor.rejections()] == ["box-1", "box-1"]


def test_a_server_that_was_away_gets_everything_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.02)
    server, port = SensorThingsServer(), free_port()
    server.answers = [503, 429, 500]
    sink = make(f"http://127.0.0.1:{port}/sta/v1.1")
    outcome: list[bool] = []
    thread = Thread(target=lambda: outcome.append(sink.publish([result("box-1", minute) for minute in range(3)])))
    thread.start()
    wait_for(lambda: sink.problem)
    assert not outcome
    with running_server(server, port):
        thread.join(20)
        assert outcome == [True]
    assert len(server.values("box-1")) == 3
    assert sink.problem == ""
    assert make(f"http://127.0.0.1:{port}/sta/v1.1").publish([]) is True


def test_a_process_that_stops_meanwhile_publishes_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = make(f"http://127.0.0.1:{free_port()}/v1.1")
    thread_outcome: list[bool] = []
    thread = Thread(target=lambda: thread_outcome.append(sink.publish([result("box-1", 0)])))
    thread.start()
    wait_for(lambda: sink.problem)
    sink.stop()
    thread.join(10)
    assert thread_outcome == [False]


def test_the_password_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SENSOR_THINGS_PASSWORD, "secret")
    server = SensorThingsServer()
    with running_server(server) as address:
        make(address, user="scare").publish([result("box-1", 0)])
    assert server.authorizations == {f"Basic {b64encode(b'scare:secret').decode()}"}


@pytest.mark.parametrize("address", ["sta.example/v1.1", "https://sta.example", "ftp://sta.example/v1.1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"ends with /v1\.1"):
        SensorThings(address)


def test_a_gateway_sends_what_it_calibrates(tmp_path: Path) -> None:
    server, readings = SensorThingsServer(), draw_readings(2, 30)
    with (
        running_server(server) as address,
        working(make_config(tmp_path, sensor_things=SensorThings(address))) as gateway,
    ):
        assert ask(gateway, "POST", "/v1/readings", lines(readings))[0] == 200
        shown = {}
        for device in {one.device for one in readings}:
            history = ask(gateway, "GET", f"/v1/devices/{device}")[1]
            shown[device] = [value for value in history["calibrated"] if value is not None]
    for device, values in shown.items():
        assert [one["result"] for one in server.values(device)] == pytest.approx(values, rel=1e-5)
    assert sum(map(len, shown.values())) > 20
