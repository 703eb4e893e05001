"""Time per reading in a fleet and alone, and memory per device: SCARE, N = 60, three channels.

Times are of one processor, and of several rounds the shortest: others may be using the machine. Part of `live.py`.
"""

from benchmarks.prediction import make_plan  # first: it limits NumPy to one core

# ruff: isort: split
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.live.fleet import Fleet, Route
from scare.models import Scare
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.windows import RECENT

WINDOW, STEP, SETTLE = 60, 60.0, 96 * 60  # readings, seconds, readings until a device has settled
BATCH, ALONE = 1024, 300  # readings pushed at once, and timed one by one
ROUNDS, COMPARED = 9, 64  # rounds of each timing; devices whose values are compared
CHANNELS = (
    Channel("pm25", "ug/m3", 0.0, 1000.0),
    Channel("temperature", "C", -40.0, 85.0),
    Channel("humidity", "%", 0.0, 100.0),
)
CENTER, SCALE, START = np.array([20.0, 15.0, 60.0]), np.array([8.0, 5.0, 15.0]), 1.7e9
Batch = tuple[list[str], np.ndarray, np.ndarray]  # devices, times, rows
KNOWN, FEW, MANY = "known", 1_000, 100_000
CASES = (  # devices, how they are scaled, readings of a batch
    (FEW, KNOWN, 1),
    (FEW, KNOWN, 32),
    (FEW, KNOWN, BATCH),
    (10_000, KNOWN, BATCH),
    (MANY, KNOWN, BATCH),
    (10_000, "standard", BATCH),
    (10_000, "robust", BATCH),
)
SECTION = Template("""## The fleet

`Fleet.push` calibrates many devices at once; `Calibrator.live` (`live.push`) calibrates one. SCARE's default network,
N = $window, $channels channels, one core. Every device has a full window, and all flags are computed. Both are timed
in turn in the same process on a shared machine: read the ratio, not the microseconds. Memory is the growth of the
process. Of the values of $compared devices 99.9 % are within $most µg/m³ of `live.push`, and all within $largest;
`stream`, which also computes many windows at once, is within $stream of it. Differences above a few 10⁻⁵ are single
hash bits at a tie.

$table

Devices with quartile scaling (`robust`) keep a sample of 256 rows until they have settled.

$bars
""")


def measure() -> dict[str, Any]:
    """Measure every case in a process of its own, so that freed memory of one does not hide the need of another."""
    cases = [_in_a_process(*case) for case in CASES]
    return {"cases": cases, "differences": differences(), "bars": compare(cases)}


def compare(cases: list[dict[str, Any]]) -> list[tuple[str, float, str, float]]:
    """Compare the worst result of known devices in batches of 1,024 with the requirements."""
    known = {one["devices"]: one for one in cases if one["scaling"] == KNOWN and one["batch"] == BATCH}
    ratio, slowest = min(one["ratio"] for one in known.values()), max(one["reading_us"] for one in known.values())
    return [
        ("times as fast as `live.push`, batches of 1,024", ratio, ">=", 30),
        ("µs a reading, batches of 1,024", slowest, "<=", 10),
        ("bytes a device, 100,000 devices", known[MANY]["device_bytes"], "<=", 3072),
        ("µs with 100,000 devices to µs with 1,000", known[MANY]["reading_us"] / known[FEW]["reading_us"], "<=", 1.5),
    ]


def section(found: dict[str, Any]) -> str:
    """Render this part of the page."""
    lines = [
        "| devices | scaling | batch | µs a reading | µs of `live.push` | ratio | bytes a device |",
        "|" + "---|" * 7,
    ]
    for one in found["cases"]:
        memory = f"{one['device_bytes']:,.0f}" if one["devices"] > FEW else ""
        numbers = f"{one['reading_us']:.1f} | {one['alone_us']:.0f} | {one['ratio']:.1f} | {memory}"
        lines.append(f"| {one['devices']:,} | {one['scaling']} | {one['batch']:,} | {numbers} |")
    return SECTION.substitute(
        window=WINDOW,
        channels=len(CHANNELS),
        compared=COMPARED,
        **{name: f"{number:.1g}" for name, number in found["differences"].items()},
        table="\n".join(lines),
        bars=print_bars(found["bars"]),
    )


def print_bars(bars: list[tuple[str, float, str, float]]) -> str:
    """Render a table of requirements and results; each bar is name, value, sign of the limit, and limit."""
    lines = ["| bar | asked | found | |", "|---|---|---|---|"]
    for name, value, sign, asked in bars:
        met = value >= asked if sign == ">=" else value <= asked
        asked_for = f"{'≥' if sign == '>=' else '≤'} {asked:,}"
        lines.append(f"| {name} | {asked_for} | {value:,.4g} | {'met' if met else '**missed**'} |")
    return "\n".join(lines)


def measure_case(devices: int, scaling: str, batch: int) -> dict[str, Any]:
    """Fill a fleet until every device has a window, then time it and a device alone, in turn."""
    calibrator, names = make_calibrator(scaling), [f"box-{index:06d}" for index in range(devices)]
    _fill(calibrator, [f"warm-{index}" for index in range(BATCH)])  # NumPy allocates before memory is measured
    before = _resident_bytes()
    fleet = _fill(calibrator, names)
    device_bytes = (_resident_bytes() - before) / devices
    rows = batches(names, batch, WINDOW)
    pairs = [(time_fleet(fleet, list(islice(rows, 8192 // batch))), time_alone(calibrator)) for _ in range(ROUNDS)]
    together, alone = np.min(pairs, axis=0).tolist()
    found = {"devices": devices, "scaling": scaling, "batch": batch, "reading_us": together, "alone_us": alone}
    return {**found, "ratio": alone / together, "device_bytes": device_bytes}


def make_calibrator(scaling: str) -> Calibrator:
    """Make SCARE's default network with random weights; devices are scaled as known, or settle by this method."""
    method, settle = ("standard", 0) if scaling == KNOWN else (scaling, SETTLE)
    fleet = Scaling(method, Affine(CENTER, SCALE), Affine(CENTER[:1], SCALE[:1]), {}, settle)
    empty = Sample(np.empty((0, WINDOW, len(CHANNELS)), np.float32), np.empty(0))
    inputs = Inputs(CHANNELS, fleet, STEP, WINDOW, RECENT, QualitySettings())
    return Calibrator(make_plan(Scare.default(), WINDOW, len(CHANNELS)), inputs, CHANNELS[0], empty, empty)


def batches(devices: list[str], size: int, minute: int = 0) -> Iterator[Batch]:
    """Yield random readings without end: every device once a minute, in batches."""
    rng = np.random.default_rng(minute)
    while True:
        minute += 1
        for start in range(0, len(devices), size):
            some = devices[start : start + size]
            rows = rng.normal(CENTER, SCALE, (len(some), 3)).clip(0.1, 80.0)
            yield some, np.full(len(some), START + STEP * minute), rows


def time_fleet(fleet: Fleet, some: list[Batch]) -> float:
    """Measure the microseconds of processor time per reading of `Fleet.push`."""
    begun = time.process_time()
    pushed = [fleet.push(*batch) for batch in some]
    elapsed = time.process_time() - begun
    assert all(np.isfinite(one.values).all() for one in pushed)
    return 1e6 * elapsed / sum(len(one.values) for one in pushed)


def time_alone(calibrator: Calibrator) -> float:
    """Measure the microseconds of processor time per reading of `live.push`, for a device with a full window."""
    live, rows = calibrator.live("box"), list(islice(batches(["box"], 1), WINDOW + ALONE))
    for _, times, values in rows[:WINDOW]:
        live.push(times[0], values[0])
    begun = time.process_time()
    for _, times, values in rows[WINDOW:]:
        live.push(times[0], values[0])
    return 1e6 * (time.process_time() - begun) / ALONE


def differences() -> dict[str, float]:
    """Find the largest differences of values in a fleet, and in a stream, from those of `live.push`.

    All three calibrate the same readings; values are compared once the windows are full, [devices, readings].
    """
    calibrator, names = make_calibrator(KNOWN), [f"box-{index}" for index in range(COMPARED)]
    fleet = Fleet({"pm": calibrator}, (Route("*", "pm"),))
    pushed = list(islice(batches(names, COMPARED), 2 * WINDOW))  # names, times and rows of all devices
    times = np.array([of_all[0] for _, of_all, _ in pushed])
    rows = np.stack([of_all for _, _, of_all in pushed], axis=1)  # [devices, readings, channels]
    in_fleet = np.stack([fleet.push(*batch).values for batch in pushed], axis=1)
    in_stream = np.stack([calibrator.stream(name).push(times, own)[0] for name, own in zip(names, rows, strict=True)])
    alone = np.stack([_push_alone(calibrator, times, own) for own in rows])
    of_fleet, of_stream = (np.abs(one - alone)[:, WINDOW:] for one in (in_fleet, in_stream))
    most = float(np.quantile(of_fleet, 0.999))
    return {"most": most, "largest": float(of_fleet.max()), "stream": float(of_stream.max())}


def _push_alone(calibrator: Calibrator, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Push the rows of one device one by one; returns their values [rows]."""
    live = calibrator.live("box")
    return np.array([live.push(now, row)[0] for now, row in zip(times.tolist(), rows, strict=True)])


def _fill(calibrator: Calibrator, names: list[str]) -> Fleet:
    """Make a fleet in which every device has a full window."""
    fleet = Fleet({"pm": calibrator}, (Route("*", "pm"),))
    for some in islice(batches(names, BATCH), -(-len(names) // BATCH) * WINDOW):
        fleet.push(*some)
    return fleet


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _in_a_process(*case: int | str) -> dict[str, Any]:
    """Run `measure_case` in a new process."""
    command = [sys.executable, "-m", "benchmarks.live_fleet", *map(str, case)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


if __name__ == "__main__":
    print(json.dumps(measure_case(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
