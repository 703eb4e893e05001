"""The installed `scare` as a shell runs it: exit codes, pipes, Ctrl-C, a machine without JAX."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from scare import Calibrator
from scare.data.simulate import Simulation, write_simulation
from tests.cli.small_tables import colocation, write

SCARE = Path(sys.executable).with_name("scare")
PATIENCE = 600  # seconds, for a machine that is busy with other things


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def start(line: str) -> "subprocess.Popen[str]":
    """A process with pipes for what it prints."""
    _, *arguments = line.split()
    return subprocess.Popen([SCARE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def interrupt_when_writing(process: "subprocess.Popen[str]", folder: Path) -> tuple[int, str, str]:
    """Ctrl-C as soon as there is something in the folder."""
    deadline = time.monotonic() + PATIENCE
    while not any(folder.iterdir()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    return finish(process)


def test_the_exit_code_is_that_of_the_failure() -> None:
    code, out, err = finish(start("scare inspect none.csv"))
    assert (code, out, err) == (3, "", "scare: none.csv: there is no such file\n")


def test_json_goes_through_a_pipe_and_the_rest_does_not(model: Path, sim: Path) -> None:
    code, out, err = finish(start(f"scare predict {model} {sim} --out c.csv --json"))
    assert code == 0, err
    assert json.loads(out)["rows"] == pl.read_csv("c.csv").height
    assert "rows calibrated. Wrote c.csv." in err


@pytest.mark.parametrize("line", ["scare inspect {sim}", "scare info {model} --json", "scare --help"])
def test_a_reader_that_leaves_early_is_no_failure(model: Path, sim: Path, line: str) -> None:
    process = start(line.format(model=model, sim=sim))
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(PATIENCE) == 0
    process.stderr.close()


def test_predicting_needs_no_jax(model: Path, sim: Path) -> None:
    program = """
import sys
sys.modules.update(dict.fromkeys(["jax", "jaxlib", "equinox", "optax", "matplotlib", "sklearn"]))
from scare.cli.app import run
sys.exit(run(sys.argv[1:]))
"""

    def run_without_jax(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)

    done = run_without_jax("predict", str(model), str(sim), "--out", "c.csv")
    assert done.returncode == 0, done.stderr
    assert pl.read_csv("c.csv")["calibrated"].count() > 2000
    refused = run_without_jax("train", str(sim))
    assert refused.returncode == 2
    assert "pip install '.[train]'" in refused.stderr


# --- Ctrl-C ---


@pytest.mark.slow
def test_an_interrupted_training_keeps_the_best_so_far() -> None:
    write_simulation(Simulation(boxes=2, days=0.5), "sim.parquet")
    Path("long.toml").write_text("[training]\nepochs = 100000\n")
    process = start("scare train sim.parquet --window 8 --config long.toml --out m.scare")
    assert process.stderr is not None
    first = next(line for line in process.stderr if line.startswith("epoch 1/100000"))
    process.send_signal(signal.SIGINT)
    code, out, printed = finish(process)
    assert code == 130, printed
    assert "validation" in first
    assert "The training was interrupted: wrote its best result so far to m.scare." in printed
    assert printed.splitlines()[-1] == "scare: interrupted"
    assert "(default+long)" in out
    model = Calibrator.load("m.scare")
    assert model.facts["interrupted"] is True
    assert sorted(os.listdir()) == ["long.toml", "m.evaluated.scare", "m.scare", "sim.parquet"]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_interrupted_simulation_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    process = start(f"scare simulate --boxes 2000 --days 100 --out sim.{suffix}")
    code, out, err = interrupt_when_writing(process, tmp_path)
    assert (code, out, err) == (130, "", "scare: interrupted\n")
    assert os.listdir() == []


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A table that takes a while."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    write_simulation(Simulation(boxes=40, days=20), path)
    yield path
    path.unlink()


@pytest.mark.parametrize(
    "suffix", ["parquet", *(pytest.param(one, marks=pytest.mark.slow) for one in ("csv", "csv.gz"))]
)
def test_an_interrupted_prediction_leaves_nothing_behind(model: Path, large: Path, tmp_path: Path, suffix: str) -> None:
    process = start(f"scare predict {model} {large} --out calibrated.{suffix}")
    code, out, err = interrupt_when_writing(process, tmp_path)
    assert (code, out) == (130, ""), err
    assert err.splitlines()[-1] == "scare: interrupted"
    assert "Traceback" not in err
    assert os.listdir() == []


# --- the lines of the documentation, with the network itself ---

PAPER = "[model]\npreset = 'paper'\n[training]\nepochs = 2\nseed = 5\n"


@pytest.mark.slow
def test_from_simulation_to_calibrated_readings_with_the_preset_of_the_paper() -> None:
    Path("paper.toml").write_text(PAPER)
    for line, printed in (
        ("scare simulate --boxes 4 --days 0.3 --seed 5 --out sim.parquet", "Wrote 0.3 days of 4 boxes"),
        ("scare train sim.parquet --config paper.toml --window 60 --out m.scare", "epoch 2/2"),
        ("scare predict m.scare sim.parquet --out calibrated.csv", "rows calibrated"),
    ):
        code, _, err = finish(start(line))
        assert code == 0, err
        assert printed in err
    assert pl.read_csv("calibrated.csv")["calibrated"].count() > 1000
    facts = Calibrator.load("m.scare").facts
    assert (facts["model"], facts["preset"], facts["settings"]["seed"]) == ("scare", "paper+paper", 5)


@pytest.mark.slow
def test_the_lines_of_the_documentation_work_as_written() -> None:
    Path("paper.toml").write_text(PAPER)
    for line in (
        "scare simulate --boxes 4 --days 6 --seed 5 --out sim.parquet",
        "scare train sim.parquet --config paper.toml --window 360 --out m.scare",
        "scare train sim.parquet --config paper.toml --window 360 --out again.scare",
    ):
        code, _, err = finish(start(line))
        assert code == 0, err
    assert Path("m.scare").read_bytes() == Path("again.scare").read_bytes()
    pl.read_parquet("sim.parquet").filter(device="box-04").drop("device", "pm25_reference").write_csv("raw.csv")
    code, _, err = finish(start("scare predict m.scare raw.csv --out calibrated.csv"))
    assert code == 0, err
    assert pl.read_csv("calibrated.csv")["calibrated"].count() > 8000


@pytest.mark.slow
def test_a_table_of_ones_own_trains_as_written() -> None:
    for box in range(3):
        write(colocation(2000, seed=box), f"box{box}.csv")
    line = "scare train box0.csv box1.csv box2.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2"
    code, out, err = finish(start(f"{line} --split time --window 60 --out no2.scare --json"))
    assert code == 0, err
    scores = json.loads(out)["scores"]
    assert scores["scare (default)"]["rmse"] < 1.02 * scores["linear"]["rmse"]  # a line is all that such a sensor needs
    assert Calibrator.load("no2.scare").facts["devices"] == ["box0", "box1", "box2"]
