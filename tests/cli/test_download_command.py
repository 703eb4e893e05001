"""`scare data senseurcity` against a server on this machine, and against none."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scare.cli import data
from scare.data.senseurcity import RECORD
from tests.cli.output import RunCli

CONTENT = b"date,NO2\n" * 1000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder with a record of one file."""
    folder = tmp_path_factory.mktemp("served")
    handler = type(
        "Handler", (Quiet,), {"__init__": lambda self, *given: Quiet.__init__(self, *given, directory=folder)}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        entry = {
            "key": "city.zip",
            "size": len(CONTENT),
            "checksum": f"md5:{hashlib.md5(CONTENT).hexdigest()}",
            "links": {"self": f"{address}/city.zip"},
        }
        (folder / "city.zip").write_bytes(CONTENT)
        (folder / RECORD).write_text(json.dumps({"files": [entry]}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address
        server.shutdown()


def test_the_files_of_the_record_arrive(scare: RunCli, server: str) -> None:
    output = scare(f"scare data senseurcity --out cities --server {server}")
    assert output.code == 0, output.err
    assert "1 files are in cities." in output.err
    assert output.out == ""
    assert [path.name for path in Path("cities").iterdir()] == ["city.zip"]
    assert Path("cities/city.zip").read_bytes() == CONTENT


def test_the_files_are_listed_as_json(scare: RunCli, server: str) -> None:
    output = scare(f"scare data senseurcity --out cities --server {server} --json")
    assert json.loads(output.out) == {"files": ["cities/city.zip"]}


def test_without_a_network_one_sentence_is_said(scare: RunCli, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    output = scare(f"scare data senseurcity --out cities --server http://127.0.0.1:{port}")
    assert output.code == 7
    (sentence,) = output.err.splitlines()
    assert sentence.startswith(f"scare: could not reach http://127.0.0.1:{port}/")
    assert "run the same command again to resume" in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_not_there_is_unreachable(scare: RunCli, server: str) -> None:
    output = scare(f"scare data senseurcity --out cities --server {server}/elsewhere")
    assert output.code == 7
    assert "HTTP 404" in output.err


def test_an_interrupted_download_says_that_it_can_be_resumed(scare: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "download_record", interrupt)
    output = scare("scare data senseurcity --out cities")
    assert output.code == 130
    assert output.err.splitlines() == [
        "Downloaded files stay in cities. Run the same command to resume.",
        "scare: interrupted",
    ]
