"""The README is true: its Python runs, its command lines run, its packages exist."""

import re
import runpy
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scare.cli.app import run
from scare.extras import is_installed
from scare.training.recipe import PRESETS
from tests.cli.test_score_command import QUICK

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("python")
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    names = runpy.run_path(str(tmp_path / "example.py"))
    assert names["value"] == pytest.approx(names["table"]["calibrated"][-1], rel=1e-5)


def train_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The presets' networks, after a few steps."""
    for name, preset in PRESETS.items():
        monkeypatch.setitem(PRESETS, name, replace(preset, settings=replace(preset.settings, steps=100, checkpoints=2)))


def test_the_command_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train_for_a_moment(monkeypatch)
    others = (
        "box*.csv",
        "scare live",
        "scare fetch",
        "scare open",
    )  # need files or a network, or work until they are ended
    own = [block for block in blocks("console") if not any(word in block for word in others)]
    lines = [line[2:] for block in own for line in block.splitlines() if line.startswith("$ scare")]
    assert len(lines) == 13
    (tmp_path / "quick.toml").write_text(QUICK, encoding="utf-8")  # measured briefly
    for line in lines:
        if "tflite" in line and not is_installed("tensorflow"):  # which has no wheel for the newest Python yet
            continue
        briefly = ["--thresholds", "quick.toml"] if line.startswith("scare score") else []
        assert run(shlex.split(line, comments=True)[1:] + briefly) == 0, line
    assert (tmp_path / "calibrated.csv").stat().st_size > 0
    assert (tmp_path / "pm_c" / "model.c").exists()
    assert "</html>" in (tmp_path / "out" / "pm" / "report.html").read_text(encoding="utf-8")


def test_every_package_is_on_the_map() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "scare").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == packages


def test_the_accuracy_it_claims_is_that_of_the_page() -> None:
    page = (ROOT / "docs" / "benchmarks" / "accuracy.md").read_text(encoding="utf-8")
    said = re.search(r"lowest error on (\d+) of (\d+) tasks, is significantly worse than another method on (\d+)", page)
    by_task = page.split("## All real tasks")[1].split("\n## ")[0].split("| set | task |")[1]
    ratios = [float(number) for number in re.findall(r"\| (\d\.\d{3}) \| [^|]*\|$", by_task, re.MULTILINE)]
    assert said is not None
    lowest, tasks, worse = said.groups()
    assert len(ratios) == int(tasks)
    mean, without_best = (np.exp(np.mean(np.log(sorted(ratios)[skipped:]))) for skipped in (0, 1))
    claim = " ".join(README.split())
    assert f"On {tasks} real tasks" in claim
    assert f"{mean:.2f} of its RMSE (geometric mean; {without_best:.2f} without one task)" in claim
    assert f"the lowest on {lowest}, significantly worse on {worse}." in claim
    methods = dict(re.findall(r"^\| (\S+) \| (\d\.\d{3}) \| \d\.\d{3} \| ", page, re.MULTILINE))
    others = [float(ratio) for name, ratio in methods.items() if not name.startswith("scare")]
    assert (len(others), "whichever of thirteen other methods" in claim) == (13, True)
    assert f"The next best single choice has {min(others):.2f}." in claim
