"""The accuracy benchmark reads tasks as its file says, and its page shows every row and counts them right."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.accuracy import run_task
from benchmarks.accuracy_page import Result, page
from benchmarks.accuracy_tasks import Task, fold_task, load_tasks, read_task, split_task
from scare.data.simulate import Kind, Simulation, best_achievable_rmse
from scare.experiments.bootstrap import Interval
from scare.experiments.table import Row
from scare.scorecard.accuracy import Accuracy

TASKS = load_tasks()
START = datetime(2026, 1, 1, tzinfo=UTC)
TASK = Task(
    "made up",
    window=8,
    files="boxes/*.csv",
    time=("date",),
    channels=("raw", "T"),
    limits={"raw": (0, 200)},
    reference="Ref",
    borders=("2026-01-03T00:00", "2026-01-04T00:00"),
)


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


def options(folder: Path, models: str, folds: int = 0) -> Namespace:
    return Namespace(models=models, fold_models=models, folds=folds, seeds=1, jobs=1, work=folder / "work")


def row(name: str, rmse: float, low: float = np.nan, high: float = np.nan, winner: bool = False) -> Row:
    """A row with one score, and an interval of its difference to ours."""
    accuracy = Accuracy(rows=9, rmse=rmse, mae=1, bias=0, r2=1, slope=1, intercept=0, top5_rmse=2 * rmse)
    to_ours = Interval((low + high) / 2, low, high)
    return Row(name, 8, 1, accuracy, accuracy, to_ours, winner, {"parameters": 5.0})


def lines_of(results: Sequence[Result]) -> list[str]:
    return page(results, "scare-3", 1, "").splitlines()


def test_a_task_is_run_and_shown(folder: Path, tmp_path: Path) -> None:
    result = run_task(TASK, read_task(TASK, folder), options(tmp_path, "ridge,linear,raw", folds=2))
    assert [one.contender for one in result.rows][-1] == "raw"
    assert [len(fold) for fold in result.folds] == [3, 3]
    text = page([result], "scare-3", 1, "")
    for name in ("ridge", "linear", "raw"):
        assert text.count(f"\n| {name} |") + text.count(f"\n| **{name}** |") == 3  # in the ranks, the task, its folds
    assert "scare-3` is lower" not in text


def test_ranks_are_over_the_listed_tasks_and_over_all() -> None:
    first = Result(Task("a", 8, listed=True), [row("x", 1.0), row("y", 2.0)])
    second = Result(Task("b", 8), [row("y", 1.0), row("x", 2.0), row("z", 3.0)])
    lines = lines_of([first, second])
    assert "|  | 1 tasks of the earlier study | all 2 real tasks |" in lines
    assert [line for line in lines if line.startswith(("| x | 1.00", "| y | 2.00", "| z |  "))] == [
        "| x | 1.00 | 1.50 |",
        "| y | 2.00 | 1.50 |",
        "| z |  | 3.00 (1) |",
    ]


def test_wins_and_losses_to_the_strongest_yardstick_are_counted() -> None:
    rivals = [(2.0, 0.5, 1.5), (0.8, -0.5, 0.1), (0.7, -0.4, -0.2), (1.0 - 1e-6, -1e-6, -1e-7)]
    results = [
        Result(Task(f"{number}", 8, listed=True), [row("scare-3", 1.0), row("ridge-boosting", *rival)])
        for number, rival in enumerate(rivals)
    ]
    unlisted = Result(Task("u", 8), [row("scare-3", 1.0), row("ridge-boosting", 0.5, -0.6, -0.4)])
    text = " ".join(lines_of([*results, unlisted]))
    assert "`scare-3` is lower than `ridge-boosting` on 1 of 4 and significantly worse on 1." in text


@pytest.mark.parametrize(("second", "winner", "bold"), [(2.0, True, True), (2.0, False, False), (1.00001, True, False)])
def test_only_a_certain_winner_is_bold(second: float, winner: bool, bold: bool) -> None:
    lines = lines_of([Result(Task("a", 8), [row("x", 1.0, winner=winner), row("y", second)])])
    assert any(line.startswith("| **x** | 1 |") for line in lines) == bold
    assert not any("**y**" in line for line in lines)


@pytest.mark.parametrize(("low", "bold"), [(0.5, True), (-0.1, False)])
def test_ours_is_bold_only_if_it_beats_every_other_method_for_certain(low: float, bold: bool) -> None:
    own = [row("scare-3", 1.0, winner=True), row("scare", 1.1, -0.1, 0.3)]
    rows = [*own, row("x", 2.0, low, 1.5), row("y", 3.0, 1.0, 3.0)]
    assert any("**scare-3**" in line for line in lines_of([Result(Task("a", 8), rows)])) == bold


def test_another_is_bold_only_if_it_beats_ours_for_certain() -> None:
    rows = [row("x", 1.0, -0.9, 0.1, winner=True), row("y", 1.2, -0.8, 0.2), row("scare-3", 1.4)]
    assert not any("**" in line for line in lines_of([Result(Task("a", 8), rows)]))


def test_folds_are_averaged_and_wins_counted() -> None:
    folds = [[row("scare-3", 1.0), row("ridge", 2.0)], [row("ridge", 2.0), row("scare-3", 4.0)], [row("ridge", 3.5)]]
    lines = lines_of([Result(Task("a", 8), [row("ridge", 2.0)], folds)])
    assert "### a, 3 folds" in lines
    assert "| scare-3 | 2.5 | 5 |  |" in lines
    assert "| ridge | 2.5 | 5 | 1 of 2 |" in lines


def test_a_fold_trains_before_what_it_is_scored_on(folder: Path) -> None:
    readings = read_task(TASK, folder)
    folds = fold_task(replace(TASK, every=60), readings, 2)
    assert len(folds) == 2
    for fold in folds:
        known = [one.times[np.isfinite(one.targets)] for part in (fold.train, fold.test) for one in part]
        assert max(times.max() for times in known[:4]) < min(times.min() for times in known[4:])
        assert all((times % 3600 == 0).all() for times in known[4:])
    assert fold_task(replace(TASK, test="b1"), readings, 2) == []


def test_a_linear_fleet_is_measured_by_the_best_achievable_error(tmp_path: Path) -> None:
    task = next(task for task in TASKS if task.simulate and task.simulate.kind is Kind.LINEAR)
    small = replace(task, simulate=replace(task.simulate, boxes=2, days=2.0), window=30)
    readings = read_task(small, None)
    assert [len(one) for one in readings] == [2880, 2880]
    result = run_task(small, readings, options(tmp_path, "ridge,linear"))
    best = best_achievable_rmse(Simulation(kind=Kind.LINEAR))
    lines = lines_of([result])
    assert f"The best achievable RMSE here, by Kalman filter, is {best:.4g}." in lines
    for one in result.rows:
        assert one.accuracy is not None
        (line,) = [line for line in lines if line.startswith((f"| {one.contender} |", f"| **{one.contender}** |"))]
        assert float(line.split("|")[-2]) == pytest.approx(one.accuracy.rmse / best, abs=5e-4)
        assert 0.9 < one.accuracy.rmse / best < 2
    assert "## Mean rank" not in lines


def test_a_new_box_is_only_in_the_test(folder: Path) -> None:
    split = split_task(replace(TASK, test="b2"), read_task(TASK, folder))
    assert [one.device for one in split.test] == ["b2"]
    assert all("b2" not in [one.device for one in part] for part in (split.train, split.validation))


def test_boxes_named_are_kept_apart(folder: Path) -> None:
    task = replace(TASK, validation="b1", test="b3", without=("b0",))
    split = split_task(task, read_task(task, folder))
    assert [[one.device for one in part] for part in split.parts.values()] == [["b2"], ["b1"], ["b3"]]


def test_only_some_minutes_are_scored(folder: Path) -> None:
    readings = read_task(TASK, folder)
    thin = split_task(replace(TASK, every=60), readings)
    known = [np.isfinite(one.targets) for one in thin.test]
    assert all((one.times[rows] % 3600 == 0).all() for one, rows in zip(thin.test, known, strict=True))
    assert [rows.sum() for rows in known] == [22 + 24] * 4  # from 02:00, a window after the border, two days


def test_every_task_says_how_it_is_split() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS)
    assert sum(task.listed for task in TASKS) == 8
    for task in TASKS:
        assert task.simulate or (task.files and task.time and task.channels and task.reference)
        assert task.borders or task.shares or (task.validation and task.test)
