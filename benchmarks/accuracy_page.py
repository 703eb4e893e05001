"""The page of accuracy.py: protocol, ranks, a table a task, forward folds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.accuracy_tasks import Task
from scare.data.simulate import Kind, best_achievable_rmse
from scare.experiments.table import Row

RIVAL, SINGLE = "ridge-boosting", "scare"
SAME = 1e-4  # of the RMSE: two that ended at the same ridge start differ by rounding

PROTOCOL = """\
Protocol, written before the numbers: tasks, splits and windows are those of `accuracy.toml`; training before the first
border, settings and checkpoints chosen between the borders, scores after the second. Nothing is chosen on test rows.
Networks run with {seeds} seeds (mean ± standard deviation of the seeds' scores), everything with its preset; `scare-3`
is one calibrator that averages three seeds and reads the window once. All are scored on the same rows. `top-5 %` is the
RMSE of the twentieth of the rows with the largest change of the raw reading. Differences have a 95 % interval from a
paired bootstrap of 3-hour blocks (`*`: it excludes zero; none under 8 blocks), not corrected for the number of rows. A
name in bold has the lowest error and an interval that excludes zero: `scare-3` to every other method (`scare` is the
same one), another to the second and to `scare-3`.

Added after the first run: no star where two differ by less than a ten-thousandth (both ended at the same ridge start);
simulated fleets, which are not in the ranks; forward folds.
The splits and most of the preset's recipe come from an earlier study on these same readings. Curve, blending,
scaling and settling were chosen later, on folds before the test periods, by people who had seen test scores of three
recipes before. So this page does not show what SCARE does on data that nobody has looked at.

Run here: {models}; the other rivals were not.
"""
FOLDS = """\
Tasks split by time, split again: the rows with a reference after the first 40 % are cut into equal parts, and each fold
trains on what is before a part, chooses on it, and is scored on the part after it. So folds train on less than the
tables above, the first one least; and these are the same readings, scored at other times. Means are over folds.
"""


@dataclass(frozen=True)
class Result:
    """The rows of a task, and of each of its forward folds."""

    task: Task
    rows: list[Row]
    folds: list[list[Row]] = field(default_factory=list)


def page(results: Sequence[Result], ours: str, seeds: int, models: str) -> str:
    """The results as Markdown: ranks, a table a task, then folds. Differences are to `ours`."""
    real = [result for result in results if result.task.simulate is None]
    lines = ["# Accuracy on real and simulated readings", "", PROTOCOL.format(seeds=seeds, models=models)]
    lines += _ranks(real, ours) if real else []
    for result in results:
        lines += ["", *_section(result, ours)]
    folded = [result for result in results if result.folds]
    lines += ["", "## Forward folds", "", FOLDS.rstrip()] if folded else []
    for result in folded:
        lines += ["", *_fold_section(result, ours)]
    return "\n".join(lines) + "\n"


def _ranks(real: Sequence[Result], ours: str) -> list[str]:
    listed = [result for result in real if result.task.listed]
    by_rank, earlier = _mean_ranks(real), _mean_ranks(listed)
    cells = [(name, earlier.get(name, ""), by_rank[name]) for name in earlier | by_rank]
    head = ("", f"{len(listed)} tasks of the earlier study", f"all {len(real)} real tasks")
    text = "Mean rank by RMSE; in brackets the number of tasks, where a row has no score on some."
    return ["## Mean rank", "", text, *_against(listed, ours), "", *_table(head, cells)]


def _mean_ranks(results: Sequence[Result]) -> dict[str, str]:
    """The mean rank of each contender, best first."""
    ranks: dict[str, list[int]] = {}
    for result in results:
        for rank, row in enumerate(_scored(result.rows), start=1):
            ranks.setdefault(row.contender, []).append(rank)
    ordered = sorted(ranks.items(), key=lambda item: float(np.mean(item[1])))
    return {
        name: f"{np.mean(found):.2f}" + (f" ({len(found)})" if len(found) < len(results) else "")
        for name, found in ordered
    }


def _against(listed: Sequence[Result], ours: str) -> list[str]:
    """On how many tasks we are better than the strongest yardstick, and on how many certainly worse."""
    pairs = [(found[ours], found[RIVAL]) for result in listed if {ours, RIVAL} <= (found := _by_name(result)).keys()]
    if not pairs:
        return []
    lower = sum(_rmse(own) < _rmse(rival) for own, rival in pairs)
    worse = sum(_certain(rival) and _rmse(rival) < _rmse(own) for own, rival in pairs)
    return [
        f"On the tasks of the earlier study `{ours}` is lower than `{RIVAL}` on {lower} of {len(pairs)}"
        f" and significantly worse on {worse}."
    ]


def _section(result: Result, ours: str) -> list[str]:
    """One task: every contender, losses and failures too."""
    simulated, lines = result.task.simulate, []
    best = best_achievable_rmse(simulated) if simulated and simulated.kind is Kind.LINEAR else None
    if best is not None:
        lines = [f"The best achievable RMSE here, by Kalman filter, is {best:.4g}.", ""]
    head = ["", "RMSE", f"− {ours} [95 %]", "top-5 %", "parameters", *(["÷ best achievable"] if best else [])]
    winner = _winner(result.rows, ours)
    cells = [_cells(row, winner, best) for row in result.rows]
    return [f"## {result.task.name}", "", *lines, *_table(head, cells)]


def _winner(rows: Sequence[Row], ours: str) -> str:
    """The contender whose lead is certain and no rounding error, or nobody."""
    scored = _scored(rows)
    if len(scored) < 2:
        return ""
    first, second = scored[:2]
    if first.contender == ours:
        others = [row for row in scored[1:] if row.contender != SINGLE]
        return ours if others and all(map(_certain, others)) else ""
    known = ours not in {row.contender for row in scored} or _certain(first)
    return first.contender if first.winner and known and _rmse(second) > (1 + SAME) * _rmse(first) else ""


def _cells(row: Row, winner: str, best: float | None) -> list[str]:
    name = f"**{row.contender}**" if row.contender == winner else row.contender
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
    return f"{found.difference:+.2g}{interval}{'*' if _certain(row) else ''}"


def _certain(row: Row) -> bool:
    """Whether a row's difference to ours is neither chance nor rounding."""
    found = row.to_ours
    return found is not None and found.decided and abs(found.difference) > SAME * _rmse(row)


def _fold_section(result: Result, ours: str) -> list[str]:
    """One task: means over folds, and how often ours had the lower error."""
    folds = [{row.contender: row for row in _scored(rows)} for rows in result.folds]
    lines = []
    for name in dict.fromkeys(row.contender for rows in result.folds for row in rows):
        found = [fold[name] for fold in folds if name in fold]
        pairs = [(fold[ours], fold[name]) for fold in folds if {ours, name} <= fold.keys()]
        better = sum(_rmse(own) < _rmse(other) for own, other in pairs)
        wins = f"{better} of {len(pairs)}" if pairs and name != ours else ""
        lines.append((_mean([_rmse(row) for row in found]), name, found, wins))
    head = ("", "mean RMSE", "mean top-5 %", f"folds in which {ours} is better")
    cells = [
        (name, f"{mean:.4g}", f"{_mean([_top5(row) for row in found]):.4g}", wins)
        for mean, name, found, wins in sorted(lines, key=lambda line: (np.isnan(line[0]), line[0]))
    ]
    return [f"### {result.task.name}, {len(folds)} folds", "", *_table(head, cells)]


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else float("nan")


def _by_name(result: Result) -> dict[str, Row]:
    return {row.contender: row for row in _scored(result.rows)}


def _scored(rows: Sequence[Row]) -> list[Row]:
    """The rows that have a score on what everyone is scored on, best first."""
    return sorted((row for row in rows if row.accuracy is not None and not row.partial), key=_rmse)


def _rmse(row: Row) -> float:
    return row.accuracy.rmse if row.accuracy else float("nan")


def _top5(row: Row) -> float:
    return row.accuracy.top5_rmse if row.accuracy else float("nan")


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
