"""`scare live run` behind a real Mosquitto for an hour: memory, open files and lag over time.

Boxes send what they send in the field: readings twice, readings that come late, and lines that are no reading. The
first minutes fill histories and caches; after them nothing may grow. Part of `live.py`; alone, it prints each sample:

    python -m benchmarks.soak [--minutes 60]
"""

from benchmarks.live_fleet import CENTER, SCALE, print_bars  # first: it limits NumPy to one core

# ruff: isort: split
import argparse
import json
import os
import resource
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any
from urllib.request import urlopen

import numpy as np
from paho.mqtt.client import Client, MQTTMessage

from benchmarks.live_gateway import START, gateway, place
from scare.live.messages import format_time
from tests.live.broker import Listener, free_port, wait_for

MINUTES, WARM = 60.0, 1 / 4  # duration, and the share of it that fills caches
DEVICES, TICKS = 100, 10  # each device sends a reading per second; sends per second
TWICE, LATE, BROKEN = 100, 97, 89  # one reading in so many is sent twice, after the next, or cut off
MORE = """
[http]
port = {http}
[files]
folder = "calibrated"
"""
SECTION = Template("""## Over time

`scare live run` on one core, through Mosquitto on the same computer, for $minutes minutes: $devices devices send one
reading a second, whose times are a minute apart, which makes $days days of each; one in $twice is sent twice, one in
$late after the next one, and one in $broken_every comes once more and cut off. Results go to MQTT, to Parquet files and
to the page. Lag is from a box's publish to the arrival of its value.

| minute | memory, MB | open files | state and journals, MB | lag, median, ms | 99 % | most | readings |
|---|---|---|---|---|---|---|---|
$rows

Of $sent readings $lost were not published; $rejected of $broken broken lines were counted as rejected. The machine was
shared, which is what the longest lags show; these processes ran at niceness $niceness.

$bars
""")


class Lags:
    """A subscriber that notes how long each reading took to become a result."""

    def __init__(self, port: int) -> None:
        self.sent: dict[tuple[str, str], float] = {}  # when, by device and time, of those without a result
        self.waits: list[float] = []  # since the last sample
        self._listener = Listener(port)
        self._listener.client.on_message = self._note
        self._listener.client.subscribe("scare/+/state", 1)
        self.close = self._listener.close

    def _note(self, client: Client, _: Any, message: MQTTMessage) -> None:
        key = message.topic.split("/")[1], json.loads(message.payload)["time"]
        if key in self.sent:  # sent twice, it is published once
            self.waits.append(time.monotonic() - self.sent.pop(key))


def measure(minutes: float = MINUTES) -> dict[str, Any]:
    """Run the gateway and send readings to it; take a sample every minute, and print it."""
    http = free_port()
    with place(MORE.format(http=http)) as (folder, port):
        status, lags, samples, counts = Listener(port, "scare/status"), Lags(port), [], {"sent": 0, "broken": 0}
        with gateway(folder, port) as process:
            wait_for(lambda: status.last("scare/status") == "online", 120)
            for _ in send(port, lags, counts, minutes):
                samples.append(sample(process.pid, folder, lags))
                print(json.dumps({"minute": len(samples), **samples[-1]}), flush=True)
            deadline = time.monotonic() + 60
            while lags.sent and time.monotonic() < deadline:
                time.sleep(0.2)
            with urlopen(f"http://127.0.0.1:{http}/metrics") as answer:
                metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        status.close()
        lags.close()
    warm, last = samples[int(WARM * len(samples))], samples[-1]
    bars = [
        ("readings that were not published", len(lags.sent), "<=", 0),
        ("memory at the end, to that after a quarter", last["memory_mb"] / warm["memory_mb"], "<=", 1.1),
        ("open files at the end, to those after a quarter", last["files"] / warm["files"], "<=", 1.1),
    ]
    rejected = int(metrics["scare_rejected_total"])
    found = {"minutes": minutes, "samples": samples, **counts, "rejected": rejected, "lost": sorted(lags.sent)}
    return {**found, "bars": bars, "niceness": os.nice(0)}


def send(port: int, lags: Lags, counts: dict[str, int], minutes: float) -> Iterator[None]:
    """Send a reading of every device each second; yields once a minute."""
    box, rng, begun, delayed = Listener(port), np.random.default_rng(1), time.monotonic(), deque[tuple[int, str, str]]()
    some = DEVICES // TICKS
    for tick in range(round(60 * minutes * TICKS)):
        time.sleep(max(0.0, begun + tick / TICKS - time.monotonic()))
        second, part = divmod(tick, TICKS)
        rows = rng.normal(CENTER, SCALE, (some, 3)).clip(0.1, 80.0).round(2).tolist()
        for index, (dust, heat, damp) in enumerate(rows):
            device, moment = f"box-{part * some + index}", START + 60.0 * second
            reading = {"time": moment, "pm25": dust, "temperature": heat, "humidity": damp}
            topic, payload = f"readings/{device}", json.dumps(reading)
            counts["sent"] += 1
            lags.sent[device, format_time(moment)] = time.monotonic()
            if counts["sent"] % LATE == 0 and second:  # nothing is before a device's first reading
                delayed.append((tick + TICKS, topic, payload))  # the device's next reading overtakes it
                lags.sent[device, format_time(moment)] += 1 + 1 / TICKS
                continue
            for _ in range(2 if counts["sent"] % TWICE == 0 else 1):
                last = box.client.publish(topic, payload, 1)
            if counts["sent"] % BROKEN == 0:
                box.client.publish(topic, payload[:-9], 1)
                counts["broken"] += 1
        while delayed and delayed[0][0] < tick:
            last = box.client.publish(*delayed.popleft()[1:], 1)
        if (tick + 1) % (60 * TICKS) == 0:
            yield
    for _, topic, payload in delayed:
        last = box.client.publish(topic, payload, 1)
    last.wait_for_publish(60)
    box.close()


def sample(process: int, folder: Path, lags: Lags) -> dict[str, float]:
    """What the process holds now, and how long results took since the last sample."""
    waits, lags.waits = lags.waits, []
    median, p99, most = (1e3 * np.quantile(waits, [0.5, 0.99, 1.0])).tolist()
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    kept = sum(path.stat().st_size for path in (folder / "live").iterdir())
    return {
        "memory_mb": pages * resource.getpagesize() / 1e6,
        "files": len(list(Path(f"/proc/{process}/fd").iterdir())),
        "state_mb": kept / 1e6,
        "p50_ms": median,
        "p99_ms": p99,
        "most_ms": most,
        "readings": len(waits),
    }


def section(found: dict[str, Any]) -> str:
    """Render this part of the page, with a row for every five minutes."""
    rows = [
        f"| {minute} | {one['memory_mb']:.0f} | {one['files']} | {one['state_mb']:.1f} | {one['p50_ms']:.0f} |"
        f" {one['p99_ms']:.0f} | {one['most_ms']:.0f} | {one['readings']:,} |"
        for minute, one in enumerate(found["samples"], 1)
        if minute == 1 or minute % 5 == 0
    ]
    return SECTION.substitute(
        minutes=f"{found['minutes']:g}",
        devices=DEVICES,
        days=f"{found['minutes'] / 24:.1f}",
        twice=TWICE,
        late=LATE,
        broken_every=BROKEN,
        rows="\n".join(rows),
        sent=f"{found['sent']:,}",
        lost=f"{len(found['lost']):,}",
        rejected=f"{found['rejected']:,}",
        broken=f"{found['broken']:,}",
        niceness=found["niceness"],
        bars=print_bars(found["bars"]),
    )


def main() -> None:
    """Run for so many minutes; print what was found and the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    found = measure(parser.parse_args().minutes)
    print(json.dumps(found))
    print(section(found))


if __name__ == "__main__":
    main()
