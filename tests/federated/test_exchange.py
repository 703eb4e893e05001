"""The exchange, over real sockets: who may ask, what is refused, and what happens when a site is slow or restarted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from scare.errors import DataError, UsageError
from scare.federated.agreement import AgreedNoise, Agreement
from scare.federated.exchange import DONE, Connection, FederationServer, TaskBoard, run_site
from scare.federated.pooled import federate
from scare.federated.privacy import Privacy
from scare.federated.site import Site
from scare.live.config import Http
from tests.federated.small_sites import NAMES, agreement, asking, box

TOKENS = {name: f"{name}-token-0123456789" for name in NAMES}
NOISE = AgreedNoise((0.0, 0.0, 0.0), (150.0, 100.0, 80.0))


class Running:
    """A server with its board, and what it noted."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.notes: list[str] = []
        files = {}
        for name in NAMES[:2]:
            (folder / f"{name}.token").write_text(TOKENS[name])
            files[name] = str(folder / f"{name}.token")
        agreed = agreement(noise=NOISE, http=Http(host, port=0))
        self.agreement = replace(agreed, sites=files, rules=replace(agreed.rules, patience=0.2))
        self.board = TaskBoard(self.agreement, self.notes.append)
        self.server = FederationServer(self.agreement, self.board)
        self.server.start()

    def connect(self, name: str) -> Connection:
        return Connection(self.server.address, TOKENS[name], self.notes.append)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    yield running
    running.server.stop()


def in_thread(function: Any, *arguments: Any) -> tuple[Thread, list[Any]]:
    results: list[Any] = []
    thread = Thread(target=lambda: results.append(function(*arguments)), daemon=True)
    thread.start()
    return thread, results


def test_sites_learn_what_was_agreed_but_no_tokens(running: Running) -> None:
    agreed, name = running.connect("south").agreement()
    assert name == "south"
    assert agreed == Agreement(running.agreement.data, rules=running.agreement.rules, noise=NOISE)


def test_a_server_states_an_ipv6_address_that_sites_can_use(tmp_path: Path) -> None:
    try:
        running = Running(tmp_path, "::1")
    except UsageError:
        pytest.skip("this computer has no IPv6")
    _, name = running.connect("north").agreement()
    running.server.stop()
    assert name == "north"


def test_an_unknown_token_and_another_version_are_refused(running: Running) -> None:
    with pytest.raises(UsageError, match="the server does not know this token"):
        Connection(running.server.address, "guessed", print).agreement()
    with pytest.raises(HTTPError, match="401"):
        urlopen(running.server.address + "/v1/task")
    running.server._agreement = replace(running.agreement, version=2)
    with pytest.raises(DataError, match="has version 2 of the exchange, and this scare version 1: install the same"):
        running.connect("north").agreement()


def test_a_reply_that_is_no_json_object_is_refused(running: Running) -> None:
    header = {"authorization": f"Bearer {TOKENS['north']}"}
    with pytest.raises(HTTPError, match="400"):
        urlopen(Request(running.server.address + "/v1/reply/1", b"[" * 10_000, header))


def test_a_site_that_is_slow_or_refuses_is_left_out_and_named(running: Running) -> None:
    north, south = running.connect("north"), running.connect("south")
    asking, replies = in_thread(running.board.ask, {name: {"kind": "moments"} for name in NAMES[:2]})
    for connection in (north, south):  # the first task waits for all
        number, task = connection.next_task(0)
        assert task == {"kind": "moments"}
        connection.send(number, {"count": 1})
    asking.join(5)
    assert list(replies[0]) == ["north", "south"]
    asking, replies = in_thread(running.board.ask, {name: {"kind": "errors"} for name in NAMES[:2]})
    number, _ = north.next_task(number)
    north.send(number, {"error": "there is nothing to send"})
    asking.join(5)
    assert replies == [{}]
    assert running.notes == [
        "'north' sent nothing: there is nothing to send",
        "'south' did not answer within 0.2 s and is left out.",
    ]
    south.send(number, {"late": True})  # is ignored


def test_a_restarted_site_is_given_the_task_again_and_repeats_its_noise(running: Running, tmp_path: Path) -> None:
    def sent_by_a_new_process() -> dict[str, Any]:
        """Answer one task, then the end, as a site that has just been started."""
        site = Site([box(0, rows=2000)], running.agreement, Privacy(5.0))
        thread, _ = in_thread(run_site, running.connect("north"), site, tmp_path / "north", lambda _: None)
        reply = running.board.ask({"north": {"kind": "moments"}})["north"]
        running.board.ask({"north": {"kind": DONE}})
        thread.join(5)
        assert not thread.is_alive()
        return reply

    running.board._rules = replace(running.agreement.rules, patience=10.0)
    first = sent_by_a_new_process()
    kept = json.loads((tmp_path / "north/sent/moments.json").read_text())
    assert first == kept == sent_by_a_new_process()


def test_a_federation_over_sockets_is_the_one_in_memory(running: Running, tmp_path: Path) -> None:
    running.board._rules = replace(running.agreement.rules, patience=10.0)
    sites = {name: Site([box(number)], running.agreement) for number, name in enumerate(NAMES[:2])}
    threads = [
        in_thread(run_site, running.connect(name), site, tmp_path / name, lambda _: None)
        for name, site in sites.items()
    ]
    over_sockets = federate(running.board.ask, running.agreement).calibrator
    running.board.ask({name: {"kind": DONE, "calibrator": "YWJj"} for name in sites})
    for thread, results in threads:
        thread.join(5)
        assert results == [{"kind": DONE, "calibrator": "YWJj"}]
    fresh = {name: Site([box(number)], running.agreement) for number, name in enumerate(NAMES[:2])}
    here = federate(asking(fresh), running.agreement).calibrator
    assert (over_sockets.facts, over_sockets.intervals) == (here.facts, here.intervals)


def test_a_site_learns_why_there_is_no_calibrator(running: Running, tmp_path: Path) -> None:
    reasons = []

    def answer() -> None:
        site = Site([box(0)], running.agreement)
        with pytest.raises(DataError) as error:
            run_site(running.connect("north"), site, tmp_path, lambda _: None)
        reasons.append(str(error.value))

    thread, _ = in_thread(answer)
    running.board.ask({"north": {"kind": DONE, "reason": "humidity is constant at all sites"}})
    thread.join(5)
    assert reasons == ["the server ended without a calibrator: humidity is constant at all sites"]


def test_addresses_are_checked_and_open_ones_warned_of() -> None:
    with pytest.raises(UsageError, match="the server's address begins with https:// or http://, not 'localhost:80'"):
        Connection("localhost:80", "", print)
    notes: list[str] = []
    for address in ("http://federation.example:8080", "http://federation.example", "http://[2001:db8::1]/"):
        Connection(address, "", notes.append)
        assert f"{address} is not encrypted" in notes.pop()
    for address in ("https://federation.example", "http://localhost", "http://127.0.0.1:80", "http://[::1]:80/"):
        Connection(address, "", notes.append)
    assert notes == []
