"""`scare compare`: one table for everyone, resumed when run again."""

import json
from pathlib import Path

import polars as pl

from tests.cli.said import Type
from tests.cli.small_tables import CHANNELS, colocation, write

QUICK = "--models linear,multiple-linear,ridge --windows 8"


def test_everyone_is_in_the_table_the_files_and_the_figure(scare: Type, sim: Path) -> None:
    said = scare(f"scare compare {sim} {QUICK} --out study")
    assert said.code == 0, said.err
    for name in ("linear", "multiple-linear", "ridge"):
        assert name in said.out
    rows = json.loads(Path("study/table.json").read_text())
    assert pl.read_csv("study/table.csv")["contender"].to_list() == [row["contender"] for row in rows]
    assert Path("study/comparison.png").read_bytes()[:4] == b"\x89PNG"


def test_json_is_all_there_is_on_stdout(scare: Type, sim: Path) -> None:
    said = scare(f"scare compare {sim} {QUICK} --out study --json")
    rows = json.loads(said.out)["rows"]
    assert {row["contender"] for row in rows} == {"linear", "multiple-linear", "ridge"}
    assert all(row["rmse"] > 0 and row["rows"] == rows[0]["rows"] for row in rows)


def test_run_again_it_fits_nothing_again(scare: Type, sim: Path) -> None:
    scare(f"scare compare {sim} {QUICK} --out study")
    stamps = {path: path.stat().st_mtime_ns for path in Path("study/rows").iterdir()}
    assert scare(f"scare compare {sim} {QUICK} --out study").code == 0
    assert {path: path.stat().st_mtime_ns for path in Path("study/rows").iterdir()} == stamps


def test_a_network_runs_with_every_seed(scare: Type, sim: Path) -> None:
    said = scare(f"scare compare {sim} --models scare,raw --windows 8,12 --seeds 2 --out study --json")
    rows = {(row["contender"], row["window"]): row for row in json.loads(said.out)["rows"]}
    assert rows["scare", 8]["seeds"] == rows["scare", 12]["seeds"] == 2
    assert rows["raw", 8]["seeds"] == 1
    assert 0 < rows["raw", 8]["to_ours_low"] <= rows["raw", 8]["to_ours_high"]


def test_a_correction_for_another_pollutant_is_a_line_with_its_reason(scare: Type, sim: Path) -> None:
    said = scare(f"scare compare {sim} --models linear,kappa-koehler-pm25 --windows 8 --out study")
    assert said.code == 0
    assert "kappa-koehler-pm25: no score:" in said.err


def test_the_file_may_say_what_is_train_and_test(scare: Type) -> None:
    table = colocation(600, 1)
    thirds = pl.int_range(pl.len()) * 3 // pl.len()
    labelled = table.with_columns(part=thirds.replace_strict({0: "train", 1: "validate", 2: "test"}))
    write(labelled, "box.csv")
    line = f"scare compare box.csv --time date {CHANNELS} --reference Ref.NO2 {QUICK} --out study --json"
    said = scare(f"{line} --split-column part")
    assert said.code == 0, said.err
    assert json.loads(said.out)["split"] == "as a column says"
    assert json.loads(said.out)["rows"][0]["rows"] > 150


def test_bad_requests_are_refused_in_a_sentence(scare: Type, sim: Path) -> None:
    for line, reason in (
        (f"scare compare {sim} --models lineer --out study", "no model called 'lineer'; did you mean 'linear'?"),
        (f"scare compare {sim} --windows sixty --out study", "--windows takes whole numbers"),
        (f"scare compare {sim} {QUICK} --split-column part --out study", "no column 'part'"),
        ("scare compare missing.csv --out study", "missing.csv"),
    ):
        said = scare(line)
        assert said.code in (2, 3)
        assert reason in said.err
        assert "Traceback" not in said.err
        assert not Path("study").exists()


def test_another_task_in_the_folder_is_refused(scare: Type, sim: Path) -> None:
    scare(f"scare compare {sim} {QUICK} --out study")
    said = scare(f"scare compare {sim} {QUICK} --steps 7 --out study")
    assert said.code == 2
    assert "holds a study of other data or settings" in said.err
