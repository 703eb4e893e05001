"""`scare reproduce`: the paper's tables and figures in one folder, labelled, resumed when run again."""

import json
import os
import resource
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.output import RunCli

TINY = """
cities = ["Zagreb"]
pollutants = ["PM10"]
window = 8
seeds = 1
main = ["scare-paper", "raw"]
ablation = ["scare-paper"]
adaptability = ["scare-paper", "raw"]
thresholds = [0.05, 0.2]
board = ["dlinear"]
board_windows = [15]
board_name = "nano33ble"
board_trials = 2
figure_trials = 2
most_rows = 0
settings = { steps = 20 }
simulation = { boxes = 3, days = 0.5, seed = 2 }

[speeds.60]
scare = 20000
"""
DESCRIBED = """
about = "three boxes"
files = "*.csv"
[data]
time = "date"
[pollutants.PM10]
channels = ["5310CAT"]
reference = "OPCN3PM10"
[places.first]
validation = "Zagreb_648169"
test = "Zagreb_649738"
[places.second]
validation = "Zagreb_649738"
test = "Zagreb_64C52B"
"""
NAMES = ("checklist", "main", "ablation", "adaptability", "board")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


def write_zagreb(folder: Path) -> None:
    """Three sensors beside their OPC-N3 at a reference site, as the record has them."""
    times = [datetime(2020, 9, 1, tzinfo=UTC) + timedelta(minutes=minute) for minute in range(400)]
    for index, sensor in enumerate(("64C52B", "648169", "649738")):
        level = 20 + 8 * np.sin(np.arange(400) / 40 + index)
        columns = {"date": [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in times], "Location.ID": "ZAG_REF_X"}
        columns |= {"5310CAT": np.rint(1.4 * level), "OPCN3PM10": level}
        pl.DataFrame(columns).write_csv(folder / f"Zagreb_{sensor}.csv")


@pytest.mark.slow
def test_all_five_are_written_with_their_label(scare: RunCli, tiny: Path) -> None:
    output = scare(f"scare reproduce all --quick --config {tiny} --jobs 1 --out run")
    assert output.code == 0, output.err
    assert "SIMULATED stand-in" in output.err
    assert "at a time. Expected: less than a minute" in output.err
    for name in NAMES:
        for kind in ("md", "csv", "json"):
            text = Path(f"run/{name}.{kind}").read_text(encoding="utf-8")
            assert ("SIMULATED" in text) is (name != "board"), name
            assert ("no reading is used" if name == "board" else "mean nothing about accuracy") in text, name
    for name in NAMES[1:]:
        assert Path(f"run/{name}.png").read_bytes()[:4] == b"\x89PNG"
    facts = json.loads(Path("run/protocol.json").read_text(encoding="utf-8"))
    assert facts["protocol"]["seeds"] == 1
    assert "jax" in facts["versions"]


def test_the_checklist_has_a_grade_of_ours_and_the_papers(scare: RunCli, tiny: Path) -> None:
    scare(f"scare reproduce checklist --quick --config {tiny} --jobs 1 --out run")
    (row,) = json.loads(Path("run/checklist.json").read_text(encoding="utf-8"))["tables"]["checklist"]
    assert row["method"] == "scare-paper"
    assert {row[name] for name in row if not name.startswith("paper_")} <= {"O", "△", "X", "", "scare-paper"}
    assert row["memory"] == "O"
    assert row["paper_memory"] == "O"


def test_run_again_it_fits_and_measures_nothing_again(scare: RunCli, tiny: Path) -> None:
    line = f"scare reproduce main --quick --config {tiny} --jobs 1 --out run"
    scare(line)
    kept = [*Path("run").rglob("rows/*"), *Path("run").rglob("measured/*")]
    stamps = {path: path.stat().st_mtime_ns for path in kept}
    assert len(stamps) > 6
    output = scare(line)
    assert "0 fits to run" in output.err
    assert {path: path.stat().st_mtime_ns for path in kept} == stamps


def test_the_papers_data_are_read_when_given(scare: RunCli, tiny: Path) -> None:
    folder = Path("senseurcity")
    folder.mkdir()
    write_zagreb(folder)
    output = scare(f"scare reproduce adaptability --config {tiny} --data senseurcity --jobs 1 --out run --json")
    assert output.code == 0, output.err
    facts = json.loads(output.out)
    assert "SensEURCity" in facts["notes"][0]
    assert "SIMULATED" not in "".join(facts["notes"])
    task = json.loads(Path("run/tasks/Zagreb-PM10/task.json").read_text(encoding="utf-8"))
    assert task["how"] == "by sensor, in the published order: validation 648169; test 649738"
    assert {Path(path).suffix for path in facts["files"]} == {".md", ".json", ".csv", ".png"}


def write_described(folder: Path) -> Path:
    """The same three sensors as a data set of one's own."""
    folder.mkdir()
    write_zagreb(folder)
    path = Path("mine.toml")
    path.write_text(DESCRIBED, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_described_data_set_takes_the_test_box_in_turns_and_chooses_rates_on_validation(
    scare: RunCli, tiny: Path
) -> None:
    path, change = write_described(Path("boxes")), "--set rates=[0.001,0.05] --set seeds=2"
    line = f"scare reproduce main --quick --config {tiny} --data {path} --files boxes {change} --jobs 1 --out run"
    output = scare(f"{line} --jobs 0")
    assert output.code == 0, output.err
    assert "8 fits to run" in output.err  # in each of two places two rates, another seed, and raw
    assert "Not finished: scare-paper: first-PM10, second-PM10" in Path("run/main.md").read_text(encoding="utf-8")
    output = scare(line)
    assert output.code == 0, output.err
    facts = json.loads(Path("run/main.json").read_text(encoding="utf-8"))
    assert "three boxes; not the paper's data" in facts["notes"][0]
    assert facts["protocol"]["places"] == ["first", "second"]
    assert facts["protocol"]["pollutants"] == ["PM10"]
    assert "cities" not in facts["protocol"]
    choices = facts["tables"]["main-choices"]
    assert [row["place"] for row in choices] == ["first", "second"]
    for row in choices:
        assert row["rate"] == (0.001 if row["at 0.001"] < row["at 0.05"] else 0.05)
        assert row["means"].endswith("of 2")
    cells = {(row["place"], row["method"]): row["seeds"] for row in facts["tables"]["main-cells"]}
    assert cells == {
        ("first", "scare-paper"): 2,
        ("first", "raw"): 1,
        ("second", "scare-paper"): 2,
        ("second", "raw"): 1,
    }


def test_teslas_windows_and_the_alphabetical_split_are_choices(scare: RunCli, tiny: Path) -> None:
    path = write_described(Path("boxes"))
    change = "--set window_rule=tesla --set sensor_order=alphabetical"
    output = scare(
        f"scare reproduce adaptability --config {tiny} --data {path} --files boxes {change} --jobs 1 --out run"
    )
    assert output.code == 0, output.err
    test = pl.read_parquet("run/tasks/first-PM10/data/test-0.parquet")
    assert test["reference"].is_not_null().sum() == 400 - 8  # all but those without a window, and the last row
    output = scare(f"scare reproduce adaptability --config {tiny} --data boxes {change} --jobs 1 --out other")
    assert output.code == 3
    assert "no readings of Zagreb 652A38, the validation sensor of the alphabetical split" in output.err


@pytest.mark.slow
def test_what_was_fitted_stays_told_after_a_run_of_the_board_alone(scare: RunCli, tiny: Path) -> None:
    scare(f"scare reproduce adaptability --quick --config {tiny} --jobs 1 --out run")
    printed = Path("run/protocol.json").read_text(encoding="utf-8")
    tiny.write_text(TINY.replace("steps = 20", "steps = 30"), encoding="utf-8")
    output = scare(f"scare reproduce board --quick --config {tiny} --out run")
    assert output.code == 0, output.err
    assert Path("run/protocol.json").read_text(encoding="utf-8") == printed
    facts = json.loads(Path("run/board.json").read_text(encoding="utf-8"))
    assert facts["protocol"]["settings"] == {"steps": 30}


def test_a_folder_without_the_data_says_what_is_missing(scare: RunCli, tiny: Path) -> None:
    Path("empty").mkdir()
    output = scare(f"scare reproduce main --config {tiny} --data empty --out run")
    assert output.code == 3
    assert "has no file of a " in output.err


def test_data_that_are_not_there_are_refused_even_by_the_board_which_reads_none(scare: RunCli, tiny: Path) -> None:
    output = scare(f"scare reproduce board --config {tiny} --data nowhere --out run")
    assert output.code == 3
    assert "--data nowhere: there is no such file or folder" in output.err
    assert not Path("run").exists()


def processor_seconds() -> float:
    """What processes that this one started, and theirs, have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_all_of_it_quickly(tmp_path: Path) -> None:
    before = processor_seconds()
    command = [sys.executable, "-c", "from scare.cli import main; main()", "reproduce", "all", "--quick"]
    environment = {name: value for name, value in os.environ.items() if name != "JAX_DISABLE_MOST_OPTIMIZATIONS"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "reproduce-simulated-quick"
    facts = json.loads((folder / "main.json").read_text(encoding="utf-8"))
    assert not [note for note in facts["reading"] if note.startswith("No score")]
    rows = facts["tables"]["main"]
    assert len(rows) == 11
    assert all(row["PM10"] > 0 and row["max_latency"] > 0 for row in rows)
    assert {path.name for path in folder.glob("*.png")} == {f"{name}.png" for name in NAMES[1:]}
    assert processor_seconds() - before < 2 * 600  # ten minutes of two cores
