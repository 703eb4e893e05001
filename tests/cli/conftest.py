"""Commands as their users see them: a line typed in a folder, an exit code, what is printed where."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scare.cli.app import run
from scare.data.simulate import Simulation, write_simulation
from scare.training.recipe import PRESETS, TrainingSettings
from tests.cli.output import Output, RunCli
from tests.training.small_fits import Line

SHORT = TrainingSettings(steps=40, checkpoints=4, batch=16, rate=0.05)


@contextmanager
def lines_for_networks() -> Iterator[None]:
    """Both presets train a line, which compiles in no time, instead of a network."""
    with pytest.MonkeyPatch.context() as patch:
        for name, preset in PRESETS.items():
            patch.setitem(PRESETS, name, replace(preset, model=Line(), settings=SHORT))
        yield


@pytest.fixture(autouse=True)
def _train_lines() -> Iterator[None]:
    with lines_for_networks():
        yield


@pytest.fixture
def scare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCli:
    """Types a line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def type_line(line: str) -> Output:
        capsys.readouterr()
        program, *arguments = shlex.split(line)
        assert program == "scare"
        code = run(arguments)
        return Output(code, *capsys.readouterr())

    return type_line


@pytest.fixture(scope="session")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four simulated boxes, half a day each."""
    path = tmp_path_factory.mktemp("sim") / "sim.parquet"
    write_simulation(Simulation(boxes=4, days=0.5, seed=5), path)
    return path


@pytest.fixture(scope="session")
def model(sim: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrator of the simulated boxes' particles, with a window of 8."""
    path = tmp_path_factory.mktemp("model") / "pm.scare"
    with lines_for_networks():
        assert run(["train", str(sim), "--window", "8", "--out", str(path)]) == 0
    return path
