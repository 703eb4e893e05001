"""Every model and yardstick on every real task under a folder, as one page.

    python benchmarks/accuracy.py DATA [--models scare,scare-3,ridge-boosting] [--tasks NO2] [--seeds 3] [--jobs 2]
        [--work out/accuracy] [--out benchmarks/accuracy.md] [--json]

Tasks are in accuracy.toml; those whose files are not under DATA are left out. Each task is a study, as `scare compare`
runs it: resumable, jobs in processes of their own, intervals from a paired block bootstrap.
"""

import argparse
import json
import sys
import tomllib
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from scare.data.mapping import ColumnMapping
from scare.data.quality import flag, without_unusable_references
from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.data.split import Split, split_by_device, split_by_time
from scare.data.tables import read_readings
from scare.experiments.contenders import choose, grid
from scare.experiments.study import prepare, run_study
from scare.experiments.table import Row, make_table

HERE = Path(__file__).parent
STDERR = Console(stderr=True)
USUAL = "scare,scare-3,ridge-boosting,boosting,ridge,multiple-linear,linear,dlinear,tesla"

PROTOCOL = """\
Protocol, written before the numbers: tasks, splits and windows are those of `accuracy.toml`; training before the first
border, settings and checkpoints chosen between the borders, scores after the second. Nothing is chosen on test rows.
Networks run with {seeds} seeds (mean ± standard deviation of the seeds' scores), everything with its preset; `scare-3`
is one calibrator that averages three seeds and reads the window once. All are scored on the same rows. `top-5 %` is the
RMSE of the twentieth of the rows with the largest change of the raw reading. Differences have a 95 % interval from a
paired bootstrap of 3-hour blocks (`*`: it excludes zero; none under 8 blocks), not corrected for the number of rows.

Added after the first run: no star where two differ by less than a ten-thousandth (both ended at the same ridge start).
The splits and the preset's recipe come from an earlier study on these same readings, so this page does not show what
SCARE does on data that nobody has looked at. Run here: {models}; the other rivals were not.
"""


def read_task(task: dict[str, Any], folder: Path) -> list[Readings]:
    """The readings of a task, flagged; none if its files are not there."""
    limits = task.get("limits", {})
    channels = tuple(Channel(name, "", *limits.get(name, (-np.inf, np.inf))) for name in task["channels"])
    reference = Channel(task["reference"])
    mapping = ColumnMapping(tuple(task["time"]), channels, reference, task.get("device_column", ""), sort=True)
    readings = [one for file in sorted(folder.glob(task["files"])) for one in read_readings(file, mapping)]
    kept = [one for one in readings if not any(one.device.startswith(name) for name in task.get("without", ()))]
    return [flag(without_unusable_references(one)) for one in kept if np.isfinite(one.targets).any()]


def split_task(task: dict[str, Any], readings: list[Readings]) -> Split:
    """Training, validation and test of a task."""
    named = {part: _device(readings, task[part]) for part in ("validation", "test") if part in task}
    if "validation" in named:
        return split_by_device(readings, **named)
    gap = task["window"] * float(np.median([one.step_seconds for one in readings]))
    if "shares" in task:
        times = readings[0].times
        moments = [datetime.fromtimestamp(times[int(share * len(times))]) for share in task["shares"]]
    else:
        moments = [datetime.fromisoformat(text) for text in task["borders"]]
    split = split_by_time(readings, gap, borders=(moments[0], moments[1]))
    if "test" not in named:
        return split
    others = {part: tuple(one for one in split.parts[part] if one.device != named["test"]) for part in split.parts}
    how = f"{split.how}; {named['test']} only in the test, its readings before without a reference"
    return Split(others["train"], others["validation"], (_new_box(readings, split, named["test"]),), how)


def _new_box(readings: list[Readings], split: Split, device: str) -> Readings:
    """All readings of a device that nobody calibrated; references only where the test has them."""
    box, scored = (next(one for one in part if one.device == device) for part in (readings, split.test))
    known = scored.frame.select(TIME, REFERENCE)
    return replace(box, frame=box.frame.drop(REFERENCE).join(known, on=TIME, how="left", maintain_order="left"))


def _device(readings: list[Readings], name: str) -> str:
    return next(one.device for one in readings if one.device.startswith(name))


def scored_every(split: Split, minutes: int) -> Split:
    """The split with references in the test only at times that are whole multiples of so many minutes."""

    def thin(one: Readings) -> Readings:
        kept = np.where(one.times % (60 * minutes) == 0, one.targets, np.nan)
        frame = one.frame.with_columns(pl.Series(REFERENCE, kept))
        return Readings(one.device, frame, one.channels, one.reference, one.site)

    return Split(split.train, split.validation, tuple(map(thin, split.test)), split.how, split.notes)


def run_task(task: dict[str, Any], readings: list[Readings], options: argparse.Namespace) -> list[Row]:
    """The rows of one task."""
    split = split_task(task, readings)
    if task.get("every"):
        split = scored_every(split, task["every"])
    names = choose(options.models.split(","))
    folder = Path(options.work) / "".join(letter if letter.isalnum() else "-" for letter in task["name"])
    study = prepare(folder, split, grid(names, [task["window"]], options.seeds), {})
    run_study(study, options.jobs, lambda done, total, key: STDERR.print(f"{task['name']}: {done}/{total} {key}"))
    return make_table(study, ours="scare-3" if "scare-3" in names else "scare")


def page(tasks: dict[str, list[Row]], options: argparse.Namespace) -> str:
    """The result as Markdown: wins and losses first, then a table a task."""
    lines = [
        "# Accuracy on real readings",
        "",
        PROTOCOL.format(seeds=options.seeds, models=options.models.replace(",", ", ")),
    ]
    lines += ["## Mean rank", "", "| | mean rank by RMSE | tasks |", "|---|---|---|"]
    ranks: dict[str, list[int]] = {}
    for rows in tasks.values():
        scored = [row for row in rows if row.accuracy is not None and not row.partial]
        for rank, row in enumerate(sorted(scored, key=lambda row: row.accuracy.rmse), start=1):
            ranks.setdefault(row.contender, []).append(rank)
    for name, found in sorted(ranks.items(), key=lambda item: float(np.mean(item[1]))):
        lines.append(f"| {name} | {np.mean(found):.2f} | {len(found)} |")
    for name, rows in tasks.items():
        lines += ["", f"## {name}", "", "| | RMSE | − scare-3 [95 %] | top-5 % | parameters |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    if row.accuracy is None or row.spread is None:
        return f"| {row.contender} | no score: {row.failed} | | | |"
    spread = f" ± {row.spread.rmse:.2g}" if row.seeds > 1 else ""
    difference = ""
    if row.to_ours is not None:
        found = row.to_ours
        real = abs(found.difference) > 1e-4 * row.accuracy.rmse  # two that ended at the same ridge differ by rounding
        star = "*" if real and found.known and (found.low > 0 or found.high < 0) else ""
        difference = f"{found.difference:+.2g}" + (
            f" [{found.low:+.2g}, {found.high:+.2g}]{star}" if found.known else ""
        )
    count = f"{row.facts['parameters']:,.0f}"
    return (
        f"| {row.contender} | {row.accuracy.rmse:.4g}{spread} | {difference} | {row.accuracy.top5_rmse:.4g} | {count} |"
    )


def main() -> None:
    """Run what is asked, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default=USUAL)
    parser.add_argument(
        "--tasks", default="", help="only tasks with one of these words in their names, comma-separated"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", default="out/accuracy")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = [word for word in options.tasks.split(",") if word]
    tasks = tomllib.loads((HERE / "accuracy.toml").read_text(encoding="utf-8"))["task"]
    results: dict[str, list[Row]] = {}
    for task in tasks:
        if wanted and not any(word in task["name"] for word in wanted):
            continue
        readings = read_task(task, options.data)
        if not readings:
            STDERR.print(f"{task['name']}: no files")
            continue
        results[task["name"]] = run_task(task, readings, options)
    if not results:
        sys.exit(f"no task has its files under {options.data}")
    text = page(results, options)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    if options.json:
        print(json.dumps({name: [row.as_dict() for row in rows] for name, rows in results.items()}, indent=1))
    elif options.out is None:
        print(text)


if __name__ == "__main__":
    main()
