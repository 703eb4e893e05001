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
# A line's own options are read too; the last one counts.
BRIEFLY = {
    "simulate": ["--days", "5"],
    "board": ["--windows", "20"],
    "verify": ["--windows", "20"],
    "score": ["--thresholds", "quick.toml"],
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("python")
    assert tuple(re.findall(r"days=\d+|steps=\d+", example)) == ("days=3", "steps=300")
    shorter = example.replace("days=3", "days=1").replace("steps=300", "steps=30")
    (tmp_path / "example.py").write_text(shorter, encoding="utf-8")
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
    assert len(lines) == 10
    (tmp_path / "quick.toml").write_text(QUICK, encoding="utf-8")
    for line in lines:
        if "tflite" in line and not is_installed("tensorflow"):  # which has no wheel for the newest Python yet
            continue
        words = shlex.split(line, comments=True)[1:]
        assert run(words + BRIEFLY.get(words[0], [])) == 0, line
    assert (tmp_path / "calibrated.csv").stat().st_size > 0
    assert (tmp_path / "pm.zip").exists()
    assert "</html>" in (tmp_path / "out" / "pm" / "report.html").read_text(encoding="utf-8")


def test_every_package_is_on_the_map() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "scare").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == packages


def table_row(name: str) -> list[str]:
    """The cells of the README's table of proof in the row whose first cell begins like this."""
    (line,) = (line for line in README.splitlines() if line.startswith(f"| {name}"))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_the_accuracy_it_claims_is_that_of_the_page() -> None:
    page = (ROOT / "docs" / "benchmarks" / "accuracy.md").read_text(encoding="utf-8")
    found = re.search(
        r"lowest error on (\d+) of (\d+) tasks, is significantly worse than another method on (\d+)", page
    )
    by_task = page.split("## All real tasks")[1].split("\n## ")[0].split("| set | task |")[1]
    ratios = [float(number) for number in re.findall(r"\| (\d\.\d{3}) \| [^|]*\|$", by_task, re.MULTILINE)]
    assert found is not None
    lowest, tasks, worse = found.groups()
    assert len(ratios) == int(tasks)
    what, ours, next_best = table_row("RMSE on")
    assert what.startswith(f"RMSE on {tasks} real tasks")
    assert ours == f"{np.exp(np.mean(np.log(ratios))):.2f}"
    methods = dict(re.findall(r"^\| (\S+) \| (\d+\.\d{3}) \| \d+\.\d{3} \| ", page, re.MULTILINE))
    others = [float(ratio) for name, ratio in methods.items() if not name.startswith("scare")]
    assert (len(others), "best of six other methods" in what) == (6, True)
    assert next_best == f"{min(others):.2f}, the next best single choice"
    claim = " ".join(README.split())
    assert f"the lowest error on {lowest} tasks and is significantly worse than another method on {worse}." in claim
    left_out = re.search(r"rules of selection chosen for each of \d+ sets by the other sets, it is (\d\.\d\d)", page)
    assert left_out is not None
    assert f"chosen by leaving whole sets out, it is {left_out[1]}." in claim


def test_the_costs_it_claims_are_those_of_the_board_page() -> None:
    page = (ROOT / "docs" / "benchmarks" / "board.md").read_text(encoding="utf-8")
    rows = {cells[0]: cells[1:] for line in page.splitlines() if len(cells := line.strip("| ").split(" | ")) == 5}
    ours = next(cells for name, cells in rows.items() if re.fullmatch(r"ours: scare, (fixed point|fixed|int8)", name))
    theirs = rows["TFLite-Micro, int8 after training, CMSIS-NN"]
    instructions, ram, flash = (
        [cells[column].split(" (")[0].replace(",", "") for cells in (ours, theirs)] for column in range(3)
    )
    assert table_row("instructions")[1] == f"{int(instructions[0]):,}"
    assert table_row("instructions")[2].startswith(f"{int(instructions[1]):,}, ")
    assert table_row("RAM")[1:] == [f"{int(number) / 1000:.1f} KB" for number in ram]
    assert table_row("flash")[1:] == [f"{int(flash[0]) / 1000:.1f} KB", f"{int(flash[1]) / 1000:.0f} KB"]
    assert table_row("time")[1:] == [f"{float(cells[3]):.1f} ms" for cells in (ours, theirs)]
