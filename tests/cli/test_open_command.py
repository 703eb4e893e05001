"""`scare open` as a process: it says where the page is, bears a large file, and ends in order."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.live.broker import wait_for
from tests.needs import needs

pytestmark = [needs("web"), pytest.mark.skipif(os.name == "nt", reason="Linux or macOS would run it")]
LARGE_BYTES = 500_000_000
MOST_MEMORY = 500_000_000


@contextmanager
def opened(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", Any]]:
    """The process, and what sends it a request."""
    words = [sys.executable, "-m", "scare", "open", str(folder), "--no-open", "--json"]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    address, _, token = json.loads("".join(lines))["page"].partition("#token=")
    key = ""

    def ask(method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection("127.0.0.1", urlsplit(address).port or 0, timeout=600)
        sent = json.dumps(body) if isinstance(body, dict) else body
        with closing(connection):
            connection.request(method, path, sent, {"authorization": f"Bearer {key}"})
            return json.loads(connection.getresponse().read())

    key = ask("POST", "/v1/enter", {"token": token})["key"]
    try:
        yield process, ask
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_says_where_the_page_is_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    with opened(tmp_path / "sessions") as (process, ask):
        assert ask("GET", "/v1/sessions")["sessions"] == []
        assert ask("GET", "/v1/sessions")["folder"] == str(tmp_path / "sessions")
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "This link works once." in output
    assert output.endswith("Stopped. Sessions are kept.\n")


def memory_bytes(process: "subprocess.Popen[str]") -> int:
    """The most that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux would run it")
def test_a_file_of_500_mb_is_looked_at_and_the_server_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    write_large(path)
    with opened(tmp_path / "sessions") as (process, ask), path.open("rb") as handle:
        one = ask("POST", "/v1/sessions", {"title": "large"})["id"]
        assert ask("PUT", f"/v1/sessions/{one}/files/big.csv", handle) == {"name": "big.csv"}
        found: list[Any] = []
        wait_for(lambda: found or found.extend(ask("GET", f"/v1/sessions/{one}/jobs/look:big.csv")), 900, every=1)
        assert found[0]["rows"] > 5_000_000
        assert memory_bytes(process) < MOST_MEMORY


def write_large(path: Path) -> None:
    """Minutes of a sensor and a reference until the file is large enough."""
    import numpy as np

    draw = np.random.default_rng(0)
    rows, day = 0, np.arange(1440)
    with path.open("w") as handle:
        handle.write("time,pm25,temperature,humidity,pm25_reference,battery\n")
        while handle.tell() < LARGE_BYTES:
            times = np.datetime_as_string(np.datetime64("2010-01-01T00:00", "m") + rows + day)
            columns = draw.normal([[20], [15], [60], [18], [4]], [[5], [5], [5], [5], [0.1]], (5, len(day)))
            numbers = np.char.mod("%.3f", columns)
            handle.writelines(f"{','.join(line)}\n" for line in zip(times, *numbers, strict=True))
            rows += len(day)
