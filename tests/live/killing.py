"""A gateway under a real Mosquitto that is killed again and again, and what became of every reading."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import sleep

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.live.messages import format_time
from tests.live.broker import Listener, free_port, running_broker, wait_for
from tests.live.small_gateway import START, save_models

DEVICES, ROWS, KILLS = 60, 1000, 30
CONFIG = """
[models.dust]
file = "dust.scare"
[models.gas]
file = "gas.scare"
devices = ["gas-*"]
[mqtt]
port = {port}
[[inputs]]
adapter = "json"
[limits]
snapshot_seconds = 2
"""
PROGRAM = """
from scare.cli import main
from scare.windowing import device_arrays
device_arrays.LARGE = 1  # memory as that of a fleet of many devices
main()
"""
Published = dict[tuple[str, str], set[tuple[float | None, int]]]  # all values and flags, by device and time


@dataclass(frozen=True)
class Outcome:
    """What became of the readings: how many were not published, or with another value or flag than uninterrupted."""

    sent: int
    kills: int
    lost: int
    differing: int
    log: str


def kill_often(folder: Path, seed: int = 20) -> Outcome:
    """Send `ROWS` readings of each device while the process is killed `KILLS` times; wait for all results."""
    rng = np.random.default_rng(seed)
    save_models(folder)
    port = free_port()
    (folder / "live.toml").write_text(CONFIG.format(port=port))
    names = [f"{'gas' if index % 3 == 0 else 'box'}-{index}" for index in range(DEVICES)]
    values = np.stack([rng.uniform(1, 60, (DEVICES, ROWS)), rng.uniform(200, 400, (DEVICES, ROWS))], axis=-1).round(3)
    with running_broker(folder, port):
        listener = Listener(port, "scare/#")
        process = _start(folder)
        try:
            wait_for(lambda: _starts(listener) == 1, 120)
            kills: list[int] = []
            sending = Thread(target=_publish, args=(port, names, values, kills))
            sending.start()
            while len(kills) < KILLS:
                sleep(rng.uniform(0.0, 2.0))
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills.append(before := _starts(listener))
                process = _start(folder)
                if rng.random() < 0.7:  # the others are killed while they begin
                    wait_for(lambda before=before: _starts(listener) > before, 120)
            sending.join()
            _wait_for_all(listener, DEVICES * ROWS)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            listener.close()
    lost, differing = _compare(folder, names, values, _results(listener))
    return Outcome(DEVICES * ROWS, KILLS, lost, differing, (folder / "log").read_text())


def _compare(folder: Path, names: list[str], values: np.ndarray, found: Published) -> tuple[int, int]:
    """How many readings have no result, and how many one that differs from an uninterrupted stream's."""
    times, lost, differing = START + 60.0 * np.arange(ROWS), 0, 0
    models = {name: Calibrator.load(folder / f"{name}.scare") for name in ("dust", "gas")}
    for index, name in enumerate(names):
        wanted, _, _, flags = models["gas" if "gas" in name else "dust"].stream(name).push(times, values[index])
        for time, value, flag in zip(times.tolist(), wanted.tolist(), flags.tolist(), strict=True):
            reported = found.get((name, format_time(time)))
            lost += reported is None
            differing += any(not _is_same(one, value, flag) for one in reported or ())
    return lost, differing


def _is_same(reported: tuple[float | None, int], value: float, flag: int) -> bool:
    number = np.nan if reported[0] is None else reported[0]
    return reported[1] == flag and bool(np.isclose(number, value, rtol=1e-4, atol=1e-4, equal_nan=True))


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, "live", "run", "live.toml"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stderr=log)


def _publish(port: int, names: list[str], values: np.ndarray, kills: list[int]) -> None:
    """Publish every device's rows, minute by minute, an equal share of them between two kills."""
    box = Listener(port)
    for row in range(ROWS):
        wait_for(lambda row=row: row * KILLS < (len(kills) + 1) * ROWS, 120)
        for index, name in enumerate(names):
            dust, current = values[index, row].tolist()
            reported = {"time": START + 60 * row, "pm25": dust, "current": current}
            sent = box.client.publish(f"readings/{name}", json.dumps(reported), 1)
        sent.wait_for_publish(60)
        sleep(0.02)
    box.close()


def _starts(listener: Listener) -> int:
    """How often a process has said that it takes readings."""
    return sum(payload == b"online" for topic, payload, _ in list(listener.messages) if topic == "scare/status")


def _results(listener: Listener) -> Published:
    found: Published = {}
    for topic, payload, _ in list(listener.messages):
        if topic.endswith("/state"):
            state = json.loads(payload)
            found.setdefault((topic.split("/")[1], state["time"]), set()).add((state["calibrated"], state["flags"]))
    return found


def _wait_for_all(listener: Listener, count: int, seconds: float = 240.0) -> None:
    """Wait until so many readings have a result, or none has come for long."""
    patience, known = seconds, 0
    while patience > 0 and (now := len(_results(listener))) < count:
        patience = seconds if now > known else patience - 1
        known = now
        sleep(1.0)
