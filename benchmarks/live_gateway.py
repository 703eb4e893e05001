"""`scare live run` behind a real Mosquitto: readings per second, latency, time to start.

The process has one core; the broker, the simulated boxes and the subscriber have the other. Part of `live.py`.
"""

from benchmarks.live_fleet import (  # first: it limits NumPy to one core
    CENTER,
    KNOWN,
    SCALE,
    make_calibrator,
    print_bars,
)

# ruff: isort: split
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.live.arrivals import Delivery
from scare.live.config import LiveLimits, Model
from scare.live.journal import Store
from scare.live.messages import Reading, format_time
from scare.live.pipeline import ModelFiles, Monitor, Pipeline
from tests.live.broker import Listener, free_port, running_broker, wait_for

RATE, SECONDS, TICKS = 1000, 60, 20  # readings per second, duration, and sends per second
DEVICES, START = 10_000, 1.7e9
CONFIG = '[models.pm]\nfile = "pm.scare"\n[mqtt]\nport = {port}\n[[inputs]]\nadapter = "json"\n'
SECTION = Template("""## The gateway

`scare live run` on one core with SCARE's default network, through Mosquitto on the same computer: $rate readings per
second from $rate devices for $seconds s, each timed from the box's publish to the arrival of its value. A restart
lasts from the start of the process to `online`, with $devices devices in the snapshot and one reading of each in the
journal.

| | |
|---|---|
| readings per second published | $found_rate |
| from publish to publish, median and 99 % | $p50 ms, $p99 ms |
| processor time per reading | $reading_us µs |
| restart, and its processor time | $restart s, $restart_processor s |

The machine was shared; these processes ran at niceness $niceness.

$bars
""")


def measure() -> dict[str, Any]:
    """Measure rate and latency, then the time of a restart."""
    found = {**measure_rate(), **measure_restart(), "niceness": os.nice(0)}
    bars = [
        ("readings a second", found["rate"], ">=", 0.99 * RATE),
        ("ms from publish to publish, 99 %", found["p99_ms"], "<=", 500),
        ("seconds of a restart with 10,000 devices", found["restart_s"], "<=", 5),
    ]
    return {**found, "bars": bars}


def section(found: dict[str, Any]) -> str:
    """Render this part of the page."""
    return SECTION.substitute(
        rate=f"{RATE:,}",
        seconds=SECONDS,
        devices=f"{DEVICES:,}",
        found_rate=f"{found['rate']:,.0f}",
        p50=f"{found['p50_ms']:.0f}",
        p99=f"{found['p99_ms']:.0f}",
        niceness=found["niceness"],
        reading_us=f"{found['reading_us']:.0f}",
        restart=f"{found['restart_s']:.1f}",
        restart_processor=f"{found['restart_processor_s']:.1f}",
        bars=print_bars(found["bars"]),
    )


@contextmanager
def gateway(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `scare live run` in this folder on one core; yields the process, which ends with the block."""
    command = [sys.executable, "-c", "from scare.cli import main; main()", "live", "run", "live.toml"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    core = str(max(os.sched_getaffinity(0)))
    with subprocess.Popen(["taskset", "-c", core, *command], cwd=folder, env=environment) as one:
        try:
            yield one
        finally:
            one.terminate()


@contextmanager
def place(more: str = "") -> Iterator[tuple[Path, int]]:
    """Set up a folder with a model and a config, to which `more` is added, and start a broker on the port yielded."""
    with TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        make_calibrator(KNOWN).save(folder / "pm.scare")
        (folder / "live.toml").write_text(CONFIG.format(port=port) + more)
        with running_broker(folder, port):
            yield folder, port


def measure_rate() -> dict[str, float]:
    """Send readings at a steady rate, and time each from publish to publish."""
    with place() as (folder, port):
        listener = Listener(port, "scare/#")
        arrived: list[float] = []
        keep = listener.client.on_message
        listener.client.on_message = lambda *arguments: (arrived.append(time.monotonic()), keep(*arguments))
        with gateway(folder, port) as process:
            wait_for(lambda: listener.last("scare/status") == "online", 60)
            before = processor_seconds(process.pid)
            sent = send(port)
            wait_for(lambda: len(listener.messages) > len(sent), 120, every=0.2)
            used = processor_seconds(process.pid) - before
        listener.close()
    waits = []
    for arrival, (topic, payload, _) in zip(arrived, listener.messages, strict=True):
        if topic.endswith("/state"):
            waits.append(arrival - sent[topic.split("/")[1], json.loads(payload)["time"]])
    median, p99 = np.quantile(waits, [0.5, 0.99]) * 1e3
    span = max(arrived) - min(sent.values())
    return {
        "rate": len(waits) / span,
        "p50_ms": float(median),
        "p99_ms": float(p99),
        "reading_us": 1e6 * used / len(sent),
    }


def send(port: int) -> dict[tuple[str, str], float]:
    """Send a reading of each device every second, whose times are one minute apart.

    Returns when each was sent, by device and time of the reading.
    """
    box, rng, sent = Listener(port), np.random.default_rng(1), {}
    begun, some = time.monotonic(), RATE // TICKS
    for tick in range(SECONDS * TICKS):
        time.sleep(max(0.0, begun + tick / TICKS - time.monotonic()))
        minute, first = divmod(tick, TICKS)
        rows = rng.normal(CENTER, SCALE, (some, 3)).clip(0.1, 80.0).round(2).tolist()
        for index, (dust, heat, damp) in enumerate(rows):
            device, moment = f"box-{first * some + index}", START + 60.0 * minute
            reading = {"time": moment, "pm25": dust, "temperature": heat, "humidity": damp}
            sent[device, format_time(moment)] = time.monotonic()
            last = box.client.publish(f"readings/{device}", json.dumps(reading), 1)
    last.wait_for_publish(60)
    box.close()
    return sent


def measure_restart() -> dict[str, float]:
    """Measure the seconds until a restarted process takes readings again, on the clock and of processor time."""
    with place() as (folder, port):
        leave_state(folder)
        listener = Listener(port, "scare/status")
        begun = time.monotonic()
        with gateway(folder, port) as process:
            wait_for(lambda: listener.last("scare/status") == "online", 120)
            found = {"restart_s": time.monotonic() - begun, "restart_processor_s": processor_seconds(process.pid)}
        listener.close()
        return found


def leave_state(folder: Path, devices: int = DEVICES) -> None:
    """Write the state of a process killed after an hour: full windows, and the journals of the last minutes."""
    monitor = Monitor()
    files = ModelFiles({"pm": Model(str(folder / "pm.scare"))}, Calibrator.load, monitor)
    store = Store(folder / "live")
    pipeline = Pipeline(files, store, [], monitor, LiveLimits())
    pipeline.restore()
    rng = np.random.default_rng(2)
    for minute in range(62):
        if minute > 57:
            pipeline.snapshot()
        pipeline.process([Delivery(draw_minute(minute, rng, devices))])
        if minute == 57:
            os.utime(next((folder / "live").glob("journal-*1.log")), (1, 1))  # an hour is longer than it is kept
    store.close()


def draw_minute(minute: int, rng: np.random.Generator, devices: int) -> list[Reading]:
    """Draw a reading of each device."""
    rows = rng.normal(CENTER, SCALE, (devices, 3)).clip(0.1, 80.0).tolist()
    values = [{"pm25": dust, "temperature": heat, "humidity": damp} for dust, heat, damp in rows]
    return [Reading(f"box-{index}", START + 60.0 * minute, one) for index, one in enumerate(values)]


def processor_seconds(process: int) -> float:
    """Processor time of a process so far, in user and system mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()  # after the program's name
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")
