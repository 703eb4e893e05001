"""What inputs alone can tell of lost accuracy: an oracle that is fitted to other sets, where references are known.

    python -m benchmarks.drift_oracle DATA [--work out/drift_oracle] [--out docs/benchmarks/drift_oracle.md] [--json]

A line is fitted to the training rows of each task. For each box and day after training, what the inputs show (evidence)
is compared with what the reference shows (loss: the logarithm of RMSE of the last days over that of the first days).
The oracle is ridge regression of the loss's rank on all evidence, fitted to all sets but the one that it is judged on.
What it cannot rank, no rule about these inputs can be expected to rank. Evidence of a task stays in `--work`.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.accuracy_tasks import load_tasks
from benchmarks.drift_fleets import fit_line
from benchmarks.drift_real import error_sums, mean_of_days, rank_correlation
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import derive_intervals
from scare.data.readings import CALIBRATED, Readings
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.upkeep.drift import Hours, align_boxes, assess, box_hours, drift_meter, expected_errors, periods, split_days

DAY = 86400.0
SETS = ("JRC", "Denver", "Antwerp", "Beijing", "QUANT", "Toucan", "miniDOT")
TRACKS = ("same box later", "after a year")
PENALTY = 1.0  # of ridge regression, for each set
USEFUL = 0.6  # rank correlation of the oracle from which on the drift alarm is asked to follow it
FEW_HOURS = 24
MOST_ROWS = 20_000  # that intervals are fitted to
OF_FLEET = ("neighbours", "gain", "humidity", "night", "response", "shift")
SHOWN = ("oracle", "expected", "units", "oracle, beyond the fleet", "units, beyond the fleet")
EVIDENCE = ("expected", "level", "spread", "PSI", "cross", *OF_FLEET, "age")


PAGE = Template("""# What readings tell of lost accuracy

How far can a box's loss of accuracy be ranked without a reference at all? An oracle that knows the references of all
other sets learns it from the readings. What it cannot rank on the set that was left out, no rule of
[`scare watch`](../watch.md) can be expected to rank.

Made by `python -m benchmarks.drift_oracle DATA --out docs/benchmarks/drift_oracle.md`; do not edit.

- On $useful of $count tasks the oracle ranks the loss at $USEFUL or better ($names). There the **expected error** that
  `scare watch` states, the width of a box's intervals in the air that it reads, ranks it at $expected in the median;
  the units of drift at $units.
- **What a box loses beyond its fleet** is ranked by the oracle at $least to $most on $fleets tasks: below $USEFUL on
  all. So it cannot be judged, and `watch` gives a schedule by age and kind of sensor instead.

## Tasks

Spearman rank correlations over boxes and days after training. *Loss*: the logarithm of RMSE of the last days over that
of the first. *Beyond the fleet*: minus the median of that day.

$tasks

- *oracle*: ridge regression of the loss's rank on all evidence below, fitted to the other sets.
- *expected*: the expected error of `scare watch`. *units*: those of its drift.
- Boxes are calibrated by a line, fitted to the training rows, with intervals from the same rows.
- No interval is given, because days overlap and boxes are few: JRC has nine days, miniDOT two tests of four days.

## Evidence

Of each piece alone, with the loss:

$evidence

- *level*, *spread*: change of the mean and of the spread of calibrated values. *PSI*: of the channels against training.
- *cross*: what the first channel does that the box's other channels do not explain, against the first days.
- *neighbours* to *shift*: as in [watch](../watch.md#what-is-compared), where at least two boxes read at once.
- *age*: days since training.
""")


@dataclass(frozen=True)
class Evidence:
    """What inputs and references showed of the boxes of a task, a row for each box and day."""

    task: str
    set: str
    boxes: int
    inputs: np.ndarray  # [rows, EVIDENCE]
    units: np.ndarray  # score of `scare watch` [rows]
    loss: np.ndarray  # [rows]
    beyond: np.ndarray  # loss minus the fleet's median of the day [rows]


def main() -> None:
    """Judge the oracle and each piece of evidence, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("out/drift_oracle"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    tasks = [one for one in load_tasks() if one.set in SETS and one.track in TRACKS]
    found = [evidence for task in tasks if (evidence := load(task, given.data, given.work)) is not None]
    rows = judge(found)
    if given.out:
        with replacing(given.out) as temporary:
            temporary.write_text(page(rows), encoding="utf-8")
    print(json.dumps(rows, indent=1) if given.json else page(rows))


def load(task: SuiteTask, data: Path, work: Path) -> Evidence | None:
    """Return the evidence of a task, from `work` if it is there; None if its readings are not available."""
    path = work / f"{task.name.replace(' ', '_').replace(',', '')}.npz"
    if not path.exists():
        if not (readings := read_task(task, data)):
            return None
        print(task.name, file=sys.stderr)
        found = collect(task, readings, data)
        with replacing(path) as temporary, temporary.open("wb") as file:
            arrays = {name: getattr(found, name) for name in ("inputs", "units", "loss", "beyond")}
            np.savez(file, boxes=found.boxes, **arrays)
    with np.load(path) as kept:
        numbers = {name: kept[name] for name in ("inputs", "units", "loss", "beyond")}
        return Evidence(task.name, task.set, int(kept["boxes"]), **numbers)


def collect(task: SuiteTask, readings: Sequence[Readings], data: Path) -> Evidence:
    """Fit a line to the training rows, and collect evidence and loss of each later day."""
    split = split_task(task, list(readings), data)
    calibrator = with_intervals(fit_line(split.train), split.train)
    first, last = (pick(one.times[end] for one in split.train) for pick, end in ((min, 0), (max, -1)))
    watched = [one.rows(one.times >= first) for one in readings]
    hours = align_boxes([(one.device, *box_hours(calibrator, one)) for one in watched])
    count = hours.values.shape[1]
    lengths, meter = split_days(count), drift_meter(calibrator)
    sums = np.stack([meter.sum_day(hours.values[:, day]) for day in range(count)], axis=1)
    totals = error_sums(calibrator, watched, hours, task.every)
    usual_days = slice(0, lengths[0])
    usual = np.sqrt(mean_of_days(totals[2], totals[0], usual_days))
    inputs, units, losses = [], [], []
    for day in range(max(sum(lengths) - 1, int(last // DAY) - hours.first + 1), count):
        recent_days = slice(day + 1 - lengths[1], day + 1)
        assessed = assess(periods(sums[:, : day + 1], meter, *lengths), meter)
        known = np.abs(np.nan_to_num(assessed.units))
        of_kind = {
            kind: known[:, [name.startswith(kind) for name in assessed.measures]].max(axis=1) for kind in OF_FLEET
        }
        own = [
            own_evidence(box[usual_days].reshape(-1, box.shape[-1]), box[recent_days].reshape(-1, box.shape[-1]))
            for box in hours.values
        ]
        psi = np.abs(np.nan_to_num(assessed.values))[:, [name.startswith("PSI") for name in assessed.measures]].max(
            axis=1
        )
        age = np.full(len(own), np.log1p(day + hours.first - last / DAY))
        level, spread, cross = np.array(own).T
        until = Hours(hours.devices, hours.first, hours.values[:, : day + 1])
        expected = np.nan_to_num(np.log(expected_errors(calibrator, until, lengths)))
        inputs.append(np.stack([expected, level, spread, psi, cross, *of_kind.values(), age], axis=1))
        units.append(assessed.scores)
        with np.errstate(divide="ignore", invalid="ignore"):
            losses.append(np.log(np.sqrt(mean_of_days(totals[2], totals[0], recent_days)) / usual))
    loss = np.array(losses)
    with np.errstate(invalid="ignore"):
        beyond = (
            loss
            - np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in loss])[
                :, None
            ]
        )
    usable = np.isfinite(loss)
    return Evidence(
        task.name,
        task.set,
        len(watched),
        np.array(inputs)[usable],
        np.array(units)[usable],
        loss[usable],
        beyond[usable],
    )


def with_intervals(calibrator: Calibrator, train: Sequence[Readings]) -> Calibrator:
    """Give a line intervals, as any trained calibrator has; from training, as many rows as are needed."""
    pairs = [(calibrator.predict(one)[CALIBRATED].fill_null(np.nan).to_numpy(), one.targets) for one in train]
    values, references = (np.concatenate(column) for column in zip(*pairs, strict=True))
    known = np.flatnonzero(np.isfinite(values) & np.isfinite(references))
    known = known[:: max(1, len(known) // MOST_ROWS)]
    return replace(calibrator, intervals=derive_intervals(values[known], references[known]))


def own_evidence(usual: np.ndarray, recent: np.ndarray) -> tuple[float, float, float]:
    """Return what a box shows by itself, from hours of the first and of the last days [hours, 1 + channels].

    These are the change of its mean calibrated value, the logarithm of the ratio of its spread, and the logarithm of
    the ratio of what the first channel does that the others do not explain.
    """
    known = [part[np.isfinite(part).all(axis=1)] for part in (usual, recent)]
    if min(map(len, known)) < FEW_HOURS:
        return 0.0, 0.0, 0.0
    level = float(known[1][:, 0].mean() - known[0][:, 0].mean())
    spread = float(np.log((known[1][:, 0].std() + 0.05) / (known[0][:, 0].std() + 0.05)))
    if usual.shape[1] < 3:  # no other channel
        return level, spread, 0.0
    design = [np.column_stack([part[:, 2:], np.ones(len(part))]) for part in known]
    weights, *_ = np.linalg.lstsq(design[0], known[0][:, 1], rcond=None)
    sizes = [np.sqrt(np.mean(np.square(part[:, 1] - x @ weights))) for part, x in zip(known, design, strict=True)]
    return level, spread, float(np.log((sizes[1] + 0.05) / (sizes[0] + 0.05)))


def judge(found: Sequence[Evidence]) -> list[dict[str, Any]]:
    """Return, for each task, rank correlations with the loss: of the oracle, the units, and each piece of evidence."""
    rows = []
    for one in found:
        others = [other for other in found if other.set != one.set]
        weights = {name: fit_oracle(others, name) for name in ("loss", "beyond")}
        row: dict[str, Any] = {"task": one.task, "boxes": one.boxes, "box-days": len(one.loss)}
        for name, (mean, scale, weight) in weights.items():
            suffix = ", beyond the fleet" if name == "beyond" else ""
            rank = np.clip((one.inputs - mean) / scale, -3, 3) @ weight
            # The median of one or two boxes is no fleet.
            truth = getattr(one, name) if name == "loss" or one.boxes > 2 else np.full(len(one.loss), np.nan)
            row[f"oracle{suffix}"] = rank_correlation(rank, truth)
            row[f"units{suffix}"] = rank_correlation(one.units, truth)
        row |= {name: rank_correlation(column, one.loss) for name, column in zip(EVIDENCE, one.inputs.T, strict=True)}
        rows.append(row)
    return rows


def fit_oracle(found: Sequence[Evidence], target: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit ridge regression of ranks on evidence, all tasks alike; return mean, scale and weights."""
    every = np.concatenate([one.inputs for one in found])
    mean, scale = every.mean(axis=0), every.std(axis=0) + 1e-9
    square, product = PENALTY * np.eye(every.shape[1]), np.zeros(every.shape[1])
    for one in found:
        ranks = rankdata(getattr(one, target)) / len(one.loss) - 0.5
        scaled = np.clip((one.inputs - mean) / scale, -3, 3)
        scaled = scaled - scaled.mean(axis=0)
        square += scaled.T @ scaled / len(one.loss)
        product += scaled.T @ ranks / len(one.loss)
    return mean, scale, np.linalg.solve(square, product)


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Render the page in Markdown."""
    useful = [row for row in rows if row["oracle"] >= USEFUL]
    beyond = [row["oracle, beyond the fleet"] for row in rows if np.isfinite(row["oracle, beyond the fleet"])]
    return PAGE.substitute(
        tasks=_table(("task", "boxes", "box-days", *SHOWN), rows),
        evidence=_table(("task", *EVIDENCE), rows),
        useful=len(useful),
        USEFUL=USEFUL,
        names=", ".join(row["task"] for row in useful),
        count=len(rows),
        expected=f"{np.median([row['expected'] for row in useful]):+.2f}",
        units=f"{np.median([row['units'] for row in useful]):+.2f}",
        least=f"{min(beyond):+.2f}",
        most=f"{max(beyond):+.2f}",
        fleets=len(beyond),
    )


def _table(head: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [list(head), ["---"] * len(head), *([_cell(row[name]) for name in head] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:+.2f}" if np.isfinite(value) else "–"
    return str(value)


if __name__ == "__main__":
    main()
