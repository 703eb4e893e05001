"""The tables of the page on reproduction are the results of a run, and what is open in it is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproduce import page as reproduced
from benchmarks.reproduce.page import BEGIN, END, FIGURES, PAGE, sections


def cell(place: str, method: str, rmse: float | None, **more: Any) -> dict[str, Any]:
    numbers = {"rmse": rmse, "rmse_sd": 0.25, "top5_rmse": 9.0, "top5_rmse_sd": 0.5, "seeds": 3}
    return {"place": place, "pollutant": "PM10", "method": method, **(numbers if rmse else {"seeds": 0}), **more}


def write(folder: Path, experiment: str, window: int, tables: dict[str, Any], *unfinished: str) -> None:
    folder.mkdir(exist_ok=True)
    names = list(dict.fromkeys(row.get("method", "") for rows in tables.values() for row in rows))
    missing = {name: ["box 2-PM10"] for name in unfinished}
    facts = {"protocol": {"window": window, experiment: names}, "unfinished": missing, "tables": tables}
    (folder / f"{experiment}.json").write_text(json.dumps(facts), encoding="utf-8")


def test_the_papers_number_stands_beside_the_mean_of_the_places(tmp_path: Path) -> None:
    both = [cell("box 1", "tesla-paper", 20.0), cell("box 2", "tesla-paper", 10.0, seeds=2)]
    half = [cell("box 1", "scare", 12.0), cell("box 2", "scare", None)]
    none = [cell("box 1", "mamba", None), cell("box 2", "mamba", None)]
    other = [cell("box 1", "tesla-paper", 99.0, pollutant="PM25")]
    write(tmp_path / "60", "main", 60, {"main-cells": both + half + none + other, "main": []}, "scare")
    write(tmp_path / "360", "main", 360, {"main-cells": both, "main": []})
    page = sections([tmp_path / "60", tmp_path / "360"])
    numbers = "**15.00 ± 0.18** | **9.00 ± 0.35** | 20.00 ± 0.25 | 10.00 ± 0.25 | 2"
    assert f"| tesla-paper | 14.21 | 27.92 | {numbers} | {numbers} |" in page
    assert (
        "| scare | – | – | – | – | 12.00 ± 0.25 | – | 3 | – | – | – | – | 0 |" in page
    )  # the paper's is of its own preset
    assert "mamba" not in page
    assert "Not finished when this was written: scare (N = 60)." in page


def test_the_rates_chosen_stand_there_for_each_window(tmp_path: Path) -> None:
    def choice(place: str, rate: float) -> dict[str, Any]:
        return {"place": place, "pollutant": "PM10", "method": "tesla", "rate": rate, "means": "2 of 3"}

    for window, rate in ((360, 0.003), (60, 0.01)):
        chosen = [choice("box 1", rate), choice("box 2", 0.001)]
        write(tmp_path / str(window), "main", window, {"main-cells": [], "main": [], "main-choices": chosen})
    page = sections([tmp_path / "60", tmp_path / "360"])
    assert "| model | N = 60: box 1 | N = 60: box 2 | N = 360: box 1 | N = 360: box 2 |" in page
    assert "| tesla | 0.01 (2 of 3) | 0.001 (2 of 3) | 0.003 (2 of 3) | 0.001 (2 of 3) |" in page


def test_the_figures_are_of_the_longest_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduced, "PAGE", tmp_path / "page.md")
    for window in (360, 60):
        write(tmp_path / str(window), "main", window, {"main": []})
        (tmp_path / str(window) / "main.png").write_text(str(window))
    reproduced.copy_figures([tmp_path / "360", tmp_path / "60", tmp_path])
    assert (tmp_path / "reproduce-main.png").read_text() == "360"
    assert not (tmp_path / "reproduce-board.png").exists()


def test_speed_size_and_grades_are_of_the_longest_window_and_the_papers_in_brackets(tmp_path: Path) -> None:
    for window, latency in ((60, 0.002), (360, 0.004)):
        speed = {
            "method": "tesla-paper",
            "mean_latency": latency,
            "paper_mean_latency": 2.14,
            "complexity": "N^0.43",
        }
        grade = {"method": "tesla-paper", "mean-latency": "O", "paper_mean-latency": "△"}
        write(tmp_path / str(window), "main", window, {"main-cells": [], "main": [speed, {"method": "boosting"}]})
        write(tmp_path / str(window), "checklist", window, {"checklist": [grade]})
    page = sections([tmp_path / "60", tmp_path / "360"])
    assert "### Table 1, N = 360" in page
    assert "| tesla-paper |  |  | O (△) |" in page
    assert "| tesla-paper | 4 µs (2.14 ms) |  |" in page
    assert "boosting" not in page


def test_adaptability_is_of_each_place_and_both_definitions(tmp_path: Path) -> None:
    row = {"pollutant": "PM10", "threshold": 0.05, "coverage": 0.5, "raw": 3.0, "tesla": 2.0, "tesla_sd": 0.1}
    rows = [{"place": place, "kind": kind, **row} for place in ("box 1", "box 2") for kind in ("sudden", "lasting")]
    for window in (60, 360):
        write(tmp_path / str(window), "adaptability", window, {"adaptability": rows})
    page = sections([tmp_path / "60", tmp_path / "360"])
    assert "### Adaptability, N = 360" in page
    assert page.count(" | 5% | 50% | 3.00 | 2.00 ± 0.10 |") == 4


def test_the_board_is_of_the_longest_window_and_open_where_a_model_has_no_such_form(tmp_path: Path) -> None:
    def row(method: str, window: int, arithmetic: str, **numbers: float) -> dict[str, Any]:
        none = dict.fromkeys(("milliseconds", "flash_bytes", "ram_bytes", "flatbuffer_bytes"))
        return {"method": method, "window": window, "arithmetic": arithmetic, **none, **numbers}

    counts = {"milliseconds": 127.17, "flash_bytes": 24082, "ram_bytes": 24876}
    rows = [row("sendal", window, "float32", **counts) for window in (60, 360)] + [row("sendal", 360, "fixed")]
    write(tmp_path / "360", "board", 360, {"board": rows})
    page = sections([tmp_path / "360"])
    assert "### The board, N = 360, float32 / fixed point" in page
    assert page.count("sendal") == 1
    assert "| sendal | 127.2 / – | 24,082 / – | 24,876 / – | – / – |" in page


def test_the_page_has_a_place_for_tables_and_figures() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert all(f"](reproduce-{name}.png)" in text for name in FIGURES)


def test_results_of_an_earlier_version_make_the_same_page(tmp_path: Path) -> None:
    row = {"method": "exp-1", "change": "no patching", "max_latency": 2.0, "complexity": "N^1.00"}
    earlier = {"contender": "exp-1", "method": "no patching", "max_latency": 2.0, "complexity": "N^1.00"}
    for name, key, first in (("now", "method", row), ("before", "contender", earlier)):
        cells = [
            {key if column == "method" else column: value for column, value in cell("box 1", "exp-1", 9.0).items()}
        ]
        write(tmp_path / name, "ablation", 60, {"ablation-cells": cells, "ablation-choices": [], "ablation": [first]})
        facts = json.loads((tmp_path / name / "ablation.json").read_text())
        facts["protocol"]["ablation"] = ["exp-1"]
        (tmp_path / name / "ablation.json").write_text(json.dumps(facts))
    page = sections([tmp_path / "now"])
    assert "| exp-1 | no patching | 2 ms | N^1.00 |" in page
    assert sections([tmp_path / "before"]) == page
