"""Ctrl-C at any moment of a command: one line, its exit code, and no file that is not whole."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Linux or macOS would run it: timers"),
]
SCARE = [sys.executable, "-m", "scare"]
BEGUN = 0.15  # share of a whole run after which Python itself has surely started
INTERRUPTS = 60
LINES = {
    "info": "info {model}",
    "inspect": "inspect {sim} --out sim.toml",
    "predict": "predict {model} {sim} --out calibrated.csv",
    "export": "export c {model} --out model_c",
    "simulate": "simulate --boxes 3 --days 3 --out sim.parquet",
    "verify": "verify {model}",
    "train": "train {sim} --window 8 --steps 200 --out m.scare",
}
WHOLE = {
    "calibrated.csv": lambda path: pl.read_csv(path)["calibrated"].count() > 0,
    "sim.parquet": lambda path: pl.read_parquet(path).height == 3 * 3 * 1440,
    "sim.toml": lambda path: "[data]" in path.read_text(),
    "certificate.json": lambda path: json.loads(path.read_text())["results"],
    "m.scare": lambda path: Calibrator.load(path).window == 8,
    "model_c": lambda path: (path / "scare.json").exists(),
}


def run(line: str, folder: Path, seconds: float | None = None) -> tuple[int, str]:
    """Exit code and stderr of a line that is interrupted after some seconds."""
    folder.mkdir()
    with subprocess.Popen(
        [*SCARE, *line.split()], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        if seconds is not None:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=600)
        return process.returncode, told


@pytest.mark.parametrize("command", LINES)
def test_sixty_interrupts_at_random(command: str, model: Path, sim: Path, tmp_path: Path) -> None:
    line, chance = LINES[command].format(model=model, sim=sim), random.Random(command)
    start = time.monotonic()
    assert run(line, tmp_path / "whole")[0] == 0
    whole, interrupted = time.monotonic() - start, 0
    for number in range(INTERRUPTS):
        folder = tmp_path / f"{number}"
        code, told = run(line, folder, chance.uniform(BEGUN, 1.0) * whole)
        assert "Traceback" not in told
        assert "Exception" not in told
        assert code in (0, 130, -signal.SIGINT)  # the last: while Python itself was ending
        assert code != 130 or told.splitlines()[-1] == "scare: interrupted"
        assert all(WHOLE[path.name](path) for path in folder.iterdir())
        interrupted += code == 130
    assert interrupted  # how many depends on how busy the computer is
    assert Calibrator.load(model).window
