"""Alerts begin once, are over once, survive a restart, and reach a webhook that was away and a real broker."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from scare.errors import UsageError
from scare.live import alerts as module
from scare.live.alerts import Alerts
from scare.live.config import WEBHOOK, AlertSettings, Broker
from scare.live.messages import format_time
from scare.live.pipeline import Result
from scare.upkeep.drift import DriftState
from tests.live.broker import Listener, free_port, needs_broker, running_broker, wait_for
from tests.live.small_gateway import START
from tests.live.test_http import ask, make_config, working
from tests.needs import needs

FINE, LOOK, BAD = DriftState.FINE, DriftState.LOOK, DriftState.RECOLLOCATE


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


def heard(*devices: str, watch: int = FINE) -> list[Result]:
    return [Result(device, 1.8e9, 1.0, 1.0, 0.5, 1.5, 0, "pm", watch) for device in devices]


def make(folder: Path, problems: dict[str, str] | None = None, **settings: Any) -> Alerts:
    found = problems if problems is not None else {}
    return Alerts(AlertSettings(**settings), {"pm": 60.0}, lambda: found, folder / "alerts.json")


def kinds(alerts: Alerts, clock: Clock) -> list[tuple[str, str, str]]:
    return [(one.device, one.about, one.state) for one in alerts.check(clock.now)]


def test_silence_begins_after_ten_steps_and_ends_with_the_third_reading(tmp_path: Path, clock: Clock) -> None:
    alerts = make(tmp_path)
    alerts.publish(heard("a", "b"))
    for minute in range(25):
        clock.now += 60
        alerts.publish(heard("b"))
        begun = kinds(alerts, clock)
        assert begun == ([("a", "silent", "begun")] if minute == 10 else [])
    assert alerts.counts() == {"silent": 1, "drift": 0}
    for number in range(1, 5):
        clock.now += 60
        alerts.publish(heard("a", "b"))
        assert kinds(alerts, clock) == ([("a", "silent", "over")] if number == 3 else [])
    assert alerts.counts() == {"silent": 0, "drift": 0}


def test_one_reading_now_and_then_ends_no_silence(tmp_path: Path, clock: Clock) -> None:
    alerts = make(tmp_path)
    alerts.publish(heard("a"))
    found = []
    for _ in range(4):
        clock.now += 700
        found += kinds(alerts, clock)
        alerts.publish(heard("a"))
        found += kinds(alerts, clock)
    assert found == [("a", "silent", "begun")]


def test_drift_lasts_until_it_is_fine(tmp_path: Path, clock: Clock) -> None:
    alerts = make(tmp_path)
    found = []
    for watch in (-1, FINE, LOOK, BAD, BAD, LOOK, BAD, LOOK, FINE, LOOK):
        alerts.publish(heard("a", watch=watch))
        found.append([one[2] for one in kinds(alerts, clock)])
    assert found == [[], [], [], ["begun"], [], [], [], [], ["over"], []]


def test_a_restart_sends_nothing_again_and_waits_for_those_it_knows(tmp_path: Path, clock: Clock) -> None:
    before = make(tmp_path)
    before.publish(heard("a", "b"))
    clock.now += 660
    before.publish(heard("b"))
    assert kinds(before, clock) == [("a", "silent", "begun")]
    after = make(tmp_path)
    after.expect({"a": "pm", "b": "pm"})
    assert kinds(after, clock) == []
    assert after.counts()["silent"] == 1
    clock.now += 660
    assert kinds(after, clock) == [("b", "silent", "begun")]
    after.publish(heard("a") * 3)
    assert kinds(after, clock) == [("a", "silent", "over")]


def test_nobody_is_silent_while_the_gateway_has_a_problem(tmp_path: Path, clock: Clock) -> None:
    problems = {"broker": "there is no connection"}
    alerts = make(tmp_path, problems)
    alerts.publish(heard("a"))
    clock.now += 6000
    assert kinds(alerts, clock) == []
    problems.clear()
    clock.now += 500
    assert kinds(alerts, clock) == []
    clock.now += 160
    assert kinds(alerts, clock) == [("a", "silent", "begun")]


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', '{"a": {"silent": "x"}}'])
def test_a_damaged_file_is_no_reason_not_to_start(content: str, tmp_path: Path) -> None:
    (tmp_path / "alerts.json").write_text(content)
    assert make(tmp_path).counts() == {"silent": 0, "drift": 0}


# the webhook


class Hook(BaseHTTPRequestHandler):
    """Answers with the next of `answers`, and keeps what it took."""

    answers: list[int]
    taken: list[Any]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        code = self.answers.pop(0) if self.answers else 204
        if code == 204:
            self.taken.append(body)
        self.send_response(code)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hook]]:
    Hook.answers, Hook.taken = [], []
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv(WEBHOOK, f"http://127.0.0.1:{server.server_port}/hook")
    yield Hook
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_that_was_away_gets_them_later_in_order(hook: type[Hook], tmp_path: Path, clock: Clock) -> None:
    hook.answers = [500, 503]
    alerts = make(tmp_path, body={"text": "{sentence} ({model})", "channel": "#air"})
    alerts.publish(heard("a", "b", watch=BAD))
    alerts.send(alerts.check(clock.now))
    assert hook.taken == []
    for wait in (1, 5, 5, 30):
        clock.now += wait
        alerts.send([])
    texts = [f"{name} drifts: put it beside a reference again. (pm)" for name in "ab"]
    assert hook.taken == [{"text": text, "channel": "#air"} for text in texts]


def test_without_a_template_everything_is_sent(hook: type[Hook], tmp_path: Path, clock: Clock) -> None:
    alerts = make(tmp_path)
    alerts.publish(heard("Küche", watch=BAD))
    (alert,) = alerts.check(clock.now)
    alerts.send([alert])
    assert hook.taken == [alert.as_json()]
    assert {"device": "Küche", "about": "drift", "state": "begun", "model": "pm"}.items() <= hook.taken[0].items()


def test_many_at_once_become_one(hook: type[Hook], tmp_path: Path, clock: Clock) -> None:
    alerts = make(tmp_path)
    alerts.publish(heard(*(f"box-{number:03}" for number in range(500))))
    clock.now += 700
    alerts.send(alerts.check(clock.now))
    (one,) = hook.taken
    assert one["sentence"] == "500 devices (silent, begun): box-000, box-001, box-002 and others."


def test_an_address_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK, "file:///etc/passwd")
    with pytest.raises(UsageError, match="does not begin with http"):
        make(tmp_path)


# with a gateway and a broker


@needs_broker
@needs("live")
def test_a_gateway_publishes_that_a_box_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(module, "SHORTEST_SILENCE", 0.5)
    port = free_port()
    more = {"mqtt": Broker(port=port), "alerts": AlertSettings(silent_steps=0.01)}
    with running_broker(tmp_path, port), working(make_config(tmp_path, **more)) as gateway:
        listener = Listener(port, "scare/alerts/#")
        reading = {"device": "roof 1/2", "time": format_time(START), "pm25": 20.0, "current": 300.0}
        assert ask(gateway, "POST", "/v1/readings", json.dumps(reading).encode())[0] == 200
        wait_for(lambda: listener.last("scare/alerts/roof 1%2F2/silent"))
        alert = listener.last("scare/alerts/roof 1%2F2/silent")
        listener.close()
        assert (alert["state"], alert["device"], alert["model"]) == ("begun", "roof 1/2", "dust")
        assert 'scare_alerts{about="silent"} 1' in ask(gateway, "GET", "/metrics")[1]
