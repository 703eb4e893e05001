"""The page of accuracy.py: protocol, all tasks together, a table per task by set, forward folds."""

from collections.abc import Sequence

import numpy as np

from benchmarks.accuracy_results import (
    SAME,
    SINGLE,
    TaskResult,
    by_set,
    certain,
    geometric_mean,
    mean_over_sets,
    methods,
    ranks,
    ratios,
    rmse,
    scored,
)
from scare.data.simulate import SimulationKind, best_achievable_rmse
from scare.experiments.table import Row

PLAIN = ("linear", "raw")  # these must never be significantly better

PROTOCOL = """\
Protocol, written before the numbers: tasks, splits and windows are those of `accuracy.toml`; training before the first
border, settings and checkpoints chosen between the borders, scores after the second. Nothing is fitted to test rows.
Networks run with {seeds}, shown as mean ± standard deviation of their scores; everything with its preset; `scare-3`
is one calibrator that averages three seeds and reads the window once. All are scored on the same rows. `top-5 %` is the
RMSE of the twentieth of the rows with the largest change of the raw reading. Differences have a 95 % interval from a
paired bootstrap of 3-hour blocks (`*`: it excludes zero; none under 8 blocks), not corrected for the number of rows. A
name in bold has the lowest error and an interval that excludes zero: `scare-3` to every other method (`scare` is the
same one), another to the second and to `scare-3`.

Added after the first run: no star where two differ by less than a ten-thousandth (both ended at the same ridge start);
simulated fleets, which are not in the ranks; forward folds.
What is above holds within a run: no method sees test rows. It does not hold for how `scare` came to be. The splits and
most of the preset's recipe come from an earlier study on these same readings. Curve, scaling and settling were chosen
later, on folds before the test periods, by people who had seen test scores of three recipes before. That models are
selected, and from which candidates, comes from a study in part on these sets. Its thresholds and how the network gets
its blend weight were then compared by leaving out whole sets; what the other sets choose is worth less on a set
left out than what is shipped here ([by how much](../decisions/default.md#chosen-without-the-set)). So this page
flatters `scare` against the others.

Run here: {models}.
"""
CAUTION = """\
The defaults of `scare` were chosen with these tasks in view, so this page flatters it against the others
([how](#protocol)). A ratio of 1 is the best other method on a task.
"""
TOGETHER = """\
A ratio is the RMSE of a method ÷ that of the best other one on a task (`scare` and `scare-3` are one method), its mean
geometric: over tasks, and over sets, whose tasks share readings and are not independent. In brackets the number of
tasks, where a method has no score on some.
"""
FOLDS = """\
Tasks split by time, split again: the rows with a reference after the first 40 % are cut into equal parts, and each fold
trains on what is before a part, chooses on it, and is scored on the part after it. So folds train on less than the
tables above, the first one least; and these are the same readings, scored at other times. Means are over folds.
"""


def page(results: Sequence[TaskResult], ours: str, seeds: str, models: str, picture: str = "") -> str:
    """The results as Markdown: all real tasks together, a table a task, then folds. Differences are to `ours`."""
    real = [result for result in results if result.task.simulate is None]
    lines = ["# Accuracy on real and simulated readings", ""]
    lines += [*_sentences(real, ours), "", CAUTION]
    lines += [f"![RMSE of every method on every task, by the lowest there]({picture})", ""] if picture else []
    lines += ["## All real tasks", "", TOGETHER, *_methods(real, ours), "", *_tasks(real, ours)] if real else []
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
    means = ("RMSE ÷ best other", "each set once", "worst")
    head = ("", *means, "mean rank", "lowest on", f"significantly worse than {ours}")
    return _table(head, [_method(real, ours, name) for name in methods(real, ours)])


def _method(real: Sequence[TaskResult], ours: str, name: str) -> list[str]:
    found, places = ratios(real, name, ours), ranks(real, name)
    some = f" ({len(places)})" if len(places) < len(real) else ""
    means = [f"{mean:.3f}" for mean in (geometric_mean(found), mean_over_sets(real, name, ours))]
    worst, lowest = f"{max(found, default=np.nan):.2f}", str(sum(ratio < 1 for ratio in found))
    lost = "" if name == ours else str(sum(result.beaten(name, ours) for result in real))
    return [name, *means, worst, f"{np.mean(places):.2f}{some}", lowest, lost]


def _sentences(real: Sequence[TaskResult], ours: str) -> list[str]:
    """On how many tasks ours is lowest, and on which it is significantly worse than another."""
    if not any(ours in result.errors for result in real):
        return []
    lost = {result.task.name: losses for result in real if (losses := result.losses(ours))}
    plain = [name for name, losses in lost.items() if {*PLAIN} & {*losses}]
    lowest = sum(ratio < 1 for ratio in ratios(real, ours, ours))
    return [
        f"`{ours}` has the lowest error on {lowest} of {len(real)} tasks, is significantly worse than another method on"
        f" {len(lost)}{_named(list(lost))}, and than a line or the raw reading on {len(plain)}{_named(plain)}."
    ]


def _named(names: Sequence[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""


def _tasks(real: Sequence[TaskResult], ours: str) -> list[str]:
    head = ("set", "task", f"{ours}", "best other", "RMSE", "ratio", "significantly better than ours")
    return _table(
        head,
        [
            _task(result, ours, name, not index)
            for name, part in by_set(real).items()
            for index, result in enumerate(part)
        ],
    )


def _task(result: TaskResult, ours: str, name: str, first: bool) -> list[str]:
    found = result.errors
    best = next((other for other in found if other not in (ours, SINGLE)), "")
    ratio = result.ratio(ours, ours)
    errors = [_number(found.get(ours)), best, _number(found.get(best))]
    return [name * first, result.task.name, *errors, f"{ratio:.3f}" if ratio else "", ", ".join(result.losses(ours))]


def _number(error: float | None) -> str:
    return "" if error is None else f"{error:.4g}"


def _section(result: TaskResult, ours: str) -> list[str]:
    """One task: every method, losses and failures too."""
    simulated, lines = result.task.simulate, []
    best = best_achievable_rmse(simulated) if simulated and simulated.kind is SimulationKind.LINEAR else None
    if best is not None:
        lines = [f"The best achievable RMSE here, by Kalman filter, is {best:.4g}.", ""]
    head = ["", "RMSE", f"− {ours} [95 %]", "top-5 %", "parameters", *(["÷ best achievable"] if best else [])]
    winner = _winner(result.rows, ours)
    cells = [_cells(row, winner, best) for row in result.rows]
    return [f"### {result.task.name}", "", *lines, *_table(head, cells)]


def _winner(rows: Sequence[Row], ours: str) -> str:
    """The method whose lead is significant and no rounding error; empty if there is none."""
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
    name = f"**{row.method}**" if row.method == winner else row.method
    if row.accuracy is None or row.spread is None:
        return [name, f"no score: {row.failed}", "", "", "", *([""] if best else [])]
    spread = f" ± {row.spread.rmse:.2g}" if row.seeds > 1 else ""
    coverage = f" ({row.facts['coverage']:.0%} of rows)" if row.partial else ""
    cells = [name, f"{row.accuracy.rmse:.4g}{spread}{coverage}", _difference(row), f"{row.accuracy.top5_rmse:.4g}"]
    return [*cells, f"{row.facts['parameters']:,.0f}", *([f"{row.accuracy.rmse / best:.3f}"] if best else [])]


def _difference(row: Row) -> str:
    found = row.to_ours
    if found is None:
        return ""
    interval = f" [{found.low:+.2g}, {found.high:+.2g}]" if found.known else ""
    return f"{found.difference:+.2g}{interval}{'*' if certain(row) else ''}"


def _fold_section(result: TaskResult, ours: str) -> list[str]:
    """One task: means over folds, and how often ours had the lower error."""
    folds = [{row.method: row for row in scored(rows)} for rows in result.folds]
    lines = []
    for name in dict.fromkeys(row.method for rows in result.folds for row in rows):
        found = [fold[name] for fold in folds if name in fold]
        pairs = [(fold[ours], fold[name]) for fold in folds if {ours, name} <= fold.keys()]
        better = sum(rmse(own) < rmse(other) for own, other in pairs)
        wins = f"{better} of {len(pairs)}" if pairs and name != ours else ""
        lines.append((_mean([rmse(row) for row in found]), name, found, wins))
    head = ("", "mean RMSE", "mean top-5 %", f"folds in which {ours} is better")
    cells = [
        (name, f"{mean:.4g}", f"{_mean([_top5(row) for row in found]):.4g}", wins)
        for mean, name, found, wins in sorted(lines, key=lambda line: (np.isnan(line[0]), line[0]))
    ]
    return [f"### {result.task.name}, {len(folds)} folds", "", *_table(head, cells)]


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else float("nan")


def _top5(row: Row) -> float:
    return row.accuracy.top5_rmse if row.accuracy else float("nan")


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
