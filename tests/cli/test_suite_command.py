"""`scare suite` on small sets: any method on the same rows, a leaderboard that is checked from the files."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.baselines.classical import BASELINES
from scare.cli.app import run
from scare.experiments.leaderboard import SIMPLE, read_leaderboard
from scare.experiments.suite_tasks import SUITE, Track, read_suite
from tests.cli.output import Output, RunCli

HOURS = 480
TASKS = """
[[set]]
name = "made up"
address = "https://example.org/made-up"
licence = "CC0-1.0"
download = "{download}"
[set.files]
"boxes/b0.csv" = "{b0}"
"boxes/b1.csv" = "{b1}"
"boxes/b2.csv" = "{b2}"

[[task]]
name = "made up, later"
set = "made up"
files = "boxes/*.csv"
time = ["time"]
channels = ["raw", "T"]
reference = "ref"
window = 6
borders = ["2026-01-12", "2026-01-15"]

[[task]]
name = "made up, box 2"
set = "made up"
track = "new box"
files = "boxes/*.csv"
time = ["time"]
channels = ["raw", "T"]
reference = "ref"
window = 6
borders = ["2026-01-12", "2026-01-15"]
test = "b2"
"""
RUN = "scare suite run --suite suite.toml --files data --out out --methods"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def write_set(folder: Path, download: str = "") -> None:
    """Three boxes, twenty days of hours, and the suite of them."""
    digests = {}
    for box in range(3):
        rng = np.random.default_rng(box)
        truth, heat = 30 + rng.normal(size=HOURS).cumsum() / 3, rng.normal(size=HOURS)
        hours = pl.datetime_range(pl.datetime(2026, 1, 1), pl.datetime(2026, 1, 20, 23), "1h", eager=True)
        columns = {"time": hours, "raw": 2 * truth + heat + rng.normal(size=HOURS), "T": heat, "ref": truth}
        path = folder / "data" / "boxes" / f"b{box}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(columns).write_csv(path)
        digests[path.stem] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "suite.toml").write_text(TASKS.format(download=download, **digests))


def references(task: str = "made up, later", boxes: tuple[str, ...] = ("b0", "b1", "b2")) -> pl.DataFrame:
    """The test rows of a task, straight from the files: from a window (6 hours) after the border on."""
    tables = [
        pl.read_csv(f"data/boxes/{box}.csv", try_parse_dates=True).with_columns(device=pl.lit(box)) for box in boxes
    ]
    rows = pl.concat(tables).filter(pl.col("time") >= pl.datetime(2026, 1, 15, 6))
    return rows.select(pl.lit(task).alias("task"), "device", "time", "ref")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small set, run with the six simple baselines."""
    folder = tmp_path_factory.mktemp("suite")
    write_set(folder)
    paths = f"--suite {folder}/suite.toml --files {folder}/data --out {folder}/out"
    assert run(f"suite run {paths} --methods ridge".split()) == 0
    return folder


@pytest.fixture
def suite(scare: RunCli, ran: Path, tmp_path: Path) -> RunCli:
    """Types a line in a folder with the small set and its results."""
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    return scare


def scores(output: Output) -> dict[str, dict[str, dict[str, float]]]:
    """By task, then by method."""
    return {one["facts"]["task"]: one["scores"] for one in json.loads(output.out)["tasks"]}


@pytest.mark.slow
def test_predictions_of_any_program_are_scored_on_the_rows_of_the_files(suite: RunCli) -> None:
    ref = pl.col("ref")
    rows = references().with_columns(value=ref + 1, low=ref - 1, high=ref + 3)
    rows.drop("ref").write_csv("plus-one.csv")
    Path("plus-one.json").write_text(json.dumps({"made up, later": {"bytes": 40, "instructions": 7}}))
    found = suite(f"{RUN} plus-one.csv --json")
    assert found.code == 0, found.err
    later = scores(found)["made up, later"]
    ridge = pl.read_csv("out/predictions/ridge.csv", try_parse_dates=True).filter(task="made up, later")
    joined = rows.join(ridge.with_columns(pl.col("time").dt.replace_time_zone(None)), on=["device", "time"])
    assert joined.height == rows.height == 3 * (HOURS - 14 * 24 - 6)
    error = joined.select(((pl.col("value_right") - ref) ** 2).mean().sqrt()).item()
    assert later["ridge"]["rmse"] == pytest.approx(error)
    best = min(one["rmse"] for name, one in later.items() if name in SIMPLE)
    assert later["plus-one"] == pytest.approx(
        {"rmse": 1.0, "ratio": 1 / best, "coverage": 1.0, "width": 4 / best, "bytes": 40, "instructions": 7}
    )
    assert "plus-one" not in scores(found)["made up, box 2"]
    table = Path("out/leaderboard.md").read_text()
    assert f"| plus-one | 1 | {1 / best:.2f} |" in table
    page = Path("out/leaderboard.html").read_text()
    assert "plus-one" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_method_without_a_value_for_a_row_has_no_score_and_takes_no_rows(suite: RunCli) -> None:
    before = read_leaderboard(Path("out"))
    rows = references().with_columns(value=pl.col("ref")).drop("ref")
    rows[1:].write_csv("lazy.csv")
    assert suite(f"{RUN} lazy.csv").code == 0
    after = read_leaderboard(Path("out"))
    assert [(one.rows, one.sha256) for one in after.tasks] == [(one.rows, one.sha256) for one in before.tasks]
    assert [one.failed for one in after.tasks if one.failed] == [{"lazy": f"no value for 1 of {rows.height} rows"}]


def test_a_run_resumes(suite: RunCli) -> None:
    rows = {path: path.stat().st_mtime_ns for path in Path("out/tasks").glob("*/rows/*.npy")}
    board = Path("out/leaderboard.json").read_text()
    assert suite(f"{RUN} linear").code == 0
    assert {path: path.stat().st_mtime_ns for path in rows} == rows
    assert Path("out/leaderboard.json").read_text() == board


def test_a_leaderboard_is_checked_from_the_files(suite: RunCli) -> None:
    line = "scare suite verify out --suite suite.toml --files data"
    assert suite(line).code == 0
    path = Path("out/predictions/ridge.csv")
    text = path.read_text()
    lines = text.splitlines()
    *key, value, low, high = lines[9].split(",")
    path.write_text("\n".join([*lines[:9], ",".join([*key, f"{float(value) + 3}", low, high]), *lines[10:]]) + "\n")
    output = suite(line)
    assert output.code == 5
    assert "ridge: out/predictions/ridge.csv is missing or was changed" in output.err
    assert "ridge: rmse is" in " ".join(output.err.split())
    board, recorded = Path("out/leaderboard.json"), hashlib.sha256(text.encode()).hexdigest()
    board.write_text(board.read_text().replace(recorded, hashlib.sha256(path.read_bytes()).hexdigest()))
    output = suite(line)  # the sha256 was changed too, the scores were not
    assert output.code == 5
    assert "was changed" not in output.err
    assert "ridge: rmse is" in " ".join(output.err.split())


@pytest.mark.slow
def test_instructions_are_counted_on_a_board(suite: RunCli) -> None:
    found = suite(f"{RUN} ridge --board nano33ble --json")
    assert found.code == 0, found.err
    later = scores(found)["made up, later"]
    assert 0 < later["linear"]["instructions"] < later["ridge"]["instructions"]
    assert later["boosting"]["instructions"] is None


def test_changed_files_are_found(suite: RunCli) -> None:
    file = Path("data/boxes/b1.csv")
    file.write_text(file.read_text().replace(",", ";"))
    output = suite("scare suite verify out --suite suite.toml --files data")
    assert output.code == 5
    assert "made up, later: boxes/b1.csv is missing or was changed" in output.err
    output = suite(f"{RUN} ridge")
    assert output.code == 3
    assert "data/boxes/b1.csv does not match the file in the set made up" in " ".join(output.err.split())


def test_training_rows_that_were_exchanged_are_found(suite: RunCli) -> None:
    (path,) = Path("out/tasks").glob("*box-2/task.json")
    task = json.loads(path.read_text())
    task["readings"]["train"][0]["sha256"] = "0" * 64
    path.write_text(json.dumps(task))
    output = suite("scare suite verify out --suite suite.toml --files data")
    assert output.code == 5
    assert "made up, box 2: the methods were trained on readings that differ from those in the files" in output.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("task,device,time\nmade up,b0,2026-01-16", "value"),
        ("task,device,time,value\nmade up,b0,2026-01-16T00:00Z,much", "'much' in line 2"),
        ("task,device,time,value\nmade up,b0,2026-01-16T00:00Z,1", "no task is called 'made up'; did you mean"),
        ("task,device,time,value\nmade up,,2026-01-16T00:00Z,1", "line 2: the task or the device is missing"),
        ("task,device,time,value\nmade up\\, later,b9,2026-01-16T00:00Z,1", "has no test rows for these tasks"),
        ("task,device,time,value,low,high\na,b,2026-01-16T00:00Z,1,3,2", "line 2: low is above high"),
        ("task,device,time,value\na,b,2026-01-16T00:00Z,1\na,b,2026-01-16T00:00Z,1", "line 3: an earlier row has the"),
    ],
)
def test_a_table_of_predictions_that_cannot_be_used_is_refused(suite: RunCli, text: str, problem: str) -> None:
    Path("mine.csv").write_text(text.replace("made up\\, later", '"made up, later"'))
    output = suite(f"{RUN} mine.csv")
    assert output.code == 3
    assert problem in " ".join(output.err.split())


def test_predictions_cannot_take_the_name_of_a_method(suite: RunCli) -> None:
    references().with_columns(value=pl.col("ref")).drop("ref").write_csv("ridge.csv")
    output = suite(f"{RUN} ridge.csv")
    assert output.code == 2
    assert "'ridge' is already the name of a method" in " ".join(output.err.split())


@pytest.fixture
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder on the web, and its address."""
    folder = tmp_path_factory.mktemp("web")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/data/"
        server.shutdown()


@pytest.mark.slow
def test_files_are_downloaded_and_must_be_the_right_ones(scare: RunCli, web: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = web
    write_set(folder, address)
    (tmp_path / "suite.toml").write_bytes((folder / "suite.toml").read_bytes())
    assert "no task has its files in data" in " ".join(scare(f"{RUN} ridge").err.split())
    output = scare(f"{RUN} ridge --fetch")
    assert output.code == 0, output.err
    assert Path("data/boxes/b2.csv").read_bytes() == (folder / "data/boxes/b2.csv").read_bytes()
    Path("data/boxes/b2.csv").unlink()
    (folder / "data/boxes/b2.csv").write_text("time,raw,T,ref\n")
    output = scare(f"{RUN} ridge --fetch")
    assert output.code == 3
    assert "b2.csv arrived with a wrong checksum and was removed" in " ".join(output.err.split())
    assert not Path("data/boxes/b2.csv").exists()


METHOD = """
import polars as pl


class Halved:
    facts = {"parameters": 1, "bytes": 4}

    def predict(self, readings):
        assert readings.reference is None and "reference" not in readings.frame.columns
        half = pl.col(readings.channels[0].name) / 2
        return readings.frame.with_columns(calibrated=half, low=half - 2, high=half + 2)


def fit(train, validation, window):
    assert window == 6 and all(one.reference is not None for one in (*train, *validation))
    return Halved()
"""


@pytest.mark.slow
def test_a_method_of_an_installed_package_runs_in_processes_of_its_own(tmp_path: Path) -> None:
    write_set(tmp_path)
    package = tmp_path / "package"
    info = package / "halved-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "halved.py").write_text(METHOD)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: halved\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[scare.methods]\nhalved = halved:fit\n")
    paths = [str(package), str(Path(__file__).parents[2])]
    line = [sys.executable, "-m", "scare", *f"{RUN} halved --jobs 2 --tasks later --json".split()[1:]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    (task,) = json.loads(done.stdout)["tasks"]
    assert task["scores"]["halved"]["bytes"] == 4
    assert task["scores"]["halved"]["coverage"] == pytest.approx(0.99, abs=0.02)  # the error is N(0, 1/√2), ±2


def test_the_simple_baselines_exist() -> None:
    assert {*SIMPLE} <= {*BASELINES}


def test_the_public_suite_says_where_its_files_come_from() -> None:
    suite = read_suite([SUITE])
    sets = {one.name: one for one in suite.set}
    for one in sets.values():
        assert one.address.startswith("https://")
        assert one.licence
        assert all(len(digest) == 64 for digest in one.files.values())
    assert {task.track for task in suite.task} == {*Track}
    assert all(task.files in sets[task.set].files for task in suite.task)
    assert {file for one in sets.values() for file in one.files} == {task.files for task in suite.task}
