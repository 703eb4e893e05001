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
from benchmarks.accuracy_page import LIMIT, TaskResult, draw_picture, page, relative
from benchmarks.accuracy_tasks import fold_task, load_tasks
from scare.data.simulate import Simulation, SimulationKind, best_achievable_rmse
from scare.experiments.comparison_table import Row
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.scorecard.accuracy import Accuracy, RmseDifference

TASKS = load_tasks()
SETS = (
    *("JRC", "UCI", "Antwerp", "Bulot", "Denver", "QUANT", "GRIMM", "BITS", "Arduair", "Beijing", "Captor", "NDIR"),
    *("Toucan", "Home", "Methane", "miniDOT", "MobiMet", "Polar", "PurpleAir", "London", "Tharandt", "Riffle"),
    *("Seaport", "Soil", "Soil power"),
)
START = datetime(2026, 1, 1, tzinfo=UTC)
TASK = SuiteTask(
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
    shared = {"seeds": 1, "once": "", "jobs": 1, "work": folder / "work", "data": None}
    return Namespace(models=models, fold_models=models, folds=folds, **shared)


def row(name: str, rmse: float, low: float = np.nan, high: float = np.nan, winner: bool = False) -> Row:
    """A row with one score, and an interval of its difference to ours."""
    accuracy = Accuracy(rows=9, rmse=rmse, mae=1, bias=0, r2=1, slope=1, intercept=0, top5_rmse=2 * rmse)
    to_ours = RmseDifference((low + high) / 2, low, high)
    return Row(name, 8, 1, accuracy, accuracy, to_ours, winner, {"parameters": 5.0})


def lines_of(results: Sequence[TaskResult]) -> list[str]:
    return page(results, "scare-3", "1 seed", "").splitlines()


def test_a_task_is_run_and_shown(folder: Path, tmp_path: Path) -> None:
    result = run_task(TASK, read_task(TASK, folder), options(tmp_path, "ridge,linear,raw", folds=2))
    assert [one.method for one in result.rows][-1] == "raw"
    assert [len(fold) for fold in result.folds] == [3, 3]
    text = page([result], "scare-3", "1 seed", "")
    for name in ("ridge", "linear", "raw"):
        assert text.count(f"\n| {name} |") + text.count(f"\n| **{name}** |") == 3  # together, the task, its folds
    assert "scare-3` has the lowest" not in text


def task(name: str, of: str = "A") -> SuiteTask:
    return SuiteTask(name, 8, set=of)


def test_methods_are_told_by_ratio_rank_and_losses() -> None:
    results = [
        TaskResult(task("a"), [row("scare-3", 1.0), row("scare", 1.1, 0.05, 0.15), row("x", 2.0, 0.5, 1.5)]),
        TaskResult(task("b"), [row("x", 1.0, -4.0, -2.0), row("z", 2.0, -2.5, 0.5), row("scare-3", 4.0)]),
        TaskResult(task("c", "B"), [row("scare-3", 1.0), row("x", 4.0, -1.0, 7.0)]),
    ]
    lines = lines_of(results)
    head = "|  | RMSE ÷ best other | each set once | worst | mean rank | lowest on | significantly worse than scare-3 |"
    start = lines.index(head)
    ours = (0.5 * 4 * 0.25) ** (1 / 3), (np.sqrt(0.5 * 4) * 0.25) ** 0.5
    assert lines[start + 2 : start + 6] == [
        "| scare | 0.550 | 0.550 | 0.55 | 2.00 (1) | 1 | 1 |",
        f"| scare-3 | {ours[0]:.3f} | {ours[1]:.3f} | 4.00 | 1.67 | 2 |  |",
        f"| x | {4 ** (1 / 3):.3f} | {2.0:.3f} | 4.00 | 2.00 | 1 | 1 |",
        "| z | 2.000 | 2.000 | 2.00 | 2.00 (1) | 0 | 0 |",
    ]
    text = " ".join(lines)
    assert "`scare-3` has the lowest error on 2 of 3 tasks" in text
    assert "significantly worse than another method on 1 (b), and than a line or the raw reading on 0." in text


def test_tasks_are_grouped_by_their_sets() -> None:
    names = (("a", "A"), ("b", "B"), ("c", "A"))
    results = [TaskResult(task(*one), [row("scare-3", 1.0), row("raw", 0.5, -0.7, -0.3)]) for one in names]
    lines = lines_of(results)
    start = lines.index("| set | task | scare-3 | best other | RMSE | ratio | significantly better than ours |")
    assert lines[start + 2 : start + 5] == [
        "| A | a | 1 | raw | 0.5 | 2.000 | raw |",
        "|  | c | 1 | raw | 0.5 | 2.000 | raw |",
        "| B | b | 1 | raw | 0.5 | 2.000 | raw |",
    ]
    assert [line for line in lines if line in ("## A", "## B", "### a", "### b", "### c")] == [
        "## A",
        "### a",
        "### c",
        "## B",
        "### b",
    ]
    assert "than a line or the raw reading on 3 (a; b; c)." in " ".join(lines)


def test_a_loss_by_rounding_is_none() -> None:
    result = TaskResult(task("a"), [row("scare-3", 1.0), row("ridge", 1.0 - 1e-6, -1e-6, -1e-7)])
    assert result.losses("scare-3") == []
    assert not result.beaten("ridge", "scare-3")


def test_the_picture_has_a_line_a_task_and_a_dot_a_method(tmp_path: Path) -> None:
    rows = [row("scare-3", 1.0), row("scare", 1.1), row("x", 2.0), row("y", 90.0)]
    results = [TaskResult(task("worse"), [*rows[1:], row("scare-3", 3.0)]), TaskResult(task("better"), rows)]
    path = draw_picture(results, "scare-3", tmp_path / "page.svg")
    text = path.read_text(encoding="utf-8")
    assert relative(results[1], "scare-3") == {"scare-3": 1.0, "x": 2.0, "y": LIMIT}
    assert relative(results[0], "scare-3")["scare-3"] == 1.5  # of the best other, which is not one of ours
    for name in ("better", "worse", "scare-3", "x", "y"):
        assert f"<!-- {name} -->" in text
    assert "<!-- scare -->" not in text  # one of ours is enough
    assert draw_picture(results, "scare-3", tmp_path / "again.svg").read_bytes() == path.read_bytes()
    assert "](page.svg)" in page(results, "scare-3", "1 seed", "", path.name)


@pytest.mark.parametrize(("second", "winner", "bold"), [(2.0, True, True), (2.0, False, False), (1.00001, True, False)])
def test_only_a_certain_winner_is_bold(second: float, winner: bool, bold: bool) -> None:
    lines = lines_of([TaskResult(SuiteTask("a", 8), [row("x", 1.0, winner=winner), row("y", second)])])
    assert any(line.startswith("| **x** | 1 |") for line in lines) == bold
    assert not any("**y**" in line for line in lines)


@pytest.mark.parametrize(("low", "bold"), [(0.5, True), (-0.1, False)])
def test_ours_is_bold_only_if_it_beats_every_other_method_for_certain(low: float, bold: bool) -> None:
    own = [row("scare-3", 1.0, winner=True), row("scare", 1.1, -0.1, 0.3)]
    rows = [*own, row("x", 2.0, low, 1.5), row("y", 3.0, 1.0, 3.0)]
    assert any("**scare-3**" in line for line in lines_of([TaskResult(SuiteTask("a", 8), rows)])) == bold


def test_another_is_bold_only_if_it_beats_ours_for_certain() -> None:
    rows = [row("x", 1.0, -0.9, 0.1, winner=True), row("y", 1.2, -0.8, 0.2), row("scare-3", 1.4)]
    assert not any("**" in line for line in lines_of([TaskResult(SuiteTask("a", 8), rows)]))


def test_folds_are_averaged_and_wins_counted() -> None:
    folds = [[row("scare-3", 1.0), row("ridge", 2.0)], [row("ridge", 2.0), row("scare-3", 4.0)], [row("ridge", 3.5)]]
    lines = lines_of([TaskResult(SuiteTask("a", 8), [row("ridge", 2.0)], folds)])
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
    task = next(task for task in TASKS if task.simulate and task.simulate.kind is SimulationKind.LINEAR)
    small = replace(task, simulate=replace(task.simulate, boxes=2, days=2.0), window=30)
    readings = read_task(small, None)
    assert [len(one) for one in readings] == [2880, 2880]
    result = run_task(small, readings, options(tmp_path, "ridge,linear"))
    best = best_achievable_rmse(Simulation(kind=SimulationKind.LINEAR))
    lines = lines_of([result])
    assert f"The best achievable RMSE here, by Kalman filter, is {best:.4g}." in lines
    for one in result.rows:
        assert one.accuracy is not None
        (line,) = [line for line in lines if line.startswith((f"| {one.method} |", f"| **{one.method}** |"))]
        assert float(line.split("|")[-2]) == pytest.approx(one.accuracy.rmse / best, abs=5e-4)
        assert 0.9 < one.accuracy.rmse / best < 2
    assert "## All real tasks" not in lines


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
    assert sum(task.simulate is None for task in TASKS) == 53
    assert {task.set for task in TASKS if task.simulate is None} == {*SETS}
    for task in TASKS:
        assert task.simulate or (task.files and task.time and task.channels and task.reference)
        assert task.borders or task.shares or task.split_column or (task.validation and task.test)
