"""`scare update`: a co-location session learned from, or refused with a message; and reverted."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from scare import Calibrator
from scare.calibrator.plan_passes import LEARNED
from tests.cli.output import RunCli
from tests.upkeep.sessions import HOURLY, air, session


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    return HOURLY.save(tmp_path / "pm.scare")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four days of box-1 beside a reference that has drifted away."""
    frame = session(air(4), gain=0.8, offset=6.0).frame.rename({"reference": "reference pm25"})
    path = tmp_path / "box-1.csv"
    frame.select("time", "pm25", "current", "reference pm25").write_csv(path)
    return path


def test_a_session_is_learned_from_and_taken_back(scare: RunCli, shipped: Path, table: Path) -> None:
    output = scare(f"scare update {shipped} {table} --time time --out new.scare --json")
    assert output.code == 0, output.err
    facts = json.loads(output.out)
    assert facts["changed"]
    assert facts["rmse_after"] < facts["rmse_before"]
    assert Calibrator.load("new.scare").facts[LEARNED] == facts["learned"]
    assert "This also changes box-2; add --device box-1 to change one box." in output.err
    output = scare("scare update new.scare --revert --out old.scare")
    assert output.code == 0, output.err
    assert "Reverted all updates" in output.err
    assert Path("old.scare").read_bytes() == shipped.read_bytes()


def test_what_changes_nothing_says_how_long_a_session_must_be(scare: RunCli, shipped: Path, table: Path) -> None:
    pl.read_csv(table).head(18).write_csv("box-1.csv")
    output = scare(f"scare update {shipped} box-1.csv --time time --out new.scare")
    assert output.code == 0, output.err
    assert "calibrated values stay the same" in output.out
    assert "every 8 pairs and tested on the next 8" in output.err


def test_a_wrong_unit_is_refused_and_nothing_is_written(scare: RunCli, shipped: Path, table: Path) -> None:
    wrong = pl.read_csv(table).with_columns(pl.col("reference pm25") * 1000)
    wrong.write_csv("box-1.csv")
    output = scare(f"scare update {shipped} box-1.csv --time time --out new.scare")
    assert output.code == 3
    assert "check that its unit is that of training" in output.err
    assert not Path("new.scare").exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("scare update pm.scare", "name the tables of the co-location session, or use --revert"),
        ("scare update pm.scare --revert", "learned from no co-location session"),
        ("scare update pm.scare box-1.csv --revert", "takes no tables"),
        ("scare update pm.scare box-1.csv --time time --device a --full b.csv", "use one of them"),
        ("scare update pm.scare box-1.csv --time time --full box-1.csv", "does not contain its training settings"),
    ],
)
def test_what_cannot_be_done_is_said(scare: RunCli, shipped: Path, table: Path, line: str, sentence: str) -> None:
    output = scare(line)
    assert output.code == 2
    assert sentence in " ".join(output.err.split())


def test_a_new_box_gets_a_file_of_its_own(scare: RunCli, shipped: Path, table: Path) -> None:
    output = scare(f"scare update {shipped} {table} --time time --device box-9 --out nine.scare --json")
    assert output.code == 0, output.err
    assert list(Calibrator.load("nine.scare").inputs.scaling.devices) == ["box-9"]
    assert json.loads(output.out)["learned"]["devices"] == ["box-9"]


@pytest.mark.slow
def test_the_lines_of_its_page_run(scare: RunCli) -> None:
    page = (Path(__file__).parents[2] / "docs" / "update.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ (scare .*)$", page, re.MULTILINE)
    assert len(lines) == 8
    output = {line: scare(line) for line in lines}
    assert [one.err for one in output.values() if one.code] == []
    assert "and is used from now on" in output[lines[3]].out
    assert Path("pm-1.scare").read_bytes() == Path("pm.scare").read_bytes()
    assert Path("pm_c/model_learning.c").exists()
    assert "retrained" in output[next(line for line in lines if "--full" in line)].out
