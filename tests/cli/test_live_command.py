"""`scare live` as its users see it: real processes on loopback, and sentences for what is wrong."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from time import sleep
from urllib.request import urlopen

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.live.demo import make_fleet
from scare.live.service import systemd_unit
from tests.cli.output import RunCli
from tests.needs import needs

pytestmark = needs("live")
PROGRAM = [sys.executable, "-c", "from scare.cli import main; main()"]


@contextmanager
def process(line: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command at work, which is ended with the block."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*PROGRAM, *line.split()[1:]]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def read_json(started: subprocess.Popen[str]) -> dict[str, object]:
    """What a command prints on stdout, up to the end of the object."""
    assert started.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = started.stdout.readline()
        assert line, started.stderr.read() if started.stderr else ""
        text += line
    found: dict[str, object] = json.loads(text)
    return found


def test_the_demo_answers_calibrates_and_ends_in_order(tmp_path: Path) -> None:
    with process("scare live demo --boxes 3 --speed 20000 --port 0 --no-open --json", tmp_path) as demo:
        page = str(read_json(demo)["page"])
        for _ in range(100):
            sleep(0.2)
            with urlopen(f"{page}metrics", timeout=10) as answer:
                counts = answer.read().decode()
            if "scare_calibrated_total 0\n" not in counts:
                break
        assert "scare_calibrated_total 0\n" not in counts
        assert "scare_rejected_total 0\n" in counts
        demo.send_signal(signal.SIGINT)
        _, output = demo.communicate(timeout=20)
        assert (demo.returncode, output.splitlines()[-1]) == (0, "Stopped. All readings are saved.")
    assert list(tmp_path.iterdir()) == []


def test_the_demo_says_between_what_every_value_lies_and_mostly_it_does(tmp_path: Path) -> None:
    fleet = make_fleet(3, 6)
    calibrator, box = Calibrator.load(fleet.calibrator.save(tmp_path / "line.scare")), fleet.boxes[0]
    low, value, high = (calibrator.predict(box)[name].to_numpy() for name in ("low", "calibrated", "high"))
    there = np.isfinite(value)
    assert (low < value)[there].all()
    assert (value < high)[there].all()
    known = there & np.isfinite(box.targets)
    assert ((low <= box.targets) & (box.targets <= high))[known].mean() > 0.6  # its air depends on the hour of the test


@pytest.mark.parametrize(
    ("text", "sentence", "code"),
    [
        ("", "the key 'models' is missing", 2),
        ("[models.pm]\nfile = 'none.scare'\n[http]\nport = 0", "none.scare", 3),
        ("[models.pm]\nfile = 'nobody-1999'\n[http]\nport = 0", "no such published correction", 3),
    ],
)
def test_what_is_wrong_is_a_sentence(scare: RunCli, text: str, sentence: str, code: int) -> None:
    Path("live.toml").write_text(text)
    output = scare("scare live run live.toml")
    assert sentence in output.err
    assert output.code == code
    assert "Traceback" not in output.err


def test_a_port_in_use_is_told(scare: RunCli) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        Path("live.toml").write_text(f"[models.pm]\nfile = 'barkjohn-2021'\n[http]\nport = {port}")
        output = scare("scare live run live.toml")
    assert output.code == 2
    assert f"cannot listen at 127.0.0.1 port {port}: Address already in use; give another" in output.err


def test_replay_gives_what_predict_gives(scare: RunCli, sim: Path, model: Path) -> None:
    table = pl.read_parquet(sim).select("device", "time", "pm25_raw", "temperature", "humidity")
    table = table.group_by("device", maintain_order=True).head(60)
    table.write_parquet("day.parquet")
    named = table.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    Path("day.csv").write_text(named.write_csv())
    Path("day.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named.iter_rows(named=True)) + "rubbish\n")
    Path("live.toml").write_text(f"[models.pm]\nfile = '{model}'\n[http]\nport = 0")
    assert scare(f"scare predict {model} day.parquet --out predicted.parquet").code == 0
    wanted = pl.read_parquet("predicted.parquet").sort("device", "time")
    for name in ("day.csv", "day.jsonl"):
        output = scare(f"scare live replay live.toml {name} --out replayed.parquet --json")
        assert output.code == 0, output.err
        found = pl.read_parquet("replayed.parquet").sort("device", "time")
        assert found["flags"].to_list() == wanted["flags"].to_list()
        pairs = zip(found["calibrated"].fill_null(-1.0), wanted["calibrated"].fill_null(-1.0), strict=True)
        assert max(abs(one - other) for one, other in pairs) < 1e-3
    assert json.loads(output.out)["counts"]["rejected"] == 1
    assert "day.jsonl: line 241: not JSON: 'rubbish" in output.err


@pytest.mark.parametrize(
    ("options", "sentence", "code"),
    [
        ("", "day.jsonl: no reading in it is usable; the last one: line 1: not JSON: 'rubbish'", 3),
        ("--adapter morse", "no input has the adapter 'morse'; there are json", 2),
    ],
)
def test_what_cannot_be_replayed_is_a_sentence(scare: RunCli, options: str, sentence: str, code: int) -> None:
    Path("live.toml").write_text("[models.pm]\nfile = 'barkjohn-2021'\n[http]\nport = 0")
    Path("day.jsonl").write_text("rubbish")
    output = scare(f"scare live replay live.toml day.jsonl --out day.csv {options}")
    assert (output.code, sentence in output.err) == (code, True)
    assert not Path("day.csv").exists()


def test_check_says_what_the_models_read(scare: RunCli, model: Path) -> None:
    Path("live.toml").write_text(f"[models.pm]\nfile = '{model}'\n[http]\nport = 0")
    output = scare("scare live check live.toml --json")
    assert json.loads(output.out) == {"channels": ["pm25_raw", "temperature", "humidity"], "steps": {"pm": 60.0}}


def test_check_says_what_becomes_of_other_steps(scare: RunCli, model: Path) -> None:
    models = {
        "a": f"file = '{model}'",
        "b": f"file = '{model}'\nfiner = 'reject'",
        "c": "file = 'barkjohn-2021'",
        "d": "file = 'barkjohn-2021'\nstep_seconds = 120",
    }
    tables = "\n".join(f"[models.{name}]\n{text}" for name, text in models.items())
    Path("live.toml").write_text(f"{tables}\n[http]\nport = 0")
    printed = " ".join(scare("scare live check live.toml").err.split())
    every, fates = (
        "takes a reading every {}; ones that come more often are {}, ones that come less often {}.",
        {
            "a": ("1 minute", "averaged", "rejected"),
            "b": ("1 minute", "rejected", "rejected"),
            "c": ("1 minute", "averaged", "calibrated as they are"),
            "d": ("2 minutes", "averaged", "rejected"),
        },
    )
    assert all(f"'{name}' {every.format(*words)}" in printed for name, words in fates.items()), printed
    Path("live.toml").write_text(f"[models.pm]\nfile = '{model}'\nstep_seconds = 30\n[http]\nport = 0")
    refused = scare("scare live check live.toml")
    assert (refused.code, "a time step is only for published corrections" in refused.err) == (2, True)


@pytest.mark.parametrize("command", ["run", "check", "replay", "demo"])
def test_the_help_shows_examples(scare: RunCli, command: str) -> None:
    output = scare(f"scare live {command} --help")
    assert f"scare live {command}" in output.out.split("Examples:")[1]
    assert max(map(len, output.out.splitlines())) <= 80


def test_install_service_prints_a_unit_that_can_be_saved(scare: RunCli, tmp_path: Path) -> None:
    config = tmp_path / "live.toml"
    config.write_text('[models.pm]\nfile = "barkjohn-2021"\n[http]\nport = 8080\n')
    done = scare("scare live install-service live.toml --user")
    assert done.out == systemd_unit(config, for_user=True)
    assert "systemctl --user enable --now scare-live" in done.err


def test_a_config_with_a_mistake_gets_no_unit(scare: RunCli, tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text('[models.pm]\nfile = "barkjohn-2021"\n[htp]\nport = 8080\n')
    done = scare("scare live install-service live.toml")
    assert (done.code, done.out) == (2, "")
    assert "htp" in done.err
