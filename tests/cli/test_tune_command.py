"""`scare tune`: a search that can be stopped and goes on, and a recipe that `scare train` takes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scare import Calibrator
from scare.experiments import tuning as search_module
from tests.cli.output import RunCli
from tests.cli.test_compare_command import group_exists
from tests.experiments.trials_at_once import run_at_once

SEARCH = "[tune]\nfolds = {folds}\ntrials = {trials}\n[tune.knobs]\n"
KNOBS = "model.window = [8, 12]\ntraining.rate = [0.02, 0.05, 0.1]\ntraining.steps = [20, 40]\n"
QUICK = "--config tune.toml --window 8 --jobs 1 --out found"


def ask(trials: int, folds: int = 1, knobs: str = KNOBS) -> None:
    """What the next search is to do."""
    Path("tune.toml").write_text(SEARCH.format(trials=trials, folds=folds) + knobs)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, scare: RunCli) -> list[int]:
    """Trials run in this process."""
    ask(trials=2)
    return run_at_once(monkeypatch)


@pytest.mark.slow
def test_the_front_is_shown_beside_the_preset_and_written_as_recipes(
    scare: RunCli, sim: Path, started: list[int]
) -> None:
    ask(trials=2, folds=2)
    output = scare(f"scare tune {sim} {QUICK}")
    assert output.code == 0, output.err
    assert started == [0, 1]
    for shown in ("front: means over 2 folds", "RMSE", "top-5 %", "0: preset"):
        assert shown in output.out
    for printed in (
        "memory and instructions are not measured",
        "on are reserved for the test and not used.",
        "2 examined, ",
        "The scores above are optimistic",
        "scare train … --config found/best-1.toml",
    ):
        assert printed in output.err
    assert Path("found/best-1.toml").exists()


def test_json_is_all_there_is_on_stdout_and_run_again_it_goes_on(scare: RunCli, sim: Path, started: list[int]) -> None:
    scare(f"scare tune {sim} {QUICK}")
    ask(trials=3)
    output = scare(f"scare tune {sim} {QUICK} --json")
    found = json.loads(output.out)
    assert started == [0, 1, 2]
    assert found["candidates"]["examined"] == 3
    assert found["preset"]["values"] == {"model.window": 8, "training.rate": 0.05, "training.steps": 40}
    best = found["front"][0]
    assert best["rmse"] <= found["preset"]["rmse"]
    assert best["config"] == "found/best-1.toml"
    assert json.loads(Path("found/table.json").read_text())["front"] == found["front"]


@pytest.mark.slow
def test_train_takes_the_config_and_options_come_after_it(scare: RunCli, sim: Path) -> None:
    Path("best-1.toml").write_text("[model]\nwindow = 12\n[training]\nsteps = 20\nrate = 0.1\nseed = 3\n")
    output = scare(f"scare train {sim} --config best-1.toml --json --out m.scare")
    assert output.code == 0, output.err
    facts = json.loads(output.out)["facts"]
    settings = facts["settings"]
    assert (settings["steps"], settings["rate"], settings["seed"]) == (20, 0.1, 3)
    assert facts["preset"] == "default+best-1"
    output = scare(f"scare train {sim} --config best-1.toml --steps 30 --json --out m.scare")
    settings = json.loads(output.out)["facts"]["settings"]
    assert (settings["steps"], settings["rate"], settings["seed"]) == (30, 0.1, 3)


def test_train_scores_on_the_rows_that_tune_left(scare: RunCli, sim: Path, started: list[int]) -> None:
    ask(trials=1)
    tuned = scare(f"scare tune {sim} {QUICK} --channels pm25_raw,temperature")
    (left,) = (line for line in tuned.err.splitlines() if "are reserved for the test" in line)
    trained = scare(f"scare train {sim} --config found/best-1.toml --json --out m.scare")
    assert json.loads(trained.out)["facts"]["preset"] == "default+best-1"
    assert [channel.name for channel in Calibrator.load("m.scare").inputs.channels] == ["pm25_raw", "temperature"]
    (split,) = (line for line in trained.err.splitlines() if line.startswith("Split by time"))
    assert left.split()[2:4] == split.replace(";", "").split()[7:9]


def test_a_dead_box_is_left_out_of_the_search(scare: RunCli, sim: Path, started: list[int]) -> None:
    dead = pl.when(pl.col("device") == "box-02").then(None).otherwise("humidity").alias("humidity")
    pl.read_parquet(sim).with_columns(dead).write_parquet("fleet.parquet")
    ask(trials=1)
    output = scare(f"scare tune fleet.parquet {QUICK} --json")
    sentence = "box-02 is left out: humidity has no usable value; use --channels pm25_raw,temperature to leave it out"
    assert json.loads(output.out)["left_out"] == [sentence]
    assert sentence in output.err


def test_a_model_without_the_usual_knobs_asks_for_its_own(scare: RunCli, sim: Path, started: list[int]) -> None:
    Path("tune.toml").write_text("[model]\nname = 'nlinear'\n")
    output = scare(f"scare tune {sim} {QUICK}")
    assert output.code == 2
    assert "this model has no setting model.front.width; name others in [tune.knobs]" in output.err


def test_an_interruption_prints_what_there_is(
    scare: RunCli, sim: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_module.run_search

    def interrupted(*given: Any) -> None:
        search(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "run_search", interrupted)
    output = scare(f"scare tune {sim} {QUICK}")
    assert output.code == 130
    assert "0: preset" in output.out
    assert "interrupted" in output.err
    assert Path("found/best-1.toml").exists()


@pytest.mark.parametrize(
    ("options", "tune", "reason"),
    [
        ("", "until = 'yesterday'", "tune.until: 'yesterday' is not an ISO 8601 time"),
        ("", "until = 1999-01-01", "tune.until: there is no row before 1999-01-01"),
        ("", "knobs.training.rte = [1]", "unknown key 'rte' in [training]; did you mean 'rate'?"),
        ("--board nano33", "", "no board is called 'nano33'; did you mean 'nano33ble'?"),
        ("--window 200", "", "a shorter window, fewer tune.folds or more data may help"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(
    scare: RunCli, sim: Path, started: list[int], options: str, tune: str, reason: str
) -> None:
    Path("tune.toml").write_text(f"[tune]\nknobs.training.steps = [20, 40]\n{tune}\n")
    output = scare(f"scare tune {sim} {QUICK} {options}")
    assert output.code in (2, 3)
    assert reason in output.err
    assert "Traceback" not in output.err
    assert started == []


PATIENCE = 300  # seconds, for a machine that is busy with other things


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Linux or macOS would run it: they signal process groups")
def test_ctrl_c_ends_all_processes_and_keeps_what_is_finished(scare: RunCli, sim: Path) -> None:
    Path("tune.toml").write_text("[tune]\nfolds = 1\nknobs.training.steps = [20, 30, 40, 3000]\n")
    line = f"tune {sim} {QUICK.replace('--jobs 1', '--jobs 2')}"
    process = subprocess.Popen(
        [Path(sys.executable).with_name("scare"), *line.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not Path("found/trials/0000.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "0: preset" in out
    assert "Traceback" not in err
    while group_exists(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
