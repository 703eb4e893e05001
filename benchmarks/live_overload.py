"""Goodput of `scare live run` over HTTP: as many clients as it serves best, and five times as many. Part of `live.py`.

Clients POST as fast as they are answered and try again when the queue is full, as boxes do. What counts is how many
readings are calibrated in a second, on one core.
"""

from benchmarks.live_gateway import gateway, place  # first: it limits NumPy to one core

# ruff: isort: split
import json
import time
from http.client import HTTPConnection, HTTPException
from itertools import count
from string import Template
from threading import Event, Thread
from typing import Any

from benchmarks.live_fleet import print_bars
from benchmarks.live_gateway import START, processor_seconds
from tests.live.broker import free_port, wait_for

CLIENTS, FACTOR = (1, 2, 4, 8, 16), 5  # tried to find the best; how many times that number is too much
LINES, SECONDS = 50, 10.0  # readings of a POST; measured for each number of clients
WARM = 6  # readings of each box before that: the first ones find memory that is not there yet
SECTION = Template("""## Overload

Clients POST $lines readings at a time to `scare live run` on one core, as fast as they are answered; one that is told
that the queue is full (429) waits as long as it is told to, and sends them again. Readings calibrated per second of the
process's own time, since the machine was shared:

| clients | readings a second | told to wait |
|---|---|---|
$rows

$bars
""")


def measure() -> dict[str, Any]:
    """Measure the goodput with more and more clients, then with `FACTOR` times as many as were best."""
    http = free_port()
    with place(f"[http]\nport = {http}\n") as (folder, port), gateway(folder, port) as process:
        wait_for(lambda: _read(http, "/healthz"), 60, every=0.2)
        cases = [measure_clients(http, process.pid, clients) for clients in CLIENTS]
        best = max(cases, key=lambda one: one["goodput"])
        cases.append(measure_clients(http, process.pid, FACTOR * best["clients"]))
    share = cases[-1]["goodput"] / best["goodput"]
    return {"cases": cases, "bars": [(f"goodput at {FACTOR} times the best load, of the best", share, ">=", 0.9)]}


def measure_clients(http: int, process: int, clients: int) -> dict[str, Any]:
    """Let so many clients send for a while; readings calibrated per second of the process's time."""
    stop, waits, begun = Event(), [0] * clients, _calibrated(http)
    threads = [Thread(target=_send, args=(http, f"{clients}-{index}", stop, waits, index)) for index in range(clients)]
    for thread in threads:
        thread.start()
    wait_for(lambda: _calibrated(http) - begun >= WARM * LINES * clients, 300, every=0.5)
    before, used = _calibrated(http), processor_seconds(process)
    time.sleep(SECONDS)
    goodput = (_calibrated(http) - before) / (processor_seconds(process) - used)
    stop.set()
    for thread in threads:
        thread.join()
    return {"clients": clients, "goodput": goodput, "waits": sum(waits)}


def _send(http: int, name: str, stop: Event, waits: list[int], index: int) -> None:
    """POST readings of `LINES` boxes over one connection until `stop`, a minute later each time."""
    connection = HTTPConnection("127.0.0.1", http, timeout=60)
    for minute in count():
        moment = START + 60.0 * minute
        rows = [
            {"device": f"{name}-{box}", "time": moment, "pm25": 20.0 + box, "temperature": 15.0, "humidity": 60.0}
            for box in range(LINES)
        ]
        body = "\n".join(map(json.dumps, rows))
        status = 429
        while status == 429:
            if stop.is_set():
                connection.close()
                return
            try:
                connection.request("POST", "/v1/readings", body, {"content-type": "application/x-ndjson"})
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):  # the server closes a connection that has been idle
                connection.close()
                continue
            status = answer.status
            if status == 429:
                waits[index] += 1
                time.sleep(float(answer.headers["retry-after"]))


def _read(http: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", http, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except (OSError, HTTPException):
        return ""
    finally:
        connection.close()


def _calibrated(http: int) -> int:
    lines = _read(http, "/metrics").splitlines()
    numbers = dict(
        line.split(" ", 1) for line in lines if line.startswith(("scare_calibrated_total", "scare_without_value_total"))
    )
    return sum(map(int, numbers.values()))


def section(found: dict[str, Any]) -> str:
    """Render this part of the page."""
    rows = [f"| {one['clients']} | {one['goodput']:,.0f} | {one['waits']:,} |" for one in found["cases"]]
    return SECTION.substitute(lines=LINES, rows="\n".join(rows), bars=print_bars(found["bars"]))
