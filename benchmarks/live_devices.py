"""`scare live` with 100,000 devices: memory, restart, how long a snapshot stalls readings. Part of `live.py`."""

from benchmarks.live_fleet import CENTER, SCALE, START, WINDOW, print_bars  # first: it limits NumPy to one core

# ruff: isort: split
import json
import time
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from benchmarks.live_gateway import draw_minute, gateway, place, processor_seconds
from scare.calibrator.calibrator import Calibrator
from scare.live.arrivals import Delivery
from scare.live.config import LiveLimits, Model
from scare.live.fleet import Fleet, Route
from scare.live.journal import Store
from scare.live.messages import format_time
from scare.live.pipeline import MAX_BATCH, ModelFiles, Monitor, Pipeline
from tests.live.broker import Listener, wait_for

DEVICES, SNAPSHOTS = 100_000, 3
MOST_PROBES, PROBE_SECONDS = 400, 0.1  # boxes that send while a journal is replayed, and the time between two
SECTION = Template("""## Many devices

$devices devices with full windows of SCARE's default network. A restart lasts from the start of the process to
`online`, behind Mosquitto, on one core: from the snapshot alone, and with one reading of each device in the journal.
From then on readings are taken, while those of the journal are calibrated and published again: $probes boxes send a new
reading each meanwhile, one after the other, and the longest wait is from a box's publish to the arrival of its value.
Memory is the most that the process had by then (`VmHWM`). While readings come in batches of $batch, $snapshots
snapshots of $state_mb MB are written; a stall is the longest time between two batches.

| | on the clock | of the processor | memory |
|---|---|---|---|
| restart from the snapshot | $clean_s s | $clean_cpu s | $clean_mb MB |
| restart with $devices readings in the journal | $full_s s | $full_cpu s | |
| until these are published again | $again_s s | $again_cpu s | $full_mb MB |
| longest wait of a new reading meanwhile | $wait_ms ms | $wait_cpu ms | |
| longest time between two batches | $stall_ms ms | $stall_cpu ms | |
| without a snapshot | $usual_ms ms | $usual_cpu ms | |

The machine was busy with other work, so the clock says little: the bars are on the processor's time.

$bars
""")


def measure() -> dict[str, Any]:
    """Leave the state of a fleet, and start from it; then write snapshots while readings come."""
    with place() as (folder, port):
        leave_fleet(folder)
        found = {"clean": measure_start(folder, port, WINDOW + 1)}
        store = Store(folder / "live")
        state = store.state()
        assert state is not None
        store.take(state)
        store.append(draw_minute(WINDOW + 1, np.random.default_rng(3), DEVICES))
        store.close()
        del state
        found["full"] = measure_start(folder, port, WINDOW + 2)
        found |= measure_stall(folder)
    bars = [
        ("MB of memory", max(found["clean"]["mb"], found["full"]["mb"]), "<=", 700),
        ("ms of a stall, processor time", found["stall"]["cpu_ms"], "<=", 200),
        ("seconds of a restart from the snapshot, processor time", found["clean"]["cpu_s"], "<=", 5),
        ("seconds until readings are taken with a full journal, processor time", found["full"]["cpu_s"], "<=", 5),
        ("ms of a new reading's wait for its value meanwhile, processor time", found["full"]["wait_cpu_ms"], "<=", 200),
    ]
    return {**found, "bars": bars}


def leave_fleet(folder: Path) -> None:
    """Write the snapshot of a fleet whose devices have full windows."""
    fleet = Fleet({"pm": Calibrator.load(folder / "pm.scare")}, [Route("*", "pm")])
    names = [f"box-{index}" for index in range(DEVICES)]
    for name in names:
        fleet.admit(name)
    rng = np.random.default_rng(2)
    for minute in range(WINDOW + 1):
        rows = rng.normal(CENTER, SCALE, (DEVICES, 3)).clip(0.1, 80.0)
        for start in range(0, DEVICES, 8 * MAX_BATCH):
            some = names[start : start + 8 * MAX_BATCH]
            fleet.push(some, np.full(len(some), START + 60.0 * minute), rows[start : start + len(some)])
    store = Store(folder / "live")
    store.take(fleet.state())
    store.close()


def measure_start(folder: Path, port: int, minute: int) -> dict[str, float]:
    """Start the process: seconds and processor seconds until it takes readings, and until its journal is replayed.

    New readings are of this `minute`. `mb` is the most memory by then. The first snapshot begins when the journals are
    replayed.
    """
    listener, begun = Listener(port, "scare/status"), time.monotonic()
    snapshots = set((folder / "live").glob("*snapshot-*"))
    with gateway(folder, port) as process:
        wait_for(lambda: listener.last("scare/status") == "online", 300, every=0.05)
        found = {"s": time.monotonic() - begun, "cpu_s": processor_seconds(process.pid)}
        waits = []
        for wait in send_probes(port, process.pid, minute):
            waits.append(wait)
            if set((folder / "live").glob("*snapshot-*")) - snapshots:
                break
        found |= {"again_s": time.monotonic() - begun, "again_cpu_s": processor_seconds(process.pid)}
        found |= {
            "probes": len(waits),
            "wait_ms": 1e3 * max(waits)[0],
            "wait_cpu_ms": 1e3 * max(cpu for _, cpu in waits),
        }
        status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        found["mb"] = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    listener.close()
    return found


def send_probes(port: int, process: int, minute: int) -> Iterator[tuple[float, float]]:
    """Send a reading of this minute from one box after the other.

    Yields how long each value took, and how much processor time the process used meanwhile, in seconds.
    """
    box = Listener(port, *(f"scare/box-{index}/state" for index in range(DEVICES - MOST_PROBES, DEVICES)))
    newest = format_time(START + 60.0 * minute)
    try:
        for index in range(DEVICES - 1, DEVICES - MOST_PROBES, -1):
            reading = {"time": newest, "pm25": 12.0, "temperature": 15.0, "humidity": 60.0}
            sent, used = time.monotonic(), processor_seconds(process)
            box.client.publish(f"readings/box-{index}", json.dumps(reading), 1)
            topic = f"scare/box-{index}/state"
            wait_for(lambda topic=topic: (box.last(topic) or {}).get("time") == newest, 300, every=0.002)
            yield time.monotonic() - sent, processor_seconds(process) - used
            time.sleep(PROBE_SECONDS)
    finally:
        box.close()


def measure_stall(folder: Path) -> dict[str, Any]:
    """Work on batches while snapshots are written; the longest time between two, with and without a snapshot begun."""
    monitor = Monitor()
    files = ModelFiles({"pm": Model(str(folder / "pm.scare"))}, Calibrator.load, monitor)
    store = Store(folder / "live")
    pipeline = Pipeline(files, store, [], monitor, LiveLimits(snapshot_seconds=1e-9, reorder_steps=0.0))
    pipeline.restore()
    times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for delivery in _deliveries():
        begun, used, number = time.monotonic(), time.thread_time(), store.number
        pipeline.process([delivery])
        pipeline.poll()
        times[store.number > number].append((time.monotonic() - begun, time.thread_time() - used))
        if len(times[True]) > SNAPSHOTS:
            break
    state = max(path.stat().st_size for path in (folder / "live").glob("snapshot-*")) / 1e6
    store.close()
    longest = {begins: (1e3 * np.max(some, axis=0)).tolist() for begins, some in times.items()}
    stall, usual = (dict(zip(("ms", "cpu_ms"), longest[begins], strict=True)) for begins in (True, False))
    return {"stall": stall, "usual": usual, "state_mb": state}


def _deliveries() -> Iterator[Delivery]:
    rng, minute = np.random.default_rng(4), WINDOW + 2
    while True:
        readings = draw_minute(minute, rng, DEVICES)
        for start in range(0, DEVICES, MAX_BATCH):
            yield Delivery(readings[start : start + MAX_BATCH])
        minute += 1


def section(found: dict[str, Any]) -> str:
    """Render this part of the page."""
    cells = {
        f"{case}_{key}": f"{found[case][name]:,.{digits}f}"
        for case in ("clean", "full")
        for key, name, digits in (("s", "s", 1), ("cpu", "cpu_s", 1), ("mb", "mb", 0))
    }
    cells |= {f"again_{key}": f"{found['full'][name]:,.1f}" for key, name in (("s", "again_s"), ("cpu", "again_cpu_s"))}
    cells |= {
        f"{case}_{key}": f"{found[case][name]:,.0f}"
        for case in ("stall", "usual")
        for key, name in (("ms", "ms"), ("cpu", "cpu_ms"))
    }
    cells |= {"wait_ms": f"{found['full']['wait_ms']:,.0f}", "wait_cpu": f"{found['full']['wait_cpu_ms']:,.0f}"}
    cells["probes"] = f"{found['full']['probes']}"
    numbers = {"devices": f"{DEVICES:,}", "batch": f"{MAX_BATCH:,}", "snapshots": SNAPSHOTS}
    return SECTION.substitute(numbers, **cells, state_mb=f"{found['state_mb']:.0f}", bars=print_bars(found["bars"]))
