"""The accuracy benchmark reads tasks as its file says, and its page shows every row."""

import tomllib
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks import accuracy

ROOT = Path(__file__).parents[1]
TASKS = tomllib.loads((ROOT / "benchmarks" / "accuracy.toml").read_text(encoding="utf-8"))["task"]
START = datetime(2026, 1, 1, tzinfo=UTC)
TASK = {
    "name": "made up",
    "files": "boxes/*.csv",
    "time": ["date"],
    "channels": ["raw", "T"],
    "limits": {"raw": [0, 200]},
    "reference": "Ref",
    "window": 8,
    "borders": ["2026-01-03T00:00", "2026-01-04T00:00"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four boxes, five days of 10-minute rows."""
    boxes = tmp_path_factory.mktemp("data") / "boxes"
    boxes.mkdir()
    for box in range(4):
        rng = np.random.default_rng(box)
        truth = 50 + rng.normal(size=720).cumsum()
        times = [(START + timedelta(minutes=10 * row)).isoformat() for row in range(720)]
        columns = {"date": times, "raw": 2 * truth + rng.normal(size=720), "T": rng.normal(size=720), "Ref": truth}
        pl.DataFrame(columns).write_csv(boxes / f"b{box}.csv")
    return boxes.parent


def test_a_task_is_run_and_shown(folder: Path, tmp_path: Path) -> None:
    options = Namespace(models="ridge,linear,raw", seeds=1, jobs=1, work=tmp_path / "work")
    rows = accuracy.run_task(TASK, accuracy.read_task(TASK, folder), options)
    assert [row.contender for row in rows][-1] == "raw"
    page = accuracy.page({"made up": rows}, options)
    for name in ("ridge", "linear", "raw"):
        assert f"| {name} |" in page
    assert "| ridge | 1.00 | 1 |" in page or "| linear | 1.00 | 1 |" in page


def test_a_new_box_is_only_in_the_test(folder: Path) -> None:
    split = accuracy.split_task(TASK | {"test": "b2"}, accuracy.read_task(TASK, folder))
    assert [one.device for one in split.test] == ["b2"]
    assert all("b2" not in [one.device for one in part] for part in (split.train, split.validation))


def test_boxes_named_are_kept_apart(folder: Path) -> None:
    task = TASK | {"validation": "b1", "test": "b3", "without": ["b0"]}
    split = accuracy.split_task(task, accuracy.read_task(task, folder))
    assert [[one.device for one in part] for part in split.parts.values()] == [["b2"], ["b1"], ["b3"]]


def test_only_some_minutes_are_scored(folder: Path) -> None:
    split = accuracy.split_task(TASK, accuracy.read_task(TASK, folder))
    thin = accuracy.scored_every(split, 60)
    known = [np.isfinite(one.targets) for one in thin.test]
    assert all((one.times[rows] % 3600 == 0).all() for one, rows in zip(thin.test, known, strict=True))
    assert sum(rows.sum() for rows in known) > 0


def test_every_task_says_how_it_is_split() -> None:
    assert len({task["name"] for task in TASKS}) == len(TASKS)
    for task in TASKS:
        assert {"files", "time", "channels", "reference", "window"} <= task.keys()
        assert "borders" in task or "shares" in task or {"validation", "test"} <= task.keys()
