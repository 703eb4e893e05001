"""Every model and baseline on every task, real ones under a folder and simulated ones, as one page.

    python -m benchmarks.accuracy [DATA] [--models scare,scare-3,ridge-boosting] [--tasks NO2] [--seeds 3]
        [--once mamba,sendal] [--jobs 2] [--folds 2] [--fold-models scare-3,ridge-boosting] [--work out/accuracy]
        [--selection out/selection.json] [--out docs/benchmarks/accuracy.md] [--json]

Tasks are in configs/suite.toml and accuracy.toml; those whose files are not under DATA are left out. Each task, and
with `--folds` each forward fold of a task split by time, is a study, as `scare compare` runs it: resumable, jobs in
processes of their own, intervals from a paired block bootstrap. With `--out` a picture is drawn next to the page.
`--selection` is what `python -m benchmarks.selection DATA --json` printed: rules that the other sets choose for a set.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.accuracy_page import TaskResult, draw_picture, page
from benchmarks.accuracy_tasks import fold_task, load_tasks
from scare.board.measure import BoardBudget
from scare.data.readings import Readings
from scare.data.split import Split
from scare.experiments.comparison_table import make_table
from scare.experiments.study import NO_REFIT, Study, choose, grid, prepare, run_study
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing

STDERR = Console(stderr=True)
FITTED = ("ridge-boosting", "boosting", "ridge", "multiple-linear", "linear")
USUAL = ",".join(("scare", *FITTED, "raw", *(f"{name}{NO_REFIT}" for name in FITTED)))
IN_FOLDS = "scare,ridge-boosting,boosting,ridge"
BOARD = "nano33ble"  # where what was chosen is counted, in fixed point


def ours_of(models: str) -> str:
    """Choose the method that others are compared with: the mean of three networks, if it is among the models."""
    return "scare-3" if "scare-3" in choose(models.split(",")) else "scare"


def run_task(task: SuiteTask, readings: Sequence[Readings], options: argparse.Namespace) -> TaskResult:
    """Run the study of a task, and one for each of its forward folds."""
    study = _run(task.name, split_task(task, readings, options.data), task, options.models, options)
    folds = [
        make_table(
            _run(f"{task.name}, fold {number}", split, task, options.fold_models, options), ours_of(options.fold_models)
        )
        for number, split in enumerate(fold_task(task, readings, options.folds), start=1)
    ]
    ours = ours_of(options.models)
    return TaskResult(task, make_table(study, ours), folds, _describe(study, ours))


def _describe(study: Study, ours: str) -> dict[str, Any]:
    """Parts of the calibrator that ours chose, and its cost on the board; kept beside the study's rows."""
    job = next((job for job in study.finished() if job.method == ours), None)
    calibrator = study.calibrator(job) if job else None
    if job is None or calibrator is None:
        return {}
    file = study.folder / f"{job.key}-board.json"
    if not file.exists():
        parts = [row["candidate"] for row in calibrator.facts.get("selection", ()) if row["share"]]
        cost = BoardBudget.of(BOARD, "fixed", None, None, None).measure(calibrator)
        with replacing(file) as temporary:
            temporary.write_text(json.dumps({"parts": parts, **cost}), encoding="utf-8")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _run(name: str, split: Split, task: SuiteTask, models: str, options: argparse.Namespace) -> Study:
    """Run or resume the study of these models (comma-separated) on a split."""
    folder = Path(options.work) / "".join(letter if letter.isalnum() else "-" for letter in name)
    jobs, once = grid(choose(models.split(",")), [task.window], options.seeds), options.once.split(",")
    study = prepare(folder, split, [job for job in jobs if job.seed == 0 or job.method not in once], {})
    run_study(study, options.jobs, lambda done, total, key: STDERR.print(f"{name}: {done}/{total} {key}"))
    return study


def plain(result: TaskResult) -> dict[str, Any]:
    """Convert a result to plain values, for JSON."""
    rows, *folds = ([row.as_dict() for row in rows] for rows in (result.rows, *result.folds))
    return {"rows": rows, "folds": folds, "chosen": dict(result.chosen)}


def main() -> None:
    """Run the tasks that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the files; without it only simulated tasks")
    parser.add_argument("--models", default=USUAL)
    parser.add_argument("--tasks", default="", help="tasks with one of these words in their names, comma-separated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--once", default="", help="networks with one seed, comma-separated")
    parser.add_argument("--folds", type=int, default=0, help="forward folds of tasks split by time")
    parser.add_argument("--fold-models", default=IN_FOLDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", default="out/accuracy")
    parser.add_argument("--selection", type=Path, help="what benchmarks.selection --json printed")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    for task in load_tasks(options.tasks):
        if readings := read_task(task, options.data):
            results.append(run_task(task, readings, options))
        else:
            STDERR.print(f"{task.name}: no files")
    if not results:
        sys.exit(f"no task called '{options.tasks}' has its files under {options.data}")
    ours, picture = ours_of(options.models), ""
    real = [result for result in results if result.task.simulate is None]
    if real and options.out is not None:
        picture = draw_picture(real, ours, options.out.with_suffix(".svg")).name
    fewer = f" (one: {options.once.replace(',', ', ')})" if options.once else ""
    rules = json.loads(options.selection.read_text(encoding="utf-8")) if options.selection else {}
    seeds = f"{options.seeds} seed{'s' * (options.seeds > 1)}{fewer}"
    text = page(results, ours, seeds, options.models.replace(",", ", "), picture, rules)
    if options.out is not None:
        with replacing(options.out) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    if options.json:
        print(json.dumps({result.task.name: plain(result) for result in results}, indent=1))
    elif options.out is None:
        print(text)


if __name__ == "__main__":
    main()
