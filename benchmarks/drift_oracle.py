"""What inputs alone can tell of lost accuracy: an oracle that is fitted to other sets, where references are known.

    python -m benchmarks.drift_oracle DATA [--out docs/benchmarks/drift_oracle.md] [--json]

A line is fitted to the training rows of each task. For each box and day after training, what the inputs show (evidence)
is compared with what the reference shows (loss: the logarithm of RMSE of the last days over that of the first days).
The oracle is ridge regression of the loss's rank on all evidence, fitted to all sets but the one that it is judged on.
What it cannot rank, no rule about these inputs can be expected to rank.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.drift_neighbours import NEARBY, TIED, neighbour_units
from benchmarks.drift_real import DAY, WatchedTask, rank_correlation, watch_tasks
from benchmarks.network_real import RealSet, read_sets
from scare.files import replacing

PENALTY = 1.0  # of ridge regression, for each set
USEFUL = 0.6  # rank correlation of the oracle from which on `scare watch` is asked to follow it
FEW_HOURS = 24
OF_FLEET = ("neighbours", "gain", "humidity", "night", "response", "shift")
SHOWN = ("oracle", "shown", "expected", "units", "oracle, beyond the fleet", "units, beyond the fleet")
EVIDENCE = ("expected", "level", "spread", "cross", *OF_FLEET, "age")
THROUGH = (NEARBY, TIED)


PAGE = Template("""# What readings tell of lost accuracy

How far can a box's loss of accuracy be ranked without a reference at all? An oracle that knows the references of all
other sets learns it from the readings. What it cannot rank on the set that was left out, no rule of
[`scare watch`](../watch.md) can be expected to rank.

Made by `python -m benchmarks.drift_oracle DATA --out docs/benchmarks/drift_oracle.md`; do not edit.

- On $useful of $count tasks the oracle ranks the loss at $USEFUL or better ($names). There **the order in which
  `scare watch` lists boxes**, by alarm and then by the expected error, ranks it at $shown in the median (between
  $lowest and $highest); the expected error alone at $expected, the units of drift at $units.
- The order ranks the loss at $all_shown in the median of the $ordered tasks that it orders at all, below zero on
  $below.
- **What a box loses beyond its fleet** is ranked by the oracle at $least to $most on $fleets tasks: below $USEFUL on
  all. So it cannot be judged, and `watch` gives a schedule by age and kind of sensor instead.

## Tasks

Spearman rank correlations over boxes and days after training. *Loss*: the logarithm of RMSE of the last days over that
of the first. *Beyond the fleet*: minus the median of that day.

$tasks

- *oracle*: ridge regression of the loss's rank on all evidence below, fitted to the other sets.
- *shown*: what a user sees. An alarm (`re-collocate`, then `look`) comes before none, then the larger expected error.
- *expected*: the expected error of `scare watch`. *units*: those of its drift.
- Boxes are calibrated by a line, fitted to the training rows, with intervals from the same rows. Intervals of one width
  (QUANT O3, miniDOT) give no order.
- No interval is given, because days overlap and boxes are few: JRC has nine days, miniDOT two tests of four days.

## Evidence

Of each piece alone, with the loss:

$evidence

- *level*, *spread*: change of the mean and of the spread of calibrated values.
- *cross*: what the first channel does that the box's other channels do not explain, against the first days.
- *neighbours* to *shift*: as in [watch](../watch.md#what-is-compared), where at least three boxes read at once.
- *age*: days since training.

## Neighbours in the graph

Where it is known where boxes stand, a box can be compared with its neighbours instead of all boxes. Both columns of
each pair are rank correlations, with the loss and beyond the fleet:

$through

- *all*: level and gain relative to the median of all boxes, as in `scare watch`.
- *nearby*: relative to the mean of the others, weighted by exp(−distance / 3 km).
- *tied*: relative to what each other box predicts by the pair's line of the first days, weighted by how exact it was
  and by distance, as the graph of `scare network` ties them.
- *oracle with them*: the oracle of the loss with both as further evidence, fitted to the other sets.

Neighbours change the median of the oracle on these tasks from $without to $with_them. That adds nothing that a user
could see, so `scare watch` takes no table of sites.
""")


@dataclass(frozen=True)
class Evidence:
    """What inputs and references showed of the boxes of a task, a row for each box and day."""

    task: str
    set: str
    boxes: int
    inputs: np.ndarray  # [rows, EVIDENCE]
    shown: np.ndarray  # the order of `scare watch` [rows]
    units: np.ndarray  # of drift [rows]
    loss: np.ndarray  # [rows]
    beyond: np.ndarray  # loss minus the fleet's median of the day [rows]
    through: np.ndarray | None = None  # relative to neighbours [rows, THROUGH]; None where it is not known who they are


def main() -> None:
    """Judge the oracle and each piece of evidence, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sets = [found for found, _ in read_sets(given.data) if found.name.split()[0] in ("JRC", "Denver", "Antwerp")]
    rows = judge([collect(one, sets) for one in watch_tasks(given.data)])
    if given.out:
        with replacing(given.out) as temporary:
            temporary.write_text(page(rows), encoding="utf-8")
    print(json.dumps(rows, indent=1) if given.json else page(rows))


def collect(one: WatchedTask, sets: Iterable[RealSet]) -> Evidence:
    """Collect the evidence of a task."""
    usual = slice(0, one.lengths[0])
    own = np.array(
        [
            [own_evidence(_rows(box[usual]), _rows(box[day + 1 - one.lengths[1] : day + 1])) for day in one.days]
            for box in one.hours.values
        ]
    )  # [boxes, days, 3]
    since = np.log1p(np.array(one.days) + one.hours.first - one.trained_until / DAY)
    age = np.broadcast_to(since, one.loss.shape)
    columns = [np.nan_to_num(one.expected), *np.moveaxis(own, -1, 0), *map(one.measure, OF_FLEET), age]
    neighbours = neighbour_units(one, sets)
    known = np.isfinite(one.loss)
    return Evidence(
        one.task,
        one.set,
        one.boxes,
        np.stack(columns, axis=-1)[known],
        one.order[known],
        one.units[known],
        one.loss[known],
        one.beyond[known],
        None if neighbours is None else np.stack([neighbours[kind] for kind in THROUGH], axis=-1)[known],
    )


def _rows(days: np.ndarray) -> np.ndarray:
    """Join the hours of days [days, 24, 1 + channels] to [hours, 1 + channels]."""
    return days.reshape(-1, days.shape[-1])


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
    """Return, for each task, rank correlations with the loss: of the oracle, of what is shown, of each piece alone."""
    further = [with_neighbours(one) for one in found]
    rows = []
    for one, more in zip(found, further, strict=True):
        # The median of one or two boxes is no fleet.
        beyond = one.beyond if one.boxes > 2 else np.full(len(one.loss), np.nan)
        row: dict[str, Any] = {"task": one.task, "boxes": one.boxes, "box-days": len(one.loss)}
        row["oracle"] = rank_correlation(predict(one, found, "loss"), one.loss)
        row["oracle, beyond the fleet"] = rank_correlation(predict(one, found, "beyond"), beyond)
        row |= {"shown": rank_correlation(one.shown, one.loss), "units": rank_correlation(one.units, one.loss)}
        row["units, beyond the fleet"] = rank_correlation(one.units, beyond)
        row |= {name: rank_correlation(column, one.loss) for name, column in zip(EVIDENCE, one.inputs.T, strict=True)}
        if one.through is not None:
            row["oracle with them"] = rank_correlation(predict(more, further, "loss"), one.loss)
            level_and_gain = one.inputs[:, [EVIDENCE.index(name) for name in ("neighbours", "gain")]].max(axis=1)
            for name, column in zip(("all", *THROUGH), (level_and_gain, *one.through.T), strict=True):
                row[name], row[f"{name}, beyond"] = (rank_correlation(column, truth) for truth in (one.loss, beyond))
        rows.append(row)
    return rows


def with_neighbours(one: Evidence) -> Evidence:
    """Add the evidence through neighbours to the inputs, zeros where it is not known who they are."""
    through = np.zeros((len(one.loss), len(THROUGH))) if one.through is None else one.through
    return replace(one, inputs=np.concatenate([one.inputs, through], axis=1))


def predict(one: Evidence, found: Sequence[Evidence], target: str) -> np.ndarray:
    """Rank a task's rows by the oracle that was fitted to the other sets."""
    mean, scale, weights = fit_oracle([other for other in found if other.set != one.set], target)
    return np.asarray(np.clip((one.inputs - mean) / scale, -3, 3) @ weights)


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
    ranked = [row["shown"] for row in rows if np.isfinite(row["shown"])]
    beyond = [row["oracle, beyond the fleet"] for row in rows if np.isfinite(row["oracle, beyond the fleet"])]
    through = [row for row in rows if "oracle with them" in row]
    pairs = [name for kind in ("all", *THROUGH) for name in (kind, f"{kind}, beyond")]

    def middle(name: str, some: Sequence[Mapping[str, Any]]) -> str:
        return f"{np.median([row[name] for row in some]):+.2f}" if some else "–"

    return PAGE.substitute(
        tasks=_table(("task", "boxes", "box-days", *SHOWN), rows),
        evidence=_table(("task", *EVIDENCE), rows),
        through=_table(("task", *pairs, "oracle", "oracle with them"), through),
        without=middle("oracle", through),
        with_them=middle("oracle with them", through),
        useful=len(useful),
        USEFUL=USEFUL,
        names=", ".join(row["task"] for row in useful),
        count=len(rows),
        shown=middle("shown", useful),
        lowest=f"{min(row['shown'] for row in useful):+.2f}",
        highest=f"{max(row['shown'] for row in useful):+.2f}",
        expected=middle("expected", useful),
        units=middle("units", useful),
        all_shown=f"{np.median(ranked):+.2f}",
        ordered=len(ranked),
        below=sum(rank < 0 for rank in ranked),
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
