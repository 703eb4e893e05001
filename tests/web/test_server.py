"""What the server answers to whom, over a real socket, and what it does with what it is sent."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection
from threading import Barrier
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from scare.web.jobs import RUNNING, Command, Job, Jobs
from scare.web.server import Server
from tests.live.broker import wait_for
from tests.needs import needs
from tests.web.browser_session import serving
from tests.web.tables import write_tidy

pytestmark = needs("web")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, quota_bytes=5e6) as server:
        yield server


def ask(server: Server, method: str, path: str, body: Any = b"", **headers: str) -> tuple[int, Any]:
    """The status and body of a response."""
    connection = HTTPConnection("127.0.0.1", urlsplit(server.address).port or 0, timeout=30)
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, sent, {"authorization": f"Bearer {server.tokens.key}", **headers})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    is_json = answer.headers["content-type"] == "application/json"
    return answer.status, json.loads(body) if is_json else body


def make_session(server: Server) -> str:
    return str(ask(server, "POST", "/v1/sessions", {"title": "Roof"})[1]["id"])


def test_only_the_key_opens_and_only_under_its_own_name(server: Server) -> None:
    assert ask(server, "GET", "/v1/sessions")[0] == 200
    for wrong in ("", "Bearer ", "Bearer x", f"Basic {server.tokens.key}"):
        assert ask(server, "GET", "/v1/sessions", authorization=wrong)[0] == 401
    for name in ("evil.example", "localhost", "127.0.0.1.evil.example", ""):
        assert ask(server, "GET", "/", host=name)[0] == 421
    for origin in ("http://evil.example", "null", "http://localhost", "https://127.0.0.1"):
        assert ask(server, "POST", "/v1/sessions", {}, origin=origin)[0] == 403
    assert ask(server, "POST", "/v1/sessions", {}, origin=server.address.rstrip("/"))[0] == 200


def test_a_browser_is_told_to_be_careful(server: Server) -> None:
    connection = HTTPConnection("127.0.0.1", urlsplit(server.address).port or 0)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["set-cookie"] is None
    connection.close()


def test_a_link_gives_the_key_once(server: Server) -> None:
    token = server.link().partition("#token=")[2]
    assert ask(server, "POST", "/v1/enter", {"token": token}, authorization="") == (200, {"key": server.tokens.key})
    code, reply = ask(server, "POST", "/v1/enter", {"token": token}, authorization="")
    assert (code, reply["error"]) == (401, "This link has been used. Run scare open again.")


def test_a_file_gets_a_name_of_the_servers_own_and_a_ticket_fetches_it_once(server: Server, tmp_path: Path) -> None:
    one = make_session(server)
    body = write_tidy(tmp_path / "a.csv", 50).read_bytes()
    name = quote("../../Box <7>.csv", safe="")
    assert ask(server, "PUT", f"/v1/sessions/{one}/files/{name}", body) == (200, {"name": "Box_7.csv"})
    folder = server.sessions.folder / one
    assert (folder / "files" / "Box_7.csv").read_bytes() == body
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "sessions"]
    _, reply = ask(server, "POST", f"/v1/sessions/{one}/tickets", {"file": "files/Box_7.csv"})
    assert ask(server, "GET", f"/{reply['address']}", authorization="") == (200, body)
    assert ask(server, "GET", f"/{reply['address']}", authorization="")[0] == 404
    assert ask(server, "POST", f"/v1/sessions/{one}/tickets", {"file": "../../a.csv"})[0] == 400
    assert ask(server, "DELETE", f"/v1/sessions/{one}")[0] == 200
    assert not folder.exists()


def test_what_is_too_large_is_refused_before_and_while_it_comes(server: Server) -> None:
    one = make_session(server)
    code, reply = ask(server, "PUT", f"/v1/sessions/{one}/files/a.csv", b"x" * 6_000_000)
    assert (code, "start scare open with a larger --quota" in reply["error"]) == (400, True)
    connection = HTTPConnection("127.0.0.1", urlsplit(server.address).port or 0)
    headers = {"authorization": f"Bearer {server.tokens.key}"}
    connection.request("PUT", f"/v1/sessions/{one}/files/a.csv", (b"x" * 500_000 for _ in range(12)), headers)
    assert connection.getresponse().status == 400
    connection.close()
    assert list((server.sessions.folder / one / "files").iterdir()) == []


def test_an_upload_that_is_interrupted_is_one_line_and_no_file(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    one = make_session(server)
    head = f"PUT /v1/sessions/{one}/files/a.csv HTTP/1.1\r\nHost: {urlsplit(server.address).netloc}\r\n"
    head += f"Authorization: Bearer {server.tokens.key}\r\nContent-Length: 1000000\r\n\r\n"
    with create_connection(("127.0.0.1", urlsplit(server.address).port or 0)) as connection:
        connection.sendall(head.encode() + b"time,pm25")
    wait_for(lambda: caplog.records)
    assert [record.getMessage() for record in caplog.records] == [
        f"/v1/sessions/{one}/files/a.csv was interrupted by the browser"
    ]
    assert list((server.sessions.folder / one / "files").iterdir()) == []


def test_uploads_at_the_same_time_share_the_quota(server: Server) -> None:
    one, both_have_begun = make_session(server), Barrier(2)

    def parts() -> Iterator[bytes]:
        yield b"x" * 500_000
        both_have_begun.wait(20)
        yield from (b"x" * 500_000 for _ in range(6))

    def put(name: str) -> int:
        headers = {"authorization": f"Bearer {server.tokens.key}"}
        with closing(HTTPConnection("127.0.0.1", urlsplit(server.address).port or 0, timeout=30)) as connection:
            connection.request("PUT", f"/v1/sessions/{one}/files/{name}", parts(), headers)
            return connection.getresponse().status

    with ThreadPoolExecutor(2) as pool:
        statuses = sorted(pool.map(put, ("a.csv", "b.csv")))
    assert statuses == [200, 400]
    assert [path.stat().st_size for path in (server.sessions.folder / one / "files").iterdir()] == [3_500_000]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "files/evil.exe", b"x"),
        ("POST", "selections", b'{"borders": [NaN, 1]}'),
        ("POST", "selections", {"borders": [0, 1e300]}),
        ("DELETE", "files/none.csv", b""),
        ("POST", "selections", {"window": -1}),
        ("POST", "selections", b"{"),
        ("POST", "selections", b"x" * 70_000),
        ("POST", "jobs/train", {}),
        ("POST", "jobs/measure:pdp11", {}),
        ("POST", "jobs/export:fortran", {}),
        ("POST", "jobs/export:c", {"arithmetic": "roman"}),
        ("POST", "jobs/rm", {}),
        ("POST", "jobs/predict:..", {}),
    ],
)
def test_impossible_requests_are_refused_with_a_reason(server: Server, method: str, path: str, body: Any) -> None:
    code, reply = ask(server, method, f"/v1/sessions/{make_session(server)}/{path}", body)
    assert code == 400
    assert len(reply["error"]) > 20


def work(folder: Path, job: Job, memory_bytes: int = 4 << 30) -> Job:
    """A job, done."""

    async def working() -> None:
        jobs = Jobs(folder, memory_bytes, lambda: None)
        jobs.start(job)
        while job.state == RUNNING:
            await asyncio.sleep(0.05)

    (folder / "jobs").mkdir()
    asyncio.run(working())
    assert Jobs(folder, memory_bytes, lambda: None).by_name == {job.name: job}
    return job


def test_a_step_that_takes_too_much_memory_ends_with_an_explanation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greedy.py").write_text("import time; time.sleep(0.3); x = bytearray(1 << 30)")
    (tmp_path / "aborting.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("greedy", "aborting"):
        (tmp_path / name).mkdir()
        job = work(tmp_path / name, Job("look:x", [Command((), name), Command((), "never")]), 300_000_000)
        assert (job.state, job.results) == ("refused", [None])
        assert job.messages[-1] == (
            "The step was killed, probably because it ran out of memory (limit 0.3 GB). "
            "Raise the limit with scare open --memory."
        )
