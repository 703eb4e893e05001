"""`scare compare`: one table for everyone, resumed when run again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare import Calibrator
from tests.cli.output import RunCli
from tests.cli.small_tables import CHANNELS, colocation, write
from tests.scorecard.own_targets import HOURLY

QUICK = "--models linear,multiple-linear,ridge --windows 8"


def test_everyone_is_in_the_table_the_files_and_the_figure(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} {QUICK} --out study")
    assert output.code == 0, output.err
    for shown in (*QUICK.split()[1].split(","), "RMSE", "MAE", "R²", "slope", "intercept", "bytes", "training [s]"):
        assert shown in output.out
    rows = json.loads(Path("study/table.json").read_text())
    assert pl.read_csv("study/table.csv")["method"].to_list() == [row["method"] for row in rows]
    assert Path("study/comparison.png").read_bytes()[:4] == b"\x89PNG"


def test_a_table_is_printed_as_markdown(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} {QUICK} --out study --format markdown")
    assert output.code == 0, output.err
    lines = [line for line in output.out.splitlines() if line.startswith("|")]
    head = ["", "RMSE", "RMSE − scare [95 %]", "top-5 %", "MAE", "bias", "R²", "slope", "intercept"]
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == head
    assert set(lines[1]) == set("|-:")
    best = json.loads(Path("study/table.json").read_text())[0]
    cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    assert (cells[0].removeprefix("★ "), cells[1], cells[5]) == (
        best["method"],
        f"{best['rmse']:.4g}",
        f"{best['bias']:.3g}",
    )


@pytest.mark.slow
def test_tables_of_several_tasks_are_one_in_latex(scare: RunCli, sim: Path) -> None:
    scare(f"scare compare {sim} {QUICK} --out first")
    output = scare(f"scare compare {sim} --models linear,ridge --windows 12 --out second --format latex --beside first")
    assert output.code == 0, output.err
    rows = [json.loads(Path(f"{name}/table.json").read_text()) for name in ("first", "second")]
    errors = [{row["method"]: row["rmse"] for row in one} for one in rows]
    ratio = np.sqrt(np.prod([one["ridge"] / min(one.values()) for one in errors]))
    (ridge,) = [line for line in output.out.splitlines() if line.startswith("ridge") and line.count("&") == 5]
    cells = [cell.strip(" \\") for cell in ridge.split("&")]
    assert [cells[1], cells[3], cells[5]] == [f"{errors[0]['ridge']:.4g}", f"{errors[1]['ridge']:.4g}", f"{ratio:.3f}"]
    assert output.out.count(r"\begin{tabular}") == output.out.count(r"\end{tabular}") == 3
    assert "top-5 \\%" in output.out
    again = scare(f"scare compare {sim} --models linear --windows 12 --out second --beside first --json")
    assert {one["label"] for one in json.loads(again.out)["over_tasks"]} == {"linear", "multiple-linear", "ridge"}


@pytest.mark.slow
def test_methods_are_graded_against_targets(scare: RunCli, sim: Path, tmp_path: Path) -> None:
    (tmp_path / "hourly.toml").write_text(HOURLY)
    output = scare(f"scare compare {sim} {QUICK} --out study --targets hourly.toml")
    assert output.code == 0, output.err
    assert "Hourly PM2.5: relative expanded uncertainty and classes" in output.out
    again = json.loads(scare(f"scare compare {sim} {QUICK} --out study --targets hourly.toml --json").out)
    found = {one["method"]: one for one in again["targets"]["hourly"]}
    assert set(found) == {"linear", "multiple-linear", "ridge"}
    for one in found.values():
        assert 0 < one["uncertainty"] <= one["worst"]
        assert sum(one["classes"].values()) == pl.read_parquet(sim)["device"].n_unique()


def test_a_folder_without_a_comparison_is_named(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} {QUICK} --out study --beside nowhere")
    assert output.code == 3
    assert "nowhere has no table of a comparison (table.json)" in output.err


def test_json_is_all_there_is_on_stdout(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} {QUICK} --out study --json")
    rows = json.loads(output.out)["rows"]
    assert {row["method"] for row in rows} == {"linear", "multiple-linear", "ridge"}
    assert all(row["rmse"] > 0 and row["rows"] == rows[0]["rows"] for row in rows)


def test_run_again_it_fits_nothing_again(scare: RunCli, sim: Path) -> None:
    scare(f"scare compare {sim} {QUICK} --out study")
    stamps = {path: path.stat().st_mtime_ns for path in Path("study/rows").iterdir()}
    assert scare(f"scare compare {sim} {QUICK} --out study").code == 0
    assert {path: path.stat().st_mtime_ns for path in Path("study/rows").iterdir()} == stamps


@pytest.mark.slow
def test_a_network_runs_with_every_seed(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} --models scare,raw --windows 8,12,8 --seeds 2 --out study --json")
    rows = {(row["method"], row["window"]): row for row in json.loads(output.out)["rows"]}
    assert len(json.loads(output.out)["rows"]) == len(rows) == 4
    assert rows["scare", 8]["seeds"] == rows["scare", 12]["seeds"] == 2
    assert rows["raw", 8]["seeds"] == 1
    assert rows["raw", 8]["to_ours_difference"] > 0
    assert rows["raw", 8]["to_ours_low"] is None  # hours of test rows are too few for an interval


def test_a_config_names_the_models_and_trains_them_all(scare: RunCli, sim: Path) -> None:
    Path("c.toml").write_text(
        "[compare]\nmodels = ['scare', 'scare-3', 'raw']\nwindows = [8]\nseeds = 2\n"
        "[training]\nsteps = 20\nmembers = 1\nseed = 9\n"
    )
    output = scare(f"scare compare {sim} --config c.toml --seeds 1 --out study --json")
    assert {row["method"]: row["seeds"] for row in json.loads(output.out)["rows"]} == {
        **{"scare": 1, "scare-3": 1, "raw": 1},
    }
    for name, members in (("scare", 1), ("scare-3", 3)):
        settings = Calibrator.load(f"study/rows/{name}-w8-s0.scare").facts["settings"]
        assert (settings["steps"], settings["members"], settings["seed"]) == (20, members, 0)


@pytest.mark.slow
def test_networks_keep_to_the_budget_and_the_rules_of_selection(scare: RunCli, sim: Path) -> None:
    command = f"scare compare {sim} --models scare,linear --windows 8 --seeds 1 --set training.steps=20"
    over = scare(f"{command} --out over --set budget.instructions=1")
    assert over.code == 0, over.err
    assert "scare has no score: " in over.err
    assert "Raise the limit" in over.err
    output = scare(f"{command} --out plain --set selection.trees=false")
    assert output.code == 0, output.err
    assert json.loads(Path("plain/task.json").read_text())["settings"]["selection"]["trees"] is False


def test_the_interval_is_shown_and_the_winner_has_a_star(scare: RunCli) -> None:
    scare("scare simulate --boxes 2 --days 5 --seed 1 --out days.parquet")
    output = scare("scare compare days.parquet --models scare,raw --windows 8 --seeds 2 --out study")
    assert output.code == 0, output.err
    assert "★ scare" in output.out
    assert "±" in output.out
    (raw,) = (row for row in json.loads(Path("study/table.json").read_text()) if row["method"] == "raw")
    assert 0 < raw["to_ours_low"] <= raw["to_ours_difference"] <= raw["to_ours_high"]


def test_a_correction_for_another_pollutant_is_a_line_with_its_reason(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} --models linear,kappa-koehler-pm10 --windows 8 --out study")
    assert output.code == 0
    assert "kappa-koehler-pm10 has no score:" in output.err


def test_a_comparison_without_any_score_gives_the_reasons(scare: RunCli, sim: Path) -> None:
    output = scare(f"scare compare {sim} --models kappa-koehler-pm10 --windows 8 --out study")
    assert output.code == 3
    assert "kappa-koehler-pm10 has no score: is for PM10" in output.err
    assert "scare: no method has a score; the reasons are in study/table.csv" in output.err


def test_a_dead_box_is_left_out_and_the_result_says_so(scare: RunCli) -> None:
    for number in range(3):
        frame = colocation(600, number)
        write(frame if number else frame.with_columns(pl.lit(-999.0).alias("T")), f"box{number}.csv")
    columns = f"--time date {CHANNELS} --reference Ref.NO2"
    output = scare(f"scare compare box0.csv box1.csv box2.csv {columns} {QUICK} --out study --json")
    alive = scare(f"scare compare box1.csv box2.csv {columns} {QUICK} --out alive --json")
    dead = "box0 is left out: T has no usable value; use --channels NO2,OX,RH to leave it out"
    assert dead in output.err
    assert json.loads(output.out)["left_out"] == [dead]
    assert "left_out" not in json.loads(alive.out)
    first, second = ({row["method"]: row["rmse"] for row in json.loads(one.out)["rows"]} for one in (output, alive))
    assert first == second
    assert Calibrator.load("study/rows/ridge-w8-s0.scare").facts["left_out"] == [dead]


def test_a_baseline_without_its_inputs_says_what_it_needs(scare: RunCli) -> None:
    write(colocation(600).rename({"NO2": "PM2.5", "Ref.NO2": "Ref.PM2.5"}), "box.csv")
    columns = "--time date --channels PM2.5,T --reference Ref.PM2.5"
    output = scare(f"scare compare box.csv {columns} --models linear,barkjohn-2021 --windows 8 --out study")
    assert output.code == 0, output.err
    assert "barkjohn-2021 has no score: needs RH: no channel has such a name; the channels are PM2.5, T" in output.err


def test_a_window_longer_than_any_run_is_a_line_that_says_how_long_the_longest_is(scare: RunCli) -> None:
    broken = colocation(3000).filter(pl.int_range(pl.len()) % 80 < 40)
    write(broken, "box.csv")
    columns = f"box.csv --time date {CHANNELS} --reference Ref.NO2"
    reason = "the longest run without a gap is 40 readings, and a window of 100 needs 60"
    output = scare(f"scare compare {columns} --models linear,ridge,scare --windows 8,100 --seeds 1 --out study")
    assert output.code == 0, output.err
    for name in ("ridge", "scare"):
        assert f"{name} has no score: validation: too few rows for one window" in output.err
    assert output.err.count(reason) == 2
    refused = scare(f"scare train {columns} --window 100 --split time --out m.scare")
    assert refused.code == 3
    assert reason in refused.err


def test_the_file_may_say_what_is_train_and_test(scare: RunCli) -> None:
    table = colocation(600, 1)
    thirds = pl.int_range(pl.len()) * 3 // pl.len()
    labelled = table.with_columns(part=thirds.replace_strict({0: "train", 1: "validate", 2: "test"}))
    write(labelled, "box.csv")
    line = f"scare compare box.csv --time date {CHANNELS} --reference Ref.NO2 {QUICK} --out study --json"
    Path("c.toml").write_text("[split]\ncolumn = 'part'\n")
    output = scare(f"{line} --config c.toml")
    assert output.code == 0, output.err
    assert json.loads(output.out)["split"] == "by the labels of a column"
    assert json.loads(output.out)["rows"][0]["rows"] > 150


def test_bad_requests_are_refused_in_a_sentence(scare: RunCli, sim: Path) -> None:
    Path("c.toml").write_text("[split]\ncolumn = 'part'\n")
    for line, reason in (
        (f"scare compare {sim} --models lineer --out study", "no model called 'lineer'; did you mean 'linear'?"),
        *((f"scare compare {sim} --windows '{text}' --out study", "a window ") for text in ("sixty", "8,0", "")),
        (f"scare compare {sim} {QUICK} --config c.toml --out study", "no column 'part'"),
        ("scare compare missing.csv --out study", "missing.csv"),
    ):
        output = scare(line)
        assert output.code in (2, 3)
        assert reason in output.err
        assert "Traceback" not in output.err
        assert not Path("study").exists()


def test_another_task_in_the_folder_is_refused(scare: RunCli, sim: Path) -> None:
    scare(f"scare compare {sim} {QUICK} --out study")
    Path("c.toml").write_text("[training]\nsteps = 7\n")
    output = scare(f"scare compare {sim} {QUICK} --config c.toml --out study")
    assert output.code == 2
    assert "holds a study of other data or settings" in output.err


# --- Ctrl-C, as a terminal sends it: to the command and all its processes ---

SLOW = "--models linear,scare,ridge --windows 8 --seeds 2 --config slow.toml"
PATIENCE = 120  # seconds, for a machine that is busy with other things


def interrupt_when_there(process: "subprocess.Popen[str]", row: Path) -> tuple[int, str, str]:
    deadline = time.monotonic() + PATIENCE
    while not row.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    while group_exists(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process.returncode, out, err


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Linux or macOS would run it: they signal process groups")
def test_an_interruption_ends_all_processes_and_keeps_what_is_finished(scare: RunCli, sim: Path) -> None:
    row = Path("study/rows/linear-w8-s0.json")
    Path("slow.toml").write_text("[training]\nsteps = 100000\n")
    program = [Path(sys.executable).with_name("scare"), "compare", sim, *SLOW.split(), "--jobs", "2", "--out", "study"]
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    code, out, err = interrupt_when_there(process, row)
    assert (code, out) == (130, ""), err
    assert err.splitlines()[-1] == "scare: interrupted"
    assert "Traceback" not in err
    assert {path.name for path in row.parent.iterdir()} == {f"linear-w8-s0.{kind}" for kind in ("json", "npy", "scare")}
    stamp = row.stat().st_mtime_ns
    resumed = scare(f"scare compare {sim} {SLOW.replace('scare,', '')} --out study")
    assert resumed.code == 0, resumed.err
    assert row.stat().st_mtime_ns == stamp
    assert "ridge" in resumed.out
