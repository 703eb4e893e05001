"""The page of accuracy.py: summaries over all tasks, a table per task, forward folds, protocol, and the picture.

A method is compared by ratios to the best other method, by ranks and by significant losses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler

from scare.data.simulate import SimulationKind, best_achievable_rmse
from scare.experiments.comparison_table import Row
from scare.experiments.study import NO_REFIT
from scare.experiments.suite_tasks import SuiteTask
from scare.files import replacing
from scare.report.png_figures import OURS_COLOUR

SINGLE = "scare"  # a single network; counts as the same method as the mean of three
SAME = 1e-4  # share of the RMSE below which a difference is rounding: both ended at the same ridge start
PLAIN = ("linear", "raw")  # these must never be significantly better than ours
LIMIT = 3.0  # times the lowest error: larger errors are drawn here
TICKS = (1.0, 1.2, 1.5, 2.0, LIMIT)
COLOURS = ("#3b6ea5", "#6aa84f", "#8e6bbf", "#b8860b", "#4a4a4a", "#17a2a2", "#9c755f", "#7f7f7f")
STYLE = {"svg.hashsalt": "scare", "font.size": 9, "axes.prop_cycle": cycler(color=COLOURS)}
PROTOCOL = """\
Written before the numbers:

- *Data.* Tasks, splits and windows are those of `accuracy.toml`: training before the first border, settings and
  checkpoints chosen between the borders, scores after the second. Nothing is fitted to test rows, and all methods are
  scored on the same rows.
- *Seeds.* Networks run with {seeds}, shown as mean ± standard deviation of their scores; every method uses its
  preset. `scare-3` is one calibrator that averages three seeds and reads the window once.
- *`top-5 %`* is the RMSE of the 5 % of rows with the largest change of the raw reading.
- *Differences* have a 95 % interval from a paired bootstrap of 3-hour blocks (`*`: it excludes zero; none with fewer
  than 8 blocks), not corrected for the number of rows.
- *A name in bold* has the lowest error and an interval that excludes zero: for `scare-3` against every other method
  (`scare` is the same one), for another method against the second and against `scare-3`.

Within a run no method sees test rows, but the design of `scare` did: most of these tasks were in view when its recipe
and the rules of [model selection](../decisions/selection.md) were put together, and what helped on them stayed. The
classical methods have no such advantage. So this page flatters `scare` against the others.

Run here: {models}.
"""
CAUTION = """\
The defaults of `scare` were chosen with these tasks in view, so this page flatters it against the others
([how](#protocol)). A ratio of 1 is the best other method on a task.
"""
TOGETHER = """\
A ratio is the RMSE of a method ÷ that of the best other one on a task; `scare` and `scare-3` count as one method.
Means are geometric, over tasks and over sets (tasks of a set share readings and are not independent). In brackets:
the number of tasks, if a method has no score on some.
"""
CHOSEN = """\
On {linear} of {tasks} tasks the result is one linear model. Fit times are of all candidates with the refit, one core of
a busy machine, compiling included. Instructions, RAM and flash are of one value in fixed point on a virtual Arduino
Nano 33 BLE Sense ([board](../board.md)).
"""
COSTS = ("instructions", "ram_bytes", "flash_bytes")
FOLDS = """\
Tasks split by time, split again: the rows with a reference after the first 40 % are cut into equal parts, and each fold
trains on what is before a part, chooses on it, and is scored on the part after it. So folds train on less than the
tables above, the first one least; and these are the same readings, scored at other times. Means are over folds.
"""


@dataclass(frozen=True)
class TaskResult:
    """The rows of a task, and of each of its forward folds."""

    task: SuiteTask
    rows: list[Row]
    folds: list[list[Row]] = field(default_factory=list)
    chosen: Mapping[str, Any] = field(default_factory=dict)  # parts of ours, and its cost on a board

    @property
    def errors(self) -> dict[str, float]:
        """The RMSE of every method that is scored on the shared rows, best first; without those not refitted."""
        return {row.method: rmse(row) for row in scored(self.rows) if not row.method.endswith(NO_REFIT)}

    def ratio_without_refit(self, ours: str) -> float | None:
        """The RMSE of ours ÷ that of the best baseline fitted to training alone, the raw reading among them."""
        others = [rmse(row) for row in scored(self.rows) if row.method.endswith(NO_REFIT) or row.method == "raw"]
        known = any(row.method.endswith(NO_REFIT) for row in scored(self.rows)) and ours in self.errors
        return self.errors[ours] / min(others) if known else None

    def ratio(self, name: str, ours: str) -> float | None:
        """The RMSE of a method ÷ that of the best other method; None where either is missing."""
        errors = self.errors
        same = {ours, SINGLE} if name in (ours, SINGLE) else {name}
        others = [error for other, error in errors.items() if other not in same]
        return errors[name] / min(others) if name in errors and others else None

    def losses(self, ours: str) -> list[str]:
        """The methods to which ours loses significantly, the best first."""
        own, others = self.errors.get(ours, -np.inf), [row for row in scored(self.rows) if row.method in self.errors]
        return [row.method for row in others if row.method != SINGLE and certain(row) and rmse(row) < own]

    def beaten(self, name: str, ours: str) -> bool:
        """Whether a method loses significantly to ours."""
        own = self.errors.get(ours, np.inf)
        return any(row.method == name and certain(row) and rmse(row) > own for row in scored(self.rows))


def by_set(results: Sequence[TaskResult]) -> dict[str, list[TaskResult]]:
    """Group results by set; sets are in the order of their first tasks."""
    order = list(dict.fromkeys(result.task.set for result in results))
    ranked = sorted(results, key=lambda result: order.index(result.task.set))
    return {name: list(found) for name, found in groupby(ranked, lambda result: result.task.set)}


def methods(results: Sequence[TaskResult], ours: str) -> list[str]:
    """List all methods, sorted by the mean of their ratios over tasks."""
    names = dict.fromkeys(name for result in results for name in result.errors)
    return sorted(names, key=lambda name: geometric_mean(ratios(results, name, ours)))


def ratios(results: Sequence[TaskResult], name: str, ours: str) -> list[float]:
    """The ratios of a method on the tasks where it has one."""
    return [ratio for result in results if (ratio := result.ratio(name, ours)) is not None]


def geometric_mean(numbers: Sequence[float]) -> float:
    """The geometric mean; NaN of an empty list."""
    return float(np.exp(np.mean(np.log(numbers)))) if numbers else float("nan")


def mean_over_sets(results: Sequence[TaskResult], name: str, ours: str) -> float:
    """The geometric mean of a method's ratios, in which every set counts once."""
    found = [ratios(part, name, ours) for part in by_set(results).values()]
    return geometric_mean([geometric_mean(part) for part in found if part])


def ranks(results: Sequence[TaskResult], name: str) -> list[int]:
    """The rank of a method on the tasks where it is scored."""
    return [list(result.errors).index(name) + 1 for result in results if name in result.errors]


def scored(rows: Sequence[Row]) -> list[Row]:
    """The rows with a score on the shared test rows, best first."""
    return sorted((row for row in rows if row.accuracy is not None and not row.partial), key=rmse)


def certain(row: Row) -> bool:
    """Whether a row's difference to ours is neither chance nor rounding."""
    to_ours = row.to_ours
    return to_ours is not None and to_ours.decided and abs(to_ours.difference) > SAME * rmse(row)


def rmse(row: Row) -> float:
    """The RMSE of a row; NaN if it has no score."""
    return row.accuracy.rmse if row.accuracy else float("nan")


def page(
    results: Sequence[TaskResult],
    ours: str,
    seeds: str,
    models: str,
    picture: str = "",
    rules: Mapping[str, Any] | None = None,
) -> str:
    """Render the page in Markdown: all real tasks together, a table per task, then folds; differences are to `ours`.

    `rules` is the table of `benchmarks.selection`.
    """
    real = [result for result in results if result.task.simulate is None]
    lines = ["# Accuracy on real and simulated readings", ""]
    lines += [*_sentences(real, ours), *_left_out(rules or {}), "", CAUTION]
    lines += [f"![RMSE of every method on every task, by the lowest there]({picture})", ""] if picture else []
    lines += ["## All real tasks", "", TOGETHER, *_methods(real, ours), "", *_tasks(real, ours)] if real else []
    lines += ["", *_chosen(real, ours)] if any(result.chosen for result in real) else []
    for name, part in by_set(results).items():
        lines += ["", f"## {name}"]
        for result in part:
            lines += ["", *_section(result, ours)]
    folded = [result for result in results if result.folds]
    lines += ["", "## Forward folds", "", FOLDS.rstrip()] if folded else []
    for result in folded:
        lines += ["", *_fold_section(result, ours)]
    return "\n".join([*lines, "", "## Protocol", "", PROTOCOL.format(seeds=seeds, models=models)])


def _methods(real: Sequence[TaskResult], ours: str) -> list[str]:
    """Tabulate all real tasks together, a line per method."""
    ratio_heads = ("RMSE ÷ best other", "each set once", "worst")
    head, lines = ("", *ratio_heads, "mean rank", "lowest on", f"significantly worse than {ours}"), []
    for name in methods(real, ours):
        found, places = ratios(real, name, ours), ranks(real, name)
        some = f" ({len(places)})" if len(places) < len(real) else ""
        means = [f"{mean:.3f}" for mean in (geometric_mean(found), mean_over_sets(real, name, ours))]
        worst, lowest = f"{max(found, default=np.nan):.2f}", str(sum(ratio < 1 for ratio in found))
        lost = "" if name == ours else str(sum(result.beaten(name, ours) for result in real))
        lines.append([name, *means, worst, f"{np.mean(places):.2f}{some}", lowest, lost])
    return _table(head, lines)


def _sentences(real: Sequence[TaskResult], ours: str) -> list[str]:
    """Say on how many tasks ours is lowest, and on which it is significantly worse than another."""
    if not any(ours in result.errors for result in real):
        return []
    lost = {result.task.name: losses for result in real if (losses := result.losses(ours))}
    plain = [name for name, losses in lost.items() if {*PLAIN} & {*losses}]
    found = ratios(real, ours, ours)
    lowest = sum(ratio < 1 for ratio in found)
    sentences = [
        f"`{ours}` has the lowest error on {lowest} of {len(real)} tasks, is significantly worse than another method on"
        f" {len(lost)}{_named(list(lost))}, and than a line or the raw reading on {len(plain)}{_named(plain)}."
        f" Its RMSE is {geometric_mean(found):.2f} times that of the best other method on a task (geometric mean;"
        f" {mean_over_sets(real, ours, ours):.2f} with every set counted once; at worst {max(found):.2f})."
    ]
    without = [ratio for result in real if (ratio := result.ratio_without_refit(ours)) is not None]
    if without:
        sentences.append(
            f"All methods are fitted to training and validation after validation has chosen. Compared with the best"
            f" baseline fitted to training alone, the ratio is {geometric_mean(without):.2f}, at worst"
            f" {max(without):.2f}."
        )
    return sentences


def _left_out(rules: Mapping[str, Any]) -> list[str]:
    """Say how accurate the result is if the rules of selection are chosen without the set that is scored."""
    if not rules:
        return []
    return [
        f"With four rules of selection chosen for each of {rules['sets']} sets by the other sets, it is"
        f" {rules['chosen by the other sets']:.2f} on {rules['tasks']} of the tasks (shipped rules:"
        f" {rules['shipped']:.2f}; every set counted once)."
        " [Other choices](../decisions/selection.md#what-was-measured) saw all sets: expect worse on a set of your own."
    ]


def _chosen(real: Sequence[TaskResult], ours: str) -> list[str]:
    """Tabulate what was chosen on each task, how long it took, and what it costs on a board."""
    lines, linear = [], 0
    for result in real:
        parts = result.chosen.get("parts", ())
        linear += bool(parts) and not {"trees", "network"} & {*parts}
        seconds = next((row.facts.get("fit_seconds") for row in result.rows if row.method == ours), None)
        cost = [f"{result.chosen[name]:,}" if name in result.chosen else "" for name in COSTS]
        lines.append([result.task.name, ", ".join(parts), f"{seconds:.0f}" if seconds else "", *cost])
    head = ("task", "mean of", "fit [s]", "instructions", "RAM [B]", "flash [B]")
    return ["## What was chosen", "", CHOSEN.format(linear=linear, tasks=len(real)), *_table(head, lines)]


def _named(names: Sequence[str]) -> str:
    """Names in brackets; empty if there are none."""
    return f" ({'; '.join(names)})" if names else ""


def _tasks(real: Sequence[TaskResult], ours: str) -> list[str]:
    """Tabulate all real tasks, a line each: ours, the best other method, their ratio, and significant losses."""
    head = ("set", "task", f"{ours}", "best other", "RMSE", "ratio", "significantly better than ours")
    lines = []
    for name, part in by_set(real).items():
        for index, result in enumerate(part):
            found, ratio = {one: f"{error:.4g}" for one, error in result.errors.items()}, result.ratio(ours, ours)
            best = next((other for other in found if other not in (ours, SINGLE)), "")
            errors = [found.get(ours, ""), best, found.get(best, ""), f"{ratio:.3f}" if ratio else ""]
            lines.append([name if index == 0 else "", result.task.name, *errors, ", ".join(result.losses(ours))])
    return _table(head, lines)


def _section(result: TaskResult, ours: str) -> list[str]:
    """Render one task: every method, also those that lost or failed."""
    simulated, lines = result.task.simulate, []
    best = best_achievable_rmse(simulated) if simulated and simulated.kind is SimulationKind.LINEAR else None
    if best is not None:
        lines = [f"The best achievable RMSE here, by Kalman filter, is {best:.4g}.", ""]
    head = ["", "RMSE", f"− {ours} [95 %]", "top-5 %", "parameters", *(["÷ best achievable"] if best else [])]
    winner = _winner(result.rows, ours)
    cells = [_cells(row, winner, best) for row in result.rows]
    return [f"### {result.task.name}", "", *lines, *_table(head, cells)]


def _winner(rows: Sequence[Row], ours: str) -> str:
    """Find the method in bold: its lead is significant and no rounding error; empty if there is none.

    The page's protocol says against which methods the lead is tested.
    """
    known = scored(rows)
    if len(known) < 2:
        return ""
    first, second = known[:2]
    if first.method == ours:
        others = [row for row in known[1:] if row.method != SINGLE]
        return ours if others and all(map(certain, others)) else ""
    decided = ours not in {row.method for row in known} or certain(first)
    return first.method if first.winner and decided and rmse(second) > (1 + SAME) * rmse(first) else ""


def _cells(row: Row, winner: str, best: float | None) -> list[str]:
    """Write a method's line of a task; `best` is the best achievable RMSE, if known."""
    name = f"**{row.method}**" if row.method == winner else row.method
    if row.accuracy is None or row.spread is None:
        return [name, f"no score: {row.failed}", "", "", "", *([""] if best else [])]
    spread = f" ± {row.spread.rmse:.2g}" if row.seeds > 1 else ""
    coverage = f" ({row.facts['coverage']:.0%} of rows)" if row.partial else ""
    cells = [name, f"{row.accuracy.rmse:.4g}{spread}{coverage}", _difference(row), f"{row.accuracy.top5_rmse:.4g}"]
    return [*cells, f"{row.facts['parameters']:,.0f}", *([f"{row.accuracy.rmse / best:.3f}"] if best else [])]


def _difference(row: Row) -> str:
    """Write the difference to ours with its interval, and a star if it is significant."""
    to_ours = row.to_ours
    if to_ours is None:
        return ""
    interval = f" [{to_ours.low:+.2g}, {to_ours.high:+.2g}]" if to_ours.known else ""
    return f"{to_ours.difference:+.2g}{interval}{'*' if certain(row) else ''}"


def _fold_section(result: TaskResult, ours: str) -> list[str]:
    """Render one task: means over folds, and in how many folds ours had the lower error."""
    folds = [{row.method: row for row in scored(rows)} for rows in result.folds]
    lines = []
    for name in dict.fromkeys(row.method for rows in result.folds for row in rows):
        found = [fold[name].accuracy for fold in folds if name in fold]
        mean, top5 = (
            float(np.mean([getattr(one, measure) for one in found])) if found else float("nan")
            for measure in ("rmse", "top5_rmse")
        )
        pairs = [(fold[ours], fold[name]) for fold in folds if {ours, name} <= fold.keys()]
        better = sum(rmse(own) < rmse(other) for own, other in pairs)
        wins = f"{better} of {len(pairs)}" if pairs and name != ours else ""
        lines.append((mean, (name, f"{mean:.4g}", f"{top5:.4g}", wins)))
    lines.sort(key=lambda line: (np.isnan(line[0]), line[0]))
    head = ("", "mean RMSE", "mean top-5 %", f"folds in which {ours} is better")
    return [f"### {result.task.name}, {len(folds)} folds", "", *_table(head, [cells for _, cells in lines])]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]


def draw_picture(results: Sequence[TaskResult], ours: str, path: Path) -> Path:
    """Write an SVG with a line per task and a dot per method; tasks are sorted by how ours does, the best on top."""
    ranked = sorted(results, key=lambda result: relative(result, ours).get(ours, LIMIT), reverse=True)
    names = [name for name in methods(results, ours) if name == ours or name != SINGLE]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 1.2 + 0.26 * len(ranked)), layout="constrained")
        for name in reversed(names):
            dots = [(relative(result, ours)[name], row) for row, result in enumerate(ranked) if name in result.errors]
            style = {"s": 22, "alpha": 0.75, "zorder": 2}
            if name == ours:
                style = {"color": OURS_COLOUR, "s": 60, "zorder": 3}
            axes.scatter(*zip(*dots, strict=True), label=name, **style)
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS[:-1]] + [f"≥ {LIMIT:g}"])
        axes.minorticks_off()
        axes.set_xlabel("RMSE ÷ the lowest RMSE on the task")
        axes.set_yticks(range(len(ranked)), [result.task.name for result in ranked])
        axes.grid(axis="y", color="#e4e4e4", zorder=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=5, frameon=False, reverse=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    return path


def relative(result: TaskResult, ours: str) -> dict[str, float]:
    """Divide the RMSE of each method by the lowest, up to `LIMIT`; leaves out our single network."""
    found = {name: error for name, error in result.errors.items() if name == ours or name != SINGLE}
    return {name: min(error / min(found.values()), LIMIT) for name, error in found.items()}
