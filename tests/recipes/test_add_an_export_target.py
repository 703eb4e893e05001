"""CONTRIBUTING's "Add an export target": a record in the list is a command, is verified, and is among the formats."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from typer.main import get_command

from benchmarks.formats import print_cell, support
from scare.board.verify_export import RUNNERS, Runner, verify_export
from scare.calibrator.calibrator import Calibrator
from scare.cli import app
from scare.cli import export as command
from scare.cli.app import run
from scare.errors import ExitCode
from scare.export.lowering import Arithmetic, Compiled
from scare.export.scare_json import ExportFolder
from scare.export.target import Artefact, Target, check_file_name
from scare.export.targets import TARGETS
from tests.calibrator.building import make_calibrator, newest_plan


def make(compiled: Compiled) -> Artefact:
    """The calibrator's own file is all it writes."""
    model = f"{compiled.name}.scare"
    with TemporaryDirectory() as scratch:
        content = compiled.calibrator.save(Path(scratch) / model).read_bytes()
    files = {model: content, "README.md": "scare predict reads it\n"}
    sizes, summary = {"bytes": len(content)}, (f"{len(content)} bytes",)
    return Artefact(files, model, compiled.name, sizes, summary, compiled.compute, compiled.golden)


def load_and_compute(export: ExportFolder, windows: np.ndarray) -> np.ndarray:
    return Calibrator.load(export.model).compute(windows)


BUNDLE = Target(
    "bundle",
    "Write the calibrator's own file.",
    ("no2.scare --out no2",),
    make,
    runner="calibrator",
    refuses={Arithmetic.FIXED: "a calibrator's own file has no integers: export it in float32"},
    check_name=check_file_name,
)


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    make_calibrator(newest_plan(6)).save("line.scare")
    monkeypatch.setattr(command.app, "registered_commands", [*command.app.registered_commands])
    monkeypatch.setattr(app, "build_command", get_command)  # anew for each line
    monkeypatch.setitem(RUNNERS, "calibrator", (Runner("NumPy", load_and_compute),))
    for target in (BUNDLE, replace(BUNDLE, name="elsewhere", runner="")):
        monkeypatch.setitem(TARGETS, target.name, target)
        command.add_command(target)


def test_it_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--help"]) == 0
    assert "bundle" in capsys.readouterr().out
    assert run(["export", "bundle", "line.scare", "--name", "pm", "--out", "out", "--json"]) == 0
    printed = capsys.readouterr()
    facts = json.loads(printed.out)
    assert (facts["file"], facts["bytes"]) == ("pm.scare", Path("out/pm.scare").stat().st_size)
    assert "scare verify out" in printed.err
    written = {path.name for path in Path("out").iterdir()}
    assert written == {"pm.scare", "README.md", "LICENSE", "golden.safetensors", "scare.json"}


def test_what_it_cannot_do_is_its_own_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "bundle", "line.scare", "--arithmetic", "fixed", "--out", "out"]) == ExitCode.DATA
    assert BUNDLE.refuses[Arithmetic.FIXED] in " ".join(capsys.readouterr().err.split())
    assert run(["export", "bundle", "line.scare", "--board", "uno", "--out", "out"]) == ExitCode.USAGE
    assert "whether bundle would fit" in capsys.readouterr().err
    assert not Path("out").exists()


def test_it_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "bundle", "line.scare", "--out", "out.zip"]) == 0
    capsys.readouterr()
    (compared,) = verify_export(Path("out.zip"))
    assert (compared.model, compared.runtime, compared.windows, compared.reasons) == ("model", "NumPy", 3, ())


def test_without_a_runner_verify_refuses_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "elsewhere", "line.scare", "--out", "out"]) == 0
    assert "scare verify" not in capsys.readouterr().err
    assert run(["verify", "out"]) == ExitCode.DATA
    assert "an export to elsewhere cannot be run on this computer" in capsys.readouterr().err


def test_it_has_a_column_in_the_table_of_formats() -> None:
    (cell,) = support("barkjohn-2021", ["bundle"]).values()
    assert print_cell(cell) == "float32"
    assert cell["fixed"] == BUNDLE.refuses[Arithmetic.FIXED]
