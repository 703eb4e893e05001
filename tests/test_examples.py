"""The notebooks of docs/examples run from top to bottom, as `marimo` runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copy
from zipfile import ZipFile

import pytest

from scare import Calibrator

ROOT = Path(__file__).parents[1]


def run_notebook(name: str, folder: Path) -> str:
    """What a notebook prints; it is copied to this folder and works there."""
    page = copy(ROOT / "docs" / "examples" / f"{name}.md", folder)
    command = [sys.executable, "-m", "marimo", "export", "html", str(page), "--output", f"{name}.html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_no2_from_a_folder_of_csvs(tmp_path: Path) -> None:
    printed = run_notebook("no2", tmp_path)
    errors = {name: float(error) for name, error in re.findall(r"(\w+): RMSE ([\d.]+) ppb", printed)}
    assert errors["scare"] < 0.8 * errors["line"]
    assert len(list((tmp_path / "boxes").glob("*.csv"))) == 4
    assert Calibrator.load(tmp_path / "no2.scare").target.unit == "ppb"


@pytest.mark.slow
def test_a_particle_box_to_arduino(tmp_path: Path) -> None:
    assert "PASSED" in run_notebook("arduino", tmp_path)
    assert "pm/library.properties" in ZipFile(tmp_path / "pm.zip").namelist()
    assert (tmp_path / "run" / "scorecard.json").exists()
