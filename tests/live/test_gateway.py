"""A process killed again and again loses nothing: every reading gets the value it would have got without."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import sleep

import numpy as np
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.live.messages import format_time
from tests.live.broker import Listener, free_port, needs_broker, running_broker, wait_for
from tests.live.small_gateway import START, save_models

pytestmark = [needs_broker, pytest.mark.slow]
DEVICES, ROWS, KILLS = 60, 1000, 20
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


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from scare.cli import main; main()", "live", "run", "live.toml"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stderr=log)


def publish(port: int, names: list[str], values: np.ndarray, kills: list[int]) -> None:
    """Every device's rows, minute by minute, an equal share of them between two kills."""
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


def starts(listener: Listener) -> int:
    """How often a process has said that it takes readings."""
    return sum(payload == b"online" for topic, payload, _ in list(listener.messages) if topic == "scare/status")


def results(listener: Listener) -> dict[tuple[str, str], set[tuple[float | None, int]]]:
    """All values and flags that were published, by device and time."""
    found: dict[tuple[str, str], set[tuple[float | None, int]]] = {}
    for topic, payload, _ in list(listener.messages):
        if topic.endswith("/state"):
            state = json.loads(payload)
            found.setdefault((topic.split("/")[1], state["time"]), set()).add((state["calibrated"], state["flags"]))
    return found


def test_twenty_kills_in_sixty_thousand_messages(tmp_path: Path) -> None:
    rng = np.random.default_rng(20)
    save_models(tmp_path)
    port = free_port()
    (tmp_path / "live.toml").write_text(CONFIG.format(port=port))
    names = [f"{'gas' if index % 3 == 0 else 'box'}-{index}" for index in range(DEVICES)]
    values = np.stack([rng.uniform(1, 60, (DEVICES, ROWS)), rng.uniform(200, 400, (DEVICES, ROWS))], axis=-1).round(3)
    times = START + 60.0 * np.arange(ROWS)
    wanted_keys = {(name, format_time(time)) for name in names for time in times.tolist()}
    with running_broker(tmp_path, port):
        listener = Listener(port, "scare/#")
        process = start(tmp_path)
        try:
            wait_for(lambda: starts(listener) == 1, 120)
            kills: list[int] = []
            sending = Thread(target=publish, args=(port, names, values, kills))
            sending.start()
            while len(kills) < KILLS:
                sleep(rng.uniform(0.0, 2.0))
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills.append(before := starts(listener))
                process = start(tmp_path)
                if rng.random() < 0.7:  # the others are killed while they begin
                    wait_for(lambda before=before: starts(listener) > before, 120)
            sending.join()
            wait_for(lambda: results(listener).keys() >= wanted_keys, 240, every=1.0)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            listener.close()
    assert "Traceback" not in (tmp_path / "log").read_text()
    found = results(listener)
    assert found.keys() == wanted_keys
    models = {name: Calibrator.load(tmp_path / f"{name}.scare") for name in ("dust", "gas")}
    for index, name in enumerate(names):
        wanted, _, _, flags = models["gas" if "gas" in name else "dust"].stream(name).push(times, values[index])
        for time, value, flag in zip(times.tolist(), wanted.tolist(), flags.tolist(), strict=True):
            for reported, reported_flags in found[name, format_time(time)]:
                assert reported_flags == flag
                number = np.nan if reported is None else reported
                assert number == pytest.approx(value, rel=1e-4, abs=1e-4, nan_ok=True)
