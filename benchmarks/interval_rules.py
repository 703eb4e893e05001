"""How much wider intervals must be where few blocks of time were seen: rules compared, and chosen by left-out sets.

    python -m benchmarks.interval_rules DATA [--tasks NO2] [--work out/interval_rules]

Each task is fitted once, and its errors stay in `--work`. A rule says by which factor the fitted table is widened, from
the blocks of its parts. The last line is what rules give that were chosen by the tasks of all other sets, as `badness`
says. docs/decisions/intervals.md shows the table.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.accuracy_tasks import load_tasks
from scare.calibrator.intervals import MIN_ERRORS, CalibrationErrors, few_blocks_factor, fit_intervals
from scare.data.readings import CALIBRATED, FLAGS, REFERENCE
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.scorecard.accuracy import cover_by_flag
from scare.training import fit
from scare.training.recipe import Recipe

FIELDS = ("values", "references", "times", "flags")  # of CalibrationErrors
SHIPPED = "mean of parts, square, 4"
Rule = Callable[[Sequence[int]], float]
RULES: dict[str, Rule] = {
    "none": lambda blocks: 1.0,
    **{f"validation, {k:g}": partial(lambda k, blocks: 1 + k / blocks[-1], k) for k in (0.5, 1, 1.5, 2, 3)},
    **{f"mean of parts, {k:g}": partial(lambda k, blocks: 1 + k / np.mean(blocks), k) for k in (0.5, 1, 1.5, 2, 3)},
    **{
        f"mean of parts, square, {k:g}": partial(lambda k, blocks: min(1 + (k / np.mean(blocks)) ** 2, 3.0), k)
        for k in (1, 2, 2.5, 3, 3.5, 4, 4.5, 5)
    },
}


class Coverage(NamedTuple):
    """What a rule gives on the test rows of a task."""

    share: float  # of all rows that are covered
    not_flagged: float  # of the rows without a flag that widens intervals; NaN if they are few
    flagged: float
    width: float
    winkler: float


@dataclass(frozen=True)
class TaskErrors:
    """Errors of one task: the parts that intervals are fitted to, and those on test rows."""

    set: str
    parts: list[CalibrationErrors]
    test: CalibrationErrors

    def apply(self, rule: Rule) -> Coverage:
        """Fit intervals, widen them by this rule instead of the shipped one, and score them on test rows."""
        with patch("scare.calibrator.intervals.few_blocks_factor", rule):
            intervals = fit_intervals(self.parts)
        assert intervals is not None
        test = self.test.rows(np.isfinite(self.test.residuals))
        low, high = intervals.around(test.values, test.flags)
        found = cover_by_flag(low, high, test.references, test.flags, intervals.level)
        shares = [
            part["share"] if (part := found.get(name)) and part["rows"] >= MIN_ERRORS else np.nan
            for name in ("not_flagged", "flagged")
        ]
        return Coverage(found["share"], *shares, found["width"], found["winkler"])


def collect(task: SuiteTask, data: Path | None) -> dict[str, np.ndarray]:
    """Fit a calibrator as the benchmark of intervals does, and keep the errors that its intervals are fitted to."""
    readings = read_task(task, data)
    if not readings:
        return {}
    split = split_task(task, readings, data)
    with patch.object(fit, "fit_intervals", wraps=fit_intervals) as spy:
        calibrator = fit.evaluate(split.train, split.validation, Recipe.preset("default", task.window)).fitted()
    tables = [calibrator.predict(one) for one in split.test]
    values, references = (
        np.concatenate([table[name].fill_null(np.nan).to_numpy() for table in tables])
        for name in (CALIBRATED, REFERENCE)
    )
    flags = np.concatenate([table[FLAGS].to_numpy() for table in tables])
    test = CalibrationErrors(values, references, np.arange(len(values)), flags)
    parts = [*spy.call_args.args[0], test]
    return {f"{index}_{name}": getattr(part, name) for index, part in enumerate(parts) for name in FIELDS}


def load(path: Path, set_name: str) -> TaskErrors:
    """Read the errors of a task; the last part is that of the test rows."""
    with np.load(path) as kept:
        count = len(kept.files) // len(FIELDS)
        *parts, test = (CalibrationErrors(*(kept[f"{index}_{name}"] for name in FIELDS)) for index in range(count))
    return TaskErrors(set_name, parts, test)


def badness(results: Sequence[Coverage]) -> tuple[bool, float]:
    """Order rules: a median task of 88 to 92 % on rows not flagged first; then the mean that is nearest to 90 %."""
    covered = np.array([one.not_flagged for one in results])
    covered = covered[np.isfinite(covered)]
    return not 0.88 <= np.median(covered) <= 0.92, abs(float(covered.mean()) - 0.9)


def line(name: str, results: Iterable[Coverage], base: Sequence[Coverage]) -> str:
    """Write the line of a rule; widths and Winkler scores are relative to those of `base` (geometric means, mean)."""
    found, former = np.array(list(results)), np.array(base)
    ratios = found[:, 3:] / former[:, 3:]
    plain = found[:, 1][np.isfinite(found[:, 1])]
    cells = [
        name,
        f"{100 * found[:, 0].mean():.1f} %",
        f"{100 * np.median(found[:, 0]):.1f} %",
        f"{100 * plain.mean():.1f} %",
        f"{100 * np.median(plain):.1f} %",
        f"{(plain < 0.8).sum()}, {(plain < 0.6).sum()} of {len(plain)}",
        f"{100 * np.nanmean(found[:, 2]):.1f} %",
        f"{np.exp(np.log(ratios[:, 0]).mean()):.2f}, {ratios[:, 0].mean():.2f}",
        f"{np.exp(np.log(ratios[:, 1]).mean()):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Collect the errors of all tasks and print the table of rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder of the files; without it only simulated tasks")
    parser.add_argument("--tasks", default="", help="tasks with one of these words in their names, comma-separated")
    parser.add_argument("--work", type=Path, default=Path("out/interval_rules"))
    options = parser.parse_args()
    tasks = []
    for task in load_tasks(options.tasks):
        path = options.work / f"{task.name}.npz"
        if not path.exists() and (errors := collect(task, options.data)):
            print(task.name, file=sys.stderr)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **errors)
        if path.exists():
            tasks.append(load(path, task.set))
    if not tasks:
        sys.exit(f"no task called '{options.tasks}' has its files under {options.data}")
    results = {name: [task.apply(rule) for task in tasks] for name, rule in RULES.items()}
    shipped = [task.apply(few_blocks_factor) for task in tasks]
    assert shipped == results[SHIPPED]
    base = results["validation, 3"]  # the rule until November 2026
    head = ("rule", "covered, mean", "median", "not flagged: mean", "median", "below 80, 60 %", "flagged", "width")
    print("\n".join(f"| {' | '.join(cells)} |" for cells in ((*head, "Winkler"), ["---"] * 9)))
    for name, found in results.items():
        print(line(f"**{name}**" if name == SHIPPED else name, found, base))
    left_out, choices = list(shipped), []
    for set_name in dict.fromkeys(task.set for task in tasks):
        others = [index for index, task in enumerate(tasks) if task.set != set_name]

        scores = {name: badness([found[index] for index in others]) for name, found in results.items()}
        choices.append(min(scores, key=scores.__getitem__))
        for index, task in enumerate(tasks):
            if task.set == set_name:
                left_out[index] = results[choices[-1]][index]
    print(line("chosen by left-out sets", left_out, base))
    print("\nchosen:", ", ".join(f"{name} ({choices.count(name)} sets)" for name in dict.fromkeys(choices)))


if __name__ == "__main__":
    main()
