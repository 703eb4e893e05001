"""Downloads against real servers on this machine: well-behaved, forgetful, cut off, lying, absent."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scare.data import download
from scare.data.download import download_record
from scare.errors import DataError, ExitCode, UnreachableError, UsageError

CONTENT = bytes(range(256)) * 4096
HALF = len(CONTENT) // 2
NAME = "city data.zip"


class Server(ThreadingHTTPServer):
    """Serves one record with one file and remembers which ranges of the file were asked for."""

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.ranges = []
        self.entry = {
            "key": NAME,
            "size": len(CONTENT),
            "checksum": f"md5:{hashlib.md5(CONTENT).hexdigest()}",
            "links": {"self": f"{self.url}/file"},
        }
        self.record = {"files": [self.entry]}


class HonoursRange(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/records/7":
            self.answer(200, json.dumps(self.server.record).encode())
        elif self.path == "/file":
            self.server.ranges.append(self.headers["Range"])
            self.send_file(self.headers["Range"])
        else:
            self.send_error(404)

    def answer(self, status, body, length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, asked):
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.answer(206 if asked else 200, CONTENT[start:])


class IgnoresRange(HonoursRange):
    def send_file(self, asked):
        self.answer(200, CONTENT)


class CutsTheFirstAnswer(HonoursRange):
    def send_file(self, asked):
        if asked:
            super().send_file(asked)
        else:
            self.answer(200, CONTENT[:HALF], length=len(CONTENT))


class FallsSilent(HonoursRange):
    def send_file(self, asked):
        self.answer(200, CONTENT[:HALF], length=len(CONTENT))
        self.server.finished.wait()


class Fails(HonoursRange):
    def send_file(self, asked):
        self.send_error(503)


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    servers = []

    def start(handler=HonoursRange):
        server = Server(handler)
        server.finished = threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return server

    yield start
    for server, thread in servers:
        server.finished.set()
        server.shutdown()
        server.server_close()
        thread.join()


def fetch(server, out, progress=None):
    return download_record("7", out, f"{server.url}/records", progress)


def names(out):
    return sorted(path.name for path in out.iterdir())


def test_a_record_is_downloaded_with_progress(serve, tmp_path):
    seen = []
    paths = fetch(serve(), tmp_path / "new" / "folder", lambda *step: seen.append(step))
    assert paths == [tmp_path / "new" / "folder" / NAME]
    assert paths[0].read_bytes() == CONTENT
    assert names(paths[0].parent) == [NAME]
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert seen[-1] == (len(CONTENT), len(CONTENT), NAME)


def test_a_file_that_is_there_is_not_downloaded_again(serve, tmp_path):
    server = serve()
    fetch(server, tmp_path)
    assert fetch(server, tmp_path) == [tmp_path / NAME]
    assert server.ranges == [None]


@pytest.mark.parametrize("damaged", [b"short", CONTENT[::-1]])
def test_a_damaged_file_is_replaced(serve, tmp_path, damaged):
    (tmp_path / NAME).write_bytes(damaged)
    fetch(serve(), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_cut_connection_is_resumed_by_the_next_run(serve, tmp_path):
    server = serve(CutsTheFirstAnswer)
    with pytest.raises(UnreachableError, match=f"ended after {HALF:,} of {len(CONTENT):,} bytes.*to resume") as failure:
        fetch(server, tmp_path)
    assert failure.value.exit_code == ExitCode.UNREACHABLE == 7
    assert names(tmp_path) == [f"{NAME}.part"]

    seen = []
    fetch(server, tmp_path, lambda *step: seen.append(step))
    assert server.ranges == [None, f"bytes={HALF}-"]
    assert seen[0][0] > HALF
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert names(tmp_path) == [NAME]


def test_a_server_that_ignores_the_range_starts_over(serve, tmp_path):
    server = serve(IgnoresRange)
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:1000])
    fetch(server, tmp_path)
    assert server.ranges == ["bytes=1000-"]
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_whole_part_needs_no_second_download(serve, tmp_path):
    server = serve()
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT)
    fetch(server, tmp_path)
    assert server.ranges == []
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(serve, tmp_path):
    server = serve()
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT + b"more")
    fetch(server, tmp_path)
    assert server.ranges == [None]
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_an_interrupt_keeps_the_part(serve, tmp_path):
    def interrupt(done, total, name):
        raise KeyboardInterrupt

    server = serve()
    with pytest.raises(KeyboardInterrupt):
        fetch(server, tmp_path, interrupt)
    kept = (tmp_path / f"{NAME}.part").stat().st_size
    assert kept > 0
    fetch(server, tmp_path)
    assert server.ranges == [None, f"bytes={kept}-"]
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_silent_server_runs_into_the_timeout(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(UnreachableError, match="timed out"):
        fetch(serve(FallsSilent), tmp_path)
    assert names(tmp_path) == [f"{NAME}.part"]


def test_a_wrong_checksum_removes_the_part(serve, tmp_path):
    server = serve()
    server.entry["checksum"] = "md5:" + "0" * 32
    with pytest.raises(DataError, match=f"{NAME} arrived with a wrong checksum"):
        fetch(server, tmp_path)
    assert names(tmp_path) == []


def test_a_sha256_checksum_is_checked_too(serve, tmp_path):
    server = serve()
    server.entry["checksum"] = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    assert fetch(server, tmp_path) == [tmp_path / NAME]


def test_a_closed_port_is_named(serve, tmp_path):
    server = Server(HonoursRange)
    server.server_close()
    with pytest.raises(UnreachableError, match=f"could not reach {server.url}/records/7 .*again to resume"):
        fetch(server, tmp_path)


def test_an_unknown_record_is_named(serve, tmp_path):
    server = serve()
    with pytest.raises(UnreachableError, match=r"/records/8 \(HTTP 404 Not Found\)"):
        download_record("8", tmp_path, f"{server.url}/records")


def test_a_failing_server_keeps_the_part(serve, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:10])
    with pytest.raises(UnreachableError, match="HTTP 503"):
        fetch(serve(Fails), tmp_path)
    assert (tmp_path / f"{NAME}.part").read_bytes() == CONTENT[:10]


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/b", "a\\b", "C:x", "..", ".", "", "a\nb"])
def test_a_name_that_leaves_the_folder_is_refused(serve, tmp_path, key):
    server = serve()
    server.entry["key"] = key
    with pytest.raises(DataError, match="not a plain file name"):
        fetch(server, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert server.ranges == []


@pytest.mark.parametrize("record", [[], {}, {"files": [{}]}, {"files": None}, {"files": [3]}])
def test_an_answer_that_is_no_record_is_refused(serve, tmp_path, record):
    server = serve()
    server.record = record
    with pytest.raises(DataError, match="did not return a record with a list of files"):
        fetch(server, tmp_path)


def test_a_record_without_files_is_refused(serve, tmp_path):
    server = serve()
    server.record = {"files": []}
    with pytest.raises(DataError, match="has no files"):
        fetch(server, tmp_path)


def test_an_unknown_kind_of_checksum_is_refused(serve, tmp_path):
    server = serve()
    server.entry["checksum"] = "crc32:00000000"
    with pytest.raises(DataError, match="'crc32:00000000', not md5 or sha256"):
        fetch(server, tmp_path)


def test_only_web_addresses_are_opened(serve, tmp_path):
    server = serve()
    server.entry["links"]["self"] = "file:///etc/hostname"
    with pytest.raises(DataError, match="'file:///etc/hostname' is not a web address"):
        fetch(server, tmp_path)


def test_an_unwritable_folder_is_named(serve, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=re.escape(f"cannot write to {tmp_path / 'file'}")):
        fetch(serve(), tmp_path / "file")
