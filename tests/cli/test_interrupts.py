"""Ctrl-C while Polars calls Python from Rust, and at any moment of a command: one line, its exit code, whole files."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

from scare.calibrator.calibrator import Calibrator
from scare.cli.app import disable_retries, enable_interrupts
from scare.cli.app import run as run_here
from tests.cli.test_fetch_command import write_pair
from tests.cli.test_score_command import QUICK
from tests.upkeep.sessions import HOURLY, air, session

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Linux or macOS would run it: timers, groups")
# The console script, which says when Ctrl-C is its own: as soon as it looks for what comes after that line.
SCARE = """
import os, sys
sys.addaudithook(lambda what, about: what == "import" and about[0] == "scare.cli.app" and os.write(1, b"."))
from scare.cli import main
main()
"""
INTERRUPTS, AT_LEAST = 60, 20  # of each command; that come before it has ended
LINES = {  # all that end by themselves; `tune`, `demo` and `reproduce` train as `train` and `compare` do, for longer
    "info": "info {kept}/pm.scare",
    "inspect": "inspect {kept}/sim.parquet --out sim.toml",
    "align": "align {kept}/sensors {kept}/stations --station one --channels pm25 --reference pm25 --out both.csv",
    "simulate": "simulate --boxes 3 --days 3 --out sim.parquet",
    "train": "train {kept}/sim.parquet --window 8 --steps 200 --out m.scare",
    "compare": "compare {kept}/sim.parquet --windows 8 --models raw,linear --out compared",
    "predict": "predict {kept}/pm.scare {kept}/sim.parquet --out calibrated.csv",
    "archive": "predict {kept}/pm.scare {kept}/archive --out calibrated --jobs 2",
    "update": "update {kept}/hourly.scare {kept}/session.csv --time time --out new.scare",
    "score": "score {kept}/pm.scare --data {kept}/sim.parquet --thresholds {kept}/quick.toml --out scored",
    "report": "report {kept}/scored --out report.html",
    "watch": "watch {kept}/pm.scare {kept}/sim.parquet --out watched",
    "board": "board run {kept}/pm.scare",
    "export": "export c {kept}/pm.scare --out model_c",
    "verify": "verify {kept}/pm.scare",
    "verify export": "verify {kept}/model_c",
    "fetch": "fetch purpleair {kept}/roof.csv --out fetched",
    "replay": "live replay {kept}/live.toml {kept}/day.csv --out replayed.parquet",
}
READ: dict[str, Callable[[Path], object]] = {
    ".csv": pl.read_csv,
    ".html": lambda path: path.read_text(encoding="utf-8").rindex("</html>"),
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".npy": np.load,
    ".parquet": pl.read_parquet,
    ".png": lambda path: path.read_bytes().rindex(b"IEND"),
    ".safetensors": load_file,
    ".scare": Calibrator.load,
    ".svg": ElementTree.parse,
    ".toml": lambda path: tomllib.loads(path.read_text(encoding="utf-8")),
    **dict.fromkeys((".c", ".h", ".hpp", ".md", ".txt", ""), Path.read_bytes),
}


@pytest.fixture
def _as_the_command_has_it() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    dropped = sys.unraisablehook
    enable_interrupts()
    yield
    sys.unraisablehook = dropped
    for number, handler in before.items():
        signal.signal(number, handler)


def press_ctrl_c(value: int = 0) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return value


@pytest.mark.usefixtures("_as_the_command_has_it")
def test_a_call_into_polars_ends_before_the_interruption() -> None:
    collected = []

    def ask_polars() -> None:
        pressing = pl.col("a").map_elements(press_ctrl_c, return_dtype=pl.Int64)
        collected.append(pl.LazyFrame({"a": [1]}).select(pressing).collect())
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        ask_polars()
    assert [frame.item() for frame in collected] == [1]


@pytest.mark.usefixtures("_as_the_command_has_it")
def test_one_that_a_finaliser_drops_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    class Last:
        def __del__(self) -> None:
            press_ctrl_c()

    def forget() -> None:
        Last()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        forget()
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("_as_the_command_has_it")
def test_one_that_waits_is_forgotten_when_the_command_has_ended() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    disable_retries()
    time.sleep(0.05)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.usefixtures("_as_the_command_has_it")
def test_anywhere_else_it_is_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


@pytest.fixture(scope="session")
def kept(model: Path, sim: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the lines read."""
    folder = tmp_path_factory.mktemp("kept")
    shutil.copy(model, folder / "pm.scare")
    shutil.copy(sim, folder / "sim.parquet")
    table = pl.read_parquet(sim)
    (folder / "archive").mkdir()
    for (device,), rows in table.group_by("device"):
        rows.write_parquet(folder / "archive" / f"{device}.parquet")
    table.head(500).with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")).write_csv(folder / "day.csv")
    (folder / "live.toml").write_text(f"[models.pm]\nfile = '{folder}/pm.scare'\n[http]\nport = 0")
    (folder / "quick.toml").write_text(QUICK, encoding="utf-8")
    (folder / "roof.csv").write_text("created_at,PM2.5_CF1_ug/m3,Humidity_%\n2019-01-01 00:02:00 UTC,8.5,30\n")
    HOURLY.save(folder / "hourly.scare")
    beside = session(air(4), gain=0.8, offset=6.0).frame.rename({"reference": "reference pm25"})
    beside.select("time", "pm25", "current", "reference pm25").write_csv(folder / "session.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_pair()
    for command in ("score", "export"):
        *words, out = LINES[command].format(kept=folder).split()
        assert run_here([*words, str(folder / out)]) == 0
    return folder


def run(line: str, folder: Path, seconds: float = 600.0) -> tuple[int, str, float]:
    """Exit code and stderr of a line that is interrupted after some seconds, and how many it took."""
    folder.mkdir()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", SCARE, *line.split()], cwd=folder, start_new_session=True, bufsize=0, **pipes
    ) as process:
        process.stdout.read(1)
        begun = time.monotonic()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
        _, printed = process.communicate(timeout=600)
        return process.returncode, printed.decode(), time.monotonic() - begun


def assert_whole(folder: Path, whole: Path) -> None:
    """Every file can be read and is about as long as in the whole run; a command's own notes are for its next run.

    A calibrator that was interrupted in training may have no network, and is shorter.
    """
    for path in (one for one in folder.rglob("*") if one.is_file() and ".scare" not in one.parts):
        READ[path.suffix](path)
        if path.suffix == ".scare":
            continue
        assert path.stat().st_size == pytest.approx((whole / path.relative_to(folder)).stat().st_size, rel=0.1), path
    assert not (folder / "model_c").exists() or (folder / "model_c" / "scare.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_sixty_interrupts_at_random(command: str, kept: Path, tmp_path: Path) -> None:
    line, chance, codes = LINES[command].format(kept=kept), random.Random(command), []
    code, printed, lasts = run(line, tmp_path / "whole")
    assert code == 0, printed
    for number in range(INTERRUPTS):
        folder = tmp_path / f"{number}"
        code, printed, took = run(line, folder, chance.uniform(0.0, 1.2) * lasts)
        assert "Traceback" not in printed
        assert "Exception" not in printed
        assert code in (0, 130), printed
        assert code == 0 or printed.splitlines()[-1] == "scare: interrupted"
        assert_whole(folder, tmp_path / "whole")
        lasts = lasts if code else took  # as long as it takes now: the computer may be busy
        codes.append(code)
    assert codes.count(130) >= AT_LEAST
    assert Calibrator.load(kept / "pm.scare").window
